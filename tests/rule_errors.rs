//! Bad rule files and pipelines: each with its whole message in a snapshot.
//!
//! Each `tests/bad/rules/NAME.ron` and `tests/bad/pipelines/NAME.ron` is one test.
#![allow(clippy::unwrap_used)]

use libtest_mimic::{Arguments, Failed, Trial};
use ovolo::pass::pipeline::Pipeline;
use ovolo::rule::RuleSet;
use std::path::{Path, PathBuf};

fn main() {
    let arguments = Arguments::from_args();
    let mut trials =
        trials("rules", |name, text| RuleSet::read(&[(name, text)]).err().map(|found| found.to_string()));
    trials.extend(self::trials("pipelines", |name, text| {
        Pipeline::read(name, text).err().map(|found| found.to_string())
    }));
    assert!(trials.len() >= 50, "the bad files are there");
    libtest_mimic::run(&arguments, trials).exit();
}

fn trials(kind: &'static str, read: fn(&str, &str) -> Option<String>) -> Vec<Trial> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad").join(kind);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let trial = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        Trial::test(format!("{kind}::{name}"), move || refused(kind, &name, &path, read))
    };
    files.into_iter().map(trial).collect()
}

fn refused(
    kind: &str,
    name: &str,
    path: &Path,
    read: fn(&str, &str) -> Option<String>,
) -> Result<(), Failed> {
    let text = std::fs::read_to_string(path).unwrap();
    let Some(message) = read(&format!("{name}.ron"), &text) else {
        return Err("the file was read without a complaint".into());
    };
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/errors").join(kind));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, message));
    Ok(())
}
