//! Checks that a node has the attributes and operands that its op declares.

use super::{Arity, Op, OpError, post};
use crate::attr::{Attr, Attrs, Step};
use crate::diagnostic::suggestion;

impl Op {
    /// Returns what is wrong with attributes of this op, one line for each mistake.
    pub fn attr_errors(self, attrs: &Attrs) -> Vec<String> {
        let mut errors = Vec::new();
        for (name, value) in attrs.iter() {
            match self.attr(name) {
                None => {
                    let close = suggestion(name, self.attrs.iter().map(|attr| attr.name));
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
        for declared in self.attrs.iter().filter(|declared| attrs.get(declared.name).is_none()) {
            let default =
                declared.default.as_ref().map_or_else(String::new, |value| format!(" (default {value})"));
            errors.push(format!("attribute `{}` is not set{default}", declared.name));
        }
        errors
    }

    /// Checks that the op with these attributes takes this many operands.
    ///
    /// # Errors
    /// How many operands the op takes.
    pub fn check_count(self, attrs: &Attrs, given: usize) -> Result<(), OpError> {
        let some = |count: usize| format!("{count} operand{}", if count == 1 { "" } else { "s" });
        let takes = match self.arity {
            Arity::Exactly(count) if given != count => some(count),
            Arity::AtLeast(count) if given < count => format!("at least {}", some(count)),
            Arity::Between(least, most) if !(least..=most).contains(&given) => {
                format!("{least} to {most} operands")
            }
            Arity::Post(count) => match post::extras(attrs.post()) {
                extra if given == count + extra => return Ok(()),
                0 => some(count),
                extra => format!("{} and {extra} for its post chain", some(count)),
            },
            Arity::Exactly(_) | Arity::AtLeast(_) | Arity::Between(..) => return Ok(()),
        };
        Err(OpError::Count { op: self.name, takes, given })
    }
}

fn step_error(written: &Step) -> Option<String> {
    if !post::is_known(written) {
        return Some(format!("`{}` is not a step of a post chain", written.op));
    }
    let (given, declared) = (written.parameters.len(), post::parameters(written.op).len());
    (given != declared)
        .then(|| format!("step `{}` has {given} parameters, {declared} are declared", written.op))
}
