//! Sessions, and what they say of a model.

use crate::onnx::FLOAT;
use crate::{DIGITS, builder, environment, model, open};
use ort::session::Session;
use ort::value::{TensorElementType, ValueType};

fn tensor(ty: &ValueType) -> (TensorElementType, Vec<i64>, Vec<String>) {
    match ty {
        ValueType::Tensor { ty, shape, dimension_symbols } => {
            (*ty, shape.to_vec(), dimension_symbols.iter().cloned().collect())
        }
        other => panic!("{other} is no tensor"),
    }
}

#[test]
fn a_session_of_a_file_lists_inputs_and_outputs_with_types_and_symbols() {
    let session = builder().commit_from_file(DIGITS).unwrap();
    let [input] = session.inputs() else { panic!("{:?}", session.inputs()) };
    let [output] = session.outputs() else { panic!("{:?}", session.outputs()) };
    assert_eq!((input.name(), output.name()), ("image", "scores"));
    let symbols = ["N", "", "", ""].map(str::to_owned).to_vec();
    assert_eq!(tensor(input.dtype()), (TensorElementType::Float32, vec![-1, 1, 8, 8], symbols));
    assert_eq!(tensor(output.dtype()).1, [-1, 10]);
    assert!(session.overridable_initializers().is_empty());
}

#[test]
fn a_model_without_weights_is_refused_with_the_reason() {
    let why = builder().commit_from_file("../tests/models/squeezenet1_1.onnx").unwrap_err();
    assert!(why.message().contains("weights were stripped"), "{why}");
}

#[test]
fn a_plan_knows_shapes_that_the_model_does_not_declare() {
    let nodes = vec![crate::onnx::node("MatMul", &["a", "b"], &["y"])];
    let inputs =
        vec![crate::onnx::value("a", FLOAT, &["2", "3"]), crate::onnx::value("b", FLOAT, &["3", "4"])];
    let session = open(&model::of(nodes, inputs, vec![crate::onnx::untyped("y")]));
    assert_eq!(
        tensor(session.outputs()[0].dtype()),
        (TensorElementType::Float32, vec![2, 4], vec![String::new(); 2])
    );
}

#[test]
fn dimensions_can_be_given_a_size() {
    let mut with = builder().with_dimension_override("N", 2).unwrap();
    let session = with.commit_from_file(DIGITS).unwrap();
    assert_eq!(tensor(session.inputs()[0].dtype()).1, [2, 1, 8, 8]);
    assert_eq!(tensor(session.outputs()[0].dtype()).1, [2, 10]);
}

#[test]
fn metadata_is_that_of_the_model() {
    let session = open(&model::passed(FLOAT));
    let metadata = session.metadata().unwrap();
    assert_eq!(metadata.producer().as_deref(), Some("a test"));
    assert_eq!(metadata.name().as_deref(), Some("main"));
    assert_eq!(metadata.domain().as_deref(), Some("ovolo"));
    assert_eq!(metadata.description().as_deref(), Some("gives back what it gets"));
    assert_eq!(metadata.version(), Some(3));
    assert_eq!(metadata.custom_keys().unwrap(), ["author"]);
    assert_eq!(metadata.custom("author").as_deref(), Some("nobody"));
    assert_eq!(metadata.custom("date"), None);
    assert_eq!(metadata.graph_description(), None);
}

#[test]
fn the_library_names_itself() {
    environment();
    assert!(ort::info().starts_with("ovolo-ort "), "{}", ort::info());
}

#[test]
fn a_model_in_memory_leaves_no_file() {
    let folders = || {
        let prefix = format!("ovolo-ort-{}-", std::process::id());
        let all = std::fs::read_dir(std::env::temp_dir()).unwrap();
        all.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(&prefix)).count()
    };
    // Other tests of this process have sessions too, so the count of one session cannot be asked for.
    let sessions: Vec<Session> = (0..12).map(|_| open(&model::doubled(FLOAT))).collect();
    assert!(folders() >= 12);
    drop(sessions);
    assert!(folders() < 12);
}
