//! Decides whether the evaluation of an instance rounds nowhere, so that its sides can be compared without a tolerance.
//!
//! Rules about integers lead from levels to floats and back, and floats are evaluated with rounding. But a float is an
//! integer times a power of two, and sums and products of a few of them need few bits. If these bits fit where a value is
//! computed, in every order of its sums, then nothing is rounded, and equal sides have equal floats. The bits are counted
//! from the values themselves: those below the result's last place, and those of its largest possible magnitude.
//!
//! Generated floats are random and need all bits. So each instance with integers is compared once more with floats of few
//! bits (`simple`): multiples of an eighth, and powers of two for scales, by which a division is exact. Quotients of such
//! numbers are often halves of integers, which rounding to levels decides.

use super::draft::{Draft, DraftValue, Exactness, Filling, Leaf};
use super::rng::Rng;
use ovolo::attr::Attrs;
use ovolo::op::{Op, Values};
use ovolo::tensor::{DType, Tensor};
use std::sync::Arc;

/// The bits of a float in which `dequantize` and `quantize` compute: they are defined in binary32.
const SINGLE: i32 = 24;
/// The bits of a float in which the other ops are evaluated.
const DOUBLE: i32 = 53;

/// Returns whether a side has integers, of which the rule may say something beside real numbers.
fn has_integers(draft: &Draft) -> bool {
    let integer = |ty: DType| !ty.is_float() && ty != DType::Bool && ty != DType::I64;
    draft.below(&draft.left).into_iter().any(|at| integer(draft.values[at].ty.dtype))
}

/// Returns whether the values of an instance, evaluated in `f64`, are exact wherever a result depends on them.
pub(super) fn exactness(draft: &Draft, values: &dyn Fn() -> Vec<Option<Tensor>>) -> Exactness {
    if !has_integers(draft) {
        return Exactness::Real;
    }
    // In another type, the bits of a value are others.
    if draft.values.iter().any(|value| value.op.is_some_and(|op| op.meaning() == "bitcast")) {
        return Exactness::Rounded("the bits of a value are read as another type".to_owned());
    }
    let roots = draft.left.iter().chain(&draft.right).copied();
    let floats: Vec<usize> = roots.filter(|at| draft.values[*at].ty.dtype.is_float()).collect();
    if floats.is_empty() {
        return Exactness::Exact;
    }
    let several = |at: &usize| {
        !matches!(draft.values[*at].ty.dtype, DType::F32) && draft.values[*at].ty.dtype.is_float()
    };
    let below = draft.below(&floats);
    if let Some(at) = below.iter().find(|at| several(at)) {
        return Exactness::Rounded(format!(
            "a value is {}, to which numbers are rounded",
            draft.values[*at].ty.dtype
        ));
    }
    let values = values();
    below.into_iter().find_map(|at| rounds(draft, at, &values)).map_or(Exactness::Exact, Exactness::Rounded)
}

/// The bits that numbers need: each is a multiple of `2^low`, and less than `2^high` in magnitude.
#[derive(Clone, Copy)]
struct Bits {
    low: i32,
    high: i32,
}

impl Bits {
    /// The bits of one: what a sum of products has at least, where a factor is absent.
    const ONE: Self = Self { low: 0, high: 0 };

    /// The bits of some numbers; `None` if one is NaN or subnormal. Nothing is rounded to an infinity that was one before.
    fn of(numbers: &[f64]) -> Option<Self> {
        numbers.iter().filter(|one| **one != 0.0 && !one.is_infinite()).try_fold(Self::ONE, |bits, one| {
            let (low, high) = places(*one)?;
            Some(Self { low: bits.low.min(low), high: bits.high.max(high) })
        })
    }

    /// The bits of products.
    fn times(self, other: Self) -> Self {
        Self { low: self.low + other.low, high: self.high + other.high }
    }

    /// The bits of numbers of either kind.
    fn or(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// The bits of sums of so many of them.
    #[allow(clippy::cast_possible_truncation)]
    fn sum(self, terms: f64) -> Self {
        Self { high: self.high + terms.max(1.0).log2().ceil() as i32, ..self }
    }

    fn fit(self, most: i32) -> bool {
        self.high - self.low <= most
    }
}

/// The power of two of the last bit of a number other than zero, and the one above its first bit; `None` if it is not
/// finite.
fn places(number: f64) -> Option<(i32, i32)> {
    if !number.is_finite() || !number.is_normal() {
        return None;
    }
    let bits = number.to_bits();
    let exponent = i32::try_from(bits >> 52 & 0x7ff).ok()? - 1023;
    let fraction = bits & ((1 << 52) - 1) | 1 << 52;
    let last = i32::try_from(fraction.trailing_zeros()).ok()?;
    Some((exponent - 52 + last, exponent + 1))
}

/// Ops that give elements of their operands, or their magnitudes.
const MOVES: &[&str] = &[
    "abs",
    "clip",
    "concat",
    "expand",
    "gather",
    "identity",
    "max",
    "max-pool",
    "min",
    "neg",
    "pack",
    "pad",
    "relu",
    "reshape",
    "slice",
    "transpose",
    "turn-filters",
    "unpack",
    "where",
];
/// Ops whose elements are sums of products of elements of different operands.
const SUMS: &[&str] =
    &["add", "conv", "conv-transpose", "map", "matmul", "matmul-narrow", "mul", "reduce-sum", "rsub", "sub"];
/// Ops that divide such a sum by a number of elements.
const MEANS: &[&str] = &["avg-pool", "reduce-mean"];
/// Steps of chains of the same kinds.
const STEPS: &[&str] = &[
    "abs",
    "add",
    "clip",
    "leaky-relu",
    "max",
    "min",
    "mul",
    "neg",
    "relu",
    "rsub",
    "scale",
    "shift",
    "sub",
];

/// Returns why a value may be rounded where its operands are exact; `None` if it cannot.
fn rounds(draft: &Draft, at: usize, values: &[Option<Tensor>]) -> Option<String> {
    let value = &draft.values[at];
    let known = |at: &usize| values[*at].as_ref().map(Tensor::to_f64);
    let result = known(&at).unwrap_or_default();
    let Some(op) = value.op else {
        let finite = !value.ty.dtype.is_float() || Bits::of(&result).is_some();
        return (!finite).then(|| "an operand is NaN or subnormal".to_owned());
    };
    let name = op.meaning();
    let integers = || value.inputs.iter().all(|input| !draft.values[*input].ty.dtype.is_float());
    let operands: Option<Vec<Bits>> = value.inputs.iter().map(|input| Bits::of(&known(input)?)).collect();
    let Some(operands) = operands else { return Some("a value is NaN or subnormal".to_owned()) };
    let too_many = |bits: Bits, most: i32| {
        (!bits.fit(most)).then(|| format!("`{name}` needs {} bits of {most}", bits.high - bits.low))
    };
    if !value.ty.dtype.is_float() {
        return match name {
            "quantize" => divides(&operands, known(&value.inputs[1])?.as_slice()),
            "cast" => None,
            _ if integers() => None,
            _ => Some(format!("`{name}` rounds floats to integers on the way to a float")),
        };
    }
    match name {
        "scalar" => too_many(Bits::of(&[value.attrs.expect_float("value")])?, SINGLE),
        "cast" => too_many(operands[0], if value.ty.dtype == DType::F32 { SINGLE } else { DOUBLE }),
        "dequantize" => too_many(operands[0].or(operands[2]).sum(2.0).times(operands[1]), SINGLE),
        _ if MOVES.contains(&name) => None,
        _ if SUMS.contains(&name) => match chain(&value.attrs) {
            Ok(chain) => too_many(sums(draft, value, op, &operands).times(chain), DOUBLE),
            Err(step) => Some(format!("the step `{step}` rounds")),
        },
        _ if MEANS.contains(&name) => match elements(draft, value) {
            #[allow(clippy::cast_precision_loss)]
            Some(count) if count.is_power_of_two() => too_many(operands[0].sum(count as f64), DOUBLE),
            _ => Some("a mean divides by a number that is no power of two".to_owned()),
        },
        _ => Some(format!("`{name}` rounds")),
    }
}

/// Returns the bits of sums of products.
fn sums(draft: &Draft, value: &DraftValue, op: Op, operands: &[Bits]) -> Bits {
    let types: Vec<_> = value.inputs.iter().map(|input| &draft.values[*input].ty).collect();
    #[allow(clippy::cast_precision_loss)]
    let each = (op.flops)(&value.attrs, &types, &value.ty) / value.ty.shape.count().max(1) as f64;
    operands.iter().fold(Bits::ONE, |bits, one| bits.times(*one)).sum(each + 2.0)
}

/// Returns the bits of the parameters of a chain's steps.
///
/// # Errors
/// A step that rounds.
fn chain(attrs: &Attrs) -> Result<Bits, &'static str> {
    attrs.post().iter().try_fold(Bits::ONE, |bits, step| {
        let numbers: Vec<f64> = step.parameters.iter().map(|parameter| parameter.0).collect();
        // A bound is often the largest number, which stands for none.
        let numbers: Vec<f64> = numbers.into_iter().filter(|one| one.abs() < 1e30).collect();
        let known = STEPS.contains(&step.op.name());
        let own = Bits::of(&numbers).filter(|_| known).ok_or(step.op.name())?;
        Ok(bits.times(own))
    })
}

/// Whether a division by scales and the sum with zero points round; the scales must be powers of two.
fn divides(operands: &[Bits], scales: &[f64]) -> Option<String> {
    let two = |scale: &f64| places(*scale).is_some_and(|(low, high)| high - low == 1);
    if !scales.iter().all(two) {
        return Some("`quantize` divides by a scale that is no power of two".to_owned());
    }
    (!operands[0].fit(SINGLE)).then(|| "`quantize` reads a number of more than 24 bits".to_owned())
}

/// The number of elements of which a mean is taken, if it is the same for all means.
fn elements(draft: &Draft, value: &DraftValue) -> Option<usize> {
    let of = draft.values[value.inputs[0]].ty.shape.count();
    if value.op?.meaning() == "reduce-mean" {
        return of.checked_div(value.ty.shape.count());
    }
    let zeros = |name: &str| value.attrs.expect_ints(name).iter().all(|pad| *pad == 0);
    let same = zeros("ceil-extra") && (zeros("pads") || value.attrs.expect_int("count-include-pad") == 1);
    let window = value.attrs.expect_ints("kernel").iter().map(|size| usize::try_from(*size).ok());
    window.product::<Option<usize>>().filter(|_| same)
}

/// The operand of an op that is a scale, if it has one.
fn scale(op: Op) -> Option<usize> {
    match op.meaning() {
        "quantize" | "dequantize" | "requantize" | "softmax-requantize" | "layer-norm-requantize" => Some(1),
        "conv-requantize" => Some(4),
        _ => None,
    }
}

impl Draft {
    /// Returns the first `count` values, which are the left sides, with floats of few bits: scales are powers of two, and
    /// other floats multiples of an eighth up to 8. Sums of 32 bits get 20. `None` if there is nothing to change, or
    /// if the instance has no integers.
    pub fn simple(&self, rng: &mut Rng, count: usize) -> Option<Self> {
        if !has_integers(self) {
            return None;
        }
        let scales =
            |value: &DraftValue| value.op.and_then(scale).and_then(|at| value.inputs.get(at).copied());
        let scales: Vec<usize> = self.values[..count].iter().filter_map(scales).collect();
        let mut simple = Self { right: Vec::new(), ..self.clone() };
        simple.values.truncate(count);
        let mut changed = false;
        for at in 0..count {
            let value = &self.values[at];
            let Some(leaf) = &value.leaf else { continue };
            let kept = matches!(
                leaf.values,
                Filling::Splat(_) | Filling::Drawn(Values::Exponent | Values::Below(_), _)
            );
            let Some(tensor) = self.tensor(at).filter(|_| !kept) else { continue };
            let numbers = tensor.to_f64();
            let numbers: Vec<f64> = match value.ty.dtype {
                DType::F32 if scales.contains(&at) => numbers
                    .iter()
                    .map(|one| rng.pick(&[0.125_f64, 0.25, 0.5, 1.0, 2.0, 4.0]).copysign(*one))
                    .collect(),
                DType::F32 => numbers.iter().map(|one| eighths(*one)).collect(),
                DType::I32 => numbers.iter().map(|one| one % f64::from(1 << 20)).collect(),
                _ => continue,
            };
            simple.values[at].leaf = Some(Leaf::new(leaf.constant, Filling::Given(numbers)));
            changed = true;
        }
        simple.names = self.names.as_ref().map(Arc::clone);
        changed.then_some(simple)
    }
}

/// The closest multiple of an eighth with the sign of the number, other than zero where the number is.
fn eighths(number: f64) -> f64 {
    let near = (number * 8.0).round().clamp(-64.0, 64.0) / 8.0;
    if near == 0.0 && number != 0.0 { 0.125_f64.copysign(number) } else { near }
}
