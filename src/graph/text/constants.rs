//! The values of constants that the text form writes as a hash.

use super::value::hashed;
use crate::graph::{Graph, NodeId};
use crate::tensor::{Tensor, TensorType};
use rustc_hash::FxHashMap;
use std::cell::OnceCell;

/// The constants that a text may refer to by their hashes: none, or those of a graph, usually of the model that the
/// text was printed from. They are not found by name, since a pass may rename a constant.
#[derive(Default)]
pub struct Constants<'a> {
    from: Option<Given<'a>>,
}

struct Given<'a> {
    graph: &'a Graph,
    /// The name of the graph in messages: the file of the model.
    name: &'a str,
    /// The constants by hash. Hashing reads all bytes, so it is done only when a text first refers to one.
    by_hash: OnceCell<FxHashMap<String, Vec<NodeId>>>,
}

/// Why no value was found.
pub(super) enum Absent<'a> {
    /// No graph was given.
    NotGiven,
    /// No constant of the graph has the hash.
    NoSuchHash {
        /// The name of the graph in messages.
        from: &'a str,
        /// The hash of the graph's constant with the same name, if there is one.
        same_name: Option<String>,
    },
    /// All constants with this hash have another type. This is the type of the first.
    OtherType(TensorType),
}

impl<'a> Constants<'a> {
    /// Makes an empty set: a text that refers to a constant is refused.
    pub fn none() -> Self {
        Self::default()
    }

    /// Takes the constants of a graph, which messages call `name`.
    pub fn from_graph(graph: &'a Graph, name: &'a str) -> Self {
        Self { from: Some(Given { graph, name, by_hash: OnceCell::new() }) }
    }

    /// Finds the value with this type and hash. `name` is its name in the text.
    pub(super) fn find(&self, name: &str, ty: &TensorType, hash: &str) -> Result<Tensor, Absent<'a>> {
        let Some(from) = &self.from else { return Err(Absent::NotGiven) };
        let by_hash = from.by_hash.get_or_init(|| from.index());
        let known = by_hash.get(hash).into_iter().flatten();
        let mut values = known.filter_map(|id| from.graph.constant(*id)).peekable();
        let Some(first) = values.peek().map(|value| value.ty().clone()) else {
            let same_name = from.graph.find(name).and_then(|id| from.graph.constant(id)).map(hashed);
            return Err(Absent::NoSuchHash { from: from.name, same_name });
        };
        values.find(|value| value.ty() == ty).cloned().ok_or(Absent::OtherType(first))
    }
}

impl Given<'_> {
    fn index(&self) -> FxHashMap<String, Vec<NodeId>> {
        let mut by_hash: FxHashMap<String, Vec<NodeId>> = FxHashMap::default();
        for (id, _) in self.graph.nodes() {
            if let Some(value) = self.graph.constant(id) {
                by_hash.entry(hashed(value)).or_default().push(id);
            }
        }
        by_hash
    }
}
