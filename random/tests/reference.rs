//! Random models agree with the reference evaluation in the pipelines of the host.
#![allow(clippy::unwrap_used)]

use ovolo_random::{Bench, Verdict, generate, shrink};

/// The number of models; ten times as many where `OVOLO_SLOW_TESTS` is set.
const MODELS: u64 = 300;

#[test]
fn random_models_agree_with_the_reference_evaluation() {
    let bench = Bench::new(&["native", "cpu"]).unwrap();
    let count = if std::env::var_os("OVOLO_SLOW_TESTS").is_some() { 10 * MODELS } else { MODELS };
    let mut wrong = Vec::new();
    let mut nodes = 0;
    for seed in 0..count {
        let model = generate(bench.registry(), seed);
        nodes += model.nodes.len();
        match bench.judge(&model, None) {
            Verdict::Wrong(failure) => {
                let small = shrink(&bench, &model, failure.kind, None);
                wrong.push(format!("seed {seed}: {:?}: {}\n{}", failure.kind, failure.what, small.text()));
            }
            Verdict::Invalid(why) => wrong.push(format!("seed {seed} is refused: {why}\n{}", model.text())),
            Verdict::Right | Verdict::Alone(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{} of {count} models:\n{}", wrong.len(), wrong.join("\n"));
    assert!(nodes as u64 > count, "models of one node alone show little");
}

#[test]
fn a_seed_gives_the_same_model_each_time() {
    let bench = Bench::new(&["native"]).unwrap();
    for seed in 0..20 {
        assert_eq!(generate(bench.registry(), seed).bytes(), generate(bench.registry(), seed).bytes());
    }
}
