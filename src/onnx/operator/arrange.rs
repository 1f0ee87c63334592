//! Operators that give the same elements another shape or order.

use super::{Call, ImportedValue, Operator, Results, entry};
use crate::attr::Attrs;
use crate::onnx::call::{axes, axis, signed};
use crate::onnx::{Refusal, element::checked_type};
use crate::tensor::{Shape, Tensor, TensorType};

pub(super) const TABLE: &[Operator] = &[
    entry("Expand", 2, 2, expand),
    entry("Flatten", 1, 1, flatten),
    entry("Reshape", 1, 2, reshape),
    entry("Squeeze", 1, 2, squeeze),
    entry("Tile", 2, 3, tile),
    entry("Transpose", 1, 1, transpose),
    entry("Unsqueeze", 1, 2, unsqueeze),
];

fn size(value: i64) -> Result<usize, Refusal> {
    usize::try_from(value).map_err(|_| Refusal::other(format!("its shape has the dimension {value}")))
}

/// In the shape, 0 keeps a dimension (unless `allowzero` is set), and a single -1 stands for the size that remains.
fn reshape(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let wanted = match call.opset {
        ..5 => call.ints("shape")?.map(<[i64]>::to_vec),
        _ => call.known_ints(1, "shape")?,
    };
    let wanted = wanted.ok_or_else(|| Refusal::other("its shape is missing"))?;
    let zero = call.opset >= 14 && call.flag("allowzero", false)?;
    let refuse =
        |why: &str| Err(Refusal::other(format!("its shape {wanted:?} {why}, and the operand is {}", x.ty)));
    let mut dims = Vec::with_capacity(wanted.len());
    let mut open = None;
    for (at, &dim) in wanted.iter().enumerate() {
        dims.push(match dim {
            0 if !zero => match x.dims().get(at) {
                Some(&kept) => kept,
                None => return refuse("keeps a dimension that does not exist"),
            },
            -1 if open.is_some() => return refuse("leaves more than one dimension open"),
            -1 => {
                open = Some(at);
                1
            }
            dim => match usize::try_from(dim) {
                Ok(dim) => dim,
                Err(_) => return refuse("has a negative dimension"),
            },
        });
    }
    let (count, given) = (x.ty.shape.count(), checked_type(x.ty.dtype, dims.clone())?.shape.count());
    if let Some(at) = open {
        dims[at] = match count.checked_div(given) {
            Some(rest) if rest * given == count => rest,
            // Without elements any size would do. ONNX Runtime takes the size that its other dimensions leave of the
            // operand's, without those that are zero.
            None if count == 0 => {
                let without = |dims: &[usize]| dims.iter().filter(|dim| **dim != 0).product::<usize>();
                without(x.dims()) / without(&dims).max(1)
            }
            _ => return refuse("does not divide the elements"),
        };
    } else if count != given {
        return refuse(&format!("has {given} elements, not {count}"));
    }
    Ok(vec![call.reshape(None, &x, &dims)?])
}

fn flatten(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let given = call.int("axis", 1)?;
    let at = if usize::try_from(given) == Ok(x.rank()) { x.rank() } else { axis(given, x.rank())? };
    let (rows, columns) = (x.dims()[..at].iter().product(), x.dims()[at..].iter().product());
    Ok(vec![call.reshape(None, &x, &[rows, columns])?])
}

/// Returns the axes, which are an attribute before opset 13, and an operand since then.
fn axes_of(call: &Call<'_>) -> Result<Option<Vec<i64>>, Refusal> {
    if call.opset >= 13 {
        return call.known_ints(1, "axes");
    }
    if call.input_count() > 1 {
        return Err(Refusal::other("its axes are an operand, which they are from opset 13 on"));
    }
    Ok(call.ints("axes")?.map(<[i64]>::to_vec))
}

fn squeeze(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let gone = match axes_of(call)? {
        Some(list) => axes(&list, x.rank())?,
        None => (0..x.rank()).filter(|&at| x.dims()[at] == 1).collect(),
    };
    if let Some(at) = gone.iter().find(|&&at| x.dims()[at] != 1) {
        return Err(Refusal::other(format!(
            "it takes out dimension {at}, which is {}, not 1",
            x.dims()[*at]
        )));
    }
    let dims: Vec<usize> = (0..x.rank()).filter(|at| !gone.contains(at)).map(|at| x.dims()[at]).collect();
    Ok(vec![call.reshape(None, &x, &dims)?])
}

fn unsqueeze(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let list = axes_of(call)?.ok_or_else(|| Refusal::other("its axes are missing"))?;
    let rank = x.rank() + list.len();
    let new = axes(&list, rank)?;
    let mut old = x.dims().iter();
    let dims: Vec<usize> =
        (0..rank).map(|at| if new.contains(&at) { 1 } else { old.next().copied().unwrap_or(1) }).collect();
    Ok(vec![call.reshape(None, &x, &dims)?])
}

fn transpose(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let rank = signed(&[x.rank()])[0];
    let perm = call.ints("perm")?.map_or_else(|| (0..rank).rev().collect(), <[i64]>::to_vec);
    let mut sorted = perm.clone();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..rank) {
        return Err(Refusal::attribute("perm", format!("is {perm:?}, not an order of {rank} dimensions")));
    }
    if perm.iter().copied().eq(0..rank) {
        return Ok(vec![x]);
    }
    Ok(vec![call.result("transpose", Attrs::new().ints("perm", &perm), &[&x])?])
}

fn expand(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let wanted = call.known_ints(1, "shape")?.unwrap_or_default();
    let dims = wanted.iter().map(|&dim| size(dim)).collect::<Result<Vec<_>, _>>()?;
    let shape = x.ty.shape.broadcast(&Shape::new(dims));
    let shape = shape.ok_or_else(|| {
        Refusal::other(format!("its shape {wanted:?} and its operand, {}, do not broadcast", x.ty))
    })?;
    if shape == x.ty.shape {
        return Ok(vec![x]);
    }
    Ok(vec![call.result("expand", Attrs::new().ints("shape", &signed(&shape)), &[&x])?])
}

/// Each repeated dimension becomes two dimensions, of which the first is expanded.
fn tile(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let mut repeats = call.known_ints(1, "repeats")?.unwrap_or_default();
    if call.opset < 6 {
        // One number of tiles along one axis.
        let along = call.known_ints(2, "axis")?.unwrap_or_default();
        let at = axis(along.first().copied().unwrap_or(0), x.rank())?;
        let times = repeats.first().copied().unwrap_or(1);
        repeats = (0..x.rank()).map(|one| if one == at { times } else { 1 }).collect();
    }
    if repeats.len() != x.rank() {
        return Err(Refusal::other(format!("it has {} repeats for {} dimensions", repeats.len(), x.rank())));
    }
    let (mut split, mut wide, mut dims) = (Vec::new(), Vec::new(), Vec::new());
    for (&dim, &repeat) in x.dims().iter().zip(&repeats) {
        let repeat = size(repeat)
            .map_err(|_| Refusal::other(format!("its repeats {repeats:?} must be at least 0")))?;
        if repeat > 1 {
            split.push(1);
            wide.push(repeat);
        }
        split.push(dim);
        wide.push(dim);
        dims.push(
            dim.checked_mul(repeat)
                .ok_or_else(|| Refusal::other(format!("its repeats {repeats:?} are too large")))?,
        );
    }
    if dims == x.dims() {
        return Ok(vec![x]);
    }
    if repeats.contains(&0) {
        let empty = Tensor::zeros(TensorType::plain(x.ty.dtype, Shape::new(dims)));
        return Ok(vec![ImportedValue::constant(call.output_name(0), empty)]);
    }
    let apart = call.reshape(Some("apart"), &x, &split)?;
    let wide = call.helper("repeated", "expand", Attrs::new().ints("shape", &signed(&wide)), &[&apart])?;
    Ok(vec![call.reshape(None, &wide, &dims)?])
}
