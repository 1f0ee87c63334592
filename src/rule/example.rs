//! Examples: graphs that say what a rule does, and what it leaves alone.
//!
//! Those of `rules/FILE.ron` stand in `rules/examples/FILE.ron`, for the rules of each name:
//!
//! ```text
//! Examples(
//!     rule: "map-$op",
//!     examples: [
//!         Example(
//!             fires: "
//!                 x: f32[4] = input
//!                 y = $op(x)
//!                 return y
//!             ",
//!             after: "y = map(x) {post: <$op>}",
//!         ),
//!         Example(for: {"op": "exp"}, refuses: "…", because: "is-f32(?x)"),
//!     ],
//! )
//! ```
//!
//! A graph is in text form, without `graph { … }` around it. `after` lists what the graph holds
//! beside inputs and constants once the rule is applied at its first match; `because` is the guard
//! that says no, or `no match`. `for` keeps an example to some rows of a `for_each`; in any other,
//! `$key` is replaced as in the rule.

use crate::diagnostic::Span;
use std::sync::Arc;

/// A graph beside a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Example {
    /// The rule fires on this graph.
    Fires {
        /// The graph, in text form.
        graph: String,
        /// What it becomes, a statement a line; `None` while nobody has blessed it.
        after: Option<String>,
        /// Where the example stands.
        place: Place,
    },
    /// The rule does not fire on this graph.
    Refuses {
        /// The graph, in text form.
        graph: String,
        /// The guard that says no, or `no match`.
        because: Option<String>,
        /// Where the example stands.
        place: Place,
    },
}

/// The places of an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: Arc<str>,
    /// The graph, quotes included.
    pub graph: Span,
    /// What is expected, quotes included; where there is none, nothing after the graph.
    pub expected: Option<Span>,
    /// Whether other rows of a `for_each` read the same text.
    pub shared: bool,
}

impl Example {
    /// The graph, as a whole text.
    pub fn graph(&self) -> String {
        let (Self::Fires { graph, .. } | Self::Refuses { graph, .. }) = self;
        if graph.trim_start().starts_with("graph") { graph.clone() } else { format!("graph {{\n{graph}\n}}") }
    }

    /// Where it stands.
    pub fn place(&self) -> &Place {
        let (Self::Fires { place, .. } | Self::Refuses { place, .. }) = self;
        place
    }
}

/// The file of the examples of a rule file: `rules/examples/fuse.ron` for `rules/fuse.ron`.
pub fn beside(rules: &str) -> String {
    let (folder, file) = rules.split_at(rules.rfind(['/', '\\']).map_or(0, |at| at + 1));
    format!("{folder}examples/{file}")
}
