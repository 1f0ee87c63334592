//! The program: the commands of this crate, and those that other crates add.

use super::command::Arguments;
use super::{Refusal, environment, failed, fault, finished};
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches};
use ovolo::registry::Registry;
use ovolo::subprocess;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

/// A command that another crate adds to the program. Its fields are the arguments, as `clap::Args` declares them.
pub trait AddedCommand: Args {
    /// The name by which a user calls it, in kebab case.
    const NAME: &'static str;
    /// What it does, in one sentence for the help.
    const ABOUT: &'static str;

    /// Runs the command. What the user asked for goes to [`print`](super::print).
    ///
    /// # Errors
    /// The message for the user; the exit code is 1.
    fn run(&self, registry: &Arc<Registry>) -> Result<(), Refusal>;
}

/// The command line with a registry, and with commands of other crates.
pub struct CommandLine {
    registry: Arc<Registry>,
    added: Vec<Added>,
}

/// An added command without its type.
struct Added {
    name: &'static str,
    definition: clap::Command,
    run: fn(&ArgMatches, &Arc<Registry>) -> Result<(), Refusal>,
}

impl CommandLine {
    /// Makes the program with the commands of this crate.
    pub fn new(registry: Registry) -> Self {
        Self { registry: Arc::new(registry), added: Vec::new() }
    }

    /// Adds a command. [`CommandLine::run`] refuses a second command of the same name.
    #[must_use]
    pub fn command<C: AddedCommand>(mut self) -> Self {
        self.added.push(Added {
            name: C::NAME,
            // The comment of a flattened structure would replace the sentence, so it comes last.
            definition: C::augment_args(clap::Command::new(C::NAME)).about(C::ABOUT).long_about(None),
            run: |arguments, registry| {
                let command = C::from_arg_matches(arguments).map_err(|why| Refusal::from(why.to_string()))?;
                command.run(registry)
            },
        });
        self
    }

    /// Returns the names of all commands, sorted.
    pub fn names(&self) -> Vec<String> {
        let definition = Arguments::command();
        let own = definition.get_subcommands().map(|command| command.get_name().to_owned());
        let mut names: Vec<String> =
            own.chain(self.added.iter().map(|added| added.name.to_owned())).collect();
        names.sort_unstable();
        names
    }

    /// Runs the command of this process. Prints errors and returns the exit code.
    pub fn run(&self) -> ExitCode {
        self.run_words(std::env::args_os())
    }

    /// Runs the command that these words name. The first word is the program's own name, as in the arguments of a
    /// process. Prints errors and returns the exit code; ends the process if the words are no command.
    pub fn run_words(&self, words: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> ExitCode {
        let mut definition = Arguments::command();
        for added in &self.added {
            if definition.find_subcommand(added.name).is_some() {
                return failed(&format!("the program has two commands `{}`", added.name), 1);
            }
            definition = definition.subcommand(added.definition.clone());
        }
        let matches = definition.clone().get_matches_from(words);
        fault::say();
        subprocess::on_wait(|text| eprintln!("note: {text}"));
        if let Err(why) = environment::tell(&self.registry) {
            return failed(&why, 1);
        }
        if let Some((name, arguments)) = matches.subcommand()
            && let Some(added) = self.added.iter().find(|added| added.name == name)
        {
            return finished((added.run)(arguments, &self.registry).map_err(|why| why.to_string()));
        }
        match Arguments::from_arg_matches(&matches) {
            Ok(arguments) => arguments.command.run(&self.registry, definition),
            Err(why) => why.format(&mut definition).exit(),
        }
    }
}
