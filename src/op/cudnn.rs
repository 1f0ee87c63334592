//! The op that cuDNN has kernels for: a convolution on a device, channels outermost or innermost.

use super::{Flags, OpDef, attr, lowered, post, tf32, window};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{DType, TensorType};

/// Element types that the library convolves.
const TYPES: &[DType] = &[DType::F32, DType::F16, DType::BF16, DType::F64];
/// The library's forward algorithms, by its numbers: all but the third, which it has no kernel for.
pub const ALGORITHMS: &[i64] = &[0, 1, 2, 4, 5, 6, 7];

/// The lowered form of `conv`.
pub(super) fn lowered(conv: &OpDef) -> Vec<OpDef> {
    let mut attrs = conv.attrs.clone();
    attrs.push(attr(
        "algorithm",
        AttrKind::Int,
        Some(Attr::Int(1)),
        "which of the library's: 0 an implicit product, 1 the same with its indices computed before, 2 a product, 4 by \
         Fourier transforms, 5 of tiles, 6 Winograd's, 7 in steps",
    ));
    attrs.push(tf32::attribute());
    vec![OpDef {
        name: "cudnn.conv",
        doc: conv.doc,
        arity: conv.arity,
        attrs,
        flags: Flags { lowered: true, ..Flags::default() },
        infer,
        eval: |attrs, operands, ty| {
            let rounded = tf32::rounded(attrs, operands);
            lowered::eval("conv", attrs, &rounded.iter().collect::<Vec<_>>(), ty)
        },
        flops: conv.flops,
        logical: Some("conv"),
    }]
}

fn infer(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    let (x, w) = (types[0], types[1]);
    match (x.layout.to_string().as_str(), w.layout.to_string().as_str()) {
        ("plain", "plain") | ("nhwc", "nhwc") => {}
        (input, weights) => {
            return Err(format!(
                "input {input} with weights {weights}: it takes both in nchw, or both in nhwc"
            ));
        }
    }
    if !TYPES.contains(&x.dtype) {
        return Err(format!("operand 0 is {x}: it takes f32, f16, bf16 and f64"));
    }
    tf32::check(attrs, x.dtype)?;
    let algorithm = attrs.expect_int("algorithm");
    if !ALGORITHMS.contains(&algorithm) {
        return Err(format!("attribute `algorithm` is {algorithm}: the library has 0, 1, 2, 4, 5, 6 and 7"));
    }
    let result = window::infer_conv(attrs, types)?.with_layout(x.layout.clone());
    post::check(attrs.post(), &types[3..], &result)?;
    Ok(result)
}
