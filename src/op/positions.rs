//! `max-pool-index`.

use super::independence::batch;
use super::window::room;
use super::{Arity, AttrDef, Draw, Flags, OpDef, OpError, Sample, count, plain, sizes};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{DType, Tensor, TensorType, advance};

pub(super) fn ops() -> Vec<OpDef> {
    let ints = |name, doc| AttrDef::new(name, AttrKind::Ints, None, doc);
    vec![OpDef {
        name: "max-pool-index",
        doc: "the position, among all elements of the operand, of the first largest element of each window",
        arity: Arity::Exactly(1),
        attrs: vec![
            ints("kernel", "the sizes of the window"),
            ints("strides", "between windows, along each axis"),
            ints("dilations", "between the elements of a window, along each axis"),
            ints("pads", "before each axis, then after each"),
            AttrDef::new(
                "column-major",
                AttrKind::Int,
                Some(Attr::Int(0)),
                "1: positions in a plane count along its first axis first",
            ),
        ],
        flags: Flags::independent(batch),
        infer,
        eval,
        flops: |attrs, _, ty| {
            #[allow(clippy::cast_precision_loss)]
            let window = attrs.expect_ints("kernel").iter().product::<i64>() as f64;
            count(ty) * window
        },
        sample: Some(draw_windows),
        lowered: None,
    }]
}

fn infer(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    plain(types)?;
    let x = &types[0].shape;
    let (kernel, strides) = (sizes(attrs, "kernel")?, sizes(attrs, "strides")?);
    let (dilations, pads) = (sizes(attrs, "dilations")?, sizes(attrs, "pads")?);
    let rank = x.rank().saturating_sub(2);
    let fits = [kernel.len(), strides.len(), dilations.len(), pads.len()] == [rank, rank, rank, 2 * rank];
    if !fits || [&strides, &kernel, &dilations].iter().any(|list| list.contains(&0)) {
        return Err(OpError::operand(0, types[0], format!(", which has no windows of {kernel:?}")));
    }
    let mut dims = x[..2].to_vec();
    for at in 0..rank {
        let rest = room(x[2 + at], [pads[at], pads[rank + at]], kernel[at], dilations[at]);
        let rest = rest.ok_or_else(|| OpError::operand(0, types[0], ", which is smaller than a window"))?;
        dims.push(rest / strides[at] + 1);
    }
    Ok(TensorType::plain(DType::I64, dims))
}

fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let list = |name| sizes(attrs, name).expect("infer accepted");
    let (kernel, strides) = (list("kernel"), list("strides"));
    let (dilations, pads) = (list("dilations"), list("pads"));
    let column_major = attrs.expect_int("column-major") != 0;
    let space = &operands[0].ty().shape[2..];
    let area: usize = space.iter().product();
    let values = operands[0].to_f64();
    let (windows, steps): (usize, usize) = (ty.shape[2..].iter().product(), kernel.iter().product());
    let mut result = Vec::with_capacity(ty.shape.count());
    for plane in 0..ty.shape[0] * ty.shape[1] {
        let mut window = vec![0; space.len()];
        for _ in 0..windows {
            let (mut best, mut found) = (f64::NEG_INFINITY, None);
            let mut step = vec![0; space.len()];
            for _ in 0..steps {
                let place: Option<Vec<usize>> = (0..space.len())
                    .map(|at| {
                        let index =
                            (window[at] * strides[at] + step[at] * dilations[at]).checked_sub(pads[at])?;
                        (index < space[at]).then_some(index)
                    })
                    .collect();
                if let Some(place) = place {
                    let at = place.iter().zip(space).fold(0, |sum, (index, size)| sum * size + index);
                    let value = values[plane * area + at];
                    if found.is_none() || value > best {
                        let position = match column_major {
                            true => {
                                place.iter().zip(space).rev().fold(0, |sum, (index, size)| sum * size + index)
                            }
                            false => at,
                        };
                        (best, found) = (value, Some(plane * area + position));
                    }
                }
                advance(&mut step, &kernel);
            }
            result.push(i64::try_from(found.unwrap_or(0)).unwrap_or(i64::MAX));
            advance(&mut window, &ty.shape[2..]);
        }
    }
    Tensor::from_elements(ty.shape.clone(), &result)
}

/// Draws windows of an image.
fn draw_windows(draw: &mut dyn Draw) -> Option<Sample> {
    let (dtype, kernel, result, outer) = (draw.floats(), draw.shape(2), draw.shape(2), draw.shape(2));
    let x = vec![outer[0], outer[1], kernel[0] + result[0] - 1, kernel[1] + result[1] - 1];
    let attrs = Attrs::new().sizes("kernel", &kernel).sizes("strides", &draw.shape(2));
    let attrs = attrs.ints("dilations", &[1, 1]).ints("pads", &[0; 4]);
    Some(Sample::new(attrs.size("column-major", draw.below(2)), vec![TensorType::plain(dtype, x)]))
}
