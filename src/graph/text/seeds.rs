//! The seeds of a graph's constants, which its text has and the graph has not.

use super::syntax::{self, Body, Literal, Statement};
use super::value::content_hash;
use crate::diagnostic::Diagnostics;
use crate::graph::{Graph, NodeId};
use crate::op::Ops;
use crate::tensor::TensorType;
use rustc_hash::FxHashMap;

/// The seeds of the constants of a text, by the values that they make. So a constant that passes have renamed is found.
#[derive(Debug, Default)]
pub struct Seeds {
    by_value: FxHashMap<u64, Vec<(TensorType, u64)>>,
}

impl Seeds {
    /// Reads the seeds of a text from which a graph was parsed.
    pub fn read(ops: &Ops, text: &str, graph: &Graph) -> Self {
        let (parsed, _) = syntax::parse(text, &ops.families(), &mut Diagnostics::new());
        let mut seeds = Self::default();
        for statement in parsed.statements {
            let Statement::Value { name, body: Body::Const(literal), .. } = statement else { continue };
            let Literal::Seed(seed) = literal.value else { continue };
            let Some(tensor) = graph.find(&name.value).and_then(|id| graph.constant(id)) else { continue };
            seeds.by_value.entry(content_hash(tensor)).or_default().push((tensor.ty().clone(), seed));
        }
        seeds
    }

    /// Returns the seed of a constant, if it has one.
    pub(super) fn of(&self, graph: &Graph, id: NodeId) -> Option<u64> {
        if self.by_value.is_empty() {
            return None;
        }
        let tensor = graph.constant(id)?;
        let alike = self.by_value.get(&content_hash(tensor))?;
        alike.iter().find(|(ty, _)| ty == tensor.ty()).map(|(_, seed)| *seed)
    }
}
