//! How the times of kernels depart from what was expected, by op.

use super::clock::{median, upper_quartile};
use ovolo::cost::stored::backend_of;
use std::collections::BTreeMap;

/// The number of kernels of an op that is enough to estimate the ratio of others.
const FEW: usize = 3;

/// The ratios of the times of kernels to what they were expected to be: their estimates, or their times alone.
#[derive(Default)]
pub(super) struct Ratios {
    of_backend: BTreeMap<String, Vec<f64>>,
    of_op: BTreeMap<String, Vec<f64>>,
}

impl Ratios {
    pub fn add(&mut self, key: &str, ratio: f64) {
        self.of_backend.entry(backend_of(key).to_owned()).or_default().push(ratio);
        self.of_op.entry(op_of(key).to_owned()).or_default().push(ratio);
    }

    /// The median ratio of kernels of the same op, or of the same backend if there are few.
    pub fn typical(&self, key: &str) -> Option<f64> {
        self.like(key).map(|ratios| median(ratios).0)
    }

    /// The ratio that three of four of these kernels do not exceed.
    pub fn cautious(&self, key: &str) -> Option<f64> {
        self.like(key).map(|ratios| upper_quartile(ratios))
    }

    fn like(&self, key: &str) -> Option<&Vec<f64>> {
        let same = self.of_op.get(op_of(key)).filter(|ratios| ratios.len() >= FEW);
        same.or_else(|| self.of_backend.get(backend_of(key)))
    }
}

/// The op in the call that a key describes.
fn op_of(key: &str) -> &str {
    key.split(['{', '(']).next().unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_like_others_depart_as_those_do() {
        let mut ratios = Ratios::default();
        assert_eq!(ratios.typical("native.map(f32[1])"), None);
        for ratio in [2.0, 2.0, 3.0] {
            ratios.add("native.map{post: <relu>}(f32[1])", ratio);
        }
        ratios.add("native.concat(f32[1])", 9.0);
        ratios.add("native.pad(f32[1])", 8.0);
        assert_eq!(ratios.typical("native.map(f32[1])"), Some(2.0));
        assert_eq!(ratios.typical("native.concat(f32[1])"), Some(3.0), "one kernel is too few");
        assert_eq!(ratios.cautious("native.concat(f32[1])"), Some(8.0));
        assert_eq!(ratios.typical("cuda.map(f32[1])"), None, "kernels of other backends do not count");
    }
}
