//! Orders the steps and gives every buffer its place.

use super::pipeline::Plan as Settings;
use super::{Context, Pass, PassReport, State};
use crate::contract::Call;
use crate::cost::{self, Query};
use crate::error::Error;
use crate::op;
use crate::plan::Plan;

/// The memory plan.
pub(super) struct PlanMemory(pub Settings);

impl Pass for PlanMemory {
    fn name(&self) -> &str {
        "plan"
    }

    fn run(&self, state: &mut State, context: &Context<'_>) -> Result<PassReport, Error> {
        let ask = |call: &Call<'_>, constant: &[bool]| {
            let contract = context.contract(call)?;
            let seconds = match (&state.cost, op::find(call.op)) {
                (Some(model), Some(def)) => {
                    let query = Query { def, call: *call, constant, contract: &contract };
                    model.seconds(&query).ok_or_else(|| {
                        format!("the cost model `{}` has no price for {}", model.name(), cost::key(&query))
                    })?
                }
                _ => 0.0,
            };
            Ok((contract, seconds))
        };
        let plan =
            Plan::new(&state.graph, &state.rules, context.threads, &ask, &self.0.order, &self.0.planner)?;
        let report = PassReport::Plan {
            steps: plan.steps.len(),
            arena: plan.arena,
            lower_bound: plan.lower_bound,
            proven: plan.proven,
        };
        state.plan = Some(plan);
        Ok(report)
    }
}
