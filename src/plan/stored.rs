//! The stored form of a plan, which names ops and attributes. A table of ops resolves the names.

use super::{Arena, Place, Placed, Source};
use crate::attr::{self, Attr, Attrs, Float};
use crate::graph::NodeId;
use crate::op::{Op, Ops};
use crate::table::Unknown;
use crate::tensor::{DType, Layout, TensorType};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The stored form of a [`super::Step`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Step {
    node: NodeId,
    name: Arc<str>,
    op: String,
    attrs: Vec<(String, StoredAttr)>,
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum StoredAttr {
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
            op: step.op.to_string(),
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

/// A stored plan, which names its ops and attributes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredPlan {
    steps: Vec<Step>,
    inputs: Vec<(Arc<str>, TensorType)>,
    outputs: Vec<(Arc<str>, TensorType, Place)>,
    buffers: Vec<Placed>,
    arena: usize,
    lower_bound: usize,
    lower_bound_any_order: usize,
    proven: bool,
    devices: Vec<Arena>,
    threads: usize,
    copying: f64,
}

/// The reason why the ops of a stored plan cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoredError {
    /// A step's op does not exist.
    #[error(transparent)]
    Op(#[from] Unknown),
    /// A step's op has no attribute of this name.
    #[error("`{op}` has no attribute `{attribute}`")]
    Attribute {
        /// The op.
        op: Op,
        /// The attribute.
        attribute: String,
    },
    /// No elementwise op that may be a step of a post chain has this name.
    #[error("`{0}` is not a step of a post chain")]
    PostStep(String),
}

impl From<super::Plan> for StoredPlan {
    fn from(plan: super::Plan) -> Self {
        Self {
            steps: plan.steps.into_iter().map(Into::into).collect(),
            inputs: plan.inputs,
            outputs: plan.outputs,
            buffers: plan.buffers,
            arena: plan.arena,
            lower_bound: plan.lower_bound,
            lower_bound_any_order: plan.lower_bound_any_order,
            proven: plan.proven,
            devices: plan.devices,
            threads: plan.threads,
            copying: plan.copying,
        }
    }
}

impl StoredPlan {
    /// Returns the number of steps.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Returns the number of threads for which the plan was made.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Returns the plan with its ops from a table.
    ///
    /// # Errors
    /// An op, an attribute or a step of a post chain is unknown.
    pub(crate) fn resolve(self, ops: &Ops) -> Result<super::Plan, StoredError> {
        Ok(super::Plan {
            steps: self.steps.into_iter().map(|step| step.resolve(ops)).collect::<Result<_, _>>()?,
            inputs: self.inputs,
            outputs: self.outputs,
            buffers: self.buffers,
            arena: self.arena,
            lower_bound: self.lower_bound,
            lower_bound_any_order: self.lower_bound_any_order,
            proven: self.proven,
            devices: self.devices,
            threads: self.threads,
            copying: self.copying,
        })
    }
}

impl Step {
    fn resolve(self, ops: &Ops) -> Result<super::Step, StoredError> {
        let op = ops.find(&self.op)?;
        let mut attrs = Attrs::new();
        for (attribute, value) in self.attrs {
            match op.attr(&attribute) {
                Some(known) => attrs.set(known.name, value.resolve(ops)?),
                None => return Err(StoredError::Attribute { op, attribute }),
            }
        }
        Ok(super::Step {
            node: self.node,
            name: self.name,
            op,
            attrs: Arc::new(attrs),
            input_types: self.input_types,
            inputs: self.inputs,
            output_type: self.output_type,
            output: self.output,
            in_place: self.in_place,
            copied: self.copied,
            joined: self.joined,
            scratch: self.scratch,
            scratch_offset: self.scratch_offset,
            implementation: self.implementation,
            seconds: self.seconds,
            copies: self.copies,
            source: self.source,
        })
    }
}

impl From<&Attr> for StoredAttr {
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
                    (step.op.to_string(), step.parameters.iter().map(|parameter| parameter.0).collect())
                };
                Self::Post(steps.iter().map(stored).collect())
            }
        }
    }
}

impl StoredAttr {
    fn resolve(self, ops: &Ops) -> Result<Attr, StoredError> {
        Ok(match self {
            Self::Int(value) => Attr::Int(value),
            Self::Float(value) => Attr::Float(Float(value)),
            Self::Ints(values) => Attr::Ints(values),
            Self::Str(text) => Attr::Str(text),
            Self::DType(dtype) => Attr::DType(dtype),
            Self::Layout(layout) => Attr::Layout(layout),
            Self::Post(steps) => {
                let read = |(op, parameters): (String, Vec<f64>)| {
                    let Some(known) = ops.step(&op) else { return Err(StoredError::PostStep(op)) };
                    Ok(attr::Step { op: known, parameters: parameters.into_iter().map(Float).collect() })
                };
                Attr::Post(steps.into_iter().map(read).collect::<Result<_, StoredError>>()?)
            }
        })
    }
}
