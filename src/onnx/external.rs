//! Reads facts about a model without importing it: the files of its external data, and its dimensions without a
//! size.

use super::initializer::Initializer;
use super::proto::{ModelProto, NodeProto, TensorProto};
use super::{Item, OnnxError, folder, signature, weight};
use crate::tensor::Tensor;
use prost::bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The files of external data, by the names that the model uses, with their paths. The path is `None` if the
/// importer would refuse to read the file.
pub(crate) type External = BTreeMap<String, Option<PathBuf>>;

/// Returns the files of a model's external data. The model is decoded, but its weights are not read.
///
/// # Errors
/// If the model cannot be read or decoded.
pub fn external(model: &Path) -> Result<External, OnnxError> {
    let proto = decoded(model)?;
    let mut files = External::new();
    let mut note = |tensor: &TensorProto| {
        for entry in tensor.external_data.iter().filter(|entry| entry.key == "location") {
            let found = || weight::locate(&folder(model), &entry.value).ok();
            files.entry(entry.value.clone()).or_insert_with(found);
        }
    };
    let graph = proto.graph.unwrap_or_default();
    Initializer::all(&graph).flat_map(Initializer::parts).for_each(&mut note);
    of_nodes(&graph.node, &mut note);
    for function in &proto.functions {
        of_nodes(&function.node, &mut note);
    }
    Ok(files)
}

/// Calls a function for each tensor among the attributes of nodes, and in their subgraphs.
fn of_nodes(nodes: &[NodeProto], note: &mut dyn FnMut(&TensorProto)) {
    for attribute in nodes.iter().flat_map(|node| &node.attribute) {
        attribute.t.iter().for_each(&mut *note);
        let sparse = attribute.sparse_tensor.iter().map(Initializer::Sparse);
        sparse.flat_map(Initializer::parts).for_each(&mut *note);
        if let Some(graph) = &attribute.g {
            Initializer::all(graph).flat_map(Initializer::parts).for_each(&mut *note);
            of_nodes(&graph.node, note);
        }
    }
}

/// Returns the names of a model's dimensions without a size, which can be bound.
///
/// # Errors
/// If the model cannot be read or decoded.
pub fn symbols(model: &Path) -> Result<BTreeSet<String>, OnnxError> {
    Ok(signature::symbols_of(&decoded(model)?.graph.unwrap_or_default()))
}

/// Returns the sizes that the inputs of a run give to a model's dimensions without a size; `None` if one dimension
/// would get two sizes, or if an input is no tensor.
///
/// # Errors
/// If the model cannot be read or decoded.
pub fn sizes(
    model: &Path,
    given: &BTreeMap<String, Item<Tensor>>,
) -> Result<Option<BTreeMap<String, usize>>, OnnxError> {
    Ok(signature::sizes(&decoded(model)?.graph.unwrap_or_default(), given))
}

fn decoded(model: &Path) -> Result<ModelProto, OnnxError> {
    let path = model.display().to_string();
    let read = |why: std::io::Error| OnnxError::Read { path: path.clone(), why: why.to_string() };
    let Some(map) = weight::map(model).map_err(read)? else {
        return Err(OnnxError::Empty { model: path });
    };
    super::decode(Bytes::from_owner(map), &path)
}
