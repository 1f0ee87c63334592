//! The second best candidate of every choice: `explain --runner-up`.

use crate::egraph::RunnerUp;
use crate::error::Error;
use crate::op::Call;
use crate::stage::priced::choose;
use crate::stage::{Choice, Priced};

impl Priced<'_> {
    /// Returns the runner-up of every node of the chosen program, with the smallest difference first. This takes one
    /// extraction for each node with a cost. `progress` gets the number of extractions that have begun, and the
    /// number of all.
    ///
    /// # Errors
    /// As for [`Priced::choose`].
    pub fn runner_ups(
        &self,
        choice: &Choice,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<RunnerUp>, Error> {
        let (trial, _) = choose(&self.chooser(choice), choice)?;
        let kernels = |call: &Call<'_>| self.target.contract(call);
        let target = (self.target.threads, &kernels as _);
        let mut found = self.pick.runner_ups(&*choice.extractor, &trial.extraction, target, progress);
        found.sort_by(|a, b| a.margin.total_cmp(&b.margin).then_with(|| a.value.cmp(&b.value)));
        Ok(found)
    }
}
