//! The quantities of a kernel and of the machine that price lists can use.

use crate::attr::{Attr, Step};
use crate::cost::feature::{BASIC, Feature};
use crate::cost::{Machine, Query};
use crate::op::pointwise;
use crate::scalar::Function;
use crate::tensor::TensorType;

/// A speed of the machine.
pub(super) struct Speed {
    /// Its name.
    pub name: &'static str,
    /// The meaning, with the unit.
    pub doc: &'static str,
    of: fn(&Machine) -> f64,
}

impl Speed {
    pub(super) fn value(&self, machine: &Machine) -> f64 {
        (self.of)(machine)
    }
}

const fn speed(name: &'static str, doc: &'static str, of: fn(&Machine) -> f64) -> Speed {
    Speed { name, doc, of }
}

/// The calibrated machine.
#[allow(clippy::cast_precision_loss)]
pub(super) static SPEEDS: &[Speed] = &[
    speed("peak", "float32 operations per second of the best matrix kernel", |machine| machine.flops),
    speed("memory", "bytes per second from memory", |machine| machine.memory),
    speed("cache", "bytes per second from the last cache", |machine| machine.cache),
    speed("start", "seconds to start a kernel", |machine| machine.start),
    speed("lanes", "float32 elements of a vector", |machine| machine.lanes as f64),
];

/// Returns the features that distinguish cases: those that are texts.
pub(super) fn texts() -> impl Iterator<Item = &'static Feature> {
    BASIC.iter().filter(|feature| !feature.is_number())
}

/// Returns the feature at an index of [`BASIC`].
pub(super) fn feature(at: usize, query: &Query<'_>) -> f64 {
    BASIC[at].number(query).unwrap_or(f64::NAN)
}

/// An operand or the result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Place {
    /// An operand, counted from 0.
    Input(usize),
    /// The result.
    Output,
    /// The current operand of `each_operand`.
    Each,
}

impl Place {
    /// Reads `in0`, `in1`, …, `out`, or `operand`.
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "out" => Some(Self::Output),
            "operand" => Some(Self::Each),
            _ => name.strip_prefix("in")?.parse().ok().map(Self::Input),
        }
    }
}

/// A number that an operand or the result has.
pub(super) struct Measure {
    /// Its name.
    pub name: &'static str,
    /// The meaning.
    pub doc: &'static str,
    /// Whether it takes a number, such as a dimension.
    pub takes: bool,
    of: fn(&TensorType, usize) -> f64,
}

const fn measure_of(
    name: &'static str,
    takes: bool,
    doc: &'static str,
    of: fn(&TensorType, usize) -> f64,
) -> Measure {
    Measure { name, doc, takes, of }
}

/// The measure that does not follow from the type of an operand but from the query.
const CONSTANT: &str = "constant";
const ALIASED: &str = "aliased";

#[allow(clippy::cast_precision_loss)]
pub(super) static MEASURES: &[Measure] = &[
    measure_of("dim", true, "a dimension; 1 where there is none", |ty, at| {
        ty.shape.get(at).map_or(1.0, |size| *size as f64)
    }),
    measure_of("block", true, "the block of a dimension; 1 where it is not blocked", |ty, at| {
        ty.layout.block(at) as f64
    }),
    measure_of(
        "nth",
        true,
        "the dimension that lies at this place in memory, counted from the outermost",
        |ty, at| ty.layout.order(ty.shape.rank()).get(at).map_or(f64::NAN, |dim| *dim as f64),
    ),
    measure_of("blocked_by", true, "1 where some dimension has blocks of this size, else 0", |ty, size| {
        f64::from(u8::from(ty.layout.blocks().iter().any(|(_, block)| *block == size)))
    }),
    measure_of("elements", false, "elements without padding", |ty, _| ty.shape.count() as f64),
    measure_of("padded", false, "elements with padding", |ty, _| ty.layout.padded_count(&ty.shape) as f64),
    measure_of("bytes_of", false, "bytes, padding included", |ty, _| ty.bytes() as f64),
    measure_of("plain", false, "1 where the layout is the default one, else 0", |ty, _| {
        f64::from(u8::from(ty.layout.is_plain()))
    }),
    measure_of(CONSTANT, false, "1 for a constant operand, else 0", |_, _| f64::NAN),
    measure_of(ALIASED, false, "1 for an operand in whose place the result is written, else 0", |_, _| {
        f64::NAN
    }),
];

/// Returns the value of a measure; NaN for an operand that the kernel does not have.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn measure(at: usize, place: Place, each: usize, argument: f64, query: &Query<'_>) -> f64 {
    let measure = &MEASURES[at];
    let input = match place {
        Place::Output => return (measure.of)(query.call.output, argument as usize),
        Place::Input(input) => input,
        Place::Each => each,
    };
    let truth = |whether: bool| f64::from(u8::from(whether));
    match (measure.name, query.call.inputs.get(input)) {
        (_, None) => f64::NAN,
        (CONSTANT, _) => truth(query.constant.get(input).copied().unwrap_or(false)),
        (ALIASED, _) => truth(query.contract.alias == Some(input)),
        (_, Some(ty)) => (measure.of)(ty, argument as usize),
    }
}

/// Returns an integer attribute; `None` if the op has no such attribute.
#[allow(clippy::cast_precision_loss)]
pub(super) fn attribute(name: &str, query: &Query<'_>) -> Option<f64> {
    match query.call.attrs.get(name) {
        Some(Attr::Int(value)) => Some(*value as f64),
        _ => None,
    }
}

/// Returns the operations of the functions that are applied to the elements of a kernel: the op's own function, those
/// of the steps after it, and those of steps between two of its parts. A function without a price costs as much as
/// the primitives of its formula.
#[allow(clippy::cast_precision_loss)]
pub(super) fn functions(query: &Query<'_>, price: &dyn Fn(&str) -> Option<f64>) -> f64 {
    let call = query.call;
    let parts =
        |function: Function| function.primitives().iter().map(|name| price(name).unwrap_or(0.0)).sum::<f64>();
    let of =
        |name: &str, function: Option<Function>| price(name).unwrap_or_else(|| function.map_or(0.0, parts));
    let chain = |steps: &[Step]| steps.iter().map(|step| of(&step.op, step.op.applies())).sum::<f64>();
    let mut operations = call.output.shape.count() as f64
        * (of(call.op.own_name(), call.op.flags.function) + chain(call.attrs.post()));
    if call.op.meaning() == "pointwise-depthwise" {
        let between = pointwise::between(call.inputs).shape.count() as f64;
        operations += between * chain(call.attrs.steps("inner"));
    }
    operations
}

/// Returns the number of steps after the kernel whose names are not these.
#[allow(clippy::cast_precision_loss)]
pub(super) fn steps_besides(names: &[String], query: &Query<'_>) -> f64 {
    query.call.attrs.post().iter().filter(|step| !names.iter().any(|name| step.op == **name)).count() as f64
}
