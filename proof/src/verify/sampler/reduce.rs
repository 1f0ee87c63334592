//! Samplers of reductions and normalisations.

use super::{Ask, Offer, Wish};
use ovolo::attr::Attrs;
use ovolo::op::{Arity, Values};
use ovolo::tensor::{DType, TensorType};

pub(super) fn int(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(0)
}

pub(super) fn ints(values: &[usize]) -> Vec<i64> {
    values.iter().map(|one| int(*one)).collect()
}

fn float_type(dtype: DType) -> DType {
    if dtype.is_float() { dtype } else { DType::F32 }
}

/// The type of the determined operand or of the wanted result, with at least `rank` dimensions.
fn at_least(ask: &mut Ask<'_>, rank: usize) -> TensorType {
    let mut ty = ask.known(0).unwrap_or(ask.wish).clone();
    let mut shape = ty.shape.to_vec();
    while shape.len() < rank {
        shape.push(ask.rng.pick(&ask.palette.sizes));
    }
    ty.shape = shape.into();
    ty.dtype = float_type(ty.dtype);
    TensorType::plain(ty.dtype, ty.shape)
}

/// An op along one axis.
pub(super) fn along(ask: &mut Ask<'_>) -> Option<Offer> {
    let ty = at_least(ask, 1);
    let axis = ask.axis(ty.shape.rank())?;
    Some(Offer { attrs: Attrs::new().int("axis", int(axis)), operands: vec![Wish::any(ty)] })
}

/// A scale over the last axes, and possibly a bias.
pub(super) fn layer_norm(ask: &mut Ask<'_>) -> Option<Offer> {
    let ty = at_least(ask, 1);
    let axis = ask.axis(ty.shape.rank())?;
    let inner = Wish::plain(ty.dtype, ty.shape[axis..].to_vec());
    let attrs = Attrs::new().int("axis", int(axis)).float("epsilon", ask.float("epsilon"));
    let Arity::Exactly(count) = ask.op.arity else { return None };
    let mut operands = vec![Wish::any(ty)];
    operands.resize(count, inner);
    Some(Offer { attrs, operands })
}

/// Operands with one value for each channel; the last of five is a variance.
pub(super) fn channels(ask: &mut Ask<'_>) -> Option<Offer> {
    let ty = at_least(ask, 2);
    let one = Wish::plain(ty.dtype, vec![ty.shape[1]]);
    let mut operands = vec![Wish::any(ty)];
    let Arity::Exactly(count) = ask.op.arity else { return None };
    operands.resize(count, one);
    if let [_, _, _, _, variance] = &mut operands[..] {
        variance.values = Values::Positive;
    }
    Some(Offer { attrs: Attrs::new().float("epsilon", ask.float("epsilon")), operands })
}

/// A window over neighbouring channels.
pub(super) fn lrn(ask: &mut Ask<'_>) -> Option<Offer> {
    let ty = at_least(ask, 2);
    let size = ask.int("size").unwrap_or_else(|| ask.rng.below(5) + 1);
    let mut attrs = Attrs::new().int("size", int(size));
    for name in ["alpha", "beta", "bias"] {
        attrs = attrs.float(name, ask.float(name));
    }
    Some(Offer { attrs, operands: vec![Wish::any(ty)] })
}

/// A reduction over some axes. If they are kept, these are the axes of size 1 in the wanted result.
pub(super) fn reduce(ask: &mut Ask<'_>) -> Option<Offer> {
    let keep = ask.flag("keepdims");
    let settled = ask.list("axes");
    let wish = ask.wish.shape.to_vec();
    let (axes, shape) = if let Some(known) = ask.known(0).cloned() {
        let axes = settled.unwrap_or_else(|| some_axes(ask, known.shape.rank()));
        (axes, known.shape.to_vec())
    } else if keep {
        let small: Vec<usize> = (0..wish.len()).filter(|axis| wish[*axis] == 1).collect();
        let axes = settled.unwrap_or_else(|| {
            if small.is_empty() || ask.rng.percent(20) { some_axes(ask, wish.len()) } else { small }
        });
        let mut shape = wish;
        for axis in &axes {
            *shape.get_mut(*axis)? = ask.rng.pick(&ask.palette.sizes);
        }
        (axes, shape)
    } else {
        let count = settled.as_ref().map_or_else(|| 1 + ask.rng.below(2), Vec::len);
        let axes = settled.unwrap_or_else(|| {
            let mut axes = ask.rng.order(wish.len() + count);
            axes.truncate(count);
            axes.sort_unstable();
            axes
        });
        let mut shape = wish;
        for axis in &axes {
            let size = ask.rng.pick(&ask.palette.sizes);
            (*axis <= shape.len()).then(|| shape.insert(*axis, size))?;
        }
        (axes, shape)
    };
    let ty = TensorType::plain(ask.wish.dtype, shape);
    let attrs = Attrs::new().ints("axes", &ints(&axes)).int("keepdims", i64::from(keep));
    Some(Offer { attrs, operands: vec![Wish::any(ty)] })
}

/// Draws axes: mostly the last one, or a few.
fn some_axes(ask: &mut Ask<'_>, rank: usize) -> Vec<usize> {
    if rank > 0 && ask.rng.percent(40) {
        return vec![rank - 1];
    }
    (0..rank).filter(|_| ask.rng.percent(50)).collect()
}

/// A reduction over one axis of an operand of any type.
pub(super) fn arg(ask: &mut Ask<'_>) -> Option<Offer> {
    let keep = ask.flag("keepdims");
    let settled = ask.known(0).map(|known| known.dtype);
    let dtype = settled.unwrap_or_else(|| ask.palette.dtype(ask.rng));
    let mut shape = ask.known(0).unwrap_or(ask.wish).shape.to_vec();
    if ask.known(0).is_none() && (!keep || shape.is_empty()) {
        shape.insert(ask.rng.below(shape.len() + 1), 1);
    }
    let axis = ask.axis(shape.len())?;
    if ask.known(0).is_none() {
        shape[axis] = ask.rng.pick(&ask.palette.sizes);
    }
    let attrs = Attrs::new()
        .int("axis", int(axis))
        .int("keepdims", i64::from(keep))
        .int("select-last", i64::from(ask.flag("select-last")));
    Some(Offer { attrs, operands: vec![Wish::plain(dtype, shape)] })
}
