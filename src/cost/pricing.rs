//! The settings of each cost model, and how the model is made from them.

use super::{AnswerError, CostModel, FitError, Given, Machine, Measured, PriceList, PriceModel};
use crate::diagnostic::{Diagnostics, Source};
use crate::ron::{Reader, Spanned};
use crate::setting::{Kind, Settings, Written};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A chosen cost model, with the settings that only this model reads.
pub trait Pricing: Settings {
    /// Returns the name of the cost model in pipelines and on the command line.
    fn name(&self) -> &str;

    /// Makes the model.
    ///
    /// # Errors
    /// Something that the model needs is missing, or its settings are wrong.
    fn model(&self, given: &Given<'_>) -> Result<Box<dyn CostModel>, PricingError>;

    /// Returns whether it uses the speeds of the machine.
    fn by_speeds(&self) -> bool {
        true
    }

    /// Returns whether its prices depend only on its settings and the machine, so that a plan may be cached.
    fn repeats(&self) -> bool {
        true
    }
}

/// The reason why a cost model cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PricingError {
    /// The model needs something that is missing.
    #[error("the cost model `{model}` needs {what}: {advice}")]
    Lacking {
        /// The model.
        model: String,
        /// The missing thing.
        what: &'static str,
        /// The command or option that provides it.
        advice: &'static str,
    },
    /// A price list has mistakes.
    #[error("{0}")]
    Prices(Diagnostics),
    /// A fitted model cannot be used here.
    #[error("{file}: {why}")]
    Fit {
        /// The file of the model.
        file: String,
        /// The reason.
        why: FitError,
    },
    /// A program cannot be started.
    #[error(transparent)]
    Program(#[from] AnswerError),
}

/// Describes a cost model without files for a table of models.
pub fn kind<T: Pricing + Default + DeserializeOwned>() -> Kind<dyn Pricing> {
    Kind::<dyn Pricing>::new(
        || Arc::new(T::default()),
        |reader, written| Some(Arc::new(written.read::<T>(reader)?)),
    )
}

/// The price list at the speeds of a nominal machine, which gives the same prices everywhere.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ByFlops;

impl Pricing for ByFlops {
    fn name(&self) -> &str {
        "flops"
    }

    fn model(&self, given: &Given<'_>) -> Result<Box<dyn CostModel>, PricingError> {
        let model = PriceModel::new("flops", Machine::NOMINAL, Arc::clone(given.prices));
        Ok(Box::new(model.among(given.constants)))
    }

    fn by_speeds(&self) -> bool {
        false
    }
}

/// The price list at the speeds of this machine, without corrections.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ByRoofline;

impl Pricing for ByRoofline {
    fn name(&self) -> &str {
        "roofline"
    }

    fn model(&self, given: &Given<'_>) -> Result<Box<dyn CostModel>, PricingError> {
        let model = PriceModel::new("roofline", *given.machine, Arc::clone(given.prices_here));
        Ok(Box::new(model.among(given.constants)))
    }
}

/// The price list at the speeds of this machine, with the corrections that were fitted to tables of times.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ByCorrected;

impl Pricing for ByCorrected {
    fn name(&self) -> &str {
        "fitted"
    }

    fn model(&self, given: &Given<'_>) -> Result<Box<dyn CostModel>, PricingError> {
        let model = PriceModel::new("fitted", *given.machine, Arc::clone(given.prices_here));
        Ok(Box::new(model.among(given.constants).corrected()))
    }
}

/// Measured times of this machine's kernels.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ByTimes;

impl Pricing for ByTimes {
    fn name(&self) -> &str {
        "measured"
    }

    fn model(&self, given: &Given<'_>) -> Result<Box<dyn CostModel>, PricingError> {
        let lacking = || PricingError::Lacking {
            model: self.name().to_owned(),
            what: "a table of times",
            advice: "run `ovolo tune MODEL`",
        };
        let measured = given.measured.ok_or_else(lacking)?;
        let prices = Arc::clone(given.prices_here);
        Ok(Box::new(Measured { machine: *given.machine, prices, ..measured.clone() }))
    }
}

/// The price list at the speeds of this machine, with further files that take precedence.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ByPrices {
    /// The files; a later one takes precedence.
    pub files: Vec<Source>,
}

impl ByPrices {
    /// Describes the model for a table of models. It is written as `Prices(file: "mine.ron")`, with a file in the
    /// same folder.
    pub(crate) fn kind() -> Kind<dyn Pricing> {
        Kind::<dyn Pricing>::new(
            || Arc::new(Self::default()),
            |reader, written| {
                let file = file(reader, written)?;
                // Report mistakes now and not when kernels are priced.
                match PriceList::over_shipped(std::slice::from_ref(&file)) {
                    Ok(_) => Some(Arc::new(Self { files: vec![file] })),
                    Err(mistakes) => {
                        reader.found().append(mistakes);
                        None
                    }
                }
            },
        )
    }
}

/// Reads `Name(file: "…")`, and that file.
pub(crate) fn file(reader: &mut Reader<'_>, written: Written<'_>) -> Option<Source> {
    #[derive(Deserialize)]
    struct Named {
        file: Spanned<String>,
    }
    let Named { file } = written.read(reader)?;
    written.folder.open(reader, &file)
}

impl Pricing for ByPrices {
    fn name(&self) -> &str {
        "prices"
    }

    fn model(&self, given: &Given<'_>) -> Result<Box<dyn CostModel>, PricingError> {
        if self.files.is_empty() {
            return Err(PricingError::Lacking {
                model: self.name().to_owned(),
                what: "a price list",
                advice: "name its file with `--costs FILE.ron`",
            });
        }
        let list = given.prices_here.with(&self.files).map_err(PricingError::Prices)?;
        if let Some(ops) = given.ops {
            list.check_ops(ops, given.prices_here.sources().count()).map_err(PricingError::Prices)?;
        }
        let model = PriceModel::new("prices", *given.machine, Arc::new(list));
        Ok(Box::new(model.among(given.constants).corrected()))
    }
}
