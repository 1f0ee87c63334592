//! Plans within limits in which some values are computed again.

use super::Room;
use crate::egraph::Program;
use crate::error::Error;
use crate::extract::Extraction;
use crate::graph::NodeId;
use crate::memory::{Limit, Recomputation};
use crate::plan::{Plan, Work, constant_bytes};
use crate::stage::planning;
use crate::stage::search::trial::{Chooser, Trial};
use crate::tensor::Device;

/// How often a program is planned for one limit. The live bytes by which values are dropped differ from those of a plan,
/// which computes in place, but leaves gaps.
const PLANS: usize = 5;

/// A program whose values may be computed again, with the order in which its fastest plan runs.
pub(super) struct Base {
    extraction: Extraction,
    /// The time of the plan's steps, in seconds, with what memory planning adds.
    seconds: f64,
    program: Program,
    /// The node of each task.
    nodes: Vec<NodeId>,
    /// `None` where nothing can be computed again.
    recomputation: Option<Recomputation>,
}

impl Base {
    /// Takes the program of a plan.
    pub(super) fn new(trial: &Trial, chooser: &Chooser<'_>) -> Result<Self, Error> {
        let Work { nodes, tasks, seconds } =
            planning::work(&trial.program.graph, chooser.model, chooser.target)?;
        let mut task_of = vec![None; trial.program.graph.len()];
        nodes.iter().enumerate().for_each(|(task, node)| task_of[node.index()] = Some(task));
        let order = trial.plan.steps.iter().filter_map(|step| task_of[step.node.index()]).collect();
        Ok(Self {
            extraction: trial.extraction.clone(),
            seconds: trial.plan.seconds(),
            program: trial.program.clone(),
            nodes,
            recomputation: Recomputation::new(&tasks, &seconds, order),
        })
    }

    /// Returns a plan of this program within the limits, in which some values are computed again; `None` if none is found.
    /// Its cost includes what is computed again.
    pub(super) fn within(&self, room: &Room, chooser: &Chooser<'_>) -> Result<Option<Trial>, Error> {
        let within = room.beside(&constant_bytes(&self.program.graph));
        let (Some(recomputation), Some(most)) = (&self.recomputation, within.get(Device::Host)) else {
            return Ok(None);
        };
        let mut limit = most;
        for _ in 0..PLANS {
            let Some(found) = recomputation.within(limit) else { break };
            let nodes: Vec<NodeId> = found.runs.iter().map(|task| self.nodes[*task]).collect();
            let program = self.program.repeated(&nodes);
            let plan = chooser.planning.plan(&program.graph, &[], chooser.model, chooser.target, &within)?;
            if room.holds(&plan) {
                return Ok(Some(self.trial(program, plan, &within)));
            }
            let above = plan.arena_of(Device::Host).saturating_sub(most).max(most / 256).max(1);
            let Some(less) = limit.checked_sub(above) else { break };
            limit = less;
        }
        Ok(None)
    }

    fn trial(&self, program: Program, plan: Plan, within: &Limit) -> Trial {
        let mut extraction = self.extraction.clone();
        extraction.cost += plan.seconds() - self.seconds;
        extraction.proven = false;
        extraction.settle();
        Trial { extraction, program, plan, within: within.clone() }
    }
}
