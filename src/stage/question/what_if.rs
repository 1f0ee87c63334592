//! Counterfactuals: the program that would be chosen if the costs of some kernels were multiplied by a factor.

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

/// Ops, given by a pattern of their names, and the factor of their costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// The pattern: `*` matches any text, `?` one character.
    pub ops: String,
    /// The factor, which is positive.
    pub factor: f64,
}

impl Scale {
    /// Reads `PATTERN=FACTOR`.
    ///
    /// # Errors
    /// If the text is not such a pair; says what is wrong.
    pub fn read(text: &str) -> Result<Self, BadScale> {
        let (ops, factor) = text.rsplit_once('=').filter(|(ops, _)| !ops.is_empty()).ok_or(BadScale::Form)?;
        let number: f64 = factor.parse().map_err(|_| BadScale::Number(factor.to_owned()))?;
        if number > 0.0 && number.is_finite() {
            Ok(Self { ops: ops.to_owned(), factor: number })
        } else {
            Err(BadScale::Factor(number))
        }
    }

    /// Returns whether the pattern matches an op.
    pub(crate) fn fits(&self, op: &str) -> bool {
        fits(&self.ops, op)
    }
}

/// The choice by other prices, compared with the present one.
#[derive(Clone, Debug, PartialEq)]
pub struct Supposed {
    /// The present choice.
    pub now: Extraction,
    /// The cost of the present choice by the other prices, in seconds.
    pub unchanged: f64,
    /// The choice by the other prices.
    pub then: Extraction,
    /// The differences between the two choices.
    pub flips: Vec<Flip>,
}

impl Priced<'_> {
    /// Chooses twice: by the prices of the cost model, and with the price of each candidate multiplied by the factor
    /// of its op. If several patterns match an op, their factors are multiplied.
    ///
    /// # Errors
    /// As for [`Priced::choose`]; also if a pattern matches no op with a price.
    pub fn what_if(&self, choice: &Choice, scales: &[Scale]) -> Result<Supposed, Error> {
        let ops = self.pick.priced();
        for scale in scales {
            if !ops.keys().any(|op| scale.fits(op)) {
                let known = ops.keys().map(ToString::to_string).collect();
                return Err(Error::NoKernel { pattern: scale.ops.clone(), known });
            }
        }
        let factor =
            |op: &str| scales.iter().filter(|scale| scale.fits(op)).map(|scale| scale.factor).product();
        let mut chooser = self.chooser(choice);
        let now = choose(&chooser, choice)?.0.extraction;
        let scaled = self.pick.scaled(&factor);
        let cost = |problem: &Problem| problem.cost(&now.choice);
        // The costs of the copies that the plan adds do not change.
        let unchanged = cost(&scaled)? + (now.cost - cost(&self.pick.problem)?);
        chooser.problem = &scaled;
        let then = choose(&chooser, choice)?.0.extraction;
        let flips = self.pick.flips((&self.pick.problem, &now), (&scaled, &then));
        Ok(Supposed { now, unchanged, then, flips })
    }
}
