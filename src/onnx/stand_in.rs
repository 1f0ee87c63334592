//! Values in the place of those that a refused node would compute, so that the nodes after it are looked at, too.

use super::call::{Builder, Value};
use super::proto::{GraphProto, ValueInfoProto};
use super::signature::whole_type;
use super::structure::Operation;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The types that a model declares for values inside of it. Exporters write them often, but need not.
pub(super) struct StandIns<'a> {
    declared: FxHashMap<&'a str, &'a ValueInfoProto>,
    dims: &'a BTreeMap<String, usize>,
}

impl<'a> StandIns<'a> {
    /// Those of a graph, its symbolic dimensions bound.
    pub fn new(graph: &'a GraphProto, dims: &'a BTreeMap<String, usize>) -> Self {
        let infos = graph.value_info.iter().chain(&graph.output);
        Self { declared: infos.map(|info| (info.name.as_str(), info)).collect(), dims }
    }

    /// Values for the results of a refused node whose types are declared with all dimensions. They are never
    /// computed: a model with a refused node is refused.
    pub fn of<'b>(&self, operation: &'b Operation, builder: &mut Builder) -> Vec<(&'b str, Value)> {
        let results = operation.node.output.iter().map(String::as_str);
        let declared = results.filter_map(|name| {
            let ty = whole_type(self.declared.get(name)?, self.dims)?;
            let id = builder.graph.add_input(name, ty);
            Some((name, Value::node(&builder.graph, id)))
        });
        declared.collect()
    }
}
