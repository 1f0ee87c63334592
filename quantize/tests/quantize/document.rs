//! Models in QDQ form.

use crate::fixture::{batches, engine, model, node, noise, three_products, weights};
use ovolo::onnx::ImportOptions;
use ovolo::onnx::proto::{GraphProto, ModelProto, NodeProto, TensorProto};
use ovolo::tensor::{DType, Tensor};
use ovolo_quantize::{Calibration, Document, Layer, QuantizeError, Range, Ranges, calibrate};
use prost::Message;

fn graph(bytes: &[u8]) -> GraphProto {
    ModelProto::decode(bytes).unwrap().graph.unwrap()
}

fn ranges(names: &[&str]) -> Ranges {
    names.iter().map(|&name| (name.to_owned(), Range::new(-1.0, 3.0))).collect()
}

fn operators(graph: &GraphProto) -> Vec<String> {
    graph.node.iter().map(|node| format!("{} {}", node.op_type, node.output[0])).collect()
}

fn constant<'a>(graph: &'a GraphProto, name: &str) -> &'a TensorProto {
    graph.initializer.iter().find(|tensor| tensor.name == name).unwrap()
}

#[test]
fn layers_are_products_with_constants_and_sums() {
    let document = Document::new("three", three_products()).unwrap();
    let text = |layer: &Layer| {
        let weights =
            layer.weights.as_ref().map(|weights| format!(" {} along {}", weights.name, weights.axis));
        format!("{} of {}{}", layer.name, layer.inputs.join(" and "), weights.unwrap_or_default())
    };
    let layers: Vec<String> = document.layers().iter().map(text).collect();
    assert_eq!(
        layers,
        ["left of x a along 1", "right of x b along 1", "sum of left and right", "y of top c along 1"]
    );
}

#[test]
fn sums_and_pools_read_levels_if_they_are_of_floats() {
    let nodes = vec![
        node("Relu", &["x"], "h"),
        node("MaxPool", &["h"], "greatest"),
        node("GlobalAveragePool", &["greatest"], "mean"),
        node("Add", &["mean", "w"], "shifted"),
        node("Shape", &["x"], "sizes"),
        node("Add", &["sizes", "sizes"], "twice"),
        node("MaxPool", &["h"], "m"),
        node("Add", &["shifted", "m"], "y"),
    ];
    let mut parts = model(nodes, vec![weights("w", &[1], &[1.0])], &[1, 2, 8, 8], &[1, 2, 4, 4]);
    parts.graph.as_mut().unwrap().node[6].output.push("positions".into());
    let document = Document::new("pools", parts.encode_to_vec()).unwrap();
    let names: Vec<&str> = document.layers().iter().map(|layer| &*layer.name).collect();
    // A sum with a constant is none of two values, sizes are integers, and positions are those of floats.
    assert_eq!(names, ["greatest", "mean", "y"]);
    let quantised = document.quantised(&[true; 3], &ranges(&["h", "greatest", "shifted", "m"])).unwrap();
    let graph = graph(&quantised);
    let of = |name: &str| &graph.node.iter().find(|node| node.output[0] == name).unwrap().input;
    assert_eq!(of("greatest")[..], ["h_dequantized"]);
    assert_eq!(of("mean")[..], ["greatest_dequantized"]);
    assert_eq!(of("m")[..], ["h"]);
    assert_eq!(of("y")[..], ["shifted_dequantized", "m_dequantized"]);
}

#[test]
fn transposed_convolutions_have_their_output_channels_along_the_second_axis() {
    let mut grouped = node("ConvTranspose", &["h", "v", "c"], "y");
    grouped.attribute.push(ovolo::onnx::proto::AttributeProto {
        name: "group".into(),
        i: 2,
        r#type: 2,
        ..Default::default()
    });
    let nodes = vec![node("ConvTranspose", &["x", "w", "b"], "h"), grouped];
    let constants = vec![
        weights("w", &[2, 4, 3, 3], &noise(72, 1)),
        weights("b", &[4], &[0.5, -0.5, 0.25, 1.0]),
        weights("v", &[4, 3, 1, 1], &noise(12, 2)),
        weights("c", &[6], &noise(6, 3)),
    ];
    let parts = model(nodes, constants, &[1, 2, 4, 4], &[1, 6, 6, 6]);
    let document = Document::new("transposed", parts.encode_to_vec()).unwrap();
    let import = ImportOptions::default();
    let engine = engine(&import);
    let values: Vec<f64> = noise(32, 4).into_iter().map(f64::from).collect();
    let image = Tensor::from_f64(DType::F32, [1, 2, 4, 4], &values);
    let batches = batches(document.bytes(), &[image]).unwrap();
    let ranges = calibrate(&document, &engine, &batches, Calibration::MinMax).unwrap();
    let bytes = document.quantised(&[true; 2], &ranges).unwrap();
    let graph = graph(&bytes);
    let of = |name: &str| &graph.node.iter().find(|node| node.output[0] == name).unwrap().input;
    assert_eq!(of("h")[..], ["x_dequantized", "w_dequantized", "h_bias_dequantized"]);
    assert_eq!(constant(&graph, "w_scale").dims, [4]);
    // The bias of two groups has twice as many channels as there are scales, so it stays.
    assert_eq!(of("y")[..], ["h_dequantized", "v_dequantized", "c"]);
    assert_eq!(constant(&graph, "v_scale").dims, [3]);
    let run = |bytes: &[u8]| {
        let outputs = engine.compile(bytes).unwrap().run(&batches[0]).unwrap();
        outputs[0].to_f64()
    };
    let (float, levels) = (run(document.bytes()), run(&bytes));
    let norm = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
    let differences: Vec<f64> = float.iter().zip(&levels).map(|(one, other)| one - other).collect();
    let distance = norm(&differences) / norm(&float);
    assert!(distance > 0.0 && distance < 0.05, "{distance}");
}

#[test]
fn a_value_that_two_layers_read_is_quantised_once_before_both() {
    let document = Document::new("three", three_products()).unwrap();
    let ranges = ranges(&["x", "top"]);
    let graph = graph(&document.quantised(&[true, true, false, false], &ranges).unwrap());
    assert_eq!(
        operators(&graph),
        [
            "QuantizeLinear x_quantized",
            "DequantizeLinear x_dequantized",
            "DequantizeLinear a_dequantized",
            "MatMul left",
            "DequantizeLinear b_dequantized",
            "MatMul right",
            "Add sum",
            "Relu top",
            "MatMul y",
        ]
    );
    assert_eq!(graph.node[5].input, ["x_dequantized", "b_dequantized"]);
    assert_eq!(graph.node[2].input, ["a_quantized", "a_scale", "a_zero_point"]);
    assert_eq!((graph.node[2].attribute[0].name.as_str(), graph.node[2].attribute[0].i), ("axis", 1));
    assert_eq!(constant(&graph, "x_zero_point").raw_data[..], [64]);
    assert_eq!(constant(&graph, "x_scale").raw_data[..], (4.0_f32 / 255.0).to_le_bytes());
    let levels = constant(&graph, "a_quantized");
    assert_eq!((levels.data_type, levels.dims.as_slice(), levels.raw_data.len()), (3, &[16, 32][..], 512));
    assert_eq!(constant(&graph, "a_scale").dims, [32]);
    // Float weights that are not read any more are gone, the others stay.
    let names: Vec<&str> = graph.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
    assert!(!names.contains(&"a") && !names.contains(&"b") && names.contains(&"c"), "{names:?}");
}

/// A field with number 4000 of a message, which no reader knows.
fn unknown(text: &str) -> Vec<u8> {
    let mut bytes = vec![0x82, 0xfa, 0x01, u8::try_from(text.len()).unwrap()];
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

fn with_length(number: u8, content: &[u8]) -> Vec<u8> {
    assert!(content.len() < 1 << 14);
    let length =
        [u8::try_from(content.len() & 127).unwrap() | 128, u8::try_from(content.len() >> 7).unwrap()];
    [&[number << 3 | 2][..], &length, content].concat()
}

#[test]
fn fields_that_nobody_knows_are_kept() {
    let node = |node: NodeProto| with_length(1, &[node.encode_to_vec(), unknown("of-node")].concat());
    let parts = model(Vec::new(), vec![weights("w", &[16, 4], &noise(64, 1))], &[2, 16], &[2, 4]);
    let inner = [
        node(crate::fixture::node("MatMul", &["x", "w"], "h")),
        node(crate::fixture::node("Relu", &["h"], "y")),
        parts.graph.clone().unwrap().encode_to_vec(),
        unknown("of-graph"),
    ]
    .concat();
    let outer = ModelProto { graph: None, ..parts }.encode_to_vec();
    let bytes = [outer, with_length(7, &inner), unknown("of-model")].concat();
    let document = Document::new("unknown", bytes.clone()).unwrap();
    let quantised = document.quantised(&[true], &ranges(&["x"])).unwrap();
    let count = |bytes: &[u8], text: &str| {
        bytes.windows(text.len()).filter(|window| *window == text.as_bytes()).count()
    };
    for text in ["of-node", "of-graph", "of-model"] {
        assert_eq!(count(&quantised, text), count(&bytes, text), "{text}");
    }
    assert_eq!(graph(&quantised).node.len(), 5);
    // With nothing chosen the model is the same, but for the order of its fields.
    let same = document.quantised(&[false], &ranges(&["x"])).unwrap();
    assert_eq!(ModelProto::decode(&*same).unwrap(), ModelProto::decode(&*bytes).unwrap());
}

#[test]
fn convolutions_and_gemm_have_biases_of_32_bits() {
    let mut gemm = node("Gemm", &["h", "v", "c"], "y");
    gemm.attribute.push(ovolo::onnx::proto::AttributeProto {
        name: "transB".into(),
        i: 1,
        r#type: 2,
        ..Default::default()
    });
    let nodes = vec![node("Conv", &["x", "w", "b"], "g"), node("Flatten", &["g"], "h"), gemm];
    let constants = vec![
        weights("w", &[2, 1, 3, 3], &noise(18, 1)),
        weights("b", &[2], &[0.5, -0.5]),
        weights("v", &[3, 8], &noise(24, 2)),
        weights("c", &[3], &[1.0, 1e30, 0.0]),
    ];
    let document =
        Document::new("conv", model(nodes, constants, &[1, 1, 4, 4], &[1, 3]).encode_to_vec()).unwrap();
    let axis = |layer: &Layer| layer.weights.as_ref().map(|weights| weights.axis);
    assert_eq!(document.layers().iter().map(axis).collect::<Vec<_>>(), [Some(0), Some(0)]);
    let graph = graph(&document.quantised(&[true, true], &ranges(&["x", "h"])).unwrap());
    let levels = constant(&graph, "g_bias_quantized");
    assert_eq!((levels.data_type, levels.raw_data.len()), (6, 8));
    let conv = graph.node.iter().find(|node| node.op_type == "Conv").unwrap();
    assert_eq!(conv.input, ["x_dequantized", "w_dequantized", "g_bias_dequantized"]);
    // A level of the other bias is beyond 32 bits, so it stays.
    let gemm = graph.node.iter().find(|node| node.op_type == "Gemm").unwrap();
    assert_eq!(gemm.input, ["h_dequantized", "v_dequantized", "c"]);
    assert_eq!(constant(&graph, "c").float_data.len(), 3);
}

#[test]
fn names_that_are_taken_get_another_ending() {
    let nodes = vec![node("Relu", &["x"], "x_scale"), node("MatMul", &["x_scale", "w"], "x_scale_scale"), {
        node("MatMul", &["x_scale_scale", "x"], "y")
    }];
    let document = Document::new(
        "names",
        model(nodes, vec![weights("w", &[2, 2], &[1.0; 4])], &[2, 2], &[2, 2]).encode_to_vec(),
    )
    .unwrap();
    assert_eq!(document.layers().len(), 1, "a product of two values that are not constant is no layer");
    let graph = graph(&document.quantised(&[true], &ranges(&["x_scale"])).unwrap());
    assert!(graph.initializer.iter().any(|tensor| tensor.name == "x_scale_scale_"));
    let mut names: Vec<&String> = graph.node.iter().flat_map(|node| &node.output).collect();
    names.extend(graph.initializer.iter().map(|tensor| &tensor.name));
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn weights_that_another_node_reads_stay_as_well() {
    let nodes =
        vec![node("MatMul", &["x", "w"], "h"), node("Relu", &["w"], "v"), node("Add", &["h", "v"], "y")];
    let document = Document::new(
        "shared",
        model(nodes, vec![weights("w", &[2, 2], &[1.0; 4])], &[2, 2], &[2, 2]).encode_to_vec(),
    )
    .unwrap();
    let graph = graph(&document.quantised(&[true], &ranges(&["x"])).unwrap());
    assert_eq!(constant(&graph, "w").dims, [2, 2]);
}

#[test]
fn models_that_cannot_be_quantised_are_refused_with_a_remedy() {
    let refused = |bytes: Vec<u8>, what: &str| {
        let error = Document::new("m.onnx", bytes).err().unwrap().to_string();
        assert!(error.starts_with("m.onnx: ") && error.contains(what), "{error}");
    };
    refused(b"no model".to_vec(), "it is no ONNX model");
    let none = model(vec![node("Relu", &["x"], "y")], Vec::new(), &[2], &[2]);
    refused(none.encode_to_vec(), "there is nothing to quantise");
    let mut old = ModelProto::decode(&*three_products()).unwrap();
    old.opset_import[0].version = 12;
    refused(old.encode_to_vec(), "it uses opset 12, and scales of channels need opset 13");
    let mut apart = ModelProto::decode(&*three_products()).unwrap();
    apart.graph.as_mut().unwrap().initializer[1].data_location = 1;
    refused(apart.encode_to_vec(), "`b` is in another file");
    let mut damaged = ModelProto::decode(&*three_products()).unwrap();
    damaged.graph.as_mut().unwrap().initializer[0].float_data[3] = f32::INFINITY;
    let document = Document::new("m.onnx", damaged.encode_to_vec()).unwrap();
    let error = document.quantised(&[true, false, false, false], &ranges(&["x", "top"])).unwrap_err();
    assert!(matches!(error, QuantizeError::Constant { .. }), "{error}");
    assert_eq!(error.to_string(), "m.onnx: constant `a`: it holds inf");
}
