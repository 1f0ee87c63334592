//! The settings for planning programs.

use super::target::Target;
use crate::cost::{self, CostModel, Query};
use crate::error::Error;
use crate::graph::Graph;
use crate::memory::{self, Limit, Order, Planner};
use crate::op::{Call, OpError};
use crate::plan::{self, Plan, Source};
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
        let ask = |call: &Call<'_>, constant: &[bool]| {
            let contract = target.contract(call)?;
            let query = Query { call: *call, constant, contract: &contract };
            let seconds = model.seconds(&query).ok_or_else(|| OpError::Unpriced {
                model: model.name().to_owned(),
                call: cost::key(&query),
            })?;
            Ok((contract, seconds))
        };
        let copy = |bytes: usize| model.copy(bytes);
        let settings = plan::Settings { order: &*self.order, planner: &*self.planner, limit: within };
        Ok(Plan::new(graph, sources, target.threads, &ask, &copy, &settings)?)
    }
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
