//! Examples: graphs that show what a rule does, and where it does not apply.
//!
//! The examples of `rules/FILE.ron` are in `rules/examples/FILE.ron`, grouped by the names of rules:
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
//! A graph is in text form, without `graph { … }` around it. `after` lists the nodes of the graph, except inputs and
//! constants, after the rule is applied to its first match. `because` is the guard that rejects the match, or
//! `no match`. `for` restricts an example to some rows of a `for_each`. `$key` is replaced as in the rule.

use crate::diagnostic::Span;
use std::sync::Arc;

/// An example of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Example {
    /// The rule fires on this graph.
    Fires {
        /// The graph, in text form.
        graph: String,
        /// The result, with one statement on each line; `None` if it is not blessed yet.
        after: Option<String>,
        /// The position of the example.
        place: Place,
    },
    /// The rule does not fire on this graph.
    Refuses {
        /// The graph, in text form.
        graph: String,
        /// The guard that rejects the match, or `no match`.
        because: Option<String>,
        /// The position of the example.
        place: Place,
    },
}

/// The positions of an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: Arc<str>,
    /// The graph, including quotes.
    pub graph: Span,
    /// The expected text, including quotes. If there is none, `None`.
    pub expected: Option<Span>,
    /// Whether other rows of a `for_each` use the same text.
    pub shared: bool,
}

impl Example {
    /// The fields of an example in a file, with their meanings.
    pub const FIELDS: &'static [(&'static str, &'static str)] = &[
        ("fires", "a graph, in text form, on which the rule fires"),
        ("after", "the nodes of that graph after the first match, except inputs and constants"),
        ("refuses", "a graph on which the rule does not fire"),
        ("because", "the guard that rejects the match, or `no match`"),
        ("for", "the rows of `for_each` that the example is about: `{\"op\": \"exp\"}`"),
    ];

    /// Returns the complete text of the graph.
    pub fn graph(&self) -> String {
        let (Self::Fires { graph, .. } | Self::Refuses { graph, .. }) = self;
        if graph.trim_start().starts_with("graph") { graph.clone() } else { format!("graph {{\n{graph}\n}}") }
    }

    /// Returns the position of the example.
    pub fn place(&self) -> &Place {
        let (Self::Fires { place, .. } | Self::Refuses { place, .. }) = self;
        place
    }
}

/// Returns the file with the examples of a rule file: `rules/examples/fuse.ron` for `rules/fuse.ron`.
pub fn beside(rules: &str) -> String {
    let (folder, file) = rules.split_at(rules.rfind(['/', '\\']).map_or(0, |at| at + 1));
    format!("{folder}examples/{file}")
}
