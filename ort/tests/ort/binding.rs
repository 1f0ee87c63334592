//! Inputs and outputs that are bound.

use crate::{model, open};
use ort::memory::{Allocator, MemoryInfo};
use ort::value::Tensor;

fn vector(first: f32) -> Tensor<f32> {
    Tensor::from_array(([3_usize], vec![first, 2.0, 3.0])).unwrap()
}

#[test]
fn bound_values_are_read_and_written() {
    let mut session = open(&model::arithmetic());
    let mut binding = session.create_binding().unwrap();
    binding.bind_input("a", &vector(1.0)).unwrap();
    binding.bind_input("b", &vector(4.0)).unwrap();
    let sum = Tensor::<f32>::new(&Allocator::default(), [3_usize]).unwrap();
    let place = sum.extract_tensor().1.as_ptr();
    binding.bind_output("sum", sum).unwrap();
    binding.bind_output_to_device("product", &MemoryInfo::default()).unwrap();
    {
        let outputs = session.run_binding(&binding).unwrap();
        let found = outputs["sum"].try_extract_tensor::<f32>().unwrap().1;
        assert_eq!((found, found.as_ptr()), (&[5.0, 4.0, 6.0][..], place));
        assert_eq!(outputs["product"].try_extract_tensor::<f32>().unwrap().1, [4.0, 4.0, 9.0]);
    }
    // Another value for one input; the other one stays.
    binding.bind_input("a", &vector(2.0)).unwrap();
    binding.synchronize().unwrap();
    let outputs = session.run_binding(&binding).unwrap();
    assert_eq!(outputs["product"].try_extract_tensor::<f32>().unwrap().1, [8.0, 4.0, 9.0]);
}

#[test]
fn bindings_that_do_not_fit_are_refused() {
    let mut session = open(&model::arithmetic());
    let mut binding = session.create_binding().unwrap();
    binding.bind_input("a", &vector(1.0)).unwrap();
    binding.bind_output_to_device("sum", &MemoryInfo::default()).unwrap();
    let why = session.run_binding(&binding).map(|_| ()).unwrap_err();
    assert!(why.message().contains("input `b` (f32[3]) is not given"), "{why}");
    binding.bind_input("b", &vector(1.0)).unwrap();
    binding.bind_output_to_device("quotient", &MemoryInfo::default()).unwrap();
    let why = session.run_binding(&binding).map(|_| ()).unwrap_err();
    assert!(why.message().contains("the model has no output `quotient`"), "{why}");
    binding.clear_outputs();
    binding.bind_output("sum", Tensor::<f32>::new(&Allocator::default(), [2_usize]).unwrap()).unwrap();
    let why = session.run_binding(&binding).map(|_| ()).unwrap_err();
    assert!(why.message().contains("output `sum`: it is f32[3], and the value for it is f32[2]"), "{why}");
    binding.clear();
    assert!(session.run_binding(&binding).is_err());
}
