//! Tests that plans from the cache give the same bits as compiled ones, and share weights.

use crate::cache::fixture::{build, digits, filled, folder, key, origin, request};
use crate::cache::values::loads_give_the_same_bits;
use crate::common;
use ovolo::backend::Unkept;
use ovolo::cache::{Kind, Request};
use ovolo::onnx::proto::ModelProto;
use ovolo::plan::Plan;
use ovolo::session::Session;
use prost::Message;

#[test]
fn plans_of_all_cases_are_loaded_unchanged_and_give_the_same_bits() {
    loads_give_the_same_bits(&["native", "superoptimise"]);
}

#[test]
fn a_model_that_is_saved_twice_shares_its_weights() {
    let at = folder("shared");
    let first = request(&digits());
    let (cache, _) = filled(&at.join("cache"), &first);
    let weights = cache.folder().list(Kind::Weight);
    assert!(!weights.is_empty());
    let mut model = ModelProto::decode(&std::fs::read(digits()).unwrap()[..]).unwrap();
    model.producer_name = "someone else".into();
    let graph = model.graph.as_mut().unwrap();
    let rename = |name: &mut String| {
        if name.contains("conv") || name.contains("weight") {
            name.push_str("_2");
        }
    };
    graph.initializer.iter_mut().for_each(|weight| rename(&mut weight.name));
    graph.node.iter_mut().for_each(|node| {
        node.input.iter_mut().chain(&mut node.output).for_each(rename);
    });
    let second = at.join("second.onnx");
    std::fs::write(&second, model.encode_to_vec()).unwrap();
    let second = request(&second);
    assert_ne!(key(&first), key(&second));
    cache.keep(&key(&second), &build(&second), origin(&second)).unwrap();
    assert_eq!(cache.folder().list(Kind::Plan).len(), 2);
    let names =
        |list: Vec<ovolo::cache::Listed>| -> Vec<String> { list.into_iter().map(|one| one.name).collect() };
    assert_eq!(names(cache.folder().list(Kind::Weight)), names(weights));
}

#[test]
fn a_plan_whose_kernel_has_another_contract_now_is_not_run() {
    let asked = request(&digits());
    let (cache, session) = filled(&folder("contract"), &asked);
    let constants = || session.constants().into_iter().map(|(node, tensor)| (node, tensor.clone())).collect();
    let refused = |change: &dyn Fn(&mut Plan)| {
        let mut plan = session.plan().clone();
        change(&mut plan);
        match Session::stored(plan, constants(), common::registry().backends(), &Unkept) {
            Ok(_) => panic!("it was accepted"),
            Err(error) => error.to_string(),
        }
    };
    assert!(refused(&|plan| plan.steps[0].implementation.push('2')).contains("is now"));
    assert!(refused(&|plan| plan.steps[0].scratch -= 64).contains("asks for other buffers"));
    assert!(refused(&|plan| plan.steps[0].scratch += 64).contains("no buffer contains"));
    assert!(refused(&|plan| plan.arena = 64).contains("does not lie within 64 bytes"));
    assert!(refused(&|plan| plan.steps[0].output.offset = usize::MAX - 63).contains("does not lie within"));
    assert!(
        refused(&|plan| plan.steps[0].output_type.shape = [1_usize, 1, 1, 1].into()).contains("inferred as")
    );
    assert!(refused(&|plan| plan.steps[0].inputs.clear()).contains("have no places"));
    assert!(refused(&|plan| plan.arena = usize::MAX).contains("than all its buffers"));
    assert!(refused(&|plan| plan.steps[0].output.offset = 2).contains("is not aligned"));
    assert!(refused(&|plan| plan.threads = 0).contains("for 0 threads"));
    assert!(cache.find(&key(&Request { threads: 1, ..asked }), None).is_ok());
}
