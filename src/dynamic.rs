//! Sessions for models whose shapes are not fixed.
//!
//! A [`DynamicSession`] runs a model region by region ([`onnx::region`](crate::onnx::Region)). A region is compiled
//! when a run first comes to it with tensors of these types, and for small values that decide shapes, with these
//! elements; later runs use it again. Regions that are equal, such as the iterations of a loop, share one plan, and all
//! plans share what was made of the model's weights.

use crate::cache::Digest;
use crate::error::Error;
use crate::graph::{CONST, Graph};
use crate::onnx::{Dynamic, Item, LiveFrom, OnnxError, Position, Region, Then};
use crate::registry::Registry;
use crate::session::Session;
use crate::tensor::{Tensor, TensorType};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// Compiles regions.
pub type Compile<'c> = Box<dyn FnMut(&Request<'_>) -> Result<Session, Error> + 'c>;

/// A region that is to be compiled.
pub struct Request<'a> {
    /// Its graph.
    pub graph: &'a Graph,
    /// What the plan of the region depends on: the digest of the graph's text, without the names of values, and with
    /// the names of weights and the elements of other constants.
    pub digest: Digest,
}

/// A model that runs for inputs of any size.
pub struct DynamicSession<'c> {
    model: Dynamic,
    registry: Arc<Registry>,
    compile: Compile<'c>,
    /// The points at which models begin, by the form of their inputs.
    starts: FxHashMap<String, usize>,
    points: Vec<Point>,
    /// The compiled regions, by their digests.
    sessions: FxHashMap<Digest, Session>,
}

/// A place at which a region begins.
struct Point {
    position: Position,
    /// The regions that were compiled for it.
    variants: Vec<Variant>,
}

/// A region, and when it is the one to run.
struct Variant {
    /// The types of the live tensors before it.
    types: Vec<TensorType>,
    /// The live tensors whose elements it depends on, with these elements.
    asked: Vec<(usize, Tensor)>,
    /// The digest of its session; `None` if it computes nothing.
    session: Option<Digest>,
    /// The live tensors that are the inputs of its session.
    inputs: Vec<usize>,
    /// Where the live tensors after it come from.
    live: Vec<LiveFrom>,
    next: Next,
    report: RegionReport,
}

enum Next {
    Point(usize),
    Finished(Vec<(String, Item<usize>)>),
}

/// What is to be said of a region that a run has passed.
#[derive(Clone, Debug)]
pub struct RegionReport {
    /// The number of steps of its plan.
    pub steps: usize,
    /// The types of its inputs.
    pub inputs: Vec<TensorType>,
    /// The values on whose elements it depends.
    pub asked: Vec<String>,
    /// Why it ends; `None` at the end of the model.
    pub why: Option<String>,
}

/// The most regions that are kept for one place of a model. The oldest one is dropped for a new one.
const VARIANTS: usize = 256;

impl<'c> DynamicSession<'c> {
    /// Makes a session that compiles nothing yet.
    pub fn new(model: Dynamic, registry: &Arc<Registry>, compile: Compile<'c>) -> Self {
        Self {
            model,
            registry: Arc::clone(registry),
            compile,
            starts: FxHashMap::default(),
            points: Vec::new(),
            sessions: FxHashMap::default(),
        }
    }

    /// Returns the model.
    pub fn model(&self) -> &Dynamic {
        &self.model
    }

    /// Returns the number of plans that were made.
    pub fn plans(&self) -> usize {
        self.sessions.len()
    }

    /// Runs the model on inputs by their names, and returns its outputs in the model's order.
    ///
    /// # Errors
    /// If the inputs do not fit the model, a region cannot be imported or compiled, or a step fails.
    pub fn run(
        &mut self,
        inputs: &BTreeMap<String, Item<Tensor>>,
    ) -> Result<Vec<(String, Item<Tensor>)>, Error> {
        self.run_and_report(inputs, &mut |_| {})
    }

    /// As [`DynamicSession::run`]; calls `passed` after each region.
    ///
    /// # Errors
    /// As [`DynamicSession::run`].
    pub fn run_and_report(
        &mut self,
        inputs: &BTreeMap<String, Item<Tensor>>,
        passed: &mut dyn FnMut(&RegionReport),
    ) -> Result<Vec<(String, Item<Tensor>)>, Error> {
        let (position, mut live) = self.model.start(inputs)?;
        let mut form = String::new();
        for (name, item) in inputs {
            let _ = write!(form, "{name}={:?};", item.map(&mut |_| ()));
        }
        let next = self.points.len();
        let mut at = *self.starts.entry(form).or_insert(next);
        if at == next {
            self.points.push(Point { position, variants: Vec::new() });
        }
        loop {
            let index = self.variant(at, &live)?;
            let variant = &self.points[at].variants[index];
            let outputs: Vec<Tensor> = match &variant.session {
                None => Vec::new(),
                Some(digest) => {
                    let session = self.sessions.get_mut(digest).ok_or_else(lost)?;
                    let operands: Vec<&Tensor> = variant.inputs.iter().map(|slot| &live[*slot]).collect();
                    session.run(&operands)?.to_vec()
                }
            };
            passed(&variant.report);
            live = variant
                .live
                .iter()
                .map(|from| match from {
                    LiveFrom::Output(output) => outputs[*output].clone(),
                    LiveFrom::Before(slot) => live[*slot].clone(),
                    LiveFrom::Constant(tensor) => tensor.clone(),
                })
                .collect();
            match &variant.next {
                Next::Point(next) => at = *next,
                Next::Finished(outputs) => {
                    let value = |item: &Item<usize>| item.map(&mut |slot| live[*slot].clone());
                    return Ok(outputs.iter().map(|(name, item)| (name.clone(), value(item))).collect());
                }
            }
        }
    }

    /// Returns the region to run at a point for live tensors, and makes it if it is new.
    fn variant(&mut self, at: usize, live: &[Tensor]) -> Result<usize, Error> {
        let known = self.points[at].variants.iter().position(|variant| {
            variant.types.len() == live.len()
                && variant.types.iter().zip(live).all(|(ty, tensor)| ty == tensor.ty())
                && variant.asked.iter().all(|(slot, tensor)| tensor.bytes() == live[*slot].bytes())
        });
        if let Some(known) = known {
            return Ok(known);
        }
        let region = self.model.region(self.registry.onnx(), &self.points[at].position, live)?;
        let variant = self.compiled(region, live)?;
        let variants = &mut self.points[at].variants;
        if variants.len() == VARIANTS {
            variants.remove(0);
        }
        variants.push(variant);
        Ok(variants.len() - 1)
    }

    fn compiled(&mut self, region: Region, live: &[Tensor]) -> Result<Variant, Error> {
        let Region { graph, inputs, asked, live: after, then } = region;
        let mut report = RegionReport {
            steps: 0,
            inputs: inputs.iter().map(|slot| live[*slot].ty().clone()).collect(),
            asked: asked.iter().map(|slot| live[*slot].ty().to_string()).collect(),
            why: None,
        };
        let session = if graph.outputs().len() == 0 {
            None
        } else {
            let digest = digest(&graph, &self.model);
            if !self.sessions.contains_key(&digest) {
                let session = (self.compile)(&Request { graph: &graph, digest })?;
                self.sessions.insert(digest, session);
            }
            report.steps = self.sessions[&digest].plan().steps.len();
            Some(digest)
        };
        let next = match then {
            Then::Finished(outputs) => Next::Finished(outputs),
            Then::Cut { position, why } => {
                report.why = Some(why);
                self.points.push(Point { position, variants: Vec::new() });
                Next::Point(self.points.len() - 1)
            }
        };
        let asked = asked.into_iter().map(|slot| (slot, live[slot].clone())).collect();
        let types = live.iter().map(|tensor| tensor.ty().clone()).collect();
        Ok(Variant { types, asked, session, inputs, live: after, next, report })
    }
}

fn lost() -> Error {
    Error::from(OnnxError::Graph("the plan of a region was dropped".to_owned()))
}

/// Returns what the plan of a region of a model depends on: see [`Request::digest`].
pub fn digest(graph: &Graph, model: &Dynamic) -> Digest {
    Digest::texts([text(graph, model).as_str()])
}

/// Returns the text of a graph without the names of its values. Weights have the names that the model gives them,
/// other constants a digest of their elements.
fn text(graph: &Graph, model: &Dynamic) -> String {
    let mut text = String::new();
    for (id, node) in graph.nodes() {
        let _ = write!(text, "{} {} {:?}", node.op, node.ty, node.attrs);
        match graph.constant(id).filter(|_| node.op == CONST) {
            Some(constant) => match model.weight(constant) {
                Some(name) => {
                    let _ = write!(text, " {name:?}");
                }
                None => {
                    let _ = write!(text, " {}", Digest::new(constant.bytes()));
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
