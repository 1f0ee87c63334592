//! The program that would be chosen without some kernels: `ovolo ablate --by kernel`, `ovolo compare --bisect`.

use crate::error::Error;
use crate::extract::Extraction;
use crate::stage::priced::choose;
use crate::stage::{Choice, Chosen, Priced};
use std::collections::BTreeMap;

impl Priced<'_> {
    /// Returns the lowered ops among whose kernels the choice is made, each with the number of its candidates that cost
    /// something.
    pub fn priced_ops(&self) -> BTreeMap<&'static str, usize> {
        self.pick.priced()
    }

    /// Chooses a program without the kernels of one op. The rest of the e-graph stays, so the rules that lead from this
    /// op to others still count. Candidates that cost nothing stay as well.
    ///
    /// # Errors
    /// As for [`Priced::choose`]; [`Error::NothingRuns`] if no other kernel computes a value that is needed.
    pub fn without(&self, choice: &Choice, op: &str) -> Result<Extraction, Error> {
        let problem = self.pick.scaled(&|name| if name == op { f64::INFINITY } else { 1.0 });
        let mut chooser = self.chooser(choice);
        chooser.problem = &problem;
        Ok(choose(&chooser, choice)?.0.extraction)
    }

    /// As [`Priced::without`], for several ops; returns the program itself.
    ///
    /// # Errors
    /// As for [`Priced::without`].
    pub fn choose_without(&self, choice: &Choice, ops: &[&str]) -> Result<Chosen, Error> {
        let problem = self.pick.scaled(&|name| if ops.contains(&name) { f64::INFINITY } else { 1.0 });
        let mut chooser = self.chooser(choice);
        chooser.problem = &problem;
        let (trial, objective) = choose(&chooser, choice)?;
        Ok(self.chosen(trial, objective))
    }
}
