//! The command `extend steps`: an example of a command that another crate adds to the program.

use ovolo::registry::Registry;
use ovolo_cli::{AddedCommand, Job, Refusal, Settings, print};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Counts the steps of a model's plan.
#[derive(clap::Args)]
pub struct Steps {
    #[command(flatten)]
    settings: Settings,
    /// Count only the steps of this backend.
    #[arg(long)]
    backend: Option<String>,
}

impl AddedCommand for Steps {
    const NAME: &'static str = "steps";
    const ABOUT: &'static str = "Count the steps of a model's plan by their backends";

    fn run(&self, registry: &Arc<Registry>) -> Result<(), Refusal> {
        if let Some(name) = &self.backend {
            registry.backends().find(name).map_err(|why| why.to_string())?;
        }
        let (compilation, _) = Job::new(Arc::clone(registry), self.settings.clone(), false).compile()?;
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for backend in compilation.plan.steps.iter().filter_map(|step| step.op.backend()) {
            *counts.entry(backend).or_default() += 1;
        }
        for (backend, count) in counts {
            if self.backend.as_deref().is_none_or(|only| only == backend) {
                print(&format!("{backend}: {count}\n"));
            }
        }
        Ok(())
    }
}
