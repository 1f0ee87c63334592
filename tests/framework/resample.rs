//! Tests resizing and transposed convolutions: imports and kernels compared with ONNX's own values.
#![allow(clippy::unwrap_used)]

#[path = "resample/cases.rs"]
mod cases;

use crate::common::{pipeline, reference, relative_error};
use ovolo::compile;
use ovolo::graph::Graph;
use ovolo::onnx::proto::{
    AttributeProto, AttributeType, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetId,
    TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use ovolo::onnx::{ImportOptions, from_bytes};
use ovolo::plan::Plan;
use ovolo::session::Session;
use ovolo::tensor::Tensor;
use prost::Message;

/// An attribute of ONNX.
enum Attribute {
    Int(i64),
    Ints(&'static [i64]),
    Number(f32),
    Text(&'static str),
}

/// An operand after the first.
enum Operand {
    Absent,
    Floats(&'static [f32]),
    Longs(&'static [i64]),
    /// Seeded values of this shape.
    Weights(&'static [i64]),
}

/// An operator on seeded values, and its expected result.
struct Case {
    name: &'static str,
    op: &'static str,
    opset: i64,
    attributes: &'static [(&'static str, Attribute)],
    x: &'static [i64],
    others: &'static [Operand],
    shape: &'static [usize],
    y: &'static [f64],
}

/// Small integers as in the recorded values: `(index * times) % limit - less`.
fn seeded(shape: &[i64], times: i64, limit: i64, less: i64) -> Vec<f32> {
    let count: i64 = shape.iter().product();
    (0..count).map(|at| f32::from(i16::try_from(at * times % limit - less).unwrap())).collect()
}

fn attribute((name, value): &(&str, Attribute)) -> AttributeProto {
    let one = AttributeProto { name: (*name).to_owned(), ..Default::default() };
    let of = |kind: AttributeType| kind as i32;
    match value {
        Attribute::Int(i) => AttributeProto { i: *i, r#type: of(AttributeType::Int), ..one },
        Attribute::Ints(ints) => {
            AttributeProto { ints: ints.to_vec(), r#type: of(AttributeType::Ints), ..one }
        }
        Attribute::Number(f) => AttributeProto { f: *f, r#type: of(AttributeType::Float), ..one },
        Attribute::Text(text) => {
            AttributeProto { s: text.as_bytes().to_vec().into(), r#type: of(AttributeType::String), ..one }
        }
    }
}

fn import(case: &Case) -> Result<Graph, String> {
    let mut input = vec!["x".to_owned()];
    let mut initializer = Vec::new();
    for (at, operand) in case.others.iter().enumerate() {
        let name = format!("i{at}");
        let length = |count: usize| vec![i64::try_from(count).unwrap()];
        let tensor = match operand {
            Operand::Absent => {
                input.push(String::new());
                continue;
            }
            Operand::Floats(values) => TensorProto {
                dims: length(values.len()),
                data_type: 1,
                float_data: values.to_vec(),
                ..Default::default()
            },
            Operand::Longs(values) => TensorProto {
                dims: length(values.len()),
                data_type: 7,
                int64_data: values.to_vec(),
                ..Default::default()
            },
            Operand::Weights(shape) => TensorProto {
                dims: shape.to_vec(),
                data_type: 1,
                float_data: seeded(shape, 5, 7, 2),
                ..Default::default()
            },
        };
        initializer.push(TensorProto { name: name.clone(), ..tensor });
        input.push(name);
    }
    let node = NodeProto {
        op_type: case.op.to_owned(),
        input,
        output: vec!["y".to_owned()],
        attribute: case.attributes.iter().map(attribute).collect(),
        ..Default::default()
    };
    let dim = case.x.iter().map(|size| DimensionProto { dim_value: Some(*size), dim_param: None }).collect();
    let tensor_type = Some(TensorTypeProto { elem_type: 1, shape: Some(TensorShapeProto { dim }) });
    let x = ValueInfoProto {
        name: "x".to_owned(),
        r#type: Some(TypeProto { tensor_type, ..Default::default() }),
    };
    let graph = GraphProto {
        node: vec![node],
        initializer,
        input: vec![x],
        output: vec![ValueInfoProto { name: "y".to_owned(), r#type: None }],
        ..Default::default()
    };
    let opset_import = vec![OperatorSetId { domain: String::new(), version: case.opset }];
    let model = ModelProto { ir_version: 8, opset_import, graph: Some(graph), ..Default::default() };
    from_bytes(
        crate::common::registry().onnx(),
        model.encode_to_vec(),
        "model.onnx",
        &ImportOptions::default(),
    )
    .map(|imported| imported.graph)
    .map_err(|error| error.to_string())
}

fn input(case: &Case) -> Tensor {
    let values: Vec<f64> = seeded(case.x, 7, 11, 3).into_iter().map(f64::from).collect();
    let shape: Vec<usize> = case.x.iter().map(|size| usize::try_from(*size).unwrap()).collect();
    Tensor::from_f64(ovolo::tensor::DType::F32, shape, &values)
}

pub(crate) fn run(graph: &Graph, pipeline_name: &str, inputs: &[&Tensor]) -> (Tensor, Plan) {
    let compilation = compile::compile(graph.clone(), &pipeline(pipeline_name, 2)).unwrap();
    let plan = compilation.plan.clone();
    let mut session =
        Session::new(&compilation.program, compilation.plan, crate::common::registry().backends()).unwrap();
    (session.run(inputs).unwrap()[0].clone(), plan)
}

#[test]
fn results_are_those_of_onnx() {
    results(&["native"]);
}

/// Compares the results of some pipelines, and of the reference evaluation, with ONNX's.
pub(crate) fn results(pipelines: &[&str]) {
    let mut wrong = Vec::new();
    // ONNX's evaluator rounds weights to f32, and cubic interpolation magnifies that.
    for case in cases::CASES {
        let graph = import(case).unwrap_or_else(|why| panic!("{} {}: {why}", case.op, case.name));
        let x = input(case);
        let wanted = Tensor::from_f64(ovolo::tensor::DType::F32, case.shape.to_vec(), case.y);
        let mut check = |how: &str, value: &Tensor| {
            if value.ty().shape != wanted.ty().shape || relative_error(value, &wanted) > 1e-5 {
                wrong.push(format!(
                    "{} {} by {how}: {}\n{:?} instead of {}\n{:?}",
                    case.op,
                    case.name,
                    value.ty(),
                    value.to_f64(),
                    wanted.ty(),
                    wanted.to_f64()
                ));
            }
        };
        check("reference", &reference(&graph, std::slice::from_ref(&x))[0]);
        for pipeline in pipelines {
            check(pipeline, &run(&graph, pipeline, &[&x]).0);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn unsupported_attributes_are_refused_by_name() {
    let refusal = |op: &'static str, attributes: &'static [(&str, Attribute)], x, others| {
        let case = Case { name: "refused", op, opset: 18, attributes, x, others, shape: &[], y: &[] };
        import(&case).unwrap_err()
    };
    let said = refusal(
        "Resize",
        &[("coordinate_transformation_mode", Attribute::Text("half_pixels"))],
        &[1, 1, 2, 2],
        &[Operand::Absent, Operand::Floats(&[1., 1., 2., 2.])],
    );
    assert!(said.contains("`coordinate_transformation_mode` is `half_pixels`; ovolo does"), "{said}");
    let said = refusal(
        "Resize",
        &[("coordinate_transformation_mode", Attribute::Text("tf_crop_and_resize"))],
        &[1, 1, 2, 2],
        &[Operand::Absent, Operand::Floats(&[1., 1., 2., 2.])],
    );
    assert!(said.contains("it has no region of interest"), "{said}");
    let said = refusal("Resize", &[], &[1, 1, 2, 2], &[]);
    assert!(said.contains("it has neither scales nor sizes"), "{said}");
    let weights = &[Operand::Weights(&[1, 1, 2, 2, 2, 2])];
    let said = refusal("ConvTranspose", &[], &[1, 1, 2, 2, 2, 2], weights);
    assert!(said.contains("it works on 4 axes of an image"), "{said}");
}
