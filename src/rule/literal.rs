//! Literals of attributes in patterns.

use crate::attr::{Attr, Float, Step, StepOp};
use crate::diagnostic::suggestion;
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
pub(super) fn bracketed(text: &str, ops: &Ops) -> Result<Attr, (String, String)> {
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
                    return Err((format!("`{item}` is not an integer"), advice.to_owned()));
                }
                if item.is_empty() {
                    let advice = "write a list as `[1, 2]`, with a comma between two integers and nowhere else";
                    return Err(("an integer is missing beside a comma".to_owned(), advice.to_owned()));
                }
                let wrong = |_| match digits(item) && !item.contains(['.', 'e', 'E']) {
                    true => (format!("`{item}` is too large for an integer"), "write one of 64 bits".to_owned()),
                    false => (format!("`{item}` is not an integer"), "write a list as `[1, 2]`".to_owned()),
                };
                item.parse::<i64>().map_err(wrong)
            })
            .collect::<Result<_, _>>()
            .map(Attr::Ints),
        _ => chain(inner, ops).map(Attr::Post).map_err(|(why, meant)| {
            let form = "a chain is of elementwise ops with their parameters, as in `<add,clip(0.0,6.0)>`";
            let meant = meant.map(|step| format!("did you mean `{step}`? ")).unwrap_or_default();
            (why, format!("{meant}{form}"))
        }),
    }
}

/// Reads the steps of a chain. The error is the message, and the name of a step that was probably meant.
fn chain(text: &str, ops: &Ops) -> Result<Vec<Step>, (String, Option<&'static str>)> {
    let plain = |why: String| (why, None);
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find([',', '(']).unwrap_or(rest.len());
        let name = rest[..end].trim();
        let mut parameters = Vec::new();
        let mut tail = &rest[end..];
        if let Some(inside) = tail.strip_prefix('(') {
            let close = inside.find(')').ok_or_else(|| plain("a step's `(` is not closed".to_owned()))?;
            for item in inside[..close].split(',') {
                parameters.push(Float(
                    item.trim().parse().map_err(|_| plain(format!("`{}` is not a number", item.trim())))?,
                ));
            }
            tail = &inside[close + 1..];
        }
        let op = ops
            .step(name)
            .ok_or_else(|| (format!("`{name}` cannot be a post step"), suggestion(name, ops.step_names())))?;
        steps.push(step(op, parameters).map_err(plain)?);
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
