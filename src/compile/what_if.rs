//! Counterfactuals: what would be chosen if some kernels cost so many times as much.

use super::{Options, saturated};
use crate::cost::fits;
use crate::error::Error;
use crate::graph::Graph;
use crate::pass::{self, Supposed};

/// Ops, by a pattern of their names, and what their costs are multiplied by.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// The pattern: `*` stands for any text, `?` for one character.
    pub ops: String,
    /// The factor, more than zero.
    pub factor: f64,
}

/// A text that does not scale costs.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadScale {
    /// It lacks a part.
    #[error("it takes PATTERN=FACTOR, such as `onednn.conv*=1.2`")]
    Form,
    /// What stands for the factor is no number.
    #[error("`{0}` is no number: it takes PATTERN=FACTOR, such as `onednn.conv*=1.2`")]
    Number(String),
    /// The factor is none that a cost can be multiplied by.
    #[error("a cost is not multiplied by {0}: give a finite factor above zero")]
    Factor(f64),
}

impl Scale {
    /// Reads `PATTERN=FACTOR`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn read(text: &str) -> Result<Self, BadScale> {
        let (ops, factor) = text.rsplit_once('=').filter(|(ops, _)| !ops.is_empty()).ok_or(BadScale::Form)?;
        let number: f64 = factor.parse().map_err(|_| BadScale::Number(factor.to_owned()))?;
        if number > 0.0 && number.is_finite() {
            Ok(Self { ops: ops.to_owned(), factor: number })
        } else {
            Err(BadScale::Factor(number))
        }
    }

    /// Whether the pattern fits an op.
    pub(crate) fn fits(&self, op: &str) -> bool {
        fits(&self.ops, op)
    }
}

/// What would be chosen with the costs scaled; where several patterns fit an op, each counts.
///
/// # Errors
/// As compiling; a pattern that fits no op that has a price.
pub fn what_if(graph: &Graph, options: &Options, scales: &[Scale]) -> Result<Supposed, Error> {
    let egraph = saturated(graph, options)?;
    let context = options.context(graph);
    let ops = pass::priced(&egraph, &context, |pick| pick.priced())?;
    for scale in scales {
        if !ops.keys().any(|op| scale.fits(op)) {
            let known: Vec<&str> = ops.keys().copied().collect();
            return Err(Error::setting(format!(
                "`{}` fits no kernel of this e-graph; there are {}",
                scale.ops,
                known.join(", ")
            )));
        }
    }
    let factor = |op: &str| scales.iter().filter(|scale| scale.fits(op)).map(|scale| scale.factor).product();
    pass::supposed(&egraph, &context, &factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_a_pattern_and_a_factor() {
        assert_eq!(Scale::read("a*=1.5"), Ok(Scale { ops: "a*".into(), factor: 1.5 }));
        for wrong in ["a*", "=2", "a=x", "a=0", "a=-1", "a=inf", "a=nan"] {
            assert!(Scale::read(wrong).is_err(), "{wrong}");
        }
    }
}
