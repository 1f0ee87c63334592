//! Counts why attempts gave no instance.
//!
//! Random numbers differ between attempts, so reasons are counted without their numbers, and the first of
//! each kind is reported with its numbers. All refusals of one guard are counted together.

use super::untyped::Untyped;
use std::collections::BTreeMap;

/// Why an attempt gave no instance.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    /// What happened.
    text: String,
    /// The guard that refused, by its position among the rule's guards.
    guard: Option<usize>,
    /// Whether both sides had been evaluated before the refusal.
    pub evaluated: bool,
}

impl Refusal {
    /// Returns the refusal of a guard.
    pub fn guard(at: usize, text: String) -> Self {
        Self { text, guard: Some(at), evaluated: false }
    }

    /// Returns a refusal after both sides were evaluated.
    pub fn late(text: &str) -> Self {
        Self { text: text.to_owned(), guard: None, evaluated: true }
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self { text, guard: None, evaluated: false }
    }
}

impl From<Untyped> for Refusal {
    fn from(why: Untyped) -> Self {
        why.to_string().into()
    }
}

/// A reason why attempts were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The text of the first refusal of its kind.
    pub text: String,
    /// The guard that refused, by its position among the rule's guards.
    pub guard: Option<usize>,
    /// How often it occurred.
    pub count: usize,
}

/// Reasons, and how often they occurred.
#[derive(Default)]
pub(super) struct Reasons(BTreeMap<(Option<usize>, String), Reason>);

impl Reasons {
    /// Counts a refusal.
    pub fn add(&mut self, refusal: Refusal) {
        let Refusal { text, guard, .. } = refusal;
        let key = (guard, if guard.is_some() { String::new() } else { blurred(&text) });
        self.0.entry(key).or_insert(Reason { text, guard, count: 0 }).count += 1;
    }

    /// Returns the `count` most frequent reasons, the most frequent first.
    pub fn most(self, count: usize) -> Vec<Reason> {
        let mut reasons: Vec<Reason> = self.0.into_values().collect();
        reasons.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.text.cmp(&b.text)));
        reasons.truncate(count);
        reasons
    }
}

/// Removes the numbers from a reason.
fn blurred(why: &str) -> String {
    let mut text = String::with_capacity(why.len());
    for c in why.chars() {
        match c {
            '0'..='9' if text.ends_with('#') => {}
            '0'..='9' => text.push('#'),
            _ => text.push(c),
        }
    }
    text
}
