//! Why tries were no instances, counted.
//!
//! Drawn numbers differ from try to try, so that reasons are counted without them; what is told is the
//! first of each, with its numbers. A guard's noes are counted together, whatever it saw.

use std::collections::BTreeMap;

/// Why a try is no instance.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    /// What happened.
    text: String,
    /// The guard that said no, by its position among the rule's.
    guard: Option<usize>,
    /// Whether both sides were evaluated before it was refused.
    pub evaluated: bool,
}

impl Refusal {
    /// A guard's no.
    pub fn guard(at: usize, text: String) -> Self {
        Self { text, guard: Some(at), evaluated: false }
    }

    /// After both sides were evaluated.
    pub fn late(text: &str) -> Self {
        Self { text: text.to_owned(), guard: None, evaluated: true }
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self { text, guard: None, evaluated: false }
    }
}

/// A reason for which tries were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The first refusal of its kind.
    pub text: String,
    /// The guard that said no, by its position among the rule's.
    pub guard: Option<usize>,
    /// How often it came.
    pub count: usize,
}

/// Reasons with how often they came.
#[derive(Default)]
pub(super) struct Reasons(BTreeMap<(Option<usize>, String), Reason>);

impl Reasons {
    /// Counts a refusal.
    pub fn add(&mut self, refusal: Refusal) {
        let Refusal { text, guard, .. } = refusal;
        let key = (guard, if guard.is_some() { String::new() } else { blurred(&text) });
        self.0.entry(key).or_insert(Reason { text, guard, count: 0 }).count += 1;
    }

    /// So many of them, the most frequent first.
    pub fn most(self, count: usize) -> Vec<Reason> {
        let mut reasons: Vec<Reason> = self.0.into_values().collect();
        reasons.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.text.cmp(&b.text)));
        reasons.truncate(count);
        reasons
    }
}

/// A reason without its numbers.
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
