//! The processor: its name, and the instruction sets for which backends make plans.

use super::{Backend, BackendError};
use crate::diagnostic::suggestion;
use crate::table::{Table, Unknown};
use std::sync::Arc;

/// An instruction set of processors for which a backend has kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionSet {
    /// The name, such as `avx512`.
    pub name: &'static str,
    /// The features of processors that its kernels use, by the names that their makers give them.
    pub features: &'static [&'static str],
    /// The number of `f32` elements in a vector.
    pub lanes: usize,
    /// Whether this processor has it, so that plans for it run here.
    pub runs_here: bool,
}

/// The instruction sets among which a backend chooses kernels when it makes a plan. All plans of a process are for the
/// same one.
pub trait InstructionSets {
    /// Returns all of them, the smallest first.
    fn all(&self) -> Vec<InstructionSet>;

    /// Returns the one that plans are made for: the one that [`InstructionSets::plan_for`] was given, or else the best of
    /// this processor. From the first call on it stays the same.
    fn planned(&self) -> InstructionSet;

    /// Returns the name of the one for plans that are to be the same on every machine, such as those in snapshots.
    fn baseline(&self) -> &'static str;

    /// Makes this process plan for one of them, by its name. A plan for less than the processor has runs here; a plan for
    /// more can be inspected but not run.
    ///
    /// # Errors
    /// There is none of this name, or something was already planned for another one.
    fn plan_for(&self, name: &str) -> Result<(), BackendError>;
}

impl Table<Arc<dyn Backend>> {
    /// Returns the features of processors that plans are made for, of all backends, each once.
    pub fn planned_features(&self) -> Vec<&'static str> {
        let mut found = Vec::new();
        for set in self.instruction_sets().map(InstructionSets::planned) {
            for feature in set.features {
                if !found.contains(feature) {
                    found.push(*feature);
                }
            }
        }
        found
    }

    /// Makes this process plan for an instruction set: those backends that have one of this name. Call this once, before
    /// anything is planned.
    ///
    /// # Errors
    /// No backend has an instruction set of this name, or something was already planned for another one.
    pub fn plan_for(&self, name: &str) -> Result<(), BackendError> {
        let mut known: Vec<&'static str> = Vec::new();
        let mut told = false;
        for sets in self.instruction_sets() {
            let names: Vec<&'static str> = sets.all().into_iter().map(|set| set.name).collect();
            if names.contains(&name) {
                sets.plan_for(name)?;
                told = true;
            }
            known.extend(names);
        }
        if told { Ok(()) } else { Err(unknown(name, &known).into()) }
    }

    /// Makes this process plan for the baselines of all backends, so that plans are the same on every machine, as those
    /// in snapshots must be. Call this once, before anything is planned.
    ///
    /// # Errors
    /// Something was already planned for another instruction set.
    pub fn plan_for_baseline(&self) -> Result<(), BackendError> {
        self.instruction_sets().try_for_each(|sets| sets.plan_for(sets.baseline()))
    }

    /// Returns the instruction sets of those backends that have some.
    pub fn instruction_sets(&self) -> impl Iterator<Item = &dyn InstructionSets> {
        self.iter().filter_map(|(_, backend)| backend.instruction_sets())
    }
}

/// Returns the processor's architecture, name, family, model and stepping, as far as the system reports them.
pub fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    let parts = ["model name", "cpu family", "model", "stepping"].map(|name| field(name).unwrap_or_default());
    format!("{} {}", std::env::consts::ARCH, parts.join(" ")).trim().to_owned()
}

/// Returns the error that there is no instruction set of this name.
fn unknown(name: &str, known: &[&'static str]) -> Unknown {
    Unknown {
        kind: "instruction set",
        name: name.to_owned(),
        nearest: suggestion(name, known.iter().copied()).map(ToOwned::to_owned),
        known: known.iter().map(|name| (*name).to_owned()).collect(),
    }
}
