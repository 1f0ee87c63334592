//! Ops that have no other kernel than their reference evaluation.

use super::reference;
use ovolo::op::Lowering;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    alone("native.nonzero", "nonzero"),
    alone("native.unique-position", "unique-position"),
    alone("native.unique-inverse", "unique-inverse"),
    alone("native.det", "det"),
    alone("native.bit-not", "bit-not"),
    alone("native.find", "find"),
    alone("native.count-grams", "count-grams"),
    alone("native.string-concat", "string-concat"),
    alone("native.string-case", "string-case"),
    alone("native.string-split-count", "string-split-count"),
    alone("native.string-split", "string-split"),
    alone("native.regex-full-match", "regex-full-match"),
];

const fn alone(name: &'static str, of: &'static str) -> Lowering {
    Lowering::new(name, of, reference::contract, reference::kernel)
}
