//! Tests of `src/cost/noise.rs`.

#[allow(dead_code)]
#[path = "../../../../src/cost/noise.rs"]
mod source;

use ovolo::cost::{CostModel, Query, key};
use source::Noise;

#[test]
#[allow(clippy::cast_precision_loss)]
fn factors_can_be_had_again_and_spread_as_they_say() {
    assert_eq!(Noise::draw(1, 5), Noise::draw(1, 5));
    assert_ne!(Noise::draw(1, 5).seed, Noise::draw(2, 5).seed);
    assert_eq!(Noise::draw(1, 5).wider(3), Noise { spread: 0.75, ..Noise::draw(1, 5) });
    let noise = Noise { seed: 7, spread: 0.5 };
    let logs: Vec<f64> =
        (0..4000).map(|at| noise.factor(&format!("op{at}"), &format!("call{at}")).ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let deviation = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / logs.len() as f64).sqrt();
    assert!(mean.abs() < 0.03 && (deviation - 0.5).abs() < 0.03, "{mean} {deviation}");
}
