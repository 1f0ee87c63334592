//! Orders the steps and gives every buffer its place.

use super::{Context, Pass, PassReport, Scope, State};
use crate::cost::{self, CostModel, Query};
use crate::error::Error;
use crate::graph::Graph;
use crate::memory::Limit;
use crate::op::Call;
use crate::plan::{self, Plan, Source};
use crate::ron::{Reader, Spanned};
use serde::{Deserialize, Serialize};

/// The memory plan.
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
        Self { order: "reuse".into(), planner: "exact".into(), limits: Limit::default() }
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

    fn run(&self, state: &mut State, context: &Context<'_>) -> Result<PassReport, Error> {
        // What was chosen was chosen by its plan; another may not fit.
        let plan = match state.chosen.take() {
            Some(plan) => plan,
            None => {
                let limit = self.limits.less(&plan::constant_bytes(&state.graph));
                plan(&state.graph, &state.sources, state.cost.as_deref(), self, &limit, context)?
            }
        };
        if let Some((device, limit)) = plan.above(&self.limits) {
            return Err(Error::Plan(super::extract::too_large(&plan, device, limit)));
        }
        let (arenas, constants) = (plan.arenas().collect(), plan.kept(&state.graph));
        let report = PassReport::Plan { steps: plan.steps.len(), arenas, constants };
        state.plan = Some(plan);
        Ok(report)
    }
}

/// Plans a program whose steps are priced by a model; without one they cost nothing. The limit is one of arenas.
pub(super) fn plan(
    graph: &Graph,
    sources: &[Source],
    model: Option<&dyn CostModel>,
    settings: &PlanMemory,
    limit: &Limit,
    context: &Context<'_>,
) -> Result<Plan, Error> {
    let ask = |call: &Call<'_>, constant: &[bool]| {
        let contract = context.contract(call)?;
        let seconds = match model {
            Some(model) => {
                let query = Query { call: *call, constant, contract: &contract };
                model.seconds(&query).ok_or_else(|| {
                    format!("the cost model `{}` has no price for {}", model.name(), cost::key(&query))
                })?
            }
            None => 0.0,
        };
        Ok((contract, seconds))
    };
    let copy = |bytes: usize| model.map_or(0.0, |model| model.copy(bytes));
    let catalog = context.catalog;
    let order = &**catalog.orders.find(&settings.order)?;
    let planner = &**catalog.planners.find(&settings.planner)?;
    let settings = plan::Settings { order, planner, limit };
    Ok(Plan::new(graph, sources, context.threads, &ask, &copy, &settings)?)
}
