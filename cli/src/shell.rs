//! Completions for shells, and manual pages: both are made from the definition of the command line.

use super::{Outcome, print};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct Completions {
    /// The shell. Put the script where it looks for completions, for example
    /// `ovolo completions bash > ~/.local/share/bash-completion/completions/ovolo`.
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self, mut definition: Command) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut definition, "ovolo", &mut script);
        print(&String::from_utf8_lossy(&script));
        Ok(())
    }
}

#[derive(Args)]
pub(super) struct Pages {
    /// The folder for the pages, such as `~/.local/share/man/man1`. Pages of the same names are replaced.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Pages {
    pub(super) fn run(&self, mut definition: Command) -> Outcome {
        std::fs::create_dir_all(&self.out).map_err(|error| format!("{}: {error}", self.out.display()))?;
        // Gives each command its whole name, such as `ovolo-rules-test`.
        definition.build();
        let count = page(&definition, &self.out)?;
        print(&format!("wrote {count} pages to {}\n", self.out.display()));
        Ok(())
    }
}

/// Writes the page of a command and those of its subcommands, and returns how many they are.
fn page(command: &Command, folder: &Path) -> Result<usize, String> {
    let man = Man::new(command.clone());
    let mut text = Vec::new();
    let path = folder.join(man.get_filename());
    man.render(&mut text)
        .and_then(|()| ovolo::file::write(&path, &[&text]))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let own = command.get_subcommands().filter(|command| command.get_name() != "help");
    own.map(|command| page(command, folder)).try_fold(1, |sum, count| Ok(sum + count?))
}
