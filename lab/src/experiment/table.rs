//! Makes tables of the results of an experiment.
//!
//! Tables that follow from the spec alone are the same each time, byte for byte. Measured times, and
//! everything that follows from them, are in separate tables whose names begin with `measured/`.

use super::lacking;
use super::spec::Spec;
use super::task::Task;
use ovolo::cost::{median_error, spearman};
use serde_json::Value;
use std::collections::BTreeMap;

/// A table: its name and its lines; the first line names the columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The name of its file, without the extension.
    pub name: &'static str,
    /// The columns.
    pub columns: Vec<String>,
    /// The lines.
    pub lines: Vec<Vec<Value>>,
}

impl Table {
    fn new(name: &'static str, columns: &[&str]) -> Self {
        Self { name, columns: columns.iter().map(|column| (*column).to_owned()).collect(), lines: Vec::new() }
    }

    /// Returns the table as CSV.
    pub fn csv(&self) -> String {
        let mut table = csv::Writer::from_writer(Vec::new());
        let plain = |value: &Value| match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let lines = std::iter::once(self.columns.clone())
            .chain(self.lines.iter().map(|line| line.iter().map(plain).collect()));
        for line in lines {
            table.write_record(line).expect("lines are written to memory, and have all columns");
        }
        String::from_utf8_lossy(&table.into_inner().expect("lines are written to memory")).into_owned()
    }
}

/// The tables with their columns. The tables of drawn plans and of timed kernels have one more column for each cost
/// model.
const TABLES: &[(&str, &[&str])] = &[
    (
        "plans",
        &[
            "model",
            "pipeline",
            "cost",
            "extractor",
            "seconds",
            "bound",
            "gap",
            "proven",
            "method",
            "states",
            "steps",
            "arena",
            "lower_bound",
            "plan",
            "error",
        ],
    ),
    ("ablation", &["model", "pipeline", "cost", "rule", "with", "without", "more", "error"]),
    ("memory", &["model", "pipeline", "cost", "bytes", "arena", "constants", "seconds", "proven"]),
    (
        "gap",
        &["model", "pipeline", "cost", "extractor", "effort", "states", "seconds", "bound", "gap", "proven"],
    ),
    ("drawn", &["model", "seed", "pipeline", "plan", "by", "steps", "arena"]),
    ("measured/plans", &["model", "seed", "pipeline", "plan", "by", "seconds", "spread", "regret"]),
    ("measured/kernels", &["model", "seed", "plan", "op", "value", "seconds"]),
    ("measured/rank", &["model", "cost", "of", "count", "spearman", "median_error", "repeat"]),
    ("measured/regret", &["model", "seed", "pipeline", "cost", "extractor", "seconds", "regret"]),
    ("measured/gap", &["model", "pipeline", "cost", "extractor", "effort", "states", "elapsed"]),
    ("measured/extraction", &["model", "pipeline", "cost", "extractor", "seconds"]),
    ("failed", &["task", "cell", "error"]),
];

/// The results of tasks, each with the facts about its task.
pub(super) struct Results<'a> {
    pub spec: &'a Spec,
    /// The machine, if results of several are compared, and its results by task.
    pub hosts: Vec<(String, &'a BTreeMap<String, Value>)>,
}

impl Results<'_> {
    /// Returns every table, including those of measured times.
    pub fn tables(&self) -> Vec<Table> {
        let mut tables: Vec<Table> = TABLES.iter().map(|(name, columns)| Table::new(name, columns)).collect();
        for name in ["drawn", "measured/kernels"] {
            let costs = self.spec.costs.iter().map(|cost| format!("by {}", cost.name));
            find(&mut tables, name).columns.extend(costs);
        }
        for (host, done) in &self.hosts {
            let start: Vec<usize> = tables.iter().map(|table| table.lines.len()).collect();
            for task in Task::all(self.spec) {
                let name = task.name(self.spec);
                let Some(result) = done.get(&name) else { continue };
                self.add(&mut tables, &task, result);
                let whole = result["error"].as_str().map(|error| (String::new(), error.to_owned()));
                for (cell, error) in whole.into_iter().chain(lacking(result)) {
                    let line = vec![name.clone().into(), cell.into(), error.into()];
                    find(&mut tables, "failed").lines.push(line);
                }
            }
            self.rank(find(&mut tables, "measured/rank"), done);
            if self.hosts.len() > 1 {
                for (table, start) in tables.iter_mut().zip(start) {
                    for line in &mut table.lines[start..] {
                        line.insert(0, host.as_str().into());
                    }
                }
            }
        }
        if self.hosts.len() > 1 {
            for table in &mut tables {
                table.columns.insert(0, "host".to_owned());
            }
        }
        tables
    }

    fn add(&self, tables: &mut [Table], task: &Task, result: &Value) {
        let spec = self.spec;
        let names = |cell: &super::task::Cell| -> Vec<Value> {
            vec![
                spec.models[cell.model].name.clone().into(),
                spec.pipelines[cell.pipeline].0.clone().into(),
                spec.costs[cell.cost].name.clone().into(),
            ]
        };
        let get = |value: &Value, keys: &[&str]| -> Vec<Value> {
            keys.iter().map(|key| value[*key].clone()).collect()
        };
        let list = |key: &str| result[key].as_array().map_or(&[][..], Vec::as_slice);
        match task {
            Task::Plan(cell, extractor) => {
                let mut line = names(cell);
                line.push(spec.extractors[*extractor].name.clone().into());
                let mut measured = line.clone();
                line.extend(get(
                    result,
                    &[
                        "cost",
                        "bound",
                        "gap",
                        "proven",
                        "method",
                        "states",
                        "steps",
                        "arena",
                        "lower_bound",
                        "plan",
                        "error",
                    ],
                ));
                find(tables, "plans").lines.push(line);
                measured.push(result["measured"]["seconds"].clone());
                find(tables, "measured/extraction").lines.push(measured);
            }
            Task::Ablation(cell) => {
                for rule in list("rules") {
                    let mut line = names(cell);
                    let more = number(&rule["without"]) / number(&result["with"]) - 1.0;
                    line.extend([rule["rule"].clone(), result["with"].clone(), rule["without"].clone()]);
                    // Without a rule the cost may be slightly lower, depending on how ties are resolved; that counts as zero.
                    let more = (!more.is_nan()).then(|| more.max(0.0));
                    line.extend([more.into(), rule["error"].clone()]);
                    find(tables, "ablation").lines.push(line);
                }
            }
            Task::Memory(cell) => {
                for point in list("points") {
                    let mut line = names(cell);
                    line.extend(get(point, &["bytes", "arena", "constants", "seconds", "proven"]));
                    find(tables, "memory").lines.push(line);
                }
            }
            Task::Gap(cell, extractor) => {
                for (at, point) in list("points").iter().enumerate() {
                    let mut line = names(cell);
                    line.push(spec.extractors[*extractor].name.clone().into());
                    let mut measured = line.clone();
                    measured.extend(get(point, &["effort", "states"]));
                    measured.push(time(result, "seconds", at).into());
                    find(tables, "measured/gap").lines.push(measured);
                    line.extend(get(point, &["effort", "states", "cost", "bound", "gap", "proven"]));
                    find(tables, "gap").lines.push(line);
                }
            }
            Task::Race { model, seed } => {
                let model: Value = spec.models[*model].name.clone().into();
                let seed: Value = spec.seeds[*seed].into();
                self.race(tables, &model, &seed, result);
            }
        }
    }

    fn race(&self, tables: &mut [Table], model: &Value, seed: &Value, result: &Value) {
        let list = |key: &str| result[key].as_array().map_or(&[][..], Vec::as_slice);
        let costs = |value: &Value| -> Vec<Value> {
            self.spec.costs.iter().map(|cost| value["estimates"][&cost.name].clone()).collect()
        };
        let times: Vec<f64> =
            list("plans").iter().zip(0..).map(|(_, at)| time(result, "seconds", at)).collect();
        let best = times.iter().copied().fold(f64::INFINITY, f64::min);
        let mut cells: BTreeMap<(String, String, String), f64> = BTreeMap::new();
        for (at, plan) in list("plans").iter().enumerate() {
            let ways = plan["by"].as_array().map_or(&[][..], Vec::as_slice);
            let words: Vec<String> =
                ways.iter().map(|way| format!("{} {}", text(&way[0]), text(&way[1]))).collect();
            let line = [model, seed, &plan["pipeline"], &plan["plan"], &words.join(", ").into()];
            let line: Vec<Value> = line.into_iter().cloned().collect();
            let mut drawn = line.clone();
            drawn.extend([plan["steps"].clone(), plan["arena"].clone()]);
            drawn.extend(costs(plan));
            find(tables, "drawn").lines.push(drawn);
            let mut measured = line;
            let spread = time(result, "spread", at);
            measured.extend([times[at].into(), spread.into(), (times[at] / best - 1.0).into()]);
            find(tables, "measured/plans").lines.push(measured);
            for way in ways {
                let cell = (text(&plan["pipeline"]), text(&way[0]), text(&way[1]));
                // The fastest of the plans drawn for a cell is the plan of the cell.
                let least = cells.entry(cell).or_insert(f64::INFINITY);
                *least = least.min(times[at]);
            }
        }
        for ((pipeline, cost, extractor), seconds) in cells {
            let regret = seconds / best - 1.0;
            let mut line = vec![model.clone(), seed.clone(), pipeline.into(), cost.into(), extractor.into()];
            line.extend([seconds.into(), regret.into()]);
            find(tables, "measured/regret").lines.push(line);
        }
        for (at, kernel) in list("kernels").iter().enumerate() {
            let mut line = vec![model.clone(), seed.clone()];
            line.extend(["plan", "op", "value"].map(|key| kernel[key].clone()));
            line.push(time(result, "kernels", at).into());
            line.extend(costs(kernel));
            find(tables, "measured/kernels").lines.push(line);
        }
    }

    /// Adds, for each model, how well each cost model predicts the order and the size of the measured times;
    /// and how well every second round predicts the order of the others, which limits how well any cost model
    /// can do.
    fn rank(&self, table: &mut Table, done: &BTreeMap<String, Value>) {
        for (at, model) in self.spec.models.iter().enumerate() {
            for cost in &self.spec.costs {
                for (of, times) in [("plans", "seconds"), ("kernels", "kernels")] {
                    let (mut predicted, mut seen) = (Vec::new(), Vec::new());
                    let mut halves = [Vec::new(), Vec::new()];
                    for seed in 0..self.spec.seeds.len() {
                        let task = Task::Race { model: at, seed };
                        let Some(result) = done.get(&task.name(self.spec)) else { continue };
                        for (place, one) in result[of].as_array().into_iter().flatten().enumerate() {
                            if let Some(estimate) = one["estimates"][&cost.name].as_f64() {
                                predicted.push(estimate);
                                seen.push(time(result, times, place));
                                // Kernels have no such value.
                                for (half, times) in halves.iter_mut().zip(0..) {
                                    half.extend(result["measured"]["halves"][times][place].as_f64());
                                }
                            }
                        }
                    }
                    if !seen.is_empty() {
                        table.lines.push(vec![
                            model.name.clone().into(),
                            cost.name.clone().into(),
                            of.into(),
                            seen.len().into(),
                            spearman(&predicted, &seen).into(),
                            median_error(&predicted, &seen).into(),
                            (of == "plans").then(|| spearman(&halves[0], &halves[1])).flatten().into(),
                        ]);
                    }
                }
            }
        }
    }
}

fn find<'t>(tables: &'t mut [Table], name: &str) -> &'t mut Table {
    tables.iter_mut().find(|table| table.name == name).expect("the table is in the list")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn time(result: &Value, key: &str, at: usize) -> f64 {
    number(&result["measured"][key][at])
}
