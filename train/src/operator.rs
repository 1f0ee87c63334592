//! ONNX's operator `Gradient`, by the table of derivatives.

use super::builder::Builder;
use super::reverse::gradients;
use super::table::Table;
use ovolo::attr::Attrs;
use ovolo::graph::{Graph, NodeId};
use ovolo::onnx::{Call, ImportedValue, Operator, Refusal, Results};
use ovolo::registry::{Registry, RegistryError};
use ovolo::tensor::DType;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Adds ONNX's operator `Gradient` to a registry.
///
/// # Errors
/// The registry has it.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.add_operator(Operator {
        name: "ai.onnx.preview.training.Gradient",
        operands: (1, usize::MAX),
        import: gradient,
    })
}

/// Returns ovolo's own table, for ovolo's own ops.
fn table() -> Result<&'static Table, Refusal> {
    static TABLE: OnceLock<Result<Table, String>> = OnceLock::new();
    let made = TABLE.get_or_init(|| Table::new(&Registry::new()).map_err(|why| why.to_string()));
    made.as_ref().map_err(|why| Refusal::other(why.clone()))
}

/// Imports `Gradient`: of the value `y`, a number, with respect to the values `xs`. The operands take the place of the values
/// `xs` and then `zs`: where an operand is not the value of this name itself, what lies between them and `y` is computed
/// anew.
fn gradient(call: &mut Call<'_>) -> Results {
    let by = call.texts("xs")?.unwrap_or_default();
    let fixed = call.texts("zs")?.unwrap_or_default();
    let of = call.text("y", "")?;
    let names = [&by[..], &fixed].concat();
    if names.len() != call.input_count() || by.is_empty() {
        let (names, operands) = (names.len(), call.input_count());
        return Err(Refusal::other(format!("`xs` and `zs` have {names} names for {operands} operands")));
    }
    let Some(of) = call.named(of) else {
        let why = "no node before this one computes the value `y` when the model runs";
        return Err(Refusal::attribute("y", format!("is `{of}`: {why}")));
    };
    let mut places = BTreeMap::new();
    let mut operands = Vec::with_capacity(names.len());
    for (at, name) in names.iter().enumerate() {
        let value = call.input(at)?;
        let node = call.node_of(&value);
        if let Some(named) = call.named(name) {
            places.insert(named, node);
        }
        operands.push((value, node));
    }
    let by: Vec<(ImportedValue, NodeId)> = operands.drain(..by.len()).collect();
    let before = call.graph().len();
    let (graph, made) = differentiated(call, of, &places, &by)?;
    let mut values: BTreeMap<NodeId, ImportedValue> = BTreeMap::new();
    for (id, node) in graph.nodes().skip(before) {
        let value = match graph.constant(id) {
            Some(value) => call.constant("number", value.clone()),
            None => {
                let inputs: Vec<ImportedValue> = node
                    .inputs
                    .iter()
                    .map(|input| values.get(input).cloned().unwrap_or_else(|| call.value_of(*input)))
                    .collect();
                let inputs: Vec<&ImportedValue> = inputs.iter().collect();
                call.helper(&node.name, node.op.name, (*node.attrs).clone(), &inputs)?
            }
        };
        values.insert(id, value);
    }
    let zeros = |call: &mut Call<'_>, value: &ImportedValue| {
        let zero = call.scalar("zero", value.ty.dtype, 0.0);
        let shape = Attrs::new().sizes("shape", value.dims());
        call.helper("zeros", "expand", shape, &[&zero])
    };
    by.iter()
        .zip(made)
        .map(|((value, _), made)| match made {
            Some(id) => Ok(values.get(&id).cloned().unwrap_or_else(|| call.value_of(id))),
            None => zeros(call, value),
        })
        .collect()
}

/// Returns the graph so far with the gradients of a value, and the node of each gradient; `None` for a value on which it does
/// not depend.
fn differentiated(
    call: &Call<'_>,
    of: NodeId,
    places: &BTreeMap<NodeId, NodeId>,
    by: &[(ImportedValue, NodeId)],
) -> Result<(Graph, Vec<Option<NodeId>>), Refusal> {
    let (graph, refused) =
        (call.graph().clone(), |why: &dyn std::fmt::Display| Refusal::other(why.to_string()));
    let ty = graph[of].ty.clone();
    if ty.dtype != DType::F32 || ty.shape.count() != 1 {
        return Err(Refusal::attribute("y", format!("is {ty}, and must be one number of float32")));
    }
    let mut builder = Builder::new(call.ops(), graph.clone());
    let mut anew: BTreeMap<NodeId, NodeId> =
        places.iter().filter(|(named, node)| named != node).map(|(named, node)| (*named, *node)).collect();
    for (id, node) in graph.nodes().filter(|(id, _)| *id <= of) {
        if !anew.contains_key(&id) && node.inputs.iter().any(|input| anew.contains_key(input)) {
            let inputs = node.inputs.iter().map(|input| *anew.get(input).unwrap_or(input)).collect();
            let copy = builder.copy(node, inputs);
            anew.insert(id, copy);
        }
    }
    let of = anew.get(&of).copied().unwrap_or(of);
    let number = builder.named("y", "reshape", Attrs::new().sizes("shape", &[]), vec![of]);
    let number = number.map_err(|why| refused(&why))?;
    let by: Vec<NodeId> = by.iter().map(|(_, node)| *node).collect();
    let made = gradients(table()?, &mut builder, number, &by).map_err(|why| refused(&why))?;
    Ok((builder.into_graph(), made))
}
