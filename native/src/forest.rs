//! Decision trees: each task follows all trees for some of the rows.
//!
//! A task takes a few rows at once, and follows one tree for all of them before it takes the next tree, so that the
//! nodes of a tree are read while they are in the cache. The sums of a row do not depend on the number of threads.

use super::args::{Shared, part, tasks};
use super::plain_contract;
use ovolo::attr::Attrs;
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::forest::{Aggregate, holds, leaf};
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::DType;
use std::marker::PhantomData;

/// The op of this family.
pub(super) const OPS: &[Lowering] =
    &[Lowering::new("native.tree-ensemble", "tree-ensemble", contract, kernel)];

/// The rows for which a tree is followed one after another.
const ROWS: usize = 64;

#[allow(clippy::unnecessary_wraps)] // The signature is that of contracts that may refuse.
fn contract(_: &Call<'_>) -> Result<Contract, OpError> {
    Ok(plain_contract("rows"))
}

#[allow(clippy::unnecessary_wraps)] // The signature is that of kernels that may refuse.
fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(match call.output.dtype {
        DType::F64 => Box::new(Forest::<f64>::new(call)),
        _ => Box::new(Forest::<f32>::new(call)),
    })
}

/// A float of a tree.
trait Weight: Copy + PartialOrd + Send + Sync + 'static {
    fn from_f64(value: f64) -> Self;
    fn joined(self, other: Self, aggregate: Aggregate) -> Self;
    fn shared(self, trees: usize) -> Self;
}

macro_rules! weight {
    ($float:ty) => {
        impl Weight for $float {
            fn from_f64(value: f64) -> Self {
                value as Self
            }
            fn joined(self, other: Self, aggregate: Aggregate) -> Self {
                match aggregate {
                    Aggregate::Sum | Aggregate::Average => self + other,
                    Aggregate::Min => self.min(other),
                    Aggregate::Max => self.max(other),
                }
            }
            fn shared(self, trees: usize) -> Self {
                self / trees as Self
            }
        }
    };
}
weight!(f32);
weight!(f64);

struct Forest<T> {
    rows: usize,
    features: usize,
    columns: usize,
    nodes: usize,
    trees: usize,
    entries: usize,
    aggregate: Aggregate,
    absent: f64,
    float: PhantomData<T>,
}

/// The operands of a run.
struct Trees<'a, T> {
    links: &'a [i32],
    values: &'a [T],
    roots: &'a [i32],
    targets: &'a [i32],
    weights: &'a [T],
}

impl<T: Weight> Forest<T> {
    fn new(call: &Call<'_>) -> Self {
        let attrs: &Attrs = call.attrs;
        Self {
            rows: call.inputs[0].shape[0],
            features: call.inputs[0].shape[1],
            columns: call.output.shape[1],
            nodes: call.inputs[2].shape[0],
            trees: call.inputs[3].shape[0],
            entries: call.inputs[5].shape[0],
            aggregate: Aggregate::of(attrs).unwrap_or(Aggregate::Sum),
            absent: attrs.expect_float("absent"),
            float: PhantomData,
        }
    }

    /// Computes some rows.
    fn block(&self, trees: &Trees<'_, T>, x: &[T], totals: &mut [T], seen: &mut Vec<bool>) {
        seen.clear();
        seen.resize(totals.len(), false);
        for root in trees.roots {
            for row in 0..totals.len() / self.columns {
                let features = &x[row * self.features..(row + 1) * self.features];
                let entries = leaf(trees.links, *root, self.entries, |feature, mode, node| {
                    features.get(feature).is_some_and(|value| holds(mode, *value, trees.values[node]))
                });
                for entry in entries {
                    let column = usize::try_from(trees.targets[entry]).ok();
                    let Some(column) = column.filter(|column| *column < self.columns) else { continue };
                    let (at, weight) = (row * self.columns + column, trees.weights[entry]);
                    totals[at] = if seen[at] { totals[at].joined(weight, self.aggregate) } else { weight };
                    seen[at] = true;
                }
            }
        }
        for (total, seen) in totals.iter_mut().zip(seen) {
            *total = match (*seen, self.aggregate) {
                (false, _) => T::from_f64(self.absent),
                (true, Aggregate::Average) => total.shared(self.trees),
                (true, _) => *total,
            };
        }
    }
}

impl<T: Weight> Kernel for Forest<T> {
    unsafe fn run(&self, args: &Args<'_>) {
        let (x, output) = (Shared::<T>::input(args, 0), Shared::<T>::output(args));
        // SAFETY: the operands have the elements of their types, and nothing writes them during the run.
        let trees = unsafe {
            Trees {
                links: slice(args, 1, self.nodes * ovolo::op::forest::LINKS),
                values: slice(args, 2, self.nodes),
                roots: slice(args, 3, self.trees),
                targets: slice(args, 4, self.entries),
                weights: slice(args, 5, self.entries),
            }
        };
        let blocks = self.rows.div_ceil(ROWS);
        let parts = tasks(self.rows * self.trees * 16, blocks, args.team.threads());
        args.team.run(parts, |index| {
            let mut seen = Vec::new();
            for block in part(blocks, parts, index, 1) {
                let first = block * ROWS;
                let rows = ROWS.min(self.rows - first);
                // SAFETY: the rows are those of the operand and the result, and only this task writes them. The
                // memory was zeroed or written before, and every bit pattern is a float.
                let (x, totals) = unsafe {
                    (
                        std::slice::from_raw_parts(x.at(first * self.features), rows * self.features),
                        std::slice::from_raw_parts_mut(output.at(first * self.columns), rows * self.columns),
                    )
                };
                self.block(&trees, x, totals, &mut seen);
            }
        });
    }
}

/// Returns the elements of an operand.
///
/// # Safety
/// The operand has this many elements of the type, and nothing writes them.
unsafe fn slice<'a, E>(args: &Args<'a>, operand: usize, count: usize) -> &'a [E] {
    if count == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(args.inputs[operand].cast(), count) }
}
