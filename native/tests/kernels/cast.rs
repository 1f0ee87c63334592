//! Tests of casts between element types against the reference evaluation.

use crate::check::{Random, verify};
use ovolo::attr::{Attr, Attrs};
use ovolo::tensor::{DType, Tensor};

#[test]
fn casts_round_and_saturate_as_the_reference_does() {
    let values: Vec<f32> =
        [0.0, -0.0, 1.5, 2.5, -3.7, 255.4, 256.0, -129.0, 7e4, -7e4, 3e9, 1e-8, 65504.0, 65519.9, 65520.0]
            .into_iter()
            .chain([f32::INFINITY, f32::NEG_INFINITY, f32::NAN])
            .cycle()
            .take(77)
            .collect();
    let x = Tensor::from_elements([77], &values);
    for to in [DType::F16, DType::BF16, DType::F64, DType::I32, DType::I64, DType::U8, DType::I8, DType::Bool]
    {
        let attributes = Attrs::new().with("to", Attr::DType(to));
        verify("native.cast", &attributes, &[&x], 0.0);
        let mut random = Random::new(34);
        let narrow = random.tensor(to, [77]);
        verify("native.cast", &Attrs::new().with("to", Attr::DType(DType::F32)), &[&narrow], 0.0);
    }
}
