//! Case files: a graph in text form goes in; what the pipeline did comes out as a snapshot.
//!
//! Each `tests/cases/NAME.ovolo` is one test. It holds, for the shipped native pipeline under the
//! nominal cost model: how each phase stopped, the rules on the way to what was chosen, the chosen
//! graph, and the plan; and the plan's values are compared with the reference evaluation of the
//! graph as it came. `INSTA_UPDATE=always cargo test` blesses.
#![allow(clippy::unwrap_used)]

mod common;

use common::{compile, relative_error};
use libtest_mimic::{Arguments, Failed, Trial};
use ovolo::graph::{Graph, text};
use ovolo::op;
use ovolo::pass::PassReport;
use ovolo::session::Session;
use ovolo::tensor::{DType, Tensor};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let arguments = Arguments::from_args();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "ovolo"));
    files.sort();
    assert!(!files.is_empty(), "there are case files");
    let trials = files
        .into_iter()
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            Trial::test(name.clone(), move || case(&name, &path))
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit();
}

fn case(name: &str, path: &Path) -> Result<(), Failed> {
    let source = std::fs::read_to_string(path).unwrap();
    let graph = text::parse(&source).map_err(|error| error.to_string())?;
    let compilation = compile(graph.clone(), 1);
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
        .flat_map(|step| &step.rules)
        .map(|rule| rule.split(' ').next().unwrap_or_default().to_owned())
        .collect();
    writeln!(report, "rules: {}\n", rules.into_iter().collect::<Vec<_>>().join(" ")).unwrap();
    writeln!(report, "{}", text::print(&compilation.program)).unwrap();
    write!(report, "{}", compilation.plan).unwrap();

    let inputs: Vec<Tensor> =
        graph.inputs().map(|(_, node)| random(&node.name, node.ty.dtype, &node.ty.shape)).collect();
    let expected = reference(&graph, &inputs);
    let mut session =
        Session::new(&compilation.program, compilation.plan).map_err(|error| error.to_string())?;
    let outputs = session.run(&inputs.iter().collect::<Vec<_>>()).map_err(|error| error.to_string())?;
    for (output, expected) in outputs.iter().zip(&expected) {
        let error = relative_error(output, expected);
        if error.is_nan() || error > 1e-5 {
            return Err(format!("relative L2 error {error:e} against the reference").into());
        }
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/cases"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, report));
    Ok(())
}

/// The graph's outputs by the registry's reference evaluation.
fn reference(graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    let mut values: Vec<Tensor> = Vec::new();
    let mut inputs = inputs.iter();
    for (id, node) in graph.nodes() {
        let value = match node.op {
            "input" => inputs.next().unwrap().clone(),
            "const" => graph.constant(id).unwrap().clone(),
            _ => {
                let operands: Vec<&Tensor> = node.inputs.iter().map(|input| &values[input.index()]).collect();
                (op::find(node.op).unwrap().eval)(&node.attrs, &operands, &node.ty)
            }
        };
        values.push(value);
    }
    graph.outputs().map(|(_, id)| values[id.index()].clone()).collect()
}

/// Seeded values: floats about zero, small integers.
fn random(name: &str, dtype: DType, shape: &[usize]) -> Tensor {
    let mut state = name.bytes().fold(0x9E37_79B9_7F4A_7C15_u64, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    let values: Vec<f64> = (0..shape.iter().product::<usize>())
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let unit = f64::from(u32::try_from(state >> 33).unwrap()) / f64::from(1_u32 << 31);
            if dtype.is_float() { unit * 4.0 - 2.0 } else { (unit * 4.0).floor() }
        })
        .collect();
    Tensor::from_f64(dtype, shape, &values)
}
