//! Tests of `src/tensor/narrow.rs`.

use ovolo::tensor::{DType, Overflow, Rounding, Tensor};

fn decode(dtype: DType, code: u8) -> f64 {
    Tensor::from_elements([1], &[code]).reinterpreted(dtype).to_f64()[0]
}

fn encode(dtype: DType, value: f64, overflow: Overflow, rounding: Rounding) -> u8 {
    Tensor::narrowed(dtype, [1], &[value], overflow, rounding).bytes()[0]
}

#[test]
fn every_narrow_float_is_the_float_nearest_to_its_value() {
    for dtype in DType::ALL.into_iter().filter(|dtype| dtype.is_narrow_float()) {
        for code in 0..=u8::MAX >> (8 - dtype.bits()) {
            let value = decode(dtype, code);
            let back = encode(dtype, value, Overflow::Infinite, Rounding::Nearest);
            assert!(back == code || value.is_nan() && decode(dtype, back).is_nan(), "{dtype} {code:#x}");
        }
    }
}

#[test]
fn numbers_are_rounded_to_even_and_end_at_the_largest() {
    let to = |dtype, value| decode(dtype, encode(dtype, value, Overflow::Saturate, Rounding::Up));
    assert_eq!(to(DType::F8E4M3FN, 17.0), 16.0);
    assert_eq!(to(DType::F8E4M3FN, 19.0), 20.0);
    assert_eq!(to(DType::F8E4M3FN, f64::INFINITY), 448.0);
    assert_eq!(to(DType::F8E4M3FN, 2_f64.powi(-10)), 0.0);
    assert_eq!(to(DType::F8E4M3FN, 3.0 * 2_f64.powi(-10)), 2_f64.powi(-8));
    assert_eq!(to(DType::F8E5M2FNUZ, -1e9), -57344.0);
    assert_eq!(to(DType::F4E2M1, 2.5), 2.0);
    assert_eq!(to(DType::F4E2M1, -100.0), -6.0);
    assert_eq!(to(DType::F8E8M0, 3.0), 4.0);
    let past = |dtype| decode(dtype, encode(dtype, 1e9, Overflow::Infinite, Rounding::Up));
    assert_eq!(past(DType::F8E5M2), f64::INFINITY);
    assert!(past(DType::F8E4M3FN).is_nan() && past(DType::F8E4M3FNUZ).is_nan());
}
