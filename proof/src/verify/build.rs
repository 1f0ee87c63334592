//! Builds the right side of a rule for an instance, as the e-graph does.

use super::draft::Draft;
use super::refusal::Refusal;
use super::untyped::Untyped;
use ovolo::attr::{Attr, Attrs};
use ovolo::rule::{self, Expr, Rule, Template, Value};
use ovolo::tensor::{DType, TensorType};

/// Tests the guards. The error is the first refusal.
pub(super) fn admit(rule: &Rule, draft: &Draft) -> Result<(), Refusal> {
    for (at, guard) in rule.guards.iter().enumerate() {
        rule::ask(guard, draft).map_err(|why| Refusal::guard(at, why.to_string()))?;
    }
    Ok(())
}

/// Tests the guards and adds the right sides.
///
/// # Errors
/// An error if a guard refuses, an attribute cannot be computed, or an op cannot be typed.
pub(super) fn sides(rule: &Rule, draft: &mut Draft) -> Result<(), Refusal> {
    admit(rule, draft)?;
    right(rule, draft)?;
    Ok(())
}

/// Computes the rule's attributes and adds its right sides.
///
/// # Errors
/// An error if an attribute cannot be computed or an op cannot be typed.
pub(super) fn right(rule: &Rule, draft: &mut Draft) -> Result<(), Untyped> {
    for (var, expr) in &rule.lets {
        let value = attribute(expr, draft)?;
        draft.attrs[var.0] = Some(value);
    }
    for template in &rule.to {
        let root = instantiate(template, draft)?;
        draft.right.push(root);
    }
    Ok(())
}

fn attribute(expr: &Expr, draft: &Draft) -> Result<Attr, Untyped> {
    match rule::eval(expr, draft)? {
        Value::Attr(attr) => Ok(attr),
        Value::Operand(_) | Value::Rest(_) => Err(Untyped::NoAttribute),
    }
}

fn instantiate(template: &Template, draft: &mut Draft) -> Result<usize, Untyped> {
    let (op, children, attrs, rest_attrs) = match template {
        Template::Operand(var) => return draft.operands[var.0].ok_or(Untyped::Unbound { what: "operand" }),
        Template::Scalar(value) => {
            return draft.op(ovolo::op::scalar(), Attrs::new().float("value", *value), Vec::new());
        }
        Template::Each(..) => return Err(Untyped::Each),
        Template::Op { op, children, attrs, rest_attrs } => (*op, children, attrs, rest_attrs),
    };
    let mut inputs = Vec::with_capacity(children.len());
    for child in children {
        let Template::Each(var, inner) = child else {
            inputs.push(instantiate(child, draft)?);
            continue;
        };
        let items = draft.rests[var.0].clone().ok_or(Untyped::Unbound { what: "rest" })?;
        let Some((item_var, inner)) = inner else {
            inputs.extend(items);
            continue;
        };
        let before = draft.operands[item_var.0];
        for item in items {
            draft.operands[item_var.0] = Some(item);
            inputs.push(instantiate(inner, draft)?);
        }
        draft.operands[item_var.0] = before;
    }
    let mut values = Attrs::new();
    if let Some(var) = rest_attrs {
        for (name, value) in draft.rest_attrs[var.0].iter().flatten() {
            if let Some(def) = op.attr(name) {
                values.set(def.name, value.clone());
            }
        }
    }
    for (name, expr) in attrs {
        values.set(name, attribute(expr, draft)?);
    }
    draft.op(op, values, inputs)
}

/// Returns the first side whose types differ: its position, the left type, and the right type.
pub(super) fn types_differ(draft: &Draft) -> Option<(usize, TensorType, TensorType)> {
    draft.left.iter().zip(&draft.right).enumerate().find_map(|(at, (left, right))| {
        let (left, right) = (&draft.values[*left].ty, &draft.values[*right].ty);
        (left != right).then(|| (at, left.clone(), right.clone()))
    })
}

/// The type in which a value is evaluated: `f64` for any floating-point type.
pub(super) fn widened(ty: &TensorType) -> TensorType {
    let dtype = if ty.dtype.is_float() { DType::F64 } else { ty.dtype };
    TensorType { dtype, ..ty.clone() }
}
