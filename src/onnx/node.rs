//! One node of a model: whether its operator is supported, and its results.

use super::builder::{Builder, ImportedValue};
use super::call::Call;
use super::document::Operation;
use super::error::{Unsupported, suggestion};
use super::structure::{describe, full_name, is_own, label};
use super::{NEWEST_OPSET, OLDEST_OPSET, OnnxError, Operator, Operators, Refusal};
use std::collections::BTreeMap;

/// Returns the results of a node, given the values of its operands. `read` says whether a name is read.
pub(super) fn run(
    operation: &Operation,
    operators: &Operators,
    builder: &mut Builder,
    inputs: &[Option<ImportedValue>],
    read: &dyn Fn(&str) -> bool,
) -> Result<Vec<ImportedValue>, OnnxError> {
    let node = &operation.node;
    let (Some(operator), Some(opset)) = (supporting(operation, operators), operation.opset) else {
        return Err(OnnxError::Unsupported { operators: vec![unsupported(operation, operators)] });
    };
    let results = operator.execute(&mut Call::new(node, opset, inputs, builder));
    let results = results.and_then(|results| {
        let unmade = node.output.iter().skip(results.len()).position(|name| !name.is_empty() && read(name));
        match unmade {
            None => Ok(results),
            Some(at) => Err(Refusal::other(format!(
                "its result {} (`{}`) is read, but ovolo computes only {} of this operator",
                at + results.len(),
                node.output[at + results.len()],
                if results.len() == 1 {
                    "the first".to_owned()
                } else {
                    format!("the first {}", results.len())
                }
            ))),
        }
    });
    results.map_err(|why| {
        let operands = inputs
            .iter()
            .map(|input| input.as_ref().map_or_else(|| "none".to_owned(), |v| v.ty.to_string()))
            .collect();
        OnnxError::Node { node: format!("{} (opset {opset})", describe(node)), why: Box::new(why), operands }
    })
}

/// Refuses all operators that have no importer in one error, sorted by name.
pub(super) fn supported<'a>(
    operations: impl Iterator<Item = &'a Operation>,
    operators: &Operators,
) -> Result<(), OnnxError> {
    let mut unknown: BTreeMap<(&str, &str), Unsupported> = BTreeMap::new();
    for operation in operations {
        if supporting(operation, operators).is_some() {
            continue;
        }
        let key = (operation.node.domain.as_str(), operation.node.op_type.as_str());
        let domain = if is_own(key.0) { "" } else { key.0 };
        let entry = unknown.entry((domain, key.1));
        entry
            .and_modify(|known| known.nodes.push(label(&operation.node)))
            .or_insert_with(|| unsupported(operation, operators));
    }
    if unknown.is_empty() {
        Ok(())
    } else {
        Err(OnnxError::Unsupported { operators: unknown.into_values().collect() })
    }
}

/// Describes the operator of a node, which has no importer.
fn unsupported(operation: &Operation, operators: &Operators) -> Unsupported {
    let Operation { node, opset, .. } = operation;
    let known = operators.get(&full_name(node)).is_some();
    let domain = if is_own(&node.domain) { "" } else { node.domain.as_str() };
    Unsupported {
        op: full_name(node),
        opset: *opset,
        nodes: vec![label(node)],
        hint: hint(domain, &node.op_type, known, operators),
    }
}

/// Returns the importer of a node's operator in the node's opset.
pub(super) fn supporting<'a>(operation: &Operation, operators: &'a Operators) -> Option<&'a Operator> {
    let Operation { node, opset, .. } = operation;
    let known =
        opset.is_some_and(|opset| !is_own(&node.domain) || (OLDEST_OPSET..=NEWEST_OPSET).contains(&opset));
    operators.get(&full_name(node)).filter(|_| known)
}

fn hint(domain: &str, op: &str, known: bool, operators: &Operators) -> String {
    if known && !domain.is_empty() {
        format!("the model does not import the domain `{domain}`; export it again")
    } else if known {
        format!(
            "a function of the model uses it with an opset that is not among {OLDEST_OPSET} to {NEWEST_OPSET}"
        )
    } else if domain.is_empty() {
        suggestion(op, operators.names()).trim_start_matches("; ").to_owned()
    } else {
        String::new()
    }
}
