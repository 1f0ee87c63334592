//! Which of the operators that ovolo imports are drawn.

use crate::draft::Draft;
use crate::families::FAMILIES;
use crate::rng::Rng;
use ovolo::onnx;
use ovolo::registry::Registry;
use std::collections::BTreeSet;

/// The operators that no family draws, each with the reason.
pub const NEVER_DRAWN: &[(&str, &str)] = &[
    ("RandomNormal", "its numbers are random, and the standard names no generator"),
    ("RandomNormalLike", "its numbers are random, and the standard names no generator"),
    ("RandomUniform", "its numbers are random, and the standard names no generator"),
    ("RandomUniformLike", "its numbers are random, and the standard names no generator"),
    ("Bernoulli", "its numbers are random, and the standard names no generator"),
    ("Multinomial", "its numbers are random, and the standard names no generator"),
    ("ovolo.Quantize", "only bodies of other operators have it"),
    ("ovolo.Dequantize", "only bodies of other operators have it"),
    ("ai.onnx.ml.ZipMap", "its result is a sequence of maps, and models end in tensors"),
    ("ai.onnx.preview.FlexAttention", "ONNX Runtime does not have it; tests/operators/ has models of it"),
];

/// Returns the operators that ovolo imports, those with graphs and on sequences among them.
pub fn importable(registry: &Registry) -> BTreeSet<String> {
    let own = registry.onnx().operators.names().map(ToOwned::to_owned);
    own.chain(onnx::Tables::structural().map(ToOwned::to_owned)).collect()
}

/// Returns the operators that the families draw in some rounds: in each round, every family draws a node for every
/// opset.
pub fn drawn(registry: &Registry, rounds: u64) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for round in 0..rounds {
        for opset in 1..=onnx::NEWEST_OPSET {
            for (at, family) in FAMILIES.iter().enumerate() {
                let seed = (round << 20) + (at << 8) as u64 + opset.unsigned_abs();
                let mut draft = Draft::new(registry, Rng::new(seed), opset, false);
                let _ = family(&mut draft);
                found.extend(draft.model.operators());
            }
        }
    }
    found
}
