//! The tasks of an experiment: units that are run, stored, and continued after an interruption.

use super::spec::{SAMPLE, Spec};

/// A task, given by positions in the spec's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// What an extractor chooses with a cost model.
    Plan(Cell, usize),
    /// What the plan costs without each rule.
    Ablation(Cell),
    /// Time against memory.
    Memory(Cell),
    /// What an extractor finds and proves with less work.
    Gap(Cell, usize),
    /// All plans of a model that are drawn with a seed: what each cost model estimates for each, and their
    /// times.
    Race {
        /// The model.
        model: usize,
        /// The seed.
        seed: usize,
    },
}

/// A model, a pipeline and a cost model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The model.
    pub model: usize,
    /// The pipeline.
    pub pipeline: usize,
    /// The cost model.
    pub cost: usize,
}

impl Task {
    /// Returns every task, in the order of the spec: tasks with the same model and pipeline are adjacent.
    pub fn all(spec: &Spec) -> Vec<Self> {
        let asked = |part: &str| spec.parts.contains(part);
        let mut tasks = Vec::new();
        for model in 0..spec.models.len() {
            for pipeline in 0..spec.pipelines.len() {
                for cost in 0..spec.costs.len() {
                    let cell = Cell { model, pipeline, cost };
                    let extractors =
                        || (0..spec.extractors.len()).filter(|at| spec.extractors[*at].name != SAMPLE);
                    tasks.extend(extractors().map(|extractor| Self::Plan(cell, extractor)));
                    tasks.extend(asked("ablation").then_some(Self::Ablation(cell)));
                    tasks.extend(asked("memory").then_some(Self::Memory(cell)));
                    if asked("gap") {
                        tasks.extend(extractors().map(|extractor| Self::Gap(cell, extractor)));
                    }
                }
            }
            if spec.rounds > 0 {
                tasks.extend((0..spec.seeds.len()).map(|seed| Self::Race { model, seed }));
            }
        }
        tasks
    }

    /// The name of the task in results, which does not depend on the rest of the spec.
    pub fn name(&self, spec: &Spec) -> String {
        let of = |kind: &str, cell: &Cell, extractor: Option<usize>| {
            let extractor =
                extractor.map_or_else(String::new, |at| format!(" {}", word(&spec.extractors[at].name)));
            let model = word(&spec.models[cell.model].name);
            let pipeline = word(&spec.pipelines[cell.pipeline].0);
            format!("{kind} {model} {pipeline} {}{extractor}", word(&spec.costs[cell.cost].name))
        };
        match self {
            Self::Plan(cell, extractor) => of("plan", cell, Some(*extractor)),
            Self::Ablation(cell) => of("ablation", cell, None),
            Self::Memory(cell) => of("memory", cell, None),
            Self::Gap(cell, extractor) => of("gap", cell, Some(*extractor)),
            Self::Race { model, seed } => {
                format!("race {} seed {}", word(&spec.models[*model].name), spec.seeds[*seed])
            }
        }
    }
}

/// Quotes a name with spaces or quotation marks, so that it can be told from its neighbours.
fn word(name: &str) -> String {
    let plain = !name.contains(|c: char| c.is_whitespace() || c == '"');
    if plain { name.to_owned() } else { format!("{name:?}") }
}
