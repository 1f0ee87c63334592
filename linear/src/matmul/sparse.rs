//! `native.matmul-sparse`: a product with a right operand in a sparse layout, with a post chain on the result.
//!
//! A task transposes a few rows of the left operand, so that they are columns of a panel, multiplies the stored blocks of
//! some columns by the panel, and transposes the result.

use super::steps::Steps;
use crate::args::{Buffers, Shared, part};
use crate::chain::Area;
use crate::gemm::PANEL;
use crate::lanes::Isa;
use crate::sparse::{Product, TALLEST, Weights};
use crate::tile::transpose;
use crate::{ISAS, plain_contract, reference};
use ovolo::attr::Attrs;
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, Layouts, Lowering, OpError, Reference, post};
use ovolo::tensor::{DType, Tensor, TensorType};

/// The declaration of the op.
pub(super) const OP: Lowering = Lowering {
    layouts: Layouts::Forms(&[
        Form::new(&["plain", "Ba4b.1"], "plain"),
        Form::new(&["plain", "Ba16b.1"], "plain"),
        Form::new(&["plain", "ba.1"], "plain"),
    ]),
    instruction_sets: ISAS,
    reference: Reference::Own(eval),
    flops: Some(|_, types, output| {
        let rows = output.shape.count() / output.shape.last().copied().unwrap_or(1).max(1);
        2.0 * types[1].layout.padded_count(&types[1].shape) as f64 * rows as f64
    }),
    ..Lowering::new("native.matmul-sparse", "matmul", contract, kernel)
};

/// Evaluates the op for reference: weights that are zero are left out, also where the left operand is infinite or NaN.
fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let [depth, columns] = [0, 1].map(|dim| operands[1].ty().shape[dim]);
    let (a, b) = (operands[0].to_f64(), operands[1].to_f64());
    let element = |at: usize| {
        let (row, column) = (at / columns, at % columns);
        let products = (0..depth).map(|step| (a[row * depth + step], b[step * columns + column]));
        // An empty `sum` is a negative zero.
        products.filter(|(_, weight)| *weight != 0.0).fold(0.0, |sum, (value, weight)| sum + value * weight)
    };
    let result: Vec<f64> = (0..ty.shape.count()).map(element).collect();
    let result = Tensor::from_f64(operands[0].ty().dtype, ty.shape.clone(), &result);
    post::apply(attrs.post(), &operands[2..], result)
}

/// The number of tasks per thread.
const TASKS: usize = 4;
/// The columns whose results are transposed together: whole blocks.
const GROUP: usize = TALLEST;

struct Sparse {
    weights: Weights,
    /// The rows of the left operand, with those of all products of the batch.
    rows: usize,
    steps: Steps,
    threads: usize,
}

impl Sparse {
    fn new(call: &Call<'_>) -> Option<Self> {
        let (a, b) = (call.inputs[0], call.inputs[1]);
        let plain = |ty: &&TensorType| ty.dtype == DType::F32 && ty.layout.is_plain();
        let weights =
            Weights::new(b, 1).filter(|_| b.shape.rank() == 2 && plain(&a) && plain(&call.output))?;
        if !call.inputs[2..].iter().all(plain) {
            return None;
        }
        let rows = a.shape.count().checked_div(weights.depth)?;
        Some(Self { weights, rows, steps: Steps::new(call)?, threads: call.threads.max(1) })
    }

    /// Returns the elements of a thread's scratch memory: a panel, and the results of a group of columns.
    fn scratch(&self) -> usize {
        (self.weights.depth + GROUP) * PANEL
    }
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let Some(sparse) = Sparse::new(call) else { return reference::contract(call) };
    let scratch = sparse.threads * sparse.scratch() * size_of::<f32>();
    Ok(Contract { scratch, ..plain_contract(&format!("blocks-{}", Isa::planned())) })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Sparse::new(call) {
        Some(sparse) => Ok(Box::new(sparse)),
        None => reference::kernel(call),
    }
}

impl Kernel for Sparse {
    unsafe fn run(&self, args: &Args<'_>) {
        let Weights { outputs: width, depth, .. } = self.weights;
        let groups = width.div_ceil(GROUP);
        let panels = self.rows.div_ceil(PANEL);
        // Where there are few panels, the columns are divided as well.
        let parts = (TASKS * self.threads).div_ceil(panels.max(1)).clamp(1, groups.max(1));
        let buffers = Buffers::new(args);
        let space = Shared::<f32>::scratch(args);
        args.team.share(self.threads, panels * parts, |slot, task| {
            let (first, own) = (task / parts * PANEL, part(groups, parts, task % parts, 1));
            let (count, args) = (PANEL.min(self.rows - first), buffers.args());
            let panel = space.at(slot * self.scratch());
            let results = panel.wrapping_add(depth * PANEL);
            let output = Shared::<f32>::output(args).at(first * width);
            // SAFETY: no other task has these columns of these rows, and no other thread has this scratch memory.
            unsafe {
                if count < PANEL {
                    std::slice::from_raw_parts_mut(panel, depth * PANEL).fill(0.0);
                }
                let left = Shared::<f32>::input(args, 0).at(first * depth).cast_const();
                transpose(left, depth as isize, panel, PANEL as isize, depth, count);
                let product = Product {
                    weights: &self.weights,
                    bytes: Shared::<u8>::input(args, 1).at(0),
                    panel,
                    line: PANEL,
                    columns: count,
                    bias: std::ptr::null(),
                    results,
                    stride: PANEL,
                };
                let columns = (own.start * GROUP).min(width)..(own.end * GROUP).min(width);
                for column in columns.clone().step_by(GROUP) {
                    let some = column..(column + GROUP).min(width);
                    product.run(self.weights.rows_of(&some));
                    let to = output.add(column);
                    transpose(results, PANEL as isize, to, width as isize, count, some.len());
                }
                let piece = output.add(columns.start);
                let area = Area {
                    source: piece,
                    source_row: width,
                    target: piece,
                    target_row: width,
                    rows: count,
                    columns: columns.len(),
                    ..Area::NONE
                };
                self.steps.apply(args, area, first, columns.start);
            }
        });
    }
}
