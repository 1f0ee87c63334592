//! The settings for planning programs.

use super::target::Target;
use crate::cost::{self, CostModel, Query};
use crate::error::Error;
use crate::graph::Graph;
use crate::memory::{self, Limit, Order, Planner};
use crate::op::{Call, Contract, OpError};
use crate::plan::{self, Plan, Source, Work};
use std::sync::Arc;

/// The settings for planning programs.
#[derive(Clone)]
pub struct Planning {
    /// The method that orders the steps.
    pub order: Arc<dyn Order>,
    /// The planner that assigns offsets to buffers.
    pub planner: Arc<dyn Planner>,
    /// The most bytes that a plan may take of each device: its arena and the constants that it keeps.
    pub limits: Limit,
}

impl Planning {
    /// The names of the default order and of the default planner.
    pub const DEFAULT: [&str; 2] = ["search", "exact"];

    /// Plans a program whose steps are priced by a model. Copies are added to keep the arenas `within` limits, in which
    /// constants do not count; where that does not succeed, the plan is larger.
    pub(super) fn plan(
        &self,
        graph: &Graph,
        sources: &[Source],
        model: &dyn CostModel,
        target: &Target,
        within: &Limit,
    ) -> Result<Plan, Error> {
        let ask = |call: &Call<'_>, constant: &[bool]| ask(model, target, call, constant);
        let copy = |bytes: usize| model.copy(bytes);
        let settings = plan::Settings { order: &*self.order, planner: &*self.planner, limit: within };
        Ok(Plan::new(graph, sources, target.threads, &ask, &copy, &settings)?)
    }
}

/// Returns the tasks of a program, with their times by a model.
pub(super) fn work(graph: &Graph, model: &dyn CostModel, target: &Target) -> Result<Work, Error> {
    Ok(Work::new(graph, target.threads, &|call, constant| ask(model, target, call, constant))?)
}

/// Returns the contract of a kernel, and its price in seconds.
fn ask(
    model: &dyn CostModel,
    target: &Target,
    call: &Call<'_>,
    constant: &[bool],
) -> Result<(Contract, f64), OpError> {
    let contract = target.contract(call)?;
    let query = Query { call: *call, constant, contract: &contract };
    let seconds = model
        .seconds(&query)
        .ok_or_else(|| OpError::Unpriced { model: model.name().to_owned(), call: cost::key(&query) })?;
    Ok((contract, seconds))
}

impl Default for Planning {
    fn default() -> Self {
        let [order, planner] = Self::DEFAULT;
        let own = "the default is one of ovolo's own";
        Self {
            order: Arc::clone(memory::execution_orders().get(order).expect(own)),
            planner: Arc::clone(memory::planners().get(planner).expect(own)),
            limits: Limit::default(),
        }
    }
}
