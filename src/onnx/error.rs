//! Errors of the importer.

mod problem;

pub use self::problem::{Duplicate, InputProblem, UnboundDim, Undefined, UnknownDim};
pub(super) use self::problem::{closest, suggestion};

use crate::graph::NodeId;
use crate::op::OpError;
use crate::table::Unknown;
use std::fmt;
use thiserror::Error;

/// Why a model, or an input for one, was refused. Messages say what is wrong, where, and what to do.
#[derive(Debug, Error)]
pub enum OnnxError {
    /// The file cannot be opened or read.
    #[error("cannot read `{path}`: {why}")]
    Read {
        /// The path as it was given.
        path: String,
        /// The system's reason.
        why: String,
    },
    /// The file is empty.
    #[error("`{model}` is empty, so it is not an ONNX model; export or download it again")]
    Empty {
        /// The model's path or name.
        model: String,
    },
    /// The bytes are not a protobuf message of the kind that ONNX defines.
    #[error(
        "`{model}` is not an ONNX model, or it is damaged or truncated: {why} ({length} bytes were read); {advice}"
    )]
    Damaged {
        /// The model's path or name.
        model: String,
        /// What the decoder says.
        why: String,
        /// The length of what was read, in bytes.
        length: usize,
        /// What to do.
        advice: &'static str,
    },
    /// The IR version or an opset is missing, too old or too new.
    #[error("`{model}` {why}")]
    Version {
        /// The model's path or name.
        model: String,
        /// What is wrong with the version, and what to do.
        why: String,
    },
    /// All operators, or opset versions of them, that ovolo does not support.
    #[error("{} that ovolo does not support:{}", plural(.operators.len(), "operator"), listed(.operators))]
    Unsupported {
        /// One line for each distinct operator.
        operators: Vec<Unsupported>,
    },
    /// A node, an attribute or an operand violates ONNX's rules or ovolo's limits.
    #[error("{node}: {why}{}", given(.operands))]
    Node {
        /// The operator with its node's name.
        node: String,
        /// What is wrong, and what to do.
        why: Box<Refusal>,
        /// The types of its operands, if they matter; `none` for one that is left out.
        operands: Vec<String>,
    },
    /// Values that a node reads and that have none, since the nodes that make them were refused. It is not reported.
    #[error("no value for {}", .names.join(", "))]
    Unread {
        /// The values.
        names: Vec<String>,
    },
    /// Names that nothing defines.
    #[error("{} that nothing defines:{}", plural(.values.len(), "value"), listed(.values))]
    Undefined {
        /// The values.
        values: Vec<Undefined>,
    },
    /// Names that are defined more than once.
    #[error("{} defined more than once, and a value has one maker:{}", plural(.values.len(), "value"), listed(.values))]
    Duplicate {
        /// The values.
        values: Vec<Duplicate>,
    },
    /// Nodes that wait for each other.
    #[error("the graph has a cycle, so no order of its nodes exists; each of these needs the one before it:{}", listed(.nodes))]
    Cycle {
        /// The nodes of one cycle, in order.
        nodes: Vec<String>,
    },
    /// The graph has no outputs.
    #[error("`{model}` has a graph without outputs, so there is nothing to compute; export it again")]
    NoOutputs {
        /// The model's path or name.
        model: String,
    },
    /// The model's functions call each other so often that they are too many nodes.
    #[error("the model's functions unfold to more than {most} nodes; export it without functions")]
    Unfolded {
        /// The most nodes.
        most: usize,
    },
    /// The import stopped where it should have gone on to the outputs.
    #[error("the import of the model stopped before its end")]
    Unfinished,
    /// The declaration of an input or an output is wrong.
    #[error("{port} `{name}`: {why}")]
    Port {
        /// `input` or `output`.
        port: &'static str,
        /// Its name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// An input or output that only a run can have, such as a sequence.
    #[error("{port} `{name}` {why}; `ovolo run` takes the model with its inputs")]
    OnlyByRun {
        /// `input` or `output`.
        port: &'static str,
        /// Its name.
        name: String,
        /// What it is, as the rest of the sentence.
        why: &'static str,
    },
    /// Dimensions without a number.
    #[error("{} without a size:{}\n  give each a size: `--dim NAME=N` on the command line, `dims` in a file and in Python, `with_dim` in Rust", plural(.dims.len(), "dimension"), listed(.dims))]
    UnboundDims {
        /// The dimensions.
        dims: Vec<UnboundDim>,
    },
    /// Sizes for dimensions that the model does not have.
    #[error("sizes of dimensions that do not fit the model:{}", listed(.dims))]
    UnknownDims {
        /// The dimensions.
        dims: Vec<UnknownDim>,
    },
    /// A constant that cannot be read.
    #[error("{tensor}: {why}")]
    Weight {
        /// Which constant.
        tensor: String,
        /// What is wrong, and what to do.
        why: Refusal,
    },
    /// Constants whose values are absent.
    #[error(
        "{} without data, in a model whose weights were stripped:{}\n  use the full model, or \
         import with generated weights (`--seeded-weights`) where only the plan matters",
        plural(.names.len(), "initializer"), listed(.names)
    )]
    MissingWeights {
        /// One line for each initializer.
        names: Vec<String>,
    },
    /// All reasons why a model is refused, if there are several, or if some nodes could not be checked.
    #[error("{}", several(.reasons, *.unread))]
    Several {
        /// The reasons, none of them this variant.
        reasons: Vec<OnnxError>,
        /// The number of nodes that could not be checked, since they read results of refused nodes.
        unread: usize,
    },
    /// Inputs of a run that do not fit the model.
    #[error("the inputs do not fit the model:{}", listed(.problems))]
    Inputs {
        /// All problems.
        problems: Vec<InputProblem>,
    },
}

impl OnnxError {
    /// Returns whether the model can be imported only while it runs, since elements or sizes are needed that its
    /// inputs decide, or since it has a long loop.
    pub fn is_dynamic(&self) -> bool {
        match self {
            Self::Node { why, .. } => matches!(**why, Refusal::Dynamic { .. } | Refusal::Long { .. }),
            Self::UnboundDims { .. } | Self::OnlyByRun { .. } => true,
            Self::Several { reasons, .. } => reasons.iter().any(Self::is_dynamic),
            _ => false,
        }
    }
}

/// Why a node, a constant or a declared type of a model is refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// An operand that the operator needs is left out.
    #[error("its operand {0} is missing")]
    Operand(usize),
    /// An attribute has the wrong kind, or a value that is refused.
    #[error("its attribute `{name}` {why}")]
    Attribute {
        /// The attribute.
        name: String,
        /// What is wrong with it, as the rest of the sentence.
        why: String,
    },
    /// The importer does not know some attributes, which might matter.
    #[error("{}", strangers(.0))]
    Strangers(Vec<String>),
    /// A value decides a shape, and is known only when the model runs.
    #[error(
        "its {what} `{value}` depends on the values of the model's inputs, so it is known only when the model runs"
    )]
    Dynamic {
        /// What the operator uses the value for.
        what: String,
        /// Its name.
        value: String,
        /// The node that computes it; `None` if it is not a node.
        node: Option<NodeId>,
    },
    /// A loop has so many iterations that each of them is a region of its own.
    #[error(
        "its {iterations} iterations of {nodes} nodes are more than the {most} nodes that become part of one graph \
         (`unroll` in the pipeline); such a model is compiled while it runs"
    )]
    Long {
        /// The number of iterations.
        iterations: usize,
        /// The nodes of one iteration.
        nodes: usize,
        /// The most nodes of all iterations together.
        most: usize,
    },
    /// The op that the operator becomes refuses its operands or attributes.
    #[error(transparent)]
    Op(#[from] OpError),
    /// The registry lacks the op that the operator becomes.
    #[error(transparent)]
    Unknown(Box<Unknown>),
    /// A tensor among the attributes cannot be read.
    #[error(transparent)]
    Tensor(Box<OnnxError>),
    /// Something else that ONNX or ovolo does not allow.
    #[error("{why}")]
    Other {
        /// What is wrong, and what to do.
        why: String,
    },
}

impl From<Unknown> for Refusal {
    fn from(unknown: Unknown) -> Self {
        Self::Unknown(Box::new(unknown))
    }
}

impl Refusal {
    /// Makes the error of a refused attribute. `why` continues the sentence after its name.
    pub fn attribute(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Attribute { name: name.into(), why: why.into() }
    }

    /// Makes an error for any other reason.
    pub fn other(why: impl Into<String>) -> Self {
        Self::Other { why: why.into() }
    }
}

fn strangers(names: &[String]) -> String {
    match names {
        [one] => format!("its attribute `{one}` is not known to ovolo for this opset"),
        many => format!("its attributes `{}` are not known to ovolo for this opset", many.join("`, `")),
    }
}

fn given(operands: &[String]) -> String {
    if operands.is_empty() { String::new() } else { format!("; its operands are {}", operands.join(", ")) }
}

/// One operator that ovolo does not support, with the nodes that use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The operator's name, preceded by its domain unless that is ONNX's own.
    pub op: String,
    /// The opset that the model imports for the domain.
    pub opset: Option<i64>,
    /// The nodes, by name.
    pub nodes: Vec<String>,
    /// Further advice; may be empty.
    pub hint: String,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        write!(f, "{}", self.op)?;
        match self.opset {
            Some(opset) => write!(f, " (opset {opset})")?,
            None => write!(f, " (no opset imported for its domain)")?,
        }
        let shown: Vec<&str> = self.nodes.iter().take(SHOWN).map(String::as_str).collect();
        write!(f, " in {}", shown.join(", "))?;
        if self.nodes.len() > SHOWN {
            write!(f, " and {} more", self.nodes.len() - SHOWN)?;
        }
        if !self.hint.is_empty() {
            write!(f, "; {}", self.hint)?;
        }
        Ok(())
    }
}

/// The reasons to refuse a model, which are collected while it is imported.
#[derive(Debug, Default)]
pub(super) struct Reasons {
    pub found: Vec<OnnxError>,
    /// The number of nodes that read results of refused nodes.
    pub unread: usize,
}

impl Reasons {
    /// Adds a reason.
    pub fn add(&mut self, reason: OnnxError) {
        self.found.push(reason);
    }

    /// Returns the value of a result. If it is an error, adds that as a reason and returns `None`.
    pub fn hear<T>(&mut self, result: Result<T, OnnxError>) -> Option<T> {
        result.map_err(|reason| self.add(reason)).ok()
    }

    /// Returns an error if there are reasons.
    pub fn into_result(self) -> Result<(), OnnxError> {
        if self.found.is_empty() { Ok(()) } else { Err(self.into_error()) }
    }

    /// Returns all reasons as one error. A single reason is returned unchanged.
    pub fn into_error(mut self) -> OnnxError {
        match self.found.pop() {
            Some(only) if self.found.is_empty() && self.unread == 0 => only,
            last => {
                self.found.extend(last);
                OnnxError::Several { reasons: self.found, unread: self.unread }
            }
        }
    }
}

fn several(reasons: &[OnnxError], unread: usize) -> String {
    let mut text = match reasons {
        [only] => only.to_string(),
        many => many.iter().fold(format!("{} reasons to refuse the model:", many.len()), |text, reason| {
            text + "\n  " + &reason.to_string().replace('\n', "\n  ")
        }),
    };
    if unread > 0 {
        let (were, they) = if unread == 1 { ("was", "it reads") } else { ("were", "they read") };
        text += &format!(
            "\n  {} {were} not looked at: {they} results of refused nodes, whose types the model does not declare",
            plural(unread, "node")
        );
    }
    text
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn listed<T: fmt::Display>(lines: &[T]) -> String {
    const SHOWN: usize = 40;
    let mut text: String = lines.iter().take(SHOWN).map(|line| format!("\n  {line}")).collect();
    if lines.len() > SHOWN {
        text += &format!("\n  and {} more", lines.len() - SHOWN);
    }
    text
}
