//! Concatenation. One thread handles a stack of images.

use super::work::{ArgPlace, Work, choose};
use super::{Call, desc, op};
use onednn_sys::{Arg, Attr, Desc, Library, PrimitiveDesc};
use ovolo::attr::Attrs;
use ovolo::op::{Form, Layouts, Lowered, Lowering, OpError, image};
use ovolo::tensor::TensorType;
use std::ffi::c_int;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[Lowering {
    layouts: Layouts::Typed {
        infer,
        samples: &[Form::same("plain"), Form::same("nChw16c"), Form::same("nhwc")],
    },
    ..op!("onednn.concat", "concat", work)
}];

/// Infers the result. The library joins whole blocks of channels; other channels it would copy one by one.
fn infer(op: &Lowered, attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    let result = image::concat(op, attrs, types)?;
    let block = result.layout.block(1);
    match types.iter().position(|ty| ty.shape.get(1).is_some_and(|channels| channels % block != 0)) {
        Some(operand) if !result.layout.is_plain() => Err(OpError::operand(
            operand,
            types[operand],
            format!(": its channels do not fill the blocks of {}", result.layout),
        )),
        _ => Ok(result),
    }
}

/// Creates the work of a concatenation, for one thread: a copy is limited by the memory's bandwidth, which one thread
/// can use up.
pub(super) fn work(library: &'static Library, call: &Call<'_>) -> Result<Work, OpError> {
    let axis = usize::try_from(call.attrs.expect_int("axis")).unwrap_or(0);
    let sources: Vec<Desc> =
        call.inputs.iter().map(|ty| desc::describe(library, ty)).collect::<Result<_, _>>()?;
    let dst = desc::describe(library, call.output)?;
    let attr = Attr::new(library).map_err(OpError::backend)?;
    let made = PrimitiveDesc::concat(library, &sources.iter().collect::<Vec<_>>(), &dst, axis, &attr)
        .map_err(OpError::backend)?;
    let mut args = vec![Arg::DST, Arg::SCRATCH];
    let mut places = vec![ArgPlace::Output(0), ArgPlace::Scratch];
    for operand in 0..call.inputs.len() {
        args.push(Arg::source(c_int::try_from(operand).unwrap_or(c_int::MAX)));
        places.push(ArgPlace::Input(operand, 0));
    }
    let mut work = Work::new(call.threads);
    let variant = work.variant(choose(made, 0)?, args);
    work.run(0, variant, places);
    Ok(work)
}
