//! The inputs of a comparison: from files, or drawn at random.

use crate::Settings;
use crate::value;
use ovolo::graph::{Graph, text};
use ovolo::onnx::{self, Dynamic, Item};
use ovolo::tensor::Tensor;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The inputs that were given, by their names.
pub(super) struct Inputs {
    pub given: BTreeMap<String, Item<Tensor>>,
}

/// A name and a type of an input that was drawn.
pub(super) type Drawn = Vec<(String, String)>;

impl Inputs {
    /// Reads the inputs of the command line.
    pub(super) fn read(list: &[String], settings: &Settings) -> Result<Self, String> {
        let interface = value::interface(&settings.model)?;
        let mut given = BTreeMap::new();
        for input in list {
            let (name, file) =
                input.split_once('=').ok_or_else(|| format!("--input needs NAME=FILE, not `{input}`"))?;
            let item = value::read(&PathBuf::from(file), interface.input(name))?;
            if given.insert(name.to_owned(), item).is_some() {
                return Err(format!("input `{name}` is given twice; give it once"));
            }
        }
        Ok(Self { given })
    }

    /// Returns the inputs of a graph in its order. Those that are not given are drawn.
    pub(super) fn complete(self, graph: &Graph, seed: u64) -> Result<(Vec<Tensor>, Drawn), String> {
        let mut drawn = Drawn::new();
        let mut list = Vec::new();
        for (name, item) in self.given {
            match item {
                Item::Tensor(tensor) => list.push((name, tensor)),
                Item::Sequence(_) | Item::Maps(..) | Item::Absent => {
                    return Err(format!("input `{name}` must be a tensor"));
                }
            }
        }
        for (at, (_, node)) in graph.inputs().enumerate() {
            if list.iter().all(|(name, _)| **name != *node.name) {
                drawn.push((node.name.to_string(), node.ty.to_string()));
                list.push((node.name.to_string(), text::random(&node.ty, seed ^ at as u64)));
            }
        }
        onnx::check_inputs(graph, &list).map_err(|error| error.to_string())?;
        let find = |name: &str| list.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone());
        Ok((graph.inputs().filter_map(|(_, node)| find(&node.name)).collect(), drawn))
    }

    /// Returns the inputs of a model that is compiled while it runs. Those that must be given and are not are drawn,
    /// with these sizes of dimensions.
    pub(super) fn complete_dynamic(
        self,
        model: &Dynamic,
        dims: &BTreeMap<String, usize>,
        seed: u64,
    ) -> Result<(BTreeMap<String, Item<Tensor>>, Drawn), String> {
        let mut drawn = Drawn::new();
        let mut all = self.given;
        if model.inputs().any(|(name, needed)| needed && !all.contains_key(name)) {
            let zeros = model.zeros(dims).map_err(|error| error.to_string())?;
            for (at, (name, zero)) in zeros.into_iter().enumerate() {
                let Item::Tensor(zero) = zero else { continue };
                all.entry(name.clone()).or_insert_with(|| {
                    drawn.push((name, zero.ty().to_string()));
                    Item::Tensor(text::random(zero.ty(), seed ^ at as u64))
                });
            }
        }
        Ok((all, drawn))
    }
}
