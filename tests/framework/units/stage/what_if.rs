//! Tests of `src/stage/question/what_if.rs`.

use ovolo::stage::Scale;

#[test]
fn a_scale_is_a_pattern_and_a_factor() {
    assert_eq!(Scale::read("a*=1.5"), Ok(Scale { ops: "a*".into(), factor: 1.5 }));
    for wrong in ["a*", "=2", "a=x", "a=0", "a=-1", "a=inf", "a=nan"] {
        assert!(Scale::read(wrong).is_err(), "{wrong}");
    }
}
