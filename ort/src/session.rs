//! Sessions: models that run.

use crate::argument::Handle;
use crate::identity::Identity;
use crate::model_file::ModelFile;
use crate::options::SessionOptions;
use crate::port::{Port, Ports, position};
use crate::registry::registry;
use crate::status::Failure;
use crate::value::Value;
use ort_sys::{OrtErrorCode, OrtSession};
use ovolo::SessionError;
use ovolo::dynamic::DynamicSession;
use ovolo::onnx::{Interface, Item, OnnxError};
use ovolo::tensor::Tensor;
use ovolo_cli::{Job, Runnable, Settings};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A model that is ready to run. Threads may share it; their runs take turns.
pub struct Session {
    ports: Ports,
    interface: Arc<Interface>,
    ready: Ready,
    /// Weights may lie in the file.
    _file: Option<ModelFile>,
}

enum Ready {
    /// All shapes are fixed, and there is one plan. The inputs are in the order of the plan.
    Fixed(Mutex<Box<ovolo::Session>>, Vec<String>),
    /// It is compiled while it runs.
    Dynamic(Mutex<Box<DynamicSession<'static>>>),
    /// The output is a copy of the input.
    Copy,
}

impl Handle for Session {
    type Sys = OrtSession;
}

impl Session {
    /// Opens a model in memory.
    pub fn from_bytes(
        bytes: &[u8],
        options: &SessionOptions,
        threads: Option<usize>,
    ) -> Result<Self, Failure> {
        if let Some(identity) = Identity::read(bytes)? {
            return Ok(Self {
                ports: identity.ports(),
                interface: Arc::default(),
                ready: Ready::Copy,
                _file: None,
            });
        }
        Self::open(ModelFile::of(bytes)?, options, threads)
    }

    /// Opens a model, and compiles it if its shapes are fixed.
    pub fn open(file: ModelFile, options: &SessionOptions, threads: Option<usize>) -> Result<Self, Failure> {
        let interface = Interface::read(file.path()).map_err(|why| file.named(unread(&why)))?;
        let mut settings = Settings::new(file.path());
        settings.threads = threads;
        settings.dims = options.sizes().iter().map(|(name, size)| format!("{name}={size}")).collect();
        if let Some(pipeline) = options.pipeline() {
            settings.pipeline = pipeline.to_owned();
        }
        let job = Job::new(registry(), settings, options.cached());
        let made = job.session().map_err(|why| file.named(Failure::other(why)))?;
        let ports = Ports::declared(&interface, options.sizes());
        let (ports, ready) = match made {
            Runnable::Dynamic(session) => (ports, Ready::Dynamic(Mutex::new(session))),
            Runnable::Fixed(session) => {
                let plan = session.plan();
                let names = plan.inputs.iter().map(|(name, _)| name.to_string()).collect();
                (ports.planned(plan, &interface), Ready::Fixed(Mutex::new(session), names))
            }
        };
        Ok(Self { ports, interface: Arc::new(interface), ready, _file: Some(file) })
    }

    /// Returns the inputs that must be given.
    pub fn inputs(&self) -> &[Port] {
        &self.ports.inputs
    }

    /// Returns the outputs.
    pub fn outputs(&self) -> &[Port] {
        &self.ports.outputs
    }

    /// Returns what the model declares.
    pub fn interface(&self) -> &Arc<Interface> {
        &self.interface
    }

    /// Runs the model on inputs by their names, and returns the outputs of these names, in their order.
    pub fn run(&self, inputs: &[(&str, &Value)], wanted: &[&str]) -> Result<Vec<Value>, Failure> {
        let places: Vec<usize> =
            wanted.iter().map(|name| position(self.outputs(), "output", name)).collect::<Result<_, _>>()?;
        let mut outputs = match &self.ready {
            Ready::Fixed(session, names) => self.run_fixed(session, names, inputs)?,
            Ready::Dynamic(session) => self.run_dynamic(session, inputs)?,
            Ready::Copy => match inputs {
                [("input", value)] => vec![Some(value.copied())],
                _ => {
                    return Err(Failure::invalid(
                        "a model that copies has one input, which is called `input`",
                    ));
                }
            },
        };
        let mut found: Vec<Value> = Vec::with_capacity(places.len());
        for (at, place) in places.iter().enumerate() {
            let value = match outputs.get_mut(*place).and_then(Option::take) {
                Some(value) => value,
                // It was asked for twice.
                None => match places[..at].iter().position(|before| before == place) {
                    Some(before) => found[before].copied(),
                    None => return Err(Failure::other(format!("the run gave no output `{}`", wanted[at]))),
                },
            };
            found.push(value);
        }
        Ok(found)
    }

    fn run_fixed(
        &self,
        session: &Mutex<Box<ovolo::Session>>,
        names: &[String],
        given: &[(&str, &Value)],
    ) -> Result<Vec<Option<Value>>, Failure> {
        let mut operands = Vec::with_capacity(names.len());
        for wanted in names {
            let Some((name, value)) = given.iter().find(|(name, _)| name == wanted) else { break };
            let Item::Tensor(tensor) = value.operand(name)? else { break };
            operands.push(tensor);
        }
        let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
        if operands.len() != names.len() || given.len() != names.len() {
            return Err(misfit(&session, given));
        }
        let ran = session.run_owned(&operands.iter().collect::<Vec<_>>());
        let outputs = ran.map_err(|why| match why {
            SessionError::InputType { .. } | SessionError::InputCount { .. } => misfit(&session, given),
            other => run_failure(other),
        })?;
        drop(session);
        // A model may give back what it was given.
        drop(operands);
        let value = |tensor| Value::computed(Item::Tensor(tensor), None).map(Some);
        outputs.into_iter().map(value).collect()
    }

    fn run_dynamic(
        &self,
        session: &Mutex<Box<DynamicSession<'static>>>,
        given: &[(&str, &Value)],
    ) -> Result<Vec<Option<Value>>, Failure> {
        let inputs = named(given)?;
        let outputs = {
            let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
            session.run(&inputs).map_err(|why| match why {
                ovolo::Error::Onnx(OnnxError::Inputs { .. }) => Failure::invalid(why),
                other => run_failure(other),
            })?
        };
        drop(inputs);
        let mut values: Vec<Option<Value>> = self.outputs().iter().map(|_| None).collect();
        for (name, item) in outputs {
            if let Some(at) = self.outputs().iter().position(|port| port.name == name) {
                values[at] = Some(Value::computed(item, Some(&self.outputs()[at].ty))?);
            }
        }
        Ok(values)
    }
}

/// Returns inputs by their names.
fn named(given: &[(&str, &Value)]) -> Result<BTreeMap<String, Item<Tensor>>, Failure> {
    let mut inputs = BTreeMap::new();
    for (name, value) in given {
        if inputs.insert((*name).to_owned(), value.operand(name)?).is_some() {
            return Err(Failure::invalid(format!("input `{name}` is given twice; give it once")));
        }
    }
    Ok(inputs)
}

/// Says what is wrong with inputs that do not fit a plan.
fn misfit(session: &ovolo::Session, given: &[(&str, &Value)]) -> Failure {
    match named(given).map(|inputs| Job::inputs(session.plan(), inputs)) {
        Ok(Ok(_)) => Failure::invalid("the inputs do not fit the model"),
        Ok(Err(why)) => Failure::invalid(why),
        Err(failure) => failure,
    }
}

fn run_failure(why: impl std::fmt::Display) -> Failure {
    Failure::new(OrtErrorCode::ORT_RUNTIME_EXCEPTION, why)
}

/// Says why a model cannot be read.
fn unread(why: &OnnxError) -> Failure {
    let code = match why {
        OnnxError::Read { .. } => OrtErrorCode::ORT_NO_SUCHFILE,
        OnnxError::Empty { .. } | OnnxError::Damaged { .. } => OrtErrorCode::ORT_INVALID_PROTOBUF,
        _ => OrtErrorCode::ORT_FAIL,
    };
    Failure::new(code, why)
}
