//! `ovolo rules`: commands for those who write rules.

mod verify;

use super::Outcome;
use clap::{Args, Subcommand};

#[derive(Args)]
pub(super) struct Rules {
    #[command(subcommand)]
    command: RulesCommand,
}

#[derive(Subcommand)]
enum RulesCommand {
    /// Check every rule numerically on generated instances, and members of models' e-graphs.
    Verify(verify::Verify),
}

impl Rules {
    pub(super) fn run(&self) -> Outcome {
        match &self.command {
            RulesCommand::Verify(command) => command.run(),
        }
    }
}
