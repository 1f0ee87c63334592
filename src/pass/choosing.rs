//! The extractors of pipelines: those of the module `extract`, and those that take a selection from elsewhere.

use super::timeout::Timeout;
use crate::error::Source;
use crate::extract::{
    self, Claim, ExtractError, Extraction, Extractor, Extractors, GreedyTree, Named, Problem, ROUNDING,
    Report,
};
use crate::setting::Kind;
use crate::subprocess::{Invocation, filter};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, LazyLock};

/// Returns ovolo's own extractors.
pub(crate) fn extractors() -> &'static Extractors {
    static EXTRACTORS: LazyLock<Extractors> = LazyLock::new(|| {
        let mut table = extract::extractors().clone();
        for kind in [ByFile::kind(), ByProgram::kind()] {
            table.add((kind.plain)().name(), kind).expect("each has a name of its own");
        }
        table
    });
    &EXTRACTORS
}

/// The extractor that takes the selection in a file: `choices`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ByFile {
    /// JSON with the chosen node of each e-class: `{"choices": {"c0": "c0.0"}}`.
    pub file: Option<Source>,
}

impl ByFile {
    /// Returns how the extractor is read: `Choices(file: "chosen.json")`. The file lies in the pipeline's folder.
    fn kind() -> Kind<dyn Extractor> {
        Kind::<dyn Extractor>::new(
            || Arc::new(Self::default()),
            |reader, written| {
                let file = crate::cost::pricing::file(reader, written)?;
                Some(Arc::new(Self { file: Some(file) }))
            },
        )
    }
}

impl Extractor for ByFile {
    fn name(&self) -> &'static str {
        "choices"
    }

    fn claim(&self) -> Claim {
        Claim::Heuristic
    }

    fn lacks(&self) -> Option<&'static str> {
        self.file.is_none().then_some("a file with the selection: name it with `--choices FILE.json`")
    }

    fn extract(&self, problem: &Problem) -> Result<Extraction, ExtractError> {
        let failed = |why| ExtractError::Failed { extractor: self.name().to_owned(), why };
        let file = self.file.as_ref().ok_or_else(|| lacking(self))?;
        let read = Named::numbered(problem).selection(&file.text);
        let choice = read.map_err(|why| failed(format!("{}: {why}", file.name)))?;
        chosen(problem, choice, self.name(), &file.name)
    }
}

/// The extractor that asks a subprocess: `process`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ByProgram {
    /// The command that starts the subprocess.
    pub program: Option<Invocation>,
}

impl ByProgram {
    /// The default for the seconds that an extraction may take.
    pub const PATIENCE: u64 = 600;

    /// Makes the extractor for a command.
    pub fn new(program: Invocation) -> Self {
        Self { program: Some(Invocation { longest: Invocation::WHOLE, ..program }) }
    }

    /// Returns how the extractor is read: `Process(command: "python3 mine.py", timeout: 600)`. The command runs in the
    /// pipeline's folder.
    fn kind() -> Kind<dyn Extractor> {
        #[derive(Deserialize)]
        struct Command {
            command: String,
            #[serde(default)]
            timeout: Timeout,
        }
        Kind::<dyn Extractor>::new(
            || Arc::new(Self::default()),
            |reader, written| {
                let Command { command, timeout } = written.read(reader)?;
                let program = Invocation {
                    folder: written.folder.path.map(ToOwned::to_owned),
                    patience: timeout.or(Self::PATIENCE),
                    ..Invocation::new(&command)
                };
                Some(Arc::new(Self::new(program)))
            },
        )
    }
}

impl Extractor for ByProgram {
    fn name(&self) -> &'static str {
        "process"
    }

    fn claim(&self) -> Claim {
        Claim::Heuristic
    }

    fn lacks(&self) -> Option<&'static str> {
        self.program.is_none().then_some("a program: name it with `--extractor-process COMMAND`")
    }

    /// Another run of the subprocess may choose otherwise.
    fn repeats(&self) -> bool {
        false
    }

    fn extract(&self, problem: &Problem) -> Result<Extraction, ExtractError> {
        let failed = |why| ExtractError::Failed { extractor: self.name().to_owned(), why };
        let program = self.program.as_ref().ok_or_else(|| lacking(self))?;
        let named = Named::numbered(problem);
        let answer = filter(program, named.to_json()).map_err(|why| failed(why.to_string()))?;
        let answered = |why: &dyn std::fmt::Display| failed(format!("`{}` answered: {why}", program.command));
        let choice = named.selection(&answer).map_err(|why| answered(&why))?;
        chosen(problem, choice, self.name(), &program.command)
    }
}

/// Returns the error of an extractor that was not given what it needs.
fn lacking(extractor: &dyn Extractor) -> ExtractError {
    let why = format!("it needs {}", extractor.lacks().unwrap_or("nothing"));
    ExtractError::Failed { extractor: extractor.name().to_owned(), why }
}

/// Returns a choice that comes from elsewhere, with its cost and the bound that greedy extraction has.
fn chosen(
    problem: &Problem,
    choice: Vec<Option<u32>>,
    extractor: &str,
    from: &str,
) -> Result<Extraction, ExtractError> {
    let failed = |why: &dyn std::fmt::Display| ExtractError::Failed {
        extractor: extractor.to_owned(),
        why: format!("{from}: {why}"),
    };
    let cost = problem.cost(&choice).map_err(|error| match error {
        ExtractError::BadChoice { class, why } => {
            failed(&format!("the class `c{}` is reached, but {why}", class.index()))
        }
        error => failed(&error),
    })?;
    if !cost.is_finite() {
        return Err(failed(
            &"it chooses a node that cannot be run, or not within the limit of memory: its cost is infinite",
        ));
    }
    let greedy = GreedyTree.extract(problem)?;
    let proven = greedy.bound >= cost * ROUNDING;
    let report = Report { method: extractor.to_owned(), ..greedy.report };
    let mut extraction = Extraction { choice, cost, bound: greedy.bound, proven, report };
    extraction.settle();
    Ok(extraction)
}
