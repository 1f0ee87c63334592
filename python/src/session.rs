//! Sessions: models that run.

use crate::error::{error, invalid, of_input};
use crate::interface;
use crate::item::{array, item, object, positions, tensor};
use crate::note;
use crate::settings::{Asked, Given};
use ovolo::dynamic::{Beyond, DynamicSession};
use ovolo::onnx::{Interface, Item};
use ovolo::tensor::Tensor;
use ovolo::{DType, ValueType};
use ovolo_cli::{Job, Refusal, Runnable};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;

/// A model that is ready to run. Threads may share it; their runs take turns.
#[pyclass(module = "ovolo._ovolo", frozen)]
pub struct Session {
    interface: Interface,
    asked: Asked,
    ready: Ready,
}

enum Ready {
    /// All shapes are fixed. Runs that give values to optional inputs have a session of their own, once there is one.
    Fixed(Fixed, Mutex<Option<Arc<Dynamic>>>),
    Dynamic(Dynamic),
}

/// A model that is compiled while it runs.
struct Dynamic {
    session: Mutex<Box<DynamicSession<'static>>>,
    /// The thread that uses the session.
    user: Mutex<Option<ThreadId>>,
    /// The sizes beyond buckets of which a note was written.
    told: Mutex<BTreeSet<Beyond>>,
}

/// A use of a session, which ends also by a panic.
struct Use<'a>(&'a Mutex<Option<ThreadId>>);

impl Drop for Use<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Dynamic {
    fn new(session: Box<DynamicSession<'static>>) -> Self {
        Self { session: Mutex::new(session), user: Mutex::new(None), told: Mutex::default() }
    }

    /// Notes each size beyond its bucket once.
    fn tell(&self, beyond: Vec<Beyond>) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let news = beyond.into_iter().filter(|one| told.insert(one.clone()));
        news.for_each(|one| note::log(&format!("note: {one}")));
    }

    /// Uses the session when no other thread does. A cost model or an extractor in Python runs while the session is used,
    /// and would wait for itself if it used the session.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        use_it: impl FnOnce(&mut DynamicSession<'static>) -> T + Send,
    ) -> PyResult<T> {
        let user = || self.user.lock().unwrap_or_else(PoisonError::into_inner);
        let own = std::thread::current().id();
        if *user() == Some(own) {
            return Err(error(
                "the session is already in use by this thread: a cost model or an extractor cannot use the session that \
                 asks it",
            ));
        }
        Ok(py.detach(|| {
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            *user() = Some(own);
            let _end = Use(&self.user);
            use_it(&mut session)
        }))
    }
}

/// A model with fixed shapes.
pub struct Fixed {
    session: Mutex<Box<ovolo::Session>>,
    /// The inputs of the plan in its order.
    inputs: Vec<(Py<PyString>, DType)>,
    outputs: Vec<Arc<str>>,
}

impl Fixed {
    /// Wraps a session.
    pub fn new(py: Python<'_>, session: Box<ovolo::Session>) -> Self {
        let plan = session.plan();
        let inputs = plan.inputs.iter().map(|(name, ty)| (PyString::intern(py, name).unbind(), ty.dtype));
        let outputs = plan.outputs.iter().map(|(name, _, _)| Arc::clone(name));
        Self { inputs: inputs.collect(), outputs: outputs.collect(), session: Mutex::new(session) }
    }

    /// Runs the plan on a dictionary of inputs, and returns the outputs that are asked for.
    pub fn run<'py>(
        &self,
        py: Python<'py>,
        asked: Option<&Bound<'py, PyAny>>,
        feeds: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyList>> {
        let positions = positions(asked, || self.outputs.iter().map(|name| &**name).collect())?;
        let inputs = self.inputs(py, feeds)?;
        if feeds.len() != inputs.len() {
            return Err(self.misfit(py, feeds));
        }
        let ran = py.detach(|| {
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            session.run_owned(&inputs.iter().collect::<Vec<_>>())
        });
        let outputs = match ran {
            Ok(outputs) => outputs,
            Err(why @ (ovolo::SessionError::InputType { .. } | ovolo::SessionError::InputCount { .. })) => {
                let why = self.told(py, inputs).err().unwrap_or_else(|| invalid(why));
                return Err(why);
            }
            Err(why) => return Err(error(why)),
        };
        let outputs = chosen(outputs, positions.as_deref());
        PyList::new(py, outputs.into_iter().map(|one| array(py, one)).collect::<PyResult<Vec<_>>>()?)
    }

    /// Returns the inputs of the plan, of those of a run.
    fn inputs(&self, py: Python<'_>, feeds: &Bound<'_, PyDict>) -> PyResult<Vec<Tensor>> {
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for (name, dtype) in &self.inputs {
            let Some(value) = feeds.get_item(name)? else { return Err(self.misfit(py, feeds)) };
            inputs.push(tensor(&value, Some(*dtype)).map_err(|why| of_input(py, name.bind(py), why))?);
        }
        Ok(inputs)
    }

    /// Says what is wrong with inputs whose types are not those of the plan.
    fn told(&self, py: Python<'_>, inputs: Vec<Tensor>) -> PyResult<()> {
        let names = self.inputs.iter().map(|(name, _)| name.bind(py).to_string());
        let given = names.zip(inputs.into_iter().map(Item::Tensor)).collect();
        // Another thread may run the session for long, and needs the interpreter to end.
        let told = py.detach(|| {
            let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            Job::inputs(session.plan(), given).map(|_| ())
        });
        told.map_err(invalid)
    }

    /// Says which inputs are missing or unknown.
    fn misfit(&self, py: Python<'_>, feeds: &Bound<'_, PyDict>) -> PyErr {
        let wanted: Vec<String> = self.inputs.iter().map(|(name, _)| name.bind(py).to_string()).collect();
        let given: Vec<String> = feeds.keys().iter().map(|name| name.to_string()).collect();
        let missing: Vec<&str> =
            wanted.iter().filter(|name| !given.contains(name)).map(String::as_str).collect();
        let unknown: Vec<&str> =
            given.iter().filter(|name| !wanted.contains(name)).map(String::as_str).collect();
        let mut parts = Vec::new();
        if !missing.is_empty() {
            parts.push(format!("the model needs `{}`", missing.join("`, `")));
        }
        if !unknown.is_empty() {
            parts.push(format!("it has no input `{}`", unknown.join("`, `")));
        }
        invalid(format!("{}; its inputs are `{}`", parts.join(", and "), wanted.join("`, `")))
    }
}

#[pymethods]
impl Session {
    /// Runs the model on a dictionary of inputs. Returns the outputs of these names, or all of them.
    fn run<'py>(
        &self,
        py: Python<'py>,
        asked: Option<&Bound<'py, PyAny>>,
        feeds: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyList>> {
        match &self.ready {
            Ready::Fixed(fixed, other) if self.gives_optional(feeds)? => {
                let inputs = fixed.inputs(py, feeds)?;
                fixed.told(py, inputs)?;
                // Another thread may make the session, and needs the interpreter to end.
                let made = py.detach(|| {
                    let mut other = other.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(session) = &*other {
                        return Ok::<_, Refusal>(Arc::clone(session));
                    }
                    Ok(Arc::clone(other.insert(Arc::new(Dynamic::new(self.asked.job.dynamic()?)))))
                });
                let session = made.map_err(|why| self.asked.error(py, why))?;
                self.run_dynamic(py, &session, asked, feeds)
            }
            Ready::Fixed(fixed, _) => fixed.run(py, asked, feeds),
            Ready::Dynamic(session) => self.run_dynamic(py, session, asked, feeds),
        }
    }

    /// Returns the name, the type and the shape of each input that must be given.
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        interface::inputs(py, &self.interface)
    }

    /// Returns the name, the type and the shape of each input that has a default value.
    fn defaults<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        interface::defaults(py, &self.interface)
    }

    /// Returns the name, the type and the shape of each output.
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        interface::outputs(py, &self.interface)
    }

    /// Returns what the model says of itself.
    fn about<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        interface::about(py, &self.interface)
    }

    /// Whether the model is compiled while it runs, since sizes or branches depend on its inputs.
    #[getter]
    fn is_dynamic(&self) -> bool {
        matches!(self.ready, Ready::Dynamic(_))
    }

    /// Proves that outputs at one position of a dimension do not depend on inputs at another one.
    fn separates(&self, py: Python<'_>, dim: &str, rows: usize, feeds: &Bound<'_, PyDict>) -> PyResult<()> {
        let Ready::Dynamic(session) = &self.ready else {
            return Err(error(format!("all sizes of the model are fixed, also that of `{dim}`")));
        };
        let inputs = self.items(feeds)?;
        session.with(py, |session| session.separates(dim, rows, &inputs))?.map_err(misfit)
    }

    /// Rounds the sizes of a dimension up to these sizes.
    fn bucket(&self, py: Python<'_>, dim: &str, sizes: Vec<usize>) -> PyResult<()> {
        match &self.ready {
            Ready::Fixed(..) => Err(error(format!("all sizes of the model are fixed, also that of `{dim}`"))),
            Ready::Dynamic(session) => {
                session.with(py, |session| session.bucket(dim, &sizes))?.map_err(error)
            }
        }
    }
}

impl Session {
    /// Returns whether a run gives a value to an optional input.
    fn gives_optional(&self, feeds: &Bound<'_, PyDict>) -> PyResult<bool> {
        for name in &self.interface.defaults {
            if feeds.contains(name)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns inputs as values of the types that the model declares.
    fn items(&self, feeds: &Bound<'_, PyDict>) -> PyResult<BTreeMap<String, Item<Tensor>>> {
        let mut inputs = BTreeMap::new();
        for (name, value) in feeds.iter() {
            let name: String = name
                .extract()
                .map_err(|_| invalid(format!("the names of inputs are texts, and {name} is none")))?;
            let ty: Option<&ValueType> = self.interface.input(&name);
            // An optional input that is absent need not be an optional value: ONNX Runtime takes None for both.
            let value = item(&value, ty).map_err(|why| of_input(value.py(), &name, why))?;
            inputs.insert(name, value);
        }
        Ok(inputs)
    }

    fn run_dynamic<'py>(
        &self,
        py: Python<'py>,
        session: &Dynamic,
        asked: Option<&Bound<'py, PyAny>>,
        feeds: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyList>> {
        let names = || self.interface.outputs.iter().map(|(name, _)| name.as_str()).collect();
        let positions = positions(asked, names)?;
        let inputs = self.items(feeds)?;
        let ran = session.with(py, |open| {
            session.tell(open.beyond_buckets(&inputs));
            let outputs = open.run(&inputs)?;
            // What the model gives back as it was given must not be the caller's memory.
            let own = |(_, item): (String, Item<Tensor>)| item.map(&mut Tensor::owned);
            Ok::<Vec<Item<Tensor>>, ovolo::Error>(outputs.into_iter().map(own).collect())
        })?;
        let outputs = ran.map_err(|why| self.asked.asking.error(py, misfit(why)))?;
        let outputs = chosen(outputs, positions.as_deref());
        PyList::new(py, outputs.into_iter().map(|one| object(py, one)).collect::<PyResult<Vec<_>>>()?)
    }
}

/// The exception for an error of a run: inputs that do not fit are the caller's mistake.
fn misfit(why: ovolo::Error) -> PyErr {
    match why {
        ovolo::Error::Onnx(ovolo::onnx::OnnxError::Inputs { .. }) | ovolo::Error::Unequal { .. } => {
            invalid(why)
        }
        other => error(other),
    }
}

/// Returns the values at some positions, or all of them. A value that is asked for once is not shared afterwards, so its bytes
/// need not be copied.
fn chosen<T: Clone>(values: Vec<T>, positions: Option<&[usize]>) -> Vec<T> {
    let Some(positions) = positions else { return values };
    let mut values: Vec<Option<T>> = values.into_iter().map(Some).collect();
    let take = |(at, position): (usize, &usize)| {
        let again = positions[at + 1..].contains(position);
        if again { values[*position].clone() } else { values[*position].take() }
    };
    positions.iter().enumerate().filter_map(take).collect()
}

/// Opens a model, and compiles it if its shapes are fixed.
#[pyfunction]
pub fn open(py: Python<'_>, given: Given) -> PyResult<Session> {
    let asked = given.asked(py)?;
    let made = py.detach(|| {
        let model = &asked.job.settings().model;
        let text = ovolo::graph::text::is_named(model);
        let interface = if text { Ok(None) } else { Interface::read(model).map(Some) };
        let interface = interface.map_err(|why| why.to_string())?;
        asked.job.session().map(|session| (interface, session)).map_err(|why| why.to_string())
    });
    let (interface, session) = made.map_err(|why| asked.error(py, why))?;
    match session {
        Runnable::Fixed(session) => {
            let interface = interface.unwrap_or_else(|| interface::of_plan(session.plan()));
            let ready = Ready::Fixed(Fixed::new(py, session), Mutex::new(None));
            Ok(Session { interface, asked, ready })
        }
        Runnable::Dynamic(session) => {
            let interface = interface.unwrap_or_default();
            Ok(Session { interface, asked, ready: Ready::Dynamic(Dynamic::new(session)) })
        }
    }
}
