//! An imported model.

use super::saturated::Saturated;
use crate::graph::Graph;
use crate::verify::{Verified, VerifyErrors, verify};

/// The first stage: a graph that the verifier has accepted.
#[derive(Clone, Debug)]
pub struct Imported {
    graph: Verified,
}

impl Imported {
    /// Verifies a graph.
    ///
    /// # Errors
    /// All mistakes in the graph.
    pub fn new(graph: Graph) -> Result<Self, VerifyErrors> {
        Ok(Self { graph: verify(graph)? })
    }

    /// Returns the graph.
    pub fn graph(&self) -> &Verified {
        &self.graph
    }

    /// Returns the e-graph of the graph, before any phase of rewriting.
    pub fn saturate(self) -> Saturated {
        Saturated::new(self.graph)
    }
}

impl From<Verified> for Imported {
    fn from(graph: Verified) -> Self {
        Self { graph }
    }
}
