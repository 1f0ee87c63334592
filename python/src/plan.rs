//! Plans: what was chosen for a model, and why.

use crate::error::error;
use crate::session::Fixed;
use crate::settings::{Asked, Given};
use ovolo::compile::{Compilation, Options};
use ovolo::pass::PassReport;
use ovolo::stage::Scale;
use ovolo::team::Team;
use ovolo::tensor::Device;
use ovolo_cli::Job;
use ovolo_lab::report;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList};
use serde_json::{Value, json};
use std::str::FromStr;

/// The plan of a model.
#[pyclass(module = "ovolo._ovolo", frozen)]
pub struct Plan {
    asked: Asked,
    compilation: Compilation,
    options: Options,
    /// The session, once the plan has run.
    session: PyOnceLock<Fixed>,
}

/// Compiles a model whose shapes are fixed.
#[pyfunction]
pub fn compile(py: Python<'_>, given: Given) -> PyResult<Plan> {
    let asked = given.asked(py)?;
    let made = py.detach(|| asked.job.compile());
    let (compilation, options) = made.map_err(|why| asked.error(py, why))?;
    Ok(Plan { asked, compilation, options, session: PyOnceLock::new() })
}

impl Plan {
    /// Answers a question without the interpreter.
    fn answer<T: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&Compilation, &Options) -> Result<T, ovolo_cli::Refusal> + Send,
    ) -> PyResult<T> {
        py.detach(|| question(&self.compilation, &self.options)).map_err(|why| self.asked.error(py, why))
    }
}

#[pymethods]
impl Plan {
    /// Runs the plan on a dictionary of inputs. Returns the outputs of these names, or all of them.
    fn run<'py>(
        &self,
        py: Python<'py>,
        asked: Option<&Bound<'py, PyAny>>,
        feeds: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyList>> {
        let session = self.session.get_or_try_init(py, || {
            let backends = self.options.registry.backends();
            let session = py.detach(|| self.compilation.session(backends)).map_err(error)?;
            let team = Team::shared(session.plan().threads);
            let session = session.on(&team);
            Ok::<_, PyErr>(Fixed::new(py, Box::new(session)))
        })?;
        session.run(py, asked, feeds)
    }

    /// Returns the text form of the plan.
    fn text(&self) -> String {
        self.compilation.plan.to_string()
    }

    /// Explains each step of the plan.
    fn explain(&self) -> String {
        Job::explain(&self.compilation.plan)
    }

    /// Returns the plan as JSON.
    fn json(&self) -> String {
        report::plan(&self.compilation.plan).to_string()
    }

    /// Returns what the extraction found, as JSON.
    fn extraction(&self) -> String {
        let report = match self.compilation.extraction() {
            Some(PassReport::Extract { extractor, cost_model, extraction, .. }) => json!({
                "extractor": extractor, "cost_model": cost_model, "seconds": extraction.cost,
                "bound": extraction.bound, "proven": extraction.proven, "method": extraction.report.method,
                "classes": extraction.report.size.classes, "candidates": extraction.report.size.nodes,
            }),
            _ => Value::Null,
        };
        report.to_string()
    }

    /// Returns what would be chosen instead of each step, as a text and as JSON.
    fn runner_ups(&self, py: Python<'_>) -> PyResult<(String, String)> {
        let found = self.answer(py, Job::runner_ups)?;
        let text = found.iter().map(Job::tell_runner_up).collect();
        let list: Vec<Value> = found.iter().map(report::to_json).collect();
        Ok((text, Value::from(list).to_string()))
    }

    /// Tells what would be chosen if kernels cost more or less: patterns of ops, each with a factor.
    fn what_if(&self, py: Python<'_>, factors: Vec<(String, f64)>) -> PyResult<String> {
        let scale = |(ops, factor): &(String, f64)| Scale::read(&format!("{ops}={factor}")).map_err(error);
        let scales = factors.iter().map(scale).collect::<PyResult<Vec<_>>>()?;
        self.answer(py, |compilation, options| Job::what_if(compilation, options, &scales))
    }

    /// Returns the plans from the fastest to the smallest on a device, as JSON.
    fn memory_curve(&self, py: Python<'_>, device: &str) -> PyResult<String> {
        let device = Device::from_str(device).map_err(error)?;
        let curve =
            self.answer(py, |compilation, options| Job::memory_curve(compilation, options, device))?;
        let points = curve.points.iter().map(|point| {
            json!({
                "seconds": point.seconds, "bytes": point.bytes(), "arena": point.arena,
                "constants": point.constants, "proven": point.proven,
            })
        });
        Ok(json!({ "points": points.collect::<Vec<_>>(), "complete": curve.complete }).to_string())
    }

    /// Tells why a rule does not fire on the model.
    fn why_not(&self, py: Python<'_>, rule: &str, node: Option<&str>) -> PyResult<String> {
        py.detach(|| self.asked.job.why_not(rule, node)).map_err(|why| self.asked.error(py, why))
    }

    /// Returns a page with pictures of the plan.
    fn html(&self, py: Python<'_>) -> PyResult<String> {
        self.answer(py, |compilation, options| self.asked.job.html(compilation, options))
    }

    /// Returns the features of each kernel that might have been chosen, with its price, as JSON.
    fn features(&self, py: Python<'_>) -> PyResult<String> {
        Ok(report::kernels(&self.answer(py, Job::features)?).to_string())
    }

    /// Returns the e-graph that the extraction chose from, with its prices, in the JSON form of the crate
    /// `egraph-serialize`.
    fn egraph(&self, py: Python<'_>) -> PyResult<String> {
        self.answer(py, Job::egraph)
    }

    /// Returns the problem that an extractor of Python would get.
    fn problem<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let problem = self.answer(py, Job::problem)?;
        crate::extractor::python(py, &problem)
    }

    /// Returns the price of each step of another plan of the same model, by the cost model of this plan.
    fn estimates(&self, py: Python<'_>, other: &Self) -> PyResult<Vec<Option<f64>>> {
        let plan = &other.compilation.plan;
        self.answer(py, |compilation, options| Job::estimates(compilation, options, plan))
    }

    /// Returns the size of the plan: bytes of the arena and of constants, threads, and estimated seconds.
    fn size<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let plan = &self.compilation.plan;
        let map = PyDict::new(py);
        map.set_item("seconds", plan.seconds())?;
        map.set_item("arena", plan.arena)?;
        map.set_item("constants", plan.constants_of(Device::Host))?;
        map.set_item("threads", plan.threads)?;
        Ok(map)
    }
}
