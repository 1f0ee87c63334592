//! The backend `onednn` from outside: what is said where the library is absent, and plans with it.
#![allow(clippy::unwrap_used)]

mod common;

use common::{onednn_found, pipeline, random, reference, relative_error};
use ovolo::compile;
use ovolo::graph::text;
use ovolo::plan::Plan;
use ovolo::session::Session;
use ovolo::tensor::DType;
use std::process::Command;

/// The output of the command on a machine without the library.
fn without_library(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ovolo"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(arguments)
        .env("OVOLO_ONEDNN", "/no/such/library")
        .env("OVOLO_CACHE", std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("onednn-cache"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const DIGITS: [&str; 5] = ["examples/digits/digits.onnx", "--dim", "N=1", "--cost", "flops"];

#[test]
fn without_the_library_its_rules_are_not_in_play_and_the_report_says_so() {
    let run = |command: &str, pipeline: &str| {
        without_library(&[&[command], &DIGITS[..], &["--pipeline", pipeline]].concat())
    };
    let report = run("compile", "cpu");
    let said = "backend onednn: not found (/no/such/library: there is no such file)\n";
    assert!(report.starts_with(said), "{report}");
    assert!(!run("compile", "native").contains("backend"));
    assert_eq!(run("explain", "cpu"), run("explain", "native"));
}

#[test]
fn doctor_says_where_it_looked() {
    let report = without_library(&["doctor"]);
    assert!(
        report.contains("backend onednn: not found (/no/such/library: there is no such file)"),
        "{report}"
    );
}

/// Compiles a graph by the pipeline `onednn`, compares its outputs with the reference, and gives the plan.
fn plan(source: &str, threads: usize) -> Plan {
    let graph = text::parse(source).unwrap();
    let compilation = compile::compile(graph.clone(), &pipeline("onednn", threads)).unwrap();
    assert!(compilation.absent.is_empty());
    let plan = compilation.plan.clone();
    let inputs: Vec<_> = plan.inputs.iter().map(|(name, ty)| random(name, DType::F32, &ty.shape)).collect();
    let mut session = Session::new(&compilation.program, compilation.plan).unwrap();
    for _ in 0..2 {
        let outputs = session.run(&inputs.iter().collect::<Vec<_>>()).unwrap();
        for (output, wanted) in outputs.iter().zip(reference(&graph, &inputs)) {
            let error = relative_error(output, &wanted);
            assert!(error < 1e-5, "{error:e}\n{plan}");
        }
    }
    plan
}

#[test]
fn a_residual_is_added_where_it_lies() {
    if !onednn_found() {
        return;
    }
    let plan = plan(
        "graph { x: f32[1,32,14,14] = input; v: f32[32,32,1,1] = const ~1; w: f32[32,32,3,3] = const ~2;
        b: f32[32] = const ~3; r = conv(x, v, b); c = conv(x, w, b) {pads: [1,1,1,1]};
        s = add(c, r); y = relu(s); return y }",
        2,
    );
    let step = plan.steps.iter().find(|step| step.attrs.get("sum").is_some_and(|sum| sum.to_string() == "1"));
    let step = step.unwrap_or_else(|| panic!("{plan}"));
    assert_eq!((step.in_place, step.copied), (Some(3), None), "{plan}");
}

#[test]
fn a_copy_is_priced_and_another_kernel_taken() {
    if !onednn_found() {
        return;
    }
    // The residual is what the convolution reads, too: added from where it lies, it needs no copy.
    let plan = plan(
        "graph { x: f32[1,32,14,14] = input; v: f32[32,32,1,1] = const ~1; w: f32[32,32,3,3] = const ~2;
        b: f32[32] = const ~3; r = conv(x, v, b); c = conv(r, w, b) {pads: [1,1,1,1]};
        s = add(c, r); y = relu(s); return y }",
        2,
    );
    assert!(plan.steps.iter().all(|step| step.copied.is_none() && step.copies == 0.0), "{plan}");
    assert!(plan.to_string().contains("post: <add,relu>}"), "{plan}");
}

#[test]
fn a_residual_that_the_kernel_reads_otherwise_is_copied_first() {
    if !onednn_found() {
        return;
    }
    // In lowered form there is no other kernel.
    let plan = plan(
        "graph { x: f32[1,32,14,14] = input; v: f32[32,32,1,1] = const ~1; w: f32[32,32,3,3] = const ~2;
        b: f32[32] = const ~3; p = native.pack(x) {layout: nhwc}; q = native.pack(v) {layout: Ohwi32o};
        k = native.pack(w) {layout: Ohwi32o}; r = onednn.conv(p, q, b) {layout: nhwc};
        c = onednn.conv(r, k, b, r) {layout: nhwc, pads: [1,1,1,1], post: <add,relu>, sum: 1};
        y = native.unpack(c); return y }",
        2,
    );
    let step = plan.steps.iter().find(|step| step.attrs.get("sum").is_some_and(|sum| sum.to_string() == "1"));
    let step = step.unwrap_or_else(|| panic!("{plan}"));
    assert_eq!((step.in_place, step.copied), (None, Some(3)), "{plan}");
    assert!(plan.to_string().contains("copies operand 3 into its result first"));
    assert!(step.copies > 0.0 && step.seconds > step.copies, "{} of {}", step.copies, step.seconds);
}

#[test]
fn one_and_two_threads_give_one_result() {
    if !onednn_found() {
        return;
    }
    let source = "graph { x: f32[2,3,33,31] = input; v: f32[24,3,3,3] = const ~1; a: f32[24] = const ~2;
        w: f32[24,1,3,3] = const ~3; u: f32[40,24,1,1] = const ~4; b: f32[40] = const ~5;
        m: f32[40,10] = const ~6;
        c = conv(x, v, a) {strides: [2,2], pads: [1,1,1,1]}; d = relu(c);
        e = conv(d, w, a) {groups: 24, pads: [1,1,1,1]}; f = clip(e) {min: 0.0, max: 6.0};
        g = conv(f, u, b); h = max-pool(g) {kernel: [3,3], strides: [2,2], pads: [1,1,1,1]};
        i = reduce-mean(h) {axes: [2,3]}; j = reshape(i) {shape: [2,40]}; y = matmul(j, m); return y }";
    for threads in [1, 2, 3] {
        let plan = plan(source, threads);
        assert!(plan.steps.iter().any(|step| step.op.starts_with("onednn.")), "{plan}");
    }
}
