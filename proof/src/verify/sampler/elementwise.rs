//! Samplers of elementwise ops.

use super::super::palette::{DTYPES, ones, pair, partner};
use super::{Ask, Offer, Wish};
use ovolo::attr::{Attr, AttrKind, Attrs, Step};
use ovolo::op::Values;
use ovolo::scalar::{Domain, Function};
use ovolo::tensor::{DType, TensorType};

/// The operand has the type of the wanted result.
pub(super) fn unary(ask: &mut Ask<'_>) -> Option<Offer> {
    let mut ty = ask.wish.clone();
    match ask.op.meaning() {
        "not" => ty.dtype = DType::Bool,
        "isnan" => ty.dtype = ask.rng.pick(&[DType::F32, DType::F32, DType::F64, DType::I32]),
        _ => {}
    }
    Some(Offer { attrs: floats(ask), operands: vec![Wish::any(ty)] })
}

/// The op's least number of operands, each of the wanted result's type. Float attributes vary, and the others
/// stay at their defaults. Typing refuses whatever the op does not accept.
pub(super) fn alike(ask: &mut Ask<'_>) -> Option<Offer> {
    let mut attrs = floats(ask);
    for def in &ask.op.definition().attrs {
        if attrs.get(def.name).is_none() {
            attrs.set(def.name, ask.fixed.get(def.name).or(def.default.as_ref())?.clone());
        }
    }
    Some(Offer { attrs, operands: vec![Wish::any(ask.wish.clone()); ask.least] })
}

/// Float attributes and flags: determined, at the default, or random.
fn floats(ask: &mut Ask<'_>) -> Attrs {
    let mut attrs = Attrs::new();
    for def in &ask.op.definition().attrs {
        attrs = match def.kind {
            AttrKind::Float => attrs.float(def.name, ask.float(def.name)),
            AttrKind::Int => attrs.int(def.name, i64::from(ask.flag(def.name))),
            _ => attrs,
        };
    }
    attrs
}

/// Operands that broadcast to the wished result.
pub(super) fn binary(ask: &mut Ask<'_>) -> Option<Offer> {
    let name = ask.op.meaning();
    let mut ty = ask.wish.clone();
    match ask.op.flags.function.map(Function::domain) {
        Some(Domain::Logic) => ty.dtype = DType::Bool,
        Some(Domain::Comparison | Domain::Equality) => {
            ty.dtype = match (ask.known(0), ask.known(1)) {
                (Some(known), _) | (_, Some(known)) => known.dtype,
                _ => ask.palette.dtype(ask.rng),
            };
        }
        _ => {}
    }
    let [left, right] = if ty.layout.is_plain() {
        let (left, right) = match (ask.known(0).cloned(), ask.known(1).cloned()) {
            (Some(left), Some(right)) => (left.shape.to_vec(), right.shape.to_vec()),
            (Some(left), None) => (left.shape.to_vec(), beside(ask, &left)),
            (None, Some(right)) => (beside(ask, &right), right.shape.to_vec()),
            (None, None) => pair(ask.rng, &ty.shape),
        };
        [left, right].map(|shape| TensorType { shape: shape.into(), ..ty.clone() })
    } else {
        // In a blocked layout, both have the same shape, or one has a single element in the default layout.
        let mut sides = [ty.clone(), ty.clone()];
        if ask.rng.percent(25) {
            let at = ask.rng.below(2);
            sides[at] = TensorType::plain(ty.dtype, ones(ask.rng, 1));
        }
        sides
    };
    let mut operands = vec![Wish::any(left), Wish::any(right)];
    if name == "pow" {
        operands[1].values = Values::Exponent;
    }
    Some(Offer { attrs: floats(ask), operands })
}

/// A shape for the operand beside one that is already determined.
fn beside(ask: &mut Ask<'_>, known: &TensorType) -> Vec<usize> {
    let wish = &ask.wish.shape;
    if known.shape == *wish {
        return if ask.rng.percent(35) { wish.to_vec() } else { partner(ask.rng, wish) };
    }
    if known.shape.broadcast(wish).as_ref() == Some(wish) {
        return wish.to_vec();
    }
    partner(ask.rng, &known.shape)
}

/// A condition and two values that broadcast to the wished result.
pub(super) fn choose(ask: &mut Ask<'_>) -> Option<Offer> {
    let shape = ask.wish.shape.to_vec();
    let (left, right) = pair(ask.rng, &shape);
    let (condition, left) =
        if ask.rng.percent(50) { (shape.clone(), left) } else { (partner(ask.rng, &shape), shape) };
    let dtype = ask.wish.dtype;
    let operands =
        vec![Wish::plain(DType::Bool, condition), Wish::plain(dtype, left), Wish::plain(dtype, right)];
    Some(Offer { attrs: Attrs::new(), operands })
}

/// A cast from any type to the wanted one.
pub(super) fn cast(ask: &mut Ask<'_>) -> Option<Offer> {
    let to = match ask.fixed.get("to") {
        Some(Attr::DType(to)) => *to,
        // A cast to the same type is a special case.
        _ if ask.rng.percent(75) => ask.wish.dtype,
        _ => ask.known(0).unwrap_or(ask.wish).dtype,
    };
    let dtype = if ask.rng.percent(25) { to } else { ask.rng.pick(&DTYPES) };
    let operand = TensorType { dtype, ..ask.wish.clone() };
    Some(Offer { attrs: Attrs::new().with("to", Attr::DType(to)), operands: vec![Wish::any(operand)] })
}

/// A scalar.
pub(super) fn scalar(ask: &mut Ask<'_>) -> Option<Offer> {
    Some(Offer { attrs: Attrs::new().float("value", ask.float("value")), operands: Vec::new() })
}

/// A chain on a value of the wanted type.
pub(super) fn map(ask: &mut Ask<'_>) -> Option<Offer> {
    steps(ask, |ask, ty| ask.post(1, ty))
}

pub(super) fn tree(ask: &mut Ask<'_>) -> Option<Offer> {
    steps(ask, |ask, ty| ask.tree(ty))
}

type Drawn = Option<(Vec<Step>, Vec<Wish>)>;

/// An op with a chain or tree of steps on its first operand.
fn steps(ask: &mut Ask<'_>, draw: impl Fn(&mut Ask<'_>, &TensorType) -> Drawn) -> Option<Offer> {
    let mut ty = ask.known(0).unwrap_or(ask.wish).clone();
    if !matches!(ty.dtype, DType::F16 | DType::BF16) {
        ty.dtype = DType::F32;
    }
    let (steps, extras) = draw(ask, &ty)?;
    let mut operands = vec![Wish::any(ty)];
    operands.extend(extras);
    Some(Offer { attrs: Attrs::new().with("post", Attr::Post(steps)), operands })
}
