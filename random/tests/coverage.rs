//! Every operator that ovolo imports is drawn, or listed with the reason why it is not.
#![allow(clippy::unwrap_used)]

use ovolo::onnx::{ImportOptions, from_bytes};
use ovolo_random::coverage::{NEVER_DRAWN, drawn, importable};
use ovolo_random::{Bench, generate};
use std::collections::BTreeSet;

/// Rounds in which every family draws a node for every opset.
const ROUNDS: u64 = 12;

#[test]
fn every_importable_operator_is_drawn_or_has_a_reason() {
    let bench = Bench::new(&["native"]).unwrap();
    let (all, found) = (importable(bench.registry()), drawn(bench.registry(), ROUNDS));
    let reasons: BTreeSet<String> = NEVER_DRAWN.iter().map(|(name, _)| (*name).to_owned()).collect();
    let missing: Vec<&String> =
        all.iter().filter(|&name| !found.contains(name) && !reasons.contains(name)).collect();
    assert!(missing.is_empty(), "no family in random/src/families draws {missing:?}");
    let stale: Vec<&String> =
        reasons.iter().filter(|&name| found.contains(name) || !all.contains(name)).collect();
    assert!(stale.is_empty(), "NEVER_DRAWN lists what is drawn, or is no operator of ovolo: {stale:?}");
    let strange: Vec<&String> = found.difference(&all).collect();
    assert!(strange.is_empty(), "what is drawn is no operator of ovolo: {strange:?}");
}

#[test]
fn models_are_drawn_for_old_and_new_opsets_and_few_end_early() {
    let bench = Bench::new(&["native"]).unwrap();
    let options = ImportOptions::default();
    let (mut old, mut new, mut whole) = (0, 0, 0);
    for seed in 0..400 {
        let model = generate(bench.registry(), seed);
        old += usize::from(model.opset < 7);
        new += usize::from(model.opset > 21);
        whole += usize::from(from_bytes(bench.registry().onnx(), model.bytes(), "random", &options).is_ok());
    }
    assert!(old > 20 && new > 50, "{old} models have an opset before 7, and {new} one after 21");
    assert!(whole > 320, "only {whole} of 400 models have shapes that do not depend on a run");
}
