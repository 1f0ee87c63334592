//! Random models agree with the reference evaluation in the pipelines of the host.
#![allow(clippy::unwrap_used)]

use ovolo_random::{Bench, Verdict, generate, shrink};

/// The number of models; ten times as many where `OVOLO_SLOW_TESTS` is set.
const MODELS: u64 = 300;

#[test]
fn random_models_agree_with_the_reference_evaluation() {
    let bench = Bench::new(&["native", "cpu"]).unwrap();
    let count = if std::env::var_os("OVOLO_SLOW_TESTS").is_some() { 10 * MODELS } else { MODELS };
    let judged = |first: u64| {
        let (mut wrong, mut nodes) = (Vec::new(), 0);
        for seed in (first..count).step_by(2) {
            let model = generate(bench.registry(), seed);
            nodes += model.nodes.len();
            match bench.judge(&model, None) {
                Verdict::Wrong(failure) => {
                    let small = shrink(&bench, &model, failure.kind, None);
                    wrong.push(format!(
                        "seed {seed}: {:?}: {}\n{}",
                        failure.kind,
                        failure.what,
                        small.text()
                    ));
                }
                Verdict::Invalid(why) => {
                    wrong.push(format!("seed {seed} is refused: {why}\n{}", model.text()));
                }
                Verdict::Right | Verdict::Alone(_) => {}
            }
        }
        (wrong, nodes)
    };
    // Two threads, so that this test, the longest of its file, uses both processors of a small machine.
    let ((mut wrong, nodes), (others, more)) = std::thread::scope(|scope| {
        let other = scope.spawn(|| judged(1));
        (judged(0), other.join().unwrap())
    });
    wrong.extend(others);
    let nodes = nodes + more;
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
