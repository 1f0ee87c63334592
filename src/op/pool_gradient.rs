//! `max-pool-gradient`: the gradient of a max pool with respect to its image.

use super::window::{Axis, flops_pool, infer_pool};
use super::{Arity, AttrDef, Draw, Flags, OpDef, OpError, Sample, plain, rank, sizes};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{Tensor, TensorType};

pub(super) fn ops() -> Vec<OpDef> {
    let ints = |name, default: Option<&[i64]>, doc| {
        AttrDef::new(name, AttrKind::Ints, default.map(|list| Attr::Ints(list.to_vec())), doc)
    };
    vec![OpDef {
        name: "max-pool-gradient",
        doc: "the gradient with respect to the image x[N,C,H,W] (operand 0) of a max pool, from that with respect to its \
              result (operand 1): of each window, the first largest element gets the gradient of the maximum",
        arity: Arity::Exactly(2),
        attrs: vec![
            ints("kernel", None, "rows and columns of the window"),
            ints("strides", Some(&[1, 1]), "rows and columns between windows"),
            ints("pads", Some(&[0, 0, 0, 0]), "padding at the top, left, bottom and right"),
            ints("dilations", Some(&[1, 1]), "rows and columns between the elements of a window"),
        ],
        flags: Flags::independent(|_, types, _| {
            // Images and their channels are not mixed.
            let own =
                |ty: &&TensorType| (0..ty.shape.rank()).map(|axis| (axis < 2).then_some(axis)).collect();
            types.iter().map(own).collect()
        }),
        infer: |attrs, types| {
            plain(types)?;
            infer(attrs, types)
        },
        eval,
        flops: |attrs, types, _| flops_pool(attrs, &types[..1], types[1]),
        sample: Some(draw),
        lowered: None,
    }]
}

/// Infers the type of the image. The caller handles layouts.
fn infer(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    rank(types, 1, 4)?;
    let (x, d) = (types[0], types[1]);
    let result = infer_pool(attrs, &[x])?;
    if result.shape != d.shape || result.dtype != d.dtype {
        return Err(OpError::operand(1, d, format!(", but the pool gives {result}")));
    }
    Ok(x.clone())
}

fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let (x, d) = (&ty.shape, &operands[1].ty().shape);
    let kernel = sizes(attrs, "kernel").expect("infer accepted");
    let axis = |at: usize| Axis::new(attrs, at, x[2 + at], kernel[at]).expect("infer accepted");
    let (rows, columns) = (axis(0), axis(1));
    let (xs, ds) = (operands[0].to_f64(), operands[1].to_f64());
    let mut result = vec![0.0; ty.shape.count()];
    for (window, gradient) in ds.iter().enumerate() {
        let (plane, y, z) = (window / (d[2] * d[3]), window / d[3] % d[2], window % d[3]);
        let inside = (0..kernel[0]).filter_map(|r| rows.at(y, r)).flat_map(|row| {
            (0..kernel[1]).filter_map(|s| columns.at(z, s)).map(move |column| row * x[3] + column)
        });
        let places = inside.map(|at| plane * x[2] * x[3] + at);
        // A window between whose elements the whole image lies has none.
        let first = places.reduce(|best, at| if xs[at] > xs[best] { at } else { best });
        if let Some(first) = first {
            result[first] += gradient;
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}

/// Draws images, and a window that fits them.
fn draw(draw: &mut dyn Draw) -> Option<Sample> {
    let dtype = draw.floats();
    let list = |draw: &mut dyn Draw, length: usize, often: usize, least: usize| -> Vec<usize> {
        let usual = draw.percent(often);
        (0..length).map(|_| if usual { least } else { least + draw.below(3) }).collect()
    };
    let kernel = draw.shape(2).to_vec();
    let (strides, dilations) = (list(draw, 2, 40, 1), list(draw, 2, 70, 1));
    let reach = [0, 1].map(|at| (kernel[at] - 1) * dilations[at] + 1);
    let pads: Vec<usize> =
        list(draw, 4, 50, 0).iter().enumerate().map(|(at, pad)| (*pad).min(reach[at % 2] - 1)).collect();
    let (outer, result, rest) = (draw.shape(2), draw.shape(2), draw.shape(2));
    let size = |at: usize| {
        let windows = reach[at] + (result[at] - 1) * strides[at] + rest[at] % strides[at];
        windows.saturating_sub(pads[at] + pads[at + 2]).max(1)
    };
    let x = [outer[0], outer[1], size(0), size(1)];
    let windows = |at: usize| {
        let padded = x[2 + at] + pads[at] + pads[at + 2];
        padded.checked_sub(reach[at]).map(|room| room / strides[at] + 1)
    };
    let d = [outer[0], outer[1], windows(0)?, windows(1)?];
    let attrs = Attrs::new().sizes("kernel", &kernel).sizes("strides", &strides).sizes("pads", &pads);
    let types = [TensorType::plain(dtype, x), TensorType::plain(dtype, d)];
    Some(Sample::new(attrs.sizes("dilations", &dilations), types))
}
