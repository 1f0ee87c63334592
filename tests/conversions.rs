//! Tests that no step of a plan is needless: on each of the ten models, a plan without any one step of the
//! chosen plan is not cheaper.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/need.rs"]
mod need;

use libtest_mimic::{Arguments, Failed};
use ovolo::onnx::{self, ImportOptions, MissingWeights};
use std::path::{Path, PathBuf};

const CONVERSIONS: [&str; 6] =
    ["native.pack", "native.unpack", "native.reorder", "onednn.pack", "onednn.unpack", "onednn.reorder"];

fn main() {
    let folder = common::root().join("tests/models");
    let mut models: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    models.sort();
    let mut trials = Vec::new();
    for path in models {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        for (pipeline, needs) in [("native", vec![]), ("cpu", vec![need::onednn()])] {
            let path = path.clone();
            let test = move || no_step_is_needless(&path, pipeline);
            trials.push(need::trial(format!("{name}_by_{pipeline}"), &needs, test));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn no_step_is_needless(path: &Path, pipeline: &str) -> Result<(), Failed> {
    let import = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
    let graph = onnx::load(common::registry().onnx(), path, &import).unwrap().graph;
    let options = common::pipeline(pipeline, 2);
    let saturated = options.saturate(&graph).unwrap();
    let choice = options.choice(&graph).unwrap();
    let found = options.price(&saturated).unwrap().runner_ups(&choice, &mut |_, _| ()).unwrap();
    let conversion = |op: &str| CONVERSIONS.iter().any(|name| op.split(' ').next() == Some(name));
    for step in &found {
        if !step.proven || step.margin < -1e-9 * step.seconds {
            let (value, chosen, margin) = (&step.value, &step.chosen, step.margin);
            return Err(format!(
                "without {chosen} for {value} the plan costs {margin} s more; proven: {}",
                step.proven
            )
            .into());
        }
    }
    // The runner-up must show how it differs from the step it replaces.
    if let Some(same) = found.iter().find(|step| step.instead.is_some() && step.differs.is_empty()) {
        return Err(format!("the runner-up of {} has the same text: {}", same.value, same.chosen).into());
    }
    let conversions = found.iter().filter(|step| conversion(&step.chosen)).count();
    println!("{}, {pipeline}: {} steps, {conversions} conversions", path.display(), found.len());
    if found.is_empty() {
        return Err("there is nothing to compare".into());
    }
    Ok(())
}
