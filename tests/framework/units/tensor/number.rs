//! Tests of `src/tensor/number.rs`.

use ovolo::tensor::{DType, Tensor};

#[test]
fn integers_of_every_width_wrap() {
    for dtype in DType::ALL.into_iter().filter(|dtype| dtype.is_integer()) {
        let (least, most) = dtype.integer_range().unwrap();
        let values = [least, most, least - 1, most + 1, 0];
        let tensor = Tensor::from_i128(dtype, [5], &values);
        assert_eq!(tensor.to_i128().unwrap(), [least, most, most, least, 0], "{dtype}");
    }
    assert_eq!(Tensor::scalar(u64::MAX).to_i64().unwrap(), [i64::MAX]);
}

#[test]
fn floats_saturate_to_integers() {
    for dtype in DType::ALL.into_iter().filter(|dtype| dtype.is_integer() && dtype.is_number()) {
        let (least, most) = dtype.integer_range().unwrap();
        let tensor = Tensor::from_f64(dtype, [3], &[-1e30, 1e30, f64::NAN]);
        assert_eq!(tensor.to_i128().unwrap(), [least, most, 0], "{dtype}");
    }
}
