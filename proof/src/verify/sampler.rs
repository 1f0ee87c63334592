//! Samplers: for each op, which operand types and attributes may give a wished result.
//!
//! A sampler only proposes. What it offers is typed by the op itself, and a rule's guards decide on
//! the instance; an offer that does not fit costs a try. A lowered op is sampled as its logical op,
//! and its layouts are put in afterwards. A new op is an entry in [`SAMPLERS`]; a test holds that no
//! op of the registry lacks one.

mod device;
mod elementwise;
mod layout;
mod linear;
mod made;
mod reduce;
mod shape;
mod window;

use super::palette::Palette;
use super::rng::Rng;
use super::value::{LARGEST, Values};
use ovolo::attr::{Attr, Attrs, Float, Step, StepOp};
use ovolo::op::{self, Op, post};
use ovolo::scalar::{self, Function};
use ovolo::tensor::{DType, TensorType};
use std::sync::LazyLock;

/// The wished type and values of an operand.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    /// The type.
    pub ty: TensorType,
    /// The values.
    pub values: Values,
}

impl Wish {
    /// A type with any values.
    pub fn any(ty: TensorType) -> Self {
        Self { ty, values: Values::Any }
    }

    /// A type in the default layout, with any values.
    pub fn plain(dtype: DType, shape: Vec<usize>) -> Self {
        Self::any(TensorType::plain(dtype, shape))
    }
}

/// What a sampler is asked.
pub(super) struct Ask<'a> {
    /// The op.
    pub op: Op,
    /// The source of randomness.
    pub rng: &'a mut Rng,
    /// What to draw from.
    pub palette: &'a Palette,
    /// The wished result.
    pub wish: &'a TensorType,
    /// Types of operands that are settled, by position.
    pub known: &'a [Option<TensorType>],
    /// Attributes that are settled.
    pub fixed: &'a Attrs,
    /// The fewest operands.
    pub least: usize,
    /// The most operands.
    pub most: usize,
}

/// What a sampler offers: every attribute of the op, and a wish for each operand.
pub(super) struct Offer {
    /// The attributes.
    pub attrs: Attrs,
    /// The operands.
    pub operands: Vec<Wish>,
}

/// Samples one op; `None` where what is settled leaves nothing to offer.
pub(super) type Sampler = fn(&mut Ask<'_>) -> Option<Offer>;

/// Every sampler by the logical op's name; elementwise ops of one and two operands are known by their flag.
const SAMPLERS: &[(&str, Sampler)] = &[
    ("not", elementwise::unary),
    ("isnan", elementwise::unary),
    ("mod", elementwise::binary),
    ("where", elementwise::choose),
    ("cast", elementwise::cast),
    ("scalar", elementwise::scalar),
    ("map", elementwise::map),
    ("tree", elementwise::tree),
    ("matmul", linear::matmul),
    ("attention", linear::attention),
    ("conv", window::conv),
    ("conv-transpose", window::conv_transpose),
    ("resize", window::resize),
    ("pointwise-depthwise", window::pointwise_depthwise),
    ("squeeze-excite", window::squeeze_excite),
    ("widen-groups", window::widen_groups),
    ("winograd-weights", window::winograd_weights),
    ("strassen-weights", linear::strassen_weights),
    ("max-pool", window::pool),
    ("avg-pool", window::pool),
    ("softmax", reduce::along),
    ("log-softmax", reduce::along),
    ("layer-norm", reduce::layer_norm),
    ("batch-norm", reduce::channels),
    ("instance-norm", reduce::channels),
    ("lrn", reduce::lrn),
    ("reduce-sum", reduce::reduce),
    ("reduce-mean", reduce::reduce),
    ("reduce-max", reduce::reduce),
    ("reduce-min", reduce::reduce),
    ("reduce-prod", reduce::reduce),
    ("arg-max", reduce::arg),
    ("arg-min", reduce::arg),
    ("reshape", shape::reshape),
    ("transpose", shape::transpose),
    ("slice", shape::slice),
    ("concat", shape::concat),
    ("gather", shape::gather),
    ("gather-elements", shape::gather_elements),
    ("expand", shape::expand),
    ("pad", shape::pad),
    ("pack", layout::pack),
    ("unpack", layout::unpack),
    ("reorder", layout::reorder),
    ("grad", device::gradient),
];

/// The sampler of a logical op.
fn named(op: Op) -> Option<Sampler> {
    let named = SAMPLERS.iter().find(|(known, _)| *known == op.name);
    named.map(|(_, sampler)| *sampler).or(match op.arity {
        _ if op.flags.transfer.is_some() => Some(device::transfer),
        op::Arity::Exactly(1) if op.flags.elementwise => Some(elementwise::unary),
        op::Arity::Exactly(2) if op.flags.elementwise => Some(elementwise::binary),
        _ => None,
    })
}

/// What the sampler of an op offers.
fn sampled(ask: &mut Ask<'_>) -> Option<Offer> {
    match &ask.op.definition().lowered {
        Some(lowered) if !lowered.makers.is_empty() => made::made(ask, lowered),
        // An op that another crate adds is sampled by its declaration alone.
        _ => named(ask.op.logical()).unwrap_or(elementwise::alike)(ask),
    }
}

/// Whether an attribute holds a number that is no size of what is evaluated, nor anything else that an op
/// is told. Large ones make values that no memory holds, and loops that do not end.
pub(super) fn beyond(value: &Attr) -> bool {
    let large = |one: &i64| one.unsigned_abs() > 8 * LARGEST as u64;
    match value {
        Attr::Int(one) => large(one),
        Attr::Ints(list) => list.iter().any(large),
        _ => false,
    }
}

/// Asks the op's sampler; there is no offer for numbers that are [`beyond`] what is evaluated.
pub(super) fn offer(ask: &mut Ask<'_>) -> Option<Offer> {
    if ask.fixed.iter().any(|(_, value)| beyond(value)) {
        return None;
    }
    let mut offer = sampled(ask)?;
    layout::lower(ask, &mut offer);
    // What the sampler had no say in is filled from the declarations.
    for def in &ask.op.attrs {
        if let Some(value) = ask.fixed.get(def.name) {
            offer.attrs.set(def.name, value.clone());
        } else if offer.attrs.get(def.name).is_none() {
            offer.attrs.set(def.name, def.default.clone()?);
        }
    }
    (ask.least..=ask.most).contains(&offer.operands.len()).then_some(offer)
}

impl Ask<'_> {
    /// The settled type of an operand.
    pub fn known(&self, operand: usize) -> Option<&TensorType> {
        self.known.get(operand).and_then(Option::as_ref)
    }

    /// A settled list of integers that are not negative.
    pub fn list(&self, name: &str) -> Option<Vec<usize>> {
        match self.fixed.get(name) {
            Some(Attr::Ints(list)) => {
                Some(list.iter().map(|one| usize::try_from(*one).unwrap_or(0)).collect())
            }
            _ => None,
        }
    }

    /// A settled integer that is not negative.
    pub fn int(&self, name: &str) -> Option<usize> {
        match self.fixed.get(name) {
            Some(Attr::Int(one)) => usize::try_from(*one).ok(),
            _ => None,
        }
    }

    /// The settled axis, or one of this many.
    pub fn axis(&mut self, rank: usize) -> Option<usize> {
        let axis = self.int("axis").unwrap_or_else(|| self.rng.below(rank.max(1)));
        (axis < rank).then_some(axis)
    }

    /// A float attribute: settled, its default, or a value far from it.
    pub fn float(&mut self, name: &str) -> f64 {
        if let Some(Attr::Float(value)) = self.fixed.get(name) {
            return value.0;
        }
        let default = self.op.attr(name).and_then(|def| match def.default {
            Some(Attr::Float(value)) => Some(value.0),
            _ => None,
        });
        match default {
            Some(default) if self.palette.default(self.rng) => default,
            _ => parameter(self.rng, self.palette, name),
        }
    }

    /// A flag: settled, or either.
    pub fn flag(&mut self, name: &str) -> bool {
        self.int(name).map_or_else(|| self.rng.percent(50), |flag| flag != 0)
    }

    /// A chain of unary steps, settled or drawn.
    pub fn unary(&mut self, name: &str) -> Vec<Step> {
        match self.fixed.get(name) {
            Some(Attr::Post(steps)) => steps.clone(),
            _ => chain(self.rng, self.palette, 0, 0),
        }
    }

    /// A post chain, settled or drawn, for an op of `base` operands; and wishes for its extra
    /// operands, which broadcast to the result.
    pub fn post(&mut self, base: usize, result: &TensorType) -> Option<(Vec<Step>, Vec<Wish>)> {
        self.steps(base, result, chain)
    }

    /// The same of a tree.
    pub fn tree(&mut self, result: &TensorType) -> Option<(Vec<Step>, Vec<Wish>)> {
        self.steps(1, result, tree)
    }

    fn steps(
        &mut self,
        base: usize,
        result: &TensorType,
        draw: fn(&mut Rng, &Palette, usize, usize) -> Vec<Step>,
    ) -> Option<(Vec<Step>, Vec<Wish>)> {
        let (least, most) = (self.least.saturating_sub(base), self.most.checked_sub(base)?);
        let steps = match self.fixed.get("post") {
            Some(Attr::Post(steps)) => steps.clone(),
            _ => draw(self.rng, self.palette, least, most),
        };
        let extras = post::extras(&steps);
        if !(least..=most).contains(&extras) {
            return None;
        }
        let taking: Vec<&Step> = steps.iter().filter(|step| post::takes_operand(step)).collect();
        let wishes = (0..extras).map(|at| {
            let mut ty = result.clone();
            if result.layout.is_plain() {
                ty.shape = super::palette::partner(self.rng, &result.shape).into();
            } else if self.rng.percent(20) {
                // A plain value of one element goes with any layout.
                ty = TensorType::plain(result.dtype, super::palette::ones(self.rng, 1));
            }
            match taking[at].op.name() {
                "pow" => Wish { ty, values: Values::Exponent },
                _ => Wish::any(ty),
            }
        });
        let wishes = wishes.collect();
        Some((steps, wishes))
    }
}

/// A value for a float attribute of this name, far from any default: what models have, or what they seldom
/// have and is defined as well (a slope below zero, bounds in the wrong order), or a number of the rule or
/// one beside it. An epsilon is never below zero: it keeps a root from one.
fn parameter(rng: &mut Rng, palette: &Palette, name: &str) -> f64 {
    let (usual, odd): (&[f64], &[f64]) = match name {
        "min" => (&[-1.5, -0.5, 0.0, 0.25], &[0.75, 1.0, 2.5, -40.0]),
        "max" => (&[0.5, 1.0, 1.5, 6.0], &[0.0, -0.25, -1.0, 40.0]),
        "epsilon" => return rng.pick(&[1e-3, 0.1, 0.5, 0.0]),
        "alpha" => (&[0.05, 0.3, 0.7, 1.5], &[0.0, 1.0, -0.5, -2.0]),
        "beta" => (&[0.1, 0.4, 1.25], &[0.0, -0.5, 2.0]),
        "scale" => (&[0.125, 0.5, 0.35, 1.0, 2.0], &[0.0, -1.0, -0.5]),
        _ => (&[0.5, 0.75, 1.5, 2.0], &[0.0, 1.0, -1.0, -0.5]),
    };
    match rng.below(20) {
        0..=3 if !palette.numbers.is_empty() => super::edge::beside(rng, &palette.numbers),
        0..=8 => rng.pick(odd),
        _ => rng.pick(usual),
    }
}

/// Functions that have a pole or an end, and are drawn all the same.
const BOUNDED: &[&str] = &["reciprocal", "sqrt"];

/// Functions that a chain is drawn of: those that neither jump nor have a pole, where what a rounding changes would
/// look large.
fn functions() -> &'static [Function] {
    static FUNCTIONS: LazyLock<Vec<Function>> = LazyLock::new(|| {
        let smooth = |function: &Function| {
            let defaults: Vec<f64> = function.parameters().iter().map(|one| one.default).collect();
            let value = |at: i32| function.evaluate(&defaults, f64::from(at) / 64.0);
            let range = -160..160;
            let near = |at: i32| (value(at + 1) - value(at)).abs() < 0.5 && value(at).abs() < 50.0;
            range.clone().all(near) || BOUNDED.contains(&function.name())
        };
        scalar::built_in().iter().copied().filter(smooth).collect()
    });
    &FUNCTIONS
}

/// Binary steps; those that are not commutative twice, since order is what is got wrong.
const BINARY_STEPS: &[&str] =
    &["add", "mul", "sub", "rsub", "min", "max", "div", "rdiv", "sub", "rsub", "pow", "rpow"];

/// A chain with so many binary steps, and unary ones between them.
fn chain(rng: &mut Rng, palette: &Palette, least: usize, most: usize) -> Vec<Step> {
    let binary = if palette.default(rng) { least } else { least + rng.below(3).min(most - least) };
    let unary = if palette.default(rng) { 0 } else { rng.below(palette.steps + 1) };
    let mut kinds = vec![true; binary];
    for _ in 0..unary {
        kinds.insert(rng.below(kinds.len() + 1), false);
    }
    let step = |binary: bool| {
        let op: StepOp = if binary { rng.pick(BINARY_STEPS).into() } else { rng.pick(functions()).into() };
        let declared = post::parameters(op);
        let parameters = declared.iter().map(|one| Float(parameter(rng, palette, one.name)));
        Step { op, parameters: parameters.collect() }
    };
    kinds.into_iter().map(step).collect()
}

/// A tree: a chain, or two that meet, and at times a third.
fn tree(rng: &mut Rng, palette: &Palette, least: usize, most: usize) -> Vec<Step> {
    let mut steps = chain(rng, palette, least, most);
    let one = |name: &'static str| Step { op: name.into(), parameters: Vec::new() };
    for _ in 0..rng.below(3) {
        let left = most.saturating_sub(post::extras(&steps));
        if left == 0 {
            break;
        }
        let pop =
            one(rng.pick(&["pop-add", "pop-sub", "pop-mul", "pop-sub", "pop-div", "pop-min", "pop-max"]));
        let other = chain(rng, palette, 0, (left - 1).min(1));
        steps.extend(std::iter::once(one("push")).chain(other).chain([pop]));
    }
    steps
}

/// What is known of a value's rank before it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// It is this.
    Exactly(usize),
    /// It is this or more.
    AtLeast(usize),
}

impl Rank {
    /// The least that it may be.
    pub fn least(self) -> usize {
        match self {
            Self::Exactly(rank) | Self::AtLeast(rank) => rank,
        }
    }

    /// What is known of the rank of what both are said of.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::AtLeast(one), Self::AtLeast(other)) => Self::AtLeast(one.max(other)),
            (exact @ Self::Exactly(_), _) | (_, exact) => exact,
        }
    }
}

/// What is known of the rank of an op's result, from the op, its settled attributes and its operands. An
/// axis that is written says that there are so many, and not that it is the last.
pub(super) fn result_rank(op: Op, fixed: &Attrs, child: Option<Rank>) -> Option<Rank> {
    let length = |name: &str| match fixed.get(name) {
        Some(Attr::Ints(list)) => Some(Rank::Exactly(list.len())),
        _ => None,
    };
    let both = |least: Option<usize>| match (child, least.map(Rank::AtLeast)) {
        (Some(child), Some(least)) => Some(child.and(least)),
        (child, least) => child.or(least),
    };
    match op.meaning() {
        "conv"
        | "conv-transpose"
        | "pointwise-depthwise"
        | "squeeze-excite"
        | "resize"
        | "max-pool"
        | "avg-pool"
        | "attention"
        | "widen-groups" => Some(Rank::Exactly(4)),
        "reshape" | "expand" => length("shape"),
        "transpose" => length("perm").or(child),
        "slice" => length("sizes").or_else(|| length("starts")).or_else(|| length("steps")).or(child),
        "pad" => match length("pads") {
            Some(pads) => Some(Rank::Exactly(pads.least() / 2)),
            None => child,
        },
        "scalar" => Some(Rank::Exactly(0)),
        "gather" | "gather-elements" => None,
        name if name.starts_with("reduce-") || name.starts_with("arg-") => {
            // With its axes kept, each of them is an axis of the result.
            let kept = fixed.get("keepdims") == Some(&Attr::Int(1));
            let last = match fixed.get("axes") {
                Some(Attr::Ints(axes)) => axes.iter().max().and_then(|axis| usize::try_from(axis + 1).ok()),
                _ => None,
            };
            both(last).filter(|_| kept)
        }
        _ => both(match (fixed.get("axis"), op.attr("axis")) {
            (Some(Attr::Int(axis)), Some(_)) => usize::try_from(axis + 1).ok(),
            _ => None,
        }),
    }
}

/// What is known of the element type of an op's result, from its settled attributes and its operands;
/// `child` is asked where the result has their type.
pub(super) fn result_dtype(op: Op, fixed: &Attrs, child: &dyn Fn() -> Option<DType>) -> Option<DType> {
    match op.meaning() {
        "cast" => match fixed.get("to") {
            Some(Attr::DType(to)) => Some(*to),
            _ => None,
        },
        "arg-max" | "arg-min" => Some(DType::I64),
        "isnan" | "not" | "and" | "or" | "xor" | "equal" | "greater" | "less" | "greater-equal"
        | "less-equal" => Some(DType::Bool),
        "reshape" | "transpose" | "slice" | "expand" | "concat" | "pad" => child(),
        _ if op.flags.elementwise => child(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_op_has_a_sampler() {
        let without: Vec<&str> = ovolo::op::Ops::new()
            .all()
            .into_iter()
            .filter(|def| super::named(def.logical()).is_none())
            .map(|def| def.name)
            .collect();
        assert!(without.is_empty(), "{without:?}");
    }
}
