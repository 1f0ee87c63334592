//! Operators that are functions of one or two operands, which tables of functions name.

use super::elementwise::aligned;
use super::{Call, ImportedValue, Operator, Operators, Results};
use crate::attr::{Attr, Attrs};
use crate::onnx::Refusal;
use crate::op::law;
use crate::scalar::{self, Function, Setting};

/// Returns the operators of functions, each of them once.
pub(crate) fn operators(functions: &[Function]) -> Vec<Operator> {
    let mut found: Vec<Operator> = Vec::new();
    for function in functions {
        let operands = (function.operands(), function.operands());
        for operator in function.operators() {
            if !found.iter().any(|known| known.name == operator.name) {
                found.push(Operator { name: operator.name, operands, import });
            }
        }
    }
    found
}

/// Returns an operator of a function that is never imported as that function, and what it is imported as instead: a
/// function before it that takes the operator with the same attributes, or with another number of operands; `None` if
/// the operator has an importer of its own. `before` are the functions before it.
pub(crate) fn taken(
    function: Function,
    before: &[Function],
    operators: &Operators,
) -> Option<(&'static str, Option<Function>)> {
    function.operators().iter().find_map(|operator| {
        let mut shared = false;
        for other in before {
            for one in other.operators().iter().filter(|one| one.name == operator.name) {
                shared = true;
                let always = one.when.iter().all(|condition| operator.when.contains(condition));
                if always || other.operands() != function.operands() {
                    return Some((operator.name, Some(*other)));
                }
            }
        }
        (!shared && operators.get(operator.name).is_some()).then_some((operator.name, None))
    })
}

/// Imports the operator as the first function that it is with its attributes.
fn import(call: &mut Call<'_>) -> Results {
    let mut operands = vec![call.input(0)?];
    if call.input_count() == 2 {
        let second = call.input(1)?;
        operands.push(aligned(call, &operands[0], second)?);
    }
    let name = call.operator();
    for function in call.ops().functions().collect::<Vec<_>>() {
        for operator in function.operators().iter().filter(|operator| operator.name == name) {
            if is(call, function, operator)? {
                let mut attrs = Attrs::new();
                for parameter in function.parameters() {
                    let name = parameter.name;
                    attrs = match parameter.whole {
                        true => attrs.int(name, whole(call, function, parameter)?),
                        false => attrs.float(name, number(call, function, operator, name)?),
                    };
                }
                let operands: Vec<&ImportedValue> = operands.iter().collect();
                return Ok(vec![call.result(function.name(), attrs, &operands)?]);
            }
        }
    }
    Err(refusal(call, &name))
}

/// Returns whether the operator's attributes satisfy the conditions under which it is the function.
fn is(call: &Call<'_>, function: Function, operator: &scalar::Operator) -> Result<bool, Refusal> {
    for (attribute, wanted) in &operator.when {
        let holds = match wanted {
            Setting::Number(wanted) => number(call, function, operator, attribute)? == *wanted,
            Setting::Text(wanted) => {
                let default = match operator.default_of(attribute) {
                    Some(Setting::Text(text)) => text,
                    _ => "",
                };
                call.text(attribute, default)? == *wanted
            }
        };
        if !holds {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the value of an integer attribute, which its op must allow.
#[allow(clippy::cast_possible_truncation)]
fn whole(call: &Call<'_>, function: Function, parameter: &scalar::Parameter) -> Result<i64, Refusal> {
    let value = call.int(parameter.name, parameter.default as i64)?;
    let op = call.ops().get(function.name());
    match op.and_then(|op| law::broken(op, parameter.name, &Attr::Int(value))) {
        Some((why, _)) => Err(Refusal::attribute(parameter.name, format!("is {value}, but {why}"))),
        None => Ok(value),
    }
}

/// Returns the value of an attribute. If the model does not write it, this is its default as a binary32 number.
#[allow(clippy::cast_possible_truncation)]
fn number(
    call: &Call<'_>,
    function: Function,
    operator: &scalar::Operator,
    attribute: &'static str,
) -> Result<f64, Refusal> {
    let own = || function.parameters().iter().find(|one| one.name == attribute).map(|one| one.default);
    let default = match operator.default_of(attribute) {
        Some(Setting::Number(number)) => Some(*number),
        _ => own(),
    };
    match default {
        Some(default) => call.float(attribute, default as f32),
        None => call.float_if(attribute)?.ok_or_else(|| Refusal::attribute(attribute, "is missing")),
    }
}

/// Returns the error that no function is the operator with its attributes.
fn refusal(call: &Call<'_>, name: &str) -> Refusal {
    let functions: Vec<Function> = call.ops().functions().collect();
    let operators = functions.iter().flat_map(|function| function.operators());
    let mut wanted: Vec<(&'static str, String, Vec<String>)> = Vec::new();
    for (attribute, value) in operators.filter(|one| one.name == name).flat_map(|one| &one.when) {
        let (given, value) = match value {
            Setting::Text(text) => {
                (call.text(attribute, "").map(|text| format!("`{text}`")), format!("`{text}`"))
            }
            Setting::Number(number) => (
                call.float_if(attribute).map(|given| given.unwrap_or(f64::NAN).to_string()),
                number.to_string(),
            ),
        };
        match wanted.iter_mut().find(|(name, ..)| name == attribute) {
            Some((_, _, values)) => values.push(value),
            None => wanted.push((attribute, given.unwrap_or_else(|why| why.to_string()), vec![value])),
        }
    }
    if let [(attribute, given, values)] = &wanted[..] {
        return Refusal::attribute(*attribute, format!("is {given}, not {}", values.join(" or ")));
    }
    let said = wanted.iter().map(|(attribute, given, values)| {
        format!("its attribute `{attribute}` is {given}, not {}", values.join(" or "))
    });
    Refusal::other(said.collect::<Vec<_>>().join("; "))
}
