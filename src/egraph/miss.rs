//! The failed match that came furthest.

use crate::rule::Pattern;
use egg::Id;

/// The search for the failed match that came furthest.
#[derive(Default)]
pub(super) struct Nearest {
    /// The position of the left side that the search begins with.
    pub first: usize,
    /// The class that this left side must match, if there is one.
    pub only: Option<Id>,
    /// The number of matched parts, the part that failed, the class, and the reason.
    pub miss: Option<(usize, Pattern, Option<Id>, String)>,
}

impl Nearest {
    /// Notes that a part does not match a class, or any class, after `depth` parts matched. Of the failures that came
    /// furthest, the first is kept.
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
