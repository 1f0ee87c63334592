//! `ovolo grad`.

use super::{Choice, network, text_of, told};
use crate::step::Step;
use clap::Args;
use ovolo::file;
use ovolo::graph::text;
use ovolo::registry::Registry;
use ovolo_cli::{AddedCommand, Job, Refusal, Settings, print};
use std::path::PathBuf;
use std::sync::Arc;

/// The command `grad`, which makes one step of training from a model.
#[derive(Args)]
pub struct Grad {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    choice: Choice,
    /// Write the step as a graph in text form, which other commands take in place of a model. Constants are written in full.
    #[arg(long, short, value_name = "FILE.ovolo")]
    output: Option<PathBuf>,
}

impl AddedCommand for Grad {
    const NAME: &'static str = "grad";
    const ABOUT: &'static str = "Make the graph of one step of training from a model: its loss, gradients, and next parameters and state";

    fn run(&self, registry: &Arc<Registry>) -> Result<(), Refusal> {
        let network = network(registry, &self.settings)?;
        let recipe = self.choice.recipe(registry)?;
        let job = Job::new(Arc::clone(registry), self.settings.clone(), false);
        if let Some(output) = &self.output {
            if !text::is_named(output) {
                let name = output.display();
                return Err(
                    format!("--output {name}: a graph in text form is written: name it FILE.ovolo").into()
                );
            }
            job.check_output("--output", output, Vec::new())?;
        }
        let step = Step::new(registry, &network, &job.import()?, &recipe).map_err(text_of)?;
        let Some(output) = &self.output else {
            print(&text::print(&step.graph));
            return Ok(());
        };
        let text = text::print_in_full(&step.graph, &|_| None)
            .ok_or_else(|| format!("{}: a constant cannot be written as text", network.name()))?;
        file::write(output, &[text.as_bytes()]).map_err(|why| format!("{}: {why}", output.display()))?;
        print(&format!("{}\n", told(&step)));
        Ok(())
    }
}
