//! Measures what a call of `ort` costs on ovolo: a sum of three numbers, by ovolo's session and by `ort`'s.

use ort::session::Session;
use ort::value::Tensor;
use ovolo::dynamic::DynamicSession;
use ovolo::onnx::Item;
use ovolo::onnx::proto::{
    DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetId, TensorShapeProto, TensorTypeProto,
    TypeProto, ValueInfoProto,
};
use ovolo::{ImportOptions, Model, Options};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

/// `y = x + x` for three numbers; the size is a name if `dynamic`.
fn model(dynamic: bool) -> Vec<u8> {
    let value = |name: &str| {
        let dim = if dynamic {
            DimensionProto { dim_value: None, dim_param: Some("N".to_owned()) }
        } else {
            DimensionProto { dim_value: Some(3), dim_param: None }
        };
        let shape = Some(TensorShapeProto { dim: vec![dim] });
        let tensor_type = Some(TensorTypeProto { elem_type: 1, shape });
        ValueInfoProto {
            name: name.to_owned(),
            r#type: Some(TypeProto { tensor_type, ..TypeProto::default() }),
        }
    };
    let node = NodeProto {
        op_type: "Add".to_owned(),
        input: vec!["x".to_owned(), "x".to_owned()],
        output: vec!["y".to_owned()],
        ..NodeProto::default()
    };
    let graph = GraphProto {
        node: vec![node],
        name: "sum".to_owned(),
        input: vec![value("x")],
        output: vec![value("y")],
        ..GraphProto::default()
    };
    let opset_import = vec![OperatorSetId { domain: String::new(), version: 21 }];
    let model = ModelProto { ir_version: 8, opset_import, graph: Some(graph), ..ModelProto::default() };
    prost::Message::encode_to_vec(&model)
}

/// The least time of a call in microseconds, of the means of 20 times 20,000 calls.
fn time(mut call: impl FnMut()) -> f64 {
    let mean = |call: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..20_000).for_each(|_| call());
        start.elapsed().as_secs_f64() * 1e6 / 20_000.0
    };
    (0..20).map(|_| mean(&mut call)).fold(f64::INFINITY, f64::min)
}

fn main() -> Result<(), Box<dyn Error>> {
    ort::set_api(ovolo_ort::api());
    let environment = ort::init().build()?;
    let registry = Arc::new(ovolo_standard::registry());
    let folder = std::env::temp_dir().join(format!("ovolo-overhead-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let three = ovolo::Tensor::from_elements([3], &[1.0_f32, 2.0, 3.0]);
    for dynamic in [false, true] {
        let file = folder.join("model.onnx");
        std::fs::write(&file, model(dynamic))?;
        let options = Options::new(&registry, "native")?;
        let own = if dynamic {
            let mut session = DynamicSession::open(&file, options)?;
            let inputs = BTreeMap::from([("x".to_owned(), Item::Tensor(three.clone()))]);
            time(|| drop(session.run(&inputs)))
        } else {
            let compiled = Model::load(&registry, &file, &ImportOptions::default())?.compile(&options)?;
            let mut session = compiled.session(registry.backends())?;
            time(|| drop(session.run_owned(&[&three])))
        };
        let builder = Session::builder(&environment)?.with_intra_threads(1)?;
        let builder = builder.with_config_entry("ovolo.pipeline", "native")?;
        let mut session = builder.with_config_entry("ovolo.cache", "0")?.commit_from_file(&file)?;
        let x = Tensor::from_array(([3_usize], vec![1.0_f32, 2.0, 3.0]))?;
        let whole = time(|| drop(session.run(ort::inputs![&x])));
        let sizes = if dynamic { "read off the inputs" } else { "fixed" };
        println!("sizes {sizes}: ovolo's session {own:.2} us, `Session::run` of ort {whole:.2} us");
    }
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
