//! `ovolo compare`.

mod input;
mod report;

use super::load;
use super::note::say;
use super::{Outcome, Settings, print};
use clap::{Args, ValueEnum};
use input::Inputs;
use ovolo::cache::Request;
use ovolo::compile::Options;
use ovolo::graph::{Graph, text};
use ovolo::onnx::{self, Dynamic, Item};
use ovolo::registry::Registry;
use ovolo::tensor::Tensor;
use ovolo_proof::compare::{self, RegionComparison, runtime};
use report::Report;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args)]
pub(super) struct Compare {
    #[command(flatten)]
    settings: Settings,
    /// An input of the model, as a NumPy array, or as a value in ONNX's own format (.pb). Inputs that are not given are
    /// drawn at random.
    #[arg(long = "input", value_name = "NAME=FILE")]
    inputs: Vec<String>,
    /// The seed of the inputs that are drawn.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// What to compare with. Default: ONNX Runtime if its Python package is present, else the reference evaluation.
    #[arg(long, value_enum)]
    with: Option<With>,
    /// The Python that has the packages onnxruntime and numpy. One that is named must have them.
    #[arg(long, env = "OVOLO_PYTHON", value_name = "PROGRAM", default_value = PYTHON)]
    python: PathBuf,
    /// The largest relative error (L2) of a value that agrees. Default: 1e-4, 1e-3 for ONNX Runtime, more if the model
    /// or the pipeline has narrower types.
    #[arg(long, value_name = "T", value_parser = positive)]
    tolerance: Option<f64>,
    /// Leave out the suspect, or one after the other what led to the first value that departs, until the departure is
    /// mended.
    #[arg(long)]
    bisect: bool,
    /// The most regions to compare of a model whose shapes depend on its inputs.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    regions: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The Python that is asked if none is named.
const PYTHON: &str = "python3";

/// What to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum With {
    /// ONNX Runtime, through its Python package.
    Onnxruntime,
    /// Ovolo's own reference evaluation of the imported model.
    Reference,
}

fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    if number > 0.0 && number.is_finite() { Ok(number) } else { Err("give a number above 0".to_owned()) }
}

impl Compare {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let request = self.settings.request(registry, &self.settings.pipeline)?;
        if load::by_times(&request.pipeline) {
            return Err(format!(
                "--pipeline {}: its plan depends on kernels that are timed while it is made; compare with \
                 --pipeline cpu, whose rules and kernels are the same",
                self.settings.pipeline
            ));
        }
        let inputs = Inputs::read(&self.inputs, &self.settings)?;
        let with = self.with()?;
        let named = text::is_named(&self.settings.model);
        let mut bound = self.settings.clone();
        if !named
            && let Some(sizes) =
                onnx::sizes(&self.settings.model, &inputs.given).map_err(|error| error.to_string())?
        {
            let own = self.settings.bound()?;
            let free = sizes.into_iter().filter(|(name, _)| !own.contains_key(name));
            bound.dims.extend(free.map(|(name, size)| format!("{name}={size}")));
        }
        let import = bound.import(registry)?;
        let dynamic =
            || onnx::load(registry.onnx(), &bound.model, &import).err().filter(|error| error.is_dynamic());
        if !named && let Some(why) = dynamic() {
            return self.regions(registry, &request, inputs, with, &why.to_string());
        }
        self.whole(registry, &request, &bound.graph(registry)?, inputs, with)
    }

    fn with(&self) -> Result<With, String> {
        let named = text::is_named(&self.settings.model);
        match self.with {
            Some(With::Onnxruntime) if named => Err(format!(
                "--with onnxruntime: {} is a graph in text form, which ONNX Runtime does not read; compare with \
                 --with reference",
                self.settings.model.display()
            )),
            Some(with) => Ok(with),
            None if named => Ok(With::Reference),
            None if self.python != Path::new(PYTHON) || runtime::is_present(&self.python) => {
                Ok(With::Onnxruntime)
            }
            None => {
                say!(
                    "note: `{PYTHON}` has no package onnxruntime, so the reference evaluation takes its place; --python names another Python"
                );
                Ok(With::Reference)
            }
        }
    }

    /// Compares a model whose shapes are fixed.
    fn whole(
        &self,
        registry: &Arc<Registry>,
        request: &Request,
        graph: &Graph,
        inputs: Inputs,
        with: With,
    ) -> Outcome {
        let (inputs, drawn) = inputs.complete(graph, self.seed)?;
        let (mut options, _) = load::options(registry, request)?;
        let named =
            graph.inputs().zip(&inputs).map(|((_, node), value)| (node.name.to_string(), value.clone()));
        let runtime = self.runtime(with, &named.collect())?;
        let mut report = Report::new(&self.settings.model, self.json, runtime.as_ref());
        report.drawn(&drawn, self.seed);
        let given = runtime.map_or_else(BTreeMap::new, |runtime| runtime.values);
        for (name, own, other) in compare::Truth::misfits(graph, &given) {
            report
                .note(format!("`{name}` is {own} in ovolo and {other} in ONNX Runtime; it is not compared"));
        }
        let settings = self.how(graph, &options, with);
        let found = compare::compare(graph, &mut options, &inputs, &given, settings);
        report.add(&RegionComparison {
            number: 0,
            why: None,
            comparison: Some(found.map_err(|error| error.to_string())?),
        });
        self.done(report)
    }

    /// Compares a model that is compiled while it runs.
    fn regions(
        &self,
        registry: &Arc<Registry>,
        request: &Request,
        inputs: Inputs,
        with: With,
        why: &str,
    ) -> Outcome {
        let model = Dynamic::load(registry.onnx(), &self.settings.model, self.settings.missing_weights())
            .map_err(|error| error.to_string())?
            .with_unroll(request.pipeline.unroll);
        let (inputs, drawn) = inputs.complete_dynamic(&model, &self.settings.bound()?, self.seed)?;
        model.start(&inputs).map_err(|error| error.to_string())?;
        let (mut options, _) = load::options(registry, request)?;
        let tensors = inputs.iter().filter_map(|(name, item)| match item {
            Item::Tensor(tensor) => Some((name.clone(), tensor.clone())),
            Item::Sequence(_) | Item::Maps(..) | Item::Absent => None,
        });
        let tensors: BTreeMap<String, Tensor> = tensors.collect();
        if with == With::Onnxruntime && tensors.len() < inputs.len() {
            let why = "an input is a sequence or absent, which this command does not hand to ONNX Runtime; compare \
                       with --with reference";
            return Err(why.to_owned());
        }
        let runtime = self.runtime(with, &tensors)?;
        let mut report = Report::new(&self.settings.model, self.json, runtime.as_ref());
        report.drawn(&drawn, self.seed);
        report.several(why);
        let given = runtime.map_or_else(BTreeMap::new, |runtime| runtime.values);
        let how = |graph: &Graph, options: &Options| self.how(graph, options, with);
        let mut left = self.regions;
        let found = compare::regions(&model, &mut options, &inputs, &given, &how, &mut |region| {
            report.add(&region);
            left -= 1;
            let departs = region.comparison.as_ref().is_some_and(compare::Comparison::departs);
            if left == 0 && region.why.is_some() && !departs {
                report.note(format!(
                    "only the first {} regions are compared: --regions N compares more",
                    self.regions
                ));
            }
            left > 0 && !departs
        });
        found.map_err(|error| error.to_string())?;
        self.done(report)
    }

    fn how(&self, graph: &Graph, options: &Options, with: With) -> compare::Settings {
        let usual = || compare::Settings::tolerance(graph, options, with == With::Onnxruntime);
        compare::Settings { tolerance: self.tolerance.unwrap_or_else(usual), bisect: self.bisect }
    }

    /// Runs the model with ONNX Runtime, if it is what to compare with.
    fn runtime(
        &self,
        with: With,
        inputs: &BTreeMap<String, Tensor>,
    ) -> Result<Option<runtime::Values>, String> {
        if with == With::Reference {
            return Ok(None);
        }
        let folder = std::env::temp_dir().join(format!("ovolo-compare-{}", std::process::id()));
        runtime::values(&self.python, &self.settings.model, inputs, &folder)
            .map(Some)
            .map_err(|error| error.to_string())
    }

    fn done(&self, report: Report) -> Outcome {
        let departs = report.departs();
        print(&report.text());
        match departs {
            None => Ok(()),
            Some(value) => Err(format!("{} departs at `{value}`", self.settings.model.display())),
        }
    }
}
