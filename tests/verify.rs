//! Every shipped rule holds on generated instances.
use ovolo::audit::verify::{self, Settings, Verdict};
use ovolo::rule::{RuleSet, SHIPPED};

#[test]
fn zz_probe() {
    let rules = RuleSet::read(SHIPPED).unwrap();
    let n = std::env::var("N").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let only = std::env::var("R").unwrap_or_default();
    let rules: Vec<_> = rules.rules().iter().filter(|r| r.name.contains(&only)).cloned().collect();
    let times = std::sync::Mutex::new(std::time::Instant::now());
    let all = verify::rules(&rules, Settings { instances: n, seed: 0 }, 1, &|v| {
        let mut t = times.lock().unwrap();
        println!(
            "{:35} {:4} {:7} {:6.2}s {}",
            v.rule,
            v.instances,
            v.tries,
            t.elapsed().as_secs_f64(),
            match &v.verdict {
                Verdict::Holds => "ok".into(),
                Verdict::Wrong { what, case } => format!("WRONG {what}\n{case}"),
                Verdict::Uncovered { reasons } => format!("UNCOVERED {reasons:#?}"),
            }
        );
        *t = std::time::Instant::now();
    });
    assert!(all.iter().all(|v| v.holds()));
}
