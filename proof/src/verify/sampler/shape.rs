//! Samplers of ops that move elements.

use super::super::palette::{partner, refactor};
use super::{Ask, Offer, Wish};
use ovolo::attr::{Attr, Attrs};
use ovolo::op::Values;
use ovolo::tensor::DType;

fn int(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(0)
}

fn ints(values: &[usize]) -> Vec<i64> {
    values.iter().map(|one| int(*one)).collect()
}

/// A shape with the same number of elements, sometimes the same shape.
pub(super) fn reshape(ask: &mut Ask<'_>) -> Option<Offer> {
    let wish = ask.wish.shape.to_vec();
    let (operand, shape) = match (ask.known(0).cloned(), ask.list("shape")) {
        (Some(known), Some(shape)) => (known.shape.to_vec(), shape),
        (Some(known), None) if known.shape.count() == wish.iter().product::<usize>() => {
            (known.shape.to_vec(), wish)
        }
        (Some(known), None) => (known.shape.to_vec(), refactor(ask.rng, known.shape.count())),
        (None, settled) => {
            let shape = settled.unwrap_or(wish);
            // A value this large is never evaluated, so its factors need not be searched for.
            let count = shape.iter().try_fold(1usize, |count, size| count.checked_mul(*size));
            let other = refactor(ask.rng, count.filter(|count| *count <= ask.palette.largest)?);
            (if ask.rng.percent(25) { shape.clone() } else { other }, shape)
        }
    };
    let attrs = Attrs::new().ints("shape", &ints(&shape));
    Some(Offer { attrs, operands: vec![Wish::plain(ask.wish.dtype, operand)] })
}

/// A permutation of the axes, sometimes the identity.
pub(super) fn transpose(ask: &mut Ask<'_>) -> Option<Offer> {
    let wish = ask.wish.shape.to_vec();
    let known = ask.known(0).map(|known| known.shape.to_vec());
    let rank = known.as_ref().map_or(wish.len(), Vec::len);
    let perm = ask
        .list("perm")
        .unwrap_or_else(|| if ask.rng.percent(15) { (0..rank).collect() } else { ask.rng.order(rank) });
    let operand = match known {
        Some(known) => known,
        None => {
            let wish = if wish.len() == perm.len() { wish } else { ask.palette.shape(ask.rng, perm.len()) };
            let mut operand = vec![1; perm.len()];
            for (at, axis) in perm.iter().enumerate() {
                *operand.get_mut(*axis)? = wish[at];
            }
            operand
        }
    };
    let attrs = Attrs::new().ints("perm", &ints(&perm));
    Some(Offer { attrs, operands: vec![Wish::plain(ask.wish.dtype, operand)] })
}

/// A part of each axis, sometimes all of it, forwards or backwards.
pub(super) fn slice(ask: &mut Ask<'_>) -> Option<Offer> {
    let known = ask.known(0).map(|known| known.shape.to_vec());
    let mut sizes = ask.list("sizes").unwrap_or_else(|| ask.wish.shape.to_vec());
    if let (Some(known), None) = (&known, ask.list("sizes")) {
        // Choose sizes that fit the determined operand.
        let fits = sizes.len() == known.len() && sizes.iter().zip(known).all(|(size, all)| size <= all);
        if !fits || ask.rng.percent(40) {
            sizes = known
                .iter()
                .map(|size| if ask.rng.percent(40) { *size } else { ask.rng.below(*size) + 1 })
                .collect();
        }
    }
    let whole = ask.rng.percent(20);
    // Reverse some whole axes: then no size tells which axes are reversed.
    let backwards = !whole && ask.rng.percent(10);
    let roomy = (!whole && !sizes.is_empty() && ask.rng.percent(40)).then(|| ask.rng.below(sizes.len()));
    let settled_starts = ask.list("starts");
    let settled_steps = match ask.fixed.get("steps") {
        Some(Attr::Ints(steps)) => Some(steps.clone()),
        _ => None,
    };
    let (mut operand, mut starts, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    for (axis, size) in sizes.iter().copied().enumerate() {
        let turned = backwards && ask.rng.percent(60);
        let plain = whole || !turned && ask.palette.default(ask.rng);
        let room = known.as_ref().map(|known| known.get(axis).copied().unwrap_or(1));
        let step = match &settled_steps {
            Some(steps) => *steps.get(axis)?,
            None if plain => 1,
            None if turned => -1,
            None => ask.rng.pick(&[1, 1, 2, 3, -1, -2]),
        };
        let span = size.saturating_sub(1) * usize::try_from(step.unsigned_abs()).ok()?;
        let slack = if plain || turned { 0 } else { ask.rng.below(3) };
        let before = match room {
            Some(room) => ask.rng.below((room.saturating_sub(span)).max(1)),
            None => slack,
        };
        let start = match &settled_starts {
            Some(starts) => *starts.get(axis)?,
            None => before + if step < 0 { span } else { 0 },
        };
        let first = if step < 0 { start } else { start + span };
        let after = match roomy == Some(axis) {
            // Leave room for as many elements after it: a neighbouring slice.
            true => (size + 1) * usize::try_from(step.unsigned_abs()).ok()?,
            false if plain || turned => 0,
            false => ask.rng.below(2),
        };
        operand.push(room.unwrap_or(first + 1 + after));
        starts.push(start);
        steps.push(step);
    }
    let attrs = Attrs::new()
        .ints("starts", &ints(&starts))
        .ints("sizes", &ints(&sizes))
        .with("steps", Attr::Ints(steps));
    Some(Offer { attrs, operands: vec![Wish::plain(ask.wish.dtype, operand)] })
}

/// Parts of the wished result along an axis.
pub(super) fn concat(ask: &mut Ask<'_>) -> Option<Offer> {
    let settled = ask.known.iter().flatten().next().cloned();
    let mut shape = settled.as_ref().map_or_else(|| ask.wish.shape.to_vec(), |ty| ty.shape.to_vec());
    if shape.is_empty() {
        shape.push(ask.rng.pick(&ask.palette.sizes));
    }
    let axis = ask.axis(shape.len())?;
    let mut count = ask.least.max(1) + ask.rng.below(3).min(ask.most - ask.least.max(1));
    if !ask.palette.wishes.is_empty() && ask.rng.percent(30) {
        // A guard may demand this number of operands.
        count = ask.rng.pick(&ask.palette.wishes).clamp(ask.least.max(1), ask.most.max(1));
    }
    let total = shape[axis];
    let image = shape.len() == 4 && axis == 1;
    // Numbers of channels that fill blocks are a special case for many rules.
    let round = image && ask.rng.percent(50);
    let mut operands = Vec::new();
    let mut rest = total;
    for part in 0..count {
        let size = if let Some(known) = ask.known(part) {
            *known.shape.get(axis)?
        } else if settled.is_some() {
            // Choose a size that fits the determined operands; equal sizes are likely.
            if ask.rng.percent(50) { total } else { ask.rng.pick(&ask.palette.sizes) }
        } else if round {
            ask.rng.pick(&[8, 16, 16])
        } else if part + 1 == count {
            rest.max(1)
        } else {
            1 + ask.rng.below(rest.saturating_sub(count - part - 1).max(1))
        };
        rest = rest.saturating_sub(size);
        let mut one = shape.clone();
        one[axis] = size;
        operands.push(Wish::plain(settled.as_ref().unwrap_or(ask.wish).dtype, one));
    }
    Some(Offer { attrs: Attrs::new().int("axis", int(axis)), operands })
}

/// Indices along an axis: in the wanted result, their shape replaces the axis.
pub(super) fn gather(ask: &mut Ask<'_>) -> Option<Offer> {
    let wish = ask.wish.shape.to_vec();
    let positions = ask.known(1).cloned();
    let (axis, operand, shape) = if let Some(known) = ask.known(0).cloned() {
        let axis = ask.axis(known.shape.rank())?;
        let rank = ask.rng.below(3);
        (axis, known.shape.to_vec(), ask.palette.shape(ask.rng, rank))
    } else {
        let axis = ask.int("axis").unwrap_or_else(|| ask.rng.below(wish.len() + 1)).min(wish.len());
        let rank = positions.as_ref().map_or_else(|| ask.rng.below(3), |ty| ty.shape.rank());
        let end = (axis + rank).min(wish.len());
        let mut operand = wish[..axis].to_vec();
        operand.push(ask.rng.pick(&ask.palette.sizes));
        operand.extend_from_slice(&wish[end..]);
        (axis, operand, wish[axis..end].to_vec())
    };
    Some(Offer { attrs: Attrs::new().int("axis", int(axis)), operands: indexed(ask, axis, operand, shape) })
}

fn indexed(ask: &mut Ask<'_>, axis: usize, operand: Vec<usize>, positions: Vec<usize>) -> Vec<Wish> {
    let dtype = ask.rng.pick(&[DType::I64, DType::I64, DType::I32]);
    let values = Values::Below(operand.get(axis).copied().unwrap_or(1));
    let positions = Wish { values, ..Wish::plain(dtype, positions) };
    vec![Wish::plain(ask.wish.dtype, operand), positions]
}

/// One index for each element of the wanted result.
pub(super) fn gather_elements(ask: &mut Ask<'_>) -> Option<Offer> {
    let mut shape = ask.known(1).unwrap_or(ask.wish).shape.to_vec();
    if shape.is_empty() {
        shape.push(ask.rng.pick(&ask.palette.sizes));
    }
    let axis = ask.axis(shape.len())?;
    let mut operand: Vec<usize> = shape.iter().map(|size| size + ask.rng.below(2)).collect();
    operand[axis] = ask.rng.pick(&ask.palette.sizes);
    if let Some(known) = ask.known(0) {
        operand = known.shape.to_vec();
    }
    Some(Offer { attrs: Attrs::new().int("axis", int(axis)), operands: indexed(ask, axis, operand, shape) })
}

/// A shape that broadcasts to the wished one.
pub(super) fn expand(ask: &mut Ask<'_>) -> Option<Offer> {
    let shape = ask.list("shape").unwrap_or_else(|| ask.wish.shape.to_vec());
    let operand = partner(ask.rng, &shape);
    let attrs = Attrs::new().ints("shape", &ints(&shape));
    Some(Offer { attrs, operands: vec![Wish::plain(ask.wish.dtype, operand)] })
}

/// The wanted result without its border.
pub(super) fn pad(ask: &mut Ask<'_>) -> Option<Offer> {
    let wish = ask.wish.shape.to_vec();
    let rank = ask.known(0).map_or(wish.len(), |known| known.shape.rank());
    let pads = ask.list("pads").unwrap_or_else(|| {
        (0..2 * rank).map(|_| if ask.palette.default(ask.rng) { 0 } else { ask.rng.below(3) }).collect()
    });
    let operand = match ask.known(0) {
        Some(known) => known.shape.to_vec(),
        None => (0..rank)
            .map(|axis| Some(wish[axis].saturating_sub(pads.get(axis)? + pads.get(rank + axis)?).max(1)))
            .collect::<Option<_>>()?,
    };
    let dtype = ask.known(0).unwrap_or(ask.wish).dtype;
    let value = super::super::palette::ones(ask.rng, 1);
    let attrs = Attrs::new().ints("pads", &ints(&pads));
    Some(Offer { attrs, operands: vec![Wish::plain(dtype, operand), Wish::plain(dtype, value)] })
}
