//! `native.matmul-strassen`: a product with constant weights by Strassen's algorithm.

use super::super::chain::{Action, Area, apply};
use super::super::strassen::{Left, Part, Strassen, definition};
use super::super::{ISAS, plain_contract, reference};
use super::steps::Steps;
use crate::args::{Buffers, Shared};
use crate::lanes::Isa;
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Arity, Form, Layouts, Lowering, OpError, Reference};

/// The declaration of the op.
pub(super) const OP: Lowering = Lowering {
    doc: Some("matrix product by Strassen's algorithm, with sums of weights; then a post chain"),
    arity: Some(Arity::Post(2)),
    attributes: definition::ATTRIBUTES,
    layouts: Layouts::Forms(&[
        Form::new(&["plain", "Cab16c"], "plain"),
        Form::new(&["plain", "Cab8c"], "plain"),
    ]),
    makes: &[definition::OF_MATMUL],
    reference: Reference::Own(definition::eval_matmul),
    flops: Some(definition::flops),
    instruction_sets: ISAS,
    choices: |call| Product::new(call).map_or_else(|_| Vec::new(), |product| product.strassen.choices()),
    ..Lowering::new("native.matmul-strassen", "matmul", contract, kernel)
};

pub(super) fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Product::new(call) {
        Ok(product) => Ok(Contract {
            scratch: product.strassen.scratch() * size_of::<f32>(),
            ..plain_contract(&format!("strassen-{}", Isa::planned()))
        }),
        Err(_) => reference::contract(call),
    }
}

pub(super) fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Product::new(call) {
        Ok(product) => Ok(Box::new(product)),
        Err(_) => reference::kernel(call),
    }
}

struct Product {
    strassen: Strassen,
    steps: Steps,
    /// The rows of an image of the left operand, and the elements of a row.
    rows: usize,
    depth: usize,
    columns: usize,
    /// The elements of a row that form a block of the left operand.
    lanes: usize,
}

impl Product {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let (u, y) = (call.inputs[1], call.output);
        let columns = y.shape[y.shape.rank() - 1];
        let rows = y.shape[y.shape.rank() - 2];
        let images = y.shape[..y.shape.rank() - 2].iter().product();
        if let Some(extra) = call.inputs[2..].iter().find(|ty| !ty.layout.is_plain() || ty.dtype != y.dtype) {
            return Err(OpError::kernel(format!(
                "an extra operand is {extra}: it must have the result's element type and the default layout"
            )));
        }
        let steps =
            Steps::new(call).ok_or_else(|| OpError::kernel("an extra operand does not broadcast by rows"))?;
        let strassen = Strassen::new([images, rows], u, call.threads)?;
        Ok(Self { strassen, steps, rows, depth: 2 * u.shape[1], columns, lanes: u.layout.block(2) })
    }
}

impl Kernel for Product {
    unsafe fn run(&self, args: &Args<'_>) {
        let (buffers, result) = (Buffers::new(args), Shared::<f32>::output(args));
        let left = Left {
            from: args.inputs[0].cast(),
            image: self.rows * self.depth,
            row: self.depth,
            block: self.lanes,
        };
        let take = |part: &Part| {
            let area = Area {
                source: part.from,
                source_row: part.stride,
                target: result.at(part.row * self.columns + part.column),
                target_row: self.columns,
                rows: part.rows,
                columns: part.columns,
                ..Area::NONE
            };
            // SAFETY: the part is within the result, and only this thread writes it.
            unsafe {
                if self.steps.is_empty() {
                    apply(&Action::COPY, &area);
                } else {
                    self.steps.apply(buffers.args(), area, part.row, part.column);
                }
            }
        };
        // SAFETY: the operands have the sizes for which the product was created.
        unsafe { self.strassen.run(args, left, args.inputs[1].cast(), take) };
    }
}
