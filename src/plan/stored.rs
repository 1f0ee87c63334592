//! A step as it is stored: ops and attributes by their names, which the registry resolves.

use super::{Place, Source};
use crate::attr::{self, Attr, Attrs, Float};
use crate::graph::NodeId;
use crate::op::{self, post};
use crate::tensor::{DType, Layout, TensorType};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use std::sync::Arc;

/// The stored form of [`super::Step`].
#[derive(Serialize, Deserialize)]
pub(super) struct Step {
    node: NodeId,
    name: Arc<str>,
    op: String,
    attrs: Vec<(String, Value)>,
    input_types: Vec<TensorType>,
    inputs: Vec<Place>,
    output_type: TensorType,
    output: Place,
    in_place: Option<usize>,
    copied: Option<usize>,
    joined: Vec<usize>,
    scratch: usize,
    scratch_offset: usize,
    implementation: String,
    seconds: f64,
    copies: f64,
    source: Source,
}

/// The value of an attribute.
#[derive(Serialize, Deserialize)]
enum Value {
    Int(i64),
    Float(f64),
    Ints(Vec<i64>),
    Str(Arc<str>),
    DType(DType),
    Layout(Layout),
    Post(Vec<(String, Vec<f64>)>),
}

impl From<super::Step> for Step {
    fn from(step: super::Step) -> Self {
        Self {
            node: step.node,
            name: step.name,
            op: step.op.to_owned(),
            attrs: step.attrs.iter().map(|(name, attr)| (name.to_owned(), attr.into())).collect(),
            input_types: step.input_types,
            inputs: step.inputs,
            output_type: step.output_type,
            output: step.output,
            in_place: step.in_place,
            copied: step.copied,
            joined: step.joined,
            scratch: step.scratch,
            scratch_offset: step.scratch_offset,
            implementation: step.implementation,
            seconds: step.seconds,
            copies: step.copies,
            source: step.source,
        }
    }
}

impl<'de> Deserialize<'de> for super::Step {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Step::deserialize(deserializer)?.try_into().map_err(D::Error::custom)
    }
}

impl TryFrom<Step> for super::Step {
    type Error = String;

    fn try_from(step: Step) -> Result<Self, String> {
        let def = op::find(&step.op).ok_or_else(|| format!("there is no op `{}`", step.op))?;
        let mut attrs = Attrs::new();
        for (name, value) in step.attrs {
            let known = def.attr(&name).ok_or_else(|| format!("`{}` has no attribute `{name}`", step.op))?;
            attrs.set(known.name, value.try_into()?);
        }
        Ok(Self {
            node: step.node,
            name: step.name,
            op: def.name,
            attrs: Arc::new(attrs),
            input_types: step.input_types,
            inputs: step.inputs,
            output_type: step.output_type,
            output: step.output,
            in_place: step.in_place,
            copied: step.copied,
            joined: step.joined,
            scratch: step.scratch,
            scratch_offset: step.scratch_offset,
            implementation: step.implementation,
            seconds: step.seconds,
            copies: step.copies,
            source: step.source,
        })
    }
}

impl From<&Attr> for Value {
    fn from(attr: &Attr) -> Self {
        match attr {
            Attr::Int(value) => Self::Int(*value),
            Attr::Float(value) => Self::Float(value.0),
            Attr::Ints(values) => Self::Ints(values.clone()),
            Attr::Str(text) => Self::Str(Arc::clone(text)),
            Attr::DType(dtype) => Self::DType(*dtype),
            Attr::Layout(layout) => Self::Layout(layout.clone()),
            Attr::Post(steps) => {
                let stored = |step: &attr::Step| {
                    (step.op.to_owned(), step.parameters.iter().map(|parameter| parameter.0).collect())
                };
                Self::Post(steps.iter().map(stored).collect())
            }
        }
    }
}

impl TryFrom<Value> for Attr {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        Ok(match value {
            Value::Int(value) => Self::Int(value),
            Value::Float(value) => Self::Float(Float(value)),
            Value::Ints(values) => Self::Ints(values),
            Value::Str(text) => Self::Str(text),
            Value::DType(dtype) => Self::DType(dtype),
            Value::Layout(layout) => Self::Layout(layout),
            Value::Post(steps) => {
                let read = |(op, parameters): (String, Vec<f64>)| {
                    let known =
                        post::step_name(&op).ok_or_else(|| format!("`{op}` is no step of a post chain"))?;
                    Ok(attr::Step { op: known, parameters: parameters.into_iter().map(Float).collect() })
                };
                Self::Post(steps.into_iter().map(read).collect::<Result<_, String>>()?)
            }
        })
    }
}
