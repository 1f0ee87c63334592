//! One e-graph for all plans of a tuning.
//!
//! A tuning extracts a plan many times: by the times so far, by the price list, with disturbed prices. The e-graph is the
//! same for all of them, because rules do not depend on prices.

use ovolo::compile::{Compilation, Options, Stage};
use ovolo::error::Error;
use ovolo::graph::Graph;
use ovolo::stage::{Planned, Saturated};
use std::time::{Duration, Instant};

/// A graph with its e-graph.
pub(crate) struct Source<'g> {
    pub graph: &'g Graph,
    pub saturated: Saturated,
    /// The stages of the compilation before the extraction.
    stages: Vec<Stage>,
}

/// A plan, and how long it took to extract it.
pub(crate) struct Extracted {
    pub planned: Planned,
    pub took: Duration,
}

impl<'g> Source<'g> {
    /// Runs the passes of the options up to the extraction.
    pub fn new(graph: &'g Graph, options: &Options) -> Result<Self, Error> {
        let mut stages = Vec::new();
        let saturated = options.saturate_into(graph, &mut stages)?;
        Ok(Self { graph, saturated, stages })
    }

    /// Extracts a plan by the cost model and the times of the options.
    pub fn extract(&self, options: &Options) -> Result<Extracted, Error> {
        let start = Instant::now();
        let planned = options.plan(&self.saturated)?;
        Ok(Extracted { planned, took: start.elapsed() })
    }

    /// Returns the compilation that led to a plan.
    pub fn compilation(self, options: &Options, extracted: Extracted) -> Result<Compilation, Error> {
        options.finish(self.stages, extracted.planned.chosen, extracted.took)
    }
}
