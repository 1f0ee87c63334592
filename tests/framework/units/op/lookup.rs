//! Tests of `src/op/lookup.rs`.

use ovolo::attr::Attrs;
use ovolo::op::Ops;
use ovolo::tensor::Tensor;

fn places(x: &Tensor, keys: &Tensor) -> Vec<i64> {
    let op = Ops::new().get("find").unwrap();
    let ty = op.result(&Attrs::new(), &[x.ty(), keys.ty()]).unwrap();
    op.evaluate(&Attrs::new(), &[x, keys], &ty).to_i64().unwrap()
}

#[test]
fn elements_are_found_by_their_values() {
    let words = Tensor::from_texts([3], &["b", "c", ""]);
    assert_eq!(places(&words, &Tensor::from_texts([2], &["a", "b"])), [1, 2, 2]);
    let numbers = Tensor::from_elements([4], &[f32::NAN, 0.0, 1.5, 2.0]);
    assert_eq!(places(&numbers, &Tensor::from_elements([3], &[-0.0, f32::NAN, 1.5_f32])), [1, 0, 2, 3]);
    let large = Tensor::from_elements([1], &[i64::MAX]);
    assert_eq!(places(&large, &Tensor::from_elements([2], &[i64::MAX - 1, i64::MAX])), [1]);
}
