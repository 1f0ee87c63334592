//! A program with its plan.

use super::chosen::Chosen;
use super::planning::Planning;
use super::search::too_large;
use crate::error::Error;
use crate::plan::{Plan, Step, constant_bytes};

/// The last stage: the program with the plan that runs it.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The program.
    pub chosen: Chosen,
    /// The plan of the program.
    pub plan: Plan,
}

impl Planned {
    /// Returns how the price of a step's kernel comes about, in lines for people; none if the cost model cannot say it.
    ///
    /// # Errors
    /// The reason why there is no kernel.
    pub fn account(&self, step: &Step) -> Result<Vec<String>, Error> {
        let target = &self.chosen.target;
        Ok(step.account(self.chosen.model(), target.threads, &|call| target.contract(call))?)
    }
}

impl Chosen {
    /// Plans the program: orders its steps, and assigns an offset to every buffer.
    ///
    /// # Errors
    /// If the plan needs more memory than the limits allow, or a kernel has no contract or no price.
    pub fn plan(self, planning: &Planning) -> Result<Planned, Error> {
        let beside = || planning.limits.less(&constant_bytes(&self.program));
        let within = self.within.clone().unwrap_or_else(beside);
        let plan = planning.plan(&self.program, &self.sources, &*self.model, &self.target, &within)?;
        match plan.above(&planning.limits) {
            Some((device, limit)) => {
                Err(Error::TooLarge { device, limit, why: too_large(&plan, device, limit) })
            }
            None => Ok(Planned { chosen: self, plan }),
        }
    }
}
