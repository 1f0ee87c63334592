//! Tests `einsum`: what `Einsum` is imported as, that every equation runs, and that the price decides the order.
#![allow(clippy::unwrap_used)]

use crate::common;

use ovolo::compile;
use ovolo::graph::text;
use ovolo::onnx::proto::{
    AttributeProto, AttributeType, GraphProto, ModelProto, NodeProto, OperatorSetId, TensorProto,
    ValueInfoProto,
};
use ovolo::onnx::{ImportOptions, from_bytes};
use ovolo::session::Session;
use ovolo::tensor::{DType, Tensor};
use prost::Message;
use std::fmt::Write;

/// Equations with the shapes of their operands.
const EQUATIONS: &[(&str, &[&[usize]])] = &[
    ("ab->ba", &[&[2, 3]]),
    ("abc->b", &[&[2, 3, 2]]),
    ("->", &[&[]]),
    ("a->", &[&[0]]),
    ("ab,bc->ac", &[&[2, 3], &[3, 2]]),
    ("ab,bc->ca", &[&[2, 3], &[3, 2]]),
    ("ab,bc->ac", &[&[2, 0], &[0, 3]]),
    ("ab,ab->ab", &[&[2, 3], &[2, 3]]),
    ("ab,ba->ab", &[&[2, 3], &[3, 2]]),
    ("ab,ab->a", &[&[2, 3], &[2, 3]]),
    ("ab,ab->", &[&[2, 3], &[2, 3]]),
    ("a,b->ba", &[&[2], &[3]]),
    (",a->a", &[&[], &[3]]),
    ("a,->", &[&[3], &[]]),
    (",->", &[&[], &[]]),
    ("ab,c->ac", &[&[2, 3], &[2]]),
    ("acbd,dbe->eca", &[&[2, 2, 3, 2], &[2, 3, 2]]),
    ("bqhd,bkhd->bhqk", &[&[2, 3, 2, 2], &[2, 2, 2, 2]]),
    ("ab,bc,cd->ad", &[&[2, 3], &[3, 2], &[2, 3]]),
    ("a,a,a->", &[&[3], &[3], &[3]]),
    ("ab,c,ad->c", &[&[2, 3], &[2], &[2, 2]]),
    ("ab,bc,cd,da->", &[&[2, 3], &[3, 2], &[2, 3], &[3, 2]]),
    ("a,,b,ab->b", &[&[2], &[], &[3], &[2, 3]]),
    ("ab,bc,cd,de,ef->fa", &[&[2, 3], &[3, 2], &[2, 3], &[3, 2], &[2, 2]]),
    ("a,b,a,b,a,b,c->c", &[&[2], &[2], &[2], &[2], &[2], &[2], &[2]]),
];

const TYPES: [DType; 12] = [
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F64,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
];

/// A graph in text form of one `einsum`.
fn source(equation: &str, dtype: DType, shapes: &[&[usize]]) -> String {
    let mut source = "graph g {\n".to_owned();
    for (at, shape) in shapes.iter().enumerate() {
        let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
        writeln!(source, "    x{at}: {dtype}[{}] = input", dims.join(",")).unwrap();
    }
    let names: Vec<String> = (0..shapes.len()).map(|at| format!("x{at}")).collect();
    write!(source, "    y = einsum({}) {{equation: \"{equation}\"}}\n    return y\n}}", names.join(", "))
        .unwrap();
    source
}

#[test]
fn every_equation_of_every_type_runs_in_every_pipeline_of_the_host() {
    // Rules for types of 16 bits are in some pipelines alone; all else is the same for every type. More than two
    // operands become products of two, of whatever type.
    let narrow = &TYPES[..3];
    for (name, types) in [
        ("strict", &TYPES[..]),
        ("native", narrow),
        ("cpu", &TYPES[..1]),
        ("onednn", &TYPES[..1]),
        ("merged", &TYPES[..1]),
        ("superoptimise", &TYPES[..1]),
        ("bf16", &TYPES[..1]),
    ] {
        let options = common::pipeline(name, 1);
        for (equation, shapes) in EQUATIONS {
            for dtype in if shapes.len() > 2 { &types[..1] } else { types } {
                let graph = text::parse(common::ops(), &source(equation, *dtype, shapes)).unwrap();
                // Small integers, of which every type holds all sums.
                let operand = |shape: &&[usize]| {
                    let values =
                        (0..shape.iter().product()).map(|at| f64::from(u8::try_from(at % 3).unwrap()));
                    Tensor::from_f64(*dtype, shape.to_vec(), &values.collect::<Vec<_>>())
                };
                let operands: Vec<Tensor> = shapes.iter().map(operand).collect();
                let expected = common::reference(&graph, &operands);
                let compilation = compile::compile(graph, &options)
                    .unwrap_or_else(|why| panic!("{name}, {equation}, {dtype}: {why}"));
                let backends = common::registry().backends();
                let mut session = Session::new(&compilation.program, compilation.plan, backends).unwrap();
                let given = session.run(&operands.iter().collect::<Vec<_>>()).unwrap();
                assert_eq!(given[0].to_f64(), expected[0].to_f64(), "{name}, {equation}, {dtype}");
            }
        }
    }
}

#[test]
fn every_equation_has_a_plan_for_a_device() {
    for name in ["cuda", "cuda-tf32", "cuda-f16", "cuda-bf16", "mixed"] {
        let options = common::pipeline(name, 1);
        for (equation, shapes) in EQUATIONS {
            let graph = text::parse(common::ops(), &source(equation, DType::F32, shapes)).unwrap();
            compile::compile(graph, &options).unwrap_or_else(|why| panic!("{name}, {equation}: {why}"));
        }
    }
}

/// Returns the types of the results of products, in the order in which they run.
fn products(equation: &str, shapes: &[&[usize]]) -> Vec<String> {
    products_by("native", equation, shapes)
}

fn products_by(pipeline: &str, equation: &str, shapes: &[&[usize]]) -> Vec<String> {
    let graph = text::parse(common::ops(), &source(equation, DType::F32, shapes)).unwrap();
    let compilation = compile::compile(graph, &common::pipeline(pipeline, 1)).unwrap();
    let products = compilation.plan.steps.iter().filter(|step| step.op.name.starts_with("native.matmul"));
    products.map(|step| step.output_type.to_string()).collect()
}

#[test]
fn the_price_decides_which_operands_are_multiplied_first() {
    // From left to right, the first product would have a million elements.
    let chain: &[&[usize]] = &[&[1000, 1000], &[1000, 1000], &[1000, 2]];
    assert_eq!(products("ab,bc,cd->ad", chain), ["f32[1000,2]", "f32[1000,2]"]);
    let chain: &[&[usize]] = &[&[2, 1000], &[1000, 1000], &[1000, 1000]];
    assert_eq!(products("ab,bc,cd->ad", chain), ["f32[2,1000]", "f32[2,1000]"]);
    // The first and the last operand are multiplied first.
    let apart: &[&[usize]] = &[&[2, 1000], &[1000, 1000], &[2, 1000]];
    let order = products("ab,cb,ac->", apart);
    assert_eq!(order.len(), 2, "{order:?}");
    assert!(order.iter().all(|ty| !ty.contains("1000,1000")), "{order:?}");
    // Two pairs, and then their products.
    let pairs: &[&[usize]] = &[&[2, 1000], &[1000, 3], &[3, 1000], &[1000, 2]];
    let mut order = products("ab,bc,cd,de->ae", pairs);
    assert_eq!(order.pop().as_deref(), Some("f32[2,2]"));
    order.sort_unstable();
    assert_eq!(order, ["f32[2,3]", "f32[3,2]"]);
}

#[test]
fn the_pipeline_strict_multiplies_from_left_to_right() {
    // In both, another order has fewer multiplications.
    let chain: &[&[usize]] = &[&[100, 110], &[110, 120], &[120, 2]];
    assert_eq!(products_by("strict", "ab,bc,cd->ad", chain), ["f32[100,120]", "f32[100,2]"]);
    let pairs: &[&[usize]] = &[&[90, 2], &[2, 80], &[80, 2], &[2, 70]];
    let order = products_by("strict", "ab,bc,cd,de->ae", pairs);
    assert_eq!(order, ["f32[90,80]", "f32[90,2]", "f32[90,70]"]);
}

/// Imports an `Einsum` of the model and returns the equations and operators of the graph.
fn imported(equation: &str, shapes: &[&[usize]]) -> Result<Vec<String>, String> {
    let names: Vec<String> = (0..shapes.len()).map(|at| format!("x{at}")).collect();
    let leaves = names.iter().zip(shapes).map(|(name, shape)| TensorProto {
        name: name.clone(),
        dims: shape.iter().map(|size| i64::try_from(*size).unwrap()).collect(),
        data_type: 1,
        float_data: vec![1.0; shape.iter().product()],
        ..TensorProto::default()
    });
    let attribute = AttributeProto {
        name: "equation".into(),
        s: equation.as_bytes().to_vec().into(),
        r#type: AttributeType::String as i32,
        ..AttributeProto::default()
    };
    let node = NodeProto {
        op_type: "Einsum".into(),
        input: names.clone(),
        output: vec!["y".into()],
        attribute: vec![attribute],
        ..NodeProto::default()
    };
    let graph = GraphProto {
        node: vec![node],
        initializer: leaves.collect(),
        output: vec![ValueInfoProto { name: "y".into(), r#type: None }],
        ..GraphProto::default()
    };
    let opset_import = vec![OperatorSetId { domain: String::new(), version: 17 }];
    let model = ModelProto { ir_version: 8, opset_import, graph: Some(graph), ..ModelProto::default() };
    let imported =
        from_bytes(common::registry().onnx(), model.encode_to_vec(), "model.onnx", &ImportOptions::default())
            .map_err(|why| why.to_string())?;
    let made = imported.graph.nodes().filter(|(_, node)| !node.inputs.is_empty());
    Ok(made
        .map(|(_, node)| match node.op.name {
            "einsum" => format!("{} {}", node.attrs.expect_str("equation"), node.ty),
            name => name.to_owned(),
        })
        .collect())
}

#[test]
fn equations_are_imported_in_one_form() {
    let big: &[usize] = &[70, 80];
    let made = |equation: &str, shapes: &[&[usize]]| imported(equation, shapes).unwrap().join("; ");
    assert_eq!(made("ij, jk -> ik", &[big, &[80, 70]]), "ij,jk->ik f32[70,70]");
    // Without a result, it has the letters that occur once, in alphabetical order.
    assert_eq!(made("ki,ij", &[big, &[80, 70]]), "ki,ij->jk f32[70,70]");
    assert_eq!(made("zz,bc", &[&[300, 300], big]), "transpose; reshape; gather; z,bc->bc f32[70,80]");
    // An ellipsis gets letters that the model does not use.
    assert_eq!(made("...Aj,...jk->...Ak", &[&[5, 70, 80], &[6, 5, 80, 9]]), "CAj,BCjk->BCAk f32[6,5,70,9]");
    // The diagonal of a letter that stands twice, and an axis that is broadcast.
    assert_eq!(made("iij->ji", &[&[30, 30, 80]]), "transpose; reshape; gather; ji->ji f32[80,30]");
    assert_eq!(made("ij,kj->ik", &[&[700, 1], big]), "i,kj->ik f32[700,70]");
}

#[test]
fn equations_that_say_nothing_are_refused() {
    let why = |equation: &str, shapes: &[&[usize]]| imported(equation, shapes).unwrap_err();
    assert!(why("ij->i", &[&[2], &[2]]).contains("names 1 operands"), "{}", why("ij->i", &[&[2], &[2]]));
    assert!(why("i->ii", &[&[2]]).contains("has `i` twice in one term"));
    assert!(why("ij->jqi", &[&[70, 80]]).contains("has `q` in the result and in no operand"));
    assert!(why("ij,jk->ik", &[&[2, 3], &[4, 2]]).contains("gives `j` the sizes 3 and 4"));
    assert!(why("i!->i", &[&[2, 3]]).contains("i!"));
}
