//! `ovolo test`: snapshot tests of what passes do.
//!
//! A case is a file `NAME.case.ron`, which names a model, a pipeline, and what to show of the compilation. What it shows
//! is compared with the snapshot `NAME.case.snap` beside it. Plans are made for the instruction set that each backend
//! calls its baseline (AVX2 for `native`) and priced for a nominal machine with one thread, unless told otherwise, so that
//! a snapshot is the same everywhere.

mod case;
mod show;

use super::environment::ISA;
use super::files::files_below;
use super::{Outcome, Refusal, print};
use case::Case;
use clap::Args;
use ovolo::registry::Registry;
use similar::TextDiff;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args)]
pub(super) struct Test {
    /// Cases (`NAME.case.ron`), and folders, in which all cases are meant, those of their subfolders included.
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Write the snapshots that are absent or differ, instead of comparing.
    #[arg(long)]
    bless: bool,
}

/// Returns what a case shows of its compilation, for tests that keep snapshots of their own. The plan is for the
/// instruction set that this process plans for. Where a snapshot must hold on every machine, first call
/// `registry.backends().plan_for_baseline()`, as `ovolo test` does.
///
/// # Errors
/// The case has a mistake, or its model cannot be compiled.
pub fn shown(registry: &Arc<Registry>, case: &Path) -> Result<String, Refusal> {
    Ok(Case::read(registry, case).and_then(|case| show::show(registry, &case))?)
}

/// The end of a case's file name.
const CASE: &str = ".case.ron";
/// The end of a snapshot's file name.
const SNAPSHOT: &str = ".case.snap";

/// The result of a case.
enum Verdict {
    Same,
    /// The snapshot has been written.
    Blessed,
    /// What differs, or why the case could not be run.
    Failed(String),
}

impl Test {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        // If the user names an instruction set, the plans are already for that one.
        if std::env::var_os(ISA).is_none() {
            registry.backends().plan_for_baseline().map_err(|error| error.to_string())?;
        }
        let (mut cases, mut snapshots) = (Vec::new(), Vec::new());
        for path in &self.paths {
            if path.is_dir() {
                for file in files_below(path)? {
                    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    if name.ends_with(CASE) {
                        cases.push(file);
                    } else if name.ends_with(SNAPSHOT) {
                        snapshots.push(file);
                    }
                }
            } else if path.to_string_lossy().ends_with(CASE) {
                cases.push(path.clone());
            } else {
                return Err(format!(
                    "{}: a case is a file `NAME{CASE}`, or a folder that has some",
                    path.display()
                ));
            }
        }
        if cases.is_empty() {
            let paths: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
            return Err(format!("there is no case (`NAME{CASE}`) in {}", paths.join(", ")));
        }
        let (mut same, mut blessed, mut failed) = (0, 0, 0);
        for path in &cases {
            match self.verdict(registry, path) {
                Verdict::Same => same += 1,
                Verdict::Blessed => {
                    blessed += 1;
                    print(&format!("{}: written\n", snapshot_of(path).display()));
                }
                Verdict::Failed(why) => {
                    failed += 1;
                    let (name, why) = (path.display().to_string(), why.trim_end());
                    // Some reasons begin with the name, and the place in the file.
                    let named = why.strip_prefix(&name).is_some_and(|rest| rest.starts_with(':'));
                    print(&if named { format!("{why}\n") } else { format!("{name}: {why}\n") });
                }
            }
        }
        let expected: Vec<PathBuf> = cases.iter().map(|case| snapshot_of(case)).collect();
        for stray in snapshots.iter().filter(|snapshot| !expected.contains(snapshot)) {
            failed += 1;
            print(&format!("{}: no case has this snapshot: delete it\n", stray.display()));
        }
        let blessed = if blessed > 0 { format!(", {blessed} written") } else { String::new() };
        let sum = format!("{same} passed{blessed}, {failed} failed");
        if failed > 0 {
            return Err(sum);
        }
        print(&format!("{sum}\n"));
        Ok(())
    }

    /// Runs a case and compares what it shows with its snapshot.
    fn verdict(&self, registry: &Arc<Registry>, path: &Path) -> Verdict {
        let shown = match shown(registry, path) {
            Ok(shown) => shown,
            Err(why) => return Verdict::Failed(why.to_string()),
        };
        let snapshot = snapshot_of(path);
        let stored = match std::fs::read_to_string(&snapshot) {
            Ok(stored) => Some(stored),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Verdict::Failed(format!("{}: {error}", snapshot.display())),
        };
        if stored.as_ref() == Some(&shown) {
            return Verdict::Same;
        }
        if self.bless {
            return match ovolo::file::write(&snapshot, &[shown.as_bytes()]) {
                Ok(()) => Verdict::Blessed,
                Err(error) => Verdict::Failed(format!("{}: {error}", snapshot.display())),
            };
        }
        let Some(stored) = stored else {
            return Verdict::Failed(format!("no snapshot yet: `--bless` writes it. It would be\n{shown}"));
        };
        let diff = TextDiff::from_lines(&stored, &shown);
        let mut diff = diff.unified_diff();
        let diff = diff.context_radius(2).header("the snapshot", "now");
        Verdict::Failed(format!("differs from the snapshot; `--bless` accepts what is new\n{diff}"))
    }
}

/// Returns the snapshot of a case.
fn snapshot_of(case: &Path) -> PathBuf {
    let name = case.file_name().unwrap_or_default().to_string_lossy();
    case.with_file_name(format!("{}{SNAPSHOT}", name.strip_suffix(CASE).unwrap_or(&name)))
}
