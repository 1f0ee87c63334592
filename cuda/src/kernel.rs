//! Generated kernels: their text, how they are launched, and the jobs that they make up.

use super::scalar;
use ovolo::tensor::DType;
use std::collections::BTreeSet;

/// Threads of a block, unless a kernel says otherwise.
pub(super) const BLOCK: usize = 256;

/// How many blocks, and of how many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks along x and y.
    pub grid: [u32; 2],
    /// Threads along x and y.
    pub block: [u32; 2],
}

impl Launch {
    /// Blocks of the usual size along x.
    pub(super) fn line(blocks: usize) -> Result<Self, String> {
        Self::plane(blocks, 1, [BLOCK, 1])
    }

    /// Blocks in two directions.
    pub(super) fn plane(x: usize, y: usize, block: [usize; 2]) -> Result<Self, String> {
        let grid = [x, y].map(|n| u32::try_from(n).ok().filter(|n| *n < 1 << 31));
        match grid {
            [Some(x), Some(y)] if y < 1 << 16 => {
                Ok(Self { grid: [x, y], block: block.map(|n| u32::try_from(n).unwrap_or(1)) })
            }
            _ => Err(format!("{x} x {y} blocks are more than a grid has")),
        }
    }
}

/// What a kernel's parameter points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// An operand of the call.
    Input(usize),
    /// The result.
    Output,
    /// The scratch of the job.
    Scratch,
}

/// A kernel in CUDA C++. The same work has the same text, whatever its names: shapes are in it as far as
/// they matter, and nothing else is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its name: what kind it is, and the first digits of the digest of its text.
    pub name: String,
    /// Its text, with the name in it.
    pub text: String,
    /// The parts of the prelude that it takes.
    pub needs: BTreeSet<&'static str>,
    /// How it is launched.
    pub launch: Launch,
    /// What its parameters point at.
    pub arguments: Vec<Argument>,
}

/// A parameter of a kernel.
pub(super) struct Parameter {
    /// Its name in the text.
    pub name: String,
    /// The type of its elements.
    pub dtype: DType,
    /// What it points at.
    pub argument: Argument,
    /// Whether nothing else is written where it points, so that reads may go through the read-only cache.
    pub apart: bool,
}

/// Puts a kernel together.
pub(super) fn kernel(
    kind: &str,
    parameters: &[Parameter],
    writer: super::write::Writer,
    launch: Launch,
) -> Kernel {
    let (body, mut needs) = writer.finish();
    let list: Vec<String> = parameters
        .iter()
        .map(|it| {
            needs.extend(scalar::prelude(it.dtype));
            let constant = if matches!(it.argument, Argument::Input(_)) { "const " } else { "" };
            let apart = if it.apart { "__restrict__ " } else { "" };
            format!("{constant}{}* {apart}{}", scalar::memory(it.dtype), it.name)
        })
        .collect();
    let threads = launch.block[0] * launch.block[1];
    // Told of the two blocks that must fit, the assembler keeps values in registers; left to its own guess of
    // how many should, it spills some.
    let bounds = format!("{threads}, 2");
    let signature = |name: &str| {
        format!("extern \"C\" __global__ void __launch_bounds__({bounds}) {name}({})", list.join(", "))
    };
    let digest = blake3::hash(format!("{}{body}", signature("")).as_bytes()).to_hex();
    let name = format!("{kind}_{}", &digest[..12]);
    Kernel {
        text: format!("{} {{\n{body}}}\n", signature(&name)),
        name,
        needs,
        launch,
        arguments: parameters.iter().map(|it| it.argument).collect(),
    }
}

/// What computes the result of one call: kernels in order, and the scratch that they share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// The kernels; none where the result has no elements.
    pub kernels: Vec<Kernel>,
    /// Bytes that hold what one kernel leaves to the next.
    pub scratch: usize,
    /// Operands whose buffer the result may take: each thread reads of them what it writes.
    pub in_place: Vec<usize>,
}
