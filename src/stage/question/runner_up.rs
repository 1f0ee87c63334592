//! The next best of every choice: `explain --runner-up`.

use crate::egraph::RunnerUp;
use crate::extract::Extractor;
use crate::op::Call;
use crate::stage::{Chosen, Priced};

impl Priced<'_> {
    /// The runner-up of every node of a chosen program, the closest call first. One extraction for each node that
    /// costs something; `progress` is told how many of how many have begun.
    pub fn runner_ups(
        &self,
        chosen: &Chosen,
        extractor: &dyn Extractor,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Vec<RunnerUp> {
        let kernels = |call: &Call<'_>| self.target.contract(call);
        let target = (self.target.threads, &kernels as _);
        let mut found = self.pick.runner_ups(extractor, &chosen.extraction, target, progress);
        found.sort_by(|a, b| a.margin.total_cmp(&b.margin).then_with(|| a.value.cmp(&b.value)));
        found
    }
}
