//! Tests of `src/rule/precision.rs`.

#[allow(dead_code)]
#[path = "../../../../src/rule/precision.rs"]
mod source;

use source::Precision::{self, Bf16, F16, F32, Int4, Int8, Tf32};

#[test]
fn a_pipeline_allows_its_own_precision_and_those_that_round_less() {
    let allowed =
        |one: Precision| Precision::ALL.into_iter().filter(|rule| one.allows(*rule)).collect::<Vec<_>>();
    assert_eq!(allowed(F32), [F32]);
    assert_eq!(allowed(Tf32), [F32, Tf32]);
    assert_eq!(allowed(F16), [F32, Tf32, F16]);
    assert_eq!(allowed(Bf16), [F32, Tf32, Bf16]);
    // Values that are no weights stay as they are.
    assert_eq!(allowed(Int8), [F32, Int8]);
    assert_eq!(allowed(Int4), [F32, Int8, Int4]);
}
