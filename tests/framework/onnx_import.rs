//! Tests what imported models become.

#![allow(clippy::unwrap_used)]

use crate::common;
use crate::proto::{FLOAT, int, ints, longs, node, untyped, value};

use ovolo::graph::{CONST, Graph};
use ovolo::onnx::proto::{
    AttributeProto, AttributeType, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetId,
    SparseTensorProto, TensorProto,
};
use ovolo::onnx::{
    ImportOptions, ImportedModel, Interface, MissingWeights, Size, check_inputs, from_bytes, load,
};
use ovolo::tensor::{DType, Tensor, TensorType};
use prost::Message;
use std::path::Path;

fn floats(name: &str, dims: &[i64]) -> TensorProto {
    let count: i64 = dims.iter().product();
    let values = (0..count).map(|value| f32::from(i16::try_from(value % 1000).unwrap()));
    crate::proto::floats(name, dims, &values.collect::<Vec<_>>())
}

fn model(version: i64, dims: &[&str], node: Vec<NodeProto>, initializer: Vec<TensorProto>) -> ModelProto {
    let output = vec![untyped("y")];
    let graph = GraphProto {
        node,
        initializer,
        input: vec![value("x", FLOAT, dims)],
        output,
        ..GraphProto::default()
    };
    crate::proto::model(version, graph)
}

fn import(model: &ModelProto) -> ImportedModel {
    from_bytes(common::registry().onnx(), model.encode_to_vec(), "model.onnx", &ImportOptions::default())
        .unwrap()
}

/// Prints each node in one line: name, op, attributes, operands, type.
fn listing(graph: &Graph) -> String {
    let line = |node: &ovolo::graph::Node| {
        let inputs: Vec<&str> = node.inputs.iter().map(|&input| &*graph[input].name).collect();
        format!("{} = {}{}({}): {}\n", node.name, node.op, node.attrs, inputs.join(", "), node.ty)
    };
    graph.nodes().map(|(_, node)| line(node)).collect()
}

#[test]
fn an_interface_has_shapes_defaults_and_what_the_model_says_of_itself() {
    let weight = floats("w", &[3]);
    let mut model = model(17, &["N", "3"], vec![node("Add", &["x", "w"], &["y"])], vec![weight]);
    model.producer_name = "a test".to_owned();
    model.model_version = 7;
    model.graph.as_mut().unwrap().input.push(value("w", FLOAT, &["3"]));
    let file = std::env::temp_dir().join(format!("ovolo-interface-{}.onnx", std::process::id()));
    std::fs::write(&file, model.encode_to_vec()).unwrap();
    let interface = Interface::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(interface.shapes["x"], [Size::Named("N".to_owned()), Size::Fixed(3)]);
    assert!(!interface.shapes.contains_key("y"));
    assert_eq!(interface.defaults, ["w".to_owned()].into());
    assert_eq!((interface.about.producer.as_str(), interface.about.version), ("a test", 7));
}

#[test]
fn the_ten_models_are_imported() {
    let expected = [
        ("bert_base", 553, "last_hidden_state: f32[1,128,768]"),
        ("efficientnet_b0", 388, "output: f32[1,1000]"),
        ("inception_v3", 408, "output: f32[1,1000]"),
        ("mobilenet_v2", 209, "output: f32[1,1000]"),
        ("nasrnn", 264, "h: f32[1,512]"),
        ("resnet50", 233, "output: f32[1,1000]"),
        ("resnext50_32x4d", 233, "output: f32[1,1000]"),
        ("squeezenet1_1", 100, "output: f32[1,1000]"),
        ("vgg16", 67, "output: f32[1,1000]"),
        ("vit_b_16", 694, "output: f32[1,1000]"),
    ];
    let options = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
    for (name, nodes, output) in expected {
        let imported = load(
            common::registry().onnx(),
            common::root().join(format!("tests/models/{name}.onnx")),
            &options,
        )
        .unwrap();
        let (label, id) = imported.graph.outputs().next().unwrap();
        assert_eq!(format!("{label}: {}", imported.graph[id].ty), output, "{name}");
        assert_eq!(imported.graph.len(), nodes, "{name}");
        assert_eq!(imported.notes, Vec::<String>::new(), "{name}");
        assert!(!imported.seeded.is_empty(), "{name}");
        let text = ovolo::graph::text::print(&imported.graph);
        let constants = ovolo::graph::text::Constants::from_graph(&imported.graph, name);
        let again = ovolo::graph::text::parse_with(common::ops(), &text, &constants);
        assert_eq!(ovolo::graph::text::print(&again.unwrap()), text, "{name}");
        if let Err(errors) = ovolo::verify::verify(imported.graph) {
            panic!("{name}: {errors}");
        }
    }
}

#[test]
fn generated_weights_are_the_same_each_time_and_differ_by_name() {
    let stripped = |name: &str| TensorProto {
        float_data: Vec::new(),
        doc_string: "normal 2 0.5".to_owned(),
        ..floats(name, &[300, 300])
    };
    let nodes = vec![node("MatMul", &["x", "a"], &["z"]), node("MatMul", &["z", "b"], &["y"])];
    let model = model(17, &["1", "300"], nodes, vec![stripped("a"), stripped("b")]);
    let options = ImportOptions { missing_weights: MissingWeights::Seeded, ..ImportOptions::default() };
    let weights = || {
        let graph = from_bytes(common::registry().onnx(), model.encode_to_vec(), "model.onnx", &options)
            .unwrap()
            .graph;
        let value = |name: &str| graph.constant(graph.find(name).unwrap()).unwrap().to_f64();
        (value("a"), value("b"))
    };
    let (a, b) = weights();
    assert_eq!((&a, &b), (&weights().0, &weights().1));
    assert_ne!(a, b);
    let mean = a.iter().sum::<f64>() / 90_000.0;
    let variance = a.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 90_000.0;
    assert!((mean - 2.0).abs() < 0.01 && (variance.sqrt() - 0.5).abs() < 0.01, "{mean} {variance}");
}

#[test]
fn symbolic_dimensions_are_bound_by_name() {
    let model = model(17, &["batch", "3"], vec![node("Relu", &["x"], &["y"])], Vec::new());
    let options = ImportOptions { dims: [("batch".to_owned(), 4)].into(), ..ImportOptions::default() };
    let graph =
        from_bytes(common::registry().onnx(), model.encode_to_vec(), "model.onnx", &options).unwrap().graph;
    assert_eq!(listing(&graph), "x = input(): f32[4,3]\ny = relu(x): f32[4,3]\n");
    assert!(
        check_inputs(&graph, &[("x", Tensor::zeros(TensorType::plain(DType::F32, [4_usize, 3])))]).is_ok()
    );
}

#[test]
fn shape_arithmetic_is_folded_away() {
    let nodes = vec![
        node("Shape", &["x"], &["shape"]),
        int("axis", 0, node("Gather", &["shape", "first"], &["batch"])),
        node("Mul", &["batch", "two"], &["double"]),
        int("axis", 0, node("Concat", &["double", "rest"], &["sizes"])),
        node("Reshape", &["x", "sizes"], &["y"]),
    ];
    let weights = vec![longs("first", &[0]), longs("two", &[2]), longs("rest", &[-1])];
    let graph = import(&model(17, &["4", "6"], nodes, weights)).graph;
    assert_eq!(listing(&graph), "x = input(): f32[4,6]\ny = reshape{shape: [8,3]}(x): f32[8,3]\n");
}

#[test]
fn a_one_dimensional_convolution_becomes_one_of_an_image() {
    let graph = import(&model(
        17,
        &["1", "2", "9"],
        vec![node("Conv", &["x", "w"], &["y"])],
        vec![floats("w", &[4, 2, 3])],
    ))
    .graph;
    let attrs = "{dilations: [1,1], groups: 1, pads: [0,0,0,0], post: <>, strides: [1,1]}";
    let expected = format!(
        "x = input(): f32[1,2,9]\n\
         y.image = reshape{{shape: [1,2,1,9]}}(x): f32[1,2,1,9]\n\
         y.weights = const(): f32[4,2,1,3]\n\
         y.bias = const(): f32[4]\n\
         y.row = conv{attrs}(y.image, y.weights, y.bias): f32[1,4,1,7]\n\
         y = reshape{{shape: [1,4,7]}}(y.row): f32[1,4,7]\n"
    );
    assert_eq!(listing(&graph), expected);
}

#[test]
fn softmax_before_opset_13_flattens() {
    let softmax = |version| {
        import(&model(version, &["2", "3", "4"], vec![node("Softmax", &["x"], &["y"])], vec![])).graph
    };
    let old = "x = input(): f32[2,3,4]\n\
               y.rows = reshape{shape: [2,12]}(x): f32[2,12]\n\
               y.softmax = softmax{axis: 1}(y.rows): f32[2,12]\n\
               y = reshape{shape: [2,3,4]}(y.softmax): f32[2,3,4]\n";
    assert_eq!(listing(&softmax(11)), old);
    assert_eq!(listing(&softmax(13)), "x = input(): f32[2,3,4]\ny = softmax{axis: 2}(x): f32[2,3,4]\n");
}

#[test]
fn a_function_of_the_model_is_inlined() {
    let mut reference =
        AttributeProto { name: "perm".to_owned(), ref_attr_name: "order".to_owned(), ..Default::default() };
    reference.r#type = AttributeType::Ints as i32;
    let mut turn = node("Transpose", &["a"], &["turned"]);
    turn.attribute.push(reference);
    let function = FunctionProto {
        name: "Turn".to_owned(),
        domain: "local".to_owned(),
        input: vec!["a".to_owned()],
        output: vec!["b".to_owned()],
        attribute: vec!["order".to_owned()],
        node: vec![turn, node("Relu", &["turned"], &["b"])],
        opset_import: vec![OperatorSetId { domain: String::new(), version: 17 }],
        ..FunctionProto::default()
    };
    let mut call = ints("order", &[1, 0], node("Turn", &["x"], &["y"]));
    call.domain = "local".to_owned();
    let mut model = model(17, &["2", "3"], vec![call], Vec::new());
    model.functions.push(function);
    let expected = "x = input(): f32[2,3]\n\
                    y/turned = transpose{perm: [1,0]}(x): f32[3,2]\n\
                    y = relu(y/turned): f32[3,2]\n";
    assert_eq!(listing(&import(&model).graph), expected);
}

#[test]
fn constants_may_be_given_by_their_elements_that_are_not_zero() {
    let sparse = |name: &str, places: TensorProto| SparseTensorProto {
        values: Some(crate::proto::floats(name, &[2], &[5.0, 7.0])),
        indices: Some(places),
        dims: vec![2, 3],
    };
    let mut constant = node("Constant", &[], &["c"]);
    constant.attribute.push(AttributeProto {
        name: "sparse_value".to_owned(),
        r#type: AttributeType::SparseTensor as i32,
        sparse_tensor: Some(sparse("", TensorProto { dims: vec![2, 2], ..longs("", &[0, 1, 1, 2]) })),
        ..Default::default()
    });
    let nodes = vec![constant, node("Add", &["x", "w"], &["a"]), node("Mul", &["a", "c"], &["y"])];
    let mut model = model(17, &["2", "3"], nodes, Vec::new());
    let graph = model.graph.as_mut().unwrap();
    graph.sparse_initializer.push(sparse("w", longs("", &[0, 4])));
    // Old models list initializers as inputs.
    graph.input.push(value("w", FLOAT, &["2", "3"]));
    let graph = import(&model).graph;
    let constants: Vec<(&str, Vec<f64>)> =
        graph.nodes().filter_map(|(id, node)| Some((&*node.name, graph.constant(id)?.to_f64()))).collect();
    let expected = [("w", vec![5.0, 0.0, 0.0, 0.0, 7.0, 0.0]), ("c", vec![0.0, 5.0, 0.0, 0.0, 0.0, 7.0])];
    assert_eq!(constants, expected);
    assert_eq!(graph.inputs().count(), 1);
}

#[test]
fn constants_that_are_given_by_elements_have_the_bytes_of_the_whole_value_in_sparse_layouts() {
    // An element that is given as zero counts for nothing, whatever its sign.
    let places = [0, 5, 6, 7, 29, 30, 59];
    let values = [1.5, 0.0, -0.0, 2.0, -3.0, 4.0, 5.0];
    let layouts = ["ab", "ba", "Ba4b", "BA2b2a"];
    let sparse = SparseTensorProto {
        values: Some(crate::proto::floats("w", &[7], &values)),
        indices: Some(longs("", &places)),
        dims: vec![6, 10],
    };
    let mut model = model(17, &["6", "10"], vec![node("Add", &["x", "w"], &["y"])], Vec::new());
    model.graph.as_mut().unwrap().sparse_initializer.push(sparse);
    let graph = import(&model).graph;
    let given = graph.nodes().find_map(|(id, _)| graph.constant(id)).unwrap();
    let mut whole = Tensor::zeros(given.ty().clone());
    for (place, value) in places.iter().zip(values) {
        whole.elements_mut::<f32>()[usize::try_from(*place).unwrap()] = value;
    }
    for layout in layouts {
        // There are five elements other than zero, so at most as many blocks are in use. A zero beside one keeps its sign.
        for stored in 1..=7 {
            let layout = format!("{layout}.{stored}").parse().unwrap();
            assert_eq!(given.to_layout(&layout).bytes(), whole.to_layout(&layout).bytes(), "{layout}");
        }
    }
    assert_eq!(given.bytes(), whole.bytes());
}

#[test]
fn nodes_may_have_any_order_and_unused_ones_are_removed() {
    let nodes = vec![
        node("Tanh", &["h"], &["y"]),
        node("Sigmoid", &["x"], &["unused"]),
        node("Relu", &["x"], &["h"]),
    ];
    let graph = import(&model(17, &["2"], nodes, vec![floats("w", &[2])])).graph;
    assert_eq!(listing(&graph), "x = input(): f32[2]\nh = relu(x): f32[2]\ny = tanh(h): f32[2]\n");
}

#[test]
fn added_nodes_never_take_a_name_of_the_model() {
    let nodes = vec![node("Conv", &["x", "w"], &["y.bias"]), node("Conv", &["y.bias", "w"], &["y"])];
    let graph = import(&model(17, &["1", "1", "5", "5"], nodes, vec![floats("w", &[1, 1, 1, 1])])).graph;
    assert_eq!(graph[graph.find("y.bias").unwrap()].op, "conv");
    assert_eq!(graph[graph.find("y.bias'").unwrap()].op, CONST);
}

#[test]
fn a_wrong_shape_of_an_output_is_noted() {
    let mut model = model(17, &["2"], vec![node("Relu", &["x"], &["y"])], Vec::new());
    model.graph.as_mut().unwrap().output = vec![value("y", FLOAT, &["3"])];
    assert_eq!(import(&model).notes, ["output `y` is declared as f32[3], but is f32[2]"]);
}

#[test]
fn external_data_is_read_beside_the_model() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("onnx-import-external");
    std::fs::create_dir_all(folder.join("data")).unwrap();
    let bytes: Vec<u8> = [7.0_f32, 1.5, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    std::fs::write(folder.join("data/weights.bin"), bytes).unwrap();
    let entry = |key: &str, value: &str| ovolo::onnx::proto::StringStringEntryProto {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let weight = TensorProto {
        float_data: Vec::new(),
        data_location: 1,
        external_data: vec![entry("location", "data/weights.bin"), entry("offset", "4")],
        ..floats("w", &[2])
    };
    let model = model(17, &["2"], vec![node("Add", &["x", "w"], &["y"])], vec![weight]);
    std::fs::write(folder.join("model.onnx"), model.encode_to_vec()).unwrap();
    let graph =
        load(common::registry().onnx(), folder.join("model.onnx"), &ImportOptions::default()).unwrap().graph;
    assert_eq!(graph.constant(graph.find("w").unwrap()).unwrap().elements::<f32>(), [1.5, -2.0]);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// An integer to a fractional power: the power is computed with real numbers and then rounded towards zero.
#[test]
fn integers_to_fractional_powers_are_truncated_only_at_the_end() {
    let exponent = TensorProto {
        name: "e".to_owned(),
        dims: vec![2],
        data_type: 1,
        float_data: vec![2.5, 0.5],
        ..Default::default()
    };
    let nodes = vec![
        int("to", 7, node("Cast", &["x"], &["i"])),
        node("Pow", &["i", "e"], &["p"]),
        int("to", 1, node("Cast", &["p"], &["y"])),
    ];
    let graph = import(&model(17, &["2"], nodes, vec![exponent])).graph;
    let x = Tensor::from_f64(DType::F32, [2], &[3.0, 9.0]);
    assert_eq!(common::reference(&graph, &[x])[0].to_f64(), [15.0, 3.0]);
}
