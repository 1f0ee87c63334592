//! Finds where a compiled model departs from what it should compute, and what is at fault: a kernel, or a rule.
//!
//! The plan itself is judged, step by step, in the memory that it runs in. Making a value an output would change what is
//! chosen, so no value is made an output. The e-graph says which value of the model a step computes. The first value of
//! the model, in its order, that departs is looked at closely:
//!
//! 1. Each step that led to it is compared with the reference evaluation of its op **on the operands that the step
//!    read**. If it differs by more than rounding explains, its kernel is wrong.
//! 2. The value of each e-node follows from its operands. Of the rules that led to these steps, the first one that
//!    equated two nodes with different values is wrong.
//! 3. If neither is, many small roundings have added up, or the model's own operators differ from another runtime's.
//!
//! With [`Settings::bisect`] the suspect is left out, and the model compiled and compared again: its absence must mend the
//! departure. If it does not, or if there is no suspect, all rules and kernels that led to the steps are left out one
//! by one.

mod audit;
mod bisect;
mod cause;
mod distance;
mod local;
mod region;
pub mod runtime;
mod truth;
mod watch;

pub use audit::WrongRule;
pub use bisect::{Bisection, NoPlan, Part, Tried};
pub use cause::Cause;
pub use distance::{Distance, Element};
pub use local::Local;
pub use region::{RegionComparison, regions};
pub use truth::Truth;

use crate::verify;
use audit::Values;
use ovolo::compile::Options;
use ovolo::egraph::Derivation;
use ovolo::error::Error;
use ovolo::graph::{Graph, NodeId};
use ovolo::onnx::OnnxError;
use ovolo::plan::{Plan, Source};
use ovolo::session::{Session, SessionError};
use ovolo::stage::Saturated;
use ovolo::tensor::{DType, Tensor};
use std::collections::{BTreeMap, BTreeSet};

/// How to compare.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The largest relative error (L2) of a value that agrees.
    pub tolerance: f64,
    /// Whether the suspect is left out to see whether its absence mends the departure.
    pub bisect: bool,
}

impl Settings {
    /// Returns the tolerance for a graph in a pipeline: what values of the pipeline's precision, or of the narrowest
    /// floating-point type of the graph, differ by in a deep network. `other` says that the values to compare with come
    /// from another runtime, whose rounding differs as well.
    pub fn tolerance(graph: &Graph, options: &Options, other: bool) -> f64 {
        let own = verify::tolerance(options.pipeline.precision);
        let narrow = graph.nodes().map(|(_, node)| match node.ty.dtype {
            DType::F16 => 5e-3,
            DType::BF16 => 2e-2,
            DType::F32 | DType::F64 => 0.0,
            dtype if dtype.is_float() => 0.1,
            _ => 0.0,
        });
        narrow.fold(if other { own.max(1e-3) } else { own }, f64::max)
    }
}

/// Why a model cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// It does not compile.
    #[error(transparent)]
    Compile(#[from] Error),
    /// Its plan does not run.
    #[error(transparent)]
    Run(#[from] SessionError),
    /// It cannot be imported.
    #[error(transparent)]
    Import(#[from] OnnxError),
    /// Another runtime cannot be asked.
    #[error(transparent)]
    Runtime(#[from] runtime::RuntimeError),
    /// A kernel cannot be left out.
    #[error("every plan has `{op}`")]
    Everywhere {
        /// The op.
        op: String,
    },
}

/// A program with its plan, and why it equals the model.
pub(crate) struct Subject<'a> {
    pub program: &'a Graph,
    pub plan: &'a Plan,
    pub derivation: &'a Derivation<'a>,
}

/// An output of the model.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: String,
    /// How far it is from what it should be.
    pub distance: Distance,
}

/// The result of a comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The largest relative error of a value that agrees.
    pub tolerance: f64,
    /// The outputs.
    pub outputs: Vec<Output>,
    /// The number of steps of the plan.
    pub steps: usize,
    /// The number of steps whose value is one of the model's, so that it was compared.
    pub compared: usize,
    /// The value of the model that is furthest off, of those that were compared: its name and its error.
    pub furthest: Option<(String, f64)>,
    /// The first value that departs, if there is one.
    pub departure: Option<Departure>,
}

impl Comparison {
    /// Returns whether the model departs: an output is too far off, or a rule or kernel was found to be wrong.
    pub fn departs(&self) -> bool {
        let far = |output: &Output| output.distance.relative > self.tolerance;
        let wrong = |departure: &Departure| !matches!(departure.cause, Cause::Rounding { .. });
        self.outputs.iter().any(far) || self.departure.as_ref().is_some_and(wrong)
    }
}

/// The first value that departs, and why.
#[derive(Clone, Debug)]
pub struct Departure {
    /// The name of the value in the imported model.
    pub value: String,
    /// The op that the import made of its operator.
    pub op: String,
    /// How far it is from what it should be.
    pub distance: Distance,
    /// The step that computed it; `None` if it is a view of another value, or follows from constants.
    pub step: Option<Step>,
    /// The steps that led to it from values that agree, judged on their own operands.
    pub locals: Vec<(Step, Local)>,
    /// Why it departs.
    pub cause: Cause,
    /// What leaving out rules and kernels showed.
    pub bisection: Option<Bisection>,
}

/// A step of the plan.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its position.
    pub index: usize,
    /// The name of the value that it computes.
    pub name: String,
    /// Its op.
    pub op: String,
    /// The implementation of its kernel.
    pub implementation: String,
    /// The rules that led to it, and the imported nodes that it came from.
    pub source: Source,
}

impl Step {
    fn of(plan: &Plan, index: usize) -> Self {
        let step = &plan.steps[index];
        Self {
            index,
            name: step.name.to_string(),
            op: step.op.to_string(),
            implementation: step.implementation.clone(),
            source: step.source.clone(),
        }
    }
}

/// Compiles a graph, runs it on inputs in the graph's order, and compares every value that the plan has with what it
/// should be: what another runtime gave, by the names of the graph's nodes, or the reference evaluation.
///
/// # Errors
/// If the graph does not compile, or its plan does not run.
pub fn compare(
    graph: &Graph,
    options: &mut Options,
    inputs: &[Tensor],
    given: &BTreeMap<String, Tensor>,
    settings: Settings,
) -> Result<Comparison, CompareError> {
    let saturated = options.saturate(graph)?;
    let planned = options.plan(&saturated)?;
    Ok(compare_plan(&saturated, &planned.chosen.program, &planned.plan, options, inputs, given, settings)?.0)
}

/// As [`compare`], for a plan that was made before. Also returns the outputs of the plan.
///
/// # Errors
/// If the plan does not run, or, where rules and kernels are left out, if the graph does not compile.
pub(crate) fn compare_plan(
    saturated: &Saturated,
    program: &Graph,
    plan: &Plan,
    options: &mut Options,
    inputs: &[Tensor],
    given: &BTreeMap<String, Tensor>,
    settings: Settings,
) -> Result<(Comparison, Vec<Tensor>), CompareError> {
    let graph = saturated.graph();
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let owned: Vec<Tensor> = inputs.iter().map(|input| (*input).clone()).collect();
    let mut truth = Truth::new(graph, &owned, given);
    let derivation = Derivation::new(saturated.egraph(), program);
    let mut values = Values::new(&derivation);
    let subject = Subject { program, plan, derivation: &derivation };
    let mut session = Session::new(program, plan.clone(), options.registry.backends())?;
    let watched = watch::watch(&subject, &mut session, &inputs, &values, &mut truth)?;
    let results = session.run(&inputs)?.to_vec();
    let names: Vec<String> = graph.nodes().map(|(_, node)| node.name.to_string()).collect();
    let outputs = graph.outputs().zip(&watched.outputs).map(|((name, id), distance)| Output {
        name: name.to_string(),
        ty: graph[id].ty.to_string(),
        distance: distance.clone(),
    });
    let furthest = watched.steps.iter().max_by(|a, b| a.distance.relative.total_cmp(&b.distance.relative));
    let mut comparison = Comparison {
        tolerance: settings.tolerance,
        outputs: outputs.collect(),
        steps: plan.steps.len(),
        compared: watched.steps.len(),
        furthest: furthest.map(|one| (names[one.position].clone(), one.distance.relative)),
        departure: None,
    };
    let Some(place) = place(&watched, &subject, graph, settings.tolerance) else {
        return Ok((comparison, results));
    };
    let area = area(&subject, &watched, place.node, settings.tolerance);
    let locals = local::judge(&subject, &mut session, &inputs, &area.steps)?;
    drop(session);
    let step = place.step.map(|index| Step::of(plan, index));
    let cause = cause::find(&subject, &area, &locals, &mut values, &mut truth, settings.tolerance);
    let node = graph.nodes().nth(place.position).map(|(_, node)| node.op.name.to_owned());
    comparison.departure = Some(Departure {
        value: names[place.position].clone(),
        op: node.unwrap_or_default(),
        distance: place.distance,
        step,
        locals: locals.into_iter().map(|local| (Step::of(plan, local.step), local)).collect(),
        cause,
        bisection: None,
    });
    if settings.bisect && comparison.departs() {
        let found = bisect::bisect(graph, options, &subject, &area, &comparison, &mut truth, &inputs)?;
        if let Some(departure) = &mut comparison.departure {
            departure.bisection = Some(found);
        }
    }
    Ok((comparison, results))
}

/// Where the plan departs first.
struct Place {
    /// The position of the value in the imported graph.
    position: usize,
    distance: Distance,
    step: Option<usize>,
    /// The node of the program that computes it.
    node: NodeId,
}

/// Returns the first value of the model, in its order, that departs.
fn place(watched: &watch::Watched, subject: &Subject<'_>, graph: &Graph, tolerance: f64) -> Option<Place> {
    let far = watched.steps.iter().filter(|one| one.distance.relative > tolerance);
    // Of the forms of one value, the one that is computed first.
    if let Some(first) = far.min_by_key(|one| (one.position, one.step)) {
        return Some(Place {
            position: first.position,
            distance: first.distance.clone(),
            step: Some(first.step),
            node: subject.plan.steps[first.step].node,
        });
    }
    let ends = graph.outputs().zip(subject.program.outputs()).zip(&watched.outputs);
    let mut far = ends.filter(|(_, distance)| distance.relative > tolerance);
    far.next().map(|(((_, imported), (_, node)), distance)| Place {
        position: imported.index(),
        distance: distance.clone(),
        step: subject.plan.steps.iter().position(|step| step.node == node),
        node,
    })
}

/// What led to a value from values that agree.
pub(crate) struct Area {
    /// The nodes of the program.
    pub nodes: Vec<NodeId>,
    /// The steps of the plan.
    pub steps: BTreeSet<usize>,
}

/// Returns the nodes that led to one from nodes whose values agree.
fn area(subject: &Subject<'_>, watched: &watch::Watched, node: NodeId, tolerance: f64) -> Area {
    let by_node: BTreeMap<NodeId, usize> =
        subject.plan.steps.iter().enumerate().map(|(at, step)| (step.node, at)).collect();
    let agrees: BTreeSet<usize> =
        watched.steps.iter().filter(|one| one.distance.relative <= tolerance).map(|one| one.step).collect();
    let (mut nodes, mut open) = (BTreeSet::new(), vec![node]);
    while let Some(id) = open.pop() {
        if nodes.insert(id) {
            let operands = subject.program[id].inputs.iter().copied();
            open.extend(operands.filter(|id| by_node.get(id).is_none_or(|step| !agrees.contains(step))));
        }
    }
    let steps = nodes.iter().filter_map(|id| by_node.get(id).copied()).collect();
    Area { nodes: nodes.into_iter().collect(), steps }
}
