//! The ops that cuDNN has kernels for: a convolution on a device, channels outermost or innermost, by a call of the
//! library's or by a graph of operations, and attention by such a graph.

use super::{AttrDef, Flags, Op, OpDef, attention, attr, post, tf32, window};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{DType, TensorType};

/// Engines of graphs that an op may name.
const ENGINES: i64 = 1 << 16;
/// Element types that the library convolves.
const TYPES: &[DType] = &[DType::F32, DType::F16, DType::BF16, DType::F64];
/// The library's forward algorithms, by its numbers: all but the third, which it has no kernel for.
pub const ALGORITHMS: &[i64] = &[0, 1, 2, 4, 5, 6, 7];

/// Which engine computes a graph.
fn engine() -> AttrDef {
    attr(
        "engine",
        AttrKind::Int,
        Some(Attr::Int(0)),
        "which of the engines that the library names for the graph, the best guess first",
    )
}

fn check_engine(attrs: &Attrs) -> Result<(), String> {
    let engine = attrs.expect_int("engine");
    if (0..ENGINES).contains(&engine) {
        return Ok(());
    }
    Err(format!("attribute `engine` is {engine}, not between 0 and {}", ENGINES - 1))
}

/// The lowered forms of `conv` and `attention`.
pub(super) fn lowered(conv: Op, attention: Op) -> Vec<OpDef> {
    vec![of_call(conv), of_graph(conv), of_attention(attention)]
}

/// A convolution as a call of the library's.
fn of_call(conv: Op) -> OpDef {
    let mut attrs = conv.attrs.clone();
    attrs.push(attr(
        "algorithm",
        AttrKind::Int,
        Some(Attr::Int(1)),
        "which of the library's: 0 an implicit product, 1 the same with its indices computed before, 2 a product, 4 by \
         Fourier transforms, 5 of tiles, 6 Winograd's, 7 in steps",
    ));
    attrs.push(tf32::attribute());
    OpDef { name: "cudnn.conv", attrs, infer, ..convolution(conv) }
}

/// The same as a graph of operations.
fn of_graph(conv: Op) -> OpDef {
    let mut attrs = conv.attrs.clone();
    attrs.extend([engine(), tf32::attribute()]);
    OpDef { name: "cudnn.conv-graph", attrs, infer: infer_graph, ..convolution(conv) }
}

/// What both share.
fn convolution(conv: Op) -> OpDef {
    OpDef {
        name: "cudnn.conv",
        doc: conv.doc,
        arity: conv.arity,
        attrs: Vec::new(),
        flags: Flags { lowered: true, ..Flags::default() },
        infer,
        eval: |attrs, operands, ty| {
            let rounded = tf32::rounded(attrs, operands);
            window::eval_conv(attrs, &rounded.iter().collect::<Vec<_>>(), ty)
        },
        flops: conv.flops,
        logical: Some(conv),
    }
}

/// Attention as a graph of operations.
fn of_attention(attention: Op) -> OpDef {
    let mut attrs = attention.attrs.clone();
    attrs.push(engine());
    OpDef {
        name: "cudnn.attention",
        doc: attention.doc,
        arity: attention.arity,
        attrs,
        flags: Flags { lowered: true, ..Flags::default() },
        infer: infer_attention,
        eval: attention.eval,
        flops: attention.flops,
        logical: Some(attention),
    }
}

fn infer_attention(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    let result = attention::infer(attrs, types)?;
    if !matches!(result.dtype, DType::F16 | DType::BF16) {
        return Err(format!("operand 0 is {}: it takes f16 and bf16", types[0]));
    }
    check_engine(attrs)?;
    Ok(result)
}

fn infer_graph(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    if types[0].dtype == DType::F64 {
        return Err(format!("operand 0 is {}: a graph takes f32, f16 and bf16", types[0]));
    }
    check_engine(attrs)?;
    convolved(attrs, types)
}

fn infer(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
    let algorithm = attrs.expect_int("algorithm");
    if !ALGORITHMS.contains(&algorithm) {
        return Err(format!("attribute `algorithm` is {algorithm}: the library has 0, 1, 2, 4, 5, 6 and 7"));
    }
    convolved(attrs, types)
}

/// The result of a convolution whose operands lie as the library takes them.
fn convolved(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, String> {
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
    let result = window::infer_conv(attrs, types)?.with_layout(x.layout.clone());
    post::check(attrs.post(), &types[3..], &result)?;
    Ok(result)
}
