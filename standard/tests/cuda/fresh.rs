//! Tests in processes of their own, because a process makes the context, the handles of the libraries and the plans
//! of engines only once. Each starts this program again with its own name and the part of the test to run.

use super::case::{Case, Random};
use super::graph::one;
use super::library::{One, lowered};
use super::need::Place;
use super::{common, device, standin};
use libtest_mimic::Failed;
use ovolo::attr::Attrs;
use ovolo::backend::Artifacts;
use ovolo::cache::{self, Cache};
use ovolo::graph::Graph;
use ovolo::plan::Plan;
use ovolo::session::Session;
use ovolo::tensor::{DType, Layout, Tensor};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// A test: its name, its function, where it runs, and the libraries that it uses.
type Test = super::library::Test;

/// The tests.
pub const TESTS: &[Test] = &[
    ("handles_that_cannot_be_made", handles_that_cannot_be_made, Place::Standin, &["cudnn", "cublaslt"]),
    ("plans_of_engines_are_kept", plans_of_engines_are_kept, Place::Standin, &["cudnn"]),
    ("one_context_and_handle", one_context_and_handle, Place::Standin, &["cudnn", "cublaslt"]),
];

/// Runs a part of a test in a process of its own.
fn run(test: &str, part: &str) -> Result<(), String> {
    let output = Command::new(std::env::current_exe().map_err(|error| error.to_string())?)
        .args(["--exact", &format!("fresh::{test}"), "--test-threads", "1"])
        .env(standin::PART, part)
        .output()
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && said.contains("1 passed") {
        return Ok(());
    }
    Err(format!("{part}: {said}{}", String::from_utf8_lossy(&output.stderr)))
}

fn load(graph: &Graph, plan: &Plan, kept: &dyn Artifacts) -> Result<Session, String> {
    Session::with(graph, plan.clone(), common::registry().backends(), kept).map_err(|error| error.to_string())
}

fn says(what: Result<Session, String>, words: &[&str]) -> Result<(), String> {
    match what {
        Err(error) if words.iter().all(|word| error.contains(word)) => Ok(()),
        other => Err(format!("{:?} does not say {words:?}", other.map(|_| "a session"))),
    }
}

/// Returns a product, which needs no generated kernel.
fn product() -> Result<One, String> {
    let r = &mut Random::new(3);
    let operands = vec![r.tensor(DType::F32, &[4, 8]), r.tensor(DType::F32, &[8, 4])];
    let case = Case::new("matmul", Attrs::new(), operands).ok_or("refused")?;
    Ok(One { case, more: Attrs::new(), layout: Layout::PLAIN, form: "" })
}

/// If a library cannot be opened for the device, the error names the step and says what to do. The next load tries
/// again.
fn handles_that_cannot_be_made() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let name = "handles_that_cannot_be_made";
    match standin::part().as_deref() {
        None => {
            run(name, "cudnn")?;
            run(name, "cublaslt")?;
        }
        Some("cudnn") => {
            let graph = lowered("cudnn", &[one(0, 6)])?;
            // Even the plan needs the handle, to ask for engines.
            standin.fail("cudnnCreate", 0, 5000);
            let words =
                ["cudnn.conv-graph", "cudnnCreate", "CUDNN_STATUS_EXECUTION_FAILED", "compute-sanitizer"];
            match device::planned(&graph) {
                Err(error) if words.iter().all(|word| error.contains(word)) => {}
                other => return Err(format!("{:?} does not say {words:?}", other.map(|_| "a plan")).into()),
            }
            load(&graph, &device::planned(&graph)?, &device::Kept::default())?;
        }
        Some(_) => {
            let graph = lowered("cublaslt", &[product()?])?;
            let plan = device::planned(&graph)?;
            let load = || load(&graph, &plan, &device::Kept::default());
            standin.fail("cublasLtCreate", 0, 13);
            let entry = "cublasLtCreate";
            says(load(), &["cublaslt.matmul", entry, "CUBLAS_STATUS_EXECUTION_FAILED", "compute-sanitizer"])?;
            standin.fail("cublasLtCreate", 0, 31999);
            says(load(), &["cublaslt.matmul", "code 31999, which is unknown to the library", "doctor"])?;
            load()?;
        }
    }
    standin.faults()?;
    Ok(standin.nothing_left()?)
}

/// A store whose bytes no library takes, which keeps what is stored instead.
#[derive(Default)]
struct Damaged(Mutex<Vec<Vec<u8>>>);

impl Artifacts for Damaged {
    fn load(&self, _: &[&str]) -> Option<Vec<u8>> {
        Some(b"plan of another version".to_vec())
    }

    fn store(&self, _: &[&str], bytes: &[u8]) {
        self.0.lock().unwrap().push(bytes.to_vec());
    }
}

/// A process finalises a plan once, for all steps and sessions with its graph. The next process makes it from the text
/// that the first has stored, and a text that the library does not take is replaced.
fn plans_of_engines_are_kept() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let name = "plans_of_engines_are_kept";
    let folder: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plans_of_engines");
    let Some(part) = standin::part() else {
        let _ = std::fs::remove_dir_all(&folder);
        for part in ["first", "again", "damaged", "again"] {
            run(name, part)?;
        }
        return Ok(());
    };
    let cache = Cache::new(&folder, Cache::LIMIT, common::registry());
    let cubins = cache::KeptArtifacts::new(cache.folder());
    let damaged = Damaged::default();
    let kept: &dyn Artifacts = if part == "damaged" { &damaged } else { &cubins };
    // Three steps have two graphs, and one graph by another engine.
    let cases = [one(0, 6), one(0, 6), one(0, 7), one(2, 6)];
    let graph = lowered("cudnn", &cases)?;
    let plan = device::planned(&graph)?;
    let inputs: Vec<Tensor> = cases.iter().flat_map(One::operands).collect();
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    for _ in 0..3 {
        let mut session = load(&graph, &plan, kept)?;
        let outputs = session.run(&inputs).map_err(|error| error.to_string())?;
        for (case, output) in cases.iter().zip(outputs) {
            super::agrees(&case.case, &output.to_layout(&Layout::PLAIN), &case.case.reference())?;
        }
    }
    let expected = if part == "again" { [0, 3] } else { [3, 0] };
    if standin.finalised() != expected {
        return Err(format!("{part}: {:?} plans from engines and texts", standin.finalised()).into());
    }
    let stored = damaged.0.into_inner().unwrap();
    if part == "damaged" && (stored.len() != 3 || stored.iter().any(|text| text.ends_with(b"version"))) {
        return Err(format!("{} texts are replaced", stored.len()).into());
    }
    standin.faults()?;
    Ok(standin.nothing_left()?)
}

/// A process retains one context and makes one handle of each library, and keeps them when no session is left.
fn one_context_and_handle() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    if standin::part().is_none() {
        return Ok(run("one_context_and_handle", "whole")?);
    }
    let (products, convolutions) = (lowered("cublaslt", &[product()?])?, lowered("cudnn", &[one(0, 6)])?);
    let entries = ["cuDevicePrimaryCtxRetain", "cublasLtCreate", "cudnnCreate"];
    for _ in 0..3 {
        for graph in [&products, &convolutions] {
            load(graph, &device::planned(graph)?, &device::Kept::default())?;
        }
        if entries.map(|entry| standin.calls(entry)) != [1; 3] {
            return Err(format!("{:?} calls", entries.map(|entry| standin.calls(entry))).into());
        }
    }
    if standin.calls("cuDevicePrimaryCtxRelease_v2") != 0 {
        return Err("the context is released".into());
    }
    standin.faults()?;
    Ok(standin.nothing_left()?)
}
