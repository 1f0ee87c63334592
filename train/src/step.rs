//! One step of training as a graph: from inputs, labels, parameters and state to the loss and the next ones.

use super::builder::Builder;
use super::dropout::{self, Dropout};
use super::error::TrainError;
use super::lazy;
use super::loss::Loss;
use super::network::Network;
use super::norm;
use super::optimizer::{Given, Optimizer};
use super::reverse::gradients;
use super::table::Table;
use super::unroll::unrolled;
use ovolo::attr::Attrs;
use ovolo::error::suggestion;
use ovolo::graph::{Graph, NodeId};
use ovolo::onnx::ImportOptions;
use ovolo::op::Ops;
use ovolo::registry::Registry;
use ovolo::tensor::{DType, Shape, Tensor, TensorType};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a step of training consists of besides the model.
pub struct Recipe {
    /// The derivatives of ops.
    pub table: Table,
    /// The loss.
    pub loss: Loss,
    /// The optimiser. Without one, the step gives the gradients themselves.
    pub optimizer: Option<Optimizer>,
    /// Patterns of the names of parameters that keep their values, in which `*` stands for any characters.
    pub freeze: Vec<String>,
    /// Patterns of the names of parameters whose updates are lazy: rows that a step has not read keep their values, and so
    /// does their state.
    pub lazy: Vec<String>,
    /// The value that the loss takes; the first output if there is none.
    pub output: Option<String>,
    /// Whether batch norms take mean and variance from the batch, and keep running means of both. Otherwise they have those
    /// of the model.
    pub batch_statistics: bool,
    /// Where elements are dropped.
    pub dropout: Dropout,
}

/// A value that a step takes and returns anew.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The name of the input.
    pub name: Arc<str>,
    /// Its type.
    pub ty: TensorType,
}

/// One step of training, which is compiled and run as any other graph.
///
/// Its inputs are those of the model, then the trained parameters, `labels`, `learning-rate` (`f32[]`), and the state:
/// `step` (`f32[]`, the number of steps before this one), and for each parameter those of the optimiser. Where batch norms
/// take their statistics from the batch, the running ones stand between parameters and `labels`. Where elements are dropped,
/// the state has `dropout-seed` (`u64[]`) as well, which stands before `labels` and grows by one. Outputs are the loss, the
/// value that the loss takes, and the next values of parameters, statistics and state, by the names of their inputs.
///
/// Without an optimiser there is neither a learning rate nor a state of parameters, and the outputs with the names of parameters are the
/// gradients of the loss with respect to them.
pub struct Step {
    /// The graph.
    pub graph: Graph,
    /// The model's own inputs.
    pub inputs: Vec<Kept>,
    /// The input with labels.
    pub labels: Kept,
    /// The trained parameters, in the model's order.
    pub parameters: Vec<Kept>,
    /// The running statistics of batch norms.
    pub statistics: Vec<Kept>,
    /// The state: the number of steps, and what the optimiser keeps of each parameter.
    pub state: Vec<Kept>,
}

/// The inputs of a step with names of its own.
pub(crate) const RATE: &str = "learning-rate";
const STEP: &str = "step";

impl Step {
    /// Makes the step of training of a model. A parameter on which the loss does not depend by ops with derivatives stays as it
    /// is.
    ///
    /// # Errors
    /// The model cannot be imported; the loss does not fit its output; an op between a parameter and the loss has no
    /// derivative; or no parameter is left to train.
    pub fn new(
        registry: &Registry,
        network: &Network,
        import: &ImportOptions,
        recipe: &Recipe,
    ) -> Result<Self, TrainError> {
        let all = network.unfrozen(&recipe.freeze)?;
        let trained = reached(registry, network, import, recipe, &all)?;
        if trained.is_empty() {
            let why = "the loss depends on none that is not frozen".to_owned();
            return Err(TrainError::NoParameter { model: network.name().to_owned(), why });
        }
        let lazy = lazy::chosen(&recipe.lazy, recipe.optimizer.as_ref(), &trained)?;
        let statistics: Vec<String> = match recipe.batch_statistics {
            true => network.statistics().iter().map(|(name, ..)| name.clone()).collect(),
            false => Vec::new(),
        };
        let Begun { graph, output, seed, next: next_statistics } = Begun::new(
            registry,
            network,
            import,
            recipe,
            &[&trained[..], &statistics].concat(),
            &statistics,
        )?;
        let own: Vec<NodeId> = graph.inputs().map(|(id, _)| id).collect();
        let parameters = trained.iter().filter_map(|name| graph.find(name)).collect::<Vec<_>>();
        let statistics: Vec<NodeId> = statistics.iter().filter_map(|name| graph.find(name)).collect();
        let is_own = |id: &NodeId| !parameters.contains(id) && !statistics.contains(id) && seed != Some(*id);
        let inputs: Vec<NodeId> = own.into_iter().filter(is_own).collect();
        let mut builder = Builder::new(registry.ops(), graph);
        let loss = recipe.loss.apply(&mut builder, output)?;
        let made = gradients(&recipe.table, &mut builder, loss, &parameters)?;
        let reached: Vec<(NodeId, NodeId)> =
            parameters.iter().zip(made).filter_map(|(parameter, made)| Some((*parameter, made?))).collect();
        let mut next = match &recipe.optimizer {
            Some(optimizer) => Next::new(registry.ops(), &mut builder, optimizer, &lazy, &reached)?,
            None => Next { values: reached, ..Next::default() },
        };
        if let Some(seed) = seed {
            let one = builder.constant("next-seed", Tensor::scalar(1_u64));
            next.state.push((seed, builder.named("next-seed", "add", Attrs::new(), vec![seed, one])?));
        }
        let state = next.state.iter().map(|(state, _)| *state).collect::<Vec<_>>();
        let mut graph = builder.into_graph();
        let kept =
            |graph: &Graph, id: NodeId| Kept { name: Arc::clone(&graph[id].name), ty: graph[id].ty.clone() };
        let list = |graph: &Graph, ids: &[NodeId]| ids.iter().map(|id| kept(graph, *id)).collect::<Vec<_>>();
        let labels = graph.inputs().map(|(id, _)| id).find(|id| {
            ![&inputs, &parameters, &statistics, &state].iter().any(|known| known.contains(id))
                && Some(*id) != next.rate
        });
        let labels = labels.map(|id| kept(&graph, id)).ok_or_else(|| TrainError::Model {
            model: network.name().to_owned(),
            why: format!("the loss `{}` takes no labels", recipe.loss.name()),
        })?;
        let (inputs, parameters) = (list(&graph, &inputs), list(&graph, &parameters));
        let (statistics, state) = (list(&graph, &statistics), list(&graph, &state));
        graph.add_output("loss", loss);
        let name = Arc::clone(&graph[output].name);
        graph.add_output(&name, output);
        for (parameter, id) in next.values {
            let name = Arc::clone(&graph[parameter].name);
            graph.add_output(&name, id);
        }
        for kept in &statistics {
            // Several batch norms may share a statistic; each takes part in its next value only if it is the last one.
            if let Some((name, id)) = next_statistics.iter().rev().find(|(name, _)| **name == *kept.name) {
                graph.add_output(name, *id);
            }
        }
        for (kept, (_, id)) in state.iter().zip(next.state) {
            graph.add_output(&kept.name, id);
        }
        Ok(Self { graph, inputs, labels, parameters, statistics, state })
    }

    /// Returns what the step takes and returns anew, in the order of its outputs.
    pub fn kept(&self) -> impl Iterator<Item = &Kept> {
        self.parameters.iter().chain(&self.statistics).chain(&self.state)
    }
}

/// The model in training: what a step begins with.
struct Begun {
    graph: Graph,
    /// The value that the loss takes.
    output: NodeId,
    /// The input that decides which elements are dropped, if any are.
    seed: Option<NodeId>,
    /// The next value of each statistic, by name.
    next: Vec<(String, NodeId)>,
}

impl Begun {
    /// Makes the graph, with some constants as inputs, of which some are running statistics.
    fn new(
        registry: &Registry,
        network: &Network,
        import: &ImportOptions,
        recipe: &Recipe,
        inputs: &[String],
        statistics: &[String],
    ) -> Result<Self, TrainError> {
        let (graph, marks) = network.marked(registry, import, inputs, recipe.dropout.own)?;
        let graph = unrolled(registry.ops(), graph)?;
        let output = chosen(&graph, recipe.output.as_deref(), network)?;
        let dropped = dropout::in_training(registry.ops(), &graph, network, &marks, &recipe.dropout)?;
        let output = dropped.ids[output.index()];
        let norm = norm::in_training(registry.ops(), &dropped.graph, statistics)?;
        let here = |id: NodeId| norm.ids[id.index()];
        Ok(Self { output: here(output), seed: dropped.seed.map(here), next: norm.next, graph: norm.graph })
    }
}

/// What an optimiser adds to a step.
#[derive(Default)]
struct Next {
    /// The learning rate.
    rate: Option<NodeId>,
    /// Each parameter with its next value.
    values: Vec<(NodeId, NodeId)>,
    /// Each state with its next value.
    state: Vec<(NodeId, NodeId)>,
}

impl Next {
    /// Adds the next values of parameters, given each with its gradient, and the names of those whose updates are lazy.
    fn new(
        ops: &Ops,
        builder: &mut Builder<'_>,
        optimizer: &Optimizer,
        lazy: &BTreeSet<String>,
        gradients: &[(NodeId, NodeId)],
    ) -> Result<Self, TrainError> {
        let number = || TensorType::plain(DType::F32, Shape::from(Vec::new()));
        let (rate, step) = (builder.input(RATE, number()), builder.input(STEP, number()));
        let one = builder.number(1.0);
        let next_step = builder.named("next-step", "add", Attrs::new(), vec![step, one])?;
        let mut next = Self { rate: Some(rate), values: Vec::new(), state: vec![(step, next_step)] };
        for (parameter, gradient) in gradients {
            let node = &builder.graph()[*parameter];
            let (name, ty) = (Arc::clone(&node.name), node.ty.clone());
            let state = optimizer.state.iter();
            let state: Vec<NodeId> =
                state.map(|state| builder.input(&format!("{name}.{state}"), ty.clone())).collect();
            let (parameter, gradient) = (*parameter, *gradient);
            let given = Given { name: &name, parameter, gradient, rate, step: next_step, state: &state };
            let made = match lazy.contains(&*name) {
                true => lazy::apply(optimizer, ops, builder, &given)?,
                false => optimizer.apply(ops, builder, &given)?,
            };
            next.values.push((parameter, made.parameter));
            next.state.extend(state.into_iter().zip(made.state));
        }
        Ok(next)
    }
}

/// Returns the parameters on which the loss depends.
fn reached(
    registry: &Registry,
    network: &Network,
    import: &ImportOptions,
    recipe: &Recipe,
    all: &[String],
) -> Result<Vec<String>, TrainError> {
    let graph = unrolled(registry.ops(), network.graph(registry, import, all)?)?;
    let output = chosen(&graph, recipe.output.as_deref(), network)?;
    let known: Vec<(&String, NodeId)> =
        all.iter().filter_map(|name| Some((name, graph.find(name)?))).collect();
    let by: Vec<NodeId> = known.iter().map(|(_, id)| *id).collect();
    let mut builder = Builder::new(registry.ops(), graph.clone());
    let loss = recipe.loss.apply(&mut builder, output)?;
    let made = gradients(&recipe.table, &mut builder, loss, &by)?;
    Ok(known
        .into_iter()
        .zip(made)
        .filter(|(_, made)| made.is_some())
        .map(|((name, _), _)| name.clone())
        .collect())
}

/// Returns the value that the loss takes.
pub(crate) fn chosen(graph: &Graph, name: Option<&str>, network: &Network) -> Result<NodeId, TrainError> {
    let unknown = |name: &str| TrainError::Unknown {
        kind: "value",
        name: name.to_owned(),
        help: match suggestion(name, graph.nodes().map(|(_, node)| &*node.name)) {
            Some(close) => format!("did you mean `{close}`?"),
            None => "`ovolo dump MODEL --after import` lists them".to_owned(),
        },
    };
    match name {
        Some(name) => {
            let output = graph.outputs().find(|(output, _)| ***output == *name).map(|(_, id)| id);
            output.or_else(|| graph.find(name)).ok_or_else(|| unknown(name))
        }
        None => graph.outputs().next().map(|(_, id)| id).ok_or_else(|| TrainError::Model {
            model: network.name().to_owned(),
            why: "it has no output".to_owned(),
        }),
    }
}
