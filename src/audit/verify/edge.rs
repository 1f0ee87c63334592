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
use crate::rule::{AttrPattern, Expr, Pattern, Rule, Template};
use crate::tensor::DType;

/// How many instances in a hundred are at the edge.
const SHARE: usize = 30;

/// What is drawn for any float: sums and products of a few are exact in every type.
const FLOATS: &[f64] = &[0.0, 0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0, 2.5, -2.5, 3.0, -3.0];
/// For floats of 32 bits and more, too.
const LARGE: &[f64] = &[40.0, -40.0, 300.0, -300.0, 4097.0, -4097.0];
const I8: &[f64] = &[0.0, 1.0, -1.0, 2.0, 3.0, -3.0, 64.0, 100.0, 127.0, -127.0, -128.0];
const U8: &[f64] = &[0.0, 1.0, 2.0, 3.0, 64.0, 127.0, 128.0, 200.0, 255.0];
const I32: &[f64] =
    &[0.0, 1.0, -1.0, 2.0, -3.0, 127.0, 128.0, 255.0, 300.0, -300.0, 4097.0, 70_000.0, I32_MOST, I32_LEAST];
const I64: &[f64] = &[
    0.0, 1.0, -1.0, 2.0, -3.0, 127.0, 128.0, 255.0, 300.0, -300.0, 4097.0, 70_000.0, I32_MOST, I32_LEAST,
    I64_LEAST,
];
const I32_MOST: f64 = 2_147_483_647.0;
const I32_LEAST: f64 = -2_147_483_648.0;
const I64_LEAST: f64 = -9_223_372_036_854_775_808.0;

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

/// Now and then fills a draft's leaves from a few values at the edge. What must have a certain value
/// keeps it, and so do positions in an axis.
pub(super) fn fill(draft: &mut Draft, literals: &[f64], rng: &mut Rng) {
    if !rng.percent(SHARE) {
        return;
    }
    let mut written = literals.to_vec();
    draft.values.iter().for_each(|value| of_attrs(&value.attrs, &mut written));
    written.retain(|value| value.is_finite() && value.abs() < 1e4);
    let mut pools: Vec<(DType, bool, Vec<f64>)> = Vec::new();
    for value in &mut draft.values {
        let Some(leaf) = &value.leaf else { continue };
        let positive = match leaf.values {
            Filling::Seeded(_) | Filling::Drawn(Values::Any, _) => false,
            Filling::Drawn(Values::Positive, _) => true,
            Filling::Drawn(Values::Below(_), _) | Filling::Splat(_) | Filling::Given(_) => continue,
        };
        let dtype = value.ty.dtype;
        if dtype == DType::Bool {
            continue;
        }
        let known = pools.iter().position(|(of, sign, _)| (*of, *sign) == (dtype, positive));
        let at = known.unwrap_or_else(|| {
            pools.push((dtype, positive, pool(dtype, positive, &written, rng)));
            pools.len() - 1
        });
        let some = &pools[at].2;
        let values = (0..value.ty.shape.count()).map(|_| rng.pick(some)).collect();
        value.leaf = Some(Leaf::new(leaf.constant, Filling::Given(values)));
    }
}

/// A few values of an element type.
fn pool(dtype: DType, positive: bool, written: &[f64], rng: &mut Rng) -> Vec<f64> {
    let wide = matches!(dtype, DType::F32 | DType::F64);
    let all: Vec<f64> = match dtype {
        DType::I8 => I8.to_vec(),
        DType::U8 | DType::Bool => U8.to_vec(),
        DType::I32 => I32.to_vec(),
        DType::I64 => I64.to_vec(),
        DType::F16 | DType::BF16 => FLOATS.to_vec(),
        // Large ones seldom: they hide what small ones show.
        DType::F32 | DType::F64 if rng.percent(20) => [FLOATS, LARGE].concat(),
        DType::F32 | DType::F64 => FLOATS.to_vec(),
    };
    let fits = |value: &f64| if positive { *value > 0.0 } else { dtype != DType::U8 || *value >= 0.0 };
    let all: Vec<f64> = all.into_iter().filter(fits).collect();
    let mut some: Vec<f64> = (0..2 + rng.below(4)).map(|_| rng.pick(&all)).collect();
    for _ in 0..2 {
        if written.is_empty() {
            break;
        }
        let one = rng.pick(written);
        let near = one + rng.pick(&[0.0, 0.0, 0.5, -0.5, 1.0, -1.0]);
        let near = if dtype.is_float() { near } else { near.round() };
        if fits(&near) && (wide || near.abs() <= 100.0) {
            some.push(near);
        }
    }
    some
}
