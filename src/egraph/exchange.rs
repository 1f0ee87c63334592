//! Names for the classes and nodes of a priced e-graph, for files that other extractors read.

use super::runner_up::words;
use super::{Pick, Term};
use crate::extract::{Label, Named};

impl Pick<'_> {
    /// Returns the problem with the ops, attributes and types of the e-graph. Classes are called `c0`, `c1`, …, as in
    /// the e-graph's text; the nodes of each class are numbered from zero.
    pub(crate) fn named(&self) -> Named {
        let label = |class: usize, (place, term): (usize, &&Term)| Label {
            id: format!("c{class}.{place}"),
            op: term.leaf_name().map_or_else(|| words(term), |name| format!("{} {name}", term.op)),
        };
        let labels = |(class, terms): (usize, &Vec<&Term>)| {
            terms.iter().enumerate().map(|node| label(class, node)).collect()
        };
        Named {
            problem: self.problem.clone(),
            classes: (0..self.classes.len()).map(|class| format!("c{class}")).collect(),
            types: self.classes.iter().map(|id| Some(self.egraph.ty(*id).to_string())).collect(),
            nodes: self.terms.iter().enumerate().map(labels).collect(),
        }
    }
}
