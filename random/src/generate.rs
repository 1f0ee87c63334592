//! Draws models.

use crate::draft::Draft;
use crate::families::FAMILIES;
use crate::model::Model;
use crate::rng::Rng;
use ovolo::registry::Registry;

/// The opsets that models are drawn for, the newer ones more often.
const OPSETS: [i64; 32] = [
    1, 2, 5, 6, 7, 8, 9, 10, 11, 11, 12, 13, 13, 14, 15, 16, 17, 17, 18, 18, 19, 20, 20, 21, 21, 22, 23, 24,
    25, 26, 27, 28,
];

/// Returns the model of a seed.
pub fn generate(registry: &Registry, seed: u64) -> Model {
    let mut rng = Rng::new(seed);
    let opset = rng.pick(&OPSETS);
    let nodes = 1 + rng.below(3) * rng.below(5);
    let edge = rng.percent(12);
    let mut draft = Draft::new(registry, rng, opset, edge);
    let mut tries = 0;
    while draft.model.nodes.len() < nodes && !draft.closed && tries < 50 {
        tries += 1;
        let family = draft.rng.pick(FAMILIES);
        let _ = family(&mut draft);
    }
    draft.finish()
}
