//! The features of a kernel, which price lists, learners and tables use.
//!
//! Each feature has a name, a line of documentation, and a value that only depends on the query: a number, or a text
//! if its values have no order. The list is the documentation. Price lists can use the numbers.

#![allow(clippy::cast_precision_loss)] // Sizes and counts are far below what a float holds.

use super::Query;
use crate::attr::Attr;
use crate::tensor::TensorType;
use std::borrow::Cow;

/// The value of a feature.
#[derive(Clone, Debug, PartialEq)]
pub enum FeatureValue {
    /// A finite number.
    Number(f64),
    /// Text.
    Text(String),
}

impl std::fmt::Display for FeatureValue {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(out, "{number}"),
            Self::Text(text) => out.write_str(text),
        }
    }
}

/// One property of a kernel.
#[derive(Clone, Copy)]
pub struct Feature {
    /// The name in price lists and as a column, in snake case.
    pub name: &'static str,
    /// The meaning, with the unit.
    pub doc: &'static str,
    of: Of,
}

/// A function that computes a text from a query.
type TextOf = for<'q> fn(&Query<'q>) -> Cow<'q, str>;

/// The function that computes a value.
#[derive(Clone, Copy)]
enum Of {
    Number(fn(&Query<'_>) -> f64),
    Text(TextOf),
}

impl Feature {
    /// Returns the value.
    pub fn value(&self, query: &Query<'_>) -> FeatureValue {
        match self.of {
            Of::Number(of) => FeatureValue::Number(unsigned(of(query))),
            Of::Text(of) => FeatureValue::Text(of(query).into_owned()),
        }
    }

    /// Returns the value, if it is a number.
    pub(crate) fn number(&self, query: &Query<'_>) -> Option<f64> {
        match self.of {
            Of::Number(of) => Some(unsigned(of(query))),
            Of::Text(_) => None,
        }
    }

    /// Returns the value, if it is a text.
    pub fn text<'q>(&self, query: &Query<'q>) -> Option<Cow<'q, str>> {
        match self.of {
            Of::Number(_) => None,
            Of::Text(of) => Some(of(query)),
        }
    }

    /// Returns whether the value follows from the op alone, so that it is the same for all its kernels.
    pub(crate) fn is_of_op(&self) -> bool {
        matches!(self.name, "op" | "backend" | "logical")
    }

    /// Returns whether the value is a number.
    pub fn is_number(&self) -> bool {
        matches!(self.of, Of::Number(_))
    }
}

/// Removes the sign of zero, because an empty sum is `-0`.
fn unsigned(number: f64) -> f64 {
    number + 0.0
}

/// All features that depend only on the query, without a price list.
pub(super) const BASIC: &[Feature] = &[
    text("op", "the lowered op", |query| Cow::Borrowed(query.call.op.name)),
    text("backend", "the backend that has the kernel", |query| {
        Cow::Borrowed(query.call.op.backend().unwrap_or_default())
    }),
    text("logical", "the logical op that it computes", |query| Cow::Borrowed(query.call.op.meaning())),
    text("implementation", "the implementation that the backend takes", |query| {
        Cow::Borrowed(&query.contract.implementation)
    }),
    text("types", "the types of the operands (`const` for constants) and of the result", types),
    text("layout_in", "the layout of the first operand", |query| {
        query.call.inputs.first().map(|ty| ty.layout.to_string()).unwrap_or_default().into()
    }),
    text("layout_second", "the layout of the second operand, of a convolution its weights", |query| {
        query.call.inputs.get(1).map(|ty| ty.layout.to_string()).unwrap_or_default().into()
    }),
    text("layout_out", "the layout of the result", |query| query.call.output.layout.to_string().into()),
    text("dtype", "the element type of the result", |query| query.call.output.dtype.to_string().into()),
    text("dtype_in", "the element type of the first operand", |query| {
        query.call.inputs.first().map(|ty| ty.dtype.to_string()).unwrap_or_default().into()
    }),
    number("threads", "the number of threads of the plan", |query| query.call.threads as f64),
    number("operands", "the number of operands", |query| query.call.inputs.len() as f64),
    number("flops", "floating-point operations, a multiply-add being two", |query| {
        (query.call.op.flops)(query.call.attrs, query.call.inputs, query.call.output)
    }),
    number("bytes_in", "bytes of operands that are computed, padding included", |query| bytes(query, false)),
    number("bytes_const", "bytes of operands that are constants", |query| bytes(query, true)),
    number("bytes_out", "bytes of the result, padding included", |query| query.call.output.bytes() as f64),
    number("bytes", "bytes of all operands and the result", |query| {
        bytes(query, false) + bytes(query, true) + query.call.output.bytes() as f64
    }),
    number("scratch", "bytes of scratch memory", |query| query.contract.scratch as f64),
    number("view", "1 where the result is an operand's bytes and nothing runs, else 0", |query| {
        f64::from(u8::from(query.contract.view_of.is_some()))
    }),
    number("alias", "1 where the result must lie where an operand does, else 0", |query| {
        f64::from(u8::from(query.contract.alias.is_some()))
    }),
    number(
        "padding_in",
        "padded elements of the first operand, as a share of its elements in memory",
        |query| query.call.inputs.first().map_or(0.0, |ty| padding(ty)),
    ),
    number("padding_out", "padded elements of the result, as a share of its elements in memory", |query| {
        padding(query.call.output)
    }),
    number("rank", "dimensions of the result", |query| query.call.output.shape.rank() as f64),
    number("elements", "elements of the result, without padding", |query| {
        query.call.output.shape.count() as f64
    }),
    number("out_0", "the first dimension of the result, 1 where there is none", |query| {
        dim(query.call.output, 0)
    }),
    number("out_1", "the second dimension of the result", |query| dim(query.call.output, 1)),
    number("out_2", "the third dimension of the result", |query| dim(query.call.output, 2)),
    number("out_3", "the fourth dimension of the result", |query| dim(query.call.output, 3)),
    number("in_0", "the first dimension of the first operand, 1 where there is none", |query| {
        operand(query, 0)
    }),
    number("in_1", "the second dimension of the first operand", |query| operand(query, 1)),
    number("in_2", "the third dimension of the first operand", |query| operand(query, 2)),
    number("in_3", "the fourth dimension of the first operand", |query| operand(query, 3)),
    number("kernel_h", "rows of the window, 1 where there is none", |query| window(query, 0)),
    number("kernel_w", "columns of the window", |query| window(query, 1)),
    number("stride_h", "rows from one window to the next, 1 where there are none", |query| {
        entry(query, "strides", 0).unwrap_or(1.0)
    }),
    number("stride_w", "columns from one window to the next", |query| {
        entry(query, "strides", 1).unwrap_or(1.0)
    }),
    number("pads", "rows and columns of zeros around the first operand, all sides together", |query| {
        match query.call.attrs.get("pads") {
            Some(Attr::Ints(pads)) => pads.iter().map(|pad| *pad as f64).sum(),
            _ => 0.0,
        }
    }),
    number("groups", "groups of a convolution, 1 elsewhere", groups),
    number("post", "steps on each element of the result before it is stored", |query| {
        query.call.attrs.post().len() as f64
    }),
];

const fn text(name: &'static str, doc: &'static str, of: TextOf) -> Feature {
    Feature { name, doc, of: Of::Text(of) }
}

pub(super) const fn number(name: &'static str, doc: &'static str, of: fn(&Query<'_>) -> f64) -> Feature {
    Feature { name, doc, of: Of::Number(of) }
}

fn types<'q>(query: &Query<'q>) -> Cow<'q, str> {
    let operand = |(ty, constant): (&&TensorType, &bool)| {
        if *constant { format!("const {ty}") } else { ty.to_string() }
    };
    let operands: Vec<String> = query.call.inputs.iter().zip(query.constant).map(operand).collect();
    format!("({}) -> {}", operands.join(", "), query.call.output).into()
}

fn bytes(query: &Query<'_>, constant: bool) -> f64 {
    let operands = query.call.inputs.iter().zip(query.constant).filter(|(_, is)| **is == constant);
    operands.map(|(ty, _)| ty.bytes() as f64).sum()
}

fn padding(ty: &TensorType) -> f64 {
    let whole = ty.layout.padded_count(&ty.shape).max(1);
    // A sparse layout has fewer elements than the shape.
    (1.0 - ty.shape.count().max(1) as f64 / whole as f64).max(0.0)
}

fn dim(ty: &TensorType, at: usize) -> f64 {
    ty.shape.get(at).map_or(1.0, |size| *size as f64)
}

fn operand(query: &Query<'_>, at: usize) -> f64 {
    query.call.inputs.first().map_or(1.0, |ty| dim(ty, at))
}

fn entry(query: &Query<'_>, name: &str, at: usize) -> Option<f64> {
    match query.call.attrs.get(name) {
        Some(Attr::Ints(values)) => values.get(at).map(|value| *value as f64),
        _ => None,
    }
}

/// Returns a size of the window: for a pool from its attribute, for a convolution from its weights.
fn window(query: &Query<'_>, at: usize) -> f64 {
    let weights = || {
        let conv = query.call.op.meaning().starts_with("conv");
        let shape = &query.call.inputs.get(1).filter(|_| conv)?.shape;
        (shape.rank() == 4).then(|| shape[2 + at] as f64)
    };
    entry(query, "kernel", at).or_else(weights).unwrap_or(1.0)
}

fn groups(query: &Query<'_>) -> f64 {
    match query.call.attrs.get("groups") {
        Some(Attr::Int(groups)) => *groups as f64,
        _ => 1.0,
    }
}
