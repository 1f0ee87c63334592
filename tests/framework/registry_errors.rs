//! Tests what a registry refuses, and that nothing of it stays.
#![allow(clippy::unwrap_used)]

use crate::common;
use ovolo::attr::{Attr, AttrKind, Attrs};
use ovolo::backend::{Backend, Kernel};
use ovolo::graph::text;
use ovolo::op::{Arity, AttrDef, Call, Contract, Flags, Lowering, OpDef, OpError};
use ovolo::registry::{Registry, RegistryError};
use ovolo::rule::{Kind, RuleSet, Value, Word};
use ovolo::tensor::{DType, TensorType};
use std::sync::{Arc, Mutex};

/// An op of one operand that copies it.
fn copy(name: &'static str, attributes: &[&'static str]) -> OpDef {
    let attr = |name: &&'static str| AttrDef::new(name, AttrKind::Int, Some(Attr::Int(0)), "a number");
    OpDef {
        name,
        doc: "the operand",
        arity: Arity::Exactly(1),
        attrs: attributes.iter().map(attr).collect(),
        flags: Flags::default(),
        infer: |_, types| Ok(types[0].clone()),
        eval: |_, operands, _| operands[0].clone(),
        flops: |_, _, _| 0.0,
        sample: None,
        lowered: None,
    }
}

/// A backend with a name, whose ops lower others.
struct Named(&'static str, Vec<Lowering>);

// SAFETY: it makes no kernels.
unsafe impl Backend for Named {
    fn name(&self) -> &'static str {
        self.0
    }

    fn ops(&self) -> Vec<Lowering> {
        self.1.clone()
    }
}

fn no_kernel(_: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Err(OpError::kernel("there is none"))
}

fn lowering(name: &'static str, of: &'static str) -> Lowering {
    Lowering::new(name, of, |_| Ok(Contract::default()), no_kernel)
}

#[test]
fn names_by_which_nothing_is_found_are_refused() {
    let mut registry = Registry::new();
    for name in ["Copy", "my copy", "mine.copy", "", "2nd"] {
        let error = registry.add_op(copy(name, &[])).unwrap_err();
        assert!(matches!(error, RegistryError::Name { .. }), "{error}");
        let error = registry.add_backend(Arc::new(Named(name, Vec::new()))).unwrap_err();
        assert!(matches!(error, RegistryError::Name { .. }), "{error}");
    }
    let error = registry.add_op(copy("copy", &["times", "axis", "times"])).unwrap_err().to_string();
    assert_eq!(error, "the op `copy` declares its attribute `times` twice");
    for path in ["passes/mine", "passes/.ron", "mine.RON"] {
        let error = registry.add_pipeline(path, "Pipeline()").unwrap_err();
        assert!(matches!(error, RegistryError::Name { .. }), "{error}");
        let error = registry.add_rules(path, "[]").unwrap_err();
        assert!(matches!(error, RegistryError::Name { .. }), "{error}");
    }
    // Pipelines are found by the names of their files alone.
    let error = registry.add_pipeline("mine/native.ron", "Pipeline()").unwrap_err().to_string();
    assert_eq!(error, "there are two pipelines named `native`: give one of them another name");
    registry.add_op(copy("copy", &["times"])).unwrap();
}

#[test]
fn nothing_of_a_refused_backend_stays() {
    let mut registry = Registry::new();
    let wrong = Named("mine", vec![lowering("mine.relu", "relu"), lowering("mine.absent", "absent")]);
    registry.add_backend(Arc::new(wrong)).unwrap_err();
    assert!(registry.ops().get("mine.relu").is_none());
    registry.add_backend(Arc::new(Named("mine", vec![lowering("mine.relu", "relu")]))).unwrap();
    assert!(registry.ops().get("mine.relu").is_some());
}

/// A contract for a call.
type Stated = fn(&Call<'_>) -> Contract;

#[test]
fn a_contract_that_no_plan_can_keep_is_a_mistake_of_the_backend() {
    let wrong: [(Stated, &str); 5] = [
        (|_| Contract { in_place: vec![2], ..Contract::default() }, "names operand 2 of a call with 1"),
        (|_| Contract { alias: Some(1), ..Contract::default() }, "names operand 1 of a call with 1"),
        (
            |_| Contract { view_of: Some(0), view_offset: 4, ..Contract::default() },
            "takes 16 bytes from byte 4 of operand 0, which has 16",
        ),
        (|_| Contract { parts: vec![0, 64], ..Contract::default() }, "has 2 parts for 1 operands"),
        (
            |_| Contract { parts: vec![64], ..Contract::default() },
            "places 16 bytes at byte 64 of a result of 16 bytes",
        ),
    ];
    static WRONG: Mutex<Option<Stated>> = Mutex::new(None);
    let mut registry = Registry::new();
    let stated = |call: &Call<'_>| Ok(WRONG.lock().unwrap().unwrap()(call));
    let lowering = Lowering::new("mine.relu", "relu", stated, no_kernel);
    registry.add_backend(Arc::new(Named("mine", vec![lowering]))).unwrap();
    let (op, ty) = (registry.ops().get("mine.relu").unwrap(), TensorType::plain(DType::F32, [4]));
    for (contract, why) in wrong {
        *WRONG.lock().unwrap() = Some(contract);
        let call = Call { op, attrs: &Attrs::new(), inputs: &[&ty], output: &ty, threads: 1 };
        let error = call.contract().unwrap_err().to_string();
        assert_eq!(error, format!("the contract of `mine.relu` {why}: this is a mistake of its backend"));
    }
}

#[test]
fn a_guard_accepts_by_one_value_alone_and_reads_arguments_of_any_number() {
    let mut registry = Registry::new();
    ovolo_native::register(&mut registry).unwrap();
    let odd = Word::guard("odd", "returns a number", &[Kind::Operand], |_| Ok(Value::Attr(Attr::Int(0))));
    registry.add_word(odd).unwrap();
    let far = Word::guard("far", "reads too far", &[Kind::Operand], |arguments| {
        let rank = arguments.operand(0)?.ty.shape.rank();
        if arguments.int(3)? == 0 && rank == 1 { Ok(Value::yes()) } else { Err(String::new().into()) }
    });
    registry.add_word(far).unwrap();
    let graph = text::parse(registry.ops(), "graph { x: f32[4] = input; y = relu(x); return y }").unwrap();
    let graph = ovolo::verify::verify(graph).unwrap();
    for (guard, why) in
        [("odd", "neither `Value::yes()` nor a reason"), ("far", "argument 4 is missing, not an attribute")]
    {
        let rule =
            format!(r#"[Rule(name: "a-rule", from: "(relu ?x)", to: "(abs ?x)", when: ["{guard}(?x)"])]"#);
        let set = RuleSet::read(registry.vocabulary(), &[("mine.ron", &rule)]).unwrap();
        let found = ovolo::egraph::EGraph::new(&graph).why_not(&set.rules()[0], None).unwrap();
        assert!(format!("{found:?}").contains(why), "{found:?}");
    }
    // The registry that all tests share has neither of them.
    assert!(common::registry().words().all().all(|word| word.name != "odd"));
}
