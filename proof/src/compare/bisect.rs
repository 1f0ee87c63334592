//! Leaves out rules and kernels to see whose absence mends a departure.

use super::audit::Values;
use super::cause::Cause;
use super::truth::Truth;
use super::{Area, CompareError, Comparison, Subject, watch};
use ovolo::compile::Options;
use ovolo::egraph::Derivation;
use ovolo::error::Error;
use ovolo::graph::Graph;
use ovolo::session::Session;
use ovolo::tensor::Tensor;
use std::fmt;
use std::sync::Arc;

/// What can be left out of a compilation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// A rule.
    Rule(String),
    /// The kernels of a lowered op.
    Kernel(String),
}

impl Part {
    /// Returns the name.
    pub fn name(&self) -> &str {
        match self {
            Self::Rule(name) | Self::Kernel(name) => name,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(name) => write!(f, "the rule `{name}`"),
            Self::Kernel(name) => write!(f, "the kernel `{name}`"),
        }
    }
}

/// The reason why there is no plan without a part.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{why}")]
pub struct NoPlan {
    /// The error of the compilation.
    pub why: Arc<Error>,
}

/// A compilation without a part.
#[derive(Clone, Debug)]
pub struct Tried {
    /// What was left out.
    pub part: Part,
    /// The largest error of an output or of the departing value without it, or why there is no plan without it.
    pub error: Result<f64, NoPlan>,
    /// Whether its absence mends the departure.
    pub mended: bool,
}

/// What leaving out parts showed.
#[derive(Clone, Debug)]
pub struct Bisection {
    /// The part whose absence mends the departure, if there is one; or the suspect, if there is no plan without it.
    pub found: Option<Part>,
    /// All that were left out, in order.
    pub tried: Vec<Tried>,
}

/// The most compilations of a bisection. Those that led to the departing value come first.
const MOST: usize = 60;

/// Leaves out the suspect first; if there is no plan without it, it stays the suspect. If its absence does not mend the departure, leaves out all that led to the departing
/// value, one by one.
pub(super) fn bisect(
    graph: &Graph,
    options: &mut Options,
    subject: &Subject<'_>,
    area: &Area,
    comparison: &Comparison,
    truth: &mut Truth<'_>,
    inputs: &[&Tensor],
) -> Result<Bisection, CompareError> {
    let mut tried: Vec<Tried> = Vec::new();
    let Some(departure) = &comparison.departure else { return Ok(Bisection { found: None, tried }) };
    let position = graph.find(&departure.value).map(|id| id.index());
    for part in parts(subject, area, &departure.cause).into_iter().take(MOST) {
        let error = without(graph, options, &part, position, truth, inputs);
        let error = match error {
            Err(CompareError::Compile(why)) => Err(NoPlan { why: Arc::new(why) }),
            other => Ok(other?),
        };
        let mended = matches!(error, Ok(error) if error <= comparison.tolerance);
        tried.push(Tried { part: part.clone(), error, mended });
        // What cannot be left out is judged by what it did. Without it nothing else is worth trying: the absence of a
        // part that only leads to the suspect would look like a remedy.
        let decided = tried.len() == 1
            && departure.cause.blamed() == Some(part.name())
            && tried.iter().any(|one| one.error.is_err());
        if mended || decided {
            return Ok(Bisection { found: Some(part), tried });
        }
    }
    Ok(Bisection { found: None, tried })
}

/// Returns what to leave out, the suspect first, then the rules and kernels that led to the departing value, those of
/// its own step first.
fn parts(subject: &Subject<'_>, area: &Area, cause: &Cause) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut add = |part: Part| {
        if !parts.contains(&part) {
            parts.push(part);
        }
    };
    match cause {
        Cause::Kernel { op, .. } => add(Part::Kernel(op.clone())),
        Cause::Rule(wrong) => add(Part::Rule(wrong.rule.name.clone())),
        Cause::Import { .. } | Cause::Rounding { .. } => {}
    }
    let name = |rule: &String| rule.split(' ').next().unwrap_or(rule).to_owned();
    for step in area.steps.iter().rev().map(|step| &subject.plan.steps[*step]) {
        step.source.rules.iter().chain(&step.source.others).for_each(|rule| add(Part::Rule(name(rule))));
    }
    for step in area.steps.iter().rev().map(|step| &subject.plan.steps[*step]) {
        add(Part::Kernel(step.op.to_string()));
    }
    parts
}

/// Compiles and runs without a part. Returns the largest error of the outputs, and of a value where the plan has it.
fn without(
    graph: &Graph,
    options: &mut Options,
    part: &Part,
    position: Option<usize>,
    truth: &mut Truth<'_>,
    inputs: &[&Tensor],
) -> Result<f64, CompareError> {
    let all = options.rules.clone();
    if let Part::Rule(rule) = part {
        options.rules = all.without(rule);
    }
    let saturated = options.saturate(graph);
    options.rules = all;
    let saturated = saturated?;
    let planned = match part {
        Part::Rule(_) => options.plan(&saturated)?,
        Part::Kernel(op) => {
            let choice = options.choice(saturated.graph())?;
            let chosen = options.price(&saturated)?.choose_without(&choice, &[op])?;
            if chosen.program.nodes().any(|(_, node)| node.op.name == op) {
                return Err(CompareError::Everywhere { op: op.clone() });
            }
            chosen.plan(&choice.planning)?
        }
    };
    let (program, plan) = (&planned.chosen.program, &planned.plan);
    let derivation = Derivation::new(saturated.egraph(), program);
    let values = Values::new(&derivation);
    let subject = Subject { program, plan, derivation: &derivation };
    let mut session = Session::new(program, plan.clone(), options.registry.backends())?;
    let watched = watch::watch(&subject, &mut session, inputs, &values, truth)?;
    let at = watched.steps.iter().filter(|one| Some(one.position) == position);
    let errors = at.map(|one| one.distance.relative);
    Ok(errors.chain(watched.outputs.iter().map(|distance| distance.relative)).fold(0.0, f64::max))
}
