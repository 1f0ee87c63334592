//! A 1x1 convolution and the depthwise convolution that reads it, as one op, so that the value between them is
//! never stored as a whole.

mod parts;

pub use parts::parts;

use super::{Arity, AttrDef, Flags, OpDef, OpError, plain, post, rank, window};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{Tensor, TensorType};

pub(super) fn ops() -> Vec<OpDef> {
    let ints = |name, default: &[i64], doc| {
        AttrDef::new(name, AttrKind::Ints, Some(Attr::Ints(default.to_vec())), doc)
    };
    vec![OpDef {
        name: "pointwise-depthwise",
        doc: "1x1 convolution of x[N,C,H,W] with w[O,C,1,1] and a bias[O], then a chain of unary steps, then a depthwise convolution with v[O,1,h,w] and a bias[O], then a post chain",
        arity: Arity::Post(5),
        attrs: vec![
            AttrDef::new(
                "inner",
                AttrKind::Post,
                Some(Attr::Post(Vec::new())),
                "unary steps on each element between the convolutions",
            ),
            ints("strides", &[1, 1], "rows and columns between windows of the depthwise convolution"),
            ints(
                "pads",
                &[0, 0, 0, 0],
                "zeros around what it reads, after the inner steps: at the top, left, bottom and right",
            ),
            ints("dilations", &[1, 1], "rows and columns between the elements of a window"),
            AttrDef::post(),
        ],
        flags: Flags::default(),
        infer: |attrs, types| {
            plain(types)?;
            let result = infer(attrs, types)?;
            post::check(attrs.post(), &types[5..], &result)?;
            Ok(result)
        },
        eval,
        flops: |_, types, output| {
            let parts::Parts { pointwise, depthwise } = parts(types, output);
            pointwise + depthwise
        },
        sample: None,
        lowered: None,
    }]
}

/// Returns the attributes of the 1x1 convolution.
fn first(attrs: &Attrs) -> Attrs {
    let attrs = Attrs::new().with("post", Attr::Post(attrs.steps("inner").to_vec())).int("groups", 1);
    attrs.ints("strides", &[1, 1]).ints("pads", &[0; 4]).ints("dilations", &[1, 1])
}

/// Returns the attributes of the depthwise convolution with this many channels.
pub fn second(attrs: &Attrs, channels: usize) -> Attrs {
    attrs.clone().int("groups", i64::try_from(channels).unwrap_or(i64::MAX))
}

/// Returns the type of the value between the convolutions, in the layout of the input.
pub fn between(types: &[&TensorType]) -> TensorType {
    let (x, w) = (types[0], types[1]);
    TensorType::plain(x.dtype, [x.shape[0], w.shape[0], x.shape[2], x.shape[3]]).with_layout(x.layout.clone())
}

/// Infers the shape and the element type of the result. The caller handles layouts and the extra operands.
pub(super) fn infer(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    rank(types, 1, 4)?;
    rank(types, 3, 4)?;
    let (w, v) = (types[1], types[3]);
    if w.shape[2..] != [1, 1] {
        return Err(OpError::operand(1, w, ", not weights of 1x1"));
    }
    let logical: Vec<TensorType> =
        types[..5].iter().map(|ty| TensorType::plain(ty.dtype, ty.shape.clone())).collect();
    let inner = window::infer_conv(&first(attrs), &[&logical[0], &logical[1], &logical[2]])?;
    if v.shape[..2] != [w.shape[0], 1] {
        return Err(OpError::operand(3, v, format!(", not one filter for each output of {w}")));
    }
    let plain = second(attrs, w.shape[0]).with("post", Attr::Post(Vec::new()));
    window::infer_conv(&plain, &[&inner, &logical[3], &logical[4]])
}

fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let types: Vec<&TensorType> = operands.iter().map(|operand| operand.ty()).collect();
    let inner = between(&types);
    let inner = window::eval_conv(&first(attrs), &operands[..3], &inner);
    let mut rest = vec![&inner];
    rest.extend(&operands[3..]);
    window::eval_conv(&second(attrs, types[1].shape[0]), &rest, ty)
}
