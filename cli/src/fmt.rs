//! `ovolo fmt`: files that users write, in one form.

use super::files::{files_below, read};
use super::{Outcome, print};
use clap::Args;
use ovolo::ron::{self, Style};
use std::fmt::Write;
use std::path::PathBuf;

#[derive(Args)]
pub(super) struct Fmt {
    /// Files, and folders, in which all `.ron` files are meant, those of their subfolders included.
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Write nothing: list the files that would change, with exit code 1 if there are any.
    #[arg(long)]
    check: bool,
}

impl Fmt {
    pub(super) fn run(&self) -> Outcome {
        let mut files = Vec::new();
        for path in &self.paths {
            if path.is_dir() {
                let all = files_below(path)?.into_iter();
                files.extend(all.filter(|path| path.extension().is_some_and(|extension| extension == "ron")));
            } else {
                files.push(path.clone());
            }
        }
        let (mut listed, mut changed, mut mistakes) = (String::new(), 0, Vec::new());
        for path in &files {
            let name = path.display().to_string();
            let text = read(path)?;
            let formatted = match ron::format(&name, &text, Style::of) {
                Ok(formatted) => formatted,
                Err(found) => {
                    mistakes.push(found.to_string());
                    continue;
                }
            };
            if formatted == text {
                continue;
            }
            changed += 1;
            let _ = writeln!(listed, "{name}");
            if !self.check {
                ovolo::file::write(path, &[formatted.as_bytes()])
                    .map_err(|error| format!("{name}: {error}"))?;
            }
        }
        print(&listed);
        match (&mistakes[..], changed) {
            ([], 1..) if self.check => {
                Err(format!("{changed} of {} files would change: `ovolo fmt` writes them", files.len()))
            }
            ([], _) => Ok(()),
            (mistakes, _) => Err(mistakes.join("\n")),
        }
    }
}
