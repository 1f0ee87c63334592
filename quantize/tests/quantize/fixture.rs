//! Small models, and how they are compiled.

use ovolo::compile::Options;
use ovolo::onnx::ImportOptions;
use ovolo::onnx::proto::{
    DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetId, TensorProto, TensorShapeProto,
    TensorTypeProto, TypeProto, ValueInfoProto,
};
use ovolo::registry::Registry;
use ovolo::tensor::Tensor;
use ovolo_quantize::{Batch, Data, Engine, QuantizeError};
use prost::Message;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

/// A file of the network of the examples.
pub fn digits(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/digits").join(file)
}

/// Returns a new folder.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("quantize").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The native pipeline on a nominal machine.
pub fn options() -> &'static Options {
    static OPTIONS: LazyLock<Options> = LazyLock::new(|| {
        let mut registry = Registry::new();
        ovolo_native::register(&mut registry).unwrap();
        Options::new(&Arc::new(registry), "native").unwrap()
    });
    &OPTIONS
}

/// Compiles with these sizes of dimensions.
pub fn engine(import: &ImportOptions) -> Engine<'_> {
    Engine { options: options(), import, name: "model" }
}

/// Cuts data for the input `x` into batches of a model.
pub fn batches(model: &[u8], tensors: &[Tensor]) -> Result<Vec<Batch>, QuantizeError> {
    let mut data = Data::default();
    for tensor in tensors {
        data.push("x", Path::new("x.npy"), tensor.clone());
    }
    data.batches(engine(&ImportOptions::default()).compile(model)?.plan())
}

/// Numbers of -1 to 1 that look random, and are the same each time.
pub fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        #[allow(clippy::cast_precision_loss)]
        let value = (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0;
        value
    };
    (0..count).map(|_| next()).collect()
}

/// An initializer of binary32.
pub fn weights(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    TensorProto {
        name: name.into(),
        dims: dims.to_vec(),
        data_type: 1,
        float_data: values.to_vec(),
        ..TensorProto::default()
    }
}

/// A node with one result.
pub fn node(operator: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        op_type: operator.into(),
        input: inputs.iter().map(|&name| name.into()).collect(),
        output: vec![output.into()],
        ..NodeProto::default()
    }
}

/// A value of binary32.
pub fn value(name: &str, dims: &[i64]) -> ValueInfoProto {
    let dim = |size: &i64| DimensionProto { dim_value: Some(*size), ..DimensionProto::default() };
    let shape = Some(TensorShapeProto { dim: dims.iter().map(dim).collect() });
    let tensor_type = Some(TensorTypeProto { elem_type: 1, shape });
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type, ..TypeProto::default() }) }
}

/// A model with the input `x` and the output `y`.
pub fn model(nodes: Vec<NodeProto>, initializer: Vec<TensorProto>, x: &[i64], y: &[i64]) -> ModelProto {
    let graph = GraphProto {
        name: "small".into(),
        node: nodes,
        initializer,
        input: vec![value("x", x)],
        output: vec![value("y", y)],
        ..GraphProto::default()
    };
    let opset_import = vec![OperatorSetId { domain: String::new(), version: 17 }];
    ModelProto { ir_version: 8, opset_import, graph: Some(graph), ..ModelProto::default() }
}

/// A model of two products of the same value, and one of their sum: `y = relu(x a + x b) c`.
pub fn three_products() -> Vec<u8> {
    let nodes = vec![
        node("MatMul", &["x", "a"], "left"),
        node("MatMul", &["x", "b"], "right"),
        node("Add", &["left", "right"], "sum"),
        node("Relu", &["sum"], "top"),
        node("MatMul", &["top", "c"], "y"),
    ];
    let weights = vec![
        weights("a", &[16, 32], &noise(512, 1)),
        weights("b", &[16, 32], &noise(512, 2)),
        weights("c", &[32, 8], &noise(256, 3)),
    ];
    model(nodes, weights, &[4, 16], &[4, 8]).encode_to_vec()
}
