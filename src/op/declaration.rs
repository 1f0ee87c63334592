//! Whether a node has the attributes and operands that its op declares.

use super::{Arity, Op, post};
use crate::attr::{Attr, Attrs, Step};
use crate::error::suggestion;

/// What is wrong with a node's attributes, one line each.
pub fn attr_errors(def: Op, attrs: &Attrs) -> Vec<String> {
    let mut errors = Vec::new();
    for (name, value) in attrs.iter() {
        match def.attr(name) {
            None => {
                let close = suggestion(name, def.attrs.iter().map(|attr| attr.name));
                let advice = close.map_or_else(String::new, |close| format!("; did you mean `{close}`?"));
                errors.push(format!("there is no attribute `{name}`{advice}"));
            }
            Some(declared) if declared.kind != value.kind() => errors.push(format!(
                "attribute `{name}` is {value}, of kind {:?} where {:?} is declared",
                value.kind(),
                declared.kind
            )),
            Some(_) => {
                if let Attr::Post(steps) = value {
                    errors.extend(steps.iter().filter_map(step_error));
                }
            }
        }
    }
    for declared in def.attrs.iter().filter(|declared| attrs.get(declared.name).is_none()) {
        let default =
            declared.default.as_ref().map_or_else(String::new, |value| format!(" (default {value})"));
        errors.push(format!("attribute `{}` is not set{default}", declared.name));
    }
    errors
}

fn step_error(written: &Step) -> Option<String> {
    if !post::is_known(written) {
        return Some(format!("`{}` is not a step of a post chain", written.op));
    }
    let (given, declared) = (written.parameters.len(), post::parameters(written.op).len());
    (given != declared)
        .then(|| format!("step `{}` has {given} parameters, {declared} are declared", written.op))
}

/// Whether an op with these attributes takes so many operands.
///
/// # Errors
/// How many it takes.
pub fn operand_count(def: Op, attrs: &Attrs, given: usize) -> Result<(), String> {
    let are = if given == 1 { "1 is given".to_owned() } else { format!("{given} are given") };
    let takes = |count: usize, least: &str| {
        format!("`{}` takes {least}{count} operand{}", def.name, if count == 1 { "" } else { "s" })
    };
    match def.arity {
        Arity::Exactly(count) if given != count => Err(format!("{}, {are}", takes(count, ""))),
        Arity::AtLeast(count) if given < count => Err(format!("{}, {are}", takes(count, "at least "))),
        Arity::Between(least, most) if !(least..=most).contains(&given) => {
            Err(format!("`{}` takes {least} to {most} operands, {are}", def.name))
        }
        Arity::Post(count) => {
            let extra = post::extras(attrs.post());
            if given == count + extra {
                Ok(())
            } else if extra == 0 {
                Err(format!("{}, {are}", takes(count, "")))
            } else {
                Err(format!("{} and {extra} for its post chain, {are}", takes(count, "")))
            }
        }
        Arity::Exactly(_) | Arity::AtLeast(_) | Arity::Between(..) => Ok(()),
    }
}
