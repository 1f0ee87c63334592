//! Tests the memory of a first start: the sources of packed weights are released while the packed ones are
//! made. Tests the memory of one session for several sizes: the weights are packed once.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use ovolo::onnx::proto::{
    DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetId, StringStringEntryProto, TensorProto,
    TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use prost::Message;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The number of weights, and the bytes of each.
const WEIGHTS: usize = 8;
const BYTES: usize = 16 << 20;
const SIDES: [i64; 2] = [1024, 4096];

/// A value of rows, whose number has a name or is 1.
fn value(name: &str, rows: Option<&str>) -> ValueInfoProto {
    let dim_value = rows.is_none().then_some(1);
    let dim = [
        DimensionProto { dim_value, dim_param: rows.map(ToOwned::to_owned) },
        DimensionProto { dim_value: Some(SIDES[0]), dim_param: None },
    ];
    let tensor_type =
        Some(TensorTypeProto { elem_type: 1, shape: Some(TensorShapeProto { dim: dim.to_vec() }) });
    ValueInfoProto { name: name.to_owned(), r#type: Some(TypeProto { tensor_type, ..TypeProto::default() }) }
}

/// Writes a chain of matrix products whose weights are in a file beside the model. The weights are written
/// piece by piece, because the memory of this process counts for a child process until it has started.
fn model(at: &Path, rows: Option<&str>) -> PathBuf {
    let mut file = std::fs::File::create(at.join("weights")).unwrap();
    for weight in 0..WEIGHTS {
        // Each weight is different, because the cache stores equal ones only once.
        let values = (0..1 << 18).map(|at| 1e-3 * ((at + weight) % 11) as f32);
        let piece: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        for _ in 0..BYTES / piece.len() {
            file.write_all(&piece).unwrap();
        }
    }
    let entry = |key: &str, value: String| StringStringEntryProto { key: key.into(), value };
    let weight = |index: usize| TensorProto {
        name: format!("w{index}"),
        dims: vec![SIDES[index % 2], SIDES[(index + 1) % 2]],
        data_type: 1,
        data_location: 1,
        external_data: vec![
            entry("location", "weights".into()),
            entry("offset", (index * BYTES).to_string()),
            entry("length", BYTES.to_string()),
        ],
        ..TensorProto::default()
    };
    let product = |index: usize| NodeProto {
        op_type: "MatMul".into(),
        input: vec![if index == 0 { "x".into() } else { format!("y{}", index - 1) }, format!("w{index}")],
        output: vec![format!("y{index}")],
        ..NodeProto::default()
    };
    let graph = GraphProto {
        node: (0..WEIGHTS).map(product).collect(),
        initializer: (0..WEIGHTS).map(weight).collect(),
        input: vec![value("x", rows)],
        output: vec![value(&format!("y{}", WEIGHTS - 1), rows)],
        ..GraphProto::default()
    };
    let model = ModelProto {
        ir_version: 8,
        graph: Some(graph),
        opset_import: vec![OperatorSetId { domain: String::new(), version: 17 }],
        ..ModelProto::default()
    };
    let path = at.join("model.onnx");
    std::fs::write(&path, model.encode_to_vec()).unwrap();
    path
}

/// Returns the most memory that a command used at one time, in bytes.
#[allow(clippy::zombie_processes)] // The system's own call waits for it, and tells what it took.
fn most(command: &mut Command) -> usize {
    let child = command.stdout(Stdio::null()).spawn().unwrap();
    let id = i32::try_from(child.id()).unwrap();
    let mut status = 0;
    // SAFETY: a plain structure of numbers, for which zeros are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the child belongs to this process, and nothing else waits for it.
    assert_eq!(unsafe { libc::wait4(id, &raw mut status, 0, &raw mut usage) }, id);
    assert_eq!(status, 0);
    usize::try_from(usage.ru_maxrss).unwrap() << 10
}

#[test]
fn a_first_start_takes_the_packed_weights_and_little_more() {
    let at = Path::new(env!("CARGO_TARGET_TMPDIR")).join("resident");
    let _ = std::fs::remove_dir_all(&at);
    std::fs::create_dir_all(&at).unwrap();
    let model = model(&at, None);
    let x = ovolo::tensor::TensorType::plain(ovolo::tensor::DType::F32, [1, 1024]);
    ovolo::npy::write(at.join("x.npy"), &ovolo::tensor::Tensor::zeros(x)).unwrap();
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ovolo"));
        command.arg("run").arg(&model).args(["--cost", "flops", "--threads", "2", "--input", "x=x.npy"]);
        most(
            command
                .args(more)
                .env("OVOLO_CACHE", at.join("cache"))
                .env("OVOLO_PIPELINE", "native")
                .current_dir(&at),
        )
    };
    let weights = WEIGHTS * BYTES;
    let (none, cold, warm) = (run(&["--no-cache"]), run(&[]), run(&[]));
    std::fs::remove_dir_all(&at).unwrap();
    // In addition to the packed weights, it holds the sources of two of them, and the program.
    for (what, bytes) in [("without a cache", none), ("with an empty one", cold), ("from the cache", warm)] {
        assert!(bytes > weights, "{what}: {bytes} bytes, less than the weights");
        assert!(bytes < weights + 4 * BYTES + (32 << 20), "{what}: {} MiB", bytes >> 20);
    }
}

#[test]
fn five_sizes_take_little_more_than_the_largest_of_them() {
    let at = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sizes");
    let _ = std::fs::remove_dir_all(&at);
    std::fs::create_dir_all(&at).unwrap();
    let model = model(&at, Some("N"));
    // All sizes pack a weight in the same way in this pipeline.
    let run = |sizes: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ovolo"));
        command.arg("bench").arg(&model).args([
            "--sizes",
            sizes,
            "--seconds",
            "0.01",
            "--json",
            "--no-cache",
        ]);
        command.args(["--pipeline", "strict", "--cost", "flops", "--threads", "2"]);
        let output = command.current_dir(&at).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let resident = report["sizes"].as_array().and_then(|sizes| sizes.last()?["resident"].as_u64());
        (report["constants"].as_u64().unwrap(), resident.unwrap())
    };
    let (one, five) = (run("N=16"), run("N=1,2,4,8,16"));
    std::fs::remove_dir_all(&at).unwrap();
    assert!(one.0 >= (WEIGHTS * BYTES) as u64, "{} bytes, less than the weights", one.0);
    assert_eq!(one.0, five.0, "constants");
    assert!(five.1 * 5 <= one.1 * 6, "{} MiB, and {} MiB for one size", five.1 >> 20, one.1 >> 20);
}
