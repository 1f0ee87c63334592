//! Values at which rules break that hold everywhere else: ties, zeros, halves, whole numbers, what
//! stands in the rule, the ends of integer types.
//!
//! Drawn floats are never equal to each other or to anything that is written, so that `greater` is
//! `greater-equal` on them. An instance at the edge fills its leaves from a few values that they have
//! in common: a tie is as likely as not.

use super::draft::{Draft, Filling, Leaf};
use super::rng::Rng;
use super::sampler::Values;
use crate::attr::{Attr, Attrs, Step};
use crate::op::OpDef;
use crate::rule::{AttrPattern, Expr, Pattern, Rule, Template};
use crate::tensor::DType;

/// How many instances in a hundred are at the edge.
const SHARE: usize = 30;
/// How many pools of integers in a hundred have an end of their type for certain: few instances are of
/// each.
const ENDS: usize = 60;

/// What is drawn for any float: sums and products of a few are exact in every type.
const FLOATS: &[f64] = &[0.0, 0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0, 2.5, -2.5, 3.0, -3.0];
/// For floats of 32 bits and more, too.
const LARGE: &[f64] = &[40.0, -40.0, 300.0, -300.0, 4097.0, -4097.0];
const I8: &[f64] = &[0.0, 1.0, -1.0, 2.0, 3.0, -3.0, 64.0, 100.0, 127.0, -127.0, -128.0];
const U8: &[f64] = &[0.0, 1.0, 2.0, 3.0, 64.0, 127.0, 128.0, 200.0, 255.0];
const I32: &[f64] =
    &[0.0, 1.0, -1.0, 2.0, -3.0, 127.0, 128.0, 255.0, 300.0, -300.0, 4097.0, 70_000.0, I32_MOST, I32_LEAST];
const I64: &[i64] = &[
    0,
    1,
    -1,
    2,
    -3,
    127,
    128,
    255,
    300,
    -300,
    4097,
    70_000,
    i32::MAX as i64,
    i32::MIN as i64,
    i64::MIN,
    i64::MAX,
];
const I32_MOST: f64 = 2_147_483_647.0;
const I32_LEAST: f64 = -2_147_483_648.0;

/// What a narrower type that the instance casts to has not: for `f16` what is beyond its range, for `f32`
/// what is beyond that of it.
const BEYOND_F16: &[f64] = &[70_000.0, -1e5];
const BEYOND_F32: &[f64] = &[1e39, -1e40];
/// The first integers that a float of 24 or 53 bits has not, and others like them.
const BEYOND_24: &[i64] = &[16_777_217, -16_777_219, 33_554_435];
const BEYOND_I32: &[f64] = &[16_777_217.0, -16_777_219.0, 33_554_435.0];
const BEYOND_53: &[i64] = &[9_007_199_254_740_993, -9_007_199_254_740_995, 16_777_217];

/// Ops whose transforms divide by what is no power of two: a sum that is zero comes out of them as
/// 1e-17, and a step with a pole there (`pow`, `div`) tells the two apart, which no rule is to blame for.
const INEXACT: &[&str] = &["winograd-weights", "native.conv-winograd"];

/// Whether a power is taken of what a rule's right sides round: whether an exponent is a whole number, and
/// so whether a negative base has that power, hangs on its last bit.
pub(super) fn powers(draft: &Draft) -> bool {
    let power = |step: &Step| matches!(step.op, "pow" | "rpow");
    draft.values.iter().any(|value| value.attrs.post().iter().any(power))
}

/// Whether a rule's right sides round what is exact on the left.
pub(super) fn rounds(rule: &Rule) -> bool {
    fn inexact(template: &Template) -> bool {
        match template {
            Template::Operand(_) | Template::Scalar(_) | Template::Each(_, None) => false,
            Template::Each(_, Some((_, inner))) => inexact(inner),
            Template::Op { op, children, .. } => INEXACT.contains(&op.name) || children.iter().any(inexact),
        }
    }
    rule.to.iter().any(inexact)
}

/// Numbers that a rule's sides hold.
pub(super) fn literals(rule: &Rule) -> Vec<f64> {
    let mut found = Vec::new();
    rule.from.iter().for_each(|pattern| of_pattern(pattern, &mut found));
    rule.to.iter().for_each(|template| of_template(template, &mut found));
    rule.guards.iter().for_each(|guard| of_expr(&guard.expr, &mut found));
    rule.lets.iter().for_each(|(_, expr)| of_expr(expr, &mut found));
    found.retain(|one| one.is_finite());
    found
}

fn of_pattern(pattern: &Pattern, found: &mut Vec<f64>) {
    match pattern {
        Pattern::Operand(_) | Pattern::Rest(_) | Pattern::Optional(_) => {}
        Pattern::Number(interval, _) => {
            found.extend([interval.least, interval.most].into_iter().filter(|end| end.is_finite()));
        }
        Pattern::Op { children, attrs, .. } => {
            children.iter().for_each(|child| of_pattern(child, found));
            for (_, value) in attrs {
                if let AttrPattern::Literal(value) = value {
                    of_attr(value, found);
                }
            }
        }
    }
}

fn of_template(template: &Template, found: &mut Vec<f64>) {
    match template {
        Template::Operand(_) | Template::Each(_, None) => {}
        Template::Scalar(value) => found.push(*value),
        Template::Each(_, Some((_, inner))) => of_template(inner, found),
        Template::Op { children, attrs, .. } => {
            children.iter().for_each(|child| of_template(child, found));
            attrs.iter().for_each(|(_, expr)| of_expr(expr, found));
        }
    }
}

fn of_expr(expr: &Expr, found: &mut Vec<f64>) {
    match expr {
        Expr::Literal(value) => of_attr(value, found),
        Expr::Call(_, arguments) => arguments.iter().for_each(|argument| of_expr(argument, found)),
        Expr::Attr(_) | Expr::Operand(_) | Expr::Rest(_) | Expr::Optional(_) => {}
    }
}

fn of_attr(attr: &Attr, found: &mut Vec<f64>) {
    match attr {
        Attr::Float(value) => found.push(value.0),
        Attr::Post(steps) => {
            found.extend(steps.iter().flat_map(|step| &step.parameters).map(|parameter| parameter.0));
        }
        _ => {}
    }
}

fn of_attrs(attrs: &Attrs, found: &mut Vec<f64>) {
    attrs.iter().for_each(|(_, value)| of_attr(value, found));
}

/// A number that is one of these, near to it, twice as far from zero, or on the other side of it; or between
/// two of them. Real numbers have one zero.
pub(super) fn beside(rng: &mut Rng, numbers: &[f64]) -> f64 {
    let one = rng.pick(numbers);
    let beside = match rng.below(12) {
        0..=2 => one,
        3 => one + 0.5,
        4 => one - 0.5,
        5 => one + 1.0,
        6 => one - 1.0,
        7 => one * 2.0,
        8 => one * 0.5,
        9 => -one,
        _ => 0.5 * (one + rng.pick(numbers)),
    };
    beside + 0.0
}

/// Now and then fills a draft's leaves from a few values at the edge. What must have a certain value
/// keeps it, and so do exponents and positions in an axis.
pub(super) fn fill(draft: &mut Draft, literals: &[f64], rng: &mut Rng) {
    if !rng.percent(SHARE) {
        return;
    }
    let mut written = literals.to_vec();
    draft.values.iter().for_each(|value| of_attrs(&value.attrs, &mut written));
    let leaves = draft.values.iter().filter_map(|value| value.leaf.as_ref());
    written.extend(leaves.filter_map(|leaf| match leaf.values {
        Filling::Splat(value) => Some(value),
        _ => None,
    }));
    written.retain(|value| value.is_finite() && value.abs() < LARGEST);
    let casts = casts(draft);
    let mut pools: Vec<(DType, bool, Pool)> = Vec::new();
    for value in &mut draft.values {
        let Some(leaf) = &value.leaf else { continue };
        let positive = match leaf.values {
            Filling::Seeded(_) | Filling::Drawn(Values::Any, _) => false,
            Filling::Drawn(Values::Positive, _) => true,
            Filling::Drawn(Values::Below(_) | Values::Exponent, _)
            | Filling::Splat(_)
            | Filling::Given(_)
            | Filling::Whole(_) => continue,
        };
        let dtype = value.ty.dtype;
        if dtype == DType::Bool {
            continue;
        }
        let known = pools.iter().position(|(of, sign, _)| (*of, *sign) == (dtype, positive));
        let at = known.unwrap_or_else(|| {
            let pool = match dtype {
                DType::I64 => Pool::Whole(integers(positive, &written, &casts, rng)),
                _ => Pool::Any(pool(dtype, positive, &written, &casts, rng)),
            };
            pools.push((dtype, positive, pool));
            pools.len() - 1
        });
        let count = value.ty.shape.count();
        let filling = match &pools[at].2 {
            Pool::Whole(some) => Filling::Whole((0..count).map(|_| rng.pick(some)).collect()),
            Pool::Any(some) => Filling::Given((0..count).map(|_| rng.pick(some)).collect()),
        };
        value.leaf = Some(Leaf::new(leaf.constant, filling));
    }
}

/// Numbers of a rule that are drawn as values are below this: the squares of others hide small ones.
const LARGEST: f64 = 1e6;

/// A few values of an element type; 64-bit integers are no `f64`.
enum Pool {
    Any(Vec<f64>),
    Whole(Vec<i64>),
}

/// The element types that an instance casts to.
fn casts(draft: &Draft) -> Vec<DType> {
    let cast = |op: &OpDef| op.logical.unwrap_or(op.name) == "cast";
    draft.values.iter().filter(|value| value.op.is_some_and(cast)).map(|value| value.ty.dtype).collect()
}

fn integers(positive: bool, written: &[f64], casts: &[DType], rng: &mut Rng) -> Vec<i64> {
    let fits = |value: &i64| !positive || *value > 0;
    let all: Vec<i64> = I64.iter().copied().filter(fits).collect();
    let mut some: Vec<i64> = (0..2 + rng.below(4)).map(|_| rng.pick(&all)).collect();
    let beyond: &[i64] = match casts {
        _ if casts.contains(&DType::F64) => BEYOND_53,
        _ if casts.contains(&DType::F32) => BEYOND_24,
        _ => &[],
    };
    if !beyond.is_empty() && rng.percent(50) {
        some.push(rng.pick(beyond));
    }
    if rng.percent(ENDS) {
        some.push(rng.pick(&[i64::MIN, i64::MAX]));
    }
    for _ in 0..2 {
        if !written.is_empty() {
            #[allow(clippy::cast_possible_truncation)]
            some.push(beside(rng, written).round() as i64);
        }
    }
    some.retain(fits);
    if some.is_empty() { vec![1] } else { some }
}

/// A few values of an element type.
fn pool(dtype: DType, positive: bool, written: &[f64], casts: &[DType], rng: &mut Rng) -> Vec<f64> {
    let wide = matches!(dtype, DType::F32 | DType::F64);
    let all: Vec<f64> = match dtype {
        DType::I8 => I8.to_vec(),
        DType::U8 | DType::Bool => U8.to_vec(),
        DType::I32 | DType::I64 => I32.to_vec(),
        DType::F16 | DType::BF16 => FLOATS.to_vec(),
        // Large ones seldom: they hide what small ones show.
        DType::F32 | DType::F64 if rng.percent(20) => [FLOATS, LARGE].concat(),
        DType::F32 | DType::F64 => FLOATS.to_vec(),
    };
    let fits = |value: &f64| if positive { *value > 0.0 } else { dtype != DType::U8 || *value >= 0.0 };
    let all: Vec<f64> = all.into_iter().filter(fits).collect();
    let mut some: Vec<f64> = (0..2 + rng.below(4)).map(|_| rng.pick(&all)).collect();
    let beyond = match dtype {
        DType::F32 | DType::F64 if casts.contains(&DType::F16) => BEYOND_F16,
        DType::F64 if casts.contains(&DType::F32) || casts.contains(&DType::BF16) => BEYOND_F32,
        DType::I32 if casts.contains(&DType::F32) => BEYOND_I32,
        _ => &[],
    };
    if !beyond.is_empty() && rng.percent(50) {
        some.push(rng.pick(beyond));
    }
    let ends: &[f64] = match dtype {
        DType::I8 => &[-128.0, 127.0],
        DType::U8 => &[0.0, 255.0],
        DType::I32 => &[I32_LEAST, I32_MOST],
        _ => &[],
    };
    if !ends.is_empty() && rng.percent(ENDS) {
        some.push(rng.pick(ends));
    }
    for _ in 0..3 {
        if written.is_empty() {
            break;
        }
        let near = beside(rng, written);
        let near = if dtype.is_float() { near } else { near.round() };
        if wide || near.abs() <= 100.0 {
            some.push(near);
        }
    }
    some.retain(fits);
    if some.is_empty() { vec![1.0] } else { some }
}
