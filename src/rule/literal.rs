//! Literals of attributes in patterns.

use crate::attr::{Attr, Float, Step, StepOp};
use crate::op::{Ops, post};
use crate::tensor::{DType, Layout};

/// Reads an integer, or a float if there is a decimal point or an exponent.
pub(super) fn number(text: &str) -> Option<Attr> {
    let digits = text.replace('_', "");
    match digits.parse::<i64>() {
        Ok(value) => Some(Attr::Int(value)),
        Err(_) if digits.contains(['.', 'e', 'E']) || digits.ends_with("inf") => {
            let value: f64 = digits.parse().ok()?;
            // A number with too many digits must not become infinity.
            (value.is_finite() || digits.ends_with("inf")).then_some(Attr::Float(Float(value)))
        }
        Err(_) => None,
    }
}

/// Returns whether a text has the form of a number of any size.
pub(super) fn digits(text: &str) -> bool {
    text.replace('_', "").parse::<f64>().is_ok() && text.contains(|c: char| c.is_ascii_digit())
}

/// Reads an element type or a layout.
pub(super) fn word(text: &str) -> Option<Attr> {
    match text {
        "inf" => Some(Attr::Float(Float(f64::INFINITY))),
        _ => text
            .parse::<DType>()
            .map(Attr::DType)
            .ok()
            .or_else(|| text.parse::<Layout>().map(Attr::Layout).ok()),
    }
}

/// Reads a list `[1,2]`, a chain `<relu,clip(0.0,6.0)>`, or a text in quotes.
///
/// # Errors
/// The message and the advice.
pub(super) fn bracketed(text: &str, ops: &Ops) -> Result<Attr, (String, &'static str)> {
    let inner = text[1..text.len() - 1].trim();
    match text.as_bytes()[0] {
        b'"' => Ok(Attr::Str(inner.into())),
        b'[' if inner.is_empty() => Ok(Attr::Ints(Vec::new())),
        b'[' => inner
            .split(',')
            .map(|item| {
                let item = item.trim();
                if item.starts_with('?') || item.contains('(') {
                    let advice = "a list of what is bound or computed is `list(…)`, as in `list(?a, 1)`; a left \
                                  side computes none: bind the whole list to a variable there, and ask in `when` \
                                  what it must be";
                    return Err((format!("`{item}` is not an integer"), advice));
                }
                let wrong = |_| match digits(item) && !item.contains(['.', 'e', 'E']) {
                    true => (format!("`{item}` is too large for an integer"), "write one of 64 bits"),
                    false => (format!("`{item}` is not an integer"), "write a list as `[1, 2]`"),
                };
                item.parse::<i64>().map_err(wrong)
            })
            .collect::<Result<_, _>>()
            .map(Attr::Ints),
        _ => chain(inner, ops).map(Attr::Post).map_err(|why| {
            (why, "a chain is of elementwise ops with their parameters, as in `<add,clip(0.0,6.0)>`")
        }),
    }
}

fn chain(text: &str, ops: &Ops) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find([',', '(']).unwrap_or(rest.len());
        let name = rest[..end].trim();
        let mut parameters = Vec::new();
        let mut tail = &rest[end..];
        if let Some(inside) = tail.strip_prefix('(') {
            let close = inside.find(')').ok_or("a step's `(` is not closed")?;
            for item in inside[..close].split(',') {
                parameters.push(Float(
                    item.trim().parse().map_err(|_| format!("`{}` is not a number", item.trim()))?,
                ));
            }
            tail = &inside[close + 1..];
        }
        let op = ops.step(name).ok_or_else(|| format!("`{name}` cannot be a post step"))?;
        steps.push(step(op, parameters)?);
        rest = tail.trim_start().strip_prefix(',').unwrap_or(tail).trim_start();
    }
    Ok(steps)
}

/// Returns a step of a chain.
///
/// # Errors
/// If the number of parameters is wrong.
pub(super) fn step(op: StepOp, parameters: Vec<Float>) -> Result<Step, String> {
    let takes = post::parameters(op).len();
    if parameters.len() != takes {
        return Err(format!("step `{op}` takes {takes} parameter(s), not {}", parameters.len()));
    }
    Ok(Step { op, parameters })
}
