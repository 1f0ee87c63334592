//! Tests of `src/op/law.rs`.

#[allow(dead_code)]
#[path = "../../../../src/op/law.rs"]
mod source;

use crate::units::fixture::ops;
use ovolo::attr::{Attr, Attrs};
use ovolo::op::Op;
use ovolo::tensor::{DType, TensorType};
use source::broken;

/// Returns whether an op takes an operand of `f32` with this shape.
fn infers(name: &str, shape: &[usize], attrs: Attrs) -> bool {
    let def = ops().get(name).unwrap();
    let ty = TensorType::plain(DType::F32, shape.to_vec());
    def.result(&def.complete(attrs), &[&ty]).is_ok()
}

#[test]
fn what_is_broken_no_op_takes_and_defaults_are_not() {
    for (name, attr, value) in [
        ("softmax", "axis", Attr::Int(-1)),
        ("transpose", "perm", Attr::Ints(vec![0, 0])),
        ("transpose", "perm", Attr::Ints(vec![1, 2])),
        ("reduce-sum", "axes", Attr::Ints(vec![-1])),
        ("reshape", "shape", Attr::Ints(vec![-1])),
    ] {
        let def = ops().get(name).unwrap();
        assert!(broken(def, attr, &value).is_some(), "{name} {attr}: {value}");
        assert!(!infers(name, &[2, 3], Attrs::new().with(attr, value.clone())), "{name} {attr}: {value}");
    }
    for def in ops().all() {
        for attr in &def.attrs {
            let wrong = attr.default.as_ref().and_then(|value| broken(def, attr.name, value));
            assert!(wrong.is_none(), "{} {}", def.name, attr.name);
        }
    }
}
