//! Tests of `src/op/text.rs`.

use ovolo::attr::{Attr, Attrs};
use ovolo::op::Ops;
use ovolo::tensor::Tensor;
use std::sync::Arc;

/// Returns the parts of a text: as many as `string-split-count` says, from `string-split`.
fn split(text: &str, delimiter: &str, splits: i64) -> Vec<Arc<str>> {
    let ops = Ops::new();
    let text = Tensor::from_texts([1], &[text]);
    let evaluate = |op: &str, attrs: &Attrs| {
        let op = ops.get(op).unwrap();
        op.evaluate(attrs, &[&text], &op.result(attrs, &[text.ty()]).unwrap())
    };
    let attrs = Attrs::new().with("delimiter", Attr::Str(delimiter.into())).int("splits", splits);
    let count = evaluate("string-split-count", &attrs).to_i64().unwrap()[0];
    evaluate("string-split", &attrs.int("parts", count)).to_texts().unwrap()
}

#[test]
fn texts_are_split_as_in_python() {
    assert_eq!(split("a,,b", ",", -1), ["a", "", "b"].map(Arc::from));
    assert_eq!(split("a,b,c", ",", 1), ["a", "b,c"].map(Arc::from));
    assert_eq!(split("", ",", -1), [""].map(Arc::from));
    assert_eq!(split("  a \t b c ", "", -1), ["a", "b", "c"].map(Arc::from));
    assert_eq!(split("  a  b c ", "", 1), ["a", "b c "].map(Arc::from));
    assert!(split("  ", "", -1).is_empty());
}
