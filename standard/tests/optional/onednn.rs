//! Tests the backend `onednn` through the program: the report if the library is absent, and plans with it.
#![allow(clippy::unwrap_used)]

use crate::common;

use crate::common::{pipeline, random, reference, relative_error};
use ovolo::compile::{self, Options};
use ovolo::cost::pricing::ByPrices;
use ovolo::error::Source;
use ovolo::graph::text;
use ovolo::plan::Plan;
use ovolo::session::Session;
use ovolo::tensor::DType;
use std::process::Command;
use std::sync::Arc;

/// The output of the command on a machine without the library.
fn without_library(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ovolo"))
        .current_dir(common::root())
        .args(arguments)
        .env("OVOLO_ONEDNN", "/no/such/library")
        .env("OVOLO_CACHE", std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("onednn-cache"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const DIGITS: [&str; 5] = ["examples/digits/digits.onnx", "--dim", "N=1", "--cost", "flops"];

pub fn without_the_library_its_rules_are_not_used_and_the_report_says_so() {
    let run = |command: &str, pipeline: &str| {
        without_library(&[&[command], &DIGITS[..], &["--pipeline", pipeline]].concat())
    };
    let report = run("compile", "cpu");
    let said = "backend onednn: not found (/no/such/library: there is no such file); install oneDNN 3, or name its library \
                in OVOLO_ONEDNN\n";
    assert!(report.starts_with(said), "{report}");
    assert!(!run("compile", "native").contains("backend"));
    assert_eq!(run("explain", "cpu"), run("explain", "native"));
}

pub fn doctor_reports_where_it_looked() {
    let report = without_library(&["doctor"]);
    assert!(
        report.contains("backend onednn: not found (/no/such/library: there is no such file)"),
        "{report}"
    );
    // The reason is given once.
    assert_eq!(report.matches("/no/such/library").count(), 1, "{report}");
    assert!(report.contains("onednn oneDNN: absent for the reason of `backend onednn`\n"), "{report}");
}

/// Compiles a graph with the pipeline `onednn`, compares its outputs with the reference, and returns the
/// plan.
fn plan(source: &str, threads: usize) -> Plan {
    let graph = text::parse(common::ops(), source).unwrap();
    let compilation = compile::compile(graph.clone(), &pipeline("onednn", threads)).unwrap();
    assert!(compilation.absent.is_empty());
    let plan = compilation.plan.clone();
    let inputs: Vec<_> = plan.inputs.iter().map(|(name, ty)| random(name, DType::F32, &ty.shape)).collect();
    let mut session =
        Session::new(&compilation.program, compilation.plan, common::registry().backends()).unwrap();
    for _ in 0..2 {
        let outputs = session.run(&inputs.iter().collect::<Vec<_>>()).unwrap();
        for (output, wanted) in outputs.iter().zip(reference(&graph, &inputs)) {
            let error = relative_error(output, &wanted);
            assert!(error < 1e-5, "{error:e}\n{plan}");
        }
    }
    plan
}

pub fn a_residual_is_added_in_place() {
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

pub fn a_copy_is_priced_and_another_kernel_chosen() {
    // The convolution also reads the residual, so a kernel that reads it separately needs no copy.
    let plan = plan(
        "graph { x: f32[1,32,14,14] = input; v: f32[32,32,1,1] = const ~1; w: f32[32,32,3,3] = const ~2;
        b: f32[32] = const ~3; r = conv(x, v, b); c = conv(r, w, b) {pads: [1,1,1,1]};
        s = add(c, r); y = relu(s); return y }",
        2,
    );
    assert!(plan.steps.iter().all(|step| step.copied.is_none() && step.copies == 0.0), "{plan}");
    assert!(plan.to_string().contains("post: <add,relu>}"), "{plan}");
}

pub fn a_residual_that_the_kernel_also_reads_is_copied_first() {
    // A graph of lowered ops leaves no choice of kernels. The library's kernels work on blocks of a vector's size.
    let wide = std::arch::is_x86_feature_detected!("avx512f");
    let (image, weights) = if wide { ("nChw16c", "OIhw16i16o") } else { ("nChw8c", "OIhw8i8o") };
    let source = format!(
        "graph {{ x: f32[1,32,14,14] = input; v: f32[32,32,1,1] = const ~1; w: f32[32,32,3,3] = const ~2;
        b: f32[32] = const ~3; p = native.pack(x) {{layout: {image}}}; q = native.pack(v) {{layout: {weights}}};
        k = native.pack(w) {{layout: {weights}}}; r = onednn.conv(p, q, b) {{layout: {image}}};
        c = onednn.conv(r, k, b, r) {{layout: {image}, pads: [1,1,1,1], post: <add,relu>, sum: 1}};
        y = native.unpack(c); return y }}"
    );
    let plan = plan(&source, 2);
    let step = plan.steps.iter().find(|step| step.attrs.get("sum").is_some_and(|sum| sum.to_string() == "1"));
    let step = step.unwrap_or_else(|| panic!("{plan}"));
    assert_eq!((step.in_place, step.copied), (None, Some(3)), "{plan}");
    assert!(plan.to_string().contains("copies operand 3 into its result first"));
    assert!(step.copies > 0.0 && step.seconds > step.copies, "{} of {}", step.copies, step.seconds);
}

pub fn one_and_two_threads_give_one_result() {
    let source = "graph { x: f32[2,3,33,31] = input; v: f32[24,3,3,3] = const ~1; a: f32[24] = const ~2;
        w: f32[24,1,3,3] = const ~3; u: f32[40,24,1,1] = const ~4; b: f32[40] = const ~5;
        m: f32[40,10] = const ~6;
        c = conv(x, v, a) {strides: [2,2], pads: [1,1,1,1]}; d = relu(c);
        e = conv(d, w, a) {groups: 24, pads: [1,1,1,1]}; f = clip(e) {min: 0.0, max: 6.0};
        g = conv(f, u, b); h = max-pool(g) {kernel: [3,3], strides: [2,2], pads: [1,1,1,1]};
        i = reduce-mean(h) {axes: [2,3]}; j = reshape(i) {shape: [2,40]}; y = matmul(j, m); return y }";
    for threads in [1, 2, 3] {
        let plan = plan(source, threads);
        assert!(plan.steps.iter().any(|step| step.op.name.starts_with("onednn.")), "{plan}");
    }
}

/// Options that price kernels by their bytes, and the library's at a third of that, as on a processor with
/// instructions for bf16, whatever this processor has.
fn by_bytes(name: &str, threads: usize) -> Options {
    let mut options = pipeline(name, threads);
    let prices =
        r#"Prices(define: {"seconds": [Case(op: "onednn.*", value: "bytes"), Case(value: "3 * bytes")]})"#;
    let prices = Source::new("bytes.ron", prices);
    options.pipeline.extract_mut().unwrap().cost = Arc::new(ByPrices { files: vec![prices] });
    options
}

/// Compiles a graph with rounding allowed, and compares with the reference within 1e-2.
fn rounded(source: &str, options: &Options) -> Plan {
    let graph = text::parse(common::ops(), source).unwrap();
    let compilation = compile::compile(graph.clone(), options).unwrap_or_else(|error| panic!("{error}"));
    let plan = compilation.plan.clone();
    let inputs: Vec<_> = plan.inputs.iter().map(|(name, ty)| random(name, ty.dtype, &ty.shape)).collect();
    let mut session =
        Session::new(&compilation.program, compilation.plan, common::registry().backends()).unwrap();
    let outputs = session.run(&inputs.iter().collect::<Vec<_>>()).unwrap();
    for (output, wanted) in outputs.iter().zip(reference(&graph, &inputs)) {
        let error = relative_error(output, &wanted);
        assert!(error <= 1e-2, "{error:e}\n{plan}");
        assert!(error > 1e-6, "nothing was rounded: {error:e}\n{plan}");
    }
    plan
}

/// The steps with the element types of their results.
fn steps(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(|step| format!("{} {}", step.op, step.output_type.dtype)).collect()
}

pub fn in_bf16_chains_of_layers_are_cast_only_at_their_ends() {
    let source = "graph { x: f32[1,16,14,14] = input; v: f32[32,16,3,3] = const ~1; a: f32[32] = const ~2;
        w: f32[32,32,3,3] = const ~3; d: f32[32,1,3,3] = const ~4; m: f32[32,10] = const ~5;
        c = conv(x, v, a) {pads: [1,1,1,1]}; e = relu(c); f = max-pool(e) {kernel: [2,2], strides: [2,2]};
        g = conv(f, w, a) {pads: [1,1,1,1]}; h = add(g, f); i = relu(h);
        j = conv(i, d, a) {groups: 32, pads: [1,1,1,1]}; k = relu(j);
        l = reduce-mean(k) {axes: [2,3]}; n = reshape(l) {shape: [1,32]}; y = matmul(n, m); return y }";
    for threads in [1, 2] {
        let plan = rounded(source, &by_bytes("bf16", threads));
        let steps = steps(&plan);
        let casts = steps.iter().filter(|step| step.contains(".cast ")).count();
        assert_eq!(casts, 2, "{plan}");
        for op in ["onednn.conv bf16", "onednn.matmul bf16"] {
            assert!(steps.iter().any(|step| step == op), "{op}\n{plan}");
        }
        let wide = steps.iter().filter(|step| step.ends_with("f32")).count();
        assert!(wide <= 2, "{plan}");
    }
}

pub fn products_limited_by_weights_are_in_bf16() {
    let source = "graph { x: f32[1,2048] = input; w: f32[2048,1024] = const ~1; y = matmul(x, w); return y }";
    let plan = rounded(source, &pipeline("bf16", 1));
    assert!(steps(&plan).iter().any(|step| step == "onednn.matmul bf16"), "{plan}");
}

pub fn a_model_in_bf16_runs_on_kernels_in_bf16() {
    let source = "graph { x: bf16[1,16,14,14] = input; v: bf16[32,16,3,3] = const ~1; a: bf16[32] = const ~2;
        w: bf16[16,32,1,1] = const ~3; b: bf16[16] = const ~4;
        c = conv(x, v, a) {pads: [1,1,1,1]}; e = relu(c); f = conv(e, w, b); g = add(f, x); return g }";
    let graph = text::parse(common::ops(), source).unwrap();
    for (name, options) in [("onednn", by_bytes("onednn", 2)), ("native", pipeline("native", 2))] {
        let compilation = compile::compile(graph.clone(), &options).unwrap();
        let plan = compilation.plan.clone();
        let inputs = [random("x", DType::BF16, &[1, 16, 14, 14])];
        let mut session =
            Session::new(&compilation.program, compilation.plan, common::registry().backends()).unwrap();
        let outputs = session.run(&inputs.iter().collect::<Vec<_>>()).unwrap();
        let error = relative_error(&outputs[0], &reference(&graph, &inputs)[0]);
        assert!(error <= 1e-2, "{error:e}\n{plan}");
        let convs: Vec<_> = plan.steps.iter().filter(|step| step.op.name.contains("conv")).collect();
        assert!(convs.len() == 2 && convs.iter().all(|step| step.op.name.starts_with(name)), "{plan}");
        assert!(!plan.to_string().contains(" reference"), "{plan}");
    }
}

pub fn times_depend_on_the_version_and_not_on_the_path() {
    let backend = common::registry().backends().get("onednn").unwrap();
    let (found, identity) = (backend.found().unwrap(), backend.identity().unwrap());
    let (version, path) = found.split_once(" at ").unwrap();
    assert!(identity.starts_with(version) && identity.contains("revision "), "{identity}");
    assert!(!identity.contains(path), "{identity}");
    assert_eq!(ovolo::host::validators(1, common::registry().backends()).libraries["onednn"], identity);
}

pub fn a_model_fitted_without_a_backend_does_not_price_it() {
    let at = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("onednn-unseen");
    let _ = std::fs::remove_dir_all(&at);
    std::fs::create_dir_all(&at).unwrap();
    let run = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ovolo"));
        command.args(line.split(' ')).args(["--threads", "1"]).current_dir(common::root());
        let output = command.env("OVOLO_CACHE", &at).env("OVOLO_PIPELINE", "native").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{line}: {said}");
        String::from_utf8(output.stdout).unwrap() + &said
    };
    let digits = "examples/digits/digits.onnx --dim N=1";
    run(&format!("tune {digits}"));
    run(&format!("fit {digits}"));
    let report = run(&format!("compile {digits} --pipeline cpu --cost learned"));
    assert!(report.contains("backend onednn: its kernels are no candidates"), "{report}");
    let plan = run(&format!("explain {digits} --pipeline cpu --cost learned --json"));
    assert!(plan.contains("native.") && !plan.contains("\"onednn."), "{plan}");
    assert!(!run(&format!("compile {digits} --cost learned")).contains("backend"));
}

/// A library that was changed in place, with the same length and time, counts as a different one.
pub fn a_patched_library_is_a_different_one() {
    use ovolo::backend::Backend;
    use ovolo_onednn::OneDnn;
    let library = OneDnn.files().pop().unwrap();
    let at = common::folder("patched");
    let copy = at.join("libdnnl.so.3");
    std::fs::copy(library, &copy).unwrap();
    let modified = || std::fs::metadata(&copy).unwrap().modified().unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(1000);
    let aged = || std::fs::File::options().write(true).open(&copy).unwrap().set_modified(old).unwrap();
    aged();
    let why = || {
        let output = Command::new(env!("CARGO_BIN_EXE_ovolo"))
            .args(
                "cache why examples/digits/digits.onnx --dim N=1 --cost flops --threads 1 --pipeline cpu"
                    .split(' '),
            )
            .env("OVOLO_CACHE", at.join("cache"))
            .env("OVOLO_ONEDNN", &copy)
            .current_dir(common::root())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().next().unwrap().to_owned()
    };
    let first = why();
    assert_eq!(first, why());
    assert!(at.join("cache/libraries.txt").exists(), "the content must not be read at each start");
    // A text in the library that its code does not use.
    let mut bytes = std::fs::read(&copy).unwrap();
    let place = bytes.windows(5).rposition(|five| five == b"GCC: ").unwrap();
    bytes[place] = b'g';
    let before = modified();
    std::fs::write(&copy, bytes).unwrap();
    aged();
    assert_eq!(before, modified());
    assert_ne!(first, why());
}
