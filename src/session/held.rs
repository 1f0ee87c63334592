//! The constants that plans of a model have already, beside which another plan of the model is chosen.

use super::{Session, Store, constants};
use crate::digest::Digest;
use crate::graph::{Graph, NodeId};
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The weights of a model in the forms that some plans of it keep, such as packed for a kernel. Another plan that takes
/// the same forms needs no further memory for weights.
#[derive(Clone, Default)]
pub struct Held {
    store: Arc<Store>,
    recipes: BTreeSet<Digest>,
}

impl Held {
    /// Returns what sessions of a store have.
    pub(crate) fn new<'s>(store: &Arc<Store>, sessions: impl IntoIterator<Item = &'s Session>) -> Self {
        let recipes = sessions.into_iter().flat_map(|session| session.recipes().values().copied()).collect();
        Self { store: Arc::clone(store), recipes }
    }

    /// Returns whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.recipes.is_empty()
    }

    /// Returns a digest of what is held.
    pub fn digest(&self) -> Digest {
        let recipes: Vec<String> = self.recipes.iter().map(Digest::to_string).collect();
        Digest::texts(recipes.iter().map(String::as_str))
    }

    /// Returns, for each node of a graph of constants, whether it is a further form of a weight: it is not held, and
    /// another form of the same weight is. The weight of a form is the largest constant of the model that it is computed
    /// from. Constants of the model itself are always in memory.
    pub(crate) fn further_forms(&self, graph: &Graph) -> Vec<bool> {
        let nodes: Vec<NodeId> = graph.nodes().map(|(id, _)| id).collect();
        let recipes = constants::recipes(graph, &nodes, &self.store);
        let held = |id: &NodeId| recipes.get(id).is_some_and(|recipe| self.recipes.contains(recipe));
        let weights = weights(graph);
        let with_form: FxHashSet<NodeId> =
            nodes.iter().filter(|id| held(id)).map(|id| weights[id.index()]).collect();
        let further = |id: &NodeId| {
            let weight = weights[id.index()];
            weight != *id && !held(id) && with_form.contains(&weight)
        };
        nodes.iter().map(further).collect()
    }
}

/// Returns, for each node of a graph of constants, the largest leaf that it is computed from; of leaves of equal size,
/// the first. For a leaf, and for a node that reads nothing, it is the node itself.
fn weights(graph: &Graph) -> Vec<NodeId> {
    let mut weights: Vec<NodeId> = Vec::with_capacity(graph.len());
    for (id, node) in graph.nodes() {
        let bytes = |leaf: &NodeId| graph[*leaf].ty.bytes();
        let leaves = node.inputs.iter().map(|input| weights[input.index()]);
        let largest = leaves.reduce(|best, leaf| if bytes(&leaf) > bytes(&best) { leaf } else { best });
        weights.push(largest.unwrap_or(id));
    }
    weights
}
