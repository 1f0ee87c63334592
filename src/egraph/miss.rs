//! How far the search for a match got.

use crate::rule::Pattern;
use egg::Id;

/// Where a search got furthest.
#[derive(Default)]
pub(super) struct Nearest {
    /// The position of the left side that the search begins with.
    pub first: usize,
    /// The class at which it is to stand.
    pub only: Option<Id>,
    /// How deep, the part, where, and why.
    pub miss: Option<(usize, Pattern, Option<Id>, String)>,
}

impl Nearest {
    /// A part that does not stand at a class, or anywhere, when so many do. The first that got
    /// furthest is kept.
    pub(crate) fn note(
        &mut self,
        depth: usize,
        pattern: &Pattern,
        class: Option<Id>,
        why: impl FnOnce() -> String,
    ) {
        if self.miss.as_ref().is_none_or(|(best, ..)| depth > *best) {
            self.miss = Some((depth, pattern.clone(), class, why()));
        }
    }
}
