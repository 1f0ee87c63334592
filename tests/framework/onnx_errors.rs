//! Tests models and inputs that are refused; each snapshot shows the whole message.

#![allow(clippy::unwrap_used)]

use crate::proto::{FLOAT, INT64, floats, int, ints, longs, named, node, of_domain, text, untyped, value};
use ovolo::onnx::proto::{
    AttributeProto, AttributeType, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetId,
    SparseTensorProto, StringStringEntryProto, TensorProto, TypeProto, ValueInfoProto,
};
use ovolo::onnx::{ImportOptions, check_inputs, from_bytes, load};
use ovolo::tensor::Tensor;
use prost::Message;
use prost::bytes::Bytes;
use std::path::{Path, PathBuf};

fn external(name: &str, dims: &[i64], entries: &[(&str, &str)]) -> TensorProto {
    let entry = |&(key, value): &(&str, &str)| StringStringEntryProto {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let external_data = entries.iter().map(entry).collect();
    TensorProto { external_data, data_location: 1, ..floats(name, dims, &[]) }
}

fn opset(domain: &str, version: i64) -> OperatorSetId {
    OperatorSetId { domain: domain.to_owned(), version }
}

/// A model of opset 17 with the input `x` (f32[1,3,8,8]) and the output `y`.
fn model(node: Vec<NodeProto>, initializer: Vec<TensorProto>) -> ModelProto {
    let input = vec![value("x", FLOAT, &["1", "3", "8", "8"])];
    with_inputs(input, node, initializer)
}

fn with_inputs(
    input: Vec<ValueInfoProto>,
    node: Vec<NodeProto>,
    initializer: Vec<TensorProto>,
) -> ModelProto {
    let graph = GraphProto { node, initializer, input, output: vec![untyped("y")], ..GraphProto::default() };
    ModelProto {
        ir_version: 8,
        opset_import: vec![opset("", 17)],
        graph: Some(graph),
        ..ModelProto::default()
    }
}

fn relu() -> ModelProto {
    model(vec![node("Relu", &["x"], &["y"])], Vec::new())
}

fn graph(model: &mut ModelProto) -> &mut GraphProto {
    model.graph.as_mut().unwrap()
}

/// The refusal of a model with a sparse constant of three elements, of which two are given.
fn sparse(indices: &[i64]) -> String {
    let mut model = relu();
    let values = Some(floats("few", &[2], &[1.0, 2.0]));
    let indices = Some(longs("places", indices));
    graph(&mut model).sparse_initializer.push(SparseTensorProto { values, indices, dims: vec![3] });
    refusal(&model)
}

fn refusal(model: &ModelProto) -> String {
    refusal_with(model, &[])
}

fn refusal_with(model: &ModelProto, dims: &[(&str, usize)]) -> String {
    let dims = dims.iter().map(|&(name, size)| (name.to_owned(), size)).collect();
    let options = ImportOptions { dims, ..ImportOptions::default() };
    from_bytes(crate::common::registry().onnx(), model.encode_to_vec(), "model.onnx", &options)
        .unwrap_err()
        .to_string()
}

#[test]
fn an_output_after_a_refused_node_is_compared_with_its_own_declaration() {
    let nodes = vec![
        node("NonZero", &["x"], &["places"]),
        int("to", FLOAT.into(), node("Cast", &["places"], &["y"])),
        node("Shape", &["x"], &["sizes"]),
    ];
    let mut model = model(nodes, Vec::new());
    graph(&mut model).output = vec![value("y", FLOAT, &["4", "k"]), value("sizes", INT64, &["4"])];
    let text = refusal(&model);
    assert!(text.contains("NonZero") && !text.contains("damaged"), "{text}");
}

/// Writes a model and a data file next to it, loads the model, and returns the error.
fn refusal_from_folder(name: &str, model: &ModelProto, data: &[u8]) -> String {
    let folder: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("onnx-errors-{name}"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("weights.bin"), data).unwrap();
    std::fs::write(folder.join("model.onnx"), model.encode_to_vec()).unwrap();
    let message =
        load(crate::common::registry().onnx(), folder.join("model.onnx"), &ImportOptions::default())
            .unwrap_err()
            .to_string();
    std::fs::remove_dir_all(&folder).unwrap();
    message
}

fn add_of(weight: TensorProto) -> ModelProto {
    let name = weight.name.clone();
    model(vec![node("Add", &["x", &name], &["y"])], vec![weight])
}

macro_rules! refused {
    ($($name:ident: $message:expr;)*) => {
        $(#[test]
        fn $name() {
            let message: String = $message;
            let settings = || {
                let mut settings = insta::Settings::clone_current();
                settings.set_snapshot_path(crate::common::root().join("snapshots/errors/onnx"));
                settings.set_prepend_module_to_snapshot(false);
                settings.set_omit_expression(true);
                settings
            };
            settings().bind(|| insta::assert_snapshot!(stringify!($name).replace('_', "-"), message));
        })*
    };
}

/// Two convolutions of volumes, an unknown operator, and a softmax along an axis that there is not, each reading
/// what the one before it computes.
fn chain() -> ModelProto {
    let nodes = vec![
        named("volume", node("Conv", &["x", "w"], &["a"])),
        named("strange", node("Frobnicate", &["a"], &["b"])),
        named("again", node("Conv", &["b", "w"], &["c"])),
        named("last", node("Relu", &["c"], &["y"])),
        named("beside", ints("perm", &[0, 0, 1, 2, 3], node("Transpose", &["x"], &["z"]))),
    ];
    let input = vec![value("x", FLOAT, &["1", "2", "4", "4", "4"])];
    let weight = TensorProto {
        name: "w".to_owned(),
        data_type: FLOAT,
        dims: vec![2, 2, 1, 1, 1],
        float_data: vec![1.0; 4],
        ..TensorProto::default()
    };
    with_inputs(input, nodes, vec![weight])
}

/// A `FlexAttention` whose graph for scores is this one.
fn flex(nodes: Vec<NodeProto>, inputs: &[&str]) -> ModelProto {
    let inner = GraphProto {
        node: nodes,
        input: inputs.iter().map(|name| untyped(name)).collect(),
        output: vec![untyped("t")],
        ..GraphProto::default()
    };
    let mut attention = of_domain("ai.onnx.preview", node("FlexAttention", &["x", "x", "x"], &["y"]));
    let r#type = AttributeType::Graph as i32;
    let name = "score_mod".to_owned();
    attention.attribute.push(AttributeProto { name, r#type, g: Some(Box::new(inner)), ..Default::default() });
    let mut model = with_inputs(vec![value("x", FLOAT, &["1", "2", "3", "4"])], vec![attention], vec![]);
    model.opset_import.push(opset("ai.onnx.preview", 1));
    model
}

refused! {
    reasons_stand_together: refusal(&chain());

    a_graph_for_scores_gives_another_shape: {
        refusal(&flex(vec![int("axis", 3, node("Concat", &["s", "s"], &["t"]))], &["s"]))
    };
    a_graph_for_scores_takes_two_values: refusal(&flex(vec![node("Relu", &["s"], &["t"])], &["s", "other"]));

    reasons_stand_together_where_types_are_declared: {
        let mut chain = chain();
        let volume = |name: &str| value(name, FLOAT, &["1", "2", "4", "4", "N"]);
        graph(&mut chain).input = vec![volume("x")];
        graph(&mut chain).value_info = ["a", "b", "c"].map(volume).to_vec();
        refusal_with(&chain, &[("N", 4)])
    };

    an_unknown_operator_and_a_dimension_without_a_size: {
        let input = vec![value("x", FLOAT, &["N", "3"])];
        refusal(&with_inputs(input, vec![node("Frobnicate", &["x"], &["y"])], vec![]))
    };

    file_is_absent: load(crate::common::registry().onnx(), "no/such/model.onnx", &ImportOptions::default()).unwrap_err().to_string();
    file_is_a_folder: load(crate::common::registry().onnx(), ".", &ImportOptions::default()).unwrap_err().to_string();
    file_is_empty: from_bytes(crate::common::registry().onnx(), Bytes::new(), "model.onnx", &ImportOptions::default()).unwrap_err().to_string();
    file_is_text: {
        let text = &b"This is a shopping list: eggs, flour, ovolo moulding."[..];
        from_bytes(crate::common::registry().onnx(), text, "list.txt", &ImportOptions::default()).unwrap_err().to_string()
    };
    file_is_a_pointer: {
        let text = &b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 102146617\n"[..];
        from_bytes(crate::common::registry().onnx(), text, "model.onnx", &ImportOptions::default()).unwrap_err().to_string()
    };
    file_is_saved_from_the_cache: {
        let bytes = &b"ovolo file, v1\n\0\xff\xfe and a plan"[..];
        from_bytes(crate::common::registry().onnx(), bytes, "model.cache", &ImportOptions::default()).unwrap_err().to_string()
    };
    file_is_truncated: {
        let bytes = relu().encode_to_vec();
        from_bytes(crate::common::registry().onnx(), bytes[..bytes.len() - 9].to_vec(), "model.onnx", &ImportOptions::default()).unwrap_err().to_string()
    };
    graph_is_absent: refusal(&ModelProto { graph: None, ..relu() });
    graph_has_no_outputs: {
        let mut model = relu();
        graph(&mut model).output.clear();
        refusal(&model)
    };
    ir_version_is_absent: refusal(&ModelProto { ir_version: 0, ..relu() });
    ir_version_is_too_new: refusal(&ModelProto { ir_version: 99, ..relu() });
    opset_is_absent: refusal(&ModelProto { opset_import: Vec::new(), ..relu() });
    opset_is_too_old: refusal(&ModelProto { opset_import: vec![opset("", 0)], ..relu() });
    opset_is_too_new: refusal(&ModelProto { opset_import: vec![opset("ai.onnx", 99)], ..relu() });
    opset_stands_twice: refusal(&ModelProto { opset_import: vec![opset("", 13), opset("ai.onnx", 17)], ..relu() });
    operators_are_unsupported: {
        let mut model = model(
            vec![
                named("text", node("ImageDecoder", &["x"], &["a"])),
                node("Convolution", &["x", "w"], &["b"]),
                named("again", node("ImageDecoder", &["b"], &["c"])),
                of_domain("com.microsoft", node("FusedConvolution", &["c"], &["d"])),
                of_domain("my.company", named("secret", node("Magic", &["d"], &["y"]))),
            ],
            vec![floats("w", &[1], &[1.0])],
        );
        model.opset_import.push(opset("com.microsoft", 1));
        refusal(&model)
    };
    operator_has_an_unknown_attribute: refusal(&model(vec![int("axis", 1, node("Relu", &["x"], &["y"]))], vec![]));
    attribute_is_of_another_kind: refusal(&model(vec![ints("axis", &[1], named("probabilities", node("Softmax", &["x"], &["y"])))], vec![]));
    attribute_is_out_of_range: refusal(&model(vec![int("axis", 4, named("probabilities", node("Softmax", &["x"], &["y"])))], vec![]));
    operands_are_too_many: refusal(&model(vec![node("Relu", &["x", "x"], &["y"])], vec![]));
    operand_is_missing: refusal(&model(vec![node("Add", &["x", ""], &["y"])], vec![]));
    values_are_undefined: {
        let mut model = model(vec![
            named("first", node("Relu", &["x"], &["hidden"])),
            named("second", node("Add", &["hiden", "x"], &["z"])),
            named("third", node("Mul", &["z", "scale"], &["out"])),
        ], vec![]);
        graph(&mut model).output = vec![untyped("result")];
        refusal(&model)
    };
    values_are_defined_twice: refusal(&model(vec![
        named("first", node("Relu", &["x"], &["y"])),
        named("second", node("Sigmoid", &["x"], &["y"])),
        named("third", node("Tanh", &["x"], &["w"])),
    ], vec![floats("w", &[1], &[1.0])]));
    nodes_form_a_cycle: refusal(&model(vec![
        named("before", node("Relu", &["x"], &["a"])),
        named("join", node("Add", &["a", "d"], &["b"])),
        named("middle", node("Relu", &["b"], &["c"])),
        named("back", node("Tanh", &["c"], &["d"])),
        named("after", node("Relu", &["d"], &["y"])),
    ], vec![]));
    node_reads_itself: refusal(&model(vec![node("Add", &["x", "y"], &["y"])], vec![]));
    dimensions_are_unbound: refusal(&with_inputs(vec![
        value("x", FLOAT, &["batch", "3", "height", "8"]),
        value("mask", FLOAT, &["batch", ""]),
    ], vec![node("Relu", &["x"], &["y"])], vec![]));
    dimensions_are_unknown: refusal_with(&with_inputs(
        vec![value("x", FLOAT, &["batch", "3", "height"])],
        vec![node("Relu", &["x"], &["y"])],
        vec![],
    ), &[("batch", 2), ("hieght", 8), ("z", 1)]);
    dimension_is_not_symbolic: refusal_with(&relu(), &[("batch", 2)]);
    dimension_of_a_paddle_model_is_unbound: refusal(&with_inputs(
        vec![value("x", FLOAT, &["-1", "3"])],
        vec![node("Relu", &["x"], &["y"])],
        vec![],
    ));
    input_has_no_type: refusal(&with_inputs(vec![untyped("x")], vec![node("Relu", &["x"], &["y"])], vec![]));
    input_has_no_shape: {
        let mut model = relu();
        let ty = graph(&mut model).input[0].r#type.as_mut().unwrap();
        ty.tensor_type.as_mut().unwrap().shape = None;
        refusal(&model)
    };
    input_is_complex: refusal(&with_inputs(vec![value("x", 14, &["2"])], vec![node("Relu", &["x"], &["y"])], vec![]));
    input_is_a_sequence: {
        let ty = TypeProto { sequence_type: Some(Box::default()), ..TypeProto::default() };
        let input = ValueInfoProto { name: "x".to_owned(), r#type: Some(ty) };
        refusal(&with_inputs(vec![input], vec![node("Relu", &["x"], &["y"])], vec![]))
    };
    input_is_enormous: refusal(&with_inputs(
        vec![value("x", FLOAT, &["1000000000", "1000000000", "1000000000"])],
        vec![node("Relu", &["x"], &["y"])],
        vec![],
    ));
    output_is_declared_with_another_type: {
        let mut model = relu();
        graph(&mut model).output = vec![value("y", INT64, &["1", "3", "8", "8"])];
        refusal(&model)
    };
    initializer_has_too_few_bytes: refusal(&add_of(TensorProto {
        raw_data: Bytes::from_static(&[0; 10]),
        ..floats("layer1.weight", &[3, 1, 1], &[])
    }));
    initializer_has_too_many_elements: refusal(&add_of(floats("layer1.weight", &[2, 1, 1], &[1.0, 2.0, 3.0])));
    initializer_has_no_data: refusal(&add_of(floats("layer1.weight", &[3, 1, 1], &[])));
    initializer_has_a_negative_dimension: refusal(&add_of(floats("layer1.weight", &[-3], &[1.0])));
    initializers_are_stripped: {
        let note = |weight: TensorProto| TensorProto { doc_string: "normal 0 0.1".to_owned(), ..weight };
        refusal(&model(
            vec![node("Add", &["x", "a"], &["z"]), node("Add", &["z", "b"], &["y"])],
            vec![note(floats("a", &[3, 1, 1], &[])), note(floats("b", &[8, 8], &[]))],
        ))
    };
    initializer_is_of_a_strange_type: refusal(&add_of(TensorProto { data_type: 77, ..floats("labels", &[1], &[]) }));
    initializer_does_not_fit_its_type: refusal(&add_of(TensorProto {
        data_type: 2,
        int32_data: vec![1, 300],
        ..floats("bytes", &[2], &[])
    }));
    sparse_initializer_has_an_index_outside: sparse(&[0, 3]);
    sparse_initializer_is_not_in_order: sparse(&[2, 1]);
    sparse_initializer_lacks_its_indices: {
        let mut model = relu();
        let values = Some(floats("few", &[1], &[1.0]));
        let sparse = SparseTensorProto { values, dims: vec![3], indices: None };
        graph(&mut model).sparse_initializer.push(sparse);
        refusal(&model)
    };
    external_data_is_absent: refusal_from_folder(
        "absent",
        &add_of(external("w", &[3, 1, 1], &[("location", "elsewhere.bin")])),
        &[],
    );
    external_data_is_outside: refusal_from_folder(
        "outside",
        &add_of(external("w", &[3, 1, 1], &[("location", "../../secret.bin")])),
        &[],
    );
    external_data_is_absolute: refusal_from_folder(
        "absolute",
        &add_of(external("w", &[3, 1, 1], &[("location", "/etc/hostname")])),
        &[],
    );
    external_data_is_too_short: refusal_from_folder(
        "short",
        &add_of(external("w", &[3, 1, 1], &[("location", "weights.bin"), ("offset", "4"), ("length", "12")])),
        &[0; 12],
    );
    external_data_has_another_length: refusal_from_folder(
        "length",
        &add_of(external("w", &[3, 1, 1], &[("location", "weights.bin"), ("length", "16")])),
        &[0; 16],
    );
    external_data_has_a_strange_offset: refusal_from_folder(
        "offset",
        &add_of(external("w", &[3, 1, 1], &[("location", "weights.bin"), ("offset", "-4")])),
        &[0; 16],
    );
    external_data_has_no_location: refusal_from_folder("location", &add_of(external("w", &[3, 1, 1], &[("offset", "0")])), &[]);
    external_data_is_of_a_model_in_memory: refusal(&add_of(external("w", &[3, 1, 1], &[("location", "weights.bin")])));
    types_of_operands_differ: refusal(&model(vec![named("bump", node("Add", &["x", "one"], &["y"]))], vec![longs("one", &[1])]));
    shapes_do_not_broadcast: refusal(&model(vec![named("bump", node("Add", &["x", "w"], &["y"]))], vec![floats("w", &[5], &[0.0; 5])]));
    shape_depends_on_an_input: refusal(&with_inputs(
        vec![value("x", FLOAT, &["4"]), value("sizes", INT64, &["2"])],
        vec![named("fold", node("Reshape", &["x", "sizes"], &["y"]))],
        vec![],
    ));
    shape_does_not_divide: refusal(&model(
        vec![named("fold", node("Reshape", &["x", "sizes"], &["y"]))],
        vec![longs("sizes", &[-1, 5])],
    ));
    shape_has_other_elements: refusal(&model(
        vec![named("fold", node("Reshape", &["x", "sizes"], &["y"]))],
        vec![longs("sizes", &[1, 3, 63])],
    ));
    convolution_has_other_channels: refusal(&model(
        vec![named("conv1", node("Conv", &["x", "w"], &["y"]))],
        vec![floats("w", &[2, 4, 1, 1], &[0.0; 8])],
    ));
    convolution_has_no_dimensions: refusal(&with_inputs(
        vec![value("x", FLOAT, &["1", "1"])],
        vec![named("conv1", node("Conv", &["x", "w"], &["y"]))],
        vec![floats("w", &[1, 1], &[1.0])],
    ));
    convolution_has_another_kernel: refusal(&model(
        vec![named("conv1", ints("kernel_shape", &[3, 3], node("Conv", &["x", "w"], &["y"])))],
        vec![floats("w", &[2, 3, 1, 1], &[0.0; 6])],
    ));
    window_does_not_fit: refusal(&model(vec![named("pool", ints("kernel_shape", &[9, 9], node("MaxPool", &["x"], &["y"])))], vec![]));
    padding_mode_is_unknown: refusal(&model(vec![
        text("auto_pad", "SAME", ints("kernel_shape", &[3, 3], node("AveragePool", &["x"], &["y"]))),
    ], vec![]));
    matrices_do_not_fit: refusal(&with_inputs(
        vec![value("x", FLOAT, &["2", "3"])],
        vec![named("classifier", node("Gemm", &["x", "w"], &["y"]))],
        vec![floats("w", &[4, 2], &[0.0; 8])],
    ));
    second_result_is_read: refusal(&model(vec![
        named("sum", node("Add", &["x", "x"], &["z", "carry"])),
        node("Identity", &["carry"], &["y"]),
    ], vec![]));
    index_is_out_of_range: refusal(&model(vec![int("axis", 1, named("pick", node("Gather", &["x", "at"], &["y"])))], vec![longs("at", &[3])]));
    parts_do_not_make_up_the_whole: refusal(&model(
        vec![int("axis", 1, node("Split", &["x", "sizes"], &["y", "z"]))],
        vec![longs("sizes", &[1, 1])],
    ));
    parts_differ_in_shape: refusal(&model(
        vec![int("axis", 0, node("Concat", &["x", "w"], &["y"]))],
        vec![floats("w", &[1, 3, 8, 7], &[0.0; 168])],
    ));
    function_calls_itself: {
        let mut model = model(vec![of_domain("local", named("call", node("Twice", &["x"], &["y"])))], vec![]);
        model.opset_import.push(opset("local", 1));
        model.functions.push(FunctionProto {
            name: "Twice".to_owned(),
            domain: "local".to_owned(),
            input: vec!["a".to_owned()],
            output: vec!["b".to_owned()],
            node: vec![of_domain("local", node("Twice", &["a"], &["b"]))],
            opset_import: vec![opset("", 17), opset("local", 1)],
            ..FunctionProto::default()
        });
        refusal(&model)
    };
    inputs_do_not_fit_the_model: {
        let input = |name, dtype, dims: &[&str]| value(name, dtype, dims);
        let model = with_inputs(
            vec![
                input("image", FLOAT, &["1", "3"]),
                input("mask", INT64, &["4"]),
                input("scale", FLOAT, &["2"]),
                input("bias", FLOAT, &["2", "2"]),
                input("shift", FLOAT, &["2", "2"]),
            ],
            vec![node("Relu", &["image"], &["y"])],
            vec![],
        );
        let graph = from_bytes(crate::common::registry().onnx(), model.encode_to_vec(), "model.onnx", &ImportOptions::default()).unwrap().graph;
        check_inputs(&graph, &[
            ("imge", Tensor::from_elements([1_usize, 3], &[0_f32; 3])),
            ("mask", Tensor::from_elements([4_usize], &[0_f32; 4])),
            ("scale", Tensor::from_elements([3_usize], &[0_f32; 3])),
            ("scale", Tensor::from_elements([2_usize], &[0_f32; 2])),
            ("bias", Tensor::from_elements([4_usize], &[0_f32; 4])),
            ("shift", Tensor::from_elements([2_usize], &[0_f32; 2])),
        ]).unwrap_err().to_string()
    };
}
