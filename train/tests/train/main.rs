//! Tests of training.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss, clippy::cast_possible_truncation)]

mod checkpoint;
mod dropout;
mod lazy;
#[path = "../../../tests/common/onnx.rs"]
mod onnx;
mod operator;
mod step;
mod table;
mod unroll;

#[allow(dead_code)] // Its `main` prints what the test checks.
#[path = "../../examples/digits.rs"]
mod example;

#[test]
fn the_example_reads_digits_that_it_has_not_seen() {
    let digits = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/digits");
    let (right, all) = example::train(&digits).unwrap();
    assert!(all == 360 && right * 100 >= all * 97, "{right} of {all}");
}
