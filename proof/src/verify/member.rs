//! Compares random members of the e-graphs of whole models with the models.
//!
//! Every graph in a saturated e-graph must compute what the model computes. A member is drawn by giving the
//! candidates of the extraction problem random prices over some orders of magnitude, and taking a greedy
//! extractor's choice. The real kernels run its plan.

use super::rng::Rng;
use ovolo::compile::Options;
use ovolo::cost::pricing::{ByFlops, PricingError};
use ovolo::cost::{Given, Pricing};
use ovolo::error::Error;
use ovolo::graph::{Graph, INPUT, Node};
use ovolo::rule::Precision;
use ovolo::session::{Session, SessionError};
use ovolo::stage::Planned;
use ovolo::tensor::{Tensor, TensorType};

/// The largest relative error (L2, in `f64`) of a member's outputs compared with the original model.
///
/// Rounding in `f32` grows with a network's depth: members of the test models differ by 1e-7 to about 1e-6. A
/// wrong rule or kernel shows in the first digits.
pub const TOLERANCE: f64 = 1e-4;

/// The same if rules round to `bf16`: about 2^-9 each time, over the depth of a small network.
const COARSE: f64 = 1e-2;
/// The same in TF32 and `f16`, which keep three more bits.
const FINER: f64 = 3e-3;

/// The same where weights become levels of 8 bits. A weight is off by at most half a level, 1/254 of the largest one of its
/// column: 1e-2 of the typical one where the largest is four times as large, over the depth of a small network.
const BYTES: f64 = 3e-2;
/// The same in levels of 4 bits, half of which is 1/14 of the largest one of a block.
const NIBBLES: f64 = 3e-1;

/// The tolerance for members of a pipeline with this precision.
pub(crate) fn tolerance(precision: Precision) -> f64 {
    match precision {
        Precision::F32 => TOLERANCE,
        Precision::Tf32 | Precision::F16 => FINER,
        Precision::Bf16 => COARSE,
        Precision::Int8 => BYTES,
        Precision::Int4 => NIBBLES,
    }
}

/// The most operations of a model that is always compared with the reference evaluation.
const SMALL: f64 = 1e7;

/// A graph that the e-graph holds, chosen at random.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its number.
    pub number: usize,
    /// The number of ops in it.
    pub ops: usize,
    /// The largest relative error of its outputs.
    pub error: f64,
    /// The rules that led to its nodes.
    pub rules: Vec<String>,
    /// Its text, if it differs.
    pub program: Option<String>,
}

/// Members of one model.
#[derive(Clone, Debug, PartialEq)]
pub struct Members {
    /// The members.
    pub list: Vec<Member>,
    /// Whether they were compared with the reference evaluation of the model. Otherwise they were compared
    /// with the first member, which does not reveal a mistake that all of them share.
    pub reference: bool,
}

/// The reason why members cannot be drawn.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// The model does not compile, or the drawn member gives no plan.
    #[error(transparent)]
    Compile(#[from] Error),
    /// The cost model cannot be made.
    #[error(transparent)]
    Price(#[from] PricingError),
    /// The member's plan does not run.
    #[error(transparent)]
    Run(#[from] SessionError),
}

/// Draws members of a model's e-graph after the pipeline's rewriting, and compares each with the model's
/// outputs by the reference evaluation. The reference is slow, so a large model is only evaluated by it if
/// `reference` is true. Otherwise members are compared with the first one, the graph with the fewest
/// operations; then a mistake that all members share is not seen.
///
/// # Errors
/// An error if the graph does not verify, or if the pipeline gives no plan.
pub fn members(
    graph: &Graph,
    options: &Options,
    count: usize,
    seed: u64,
    reference: bool,
) -> Result<Members, MemberError> {
    let saturated = options.saturate(graph)?;
    let planning = options.choice(graph)?.planning;
    let model = ByFlops.model(&Given::machine(&options.machine))?;
    let priced = saturated.price(model, &options.context(graph).target())?;
    let inputs: Vec<Tensor> = graph
        .inputs()
        .enumerate()
        .map(|(at, (_, node))| ovolo::graph::text::random(&node.ty, seed ^ at as u64))
        .collect();
    let reference = reference || operations(graph) <= SMALL;
    let mut expected = reference.then(|| evaluate(graph, &inputs));
    let mut list = Vec::with_capacity(count);
    // Without a reference, the first member is the graph with the fewest operations.
    for number in 0..count {
        let mut rng = Rng::new(seed, "member", number as u64);
        let mut price = || (12.0 * (rng.unit() - 0.5)).exp();
        let drawn = expected.is_some() || number > 0;
        let chosen = priced.member(if drawn { Some(&mut price) } else { None })?;
        let Planned { chosen, plan } = chosen.plan(&planning)?;
        let rules = chosen.rules().into_iter().map(str::to_owned).collect();
        let ops = plan.steps.len();
        let mut session = Session::new(&chosen.program, plan, options.registry.backends())?;
        let outputs = session.run(&inputs.iter().collect::<Vec<_>>())?.to_vec();
        let expected = expected.get_or_insert_with(|| outputs.clone());
        let error = outputs.iter().zip(expected.iter()).map(|(a, b)| distance(a, b)).fold(0.0, f64::max);
        let program = (error > tolerance(options.pipeline.precision)).then(|| chosen.program.to_string());
        list.push(Member { number, ops, error, rules, program });
    }
    Ok(Members { list, reference })
}

/// The number of floating-point operations of a graph.
pub(super) fn operations(graph: &Graph) -> f64 {
    let of = |node: &Node| {
        let operands: Vec<&TensorType> = node.inputs.iter().map(|input| &graph[*input].ty).collect();
        (node.op.flops)(&node.attrs, &operands, &node.ty)
    };
    graph.nodes().map(|(_, node)| of(node)).sum()
}

/// The graph's outputs by the reference evaluation.
pub(super) fn evaluate(graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    let mut given = inputs.iter();
    let mut values: Vec<Tensor> = Vec::with_capacity(graph.len());
    for (id, node) in graph.nodes() {
        let value = if let Some(constant) = graph.constant(id) {
            constant.clone()
        } else if node.op == INPUT {
            given.next().expect("each input is given a value").clone()
        } else {
            let operands: Vec<&Tensor> = node.inputs.iter().map(|input| &values[input.index()]).collect();
            node.op.evaluate(&node.attrs, &operands, &node.ty)
        };
        values.push(value);
    }
    graph.outputs().map(|(_, id)| values[id.index()].clone()).collect()
}

/// The relative L2 distance. Elements that are not numbers on both sides count as equal.
pub(crate) fn distance(value: &Tensor, reference: &Tensor) -> f64 {
    if value.ty() != reference.ty() {
        return f64::INFINITY;
    }
    let (mut difference, mut scale) = (0.0, 0.0);
    for (value, reference) in value.to_f64().into_iter().zip(reference.to_f64()) {
        if value == reference || value.is_nan() && reference.is_nan() {
            scale += if reference.is_finite() { reference * reference } else { 0.0 };
            continue;
        }
        difference += (value - reference) * (value - reference);
        scale += reference * reference;
    }
    let relative = (difference / f64::max(scale, 1e-60)).sqrt();
    if relative.is_nan() { f64::INFINITY } else { relative }
}
