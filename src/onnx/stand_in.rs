//! Values that replace the results of a refused node, so that the nodes that read them can also be checked.

use super::builder::{Builder, ImportedValue};
use super::document::Operation;
use super::proto::ValueInfoProto;
use super::signature::whole_type;
use crate::tensor::TensorType;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The types that a model declares for intermediate values. Exporters often write them, but need not.
pub(super) struct StandIns<'a> {
    declared: FxHashMap<&'a str, &'a ValueInfoProto>,
    dims: &'a BTreeMap<String, usize>,
}

impl<'a> StandIns<'a> {
    /// Reads the types that a graph declares, with its symbolic dimensions bound.
    pub fn new(
        intermediate: &'a [ValueInfoProto],
        outputs: &'a [ValueInfoProto],
        dims: &'a BTreeMap<String, usize>,
    ) -> Self {
        let infos = intermediate.iter().chain(outputs);
        Self { declared: infos.map(|info| (info.name.as_str(), info)).collect(), dims }
    }

    /// Makes values for those results of a refused node whose types are declared with all dimensions. They are
    /// never computed, since a model with a refused node is refused.
    pub fn make(&self, operation: &Operation, builder: &mut Builder) -> Vec<(Arc<str>, ImportedValue)> {
        let results = operation.node.output.iter().map(String::as_str);
        let declared = results.filter_map(|name| {
            let ty = whole_type(self.declared.get(name)?, self.dims)?;
            let id = builder.graph.add_input(name, ty);
            Some((name.into(), ImportedValue::node(&builder.graph, id)))
        });
        declared.collect()
    }

    /// Returns the type that is declared for a value, if it is complete.
    pub fn ty(&self, name: &str) -> Option<TensorType> {
        whole_type(self.declared.get(name)?, self.dims)
    }
}
