//! Verifies derivatives of ops: compares each with central differences of the op's reference evaluation in `f64`.
//!
//! A derivative is a rule whose left side is `(gradient ?x (op … ?x …) ?d)`: the gradient with respect to `?x` of the
//! number `sum(d * op(x))`, for any `d` of the type of the op's result. The op and its operands are generated as those of any
//! other rule, and `d` is random. Some elements of `x` are moved to both sides, by two distances, and the two differences
//! are extrapolated (Richardson), so that their error is of the fourth order. Where the number has a corner or a jump, or is
//! too steep for these distances, the differences disagree, and the element is left out. What is left out depends on the op
//! alone and not on the derivative.

use super::build;
use super::check::{eval, widen};
use super::draft::{Draft, Filling};
use super::generate::Generator;
use super::palette::Palette;
use super::refusal::{Reason, Reasons, Refusal};
use super::rng::Rng;
use super::{Settings, hopeless};
use ovolo::op::Values;
use ovolo::rule::{OperandVar, Pattern, Rule};
use ovolo::tensor::{DType, Tensor, TensorType};

/// The largest difference from the derivative, relative to it.
const TOLERANCE: f64 = 1e-6;
/// The largest difference, relative to the sum of the magnitudes that the number adds up: what rounding does.
const ROUNDING: f64 = 1e-10;
/// The largest distance by which an element is moved, for elements of magnitude 1. Larger ones are moved further, since
/// their last bits are, but not so far that a step of `round` is passed over.
const DISTANCE: f64 = 1e-4;
/// The magnitudes by which the distance grows.
const GROWING: std::ops::RangeInclusive<f64> = 0.1..=10.0;
/// The largest magnitude of an element that is moved: rounding hides the distance at larger ones.
const FARTHEST: f64 = 1e5;
/// The most elements of an operand by which the differences are computed.
const ELEMENTS: usize = 12;
/// The most elements of a value.
const LARGEST: usize = 3000;

/// What was found about a derivative.
#[derive(Clone, Debug, PartialEq)]
pub struct Derivative {
    /// The rule.
    pub rule: String,
    /// The number of instances that were compared.
    pub instances: usize,
    /// The number of instances that were generated.
    pub tries: usize,
    /// The number of elements that were compared.
    pub elements: usize,
    /// The largest difference in a compared element, relative to the magnitude of the derivative.
    pub worst: f64,
    /// What is wrong, on the first instance that shows it.
    pub wrong: Option<String>,
    /// Why attempts gave no instance, the most frequent reasons first.
    pub reasons: Vec<Reason>,
}

impl Derivative {
    /// Whether the derivative agrees on as many instances as were wanted.
    pub fn holds(&self, settings: Settings) -> bool {
        self.wrong.is_none() && self.instances >= settings.instances
    }
}

/// Verifies one derivative.
///
/// # Panics
/// If the left side of the rule is of another form.
pub fn derivative(rule: &Rule, settings: Settings) -> Derivative {
    let (by, inner, above) = parts(rule).expect("the rule is a derivative: `(gradient ?x (op … ?x …) ?d)`");
    let op = Rule { from: vec![inner.clone()], ..rule.clone() };
    let palette = Palette { largest: LARGEST, ..Palette::WIDE };
    let generator = Generator::new(&op, &palette);
    let mut found = Derivative {
        rule: rule.name.clone(),
        instances: 0,
        tries: 0,
        elements: 0,
        worst: 0.0,
        wrong: None,
        reasons: Vec::new(),
    };
    let mut reasons = Reasons::default();
    while found.wrong.is_none()
        && found.instances < settings.instances
        && !hopeless(found.instances, found.tries, settings)
    {
        let mut rng = Rng::new(settings.seed, &rule.name, found.tries as u64);
        found.tries += 1;
        let draft = match generator.left(&mut rng) {
            Ok(draft) => draft,
            Err(why) => {
                reasons.add(why.into());
                continue;
            }
        };
        match instance(&op, draft, by, above, &mut rng) {
            Ok(compared) => {
                found.instances += 1;
                found.elements += compared.elements;
                found.worst = found.worst.max(compared.worst);
                found.wrong = compared.wrong;
            }
            Err(refusal) => reasons.add(refusal),
        }
    }
    found.reasons = reasons.most(5);
    found
}

/// The operand, the op and the gradient of the left side of a derivative.
fn parts(rule: &Rule) -> Option<(OperandVar, &Pattern, OperandVar)> {
    let [Pattern::Op { children, .. }] = &rule.from[..] else { return None };
    match &children[..] {
        [Pattern::Operand(by), inner @ Pattern::Op { .. }, Pattern::Operand(above)] => {
            Some((*by, inner, *above))
        }
        _ => None,
    }
}

/// The result of one instance.
struct Compared {
    elements: usize,
    worst: f64,
    wrong: Option<String>,
}

fn instance(
    rule: &Rule,
    mut draft: Draft,
    by: OperandVar,
    above: OperandVar,
    rng: &mut Rng,
) -> Result<Compared, Refusal> {
    let (Some(x), root) = (draft.operands[by.0], draft.left[0]) else {
        return Err(String::from("the operand is not bound").into());
    };
    let ty = draft.values[root].ty.clone();
    let floats = [&ty, &draft.values[x].ty].iter().all(|ty| ty.dtype.is_float() && ty.layout.is_plain());
    if !floats {
        return Err(String::from("the operand or the result is no float in the default layout").into());
    }
    let d = draft.leaf(ty, false, Filling::Drawn(Values::Any, rng.word() >> 40))?;
    draft.operands[above.0] = Some(d);
    build::admit(rule, &draft)?;
    build::right(rule, &mut draft)?;
    let right = draft.right[0];
    if draft.values[right].ty != draft.values[x].ty {
        let [wanted, given] = [x, right].map(|at| draft.values[at].ty.to_string());
        let wrong = Some(format!("the derivative is of type {given}, and the operand of type {wanted}"));
        return Ok(Compared { elements: 0, worst: 0.0, wrong });
    }
    let number = Number::new(&draft, x, d);
    let all: Vec<f64> = value(&draft, right).to_f64();
    let (mut compared, mut tried) = (Compared { elements: 0, worst: 0.0, wrong: None }, 0);
    for at in rng.order(all.len()).into_iter().take(ELEMENTS) {
        tried += 1;
        let Some((slope, size)) = number.slope(at) else { continue };
        compared.elements += 1;
        let (given, distance) = (all[at], (all[at] - slope).abs());
        let magnitude = slope.abs().max(given.abs());
        if distance.is_nan() || distance > TOLERANCE * magnitude + ROUNDING * size {
            let call = &draft.values[root];
            let operands: Vec<String> =
                call.inputs.iter().map(|input| draft.values[*input].ty.to_string()).collect();
            compared.wrong.get_or_insert(format!(
                "`{}({}){}`: by element {at} of the operand of type {} the differences give {slope:?}, the rule {given:?}",
                call.op.map_or("leaf", |op| op.name),
                operands.join(", "),
                call.attrs,
                draft.values[x].ty,
            ));
        } else if distance > ROUNDING * size {
            compared.worst = compared.worst.max(distance / magnitude);
        }
    }
    if compared.wrong.is_none() && compared.elements * 2 < tried.max(1) {
        return Err(Refusal::late("most elements are at a corner, or no numbers"));
    }
    Ok(compared)
}

/// The value of a right side, in `f64`.
fn value(draft: &Draft, root: usize) -> Tensor {
    let mut values: Vec<Option<Tensor>> = vec![None; draft.values.len()];
    for at in draft.below(&[root]) {
        let value = &draft.values[at];
        values[at] = match value.op {
            None => draft.tensor(at).map(widen),
            Some(op) => {
                let operands: Vec<&Tensor> =
                    value.inputs.iter().filter_map(|input| values[*input].as_ref()).collect();
                Some(eval(op, &value.attrs, &operands, &value.ty, true))
            }
        };
    }
    values[root].take().unwrap_or_else(|| Tensor::zeros(TensorType::plain(DType::F64, Vec::new())))
}

/// The number `sum(d * op(x))` as a function of one operand.
struct Number<'a> {
    draft: &'a Draft,
    x: usize,
    point: Vec<f64>,
    weights: Vec<f64>,
}

impl<'a> Number<'a> {
    fn new(draft: &'a Draft, x: usize, d: usize) -> Self {
        let elements = |at: usize| draft.tensor(at).map(Tensor::to_f64).unwrap_or_default();
        Self { draft, x, point: elements(x), weights: elements(d) }
    }

    /// Returns the terms of the number, one for each element of the op's result, with an element moved by a distance.
    fn at(&self, element: usize, distance: f64) -> Vec<f64> {
        let mut point = self.point.clone();
        point[element] += distance;
        let moved = Tensor::from_f64(DType::F64, self.draft.values[self.x].ty.shape.clone(), &point);
        let root = &self.draft.values[self.draft.left[0]];
        let operands: Vec<Tensor> = root
            .inputs
            .iter()
            .map(|input| match self.draft.tensor(*input) {
                Some(tensor) if *input != self.x => widen(tensor),
                _ => moved.clone(),
            })
            .collect();
        let operands: Vec<&Tensor> = operands.iter().collect();
        let result = root.op.map(|op| eval(op, &root.attrs, &operands, &root.ty, true).to_f64());
        result.unwrap_or_default().iter().zip(&self.weights).map(|(one, weight)| one * weight).collect()
    }

    /// Returns the slope by one element, and the sum of the magnitudes of the terms; `None` where there is no slope. The
    /// slopes to both sides are compared term by term, since those of several terms may cancel at a corner.
    fn slope(&self, element: usize) -> Option<(f64, f64)> {
        let magnitude = self.point[element].abs();
        if magnitude.is_nan() || magnitude > FARTHEST {
            return None;
        }
        let step = DISTANCE * magnitude.clamp(*GROWING.start(), *GROWING.end());
        let [left, near_left, middle, near_right, right] =
            [-step, -step / 2.0, 0.0, step / 2.0, step].map(|distance| self.at(element, distance));
        if ![&left, &near_left, &middle, &near_right, &right]
            .iter()
            .all(|all| all.iter().all(|one| one.is_finite()))
        {
            return None;
        }
        let size: f64 = middle.iter().map(|term| term.abs()).sum();
        let noise = ROUNDING * size;
        let (mut bend, mut rise) = (0.0, 0.0);
        for (at, term) in middle.iter().enumerate() {
            let sides = [(term - near_left[at]) / (step / 2.0), (near_right[at] - term) / (step / 2.0)];
            bend += (sides[0] - sides[1]).abs();
            rise += sides[0].abs().max(sides[1].abs());
        }
        let between =
            |low: &[f64], high: &[f64]| -> f64 { high.iter().zip(low).map(|(high, low)| high - low).sum() };
        let (wide, narrow) = (between(&left, &right) / (2.0 * step), between(&near_left, &near_right) / step);
        let slope = (4.0 * narrow - wide) / 3.0;
        let smooth = bend <= 0.02 * rise + noise && (wide - narrow).abs() <= 1e-7 * slope.abs() + noise;
        smooth.then_some((slope, size))
    }
}
