//! Samplers: for each op, they propose operand types and attributes that may give a wanted result.
//!
//! A sampler only proposes. The op itself types the proposal, and the rule's guards decide about the
//! instance; a proposal that does not fit costs one attempt. A lowered op uses the sampler of its logical op,
//! and its layouts are set afterwards.
//!
//! A new op brings its sampler in its definition (`OpDef::sample`), in this repository or elsewhere. [`SAMPLERS`] has
//! those that work backwards from the wanted result or share the palette's sizes. A test checks that every op of ovolo
//! has a sampler.

mod device;
mod elementwise;
mod layout;
mod linear;
mod own;
mod reduce;
mod shape;
mod window;

use super::palette::{LARGEST, Palette};
use super::rng::Rng;
use ovolo::attr::{Attr, Attrs, Float, Step, StepOp};
use ovolo::op::{self, Op, Values, post};
use ovolo::scalar::{self, Domain, Function};
use ovolo::tensor::{DType, TensorType};
use std::sync::LazyLock;

/// The wanted type and values of an operand.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    /// The type.
    pub ty: TensorType,
    /// The values.
    pub values: Values,
}

impl Wish {
    /// Returns a wish for a type with any values.
    pub fn any(ty: TensorType) -> Self {
        Self { ty, values: Values::Any }
    }

    /// Returns a wish for a type in the default layout, with any values.
    pub fn plain(dtype: DType, shape: Vec<usize>) -> Self {
        Self::any(TensorType::plain(dtype, shape))
    }
}

/// A request to a sampler.
pub(super) struct Ask<'a> {
    /// The op.
    pub op: Op,
    /// The source of randomness.
    pub rng: &'a mut Rng,
    /// The sets to draw from.
    pub palette: &'a Palette,
    /// The wanted type of the result.
    pub wish: &'a TensorType,
    /// The types of operands that are already determined, by position.
    pub known: &'a [Option<TensorType>],
    /// The attributes that are already determined.
    pub fixed: &'a Attrs,
    /// The fewest operands.
    pub least: usize,
    /// The most operands.
    pub most: usize,
}

/// A proposal: every attribute of the op, and a wish for each operand.
pub(super) struct Offer {
    /// The attributes.
    pub attrs: Attrs,
    /// The operands.
    pub operands: Vec<Wish>,
}

/// Samples one op; `None` if nothing fits what is already determined.
pub(super) type Sampler = fn(&mut Ask<'_>) -> Option<Offer>;

/// The samplers by the logical op's name. Elementwise ops of one or two operands are found by their flag.
const SAMPLERS: &[(&str, Sampler)] = &[
    ("not", elementwise::unary),
    ("isnan", elementwise::unary),
    ("where", elementwise::choose),
    ("cast", elementwise::cast),
    ("scalar", elementwise::scalar),
    ("map", elementwise::map),
    ("tree", elementwise::tree),
    ("matmul", linear::matmul),
    ("einsum", linear::einsum),
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
    ("rms-norm", reduce::layer_norm),
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

/// The sampler of this module for a logical op.
fn named(op: Op) -> Option<Sampler> {
    let named = SAMPLERS.iter().find(|(known, _)| *known == op.name);
    named.map(|(_, sampler)| *sampler).or(match op.arity {
        _ if op.flags.transfer.is_some() => Some(device::transfer),
        op::Arity::Exactly(1) if op.flags.elementwise => Some(elementwise::unary),
        op::Arity::Exactly(2) if op.flags.elementwise => Some(elementwise::binary),
        _ => None,
    })
}

/// Returns whether a logical op has a sampler. Calls of an op without one are drawn like those of an elementwise op, which
/// few ops take.
pub fn has_sampler(op: Op) -> bool {
    op.sample.is_some() || named(op).is_some()
}

/// Asks for a proposal of a logical op: by the op's own sampler, by that of this module, or by its declaration alone.
fn logical(op: Op, ask: &mut Ask<'_>) -> Option<Offer> {
    match op.sample {
        Some(sample) => own::sampled(ask, sample),
        None => named(op).unwrap_or(elementwise::alike)(ask),
    }
}

/// Asks the sampler of the op for a proposal.
fn sampled(ask: &mut Ask<'_>) -> Option<Offer> {
    match &ask.op.definition().lowered {
        Some(lowered) if !lowered.makers.is_empty() => own::made(ask, lowered),
        _ => logical(ask.op.logical(), ask),
    }
}

/// Whether an attribute holds a number that is too large for any size or parameter. Such numbers make values
/// that do not fit in memory, and loops that take forever.
pub(super) fn beyond(value: &Attr) -> bool {
    let large = |one: &i64| one.unsigned_abs() > 8 * LARGEST as u64;
    match value {
        Attr::Int(one) => large(one),
        Attr::Ints(list) => list.iter().any(large),
        _ => false,
    }
}

/// Asks the op's sampler for a proposal. There is none if an attribute is [`beyond`] the limit.
pub(super) fn offer(ask: &mut Ask<'_>) -> Option<Offer> {
    if ask.fixed.iter().any(|(_, value)| beyond(value)) {
        return None;
    }
    let mut offer = sampled(ask)?;
    layout::lower(ask, &mut offer);
    // Attributes that the sampler does not know get their declared defaults.
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
    /// The type of an operand that is already determined.
    pub fn known(&self, operand: usize) -> Option<&TensorType> {
        self.known.get(operand).and_then(Option::as_ref)
    }

    /// A list of non-negative integers that is already determined.
    pub fn list(&self, name: &str) -> Option<Vec<usize>> {
        match self.fixed.get(name) {
            Some(Attr::Ints(list)) => {
                Some(list.iter().map(|one| usize::try_from(*one).unwrap_or(0)).collect())
            }
            _ => None,
        }
    }

    /// A non-negative integer that is already determined.
    pub fn int(&self, name: &str) -> Option<usize> {
        match self.fixed.get(name) {
            Some(Attr::Int(one)) => usize::try_from(*one).ok(),
            _ => None,
        }
    }

    /// Returns the determined axis, or draws one of `rank` axes.
    pub fn axis(&mut self, rank: usize) -> Option<usize> {
        let axis = self.int("axis").unwrap_or_else(|| self.rng.below(rank.max(1)));
        (axis < rank).then_some(axis)
    }

    /// Returns a float attribute: the determined value, its default, or a random one.
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

    /// Returns a flag: the determined one, or a random one.
    pub fn flag(&mut self, name: &str) -> bool {
        self.int(name).map_or_else(|| self.rng.percent(50), |flag| flag != 0)
    }

    /// Returns a chain of unary steps: the determined one, or a random one.
    pub fn unary(&mut self, name: &str) -> Vec<Step> {
        match self.fixed.get(name) {
            Some(Attr::Post(steps)) => steps.clone(),
            _ => chain(self.rng, self.palette, 0, 0),
        }
    }

    /// Returns a post chain, determined or random, for an op with `base` operands, and wishes for its extra
    /// operands, which broadcast to the result.
    pub fn post(&mut self, base: usize, result: &TensorType) -> Option<(Vec<Step>, Vec<Wish>)> {
        self.steps(base, result, chain)
    }

    /// Returns a tree of steps in the same way.
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
                // A value of one element in the default layout fits beside any layout.
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

/// Draws a value for a float attribute of this name, different from any default: values that models have,
/// unusual but defined ones (a negative slope, bounds in the wrong order), or numbers in or close to those of
/// the rule. An epsilon is never negative, because it makes the argument of a root positive.
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

/// The steepest slope of a function that chains are drawn from: a steeper one, applied several times, makes a rounding
/// error look like a mistake.
const STEEPEST: f64 = 1.2;

/// Functions that are steeper or have a pole, and are drawn nevertheless.
const BOUNDED: &[&str] = &["exp", "reciprocal", "sqrt"];

/// Whether a function turns more often than twice, as `sin` and `cos` do. After `exp`, whose values are large, rounding
/// errors of the argument change the value of such a function altogether.
fn oscillates(function: &Function, defaults: &[f64]) -> bool {
    let values: Vec<f64> = (-80..80).map(|at| function.evaluate(defaults, &[f64::from(at) / 2.0])).collect();
    let turns = values.windows(3).filter(|near| (near[1] - near[0]) * (near[2] - near[1]) < 0.0);
    turns.count() > 2
}

/// Returns the functions that chains are drawn from: those without jumps, poles, steep slopes and oscillation.
fn functions() -> &'static [Function] {
    static FUNCTIONS: LazyLock<Vec<Function>> = LazyLock::new(|| {
        let smooth = |function: &Function| {
            let defaults: Vec<f64> = function.parameters().iter().map(|one| one.default).collect();
            let value = |at: i32| function.evaluate(&defaults, &[f64::from(at) / 64.0]);
            let range = -160..160;
            let near = |at: i32| (value(at + 1) - value(at)).abs() < STEEPEST / 64.0;
            let bounded = range.clone().all(near) || BOUNDED.contains(&function.name());
            bounded && !oscillates(function, &defaults)
        };
        scalar::built_in().iter().copied().filter(smooth).collect()
    });
    &FUNCTIONS
}

/// Binary steps. Those that are not commutative occur twice, because mistakes in the order are likely.
const BINARY_STEPS: &[&str] =
    &["add", "mul", "sub", "rsub", "min", "max", "div", "rdiv", "sub", "rsub", "pow", "rpow"];

/// Draws a chain with `least` to `most` binary steps, and unary ones between them.
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

/// Draws a tree: a chain, sometimes joined with one or two further chains.
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

/// What is known about a value's rank before it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// Exactly this rank.
    Exactly(usize),
    /// This rank or a higher one.
    AtLeast(usize),
}

impl Rank {
    /// The lowest possible rank.
    pub fn least(self) -> usize {
        match self {
            Self::Exactly(rank) | Self::AtLeast(rank) => rank,
        }
    }

    /// Combines two facts about the same rank.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::AtLeast(one), Self::AtLeast(other)) => Self::AtLeast(one.max(other)),
            (exact @ Self::Exactly(_), _) | (_, exact) => exact,
        }
    }
}

/// What is known about the rank of an op's result from the op, its determined attributes and its operands. A
/// given axis only tells that the rank is larger than the axis.
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
            // With `keepdims`, each reduced axis is an axis of the result as well.
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

/// What is known about the element type of an op's result from its determined attributes and its operands.
/// `child` is called if the result has the type of the operands.
pub(super) fn result_dtype(op: Op, fixed: &Attrs, child: &dyn Fn() -> Option<DType>) -> Option<DType> {
    match op.meaning() {
        "cast" => match fixed.get("to") {
            Some(Attr::DType(to)) => Some(*to),
            _ => None,
        },
        "arg-max" | "arg-min" => Some(DType::I64),
        "isnan" | "not" => Some(DType::Bool),
        _ if gives_bool(op) => Some(DType::Bool),
        "reshape" | "transpose" | "slice" | "expand" | "concat" | "pad" => child(),
        _ if op.flags.elementwise => child(),
        _ => None,
    }
}

/// Returns whether the op is a function whose result is a boolean, whatever its operands are.
fn gives_bool(op: Op) -> bool {
    let domain = op.flags.function.map(Function::domain);
    matches!(domain, Some(Domain::Comparison | Domain::Equality | Domain::Logic))
}
