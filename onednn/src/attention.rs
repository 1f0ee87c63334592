//! Attention as a graph of operations, which the library divides into partitions.
//!
//! Version 3.1 divides it into three: the scores, softmax, and the mean of the values. A thread computes some heads at
//! a time, so that their scores stay in its cache.

mod program;
mod run;

use super::Call;
use super::work::{part, threads};
use onednn_sys::Library;
use ovolo::backend::Contract;
use ovolo::op::attention::AxisOrder;
use ovolo::op::{KernelChoice, Lowering, OpError};
use ovolo::tensor::{DType, TensorType};
use program::{Needs, Program};
use run::{Heads, Offsets, Slot};
use std::sync::Mutex;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[Lowering {
    choices: |call| Division::new(call).map_or_else(|_| Vec::new(), |division| division.choices(call)),
    ..Lowering::new(
        "onednn.attention",
        "attention",
        |call| library_and(call, Division::contract),
        |call| Ok(Box::new(library_and(call, Division::kernel)?)),
    )
}];

fn library_and<R>(
    call: &Call<'_>,
    by: fn(Division, &'static Library, &Call<'_>) -> Result<R, OpError>,
) -> Result<R, OpError> {
    by(Division::new(call)?, onednn_sys::library().map_err(OpError::backend)?, call)
}

/// The most bytes of scores that a thread computes at a time, if they are of more than one head: half of a small core's
/// second cache, since softmax reads one such block and writes another.
const SCORES: usize = 256 << 10;
/// The bytes of an element.
const SIZE: usize = size_of::<f32>();
/// The number of the mask among the operands.
const MASK: usize = 3;

/// The sizes of attention, and its division between threads.
struct Division {
    batches: usize,
    heads: usize,
    queries: usize,
    keys: usize,
    depth: usize,
    width: usize,
    order: AxisOrder,
    /// The heads that are computed at a time.
    group: usize,
    threads: usize,
}

/// Some adjacent heads of one image or sentence.
#[derive(Clone, Copy)]
struct Job {
    batch: usize,
    head: usize,
    heads: usize,
}

impl Division {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        if call.output.dtype != DType::F32 {
            return Err(OpError::kernel(format!(
                "the element type is {}: f32 is supported",
                call.output.dtype
            )));
        }
        if call.inputs.iter().chain([&call.output]).any(|ty| ty.shape.contains(&0)) {
            return Err(OpError::kernel("a dimension is 0"));
        }
        if call.attrs.expect_int("nan_as_zero") == 1 {
            return Err(OpError::kernel("the library's softmax does not replace NaN by 0"));
        }
        let order = AxisOrder::new(call.attrs)?;
        let [q, k, v] = [0, 1, 2].map(|operand| order.sizes(&call.inputs[operand].shape));
        let [batches, heads, queries, depth] = q;
        let (keys, width) = (k[2], v[3]);
        let group = (SCORES / (queries * keys * SIZE)).clamp(1, heads);
        let operations = batches * heads * queries * keys * (depth + width);
        let threads = threads(call, operations);
        // No thread has more heads at a time than its share.
        let group = group.min((batches * heads).div_ceil(threads)).max(1);
        Ok(Self { batches, heads, queries, keys, depth, width, order, group, threads })
    }

    /// Returns the parts of the work, in the order in which they lie in the result.
    fn jobs(&self) -> Vec<Job> {
        let heads = || (0..self.heads).step_by(self.group);
        (0..self.batches)
            .flat_map(|batch| {
                heads().map(move |head| Job { batch, head, heads: self.group.min(self.heads - head) })
            })
            .collect()
    }

    /// Returns what is decided here.
    fn choices(&self, call: &Call<'_>) -> Vec<KernelChoice> {
        let jobs = self.jobs().len();
        let division = format!(
            "{} of {} have a part, in {jobs} runs of the library for {} head(s) each",
            self.threads.min(jobs),
            call.threads,
            self.group
        );
        vec![KernelChoice::new("threads", division)]
    }

    /// Returns the numbers by which the graphs for some heads differ.
    fn key(&self, call: &Call<'_>, heads: usize) -> Vec<usize> {
        #[allow(clippy::float_cmp)]
        let scaled = usize::from(call.attrs.expect_float("scale") != 1.0);
        let mut key = vec![heads, self.queries, self.keys, self.depth, self.width, scaled];
        for ty in call.inputs[..MASK].iter().copied().chain([call.output]) {
            key.extend(self.order.strides(&ty.shape));
        }
        if let Some(mask) = call.inputs.get(MASK) {
            let (sizes, strides) = broadcast(mask);
            key.extend([sizes, strides].concat());
        }
        key
    }

    fn contract(self, library: &'static Library, call: &Call<'_>) -> Result<Contract, OpError> {
        let jobs = self.jobs();
        let mut counts: Vec<usize> = jobs.iter().map(|job| job.heads).collect();
        counts.sort_unstable();
        counts.dedup();
        let needs: Vec<Needs> = counts
            .into_iter()
            .map(|heads| Needs::of(&self, library, call, heads))
            .collect::<Result<_, _>>()?;
        let largest = needs.iter().map(|needs| needs.scratch).max().unwrap_or(0);
        let partitions = needs.iter().map(|needs| needs.partitions).max().unwrap_or(0);
        Ok(Contract {
            implementation: format!("partitions:{partitions}"),
            scratch: largest * self.threads.min(jobs.len()),
            ..Contract::default()
        })
    }

    fn kernel(self, library: &'static Library, call: &Call<'_>) -> Result<Heads, OpError> {
        let jobs = self.jobs();
        let slots = self.threads.min(jobs.len());
        #[allow(clippy::cast_possible_truncation)]
        let scale = call.attrs.expect_float("scale") as f32;
        let mut made = Vec::new();
        let mut scratch = 0;
        for slot in 0..slots {
            let own = &jobs[part(jobs.len(), slots, slot, 1)];
            let mut programs: Vec<(usize, Program)> = Vec::new();
            for job in own {
                if programs.iter().all(|(heads, _)| *heads != job.heads) {
                    programs.push((job.heads, Program::new(&self, library, call, job.heads)?));
                }
            }
            scratch = programs.iter().map(|(_, program)| program.needs.scratch).fold(scratch, usize::max);
            let runs = own.iter().map(|job| (job.heads, self.offsets(call, *job))).collect();
            made.push(Mutex::new(Slot::new(programs, runs)));
        }
        Ok(Heads { slots: made, scratch, scale })
    }

    /// Returns the bytes to the first element of a job in each operand, and in the result.
    fn offsets(&self, call: &Call<'_>, job: Job) -> Offsets {
        let at = |strides: [usize; 4]| (job.batch * strides[0] + job.head * strides[1]) * SIZE;
        let stored = |ty: &TensorType| at(self.order.strides(&ty.shape));
        let operands = call.inputs.iter().enumerate();
        let operands = operands.map(|(operand, ty)| match operand {
            MASK => {
                let (sizes, strides) = broadcast(ty);
                let moving = [0, 1].map(|axis| if sizes[axis] == 1 { 0 } else { strides[axis] });
                at([moving[0], moving[1], 0, 0])
            }
            _ => stored(ty),
        });
        Offsets { operands: operands.collect(), result: stored(call.output) }
    }
}

/// Returns the sizes and strides of a mask with as many dimensions as the scores have.
fn broadcast(mask: &TensorType) -> ([usize; 4], [usize; 4]) {
    let missing = 4 - mask.shape.rank();
    let (mut sizes, mut strides) = ([1; 4], [mask.shape.count(); 4]);
    sizes[missing..].copy_from_slice(&mask.shape);
    strides[missing..].copy_from_slice(&mask.shape.strides());
    (sizes, strides)
}
