//! Convolutions and products of 8-bit integers without zero points, summed in 32 bits.
//!
//! The library's kernels that subtract zero points need weights in formats of its own, which hold sums of weights in
//! addition; no layout describes these. So the rules take these ops where the zero points are zero, and leave them out.
//!
//! Of its implementations only the batch-reduce ones are taken, for processors with VNNI or AMX. They store the sums as
//! they are. The older ones (`jit_int8`) convert sums to f32 on the way, which rounds those above 2^24, and on
//! processors without VNNI all of them saturate the sums of two products at 16 bits.

use super::conv::{self, divided};
use super::matmul::{self, flat};
use super::step::Chain;
use super::work::{Work, choose_among};
use super::{Call, desc, op};
use onednn_sys::{DataType, Library, PrimitiveDesc};
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::DType;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    Lowering {
        layouts: Layouts::Typed {
            infer: |op, attrs, types| {
                Ok(op.logical_result(attrs, types)?.with_layout(types[0].layout.clone()))
            },
            samples: &[Form::new(&["nhwc", "AcdB16b64a4b", "plain", "plain"], "nhwc")],
        },
        ..op!("onednn.conv-integer", "conv-integer", convolution)
    },
    Lowering {
        layouts: Layouts::Typed {
            infer: |op, attrs, types| op.logical_result(attrs, types),
            samples: &[Form::new(&["plain", "BA16a64b4a", "plain", "plain"], "plain")],
        },
        ..op!("onednn.matmul-integer", "matmul-integer", product)
    },
];

/// Returns the element types of both factors and of the sums.
fn data(call: &Call<'_>) -> Result<[DataType; 3], OpError> {
    if call.inputs.len() > 2 {
        return Err(OpError::kernel("oneDNN takes these weights without zero points only"));
    }
    let [left, right, sums] =
        [call.inputs[0], call.inputs[1], call.output].map(|ty| desc::integer_type(ty.dtype));
    Ok([left?, right?, sums?])
}

/// Selects the first implementation with exact sums.
///
/// The instructions of VNNI multiply bytes without a sign by bytes with one. For an image with a sign, kernels for VNNI
/// subtract what they have added to it, and read that behind the weights, where the library's own reorders write it. The
/// library does not refuse weights without that. AMX multiplies bytes with a sign as well.
fn exact(made: PrimitiveDesc, source: DType) -> Result<PrimitiveDesc, OpError> {
    let fits = |name: &str| {
        name.starts_with("brg") && (name.contains("amx") || name.contains("vnni") && source == DType::U8)
    };
    choose_among(made, 0, fits)
        .map_err(|_| OpError::kernel("oneDNN has no implementation for this whose sums are exact"))
}

fn convolution(library: &'static Library, call: &Call<'_>) -> Result<Work, OpError> {
    let chain = Chain { steps: &[], inputs: call.inputs, first: 2, sum: 0 };
    let source = call.inputs[0].dtype;
    let choose = |made| exact(made, source);
    divided(library, call, &conv::Kind { data: data(call)?, biased: false, chain, choose: &choose })
}

fn product(library: &'static Library, call: &Call<'_>) -> Result<Work, OpError> {
    if call.inputs[1].shape.rank() != 2 {
        return Err(OpError::kernel("the right operand must be one matrix"));
    }
    let source = call.inputs[0].dtype;
    let choose = |made| exact(made, source);
    flat(library, call, &matmul::Kind { data: data(call)?, steps: &[], choose: &choose })
}
