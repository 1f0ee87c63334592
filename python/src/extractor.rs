//! Extractors that are written in Python.

use crate::chosen::Chosen;
use ovolo::extract::{Claim, ExtractError, Extraction, Extractor, Problem, Report, Size};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use serde::Serialize;

/// The setting that chooses an extractor written in Python: an object with a method `extract(problem)`.
#[derive(Clone, Debug, Serialize)]
pub struct ByPython(pub Chosen);

impl ByPython {
    /// Makes the setting for an object.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Chosen::new(object, "extract", ["an extractor", "extract"]).map(Self)
    }

    /// Asks the object for a choice.
    fn ask(&self, py: Python<'_>, problem: &Problem) -> PyResult<Vec<Option<u32>>> {
        let choice = self.0.object.bind(py).call_method1("extract", (python(py, problem)?,))?;
        let mut chosen = vec![None; problem.classes.len()];
        if let Ok(choice) = choice.cast::<PyDict>() {
            for (class, node) in choice.iter() {
                let place = match class.extract::<usize>() {
                    Ok(index) => chosen.get_mut(index).ok_or_else(|| {
                        PyIndexError::new_err(format!(
                            "there is no class {index}: there are {}",
                            problem.classes.len()
                        ))
                    })?,
                    Err(_) => {
                        return Err(PyTypeError::new_err(format!(
                            "{} is not the number of a class",
                            shown(&class)?
                        )));
                    }
                };
                *place = candidate(&class, &node)?;
            }
            return Ok(chosen);
        }
        let entries = choice.try_iter().map_err(|_| {
            let shown = shown(&choice).unwrap_or_default();
            PyTypeError::new_err(format!(
                "a choice is a list, or a dictionary by classes, of candidates, not {shown}"
            ))
        })?;
        let choice: Vec<Option<u32>> = entries
            .enumerate()
            .map(|(class, node)| candidate(&class.into_pyobject(py)?.into_any(), &node?))
            .collect::<PyResult<_>>()?;
        if choice.len() != chosen.len() {
            let (given, wanted) = (choice.len(), chosen.len());
            return Err(PyValueError::new_err(format!(
                "a choice has one entry for each class: {wanted}, not {given}; a dictionary may leave classes out"
            )));
        }
        Ok(choice)
    }
}

/// Returns the number of the candidate that is chosen for a class, if one is.
fn candidate(class: &Bound<'_, PyAny>, node: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
    node.extract().map_err(|_| match shown(node) {
        Ok(node) => PyTypeError::new_err(format!("class {class}: {node} is not the number of a candidate")),
        Err(raised) => raised,
    })
}

/// Returns a value as Python shows it.
fn shown(value: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(value.repr()?.to_string())
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
        let cost = problem.cost(&choice).map_err(|error| match error {
            ExtractError::BadChoice { class, why } => {
                let chosen =
                    choice[class.index()].map_or_else(String::new, |node| format!(" (candidate {node})"));
                failed(format!("class {} is reached, but {why}{chosen}", class.index()))
            }
            other => other,
        })?;
        if !cost.is_finite() {
            return Err(failed("it chose a candidate that cannot be run, whose cost is infinite".to_owned()));
        }
        let nodes = problem.classes.iter().map(|class| class.nodes.len()).sum();
        let size = Size { classes: problem.classes.len(), nodes };
        let report = Report { method: self.0.name.to_owned(), size, reduced: size, ..Report::default() };
        Ok(Extraction { choice, cost, bound: 0.0, proven: false, report })
    }
}
