//! Describes for users what a buffer holds at a step.

use super::{Base, Placed, Plan, Step};
use std::cmp::Reverse;
use std::fmt::Write;
use std::ops::Range;

/// The most values of a buffer that are named.
const NAMED: usize = 3;

impl Plan {
    /// Describes what a buffer holds while a step runs: the scratch of this step, or the values that lie in it then,
    /// the largest first, with their types.
    pub(crate) fn occupants(&self, buffer: &Placed, at: usize) -> String {
        match self.steps.get(at) {
            Some(step)
                if step.scratch > 0
                    && step.output_type.device == buffer.device
                    && step.scratch_offset == buffer.offset
                    && buffer.upper == buffer.lower + 1 =>
            {
                format!("scratch of `{}`", step.name)
            }
            _ => words(&self.values(buffer, at)),
        }
    }

    /// Returns the values that lie in a buffer after a step has run, and the bytes of each.
    fn values(&self, buffer: &Placed, at: usize) -> Vec<(usize, &Step)> {
        let mut held: Vec<(Range<usize>, &Step)> = Vec::new();
        for step in self.steps.iter().take(at + 1).skip(buffer.lower) {
            let new = step.output.offset..step.output.offset + step.output_type.bytes();
            let inside = (buffer.offset..buffer.offset + buffer.size).contains(&new.start);
            if step.output.base != Base::Arena(buffer.device) || !inside {
                continue;
            }
            // A new value overwrites the values below it, except the bytes beyond its range.
            held = held
                .into_iter()
                .flat_map(|(old, of)| {
                    [old.start..old.end.min(new.start), old.start.max(new.end)..old.end]
                        .map(|rest| (rest, of))
                })
                .filter(|(rest, _)| !rest.is_empty())
                .collect();
            held.push((new, step));
        }
        let mut values: Vec<(usize, &Step)> = Vec::new();
        for (range, step) in held {
            match values.iter_mut().find(|(_, known)| std::ptr::eq(*known, step)) {
                Some((bytes, _)) => *bytes += range.len(),
                None => values.push((range.len(), step)),
            }
        }
        values.sort_by_key(|(bytes, _)| Reverse(*bytes));
        values
    }
}

fn words(values: &[(usize, &Step)]) -> String {
    if values.is_empty() {
        return "space for values that are computed later".to_owned();
    }
    let one = |(_, step): &(usize, &Step)| format!("`{}` {}", step.name, step.output_type);
    let mut text = values.iter().take(NAMED).map(one).collect::<Vec<_>>().join(", ");
    if values.len() > NAMED {
        let _ = write!(text, " and {} more", values.len() - NAMED);
    }
    text
}
