//! Convolutions and products of 8-bit integers without zero points, summed in 32 bits.
//!
//! The library's kernels that subtract zero points need weights in formats of its own, which hold sums of weights in
//! addition; no layout describes these. So the rules take these ops where the zero points are zero.
//!
//! Of its implementations only the batch-reduce ones are taken, for processors with VNNI or AMX. They store the sums as
//! they are. The older ones (`jit_int8`) convert sums to f32 on the way, which rounds those above 2^24, and on
//! processors without VNNI all of them saturate the sums of two products at 16 bits.

use super::conv::{self, divided};
use super::matmul::{self, flat};
use super::step::Chain;
use super::work::{Work, choose_among};
use super::{Call, desc, op};
use onednn_sys::{Library, PrimitiveDesc};
use ovolo::attr::Attrs;
use ovolo::op::{Arity, Form, Layouts, Lowered, Lowering, OpError, Reference};
use ovolo::tensor::{Layout, Tensor, TensorType};

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    Lowering {
        doc: Some("convolution in i32 of x[N,C,H,W] of u8 or i8 with w[O,C,h,w] of i8, without zero points"),
        arity: Some(Arity::Exactly(2)),
        layouts: Layouts::Typed {
            infer: |op, attrs, types| Ok(sums(op, attrs, types)?.with_layout(types[0].layout.clone())),
            samples: &[Form::new(&["nhwc", "AcdB16b64a4b"], "nhwc")],
        },
        reference: Reference::Prepared(with_points),
        ..op!("onednn.conv-integer", "conv-integer", convolution)
    },
    Lowering {
        doc: Some("a b in i32, for a[..,M,K] of u8 or i8 and b[K,N] of i8, without zero points"),
        arity: Some(Arity::Exactly(2)),
        layouts: Layouts::Typed { infer: sums, samples: &[Form::new(&["plain", "BA16a64b4a"], "plain")] },
        reference: Reference::Prepared(with_points),
        ..op!("onednn.matmul-integer", "matmul-integer", product)
    },
];

/// Returns the operands with a zero point of zero for each of them.
fn with_points(_: &Attrs, operands: &[&Tensor]) -> Vec<Tensor> {
    let own = operands.iter().map(|operand| operand.to_layout(&Layout::PLAIN));
    let points = operands.iter().map(|operand| Tensor::from_f64(operand.ty().dtype, [0_usize; 0], &[0.0]));
    own.chain(points).collect()
}

/// Returns the type of the sums, in the default layout.
fn sums(op: &Lowered, attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    let own = types.iter().map(|ty| ty.with_layout(Layout::PLAIN));
    let points = types.iter().map(|ty| TensorType::plain(ty.dtype, [0_usize; 0]));
    let all: Vec<TensorType> = own.chain(points).collect();
    (op.logical.infer)(attrs, &all.iter().collect::<Vec<_>>())
}

/// Returns the element types of both factors and of the sums.
fn data(call: &Call<'_>) -> Result<[onednn_sys::DataType; 3], OpError> {
    let [left, right, sums] =
        [call.inputs[0], call.inputs[1], call.output].map(|ty| desc::integer_type(ty.dtype));
    Ok([left?, right?, sums?])
}

/// Selects the first implementation with exact sums.
fn exact(made: PrimitiveDesc) -> Result<PrimitiveDesc, OpError> {
    let fits = |name: &str| name.starts_with("brg") && (name.contains("vnni") || name.contains("amx"));
    choose_among(made, 0, fits)
        .map_err(|_| OpError::kernel("oneDNN has no implementation for this whose sums are exact"))
}

fn convolution(library: &'static Library, call: &Call<'_>) -> Result<Work, OpError> {
    let chain = Chain { steps: &[], inputs: call.inputs, first: 2, sum: 0 };
    divided(library, call, &conv::Kind { data: data(call)?, biased: false, chain, choose: &exact })
}

fn product(library: &'static Library, call: &Call<'_>) -> Result<Work, OpError> {
    if call.inputs[1].shape.rank() != 2 {
        return Err(OpError::kernel("the right operand must be one matrix"));
    }
    flat(library, call, &matmul::Kind { data: data(call)?, steps: &[], choose: exact })
}
