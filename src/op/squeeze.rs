//! Squeeze and excite: each channel is multiplied by a gate that a small network computes from the channels' means,
//! as in J. Hu, L. Shen and G. Sun, "Squeeze-and-Excitation Networks" (CVPR 2018).

use super::{Arity, AttrDef, Flags, OpDef, OpError, function, plain, post, rank, reduce, window};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{Tensor, TensorType};

pub(super) fn ops() -> Vec<OpDef> {
    let steps = |name, doc| AttrDef::new(name, AttrKind::Post, Some(Attr::Post(Vec::new())), doc);
    vec![OpDef {
        name: "squeeze-excite",
        doc: "x[N,C,H,W] with each channel multiplied by a gate, which is computed from the means of the channels: a 1x1 convolution with w[R,C,1,1] and a bias[R], then one with v[C,R,1,1] and a bias[C]",
        arity: Arity::Exactly(5),
        attrs: vec![
            steps("inner", "unary steps on each result of the first convolution"),
            steps("gate", "unary steps on each result of the second"),
        ],
        flags: Flags::default(),
        infer: |attrs, types| {
            plain(types)?;
            infer(attrs, types)
        },
        eval,
        flops: |_, types, output| {
            let gates = 4.0 * types[1].shape.count() as f64 * output.shape[0] as f64;
            gates + 2.0 * output.shape.count() as f64
        },
        sample: None,
        lowered: None,
    }]
}

/// Returns the attributes of one of the convolutions, with these steps as its post chain.
fn dense(attrs: &Attrs, steps: &str) -> Attrs {
    let attrs = Attrs::new().with("post", Attr::Post(attrs.steps(steps).to_vec())).int("groups", 1);
    attrs.ints("strides", &[1, 1]).ints("pads", &[0; 4]).ints("dilations", &[1, 1])
}

/// Returns the types of the means, of the value between the convolutions, and of the gates.
fn between(attrs: &Attrs, types: &[&TensorType]) -> Result<[TensorType; 3], OpError> {
    rank(types, 0, 4)?;
    rank(types, 1, 4)?;
    rank(types, 3, 4)?;
    let x = types[0];
    for operand in [1, 3] {
        if types[operand].shape[2..] != [1, 1] {
            return Err(OpError::operand(operand, types[operand], ", not weights of 1x1"));
        }
    }
    let logical: Vec<TensorType> =
        types.iter().map(|ty| TensorType::plain(ty.dtype, ty.shape.clone())).collect();
    let means = TensorType::plain(x.dtype, [x.shape[0], x.shape[1], 1, 1]);
    let hidden = window::infer_conv(&dense(attrs, "inner"), &[&means, &logical[1], &logical[2]])?;
    post::check(attrs.steps("inner"), &[], &hidden)?;
    let gates = window::infer_conv(&dense(attrs, "gate"), &[&hidden, &logical[3], &logical[4]])?;
    post::check(attrs.steps("gate"), &[], &gates)?;
    if gates != means {
        return Err(OpError::operands(format!("gates are {gates} for {x}: it takes one for each channel")));
    }
    Ok([means, hidden, gates])
}

/// Infers the shape and the element type of the result. The caller handles layouts.
pub(super) fn infer(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    between(attrs, types)?;
    Ok(TensorType::plain(types[0].dtype, types[0].shape.clone()))
}

fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let types: Vec<&TensorType> = operands.iter().map(|operand| operand.ty()).collect();
    let [means, hidden, gates] = between(attrs, &types).expect("infer accepted");
    let axes = Attrs::new().ints("axes", &[2, 3]).int("keepdims", 1);
    let means = reduce::eval_mean(&axes, operands[0], &means);
    let hidden = window::eval_conv(&dense(attrs, "inner"), &[&means, operands[1], operands[2]], &hidden);
    let gates = window::eval_conv(&dense(attrs, "gate"), &[&hidden, operands[3], operands[4]], &gates);
    function::eval_mul(operands[0], &gates, ty)
}
