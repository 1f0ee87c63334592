//! Evaluates both sides of an instance by the reference, and compares them.
//!
//! Rules are equalities of real numbers. So an instance with one floating-point type, whichever it is, is
//! evaluated in `f64`, whose rounding is about 1e-16; only constants that a model or a rule writes in that
//! type need tolerance (6e-8 of their value for `f32`; patterns match them within 1e-6). If an instance has
//! several floating-point types, casts to a narrow one, or reads the bits of one as another type, then these
//! types are part of the meaning, and everything is evaluated in the types as they are. That comparison is
//! coarse, and the coverage counts it.
//!
//! An instance with integers is compared once more in `f64` if no float on the way is rounded there (`exact`):
//! then both sides must have the same elements, to the last bit.

use super::build::{types_differ, widened};
use super::draft::{Draft, Exactness, Filling};
use super::exact::exactness;
use super::level;
use super::untyped::Untyped;
use ovolo::attr::Attrs;
use ovolo::op::Op;
use ovolo::rule;
use ovolo::tensor::{DType, Layout, Tensor, TensorType};
use std::fmt;

/// The tolerance for real numbers with constants in `f32`.
const TOLERANCE: f64 = 1e-6;
/// The smallest magnitude to which a difference is relative. Smaller values are differences of values near 1,
/// and keep the rounding of those.
const SMALLEST: f64 = 0.1;

/// The tolerance for sums and chains in `bf16`, where each rounding is 2^-9.
const BF16: f64 = 1e-1;
/// The tolerance in TF32 and `f16`, where each rounding is 2^-12.
const F16: f64 = 2e-2;

/// What is wrong with two sides.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum Fault {
    /// They have different types.
    #[error("the left side is of type {left}, the right side of type {right}")]
    Types { left: Box<TensorType>, right: Box<TensorType> },
    /// The right side has no type.
    #[error(transparent)]
    Untyped(Untyped),
    /// They have different values.
    #[error("the sides differ in value")]
    Values,
    /// A value of this type has padding that is not zero.
    #[error("the padding of a value of type {0} is not zero")]
    Padding(Box<TensorType>),
    /// An element depends on padding.
    #[error("an element depends on padding (left: with zero padding, right: with NaN in the padding)")]
    Dependent,
}

impl Fault {
    /// Returns the first side whose types differ, and its types.
    pub fn of_types(draft: &Draft) -> Option<(usize, Self)> {
        let (side, left, right) = types_differ(draft)?;
        Some((side, Self::Types { left: Box::new(left), right: Box::new(right) }))
    }
}

/// How two sides differ.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    /// The position of the left side.
    pub side: usize,
    /// What is wrong.
    pub fault: Fault,
    /// The first element that differs: its index, and the values on the left and on the right.
    pub at: Option<(Vec<usize>, String, String)>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fault)?;
        match &self.at {
            Some((index, left, right)) => {
                write!(f, ": at {index:?} the left side is {left}, the right side {right}")
            }
            None => Ok(()),
        }
    }
}

/// The result of a comparison.
pub(super) enum Compared {
    /// The sides agree.
    Agree(Exactness),
    /// They agree, but most elements are not finite, so little was compared.
    Vacuous,
    /// They differ.
    Differ(Difference),
    /// They differ in elements that are not finite, and `f64` overflowed: with smaller values they may agree.
    Strained(Difference),
}

/// Evaluates both sides and compares them.
///
/// A rule that rounds must satisfy two conditions: it is an equality of real numbers, in which casts between
/// floats change nothing, and levels of weights are not rounded; and in the types as they are, it is off by no more
/// than rounding, provided that the steps of its chains do not magnify rounding.
pub(super) fn compare(draft: &Draft) -> Compared {
    let precisions = match draft.precision {
        rule::Precision::F32 => vec![Precision::for_draft(draft)],
        rounding if rounding.levels() => {
            let rounded = linear(draft).then_some(Precision { wide: false, tolerance: TOLERANCE });
            [Precision { wide: true, tolerance: TOLERANCE }].into_iter().chain(rounded).collect()
        }
        rounding => {
            let tolerance = if rounding == rule::Precision::Bf16 { BF16 } else { F16 };
            let rounded = linear(draft).then_some(Precision { wide: false, tolerance });
            [Precision { wide: true, tolerance: TOLERANCE }].into_iter().chain(rounded).collect()
        }
    };
    let wide = Precision { wide: true, tolerance: 0.0 };
    let exactness = exactness(draft, &|| evaluate(draft, &wide, false));
    let exactly = (exactness == Exactness::Exact).then_some(wide);
    let compared = precisions.iter().chain(&exactly).map(|precision| compare_in(draft, precision));
    compared.flatten().next().unwrap_or(Compared::Agree(exactness))
}

/// Compares both sides, evaluated in one precision. Returns nothing if they agree.
fn compare_in(draft: &Draft, precision: &Precision) -> Option<Compared> {
    let values = evaluate(draft, precision, false);
    let mut strain = None;
    for (side, (left, right)) in draft.left.iter().zip(&draft.right).enumerate() {
        let (Some(left), Some(right)) = (&values[*left], &values[*right]) else { continue };
        let differ = |at: usize, left: String, right: String| {
            let index = index_of(at, &draft.values[draft.left[side]].ty.shape);
            Difference { side, fault: Fault::Values, at: Some((index, left, right)) }
        };
        // Integers and booleans are compared exactly, whatever other types there are.
        if let (Some(left), Some(right)) = (left.to_i64(), right.to_i64()) {
            if let Some(at) = left.iter().zip(&right).position(|(left, right)| left != right) {
                let difference = differ(at, left[at].to_string(), right[at].to_string());
                if !precision.wide || !strained(draft, &values) {
                    return Some(Compared::Differ(difference));
                }
                strain.get_or_insert(difference);
            }
            continue;
        }
        let (left, right) = (left.to_f64(), right.to_f64());
        let slack = (!precision.wide && draft.precision.levels())
            .then(|| level::slack(draft, draft.right[side], &values))
            .flatten();
        let differing = differences(&left, &right, precision.tolerance, slack.as_deref());
        let number = |at: &usize| left[*at].is_finite() && right[*at].is_finite();
        if let Some(first) = differing.first() {
            let at = *differing.iter().find(|at| number(at)).unwrap_or(first);
            let difference = differ(at, format!("{:?}", left[at]), format!("{:?}", right[at]));
            if number(&at) || !precision.wide || !strained(draft, &values) {
                return Some(Compared::Differ(difference));
            }
            strain.get_or_insert(difference);
            continue;
        }
        if left.iter().filter(|value| value.is_finite()).count() * 2 < left.len() {
            return Some(Compared::Vacuous);
        }
    }
    if let Some(difference) = strain {
        return Some(Compared::Strained(difference));
    }
    for (at, value) in values.iter().enumerate() {
        if let Some(value) = value
            && !padding_is_zero(value)
        {
            let side = draft.right.iter().position(|root| *root == at).unwrap_or(0);
            let fault = Fault::Padding(Box::new(draft.values[at].ty.clone()));
            return Some(Compared::Differ(Difference { side, fault, at: None }));
        }
    }
    poisoned(draft, precision, &values).map(Compared::Differ)
}

/// How an instance is evaluated and compared.
pub(super) struct Precision {
    /// Whether everything is evaluated in `f64`, whatever its type is.
    pub wide: bool,
    /// The largest relative difference of two sides.
    pub tolerance: f64,
}

impl Precision {
    pub fn for_draft(draft: &Draft) -> Self {
        let has = |dtype: &DType| draft.values.iter().any(|value| value.ty.dtype == *dtype);
        let floats = [DType::BF16, DType::F16, DType::F32, DType::F64];
        let found: Vec<DType> = floats.into_iter().filter(has).collect();
        let named = |op: Op| op.meaning();
        let casts = || draft.values.iter().any(|value| value.op.is_some_and(|op| named(op) == "cast"));
        // `f32` cannot represent all integers beyond 2^24, so a cast to it may round.
        let whole = |at: usize| matches!(draft.values[at].ty.dtype, DType::I32 | DType::I64);
        let rounds_integers = || {
            let casts = draft.values.iter().filter(|value| value.op.is_some_and(|op| named(op) == "cast"));
            casts
                .into_iter()
                .any(|cast| cast.ty.dtype == DType::F32 && cast.inputs.iter().any(|at| whole(*at)))
        };
        if draft.values.iter().any(|value| value.op.is_some_and(|op| named(op) == "bitcast")) {
            return Self { wide: false, tolerance: 1e-4 };
        }
        match found[..] {
            [] | [DType::F64] => Self { wide: true, tolerance: TOLERANCE },
            [DType::F32] if !rounds_integers() => Self { wide: true, tolerance: TOLERANCE },
            // A cast to a narrow type rounds on purpose.
            [one @ (DType::F16 | DType::BF16)] if !casts() => {
                // A number in the rule's text is exact, but the constant that stands for it in a model is
                // rounded.
                let rounded = if rounds(draft) { 4.0 * rounding(one) } else { 0.0 };
                Self { wide: true, tolerance: TOLERANCE.max(rounded) }
            }
            [DType::BF16, ..] => Self { wide: false, tolerance: BF16 },
            [DType::F16, ..] => Self { wide: false, tolerance: F16 },
            // One rounding to `f32` is 6e-8; differences of values magnify a few of them.
            [_, ..] => Self { wide: false, tolerance: 1e-4 },
        }
    }
}

/// Steps that do not magnify rounding errors. Others have poles, jumps, or bounds that many values come near.
const LINEAR: &[&str] = &["abs", "add", "leaky-relu", "neg", "relu", "rsub", "sub"];

/// Whether the size of a difference can tell a mistake from rounding.
fn linear(draft: &Draft) -> bool {
    let steps = |attrs: &Attrs| attrs.post().iter().all(|step| LINEAR.contains(&step.op.name()));
    draft.values.iter().all(|value| steps(&value.attrs))
}

/// The largest relative distance between a number and the nearest number of the type.
fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => 1.0 / 256.0,
        DType::F16 => 1.0 / 2048.0,
        _ => 0.0,
    }
}

/// Whether a constant that stands for a number of the rule is rounded in its type.
fn rounds(draft: &Draft) -> bool {
    (0..draft.values.len()).any(|at| match draft.values[at].leaf.as_ref().map(|leaf| &leaf.values) {
        Some(Filling::Splat(value)) => {
            draft.tensor(at).is_some_and(|tensor| tensor.to_f64().first().is_some_and(|one| one != value))
        }
        _ => false,
    })
}

/// Returns the value of everything that either side depends on. With `poison`, the padding of blocked leaves
/// is filled with NaN.
fn evaluate(draft: &Draft, precision: &Precision, poison: bool) -> Vec<Option<Tensor>> {
    let roots: Vec<usize> = draft.left.iter().chain(&draft.right).copied().collect();
    let mut values: Vec<Option<Tensor>> = vec![None; draft.values.len()];
    for at in draft.below(&roots) {
        let value = &draft.values[at];
        let result = match value.op {
            None => draft.tensor(at).map(|tensor| {
                let tensor = if precision.wide { widen(tensor) } else { tensor.clone() };
                if poison { with_poison(tensor) } else { tensor }
            }),
            Some(op) => {
                let operands: Option<Vec<&Tensor>> =
                    value.inputs.iter().map(|input| values[*input].as_ref()).collect();
                operands.map(|operands| {
                    let real = (precision.wide && draft.precision.levels())
                        .then(|| level::unrounded(value, &operands))
                        .flatten();
                    real.unwrap_or_else(|| eval(op, &value.attrs, &operands, &value.ty, precision.wide))
                })
            }
        };
        values[at] = result;
    }
    values
}

/// Evaluates an op; with `wide`, its floats in `f64`.
pub(super) fn eval(op: Op, attrs: &Attrs, operands: &[&Tensor], ty: &TensorType, wide: bool) -> Tensor {
    if wide { widen(&op.evaluate(attrs, operands, &widened(ty))) } else { op.evaluate(attrs, operands, ty) }
}

/// The same values in `f64`, for any floating-point type. Numbers inside rules are always created as `f32`.
/// Returns a tensor of floats in `f64`.
pub(super) fn widen(tensor: &Tensor) -> Tensor {
    if !tensor.ty().dtype.is_float() || tensor.ty().dtype == DType::F64 {
        return tensor.clone();
    }
    let layout = tensor.ty().layout.clone();
    let values = Tensor::from_f64(DType::F64, tensor.ty().shape.clone(), &tensor.to_f64());
    values.to_layout(&layout).on(tensor.ty().device)
}

/// Ops with poles: they return NaN or infinity where they are undefined, and not only when values are too
/// large.
const POLES: &[&str] = &["log", "div", "reciprocal", "sqrt", "mod", "pow", "batch-norm", "instance-norm"];
/// Ops that are never zero, unless `f64` underflows.
const NOWHERE_ZERO: &[&str] = &["exp", "sigmoid", "softmax"];

/// Whether `f64` was not enough on the way to a result: finite operands give an infinity or NaN, or an op
/// that is never zero gives zero.
fn strained(draft: &Draft, values: &[Option<Tensor>]) -> bool {
    let finite = |value: &Tensor| value.to_f64().iter().all(|one| one.is_finite());
    let numbers = |at: &usize| values[*at].as_ref().is_none_or(finite);
    draft.values.iter().zip(values).any(|(value, result)| {
        let (Some(op), Some(result)) = (value.op, result) else { return false };
        if !result.ty().dtype.is_float() {
            return false;
        }
        let name = op.meaning();
        let steps = value.attrs.post();
        let has =
            |list: &[&str]| list.contains(&name) || steps.iter().any(|step| list.contains(&step.op.name()));
        let result = result.to_f64();
        let left = (!has(POLES) || has(&["exp"])) && result.iter().any(|one| !one.is_finite());
        let zero = has(NOWHERE_ZERO) && result.contains(&0.0);
        (left || zero) && value.inputs.iter().all(numbers)
    })
}

/// The first element in which they differ.
fn first_difference(left: &[f64], right: &[f64], tolerance: f64) -> Option<usize> {
    differences(left, right, tolerance, None).first().copied()
}

/// The elements in which they differ by more than the tolerance and, where there is some, the slack of each.
fn differences(left: &[f64], right: &[f64], tolerance: f64, slack: Option<&[f64]>) -> Vec<usize> {
    let finite = || left.iter().filter(|value| value.is_finite());
    #[allow(clippy::cast_precision_loss)]
    let typical = finite().map(|value| value.abs()).sum::<f64>() / finite().count().max(1) as f64;
    let differ = |at: &usize| {
        let (left, right) = (left[*at], right[*at]);
        let same = left == right || left.is_nan() && right.is_nan();
        let most = tolerance * left.abs().max(right.abs()).max(typical).max(SMALLEST);
        let close = (left - right).abs() <= most + slack.map_or(0.0, |slack| slack[*at]);
        !(same || close && left.is_finite() && right.is_finite())
    };
    (0..left.len().min(right.len())).filter(differ).collect()
}

fn index_of(at: usize, shape: &[usize]) -> Vec<usize> {
    let mut rest = at;
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|size| {
            let here = rest % size;
            rest /= size;
            here
        })
        .collect();
    index.reverse();
    index
}

/// Whether packing the logical values again gives the same bytes.
fn padding_is_zero(value: &Tensor) -> bool {
    let ty = value.ty();
    !ty.layout.pads(&ty.shape)
        || value.to_layout(&Layout::PLAIN).to_layout(&ty.layout).bytes() == value.bytes()
}

/// The same value with NaN in the padding of its blocks.
fn with_poison(tensor: Tensor) -> Tensor {
    let ty = tensor.ty().clone();
    if !ty.layout.pads(&ty.shape) || ty.dtype != DType::F64 {
        return tensor;
    }
    let ones = Tensor::from_f64(DType::F64, ty.shape.clone(), &vec![1.0; ty.shape.count()]);
    let ones = ones.to_layout(&ty.layout);
    let mut tensor = tensor;
    for (value, real) in tensor.elements_mut::<f64>().iter_mut().zip(ones.elements::<f64>()) {
        if *real == 0.0 {
            *value = f64::NAN;
        }
    }
    tensor
}

/// Checks that no logical element depends on padding, on either side: with NaN in the padding of the leaves,
/// all elements keep their values.
fn poisoned(draft: &Draft, precision: &Precision, clean: &[Option<Tensor>]) -> Option<Difference> {
    let pads = |ty: &TensorType| ty.layout.pads(&ty.shape);
    if !precision.wide || !draft.values.iter().any(|value| value.leaf.is_some() && pads(&value.ty)) {
        return None;
    }
    let values = evaluate(draft, precision, true);
    for (side, root) in draft.left.iter().chain(&draft.right).enumerate() {
        let (Some(clean), Some(dirty)) = (&clean[*root], &values[*root]) else { continue };
        let (clean, dirty) = (clean.to_f64(), dirty.to_f64());
        if let Some(at) = first_difference(&clean, &dirty, precision.tolerance) {
            let index = index_of(at, &draft.values[*root].ty.shape);
            let side = side % draft.left.len();
            return Some(Difference {
                side,
                fault: Fault::Dependent,
                at: Some((index, format!("{:?}", clean[at]), format!("{:?}", dirty[at]))),
            });
        }
    }
    None
}
