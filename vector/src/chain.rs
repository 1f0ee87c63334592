//! Post chains on areas of memory: each step is one vector loop over an area that stays in the cache.

use super::formula::{Formula, Second, evaluate};
use super::lanes::{Lanes, widened};
use super::math;
use ovolo::attr::Step;
use ovolo::op::OpError;
use ovolo::scalar::{self, Program};
use std::sync::Arc;

/// The function of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Copy,
    /// A function that is computed by its formula.
    Formula,
    Relu,
    Sigmoid,
    Tanh,
    Erf,
    Exp,
    Log,
    Sqrt,
    Neg,
    Abs,
    Reciprocal,
    Floor,
    Ceil,
    Round,
    Sign,
    Softplus,
    Softsign,
    Sin,
    Cos,
    Silu,
    Gelu,
    GeluTanh,
    HardSwish,
    Mish,
    LeakyRelu,
    Elu,
    HardSigmoid,
    Clip,
    Binary(Binary),
}

/// The function of a step that reads an extra operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
    Pow,
    ReversedSub,
    ReversedDiv,
    ReversedPow,
    /// The value and the scaled extra operand.
    AddScaled,
    /// The value, where the extra operand is between the parameters.
    Gate,
}

/// The functions that have their own loops, with their names. A test compares them with their formulas. All other
/// functions are computed by their formulas.
pub(crate) const OVERRIDES: &[(&str, Function)] = &[
    ("relu", Function::Relu),
    ("sigmoid", Function::Sigmoid),
    ("tanh", Function::Tanh),
    ("erf", Function::Erf),
    ("exp", Function::Exp),
    ("log", Function::Log),
    ("sqrt", Function::Sqrt),
    ("neg", Function::Neg),
    ("abs", Function::Abs),
    ("reciprocal", Function::Reciprocal),
    ("floor", Function::Floor),
    ("ceil", Function::Ceil),
    ("round", Function::Round),
    ("sign", Function::Sign),
    ("softplus", Function::Softplus),
    ("softsign", Function::Softsign),
    ("sin", Function::Sin),
    ("cos", Function::Cos),
    ("silu", Function::Silu),
    ("gelu", Function::Gelu),
    ("gelu-tanh", Function::GeluTanh),
    ("hard-swish", Function::HardSwish),
    ("mish", Function::Mish),
    ("leaky-relu", Function::LeakyRelu),
    ("elu", Function::Elu),
    ("hard-sigmoid", Function::HardSigmoid),
    ("clip", Function::Clip),
];

/// The steps of two operands that have their own loops, with their names. A test compares them with the formulas of
/// their functions. All other functions of two operands are computed by their formulas.
pub(crate) const BINARY: &[(&str, Binary)] = &[
    ("add", Binary::Add),
    ("sub", Binary::Sub),
    ("mul", Binary::Mul),
    ("div", Binary::Div),
    ("min", Binary::Min),
    ("max", Binary::Max),
    ("pow", Binary::Pow),
    ("rsub", Binary::ReversedSub),
    ("rdiv", Binary::ReversedDiv),
    ("rpow", Binary::ReversedPow),
    ("add-scaled", Binary::AddScaled),
    ("gate", Binary::Gate),
];

/// A step that is ready to run.
#[derive(Clone, Debug)]
pub struct Action {
    function: Function,
    parameters: [f32; 2],
    /// The formula, if the function has no loop of its own.
    pub formula: Option<Arc<Formula>>,
    /// Whether it reads an extra operand.
    pub binary: bool,
}

/// A step that takes a few instructions, which a kernel may apply to vectors in registers.
#[derive(Clone, Copy, Debug)]
pub enum Simple {
    /// `value + extra`
    Add,
    /// `value - extra`
    Sub,
    /// `value * extra`
    Mul,
    /// `value / extra`
    Div,
    /// `extra - value`
    ReversedSub,
    /// The value, or zero if it is negative.
    Relu,
    /// The least and the greatest value.
    Clip(f32, f32),
}

impl Action {
    /// Returns the step as one that takes a few instructions, if it is one.
    pub fn simple(&self) -> Option<Simple> {
        Some(match self.function {
            Function::Binary(Binary::Add) => Simple::Add,
            Function::Binary(Binary::Sub) => Simple::Sub,
            Function::Binary(Binary::Mul) => Simple::Mul,
            Function::Binary(Binary::Div) => Simple::Div,
            Function::Binary(Binary::ReversedSub) => Simple::ReversedSub,
            Function::Relu => Simple::Relu,
            Function::Clip => Simple::Clip(self.parameters[0], self.parameters[1]),
            _ => return None,
        })
    }

    /// A copy, for the start of a chain.
    pub const COPY: Self =
        Self { function: Function::Copy, parameters: [0.0; 2], formula: None, binary: false };

    /// Returns a function of the value and an extra operand with its parameters; `reversed` if the extra operand comes
    /// first. `None` if its formula is too long for the cache.
    pub fn binary(function: scalar::Function, reversed: bool, parameters: &[f64]) -> Option<Self> {
        let name = function.reversed_name().filter(|_| reversed).unwrap_or(function.name());
        if let Some((_, own)) = BINARY.iter().find(|(known, _)| *known == name) {
            let (function, parameters) = (Function::Binary(*own), rounded(parameters));
            return Some(Self { function, parameters, binary: true, ..Self::COPY });
        }
        let program = Program::for_function(function, parameters);
        let program = if reversed { program.swapped() } else { program };
        let formula = Some(Arc::new(Formula::new(&program)?));
        Some(Self { function: Function::Formula, formula, binary: true, ..Self::COPY })
    }

    /// Returns a function with its parameters; `None` if its formula is too long for the cache.
    pub fn function(function: scalar::Function, parameters: &[f64]) -> Option<Self> {
        if let Some((_, own)) = OVERRIDES.iter().find(|(known, _)| *known == function.name()) {
            return Some(Self { function: *own, parameters: rounded(parameters), ..Self::COPY });
        }
        Self::formula(function, parameters)
    }

    /// Returns a function that is computed by its formula.
    pub fn formula(function: scalar::Function, parameters: &[f64]) -> Option<Self> {
        let formula = Formula::new(&Program::for_function(function, parameters))?;
        Some(Self { function: Function::Formula, formula: Some(Arc::new(formula)), ..Self::COPY })
    }

    /// Returns the steps of a chain. The error names a step that is unknown.
    pub fn chain(steps: &[Step]) -> Result<Vec<Self>, OpError> {
        let action = |step: &Step| {
            let parameters: Vec<f64> = step.parameters.iter().map(|p| p.0).collect();
            let binary = || step.op.binary();
            let action = match step.op.function() {
                Some(function) => Self::function(function, &parameters),
                None => {
                    binary().and_then(|(function, reversed)| Self::binary(function, reversed, &parameters))
                }
            };
            action.ok_or_else(|| OpError::kernel(format!("`{}` cannot be a step of a post chain", step.op)))
        };
        steps.iter().map(action).collect()
    }
}

/// Returns parameters as `f32`.
#[allow(clippy::cast_possible_truncation)]
fn rounded(parameters: &[f64]) -> [f32; 2] {
    let mut values = [0.0; 2];
    values.iter_mut().zip(parameters).for_each(|(to, &from)| *to = from as f32);
    values
}

/// Rows of contiguous elements. Source and target must be the same or not overlap.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// The first element of the source.
    pub source: *const f32,
    /// The distance between rows of the source, in elements.
    pub source_row: usize,
    /// The first element of the target.
    pub target: *mut f32,
    /// The distance between rows of the target, in elements.
    pub target_row: usize,
    /// The number of rows.
    pub rows: usize,
    /// The elements of a row.
    pub columns: usize,
    /// The extra operand of a binary step.
    pub extra: *const f32,
    /// The distance between rows of the extra operand, in elements.
    pub extra_row: usize,
    /// The distance between columns of the extra operand, in elements.
    pub extra_column: usize,
}

impl Area {
    /// An empty area.
    pub const NONE: Self = Self {
        source: std::ptr::null(),
        source_row: 0,
        target: std::ptr::null_mut(),
        target_row: 0,
        rows: 0,
        columns: 0,
        extra: std::ptr::null(),
        extra_row: 0,
        extra_column: 0,
    };

    /// Returns the area as a step walks it. Contiguous rows are one row if the step reads no extra operand: the pixels
    /// of a block of channels are short rows, and each row has a cost, which is high for a formula.
    pub fn walked(self, action: &Action) -> Self {
        let contiguous = self.source_row == self.columns && self.target_row == self.columns;
        if contiguous && !action.binary {
            return Self { columns: self.columns * self.rows, rows: 1, ..self };
        }
        self
    }
}

widened! {
    /// Runs one step over an area.
    ///
    /// # Safety
    /// Source and target must be in bounds, and for a binary step the extra operand too.
    pub unsafe fn apply(action: &Action, area: &Area) = apply_on;
}

/// The vector loop of a function over an area. It is a macro, so that each body is inlined only once.
macro_rules! each {
    ($area:ident, $x:ident => $value:expr) => {
        for row in 0..$area.rows {
            let source = $area.source.add(row * $area.source_row);
            let target = $area.target.add(row * $area.target_row);
            let mut column = 0;
            while column < $area.columns {
                let rest = $area.columns - column;
                let from = source.add(column);
                let $x = if rest >= V::COUNT { V::load(from) } else { V::load_first(from, rest) };
                let value: V = $value;
                let to = target.add(column);
                if rest >= V::COUNT {
                    value.store(to)
                } else {
                    value.store_first(to, rest)
                }
                column += V::COUNT;
            }
        }
    };
}

/// The same for a binary step. If the extra operand repeats with each vector, `$repeated` is that vector.
macro_rules! both {
    ($area:ident, $repeated:ident, $x:ident, $y:ident => $value:expr) => {
        for row in 0..$area.rows {
            let source = $area.source.add(row * $area.source_row);
            let target = $area.target.add(row * $area.target_row);
            let extra = $area.extra.add(row * $area.extra_row);
            let one = $repeated.unwrap_or(V::splat(*extra));
            let mut column = 0;
            while column < $area.columns {
                let rest = $area.columns - column;
                let from = source.add(column);
                let $x = if rest >= V::COUNT { V::load(from) } else { V::load_first(from, rest) };
                let $y = match $area.extra_column {
                    0 => one,
                    1 if rest >= V::COUNT => V::load(extra.add(column)),
                    1 => V::load_first(extra.add(column), rest),
                    step => spread(extra.add(column * step), step, rest),
                };
                let value: V = $value;
                let to = target.add(column);
                if rest >= V::COUNT {
                    value.store(to)
                } else {
                    value.store_first(to, rest)
                }
                column += V::COUNT;
            }
        }
    };
}

/// # Safety
/// As for [`apply`]; the processor must have the instruction set of `V`.
#[inline(always)]
pub unsafe fn apply_on<V: Lanes>(action: &Action, area: &Area) {
    let area = area.walked(action);
    // SAFETY: as the caller promises.
    unsafe {
        match action.function {
            Function::Binary(function) => binary::<V>(function, action.parameters, area),
            Function::Formula => {
                let Some(formula) = &action.formula else { unreachable!("the step has a formula") };
                for row in 0..area.rows {
                    let source = area.source.add(row * area.source_row);
                    let extra = match action.binary {
                        true => {
                            Second { from: area.extra.add(row * area.extra_row), step: area.extra_column }
                        }
                        false => Second::NONE,
                    };
                    evaluate(formula, source, extra, area.target.add(row * area.target_row), area.columns);
                }
            }
            _ => unary::<V>(action, area),
        }
    }
}

/// Runs a step that reads no extra operand.
///
/// # Safety
/// As for [`apply_on`].
#[inline(always)]
unsafe fn unary<V: Lanes>(action: &Action, area: Area) {
    let [p0, p1] = action.parameters;
    // SAFETY: rows and columns are in bounds, as the caller promises.
    unsafe {
        let (zero, one) = (V::splat(0.0), V::splat(1.0));
        match action.function {
            Function::Copy => each!(area, x => x),
            Function::Relu => each!(area, x => zero.max(x)),
            Function::Sigmoid => each!(area, x => math::sigmoid(x)),
            Function::Tanh => each!(area, x => math::tanh(x)),
            Function::Erf => each!(area, x => math::erf(x)),
            Function::Exp => each!(area, x => math::exp(x)),
            Function::Log => each!(area, x => math::log(x)),
            Function::Sqrt => each!(area, x => x.sqrt()),
            Function::Neg => each!(area, x => x.mul(V::splat(-1.0))),
            Function::Abs => each!(area, x => x.abs()),
            Function::Reciprocal => each!(area, x => one.div(x)),
            Function::Floor => each!(area, x => x.floor()),
            Function::Ceil => each!(area, x => x.ceil()),
            Function::Round => each!(area, x => x.round_even()),
            Function::Sign => each!(area, x => math::sign(x)),
            Function::Softplus => each!(area, x => math::softplus(x)),
            Function::Softsign => each!(area, x => x.div(x.abs().add(one))),
            Function::Sin => each!(area, x => x.each(f32::sin)),
            Function::Cos => each!(area, x => x.each(f32::cos)),
            Function::Silu => each!(area, x => math::silu(x)),
            Function::Gelu => each!(area, x => math::gelu(x)),
            Function::GeluTanh => each!(area, x => math::gelu_tanh(x)),
            Function::HardSwish => each!(area, x => {
                let gate = x.mul_add(V::splat(1.0 / 6.0), V::splat(0.5));
                x.mul(one.min(zero.max(gate)))
            }),
            Function::Mish => each!(area, x => math::mish(x)),
            Function::LeakyRelu => each!(area, x => V::select(x.less(zero), x.mul(V::splat(p0)), x)),
            Function::Elu => each!(area, x => {
                V::select(x.less(zero), math::exp(x).sub(one).mul(V::splat(p0)), x)
            }),
            Function::HardSigmoid => {
                each!(area, x => one.min(zero.max(x.mul_add(V::splat(p0), V::splat(p1)))))
            }
            Function::Clip => each!(area, x => V::splat(p1).min(V::splat(p0).max(x))),
            Function::Binary(_) | Function::Formula => unreachable!("the step is run elsewhere"),
        }
    }
}

/// Runs a step that reads an extra operand.
///
/// # Safety
/// As for [`apply_on`].
#[inline(always)]
unsafe fn binary<V: Lanes>(function: Binary, [p0, p1]: [f32; 2], mut area: Area) {
    // SAFETY: rows and columns are in bounds, as the caller promises.
    unsafe {
        let repeated = repeated::<V>(&mut area);
        match function {
            Binary::Add => both!(area, repeated, x, y => x.add(y)),
            Binary::Sub => both!(area, repeated, x, y => x.sub(y)),
            Binary::Mul => both!(area, repeated, x, y => x.mul(y)),
            Binary::Div => both!(area, repeated, x, y => x.div(y)),
            Binary::Min => both!(area, repeated, x, y => V::select(x.equal(x), x.min(y), x)),
            Binary::Max => both!(area, repeated, x, y => V::select(x.equal(x), x.max(y), x)),
            Binary::ReversedSub => both!(area, repeated, x, y => y.sub(x)),
            Binary::ReversedDiv => both!(area, repeated, x, y => y.div(x)),
            Binary::Pow if area.extra_column == 0 && area.rows == 1 && repeated.is_none() => {
                match *area.extra {
                    2.0 => each!(area, x => x.mul(x)),
                    3.0 => each!(area, x => x.mul(x).mul(x)),
                    _ => both!(area, repeated, x, y => math::power(x, y)),
                }
            }
            Binary::Pow => both!(area, repeated, x, y => math::power(x, y)),
            Binary::ReversedPow => both!(area, repeated, x, y => math::power(y, x)),
            Binary::AddScaled => {
                let factor = V::splat(p0);
                both!(area, repeated, x, y => factor.mul_add(y, x))
            }
            Binary::Gate => both!(area, repeated, x, y => {
                let (zero, low, high) = (V::splat(0.0), V::splat(p0), V::splat(p1));
                V::select(low.less(y), V::select(y.less(high), x, zero), zero)
            }),
        }
    }
}

/// Returns the extra operand as one vector that repeats along the area, if that is so: short rows that all use the
/// same vector, such as the channels of a block, are treated as one long row.
///
/// # Safety
/// As for [`apply_on`].
#[inline(always)]
unsafe fn repeated<V: Lanes>(area: &mut Area) -> Option<V> {
    let contiguous = area.source_row == area.columns && area.target_row == area.columns;
    let fits = area.columns > 0 && V::COUNT % area.columns == 0;
    if !(contiguous && fits && area.extra_row == 0 && area.extra_column == 1) {
        return None;
    }
    // SAFETY: the operand has as many elements as a row, and no instruction set has more than 16 lanes.
    let repeated = unsafe {
        if area.columns == V::COUNT {
            V::load(area.extra)
        } else {
            let mut lanes = [0.0; 16];
            for (lane, value) in lanes.iter_mut().enumerate() {
                *value = *area.extra.add(lane % area.columns);
            }
            V::load(lanes.as_ptr())
        }
    };
    area.columns *= area.rows;
    (area.rows, area.extra_column) = (1, 0);
    Some(repeated)
}

/// Loads lanes that are `step` elements apart.
///
/// # Safety
/// The first `count` of them must be in bounds.
#[inline(always)]
unsafe fn spread<V: Lanes>(from: *const f32, step: usize, count: usize) -> V {
    let mut lanes = [0.0; 16];
    for (lane, value) in lanes.iter_mut().enumerate().take(count.min(V::COUNT)) {
        // SAFETY: in bounds, as the caller promises.
        *value = unsafe { *from.add(lane * step) };
    }
    // SAFETY: no instruction set has more than 16 lanes.
    unsafe { V::load(lanes.as_ptr()) }
}
