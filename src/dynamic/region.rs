//! Reports on regions: what they are compiled for, and what a run found where each of them begins.

use crate::digest::Digest;
use crate::graph::{CONST, Graph};
use crate::onnx::Dynamic;
use crate::session::{Held, Session, Store};
use crate::tensor::{Tensor, TensorType};
use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Duration;

/// A region that is to be compiled.
pub struct RegionRequest<'a> {
    /// Its graph.
    pub graph: &'a Graph,
    /// What the plan of the region depends on: the digest of the graph's text, without the names of values, and with
    /// the names of weights and the elements of other constants.
    pub digest: Digest,
    /// What the other plans of the session have in memory.
    pub held: &'a Held,
    /// What it is specialised for.
    pub key: &'a RegionKey,
    /// The constants that the plans of the model share.
    pub store: &'a Arc<Store>,
}

impl RegionRequest<'_> {
    /// Returns the digest of a region of a model.
    pub fn digest_of(graph: &Graph, model: &Dynamic) -> Digest {
        Digest::texts([text(graph, model).as_str()])
    }
}

/// The plan of a region, ready to run.
pub struct Compiled {
    /// The session.
    pub session: Session,
    /// Whether it was read from a cache.
    pub cached: bool,
}

/// What a region is specialised for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionKey {
    /// The names and types of its inputs.
    pub inputs: Vec<(String, TensorType)>,
    /// The values that decide shapes or branches, with their elements: `axes = 1, 2`.
    pub asked: Vec<String>,
}

/// What a run found where a region begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The session had its plan.
    Known,
    /// The plan was read from a cache, in this time; the import of the region is included.
    Cached(Duration),
    /// The region was compiled, in this time; the import of the region is included.
    Compiled(Duration),
    /// The region computes nothing.
    Empty,
}

/// The report on a region that a run has passed.
#[derive(Clone, Debug)]
pub struct RegionReport {
    /// The number of steps of its plan.
    pub steps: usize,
    /// What it is specialised for.
    pub key: RegionKey,
    /// The name of its plan; `None` if it computes nothing.
    pub plan: Option<Digest>,
    /// Where its plan came from.
    pub found: Found,
    /// Why it ends; `None` at the end of the model.
    pub why: Option<String>,
}

/// The most elements of a value that are shown.
const SHOWN: usize = 8;

/// Says which elements a value has.
pub(super) fn elements(name: &str, tensor: &Tensor) -> String {
    let count = tensor.ty().shape.count();
    let list: Vec<String> = match tensor.to_i64() {
        Some(list) => list.iter().take(SHOWN).map(ToString::to_string).collect(),
        None => tensor.to_f64().iter().take(SHOWN).map(ToString::to_string).collect(),
    };
    let more = if count > SHOWN { format!(", … ({count} elements)") } else { String::new() };
    format!("{name} = {}{more}", if list.is_empty() { "(no elements)".to_owned() } else { list.join(", ") })
}

/// Writes a key on one line.
impl fmt::Display for RegionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs: Vec<String> = self.inputs.iter().map(|(name, ty)| format!("{name} {ty}")).collect();
        let inputs = if inputs.is_empty() { "none".to_owned() } else { inputs.join(", ") };
        write!(f, "inputs {inputs}")?;
        if !self.asked.is_empty() {
            write!(f, "; for {}", self.asked.join("; "))?;
        }
        Ok(())
    }
}

/// Returns the text of a graph without the names of its values. Weights have the names that the model gives them,
/// other constants a digest of their elements.
pub(super) fn text(graph: &Graph, model: &Dynamic) -> String {
    let mut text = String::new();
    for (id, node) in graph.nodes() {
        let _ = write!(text, "{} {} {:?}", node.op, node.ty, node.attrs);
        match graph.constant(id).filter(|_| node.op == CONST) {
            Some(constant) => match model.weight(constant) {
                Some(name) => {
                    let _ = write!(text, " {name:?}");
                }
                None => {
                    let _ = write!(text, " {}", Digest::new(constant.taken().bytes()));
                }
            },
            None => node.inputs.iter().for_each(|input| {
                let _ = write!(text, " {}", input.index());
            }),
        }
        text.push('\n');
    }
    for (_, id) in graph.outputs() {
        let _ = writeln!(text, "return {}", id.index());
    }
    text
}
