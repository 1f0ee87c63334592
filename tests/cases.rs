//! Case files: each is a graph in text form, and a snapshot shows what the pipeline makes of it.
//!
//! Each `tests/cases/NAME.ovolo` is two tests, `plan::NAME` and `values::NAME`, and so is each file in a folder there
//! that is named after a pipeline. The pipeline is that one, or the shipped native one, under the nominal cost model and for
//! AVX-512. The snapshot shows how each phase stopped, the rules that led to the chosen graph, that graph,
//! and the plan. The plan's values are compared with the reference evaluation of the original graph.
//! `INSTA_UPDATE=always cargo test` blesses the snapshots.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/need.rs"]
mod need;

use common::{random, reference, relative_error};
use libtest_mimic::{Arguments, Failed};
use ovolo::compile::{self, Compilation};
use ovolo::graph::{Graph, text};
use ovolo::pass::PassReport;
use ovolo::session::Session;
use ovolo::tensor::Tensor;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

fn main() {
    let arguments = Arguments::from_args();
    // Snapshots show plans for AVX-512 on any processor; values are computed by plans for this processor.
    if common::again_for_avx512() == Some(false) {
        std::process::exit(1);
    }
    let folder = common::root().join("tests/cases");
    let mut trials = Vec::new();
    for (pipeline, folder) in [("native", folder.clone()), ("superoptimise", folder.join("superoptimise"))] {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "ovolo"));
        files.sort();
        assert!(!files.is_empty(), "there are case files");
        for path in files {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            // Both trials are about one compilation.
            let case = Arc::new(LazyLock::new(move || Case::read(&path, pipeline)));
            let (again, own) = (Arc::clone(&case), name.clone());
            trials.push(need::plans_for_avx512().trial(format!("plan::{name}"), move || {
                snapshot(&own, pipeline, (**again).as_ref()?);
                Ok(())
            }));
            let run = move || values((**case).as_ref()?);
            trials.push(need::plans_that_run().trial(format!("values::{name}"), run));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// A graph and what a pipeline made of it.
struct Case {
    graph: Graph,
    compilation: Compilation,
}

impl Case {
    fn read(path: &Path, pipeline: &str) -> Result<Self, String> {
        let source = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let graph = text::parse(common::ops(), &source).map_err(|error| error.to_string())?;
        let compilation = compile::compile(graph.clone(), &common::pipeline(pipeline, 1));
        Ok(Self { graph, compilation: compilation.map_err(|error| error.to_string())? })
    }
}

/// Compares what was chosen and planned with the snapshot.
fn snapshot(name: &str, pipeline: &str, Case { compilation, .. }: &Case) {
    let mut report = String::new();
    for stage in &compilation.stages {
        match &stage.report {
            Some(PassReport::Rewrite(phase)) => writeln!(report, "{}: {}", stage.name, phase.stop).unwrap(),
            Some(PassReport::Extract { extraction, .. }) => {
                writeln!(report, "extract: {}", if extraction.proven { "proven" } else { "unproven" })
                    .unwrap();
            }
            _ => {}
        }
    }
    let rules: BTreeSet<String> = compilation
        .plan
        .steps
        .iter()
        .flat_map(|step| &step.source.rules)
        .map(|rule| rule.split(' ').next().unwrap_or_default().to_owned())
        .collect();
    writeln!(report, "rules: {}\n", rules.into_iter().collect::<Vec<_>>().join(" ")).unwrap();
    writeln!(report, "{}", text::print(&compilation.program)).unwrap();
    write!(report, "{}", compilation.plan).unwrap();

    let mut settings = insta::Settings::clone_current();
    let mut snapshots = common::root().join("snapshots/cases");
    if pipeline != "native" {
        snapshots.push(pipeline);
    }
    settings.set_snapshot_path(snapshots);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, report));
}

/// Compares the plan's values with the reference evaluation.
fn values(Case { graph, compilation }: &Case) -> Result<(), Failed> {
    let inputs: Vec<Tensor> =
        graph.inputs().map(|(_, node)| random(&node.name, node.ty.dtype, &node.ty.shape)).collect();
    let expected = reference(graph, &inputs);
    let mut session =
        Session::new(&compilation.program, compilation.plan.clone(), common::registry().backends())
            .map_err(|error| error.to_string())?;
    let outputs = session.run(&inputs.iter().collect::<Vec<_>>()).map_err(|error| error.to_string())?;
    for (output, expected) in outputs.iter().zip(&expected) {
        let error = relative_error(output, expected);
        if error.is_nan() || error > 1e-5 {
            return Err(format!("relative L2 error {error:e} compared with the reference").into());
        }
    }
    Ok(())
}
