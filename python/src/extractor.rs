//! Extractors that are written in Python.

use crate::chosen::Chosen;
use ovolo::extract::{Claim, ExtractError, Extraction, Extractor, Problem, Report, Size};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use serde::Serialize;

/// The setting that chooses an extractor written in Python: an object with a method `extract(problem)`.
#[derive(Clone, Debug, Serialize)]
pub struct ByPython(pub Chosen);

impl ByPython {
    /// Makes the setting for an object.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Chosen::new(object, "extract").map(Self)
    }

    /// Asks the object for a choice.
    fn ask(&self, py: Python<'_>, problem: &Problem) -> PyResult<Vec<Option<u32>>> {
        let choice = self.0.object.bind(py).call_method1("extract", (python(py, problem)?,))?;
        let mut chosen = vec![None; problem.classes.len()];
        if let Ok(choice) = choice.cast::<PyDict>() {
            for (class, node) in choice.iter() {
                let class: usize = class.extract()?;
                let place = chosen.get_mut(class).ok_or_else(|| {
                    pyo3::exceptions::PyIndexError::new_err(format!("there is no class {class}"))
                })?;
                *place = node.extract()?;
            }
            return Ok(chosen);
        }
        let choice: Vec<Option<u32>> = choice.extract()?;
        if choice.len() != chosen.len() {
            let (given, wanted) = (choice.len(), chosen.len());
            return Err(pyo3::exceptions::PyValueError::new_err(format!(
                "a choice has one entry for each class: {wanted}, not {given}; a dictionary may leave classes out"
            )));
        }
        Ok(choice)
    }
}

/// Returns a problem as an object of Python.
pub fn python<'py>(py: Python<'py>, problem: &Problem) -> PyResult<Bound<'py, PyAny>> {
    let module = py.import("ovolo.extension")?;
    let candidate = module.getattr("Candidate")?;
    let classes = PyList::empty(py);
    for class in &problem.classes {
        let nodes = PyList::empty(py);
        for node in &class.nodes {
            let children = PyTuple::new(py, node.children.iter().map(|child| child.0))?;
            nodes.append(candidate.call1((node.cost, children, node.rank))?)?;
        }
        classes.append(nodes)?;
    }
    let roots = PyList::new(py, problem.roots.iter().map(|root| root.0))?;
    module.call_method1("Problem", (classes, roots))
}

impl Extractor for ByPython {
    fn name(&self) -> &'static str {
        self.0.name
    }

    fn claim(&self) -> Claim {
        Claim::Heuristic
    }

    fn extract(&self, problem: &Problem) -> Result<Extraction, ExtractError> {
        problem.check()?;
        let failed = |why| ExtractError::Failed { extractor: self.0.name.to_owned(), why };
        let choice = Python::attach(|py| {
            self.ask(py, problem).map_err(|raised| failed(self.0.raised.keep(py, raised)))
        })?;
        let cost = problem.cost(&choice)?;
        if !cost.is_finite() {
            return Err(failed("it chose a candidate that cannot be run, whose cost is infinite".to_owned()));
        }
        let nodes = problem.classes.iter().map(|class| class.nodes.len()).sum();
        let size = Size { classes: problem.classes.len(), nodes };
        let report = Report { method: self.0.name.to_owned(), size, reduced: size, ..Report::default() };
        Ok(Extraction { choice, cost, bound: 0.0, proven: false, report })
    }
}
