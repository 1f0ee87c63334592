//! The cost models of pipelines: those of the module `cost`, and those that need a subprocess or a fitted model.

use super::timeout::Timeout;
use crate::cost::pricing::{self, ByCorrected, ByFlops, ByPrices, ByRoofline, ByTimes, file};
use crate::cost::{CostModel, Fit, Given, Learned, Pricing, PricingError, Process, Validators};
use crate::error::Source;
use crate::setting::Kind;
use crate::subprocess::{Invocation, Program};
use crate::table::Table;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, LazyLock};

/// Cost models by name.
pub(crate) type Pricings = Table<Kind<dyn Pricing>>;

/// Returns ovolo's own cost models.
pub fn pricings() -> &'static Pricings {
    static PRICINGS: LazyLock<Pricings> = LazyLock::new(|| {
        let mut table = Table::new("cost model");
        let kinds = [
            pricing::kind::<ByFlops>(),
            pricing::kind::<ByCorrected>(),
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

/// The cost model that asks a subprocess.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ByProgram {
    /// The command that starts the subprocess.
    pub program: Option<Invocation>,
    /// Whether the subprocess is asked for many kernels at once.
    pub batch: bool,
}

impl ByProgram {
    /// Makes the model for a command.
    pub fn new(mut program: Invocation, batch: bool) -> Self {
        if batch {
            program.longest = Invocation::WHOLE;
        }
        Self { program: Some(program), batch }
    }

    /// Returns how the model is read: `Process(command: "python3 mine.py", timeout: 60, batch: true)`. The command runs
    /// in the pipeline's folder.
    fn kind() -> Kind<dyn Pricing> {
        #[derive(Deserialize)]
        struct Command {
            command: String,
            #[serde(default)]
            timeout: Timeout,
            #[serde(default)]
            batch: bool,
        }
        Kind::<dyn Pricing>::new(
            || Arc::new(Self::default()),
            |reader, written| {
                let Command { command, timeout, batch } = written.read(reader)?;
                let program = Invocation {
                    folder: written.folder.path.map(ToOwned::to_owned),
                    patience: timeout.or(Invocation::PATIENCE),
                    ..Invocation::new(&command)
                };
                Some(Arc::new(Self::new(program, batch)))
            },
        )
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
        let prices = Arc::clone(given.prices);
        Ok(Box::new(Process::new(given.machine, prices, Arc::new(program), self.batch)))
    }

    /// Another run of the subprocess may return different prices.
    fn repeats(&self) -> bool {
        false
    }
}

/// The cost model that `ovolo fit` has fitted to measured times.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ByFit {
    /// The fitted model.
    pub fit: Option<Source>,
}

impl ByFit {
    /// Returns how the model is read: `Learned(file: "fit.json")`. The file lies in the pipeline's folder.
    fn kind() -> Kind<dyn Pricing> {
        Kind::<dyn Pricing>::new(
            || Arc::new(Self::default()),
            |reader, written| Some(Arc::new(Self { fit: Some(file(reader, written)?) })),
        )
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
