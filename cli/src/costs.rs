//! `ovolo costs …`: commands for authors of price lists.

mod fit;
mod table;

use super::{Outcome, print};
use clap::Subcommand;
use ovolo::cost::price;
use ovolo::error::suggestion;
use ovolo::registry::Registry;
use std::sync::Arc;

/// The shipped list that `ovolo costs fit` writes.
const FITTED: &str = "costs/fitted.ron";

#[derive(Subcommand)]
pub(super) enum Costs {
    /// List the shipped price lists: each file, and what its prices were fitted on.
    List,
    /// Print a shipped price list, as a start for your own.
    Show {
        /// The file, as `ovolo costs list` names it; its folder and its ending may be left out.
        file: String,
    },
    /// Write the times of some models' kernels on this machine to a table, with their features and estimates.
    Table(table::Table),
    /// Fit corrections of the shipped price lists to tables of times, from one machine or several.
    Fit(fit::Fit),
    /// Print the reference for authors of price lists: everything that a price can depend on.
    Reference,
}

/// Returns whether a file has this name: `costs/base.ron`, `base.ron` or `base`.
fn is_called(file: &str, name: &str) -> bool {
    let last = file.rsplit('/').next().unwrap_or(file);
    [file, last].contains(&name) || last.strip_suffix(".ron") == Some(name)
}

impl Costs {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let list = &registry.catalog().prices;
        match self {
            Self::List => {
                for (file, fitted_on) in list.fitted_on() {
                    print(&format!(
                        "{file}: {}\n",
                        fitted_on.unwrap_or("the file does not say what it was fitted on")
                    ));
                }
                Ok(())
            }
            Self::Show { file } => match list.sources().find(|source| is_called(&source.name, file)) {
                Some(source) => {
                    print(&source.text);
                    Ok(())
                }
                None => {
                    let known: Vec<&str> = list.sources().map(|source| &*source.name).collect();
                    let help = match suggestion(file, known.iter().copied()) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("known are {}", known.join(", ")),
                    };
                    Err(format!("there is no shipped price list `{file}`: {help}"))
                }
            },
            Self::Table(table) => table.run(registry),
            Self::Fit(fit) => fit.run(registry),
            Self::Reference => {
                print(&price::reference());
                Ok(())
            }
        }
    }
}
