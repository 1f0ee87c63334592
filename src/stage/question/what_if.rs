//! Counterfactuals: what would be chosen if some kernels cost so many times as much.

use crate::cost::fits;
use crate::egraph::Flip;
use crate::error::Error;
use crate::extract::{Extraction, Problem};
use crate::stage::priced::choose;
use crate::stage::{Choice, Priced};

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

/// Ops, by a pattern of their names, and what their costs are multiplied by.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// The pattern: `*` stands for any text, `?` for one character.
    pub ops: String,
    /// The factor, more than zero.
    pub factor: f64,
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

/// What would be chosen by other prices.
#[derive(Clone, Debug, PartialEq)]
pub struct Supposed {
    /// What is chosen now.
    pub now: Extraction,
    /// What the same program would cost, in seconds.
    pub unchanged: f64,
    /// What would be chosen.
    pub then: Extraction,
    /// Where the two differ.
    pub flips: Vec<Flip>,
}

impl Priced<'_> {
    /// Chooses twice: by the prices of the cost model, and with the price of each candidate multiplied by the factor of
    /// its op. Where several patterns fit an op, each counts.
    ///
    /// # Errors
    /// As of [`Priced::choose`]; a pattern that fits no op that has a price.
    pub fn what_if(&self, choice: &Choice, scales: &[Scale]) -> Result<Supposed, Error> {
        let ops = self.pick.priced();
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
        let factor =
            |op: &str| scales.iter().filter(|scale| scale.fits(op)).map(|scale| scale.factor).product();
        let mut chooser = self.chooser(choice);
        let now = choose(&chooser, choice)?.0.extraction;
        let scaled = self.pick.scaled(&factor);
        let cost = |problem: &Problem| problem.cost(&now.choice);
        // The copies that the plan adds cost what they did.
        let unchanged = cost(&scaled)? + (now.cost - cost(&self.pick.problem)?);
        chooser.problem = &scaled;
        let then = choose(&chooser, choice)?.0.extraction;
        let flips = self.pick.flips((&self.pick.problem, &now), (&scaled, &then));
        Ok(Supposed { now, unchanged, then, flips })
    }
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
