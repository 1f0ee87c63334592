//! The state of a compilation between two passes.

use crate::egraph::EGraph;
use crate::error::Error;
use crate::graph::Graph;
use crate::stage::{Chosen, Imported, Planned, Saturated};

/// The stage of a compilation between two passes.
pub enum State {
    /// The imported graph.
    Imported(Imported),
    /// An e-graph, before a program is chosen.
    Saturated(Box<Saturated>),
    /// A chosen program.
    Chosen(Box<Chosen>),
    /// A chosen program with its plan.
    Planned(Box<Planned>),
}

impl State {
    /// Returns the imported graph, or the chosen program.
    pub fn graph(&self) -> &Graph {
        match self {
            Self::Imported(imported) => imported.graph(),
            Self::Saturated(saturated) => saturated.graph(),
            Self::Chosen(chosen) => &chosen.program,
            Self::Planned(planned) => &planned.chosen.program,
        }
    }

    /// Returns the e-graph. It exists from the first rewriting pass to the extraction.
    pub fn egraph(&self) -> Option<&EGraph> {
        match self {
            Self::Saturated(saturated) => Some(saturated.egraph()),
            _ => None,
        }
    }

    /// Returns the e-graph and the results of its phases. If no pass has rewritten the imported graph, the e-graph
    /// contains only that graph.
    ///
    /// # Errors
    /// If a program is already chosen, because the e-graph then no longer exists. `pass` is the pass that needs it.
    pub fn into_saturated(self, pass: &str) -> Result<Saturated, Error> {
        match self {
            Self::Imported(imported) => Ok(imported.saturate()),
            Self::Saturated(saturated) => Ok(*saturated),
            Self::Chosen(_) | Self::Planned(_) => Err(Error::Misplaced {
                pass: pass.to_owned(),
                why: "needs the e-graph, and a program has already been chosen from it: put the pass before `Extract`",
            }),
        }
    }

    /// Returns the chosen program.
    ///
    /// # Errors
    /// If no program is chosen, or if it is already planned. `pass` is the pass that needs it.
    pub fn into_chosen(self, pass: &str) -> Result<Chosen, Error> {
        match self {
            Self::Chosen(chosen) => Ok(*chosen),
            Self::Planned(_) => Err(Error::Misplaced {
                pass: pass.to_owned(),
                why: "stands where the program is planned already",
            }),
            Self::Imported(_) | Self::Saturated(_) => Err(Error::Misplaced {
                pass: pass.to_owned(),
                why: "stands where nothing has been chosen: put `Extract` before it",
            }),
        }
    }

    /// Returns the program with its plan, if it is planned.
    pub fn into_planned(self) -> Option<Planned> {
        match self {
            Self::Planned(planned) => Some(*planned),
            _ => None,
        }
    }
}
