//! The pass that orders the steps and assigns an offset to every buffer.

use super::{Context, Pass, PassReport, Scope, State};
use crate::error::Error;
use crate::memory::Limit;
use crate::ron::{Reader, Spanned};
use crate::stage::Planning;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The pass `plan`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename = "Plan")]
pub struct PlanMemory {
    /// The order of execution: one of [`Catalog::orders`](super::Catalog).
    pub order: Spanned<String>,
    /// The planner.
    pub planner: Spanned<String>,
    /// The most bytes that the plan may take of each device: its arena and the constants that it keeps.
    pub limits: Limit,
}

impl Default for PlanMemory {
    fn default() -> Self {
        let [order, planner] = Planning::DEFAULT;
        Self { order: order.into(), planner: planner.into(), limits: Limit::default() }
    }
}

impl Pass for PlanMemory {
    fn name(&self) -> &str {
        "plan"
    }

    fn check(&self, scope: &Scope<'_>, reader: &mut Reader<'_>) {
        let orders: Vec<&str> = scope.catalog.orders.names().collect();
        let planners: Vec<&str> = scope.catalog.planners.names().collect();
        reader.known("order", &self.order, &orders);
        reader.known("planner", &self.planner, &planners);
    }

    fn run(&self, state: State, context: &Context<'_>) -> Result<(State, PassReport), Error> {
        let planned = state.into_chosen(self.name())?.plan(&self.planning(context)?)?;
        let plan = &planned.plan;
        let (arenas, constants) = (plan.arenas().collect(), plan.kept(&planned.chosen.program));
        let (again, replaced) = (plan.again(), plan.replaced());
        let report = PassReport::Plan { steps: plan.steps.len(), arenas, constants, again, replaced };
        Ok((State::Planned(Box::new(planned)), report))
    }
}

impl PlanMemory {
    /// Returns the order, the planner and the limits that the settings name.
    ///
    /// # Errors
    /// If no order or no planner has the name.
    pub(super) fn planning(&self, context: &Context<'_>) -> Result<Planning, Error> {
        Ok(Planning {
            order: Arc::clone(context.catalog.orders.find(&self.order)?),
            planner: Arc::clone(context.catalog.planners.find(&self.planner)?),
            limits: self.limits.clone(),
        })
    }
}
