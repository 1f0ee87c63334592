//! Values at which rules fail that hold everywhere else: ties, zeros, halves, integers, numbers in the rule,
//! and the limits of integer types.
//!
//! Random floats are never equal to each other or to a literal, so that `greater` and `greater-equal` agree
//! on them. An edge instance fills its leaves from a small pool of shared values, so that ties are likely.

use super::draft::{Draft, Filling, Leaf};
use super::rng::Rng;
use ovolo::attr::{Attr, Attrs, Step};
use ovolo::op::{Op, Values};
use ovolo::rule::{AttrPattern, Expr, Pattern, Precision, Rule, Template};
use ovolo::tensor::DType;

/// The percentage of instances that use edge values.
const SHARE: usize = 30;
/// The same for instances with integers. Few instances have each integer type, and each type has limits, and
/// squares beyond them.
const WHOLE_SHARE: usize = 60;
/// The percentage of integer pools that surely contain a limit of their type, and of those that contain a
/// number whose square overflows; few instances have each type.
const ENDS: usize = 60;
/// The percentage of pools that contain values that a cast separates or makes equal; some of these contain
/// nothing else.
const TAKEN_APART: usize = 50;
/// The percentage of pools that contain NaN, if the rule tests for it.
const NO_NUMBERS: usize = 70;
/// The percentage of pools that contain the rule's large numbers. Large numbers hide what small ones would
/// show.
const LARGE_SHARE: usize = 50;

/// Values for every float type: sums and products of a few of them are exact in each.
const FLOATS: &[f64] = &[0.0, 0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0, 2.5, -2.5, 3.0, -3.0];
/// More values for floats of 32 bits or more.
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
/// Numbers whose squares overflow the type and wrap: to a negative number, to zero, or to a smaller number.
const WRAP_I8: &[f64] = &[12.0, -12.0, 13.0, 16.0];
const WRAP_U8: &[f64] = &[16.0, 17.0, 20.0, 129.0];
const WRAP_I32: &[f64] = &[50_000.0, -50_000.0, 46_341.0, 65_536.0];
const WRAP_I64: &[i64] = &[3_037_000_500, -3_037_000_500, 4_000_000_000, 1 << 32];
const I32_MOST: f64 = 2_147_483_647.0;
const I32_LEAST: f64 = -2_147_483_648.0;

/// Values that do not exist in `f16`, to which the instance casts: beyond its range, or so small that they
/// become zero. The same for `f32` below.
const BEYOND_F16: &[f64] = &[70_000.0, -1e5, 1e-8, -1e-9];
/// Values that round to the largest `f16`, but to a larger number in `bf16`.
const LARGEST_F16: &[f64] = &[65_510.0, -65_510.0];
const BEYOND_F32: &[f64] = &[1e39, -1e40, 1e-50, -1e-60];
/// Floats outside an integer type: a cast saturates, and a cast by way of a wider type wraps.
const OUTSIDE_I32: &[f64] = &[3e9, -3e9, 4_294_967_296.0, -1e12];
const OUTSIDE_I64: &[f64] = &[1e19, -1e19, 1e25, -1e30];
/// Integers that a float of 24 or 53 mantissa bits cannot represent.
const BEYOND_24: &[i64] = &[16_777_217, -16_777_219, 33_554_435];
const BEYOND_I32: &[f64] = &[16_777_217.0, -16_777_219.0, 33_554_435.0];
const BEYOND_53: &[i64] = &[9_007_199_254_740_993, -9_007_199_254_740_995, 16_777_217];

/// Pairs of different numbers that a cast makes equal.
struct Twins {
    from: &'static [DType],
    to: &'static [DType],
    pairs: &'static [[f64; 2]],
}

const F32_UP: &[DType] = &[DType::F32, DType::F64];
const WHOLE_UP: &[DType] = &[DType::I32, DType::I64];
/// The two numbers of a pair are neighbours, or nearly so, in the wider type.
const TWINS: &[Twins] = &[
    Twins {
        from: &[DType::F64],
        to: &[DType::F32],
        pairs: &[[1.0, 1.000_000_000_1], [-2.5, -2.500_000_001]],
    },
    Twins { from: F32_UP, to: &[DType::F16, DType::BF16], pairs: &[[1.0, 1.000_1], [-2.5, -2.500_1]] },
    Twins { from: &[DType::F16], to: &[DType::BF16], pairs: &[[1.0, 1.001_953_125]] },
    Twins { from: &[DType::BF16], to: &[DType::F16], pairs: &[[1e-9, 0.0], [1e5, 2e5]] },
    Twins {
        from: WHOLE_UP,
        to: &[DType::F32],
        pairs: &[[16_777_216.0, 16_777_217.0], [-16_777_218.0, -16_777_219.0]],
    },
    Twins { from: WHOLE_UP, to: &[DType::F16], pairs: &[[2048.0, 2049.0], [-4096.0, -4097.0]] },
    Twins { from: WHOLE_UP, to: &[DType::BF16], pairs: &[[256.0, 257.0], [-512.0, -513.0]] },
    // An integer, and a float that a cast truncates to it.
    Twins { from: F32_UP, to: &[DType::I8, DType::I32, DType::I64], pairs: &[[1.0, 1.5], [-2.0, -2.5]] },
    Twins { from: WHOLE_UP, to: &[DType::I8, DType::U8], pairs: &[[1.0, 257.0], [127.0, -129.0]] },
];
/// Pairs of integers that become equal as `f64`.
const TWINS_53: &[[i64; 2]] = &[
    [9_007_199_254_740_992, 9_007_199_254_740_993],
    [-9_007_199_254_740_994, -9_007_199_254_740_995],
    [4_611_686_018_427_387_904, 4_611_686_018_427_387_905],
];

/// Draws a pair of numbers of a type that one of the casts makes equal.
fn twins(dtype: DType, casts: &[DType], rng: &mut Rng) -> Option<[f64; 2]> {
    let fitting = TWINS.iter().filter(|one| one.from.contains(&dtype));
    let fitting: Vec<&Twins> = fitting.filter(|one| one.to.iter().any(|to| casts.contains(to))).collect();
    (!fitting.is_empty()).then(|| {
        let twins = rng.pick(&fitting);
        rng.pick(twins.pairs)
    })
}

/// Whether the instance takes a power. If a rule's right sides round, the last bit decides whether an
/// exponent is an integer, and so whether a negative base has a power.
pub(super) fn powers(draft: &Draft) -> bool {
    let power = |step: &Step| matches!(step.op.name(), "pow" | "rpow");
    draft.values.iter().any(|value| value.attrs.post().iter().any(power))
}

/// Whether a rule's right sides round where the left sides are exact, as transforms that divide by numbers
/// other than powers of two do. There a sum that should be zero is 1e-17, and a step with a pole at zero
/// (`pow`, `div`) gives different results. The rule is not wrong for that reason.
pub(super) fn rounds(rule: &Rule) -> bool {
    fn inexact(template: &Template) -> bool {
        match template {
            Template::Operand(_) | Template::Scalar(_) | Template::Each(_, None) => false,
            Template::Each(_, Some((_, inner))) => inexact(inner),
            Template::Op { op, children, .. } => op.is_inexact() || children.iter().any(inexact),
        }
    }
    rule.precision != Precision::F32 || rule.to.iter().any(inexact)
}

/// The element types that a rule's right sides cast to.
pub(super) fn targets(rule: &Rule) -> Vec<DType> {
    fn cast(template: &Template, found: &mut Vec<DType>) {
        match template {
            Template::Operand(_) | Template::Scalar(_) | Template::Each(_, None) => {}
            Template::Each(_, Some((_, inner))) => cast(inner, found),
            Template::Op { children, attrs, .. } => {
                found.extend(attrs.iter().filter_map(|(_, expr)| match expr {
                    Expr::Literal(Attr::DType(to)) => Some(*to),
                    _ => None,
                }));
                children.iter().for_each(|child| cast(child, found));
            }
        }
    }
    let mut found = Vec::new();
    rule.to.iter().for_each(|template| cast(template, &mut found));
    found
}

/// Whether one of a rule's sides tests for NaN.
pub(super) fn asks_for_none(rule: &Rule) -> bool {
    fn asks(op: Op) -> bool {
        op.meaning() == "isnan"
    }
    fn left(pattern: &Pattern) -> bool {
        matches!(pattern, Pattern::Op { op, children, .. } if asks(*op) || children.iter().any(left))
    }
    fn right(template: &Template) -> bool {
        match template {
            Template::Operand(_) | Template::Scalar(_) | Template::Each(_, None) => false,
            Template::Each(_, Some((_, inner))) => right(inner),
            Template::Op { op, children, .. } => asks(*op) || children.iter().any(right),
        }
    }
    rule.from.iter().any(left) || rule.to.iter().any(right)
}

/// The numbers in a rule's sides.
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
        Expr::Step(_) | Expr::Attr(_) | Expr::Operand(_) | Expr::Rest(_) | Expr::Optional(_) => {}
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

/// Draws one of these numbers, or one close to it, double or half of it, its negative, or the mean of two of
/// them. Negative zero is returned as zero.
pub(super) fn beside(rng: &mut Rng, numbers: &[f64]) -> f64 {
    let one = rng.pick(numbers);
    // Beyond a million, a step of 1 is smaller than the tolerance.
    let step = if one.abs() < LARGE_NUMBER { 1.0 } else { one.abs() / 8.0 };
    let beside = match rng.below(12) {
        0..=2 => one,
        3 => one + 0.5 * step,
        4 => one - 0.5 * step,
        5 => one + step,
        6 => one - step,
        7 => one * 2.0,
        8 => one * 0.5,
        9 => -one,
        _ => 0.5 * (one + rng.pick(numbers)),
    };
    beside + 0.0
}

/// What a rule contributes to edge values.
pub(super) struct Edge {
    /// The numbers in the rule.
    pub literals: Vec<f64>,
    /// Element types that its right sides cast to.
    pub targets: Vec<DType>,
    /// Whether it tests for NaN, so that some of the values must be NaN.
    pub none: bool,
}

impl Edge {
    /// Sometimes fills a draft's leaves from small pools of edge values. Leaves with a fixed value keep it,
    /// and so do exponents and indices.
    pub fn fill(&self, draft: &mut Draft, rng: &mut Rng) {
        let whole = draft.values.iter().any(|value| {
            let dtype = value.ty.dtype;
            !dtype.is_float() && dtype != DType::Bool && value.leaf.as_ref().and_then(positive).is_some()
        });
        if !rng.percent(if whole { WHOLE_SHARE } else { SHARE }) {
            return;
        }
        let mut written = self.literals.clone();
        draft.values.iter().for_each(|value| of_attrs(&value.attrs, &mut written));
        let leaves = draft.values.iter().filter_map(|value| value.leaf.as_ref());
        written.extend(leaves.filter_map(|leaf| match leaf.values {
            Filling::Splat(value) => Some(value),
            _ => None,
        }));
        let large = rng.percent(LARGE_SHARE);
        written.retain(|value| value.is_finite() && (large || value.abs() < LARGE_NUMBER));
        let mut casts = casts(draft);
        casts.extend(&self.targets);
        let mut pools: Vec<(DType, bool, Pool)> = Vec::new();
        for value in &mut draft.values {
            let Some((leaf, positive)) = value.leaf.as_ref().and_then(|leaf| Some((leaf, positive(leaf)?)))
            else {
                continue;
            };
            let dtype = value.ty.dtype;
            if dtype == DType::Bool {
                continue;
            }
            let known = pools.iter().position(|(of, sign, _)| (*of, *sign) == (dtype, positive));
            let at = known.unwrap_or_else(|| {
                let pool = match dtype {
                    DType::I64 => Pool::Whole(integers(positive, &written, &casts, rng)),
                    _ => {
                        let mut some = pool(dtype, positive, &written, &casts, rng);
                        if self.none && dtype.is_float() && rng.percent(NO_NUMBERS) {
                            some.push(f64::NAN);
                        }
                        Pool::Any(some)
                    }
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
}

/// Whether a leaf must be positive; `None` if it has a fixed value or another restriction.
fn positive(leaf: &Leaf) -> Option<bool> {
    match leaf.values {
        Filling::Seeded(_) | Filling::Blocks(..) | Filling::Drawn(Values::Any, _) => Some(false),
        Filling::Drawn(Values::Positive, _) => Some(true),
        Filling::Drawn(Values::Below(_) | Values::Exponent, _)
        | Filling::Splat(_)
        | Filling::Given(_)
        | Filling::Whole(_) => None,
    }
}

/// From this magnitude on, a rule's numbers are drawn less often, and the numbers close to them are farther
/// away.
const LARGE_NUMBER: f64 = 1e6;

/// A small pool of values of an element type. `f64` cannot represent all 64-bit integers.
enum Pool {
    Any(Vec<f64>),
    Whole(Vec<i64>),
}

/// The element types that an instance casts to.
fn casts(draft: &Draft) -> Vec<DType> {
    let cast = |op: Op| op.meaning() == "cast";
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
    if !beyond.is_empty() && rng.percent(TAKEN_APART) {
        some.push(rng.pick(beyond));
    }
    #[allow(clippy::cast_possible_truncation)]
    let pair = match twins(DType::I64, casts, rng) {
        _ if casts.contains(&DType::F64) && rng.percent(50) => Some(rng.pick(TWINS_53)),
        pair => pair.map(|pair| pair.map(|one| one as i64)),
    };
    if rng.percent(ENDS) {
        some.push(rng.pick(&[i64::MIN, i64::MAX]));
    }
    if rng.percent(ENDS) {
        some.push(rng.pick(WRAP_I64));
    }
    for _ in 0..2 {
        if !written.is_empty() {
            #[allow(clippy::cast_possible_truncation)]
            some.push(beside(rng, written).round() as i64);
        }
    }
    join(&mut some, pair, rng);
    some.retain(fits);
    if some.is_empty() { vec![1] } else { some }
}

/// Adds a pair of numbers that a cast makes equal to a pool, or replaces the pool by the pair: a value larger
/// than both would hide them in a maximum.
fn join<T: Copy>(some: &mut Vec<T>, pair: Option<[T; 2]>, rng: &mut Rng) {
    let Some(pair) = pair.filter(|_| rng.percent(TAKEN_APART)) else { return };
    if rng.percent(50) {
        some.clear();
    }
    some.extend(pair);
}

/// Draws a small pool of values of an element type.
fn pool(dtype: DType, positive: bool, written: &[f64], casts: &[DType], rng: &mut Rng) -> Vec<f64> {
    let all: Vec<f64> = match dtype {
        DType::I8 => I8.to_vec(),
        DType::U8 | DType::Bool => U8.to_vec(),
        DType::I32 | DType::I64 => I32.to_vec(),
        // Large values are rare, because they hide what small ones would show.
        DType::F32 | DType::F64 if rng.percent(20) => [FLOATS, LARGE].concat(),
        _ => FLOATS.to_vec(),
    };
    let fits = |value: &f64| if positive { *value > 0.0 } else { dtype != DType::U8 || *value >= 0.0 };
    let all: Vec<f64> = all.into_iter().filter(fits).collect();
    let mut some: Vec<f64> = (0..2 + rng.below(4)).map(|_| rng.pick(&all)).collect();
    let beyond = beyond(dtype, casts);
    if !beyond.is_empty() && rng.percent(TAKEN_APART) {
        let numbers = rng.pick(&beyond);
        some.push(rng.pick(numbers));
    }
    let pair = twins(dtype, casts, rng);
    let (ends, wrap): (&[f64], &[f64]) = match dtype {
        DType::I8 => (&[-128.0, 127.0], WRAP_I8),
        DType::U8 => (&[0.0, 255.0], WRAP_U8),
        DType::I32 => (&[I32_LEAST, I32_MOST], WRAP_I32),
        _ => (&[], &[]),
    };
    if !ends.is_empty() && rng.percent(ENDS) {
        some.push(rng.pick(ends));
    }
    if !wrap.is_empty() && rng.percent(ENDS) {
        some.push(rng.pick(wrap));
    }
    for _ in 0..3 {
        if written.is_empty() {
            break;
        }
        let near = beside(rng, written);
        let near = if dtype.is_float() { near } else { near.round() };
        let (least, most) = range(dtype);
        // Narrow floats round: numbers close to one of the rule's own would round to it.
        let rounds = matches!(dtype, DType::F16 | DType::BF16) && near.abs() > 100.0;
        if (least..=most).contains(&near) && (!rounds || near.abs() >= LARGE_NUMBER) {
            some.push(near);
        }
    }
    join(&mut some, pair, rng);
    some.retain(fits);
    if some.is_empty() { vec![1.0] } else { some }
}

/// Lists of numbers that the types the instance casts to cannot represent, one list for each kind of loss.
fn beyond(dtype: DType, casts: &[DType]) -> Vec<&'static [f64]> {
    let to = |dtype: DType| casts.contains(&dtype);
    let (wide, narrow) = (matches!(dtype, DType::F32 | DType::F64), dtype == DType::BF16);
    let lists: [(bool, &'static [f64]); 6] = [
        (wide && to(DType::F16), BEYOND_F16),
        (wide && to(DType::F16) && to(DType::BF16), LARGEST_F16),
        (dtype == DType::F64 && (to(DType::F32) || to(DType::BF16)), BEYOND_F32),
        ((wide || narrow) && to(DType::I32), OUTSIDE_I32),
        ((wide || narrow) && to(DType::I64), OUTSIDE_I64),
        (dtype == DType::I32 && to(DType::F32), BEYOND_I32),
    ];
    lists.into_iter().filter(|(lost, _)| *lost).map(|(_, numbers)| numbers).collect()
}

/// The least and the largest finite number of a type.
fn range(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::Bool => (0.0, 1.0),
        DType::I8 => (-128.0, 127.0),
        DType::U8 => (0.0, 255.0),
        DType::I32 => (I32_LEAST, I32_MOST),
        DType::I64 => (-9.2e18, 9.2e18),
        DType::F16 => (-65_504.0, 65_504.0),
        DType::BF16 => (-3.38e38, 3.38e38),
        DType::F32 => (f64::from(f32::MIN), f64::from(f32::MAX)),
        _ => (f64::MIN, f64::MAX),
    }
}
