//! Which implementations have run with right results, and which ones the native backend has for calls.

use super::guarded::step;
use super::{common, fired};
use libtest_mimic::Failed;
use ovolo::attr::{Attr, AttrKind, Attrs};
use ovolo::backend::Call;
use ovolo::compile::Options;
use ovolo::cost::PriceModel;
use ovolo::graph::{Graph, text};
use ovolo::op::{Arity, Op, REFERENCE, WIDENED};
use ovolo::rule::RuleSet;
use ovolo::tensor::{DType, Tensor, TensorType};
use ovolo_native::Isa;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// An op, and the name of one of its implementations.
type Pair = (&'static str, String);

/// The implementations that have run in this process with right results.
static RAN: Mutex<BTreeSet<Pair>> = Mutex::new(BTreeSet::new());

/// Records that an implementation has run with a right result.
pub fn note(op: Op, implementation: &str) {
    let mut ran = RAN.lock().unwrap_or_else(PoisonError::into_inner);
    ran.insert((op.name, implementation.to_owned()));
}

fn ran() -> BTreeSet<Pair> {
    RAN.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A call with some implementation.
struct Sample {
    op: Op,
    attrs: Attrs,
    inputs: Vec<TensorType>,
    output: TensorType,
}

impl Sample {
    fn new(call: &Call<'_>) -> Self {
        let inputs = call.inputs.iter().map(|&ty| ty.clone()).collect();
        Self { op: call.op, attrs: call.attrs.clone(), inputs, output: call.output.clone() }
    }

    fn bytes(&self) -> usize {
        self.inputs.iter().chain([&self.output]).map(TensorType::bytes).sum()
    }

    /// The same call with another element type instead of `f32`, if the op accepts it.
    fn on(&self, dtype: DType) -> Option<Self> {
        let other = |ty: &TensorType| {
            let dtype = if ty.dtype == DType::F32 { dtype } else { ty.dtype };
            TensorType { dtype, ..ty.clone() }
        };
        let inputs: Vec<TensorType> = self.inputs.iter().map(other).collect();
        let output = self.op.result(&self.attrs, &inputs.iter().collect::<Vec<_>>()).ok()?;
        Some(Self { op: self.op, attrs: self.attrs.clone(), inputs, output })
    }

    /// A call on one image, for ops that take one operand and whose attributes have defaults or are layouts.
    fn on_one_image(op: Op) -> Option<Self> {
        let image = TensorType::plain(DType::F32, [2, 24, 5, 7]);
        let (mut attrs, mut ty) = (Attrs::new(), image.clone());
        for attr in op.attrs.iter().filter(|attr| attr.default.is_none()) {
            // A conversion between two layouts other than the default one.
            attrs = match attr.kind {
                AttrKind::Layout => attrs.with(attr.name, Attr::Layout("nhwc".parse().ok()?)),
                _ => return None,
            };
            ty = image.with_layout("nChw8c".parse().ok()?);
        }
        if !matches!(op.arity, Arity::Exactly(1) | Arity::Post(1)) {
            return None;
        }
        let attrs = op.complete(attrs);
        let output = op.result(&attrs, &[&ty]).ok()?;
        Some(Self { op, attrs, inputs: vec![ty], output })
    }

    /// The implementation that the backend has for the call.
    fn pair(&self) -> Option<Pair> {
        let inputs: Vec<&TensorType> = self.inputs.iter().collect();
        let call =
            Call { op: self.op, attrs: &self.attrs, inputs: &inputs, output: &self.output, threads: THREADS };
        let contract = call.contract().ok()?;
        Some((self.op.name, contract.implementation))
    }

    /// Runs the call on seeded operands and compares the result with the op's reference evaluation.
    fn run(&self) -> Result<(), String> {
        let operand = |(at, ty): (usize, &TensorType)| {
            common::random(&format!("operand {at}"), ty.dtype, &ty.shape).to_layout(&ty.layout)
        };
        let operands: Vec<Tensor> = self.inputs.iter().enumerate().map(operand).collect();
        let operands: Vec<&Tensor> = operands.iter().collect();
        let want = self.op.evaluate(&self.attrs, &operands, &self.output);
        step(self.op, &self.attrs, &operands, &want)
    }
}

/// The number of threads for which contracts are asked.
const THREADS: usize = 2;

/// Calls of kernels that take only sizes which are too large for the example of a rule.
const LARGE: &str = "graph {
    x: f32[3,2,1,64] = input
    w: i8[1,16,64] = const ~1
    z: f32[1,1,1] = const [0.0]
    s: f32[1,1,1] = const [0.015625]
    h: f32[1,2,16] = input
    c: f32[1,2,16] = input
    p = pack(w) {layout: aCB16c4b}
    y = native.lstm-integer(x, p, z, s, h, c) {activations: \"sigmoid 0 0, tanh 0 0, tanh 0 0\"}
    return y
}";

/// Checks that every implementation in a contract of the native backend has run in this process with a right
/// result.
///
/// Contracts are asked for all candidates in the e-graphs of the rules' examples and of `graphs`, and again
/// for the same calls with every other element type. An implementation that no example, case or model has run
/// is run here, on the smallest of its calls.
pub fn every_native_implementation(rules: &RuleSet, graphs: &[Graph]) -> Result<(), Failed> {
    let examples: Vec<Graph> = rules
        .rules()
        .iter()
        .flat_map(|rule| fired(rule).flat_map(|(before, after)| [before, after]).collect::<Vec<_>>())
        .collect();
    let large = text::parse(common::ops(), LARGE).map_err(|error| error.to_string())?;
    let options = common::options(THREADS);
    let mut offered: BTreeMap<Pair, Sample> = BTreeMap::new();
    let mut asked: BTreeMap<String, Sample> = BTreeMap::new();
    for graph in examples.iter().chain([&large]).chain(graphs) {
        ask(graph, &options, &mut |sample| {
            // One call for each op and its layouts is enough to try other types.
            let layouts: Vec<String> = sample.inputs.iter().map(|ty| ty.layout.to_string()).collect();
            let key = format!("{} {}", sample.op, layouts.join(" "));
            keep(&mut asked, key, &sample);
            offer(&mut offered, sample);
        })?;
    }
    for sample in asked.values() {
        for dtype in DType::ALL {
            if let Some(other) = sample.on(dtype) {
                offer(&mut offered, other);
            }
        }
    }
    // Some ops are never candidates by themselves, or not for `f32`: steps of chains, and changes of layout that two
    // others replace.
    for op in common::ops().all().into_iter().filter(|op| op.backend() == Some("native")) {
        if let Some(sample) = Sample::on_one_image(op) {
            offer(&mut offered, sample);
        }
    }
    let before = ran();
    let mut wrong = Vec::new();
    for (pair, sample) in offered.iter().filter(|(pair, _)| !before.contains(*pair)) {
        if let Err(why) = sample.run() {
            wrong.push(format!("`{}` by `{}`: {why}", pair.0, pair.1));
        }
    }
    let ran = ran();
    for op in common::ops().all() {
        if op.backend() == Some("native") && !ran.iter().any(|(name, _)| *name == op.name) {
            wrong.push(format!("no implementation of `{op}` has run"));
        }
    }
    wrong.extend(
        offered.keys().filter(|pair| !ran.contains(*pair)).map(|pair| format!("{pair:?} has not run")),
    );
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// Checks that every op that declares code for AVX-512 has run with it: by an implementation of its own, and by one that
/// is named for AVX-512 if the op names its implementations for instruction sets.
pub fn kernels_for_avx512() -> Result<(), Failed> {
    let name = Isa::Avx512.name();
    let declares = |op: &Op| {
        let lowered = op.lowered.as_ref();
        lowered.is_some_and(|lowered| lowered.declaration.instruction_sets.contains(&name))
    };
    let (ran, mut wrong) = (ran(), Vec::new());
    let declared: Vec<Op> = common::ops().all().into_iter().filter(declares).collect();
    for op in &declared {
        let own = |(of, implementation): &&Pair| {
            *of == op.name && implementation != REFERENCE && !implementation.starts_with(WIDENED)
        };
        let own: Vec<&str> = ran.iter().filter(own).map(|(_, implementation)| &**implementation).collect();
        let is_for = |isa: Isa| own.iter().any(|implementation| implementation.ends_with(isa.name()));
        if own.is_empty() || (is_for(Isa::Portable) || is_for(Isa::Avx2)) && !is_for(Isa::Avx512) {
            wrong.push(format!("`{op}` has not run on {name}, but by {own:?}"));
        }
    }
    match (declared.is_empty(), wrong.is_empty()) {
        (true, _) => Err(format!("no op declares code for {name}").into()),
        (false, true) => Ok(()),
        (false, false) => Err(wrong.join("\n").into()),
    }
}

fn offer(offered: &mut BTreeMap<Pair, Sample>, sample: Sample) {
    if let Some(pair) = sample.pair() {
        keep(offered, pair, &sample);
    }
}

/// Keeps the smaller of two samples.
fn keep<K: Ord>(kept: &mut BTreeMap<K, Sample>, key: K, sample: &Sample) {
    let smaller = kept.get(&key).is_none_or(|known| sample.bytes() < known.bytes());
    if smaller {
        let Sample { op, attrs, inputs, output } = sample;
        let (attrs, inputs, output) = (attrs.clone(), inputs.clone(), output.clone());
        kept.insert(key, Sample { op: *op, attrs, inputs, output });
    }
}

/// Calls `found` with every native call that is a candidate in the e-graph of a graph, or a node of the graph
/// itself.
fn ask(graph: &Graph, options: &Options, found: &mut dyn FnMut(Sample)) -> Result<(), Failed> {
    for (_, node) in graph.nodes().filter(|(_, node)| node.op.backend() == Some("native")) {
        let inputs: Vec<&TensorType> = node.inputs.iter().map(|input| &graph[*input].ty).collect();
        found(Sample::new(&Call {
            op: node.op,
            attrs: &node.attrs,
            inputs: &inputs,
            output: &node.ty,
            threads: THREADS,
        }));
    }
    let saturated = options.saturate(graph).map_err(|error| format!("{graph}\n{error}"))?;
    let found = RefCell::new(found);
    let contracts = |call: &Call<'_>| {
        if call.op.backend() == Some("native") {
            found.borrow_mut()(Sample::new(call));
        }
        call.contract()
    };
    saturated.egraph().problem(&PriceModel::shipped("roofline", options.machine), THREADS, &contracts);
    Ok(())
}
