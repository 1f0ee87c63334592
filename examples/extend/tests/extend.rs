//! Tests the example through its own command line: a model runs and is explained, and the rules are verified.
#![allow(clippy::unwrap_used)]

use ovolo::backend::{Backend, BackendError, RuntimeLibrary};
use ovolo::npy;
use ovolo::onnx::proto::{
    AttributeProto, AttributeType, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetId,
    TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use ovolo::op::Lowering;
use ovolo::registry::Registry;
use ovolo::tensor::{DType, Tensor};
use ovolo_cli::{AddedCommand, CommandLine, Refusal};
use prost::Message;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Output};
use std::sync::Arc;

/// Returns a new folder.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("extend-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs the command line in a folder.
fn run(folder: &PathBuf, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_extend"));
    command.args(arguments.split(' ')).current_dir(folder).env("OVOLO_CACHE", folder.join("cache"));
    command.output().unwrap()
}

/// Runs the command line in a folder and returns what it prints.
fn extend(folder: &PathBuf, arguments: &str) -> String {
    let output = run(folder, arguments);
    let (text, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments}: {text}{errors}");
    text
}

/// `y = exp(swirl(swirl(x, v, turns = 0), v, turns = 2))`.
fn model() -> ModelProto {
    let swirl = |input: &str, output: &str, turns: f32| NodeProto {
        op_type: "Swirl".into(),
        domain: "com.example".into(),
        input: vec![input.into(), "v".into()],
        output: vec![output.into()],
        attribute: vec![AttributeProto {
            name: "turns".into(),
            f: turns,
            r#type: AttributeType::Float.into(),
            ..AttributeProto::default()
        }],
        ..NodeProto::default()
    };
    let exp = NodeProto {
        op_type: "Exp".into(),
        input: vec!["t".into()],
        output: vec!["y".into()],
        ..NodeProto::default()
    };
    let input = |name: &str, shape: &[i64]| {
        let dim =
            shape.iter().map(|size| DimensionProto { dim_value: Some(*size), dim_param: None }).collect();
        let tensor_type = Some(TensorTypeProto { elem_type: 1, shape: Some(TensorShapeProto { dim }) });
        ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type, ..TypeProto::default() }) }
    };
    let graph = GraphProto {
        node: vec![swirl("x", "s", 0.0), swirl("s", "t", 2.0), exp],
        input: vec![input("x", &[2, 3]), input("v", &[3])],
        output: vec![ValueInfoProto { name: "y".into(), r#type: None }],
        ..GraphProto::default()
    };
    let domain = |domain: &str, version| OperatorSetId { domain: domain.into(), version };
    let opset_import = vec![domain("", 17), domain("com.example", 1)];
    ModelProto { ir_version: 8, opset_import, graph: Some(graph), ..ModelProto::default() }
}

#[test]
fn a_model_runs_and_is_explained() {
    let folder = folder("model");
    std::fs::write(folder.join("swirl.onnx"), model().encode_to_vec()).unwrap();
    let plan = extend(&folder, "explain swirl.onnx --pipeline extend --json");
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    let steps = plan["steps"].as_array().unwrap();
    let ops: Vec<&str> = steps.iter().map(|step| step["op"].as_str().unwrap()).collect();
    assert_eq!(ops, ["extend.swirl", "native.map"]);
    let stages = extend(&folder, "compile swirl.onnx --pipeline extend --no-cache");
    assert!(stages.contains("census") && stages.contains(" e-nodes\n"), "{stages}");
    let x = [-1.0, 0.0, 0.5, 1.0, 2.0, 3.0];
    let speeds = [1.0, 0.5, 0.25];
    npy::write(folder.join("x.npy"), &Tensor::from_f64(DType::F32, [2, 3], &x)).unwrap();
    npy::write(folder.join("v.npy"), &Tensor::from_f64(DType::F32, [3], &speeds)).unwrap();
    // Compile once, then load the plan from the cache.
    for _ in 0..2 {
        extend(&folder, "run swirl.onnx --pipeline extend --input x=x.npy --input v=v.npy --output-dir out");
        let y = npy::read(folder.join("out/y.npy")).unwrap().to_f64();
        for ((x, y), speed) in x.iter().zip(y).zip(speeds.iter().cycle()) {
            assert!((y - (x * (2.0 * speed * x).cos()).exp()).abs() < 1e-5, "{x}: {y}");
        }
    }
}

#[test]
fn its_command_is_in_the_help_and_runs() {
    let folder = folder("command");
    std::fs::write(folder.join("swirl.onnx"), model().encode_to_vec()).unwrap();
    let help = extend(&folder, "--help");
    let line = help.lines().find(|line| line.trim_start().starts_with("steps "));
    assert!(line.is_some_and(|line| line.ends_with("Count the steps of a model's plan by their backends")));
    let own = extend(&folder, "steps --help");
    assert!(own.starts_with("Count the steps of a model's plan by their backends\n"), "{own}");
    assert!(own.contains("--backend <BACKEND>") && own.contains("--pipeline <PIPELINE>"), "{own}");
    let counts = extend(&folder, "steps swirl.onnx --pipeline extend");
    assert_eq!(counts, "extend: 1\nnative: 1\n");
    assert_eq!(extend(&folder, "steps swirl.onnx --pipeline extend --backend native"), "native: 1\n");
    let wrong = run(&folder, "steps swirl.onnx --backend nothing");
    let errors = String::from_utf8_lossy(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(errors.starts_with("error: ") && errors.contains("`nothing`"), "{errors}");
}

#[test]
fn it_has_every_command_of_ovolo() {
    let help = extend(&folder("commands"), "--help");
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let (commands, _) = commands.split_once("\n\n").unwrap();
    // A name stands two columns from the left, and what follows it further right.
    let names = commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let mut names: Vec<&str> = names.filter_map(|line| line.split_whitespace().next()).collect();
    names.retain(|name| *name != "help");
    names.sort_unstable();
    let mut all = ovolo_standard::command_line(Registry::new()).names();
    for command in ["quantize", "kernels", "lsp", "run"] {
        assert!(all.iter().any(|name| name == command), "{all:?}");
    }
    all.push("steps".into());
    all.sort_unstable();
    assert_eq!(names, all);
}

#[test]
fn a_name_has_one_command() {
    /// Another command of a name that the program has.
    #[derive(clap::Args)]
    struct Second {}

    impl AddedCommand for Second {
        const NAME: &'static str = "run";
        const ABOUT: &'static str = "Never run";

        fn run(&self, _: &Arc<Registry>) -> Result<(), Refusal> {
            unreachable!("the program does not start")
        }
    }

    let program = CommandLine::new(Registry::new()).command::<Second>();
    // An exit code cannot be compared, but its text can.
    let code = format!("{:?}", program.run_words(["extend", "run"]));
    assert_eq!(code, format!("{:?}", ExitCode::FAILURE));
}

/// A backend without kernels that loads two libraries.
struct Outsider;

// SAFETY: it has no kernels.
unsafe impl Backend for Outsider {
    fn name(&self) -> &'static str {
        "outsider"
    }

    fn ops(&self) -> Vec<Lowering> {
        Vec::new()
    }

    fn libraries(&self) -> Vec<RuntimeLibrary> {
        let absent = BackendError::absent("slow", "not found; install `slow`");
        vec![
            RuntimeLibrary { name: "fast", found: Ok("1.2 (/opt/libfast.so)".into()) },
            RuntimeLibrary { name: "slow", found: Err(absent) },
        ]
    }
}

#[test]
fn the_doctor_lists_the_libraries_of_any_backend() {
    const NAME: &str = "the_doctor_lists_the_libraries_of_any_backend";
    const CHILD: &str = "EXTEND_DOCTOR";
    if let Some(words) = std::env::var_os(CHILD) {
        let mut registry = Registry::new();
        registry.add_backend(Arc::new(Outsider)).unwrap();
        CommandLine::new(registry).run_words(words.to_str().unwrap().split(' '));
        return;
    }
    // The doctor prints, so that it needs a process of its own: this test, told to be the program.
    let folder = folder("doctor");
    let doctor = |words: &str| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", NAME]).env(CHILD, words).env("OVOLO_CACHE", folder.join("cache"));
        let output = child.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = doctor("extend doctor --threads 1");
    let lines = ["outsider fast: 1.2 (/opt/libfast.so)", "outsider slow: not found; install `slow`"];
    assert!(lines.iter().all(|line| text.lines().any(|one| one == *line)), "{text}");
    let text = doctor("extend doctor --threads 1 --json");
    let json = text.lines().find(|line| line.starts_with('{')).unwrap();
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    let libraries = serde_json::json!([
        { "name": "fast", "found": "1.2 (/opt/libfast.so)" },
        { "name": "slow", "absent": "not found; install `slow`" },
    ]);
    assert_eq!(json["backends"][0]["libraries"], libraries);
}

#[test]
fn its_rules_are_verified_and_tested_with_the_shipped_ones() {
    let folder = folder("rules");
    let verified = extend(&folder, "rules verify --rule extend --json");
    for rule in ["drop-still-swirl", "lower-swirl"] {
        let line = verified.lines().find(|line| line.contains(rule));
        assert!(line.is_some_and(|line| line.contains("holds")), "{verified}");
    }
    let listed = extend(&folder, "rules list");
    assert!(
        listed.contains("lower-swirl (rules/extend.ron:") && listed.contains("lower-relu-native"),
        "{listed}"
    );
    let tested = extend(&folder, "rules test");
    assert!(tested.ends_with(" 0 wrong\n"), "{tested}");
}
