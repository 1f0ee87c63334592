//! Generated kernels: their text, their launches, and the jobs that consist of them.

use super::scalar;
use ovolo::tensor::DType;
use std::collections::BTreeSet;

/// The number of threads in a block, unless a kernel says otherwise.
pub(super) const BLOCK: usize = 256;

/// The number of blocks, and of threads in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The blocks along x and y.
    pub grid: [u32; 2],
    /// The threads along x and y.
    pub block: [u32; 2],
}

impl Launch {
    /// Returns a launch of blocks of the usual size along x.
    pub(super) fn line(blocks: usize) -> Result<Self, String> {
        Self::plane(blocks, 1, [BLOCK, 1])
    }

    /// Returns a launch of blocks along x and y.
    pub(super) fn plane(x: usize, y: usize, block: [usize; 2]) -> Result<Self, String> {
        let grid = [x, y].map(|n| u32::try_from(n).ok().filter(|n| *n < 1 << 31));
        match grid {
            [Some(x), Some(y)] if y < 1 << 16 => {
                Ok(Self { grid: [x, y], block: block.map(|n| u32::try_from(n).unwrap_or(1)) })
            }
            _ => Err(format!("{x} x {y} blocks are more than a grid supports")),
        }
    }
}

/// What a kernel's parameter points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// An operand of the call.
    Input(usize),
    /// The result.
    Output,
    /// The scratch memory of the job.
    Scratch,
}

/// A kernel in CUDA C++. Equal work has equal text, independently of the names in the model: the text depends only on
/// the parts of the shapes that matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSource {
    /// The name: the kind of kernel, and the first digits of the digest of its text.
    pub name: String,
    /// The text, which contains the name.
    pub text: String,
    /// The parts of the prelude that the text uses.
    pub needs: BTreeSet<&'static str>,
    /// How the kernel is launched.
    pub launch: Launch,
    /// What the parameters point to.
    pub arguments: Vec<Argument>,
}

/// A parameter of a kernel.
pub(super) struct Parameter {
    /// The name in the text.
    pub name: String,
    /// The type of its elements.
    pub dtype: DType,
    /// What it points to.
    pub argument: Argument,
    /// Whether the kernel writes nothing to this memory, so that reads may use the read-only cache.
    pub apart: bool,
}

/// Assembles a kernel from its parameters and its body.
pub(super) fn kernel(
    kind: &str,
    parameters: &[Parameter],
    writer: super::write::Writer,
    launch: Launch,
) -> KernelSource {
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
    // With a minimum of two blocks per multiprocessor the assembler keeps all values in registers. Without it, its
    // own heuristic spills some of them.
    let bounds = format!("{threads}, 2");
    let signature = |name: &str| {
        format!("extern \"C\" __global__ void __launch_bounds__({bounds}) {name}({})", list.join(", "))
    };
    let digest = blake3::hash(format!("{}{body}", signature("")).as_bytes()).to_hex();
    let name = format!("{kind}_{}", &digest[..12]);
    KernelSource {
        text: format!("{} {{\n{body}}}\n", signature(&name)),
        name,
        needs,
        launch,
        arguments: parameters.iter().map(|it| it.argument).collect(),
    }
}

/// The kernels that compute the result of one call in order, with the scratch memory that they share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelJob {
    /// The kernels; empty if the result has no elements.
    pub kernels: Vec<KernelSource>,
    /// The scratch bytes for data that one kernel passes to the next.
    pub scratch: usize,
    /// The operands whose buffer the result may take: each thread reads only those elements that it writes.
    pub in_place: Vec<usize>,
}
