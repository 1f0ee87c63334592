//! `slice`, `reshape` and transposes between the default layout and `nhwc`: copies, which often are views.

use super::rearrange::Rearrange;
use super::strided::{Copy, Loop, Region};
use super::{plain_contract, view_contract};
use ovolo::attr::Attrs;
use ovolo::backend::{Call, Contract, Kernel};
use ovolo::op::{Form, Layouts, Lowered, Lowering, OpError};
use ovolo::tensor::{Layout, TensorType};

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    Lowering::new("native.slice", "slice", slice_contract, slice_kernel),
    Lowering::new("native.reshape", "reshape", |_| Ok(view_contract(0)), whole_kernel),
    Lowering {
        doc: Some("the transpose of an image between the default layout and `nhwc` that moves no element"),
        layouts: Layouts::Typed {
            infer: transposed,
            samples: &[Form::new(&["nhwc"], "plain"), Form::new(&["plain"], "nhwc")],
        },
        ..Lowering::new("native.transpose-view", "transpose", |_| Ok(view_contract(0)), whole_kernel)
    },
];

/// Infers the type of a transpose whose elements are in the same order as those of its operand.
fn transposed(lowered: &Lowered, attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    let result = lowered.logical_result(attrs, types)?;
    let layout = &types[0].layout;
    let nhwc: Layout = "nhwc".parse().unwrap_or(Layout::PLAIN);
    match attrs.expect_ints("perm") {
        [0, 2, 3, 1] if *layout == nhwc => Ok(result),
        [0, 3, 1, 2] if layout.is_plain() => Ok(result.with_layout(nhwc)),
        _ => Err(OpError::operand(
            0,
            types[0],
            ": it must be in `nhwc` and be transposed by [0,2,3,1], or in the default layout and be transposed by \
             [0,3,1,2]",
        )),
    }
}

fn region(call: &Call<'_>) -> Option<Region> {
    let from = call.inputs[0].shape.strides();
    let to = call.output.shape.strides();
    let (starts, steps) = (call.attrs.expect_ints("starts"), call.attrs.expect_ints("steps"));
    let mut first = 0;
    let mut loops = Vec::new();
    for (dim, &count) in call.output.shape.iter().enumerate() {
        first += starts[dim] as isize * from[dim] as isize;
        loops.push(Loop {
            count,
            source: steps[dim] as isize * from[dim] as isize,
            target: to[dim] as isize,
        });
    }
    Region::new(loops, first, 0)
}

fn slice_contract(call: &Call<'_>) -> Result<Contract, OpError> {
    Ok(match region(call).and_then(|region| region.is_run()) {
        Some(first) => view_contract(first * call.output.dtype.size()),
        None => plain_contract("strided"),
    })
}

fn slice_kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(Rearrange(Copy::new(region(call), call.output.dtype.size(), call.threads)?)))
}

/// A view needs no kernel; this copy is for planners that give the result its own buffer.
fn whole_kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let run = Loop { count: call.output.shape.count(), source: 1, target: 1 };
    Ok(Box::new(Rearrange(Copy::new(Region::new([run], 0, 0), call.output.dtype.size(), call.threads)?)))
}
