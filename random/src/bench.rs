//! Runs a model in pipelines, and holds the results to the reference evaluation and to ONNX Runtime's.

use crate::compare::difference;
use crate::model::{Leaf, Model};
use crate::rng::Rng;
use crate::runtime::{Answer, Runtime};
use ovolo::compile::{self, Options};
use ovolo::cost::pricing::ByFlops;
use ovolo::dynamic::DynamicSession;
use ovolo::graph::{CONST, Graph, INPUT};
use ovolo::onnx::{self, Dynamic, ImportOptions, Item};
use ovolo::pass::pipeline::Pipeline;
use ovolo::registry::Registry;
use ovolo::rule::RuleSet;
use ovolo::session::Session;
use ovolo::tensor::{DType, Tensor};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The most time that one model may take in all pipelines.
const PATIENCE: Duration = Duration::from_secs(60);

/// Operators for which ONNX Runtime is not asked, with what it computes instead: `docs/CONFORMANCE.md`.
const UNLIKE: [(&str, &str); 1] = [(
    "com.microsoft.QLinearSoftmax",
    "it cuts off what is beyond a whole number, where its other operators round",
)];

/// The number of evaluations under rounding. A tie before a step to whole numbers goes the same way in all of them in one
/// of two billion models.
const NOISES: u64 = 32;

/// What is wrong with a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Ovolo refuses what ONNX Runtime runs.
    Refused,
    /// It has no program for a pipeline.
    Uncompiled,
    /// A run fails.
    Failed,
    /// Something panics.
    Panicked,
    /// It does not end within a minute.
    Endless,
    /// A pipeline departs from the reference evaluation.
    Wrong,
    /// The reference evaluation and ONNX Runtime depart from each other.
    Apart,
}

/// A failure: what is wrong, and how it shows.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What is wrong.
    pub kind: Kind,
    /// How it shows, in one line.
    pub what: String,
}

impl Failure {
    fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into() }
    }
}

/// What came of a model.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// All agree.
    Right,
    /// Pipelines agree with the reference evaluation; ONNX Runtime cannot run the model.
    Alone(String),
    /// Neither ovolo nor, where it was asked, ONNX Runtime takes the model.
    Invalid(String),
    /// Something is wrong.
    Wrong(Failure),
}

/// A place where models are run.
#[derive(Clone)]
pub struct Bench {
    registry: Arc<Registry>,
    pipelines: Vec<(String, Arc<(RuleSet, String)>)>,
}

/// The results of a model, or why there are none.
type Results = Result<Vec<(String, Tensor)>, Failure>;

/// The results of a model, and its graph with constants as inputs; the graph is absent where shapes depend on a run.
struct Expected {
    values: Vec<(String, Tensor)>,
    graph: Option<(Graph, Vec<Tensor>)>,
}

/// The reason why a bench cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A backend does not fit the registry.
    #[error(transparent)]
    Registry(#[from] ovolo::RegistryError),
    /// The shipped rules do not read.
    #[error("{0}")]
    Rules(ovolo::Diagnostics),
    /// No shipped pipeline has this name.
    #[error("there is no pipeline `{0}`")]
    Pipeline(String),
}

impl Bench {
    /// Makes a bench with the backends of the host, for shipped pipelines.
    ///
    /// # Errors
    /// If a pipeline does not exist, or the shipped rules do not read.
    pub fn new(pipelines: &[&str]) -> Result<Self, BenchError> {
        let mut registry = Registry::new();
        ovolo_native::register(&mut registry)?;
        ovolo_onednn::register(&mut registry)?;
        let rules = registry.rule_set().map_err(BenchError::Rules)?;
        let one = |name: &&str| {
            let (_, text) =
                registry.pipeline(name).ok_or_else(|| BenchError::Pipeline((*name).to_owned()))?;
            Ok(((*name).to_owned(), Arc::new((rules.clone(), text.to_owned()))))
        };
        let pipelines = pipelines.iter().map(one).collect::<Result<_, BenchError>>()?;
        Ok(Self { registry: Arc::new(registry), pipelines })
    }

    /// Returns the registry.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the outputs of a model in each pipeline, in the order of the model's outputs.
    ///
    /// # Errors
    /// What is wrong with the first pipeline that has none.
    pub fn outputs(&self, model: &Model) -> Result<Vec<Vec<Tensor>>, Failure> {
        let one = |(_, pipeline): &(String, Arc<(RuleSet, String)>)| {
            Ok(self.run(model, pipeline)?.into_iter().map(|(_, tensor)| tensor).collect())
        };
        self.pipelines.iter().map(one).collect()
    }

    /// Runs a model in all pipelines, and in ONNX Runtime if it is given.
    pub fn judge(&self, model: &Model, runtime: Option<&mut Runtime>) -> Verdict {
        let operators = model.operators();
        let unlike = UNLIKE.iter().find(|(name, _)| operators.contains(*name));
        let answer = runtime.map(|runtime| match unlike {
            Some((_, why)) => Answer::Refused((*why).to_owned()),
            None => runtime.run(model),
        });
        let (sender, receiver) = channel();
        let (bench, own) = (self.clone(), model.clone());
        let asked = answer.clone();
        // A model that never ends must not stop the others: its thread is left alone.
        std::thread::spawn(move || {
            let judged = catch_unwind(AssertUnwindSafe(|| bench.alone(&own, asked.as_ref())));
            let judged = judged.unwrap_or_else(|payload| {
                let text = payload.downcast_ref::<String>().cloned();
                let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                Verdict::Wrong(Failure::new(Kind::Panicked, text.unwrap_or_default()))
            });
            let _ = sender.send(judged);
        });
        match receiver.recv_timeout(PATIENCE) {
            Ok(verdict) => verdict,
            Err(RecvTimeoutError::Timeout) => {
                Verdict::Wrong(Failure::new(Kind::Endless, format!("it takes more than {PATIENCE:?}")))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Verdict::Wrong(Failure::new(Kind::Panicked, "its thread is gone"))
            }
        }
    }

    fn alone(&self, model: &Model, answer: Option<&Answer>) -> Verdict {
        let expected = match self.expected(model) {
            Ok(expected) => expected,
            Err(failure) if failure.kind == Kind::Refused => {
                return match answer {
                    Some(Answer::Values(_)) => Verdict::Wrong(failure),
                    _ => Verdict::Invalid(failure.what),
                };
            }
            Err(failure) => return Verdict::Wrong(failure),
        };
        let mut near = None;
        let under_rounding = || self.under_rounding(model, &expected);
        for (name, pipeline) in &self.pipelines {
            let got = match self.run(model, pipeline) {
                Ok(got) => got,
                Err(failure) => {
                    return Verdict::Wrong(Failure::new(
                        failure.kind,
                        format!("pipeline `{name}`: {}", failure.what),
                    ));
                }
            };
            if let Some(why) = differ(&got, &expected, &mut near, &under_rounding) {
                return Verdict::Wrong(Failure::new(Kind::Wrong, format!("pipeline `{name}`: {why}")));
            }
        }
        match answer {
            None => Verdict::Right,
            Some(Answer::Refused(why)) => Verdict::Alone(why.clone()),
            Some(Answer::Values(values)) => match differ(values, &expected, &mut near, &under_rounding) {
                Some(why) => Verdict::Wrong(Failure::new(Kind::Apart, format!("ONNX Runtime: {why}"))),
                None => Verdict::Right,
            },
        }
    }

    /// Evaluates a model by the ops' reference evaluation; one whose shapes depend on the run by the first pipeline.
    fn expected(&self, model: &Model) -> Result<Expected, Failure> {
        let options = ImportOptions::default();
        match onnx::from_bytes(self.registry.onnx(), model.bytes(), "random", &options) {
            Ok(imported) => {
                let inputs = |model: &Model| model.inputs().map(|leaf| leaf.tensor.clone()).collect();
                let own: Vec<Tensor> = inputs(model);
                let values = evaluate(&imported.graph, &own, None);
                // What is computed from constants while importing has no steps that rounding could change.
                let opened = opened(model);
                let graph = onnx::from_bytes(self.registry.onnx(), opened.bytes(), "random", &options)
                    .map_or((imported.graph, own), |imported| (imported.graph, inputs(&opened)));
                Ok(Expected { values, graph: Some(graph) })
            }
            Err(error) if error.is_dynamic() => {
                let (_, pipeline) = &self.pipelines[0];
                Ok(Expected { values: self.regions(model, pipeline)?, graph: None })
            }
            Err(error) => Err(Failure::new(Kind::Refused, error.to_string().replace('\n', " "))),
        }
    }

    /// Returns what a model's outputs are under rounding: in each evaluation, all floats that a run computes are changed a
    /// little, or those that it is given, if its shapes depend on the run.
    fn under_rounding(&self, model: &Model, expected: &Expected) -> Vec<Vec<(String, Tensor)>> {
        let seeds = 1..=NOISES;
        match &expected.graph {
            Some((graph, inputs)) => seeds.map(|seed| evaluate(graph, inputs, Some(seed))).collect(),
            None => {
                let (_, pipeline) = &self.pipelines[0];
                // A model that a changed number makes invalid says nothing about rounding.
                seeds.filter_map(|seed| self.regions(&noisy(model, seed), pipeline).ok()).collect()
            }
        }
    }

    /// Returns the compile options of a pipeline, under the nominal cost model, which chooses the same on any machine.
    fn options(&self, (rules, text): &(RuleSet, String)) -> Result<Options, Failure> {
        let mut pipeline = Pipeline::read(&self.registry.scope(), "random", text)
            .map_err(|error| Failure::new(Kind::Uncompiled, error.to_string()))?;
        if let Some(extract) = pipeline.extract_mut() {
            extract.cost = Arc::new(ByFlops);
        }
        Ok(Options::from_parts(&self.registry, rules.clone(), pipeline))
    }

    fn session(&self, graph: Graph, options: &Options) -> Result<Session, ovolo::Error> {
        let compilation = compile::compile(graph, options)?;
        Ok(Session::new(&compilation.program, compilation.plan, self.registry.backends())?)
    }

    fn run(&self, model: &Model, pipeline: &(RuleSet, String)) -> Results {
        let options = ImportOptions::default();
        let imported = match onnx::from_bytes(self.registry.onnx(), model.bytes(), "random", &options) {
            Ok(imported) => imported,
            Err(error) if error.is_dynamic() => return self.regions(model, pipeline),
            Err(error) => return Err(Failure::new(Kind::Refused, error.to_string())),
        };
        let names: Vec<String> = imported.graph.outputs().map(|(name, _)| name.to_string()).collect();
        let mut session = self
            .session(imported.graph, &self.options(pipeline)?)
            .map_err(|error| Failure::new(Kind::Uncompiled, error.to_string()))?;
        let inputs: Vec<&Tensor> = model.inputs().map(|leaf| &leaf.tensor).collect();
        let outputs = session.run(&inputs).map_err(|error| Failure::new(Kind::Failed, error.to_string()))?;
        Ok(names.into_iter().zip(outputs.iter().cloned()).collect())
    }

    /// Runs a model whose shapes depend on the run, region by region.
    fn regions(&self, model: &Model, pipeline: &(RuleSet, String)) -> Results {
        let options = self.options(pipeline)?;
        let dynamic = Dynamic::from_bytes(self.registry.onnx(), model.bytes(), "random")
            .map_err(|error| Failure::new(Kind::Refused, error.to_string()))?
            .with_unroll(options.pipeline.unroll);
        let compile: ovolo::dynamic::Compile<'_> = Arc::new(|request| {
            let session = self.session(request.graph.clone(), &options)?;
            Ok(ovolo::dynamic::Compiled { session, cached: false })
        });
        let mut session = DynamicSession::new(dynamic, &self.registry, compile)
            .map_err(|error| Failure::new(Kind::Failed, error.to_string()))?;
        let outputs =
            session.run(&model.given()).map_err(|error| Failure::new(Kind::Failed, error.to_string()))?;
        let tensors = outputs.into_iter().filter_map(|(name, item)| match item {
            Item::Tensor(tensor) => Some((name, tensor)),
            _ => None,
        });
        Ok(tensors.collect())
    }

    /// Returns the value of every node of a model by its name, if its shapes are fixed.
    pub(crate) fn values(&self, model: &Model) -> Vec<(String, Tensor)> {
        let imported =
            onnx::from_bytes(self.registry.onnx(), model.bytes(), "random", &ImportOptions::default());
        let Ok(imported) = imported else { return Vec::new() };
        let inputs: Vec<Tensor> = model.inputs().map(|leaf| leaf.tensor.clone()).collect();
        let values = all(&imported.graph, &inputs, None);
        imported.graph.nodes().map(|(id, node)| (node.name.to_string(), values[id.index()].clone())).collect()
    }
}

/// Returns the first difference between outputs and what is expected. The values under rounding are computed only where
/// there is one at first sight.
fn differ(
    got: &[(String, Tensor)],
    expected: &Expected,
    near: &mut Option<Vec<Vec<(String, Tensor)>>>,
    under_rounding: &dyn Fn() -> Vec<Vec<(String, Tensor)>>,
) -> Option<String> {
    for (at, (name, want)) in expected.values.iter().enumerate() {
        let Some((_, value)) = got.get(at) else { return Some(format!("it has no output `{name}`")) };
        if difference(value, want, &[]).is_none() {
            continue;
        }
        let near = near.get_or_insert_with(under_rounding).iter().filter_map(|values| values.get(at));
        let near: Vec<Tensor> = near
            .map(|(_, value)| value.clone())
            .filter(|value| value.ty().shape == want.ty().shape)
            .collect();
        if let Some(why) = difference(value, want, &near) {
            return Some(format!("output `{name}`: {why}"));
        }
    }
    None
}

/// Evaluates the outputs of a graph, as [`all`] does.
pub(crate) fn evaluate(graph: &Graph, inputs: &[Tensor], noise: Option<u64>) -> Vec<(String, Tensor)> {
    let values = all(graph, inputs, noise);
    graph.outputs().map(|(name, id)| (name.to_string(), values[id.index()].clone())).collect()
}

/// Evaluates every node of a graph. With a seed of noise every float is changed on the way, by about as much as other
/// orders of computation would change it.
fn all(graph: &Graph, inputs: &[Tensor], noise: Option<u64>) -> Vec<Tensor> {
    let mut rng = noise.map(Rng::new);
    let mut values: Vec<Tensor> = Vec::new();
    let mut inputs = inputs.iter();
    for (id, node) in graph.nodes() {
        let value = if node.op == INPUT {
            inputs.next().cloned()
        } else if node.op == CONST {
            graph.constant(id).cloned()
        } else {
            let operands: Vec<&Tensor> = node.inputs.iter().map(|input| &values[input.index()]).collect();
            Some(node.op.evaluate(&node.attrs, &operands, &node.ty))
        };
        let value = value.unwrap_or_else(|| Tensor::zeros(node.ty.clone()));
        values.push(match &mut rng {
            Some(rng) if value.ty().dtype.is_float() && node.ty.layout.is_plain() => {
                let by = if value.ty().dtype.size() < 4 { 5e-4 } else { 3e-7 };
                let noisy: Vec<f64> = value
                    .to_f64()
                    .iter()
                    .map(|value| value * (1.0 + by * (2.0 * rng.unit() - 1.0)))
                    .collect();
                Tensor::from_f64(value.ty().dtype, value.ty().shape.clone(), &noisy)
            }
            _ => value,
        });
    }
    values
}

/// Returns a model whose constants are inputs, but for those that may decide shapes.
fn opened(model: &Model) -> Model {
    let mut model = model.clone();
    for leaf in model.leaves.iter_mut().filter(|leaf| leaf.tensor.ty().dtype != DType::I64) {
        leaf.constant = false;
    }
    model
}

/// Returns a model whose inputs are off by rounding, and so are constants of one element, such as the scales of levels. Other
/// constants may decide shapes, and stay.
fn noisy(model: &Model, seed: u64) -> Model {
    let mut rng = Rng::new(seed);
    let mut model = model.clone();
    let changes = |leaf: &&mut Leaf| {
        let ty = leaf.tensor.ty();
        ty.dtype.is_float() && (!leaf.constant || ty.shape.count() == 1)
    };
    for leaf in model.leaves.iter_mut().filter(changes) {
        let by = if leaf.tensor.ty().dtype.size() < 4 { 5e-4 } else { 3e-7 };
        let noisy: Vec<f64> =
            leaf.tensor.to_f64().iter().map(|value| value * (1.0 + by * (2.0 * rng.unit() - 1.0))).collect();
        leaf.tensor = Tensor::from_f64(leaf.tensor.ty().dtype, leaf.tensor.ty().shape.clone(), &noisy);
    }
    model
}
