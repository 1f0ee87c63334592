//! Operators that are functions of one number, which tables of functions name.

use super::{Call, Operator, Results};
use crate::attr::Attrs;
use crate::onnx::Refusal;
use crate::scalar::{self, Function, Setting};

/// Returns the operators of functions, each of them once.
pub(crate) fn operators(functions: &[Function]) -> Vec<Operator> {
    let mut names: Vec<&'static str> = Vec::new();
    for operator in functions.iter().flat_map(|function| function.operators()) {
        if !names.contains(&operator.name) {
            names.push(operator.name);
        }
    }
    names.into_iter().map(|name| Operator { name, operands: (1, 1), import }).collect()
}

/// Imports the operator as the first function that it is with its attributes.
fn import(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let name = call.operator();
    for function in call.ops().functions().collect::<Vec<_>>() {
        for operator in function.operators().iter().filter(|operator| operator.name == name) {
            if is(call, function, operator)? {
                let mut attrs = Attrs::new();
                for parameter in function.parameters() {
                    attrs = attrs.float(parameter.name, number(call, function, operator, parameter.name)?);
                }
                return Ok(vec![call.result(function.name(), attrs, &[&x])?]);
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
