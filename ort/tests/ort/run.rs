//! Runs, compared with what ovolo computes itself.

use crate::onnx::{FLOAT, INT64};
use crate::{DIGITS, builder, model, open};
use ort::memory::Allocator;
use ort::session::{OutputSelector, RunOptions};
use ort::value::{Tensor, TensorRef};
use ovolo_cli::{Job, Runnable, Settings};
use std::collections::HashMap;
use std::sync::Arc;

/// The scores of some images, as ovolo's own command line computes them for the speeds of this machine.
fn scores(images: &ovolo::Tensor) -> Vec<f32> {
    let mut settings = Settings::new(DIGITS);
    settings.threads = Some(1);
    settings.dims = vec![format!("N={}", images.ty().shape[0])];
    settings.pipeline = "native".to_owned();
    let job = Job::new(Arc::new(ovolo_standard::registry()), settings, false);
    let Runnable::Fixed(mut session) = job.session().unwrap() else { panic!("all shapes are fixed") };
    session.run(&[images]).unwrap()[0].elements::<f32>().to_vec()
}

#[test]
fn scores_are_those_of_ovolo_for_any_number_of_images() {
    let images = ovolo::npy::read("../examples/digits/images.npy").unwrap();
    let elements = images.elements::<f32>();
    let mut session = builder().commit_from_file(DIGITS).unwrap();
    for count in [1, 7, 0, 360, 7] {
        let shape = [count, 1, 8, 8];
        let some = &elements[..count * 64];
        let outputs = session.run(ort::inputs![TensorRef::from_array_view((shape, some)).unwrap()]).unwrap();
        let (found, data) = outputs["scores"].try_extract_tensor::<f32>().unwrap();
        assert_eq!(**found, [i64::try_from(count).unwrap(), 10]);
        if count > 0 {
            let wanted = scores(&ovolo::Tensor::from_elements([count, 1, 8, 8], some));
            assert_eq!(data, wanted, "{count} images");
        }
    }
}

#[test]
fn inputs_are_given_by_position_or_by_name_in_any_order() {
    let mut session = open(&model::arithmetic());
    let (a, b) = ([1.0_f32, 2.0, 3.0], [10.0_f32, 20.0, 30.0]);
    let view = |data: &'static [f32; 3]| TensorRef::from_array_view(([3_usize], &data[..])).unwrap();
    static A: [f32; 3] = [1.0, 2.0, 3.0];
    static B: [f32; 3] = [10.0, 20.0, 30.0];
    assert_eq!((A, B), (a, b));
    let minus = |outputs: &ort::session::SessionOutputs<'_>| {
        let sum = outputs["sum"].try_extract_tensor::<f32>().unwrap().1.to_vec();
        let product = outputs["product"].try_extract_tensor::<f32>().unwrap().1.to_vec();
        (sum, product)
    };
    let wanted = (vec![11.0, 22.0, 33.0], vec![10.0, 40.0, 90.0]);
    assert_eq!(minus(&session.run(ort::inputs![view(&A), view(&B)]).unwrap()), wanted);
    assert_eq!(minus(&session.run(ort::inputs!["b" => view(&B), "a" => view(&A)]).unwrap()), wanted);
    let map = HashMap::from([("b", view(&B)), ("a", view(&A))]);
    assert_eq!(minus(&session.run(map).unwrap()), wanted);
}

#[test]
fn some_outputs_can_be_asked_for_in_any_order() {
    let mut session = open(&model::arithmetic());
    let a = Tensor::from_array(([3_usize], vec![1.0_f32, 2.0, 3.0])).unwrap();
    let b = Tensor::from_array(([3_usize], vec![2.0_f32, 2.0, 2.0])).unwrap();
    let asked = OutputSelector::no_default().with("product").with("sum");
    let options = RunOptions::new().unwrap().with_outputs(asked);
    let outputs = session.run_with_options(ort::inputs![&a, &b], &options).unwrap();
    assert_eq!(outputs.keys().collect::<Vec<_>>(), ["product", "sum"]);
    assert_eq!(outputs[0].try_extract_tensor::<f32>().unwrap().1, [2.0, 4.0, 6.0]);
    assert_eq!(outputs[1].try_extract_tensor::<f32>().unwrap().1, [3.0, 4.0, 5.0]);
    drop(outputs);
    let twice = OutputSelector::no_default().with("sum").with("sum");
    let options = RunOptions::new().unwrap().with_outputs(twice);
    let mut outputs = session.run_with_options(ort::inputs![&a, &b], &options).unwrap();
    // The two must not share memory.
    outputs[0].try_extract_tensor_mut::<f32>().unwrap().1[0] = -1.0;
    assert_eq!(outputs[1].try_extract_tensor::<f32>().unwrap().1, [3.0, 4.0, 5.0]);
}

#[test]
fn an_output_can_be_computed_into_a_tensor_of_the_caller() {
    let mut session = open(&model::arithmetic());
    let a = Tensor::from_array(([3_usize], vec![1.0_f32, 2.0, 3.0])).unwrap();
    let made = Tensor::<f32>::new(&Allocator::default(), [3_usize]).unwrap();
    let place = made.extract_tensor().1.as_ptr();
    let options = RunOptions::new().unwrap().with_outputs(OutputSelector::default().preallocate("sum", made));
    let outputs = session.run_with_options(ort::inputs![&a, &a], &options).unwrap();
    let sum = outputs["sum"].try_extract_tensor::<f32>().unwrap().1;
    assert_eq!((sum, sum.as_ptr()), (&[2.0, 4.0, 6.0][..], place));
    drop(outputs);
    let made = Tensor::<f32>::new(&Allocator::default(), [4_usize]).unwrap();
    let options = RunOptions::new().unwrap().with_outputs(OutputSelector::default().preallocate("sum", made));
    let why = session.run_with_options(ort::inputs![&a, &a], &options).map(|_| ()).unwrap_err();
    assert!(why.message().contains("output `sum`: it is f32[3], and the value for it is f32[4]"), "{why}");
}

#[test]
fn what_a_model_gives_back_as_it_got_it_is_a_copy() {
    let mut session = open(&model::passed(FLOAT));
    for size in [3_usize, 4096] {
        let mut x = Tensor::<f32>::new(&Allocator::default(), [size, 1]).unwrap();
        x.extract_tensor_mut().1[0] = 5.0;
        let mut outputs = session.run(ort::inputs![&x]).unwrap();
        outputs["y"].try_extract_tensor_mut::<f32>().unwrap().1[0] = 7.0;
        assert_eq!(x.extract_tensor().1[0], 5.0);
        x.extract_tensor_mut().1[0] = 9.0;
        assert_eq!(outputs["y"].try_extract_tensor::<f32>().unwrap().1[0], 7.0);
    }
}

#[test]
fn a_tensor_can_change_between_runs() {
    // The elements of the shape decide which plan runs, so a session must not take old ones for new ones.
    let mut session = open(&model::reshaped());
    let x = Tensor::from_array(([6_usize], vec![1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])).unwrap();
    let mut shape = Tensor::<i64>::new(&Allocator::default(), [2_usize]).unwrap();
    for sizes in [[2, 3], [3, 2], [2, 3], [6, 1]] {
        shape.extract_tensor_mut().1.copy_from_slice(&sizes);
        let outputs = session.run(ort::inputs!["x" => &x, "shape" => &shape]).unwrap();
        assert_eq!(**outputs["y"].try_extract_tensor::<f32>().unwrap().0, sizes);
    }
}

#[test]
fn sizes_may_be_zero_and_a_tensor_may_have_no_dimensions() {
    let mut session = open(&model::doubled(INT64));
    for shape in [[0_usize, 5], [5, 0], [1, 1]] {
        let count = shape[0] * shape[1];
        let x = Tensor::from_array((shape, vec![21_i64; count])).unwrap();
        let outputs = session.run(ort::inputs![x]).unwrap();
        let (found, data) = outputs["y"].try_extract_tensor::<i64>().unwrap();
        assert_eq!(**found, shape.map(|size| i64::try_from(size).unwrap()));
        assert_eq!(data, vec![42; count]);
    }
    let scalar = |name| crate::onnx::value(name, FLOAT, &[]);
    let nodes = vec![crate::onnx::node("Neg", &["x"], &["y"])];
    let mut session = open(&model::of(nodes, vec![scalar("x")], vec![scalar("y")]));
    let x = Tensor::from_array(((), vec![2.5_f32])).unwrap();
    let outputs = session.run(ort::inputs![x]).unwrap();
    assert_eq!(outputs["y"].try_extract_scalar::<f32>().unwrap(), -2.5);
    assert!(outputs["y"].shape().is_empty());
}

#[test]
fn large_tensors_are_read_where_they_lie_and_changes_are_seen() {
    let mut session = open(&model::doubled(FLOAT));
    let mut x = Tensor::<f32>::new(&Allocator::default(), [64_usize, 64]).unwrap();
    for step in [1.0, 2.0, 3.0] {
        x.extract_tensor_mut().1.fill(step);
        let outputs = session.run(ort::inputs![&x]).unwrap();
        let data = outputs["y"].try_extract_tensor::<f32>().unwrap().1;
        assert!(data.len() == 4096 && data.iter().all(|y| *y == 2.0 * step));
    }
    // A part of memory that begins at no multiple of 64 is copied.
    let data = vec![4.0_f32; 4097];
    let x = TensorRef::from_array_view(([64_usize, 64], &data[1..])).unwrap();
    let outputs = session.run(ort::inputs![x]).unwrap();
    assert!(outputs["y"].try_extract_tensor::<f32>().unwrap().1.iter().all(|y| *y == 8.0));
}
