//! What is refused, and what the messages say.

use crate::onnx::FLOAT;
use crate::{DIGITS, builder, environment, model, open};
use ort::ErrorCode;
use ort::memory::{AllocationDevice, AllocatorType, MemoryInfo, MemoryType};
use ort::session::{OutputSelector, RunOptions, Session, SessionInputs};
use ort::value::Tensor;

/// The error of a run.
fn refused<'i, 'v: 'i, const N: usize>(
    session: &mut Session,
    inputs: impl Into<SessionInputs<'i, 'v, N>>,
) -> (ErrorCode, String) {
    let why = session.run(inputs).map(|_| ()).unwrap_err();
    (why.code(), why.message().to_owned())
}

fn vector(count: usize) -> Tensor<f32> {
    Tensor::from_array(([count], vec![1.0_f32; count])).unwrap()
}

#[test]
fn inputs_that_do_not_fit_a_plan_are_refused() {
    let mut session = open(&model::arithmetic());
    let (code, why) = refused(&mut session, ort::inputs![vector(3)]);
    assert_eq!(code, ErrorCode::InvalidArgument);
    assert!(why.contains("input `b` (f32[3]) is not given"), "{why}");
    let (_, why) = refused(&mut session, ort::inputs!["a" => vector(3), "b" => vector(3), "d" => vector(3)]);
    assert!(why.contains("the model has no input `d`"), "{why}");
    let (_, why) = refused(&mut session, ort::inputs![vector(3), vector(4)]);
    assert!(why.contains("input `b`") && why.contains("f32[3]") && why.contains("f32[4]"), "{why}");
    let wrong = Tensor::from_array(([3_usize], vec![1_i64; 3])).unwrap();
    let (code, why) = refused(&mut session, ort::inputs!["a" => vector(3), "b" => wrong]);
    assert_eq!(code, ErrorCode::InvalidArgument);
    assert!(why.contains("input `b`") && why.contains("i64[3]"), "{why}");
    let (_, why) = refused(&mut session, ort::inputs!["a" => vector(3), "b" => vector(3), "a" => vector(3)]);
    assert!(why.contains("input `a` is given twice"), "{why}");
    // The session can still run.
    assert!(session.run(ort::inputs![vector(3), vector(3)]).is_ok());
}

#[test]
fn inputs_that_do_not_fit_a_model_of_any_size_are_refused() {
    let mut session = builder().commit_from_file(DIGITS).unwrap();
    let image = |size| Tensor::from_array(([1_usize, 1, size, 8], vec![0.0_f32; 8 * size])).unwrap();
    let (code, why) = refused(&mut session, ort::inputs!["picture" => image(8)]);
    assert_eq!(code, ErrorCode::InvalidArgument);
    assert!(why.contains("the model has no input `picture`"), "{why}");
    let (code, why) = refused(&mut session, ort::inputs![image(7)]);
    assert_eq!(code, ErrorCode::InvalidArgument);
    assert!(why.contains("input `image`") && why.contains("f32[1,1,7,8]"), "{why}");
    let wrong = Tensor::from_array(([1_usize, 1, 8, 8], vec![0_u8; 64])).unwrap();
    let (_, why) = refused(&mut session, ort::inputs![wrong]);
    assert!(why.contains("input `image`") && why.contains("u8"), "{why}");
    let (_, why) =
        refused(&mut session, ort::inputs![Tensor::from_array(([64_usize], vec![0.0_f32; 64])).unwrap()]);
    assert!(why.contains("input `image`") && why.contains("f32[64]"), "{why}");
    assert!(session.run(ort::inputs![image(8)]).is_ok());
}

#[test]
fn an_output_that_is_not_there_is_refused() {
    let mut session = open(&model::arithmetic());
    let options = RunOptions::new().unwrap().with_outputs(OutputSelector::no_default().with("difference"));
    let why = session.run_with_options(ort::inputs![vector(3), vector(3)], &options).map(|_| ()).unwrap_err();
    assert_eq!(why.code(), ErrorCode::InvalidArgument);
    assert!(
        why.message().contains("the model has no output `difference`: its outputs are `sum`, `product`"),
        "{why}"
    );
}

#[test]
fn a_run_can_be_ended_before_it_begins() {
    let mut session = open(&model::arithmetic());
    let options = RunOptions::new().unwrap();
    options.terminate().unwrap();
    let why = session.run_with_options(ort::inputs![vector(3), vector(3)], &options).map(|_| ()).unwrap_err();
    assert!(why.message().contains("the run was ended by its options"), "{why}");
    options.unterminate().unwrap();
    assert!(session.run_with_options(ort::inputs![vector(3), vector(3)], &options).is_ok());
}

#[test]
fn a_file_that_is_no_model_is_refused() {
    let why = builder().commit_from_file("no-such-file.onnx").unwrap_err();
    assert_eq!(why.code(), ErrorCode::NoSuchFile);
    let why = builder().commit_from_file("Cargo.toml").unwrap_err();
    assert_eq!(why.code(), ErrorCode::InvalidProtobuf);
    assert!(why.message().contains("`Cargo.toml` is not an ONNX model"), "{why}");
    let why = builder().commit_from_memory(b"").unwrap_err();
    assert_eq!(why.code(), ErrorCode::InvalidProtobuf);
    assert!(why.message().starts_with("`model in memory` is empty"), "{why}");
    let why = builder().commit_from_memory(&[0xff; 100]).unwrap_err();
    assert!(why.message().starts_with("`model in memory` is not an ONNX model"), "{why}");
    let why = builder().commit_from_memory(b"\x14\0\0\0ORTM\0\0\0\0\0\0\0\0").unwrap_err();
    assert_eq!(why.code(), ErrorCode::NotImplemented);
    assert!(why.message().contains("ONNX Runtime's own format"), "{why}");
}

#[test]
fn a_model_with_an_unknown_operator_is_refused() {
    let matrix = |name| crate::onnx::value(name, FLOAT, &["2", "2"]);
    let nodes = vec![crate::onnx::node("Conjure", &["x"], &["y"])];
    let bytes = prost::Message::encode_to_vec(&model::of(nodes, vec![matrix("x")], vec![matrix("y")]));
    let why = builder().commit_from_memory(&bytes).unwrap_err();
    assert!(why.message().contains("Conjure"), "{why}");
}

#[test]
fn memory_of_other_devices_is_refused() {
    environment();
    let place = |device| MemoryInfo::new(device, 0, AllocatorType::Device, MemoryType::Default);
    let why = place(AllocationDevice::CUDA).unwrap_err();
    assert!(why.message().contains("ovolo has no memory of the device `Cuda`"), "{why}");
    let (one, other) = (place(AllocationDevice::CPU).unwrap(), MemoryInfo::default());
    assert!(one == other && one.is_cpu_accessible());
    assert_eq!(one.allocation_device(), AllocationDevice::CPU);
}

#[test]
fn what_is_not_implemented_is_named() {
    let why = builder().with_profiling("profile").map(|_| ()).unwrap_err();
    assert_eq!(why.code(), ErrorCode::NotImplemented);
    assert!(why.message().starts_with("ovolo does not implement `EnableProfiling`: "), "{why}");
    let why = builder().with_optimized_model_path("model.onnx").map(|_| ()).unwrap_err();
    assert!(why.message().contains("`SetOptimizedModelFilePath`"), "{why}");
    let why = builder().with_operator_library("operators.so").map(|_| ()).unwrap_err();
    assert!(why.message().contains("`RegisterCustomOpsLibrary_V2`"), "{why}");
    let why = ort::operator::OperatorDomain::new("custom").map(|_| ()).unwrap_err();
    assert!(why.message().contains("`CreateCustomOpDomain`"), "{why}");
    let why = open(&model::arithmetic()).profiling_start_ns().unwrap_err();
    assert!(why.message().contains("`SessionGetProfilingStartTimeNs`"), "{why}");
    let weight = std::sync::Arc::new(vector(3).into_dyn());
    let why = builder().with_initializer("w", weight).map(|_| ()).unwrap_err();
    assert!(why.message().contains("`AddInitializer`"), "{why}");
}
