//! The pass that chooses one program of the e-graph by a cost model.

use super::{Context, Pass, PassKind, PassReport, PlanMemory, Scope, State};
use crate::cost::pricing::ByCorrected;
use crate::cost::{CostModel, Given, Noise, Noisy, Pricing};
use crate::error::Error;
use crate::extract::{Exact, Extractor};
use crate::host;
use crate::ron::{Raw, Reader};
use crate::setting::{self, choose as named};
use crate::stage::{Choice, Chosen};
use crate::table::{Table, Unknown};
use serde::de::{Deserializer, Error as _};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The pass `extract`.
#[derive(Clone, Debug, Serialize)]
pub struct Extract {
    /// The extractor.
    #[serde(serialize_with = "extractor")]
    pub extractor: Arc<dyn Extractor>,
    /// The cost model.
    #[serde(serialize_with = "pricing")]
    pub cost: Arc<dyn Pricing>,
    /// A random disturbance of the prices, to get different good programs.
    pub noise: Option<Noise>,
    /// Milliseconds that a mebibyte of the host's memory is worth: of the arena, and of the constants that are kept.
    pub memory: f64,
    /// The share of its time that a kernel costs more if it reads a weight in a further form: one that no other plan of
    /// the session keeps, while another form of the weight is kept. At 0, plans of other sizes make no difference.
    pub further_forms: f64,
}

fn extractor<S: Serializer>(extractor: &Arc<dyn Extractor>, serializer: S) -> Result<S::Ok, S::Error> {
    setting::named(extractor.name(), &**extractor, serializer)
}

fn pricing<S: Serializer>(cost: &Arc<dyn Pricing>, serializer: S) -> Result<S::Ok, S::Error> {
    setting::named(cost.name(), &**cost, serializer)
}

impl Default for Extract {
    fn default() -> Self {
        Self {
            extractor: Arc::new(Exact::DEFAULT),
            cost: Arc::new(ByCorrected),
            noise: None,
            memory: 0.0,
            further_forms: 0.0,
        }
    }
}

/// The pass as it is written in a pipeline.
#[derive(Deserialize)]
#[serde(default, rename = "Extract")]
#[derive(Default)]
struct Written<'a> {
    #[serde(borrow)]
    extractor: Option<Raw<'a>>,
    #[serde(borrow)]
    cost: Option<Raw<'a>>,
    #[serde(deserialize_with = "worth")]
    memory: f64,
    #[serde(deserialize_with = "share")]
    further_forms: f64,
}

/// Reads the worth of memory.
fn worth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    amount(deserializer, "write milliseconds for a mebibyte, such as `0.5`")
}

/// Reads the share of a kernel's time that a further form of a weight must save.
fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    amount(deserializer, "write a share of a kernel's time, such as `0.05`")
}

/// Reads a finite number that is not negative.
fn amount<'de, D: Deserializer<'de>>(deserializer: D, advice: &str) -> Result<f64, D::Error> {
    let wrong = || D::Error::custom(format!("must be a number, zero or more\n{advice}"));
    let amount = f64::deserialize(deserializer)?;
    if amount >= 0.0 && amount.is_finite() { Ok(amount) } else { Err(wrong()) }
}

impl Extract {
    /// Returns how the pass is read. The extractor and the cost model are written as names, or as calls with
    /// settings.
    pub(super) fn kind() -> PassKind {
        PassKind::new::<Written<'_>>(|reader, raw, scope| Some(Arc::new(Self::read(reader, raw, scope)?)))
    }

    fn read(reader: &mut Reader<'_>, raw: Raw<'_>, scope: &Scope<'_>) -> Option<Self> {
        let Written { extractor, cost, memory, further_forms } = reader.settings(raw, &[])?;
        let otherwise = Self::default();
        let written = |value| setting::Written { value, others: &[], folder: scope.folder };
        let extractor = extractor.and_then(|raw| named(&scope.catalog.extractors, reader, written(raw)));
        let cost = cost.and_then(|raw| named(&scope.catalog.pricings, reader, written(raw)));
        // Unknown names are already reported. The pass is kept, so that its absence is not reported too.
        Some(Self {
            extractor: extractor.unwrap_or(otherwise.extractor),
            cost: cost.unwrap_or(otherwise.cost),
            noise: None,
            memory,
            further_forms,
        })
    }

    /// Selects the cost model of this name. It keeps its settings if it is already selected, and gets its default
    /// settings otherwise.
    ///
    /// # Errors
    /// If no cost model has this name.
    pub fn price_by(
        &mut self,
        name: &str,
        pricings: &Table<setting::Kind<dyn Pricing>>,
    ) -> Result<(), Unknown> {
        let kind = pricings.find(name)?;
        if self.cost.name() != name {
            self.cost = (kind.plain)();
        }
        Ok(())
    }

    /// Selects the extractor of this name. It keeps its settings if it is already selected, and gets its default
    /// settings otherwise.
    ///
    /// # Errors
    /// If no extractor has this name.
    pub fn choose_by(
        &mut self,
        name: &str,
        extractors: &Table<setting::Kind<dyn Extractor>>,
    ) -> Result<(), Unknown> {
        let kind = extractors.find(name)?;
        if self.extractor.name() != name {
            self.extractor = (kind.plain)();
        }
        Ok(())
    }
}

impl Pass for Extract {
    fn name(&self) -> &str {
        "extract"
    }

    fn run(&self, state: State, context: &Context<'_>) -> Result<(State, PassReport), Error> {
        let saturated = state.into_saturated(self.name())?;
        let priced = saturated.price(self.model(context)?, &context.target())?;
        let chosen = priced.choose(&self.choice(context)?)?;
        let report = self.report(&chosen);
        Ok((State::Chosen(Box::new(chosen)), report))
    }
}

impl Extract {
    /// Returns the report of the choice of a program.
    pub(crate) fn report(&self, chosen: &Chosen) -> PassReport {
        PassReport::Extract {
            extractor: self.extractor.name().to_owned(),
            cost_model: chosen.model().name().to_owned(),
            extraction: chosen.extraction.clone(),
            objective: chosen.objective,
            missing: chosen.missing.clone(),
        }
    }

    /// Returns the cost model.
    ///
    /// # Errors
    /// If the cost model lacks something, or if its settings are wrong.
    pub(crate) fn model(&self, context: &Context<'_>) -> Result<Box<dyn CostModel>, Error> {
        let prices_here = context.catalog.prices_here(&context.pipeline.backends)?;
        let given = Given {
            machine: &context.machine,
            measured: context.measured.as_ref(),
            threads: context.threads,
            constants: context.constants,
            prices: &context.catalog.prices,
            prices_here: &prices_here,
            ops: Some(context.ops),
            validators: &|| host::validators(context.threads, &context.catalog.backends),
        };
        let model = self.cost.model(&given)?;
        Ok(match self.noise {
            Some(noise) => Box::new(Noisy::new(model, noise)),
            None => model,
        })
    }

    /// Returns the settings for choosing a program. The cost of a program depends on its plan, so programs are
    /// compared with the plans that the pipeline's pass `plan` would make.
    ///
    /// # Errors
    /// If no order or no planner has the name.
    pub(crate) fn choice(&self, context: &Context<'_>) -> Result<Choice, Error> {
        let planning = match context.pipeline.plan() {
            Some(plan) => plan.planning(context)?,
            None => PlanMemory::default().planning(context)?,
        };
        Ok(Choice {
            extractor: Arc::clone(&self.extractor),
            worth: self.memory,
            planning,
            held: context.held.clone(),
            further_forms: self.further_forms,
        })
    }
}
