//! What a compilation has come to between two passes.

use crate::egraph::EGraph;
use crate::error::Error;
use crate::graph::Graph;
use crate::stage::{Chosen, Imported, Planned, Saturated};

/// A compilation between two passes: the stage that it has reached.
pub enum State {
    /// The graph as it was imported.
    Imported(Imported),
    /// An e-graph, before anything has been chosen.
    Saturated(Box<Saturated>),
    /// A program.
    Chosen(Box<Chosen>),
    /// A program with its plan.
    Planned(Box<Planned>),
}

impl State {
    /// The graph: as imported, or the program that was chosen.
    pub fn graph(&self) -> &Graph {
        match self {
            Self::Imported(imported) => imported.graph(),
            Self::Saturated(saturated) => saturated.graph(),
            Self::Chosen(chosen) => &chosen.program,
            Self::Planned(planned) => &planned.chosen.program,
        }
    }

    /// The e-graph, from the first rewriting pass to the extraction.
    pub fn egraph(&self) -> Option<&EGraph> {
        match self {
            Self::Saturated(saturated) => Some(saturated.egraph()),
            _ => None,
        }
    }

    /// The e-graph with what was done to it: that of the imported graph alone where no pass has rewritten it.
    ///
    /// # Errors
    /// A program has been chosen, so the e-graph is gone; `pass` is the pass that needs it.
    pub fn into_saturated(self, pass: &str) -> Result<Saturated, Error> {
        match self {
            Self::Imported(imported) => Ok(imported.saturate()),
            Self::Saturated(saturated) => Ok(*saturated),
            Self::Chosen(_) | Self::Planned(_) => Err(Error::setting(format!(
                "pass `{pass}` needs the e-graph, and a program has already been chosen from it: put the pass before \
                 `Extract`"
            ))),
        }
    }

    /// The program that was chosen.
    ///
    /// # Errors
    /// Nothing has been chosen, or the program is planned already; `pass` is the pass that needs it.
    pub fn into_chosen(self, pass: &str) -> Result<Chosen, Error> {
        match self {
            Self::Chosen(chosen) => Ok(*chosen),
            Self::Planned(_) => {
                Err(Error::setting(format!("pass `{pass}` stands where the program is planned already")))
            }
            Self::Imported(_) | Self::Saturated(_) => Err(Error::setting(format!(
                "pass `{pass}` stands where nothing has been chosen: put `Extract` before it"
            ))),
        }
    }

    /// The program with its plan, if the compilation has come so far.
    pub fn into_planned(self) -> Option<Planned> {
        match self {
            Self::Planned(planned) => Some(*planned),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::text::parse;

    #[test]
    fn a_pass_that_stands_at_the_wrong_stage_is_told_where_to_stand() {
        let graph =
            parse(crate::fixture::ops(), "graph { x: f32[2] = input; y = relu(x); return y }").unwrap();
        let imported = || Imported::new(graph.clone()).unwrap();
        let early = State::Imported(imported()).into_chosen("plan").unwrap_err().to_string();
        assert!(early.contains("pass `plan`") && early.contains("put `Extract` before it"), "{early}");
        let saturated = State::Saturated(Box::new(imported().saturate()));
        assert_eq!(saturated.egraph().map(EGraph::classes), Some(2));
        assert_eq!(saturated.into_saturated("more").unwrap().growth().len(), 0);
        assert!(State::Imported(imported()).into_planned().is_none());
    }
}
