//! Elements of all types that `ort` knows.

use crate::onnx::node;
use crate::{environment, model, open};
use half::{bf16, f16};
use ort::memory::Allocator;
use ort::value::{DynTensor, PrimitiveTensorElementType, Tensor, TensorElementType};
use std::fmt::Debug;

/// Numbers go through a model and come back as they are, and their sum is right.
fn passes<T: PrimitiveTensorElementType + Copy + Debug + PartialEq + 'static>(number: i32, data: [T; 2]) {
    let mut session = open(&model::passed(number));
    let x = Tensor::from_array(([1_usize, 2], data.to_vec())).unwrap();
    let outputs = session.run(ort::inputs![x]).unwrap();
    let (shape, found) = outputs["y"].try_extract_tensor::<T>().unwrap();
    assert_eq!((&**shape, found), (&[1, 2][..], &data[..]));
}

/// Numbers are added.
fn adds<T: PrimitiveTensorElementType + Copy + Debug + PartialEq + 'static>(number: i32, one: T, two: T) {
    let mut session = open(&model::doubled(number));
    let x = Tensor::from_array(([2_usize, 1], vec![one, one])).unwrap();
    let outputs = session.run(ort::inputs![x]).unwrap();
    assert_eq!(outputs["y"].try_extract_tensor::<T>().unwrap().1, [two, two]);
}

#[test]
fn numbers_of_every_type_go_through_a_model() {
    passes(1, [1.5_f32, -0.0]);
    passes(2, [200_u8, 1]);
    passes(3, [-100_i8, 1]);
    passes(4, [60_000_u16, 1]);
    passes(5, [-30_000_i16, 1]);
    passes(6, [i32::MIN, 1]);
    passes(7, [i64::MIN, 1]);
    passes(9, [true, false]);
    passes(10, [f16::from_f32(0.1), f16::NEG_INFINITY]);
    passes(11, [0.1_f64, f64::MAX]);
    passes(12, [u32::MAX, 1]);
    passes(13, [u64::MAX, 1]);
    passes(16, [bf16::from_f32(0.1), bf16::MAX]);
}

#[test]
fn numbers_of_every_type_are_added() {
    adds(1, 1.5_f32, 3.0);
    adds(2, 100_u8, 200);
    adds(3, -50_i8, -100);
    adds(4, 30_000_u16, 60_000);
    adds(5, -10_000_i16, -20_000);
    adds(6, 1_000_000_000_i32, 2_000_000_000);
    adds(7, i64::from(i32::MAX), 2 * i64::from(i32::MAX));
    adds(10, f16::from_f32(1.5), f16::from_f32(3.0));
    adds(11, 0.1_f64, 0.2);
    adds(12, 1_u32 << 30, 1 << 31);
    adds(13, 1_u64 << 62, 1 << 63);
    adds(16, bf16::from_f32(1.5), bf16::from_f32(3.0));
}

#[test]
fn strings_go_through_a_model() {
    let texts = |name| crate::onnx::value(name, 8, &["N"]);
    let nodes = vec![node("StringConcat", &["a", "b"], &["y"])];
    let mut session = open(&model::of(nodes, vec![texts("a"), texts("b")], vec![texts("y")]));
    let a = Tensor::from_string_array(([3_usize], &["grüß", "", "c"][..])).unwrap();
    let b = Tensor::from_string_array(([3_usize], &[" dich", "こんにちは", ""][..])).unwrap();
    assert_eq!(a.try_extract_strings().unwrap().1, ["grüß", "", "c"]);
    let outputs = session.run(ort::inputs![a, b]).unwrap();
    let (shape, found) = outputs["y"].try_extract_strings().unwrap();
    assert_eq!((&**shape, found), (&[3][..], ["grüß dich", "こんにちは", "c"].map(str::to_owned).to_vec()));
    assert!(outputs["y"].try_extract_tensor::<f32>().is_err());
}

#[test]
fn a_tensor_is_zero_at_first_and_its_elements_have_places() {
    environment();
    let mut tensor = Tensor::<f32>::new(&Allocator::default(), [1_usize, 3, 224, 224]).unwrap();
    assert!(tensor.extract_tensor().1.iter().all(|x| *x == 0.0));
    tensor[[0, 2, 42, 43]] = 1.0;
    assert_eq!(tensor[[0, 2, 42, 43]], 1.0);
    assert_eq!(tensor.extract_tensor().1[(2 * 224 + 42) * 224 + 43], 1.0);
}

#[test]
fn a_tensor_can_be_cloned_and_copied() {
    environment();
    let tensor = Tensor::from_array(([2_usize, 2], vec![1_i64, 2, 3, 4])).unwrap();
    let mut clone = tensor.clone();
    clone.extract_tensor_mut().1[0] = 9;
    assert_eq!(tensor.extract_tensor().1, [1, 2, 3, 4]);
    assert_eq!(clone.extract_tensor().1, [9, 2, 3, 4]);
    tensor.copy_into(&mut clone).unwrap();
    assert_eq!(clone.extract_tensor().1, [1, 2, 3, 4]);
    let half = Tensor::from_array(([1_usize], vec![f16::from_f32(0.5)])).unwrap().clone();
    assert_eq!(half.extract_tensor().1, [f16::from_f32(0.5)]);
}

#[test]
fn elements_smaller_than_a_byte_are_refused() {
    environment();
    let why = DynTensor::new(&Allocator::default(), TensorElementType::Int4, [4_usize]).unwrap_err();
    assert!(why.message().contains("a tensor of i4 cannot be passed to ovolo or back"), "{why}");
}
