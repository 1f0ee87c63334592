//! The cost models of pipelines: those of the framework's lower floors, and those that need a program or a fit.

use crate::cost::pricing::{self, ByFlops, ByPrices, ByRoofline, ByTimes, file};
use crate::cost::{CostModel, Fit, Given, Learned, Pricing, PricingError, Process, Validators};
use crate::error::Source;
use crate::setting::Kind;
use crate::subprocess::{Invocation, Program};
use crate::table::Table;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Cost models by name.
pub type Pricings = Table<Kind<dyn Pricing>>;

/// The cost models that ship with ovolo.
pub fn pricings() -> &'static Pricings {
    static PRICINGS: LazyLock<Pricings> = LazyLock::new(|| {
        let mut table = Table::new("cost model");
        let kinds = [
            pricing::kind::<ByFlops>(),
            pricing::kind::<ByRoofline>(),
            pricing::kind::<ByTimes>(),
            ByPrices::kind(),
            ByProgram::kind(),
            ByFit::kind(),
        ];
        for kind in kinds {
            table.add((kind.plain)().name().to_owned(), kind).expect("each has a name of its own");
        }
        table
    });
    &PRICINGS
}

/// The answers of a program outside.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ByProgram {
    /// How it is started.
    pub program: Option<Invocation>,
}

/// The most seconds that an answer may take: nobody waits longer than a day.
const DAY: u64 = 86_400;

impl ByProgram {
    /// How it is had: `Process(command: "python3 mine.py", timeout: 60)`; the command runs in the folder.
    fn kind() -> Kind<dyn Pricing> {
        #[derive(Deserialize)]
        struct Command {
            command: String,
            #[serde(default)]
            timeout: Timeout,
        }
        Kind {
            plain: || Arc::new(Self::default()),
            read: |reader, written| {
                let Command { command, timeout: Timeout(seconds) } = written.read(reader)?;
                let program = Invocation {
                    folder: written.folder.path.map(ToOwned::to_owned),
                    patience: Duration::from_secs(seconds),
                    ..Invocation::new(&command)
                };
                Some(Arc::new(Self { program: Some(program) }))
            },
        }
    }
}

/// Seconds that an answer may take.
#[derive(Deserialize)]
#[serde(try_from = "u64")]
struct Timeout(u64);

impl Default for Timeout {
    fn default() -> Self {
        Self(Invocation::PATIENCE)
    }
}

/// No time to wait for an answer. The second line is advice.
#[derive(Debug, thiserror::Error)]
#[error("must be 1 to {DAY}\nwrite a number of seconds")]
struct BadTimeout;

impl TryFrom<u64> for Timeout {
    type Error = BadTimeout;

    fn try_from(seconds: u64) -> Result<Self, BadTimeout> {
        match (1..=DAY).contains(&seconds) {
            true => Ok(Self(seconds)),
            false => Err(BadTimeout),
        }
    }
}

impl Pricing for ByProgram {
    fn name(&self) -> &str {
        "process"
    }

    fn model(&self, given: &Given<'_>) -> Result<Box<dyn CostModel>, PricingError> {
        let lacking = || PricingError::Lacking {
            model: self.name().to_owned(),
            what: "a program",
            advice: "name it with `--process COMMAND`",
        };
        let program = self.program.as_ref().ok_or_else(lacking)?;
        let program = Program::start(program)?;
        Ok(Box::new(Process::new(given.machine, Arc::clone(given.prices), Arc::new(program))))
    }

    /// What the program would answer another time is not known.
    fn repeats(&self) -> bool {
        false
    }
}

/// What `ovolo fit` has fitted to measured times.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ByFit {
    /// The fitted model.
    pub fit: Option<Source>,
}

impl ByFit {
    /// How it is had: `Learned(file: "fit.json")`, the file being in the same folder.
    fn kind() -> Kind<dyn Pricing> {
        Kind {
            plain: || Arc::new(Self::default()),
            read: |reader, written| Some(Arc::new(Self { fit: Some(file(reader, written)?) })),
        }
    }
}

impl Pricing for ByFit {
    fn name(&self) -> &str {
        "learned"
    }

    fn model(&self, given: &Given<'_>) -> Result<Box<dyn CostModel>, PricingError> {
        let lacking = || PricingError::Lacking {
            model: self.name().to_owned(),
            what: "a fitted model",
            advice: "run `ovolo fit MODEL`",
        };
        let source = self.fit.as_ref().ok_or_else(lacking)?;
        let Validators { machine, libraries } = (given.validators)();
        let fit = Fit::read(&source.text, &machine, &libraries, given.prices)
            .map_err(|why| PricingError::Fit { file: source.name.to_string(), why })?;
        Ok(Box::new(Learned::new(Arc::new(fit), Arc::clone(given.prices), given.constants)))
    }
}
