//! `Loop`, `Scan` and `SequenceMap`: their body is walked once for each iteration.
//!
//! A short repetition with a known number of iterations becomes part of the surrounding region. In a longer one each
//! iteration is a region of its own. All these regions are the same, as the number of the iteration is one of their
//! inputs, so they are compiled once.

mod batch;

use super::control::{enter, truth};
use super::{Binding, Frame, Importer, Kind, Step, Walk, demand_int, emit, refused_node};
use crate::attr::Attrs;
use crate::onnx::call::{axis, signed};
use crate::onnx::document::Operation;
use crate::onnx::proto::{AttributeProto, NodeProto, ValueInfoProto};
use crate::onnx::signature::declared_type;
use crate::onnx::{ImportedValue, OnnxError, Refusal};
use crate::tensor::{DType, Tensor, TensorType};
use std::sync::Arc;

/// The name, in an iteration's scope, of the number of the iteration. No value of a model has this name.
pub(in crate::onnx) const INDEX: &str = "";

/// The state of a repetition at the start of an iteration.
#[derive(Clone, Debug)]
pub(super) struct Repeat {
    form: Form,
    /// The number of the iteration, from 0.
    iteration: usize,
    /// The number of iterations; `None` if only a condition ends them.
    count: Option<usize>,
    /// The values that one iteration hands on to the next.
    carried: Vec<Binding>,
    /// What the iterations take one element of each.
    sources: Vec<Source>,
    /// What the iterations have given up to now, for each of the results that collect something.
    collected: Vec<Vec<Binding>>,
    /// The axis along which each of these results is joined, and whether in the opposite order.
    joins: Vec<(i64, bool)>,
    /// The sequences of a batch, each of which is scanned from a start of its own.
    batch: Option<batch::Batch>,
    /// Whether each iteration is a region of its own.
    pub rolled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Loop,
    Scan,
    Map,
}

/// An operand from which each iteration takes an element.
#[derive(Clone, Debug)]
struct Source {
    value: Binding,
    axis: usize,
    reversed: bool,
}

/// Starts a `Loop`.
pub(super) fn start_loop(
    walk: &Walk,
    operation: &Operation,
    inputs: &[Option<Binding>],
    importer: &mut Importer<'_>,
) -> Result<Step, Refusal> {
    let at = |at: usize| inputs.get(at).and_then(Option::as_ref);
    let limit = at(0).map(|limit| demand_int(importer, limit, "number of iterations")).transpose()?;
    let goes = at(1).map_or(Ok(true), |condition| truth(importer, condition, "condition"))?;
    let count = if goes { limit.map(|limit| usize::try_from(limit).unwrap_or(0)) } else { Some(0) };
    let carried = inputs.iter().skip(2).flatten().cloned().collect();
    let outputs = operation.bodies.first().map_or(0, |(_, body)| body.outputs.len());
    let collecting = (outputs + 1).saturating_sub(inputs.len().max(2));
    start(walk, operation, importer, Form::Loop, count, carried, Vec::new(), vec![(0, false); collecting])
}

/// Starts a `Scan`.
pub(super) fn start_scan(
    walk: &Walk,
    operation: &Operation,
    inputs: &[Option<Binding>],
    importer: &mut Importer<'_>,
) -> Result<Step, Refusal> {
    if operation.opset.is_some_and(|opset| opset < 9) {
        return batch::start(walk, operation, inputs, importer);
    }
    let node = &operation.node;
    let scanned = usize::try_from(int(node, "num_scan_inputs").unwrap_or(0)).unwrap_or(0);
    let states = inputs.len().checked_sub(scanned).filter(|_| scanned > 0).ok_or_else(|| {
        Refusal::attribute(
            "num_scan_inputs",
            format!("is {scanned}, and the node has {} operands", inputs.len()),
        )
    })?;
    let outputs = operation.bodies.first().map_or(0, |(_, body)| body.outputs.len());
    let (axes, directions) = (ints(node, "scan_input_axes"), ints(node, "scan_input_directions"));
    let nth = |list: &[i64], at: usize| list.get(at).copied().unwrap_or(0);
    let (mut sources, mut count) = (Vec::new(), None);
    for (at, input) in inputs[states..].iter().enumerate() {
        let value = input.clone().ok_or(Refusal::Operand(states + at))?;
        let tensor = value.tensor()?;
        let axis = axis(nth(axes, at), tensor.rank())?;
        let length = tensor.dims()[axis];
        if *count.get_or_insert(length) != length {
            let why = format!("the operands that it scans have {} and {length} elements", count.unwrap_or(0));
            return Err(Refusal::other(why));
        }
        sources.push(Source { axis, reversed: nth(directions, at) == 1, value });
    }
    let (axes, directions) = (ints(node, "scan_output_axes"), ints(node, "scan_output_directions"));
    let joins =
        (0..outputs.saturating_sub(states)).map(|at| (nth(axes, at), nth(directions, at) == 1)).collect();
    let carried = inputs[..states].iter().flatten().cloned().collect();
    start(walk, operation, importer, Form::Scan, count, carried, sources, joins)
}

/// Starts a `SequenceMap`.
pub(super) fn start_map(
    walk: &Walk,
    operation: &Operation,
    inputs: &[Option<Binding>],
    importer: &mut Importer<'_>,
) -> Result<Step, Refusal> {
    let first = inputs.first().and_then(Option::as_ref).ok_or(Refusal::Operand(0))?;
    let count = first.sequence()?.len();
    for input in inputs.iter().flatten() {
        if let Binding::Sequence(list) = input
            && list.len() != count
        {
            return Err(Refusal::other(format!("its sequences have {count} and {} elements", list.len())));
        }
    }
    let sources =
        inputs.iter().flatten().map(|value| Source { value: value.clone(), axis: 0, reversed: false });
    let outputs = operation.bodies.first().map_or(0, |(_, body)| body.outputs.len());
    let joins = vec![(0, false); outputs];
    start(walk, operation, importer, Form::Map, Some(count), Vec::new(), sources.collect(), joins)
}

#[allow(clippy::too_many_arguments)] // They are the parts of the state that the three forms make differently.
fn start(
    walk: &Walk,
    operation: &Operation,
    importer: &mut Importer<'_>,
    form: Form,
    count: Option<usize>,
    carried: Vec<Binding>,
    sources: Vec<Source>,
    joins: Vec<(i64, bool)>,
) -> Result<Step, Refusal> {
    let nodes = operation.bodies.first().map_or(0, |(_, body)| body.operations.len());
    let rolled = form != Form::Map && importer.rolls(count, nodes)?;
    let collected = vec![Vec::new(); joins.len()];
    let batch = None;
    let repeat = Repeat { form, iteration: 0, count, carried, sources, collected, joins, batch, rolled };
    if count == Some(0) {
        return repeat.results(walk, operation, importer).map(Step::Results);
    }
    Ok(Step::Enter(Box::new(repeat.frame(walk, operation, importer)?)))
}

impl Importer<'_> {
    /// Returns whether each of `count` iterations, of so many nodes each, is a region of its own. Where their number is not
    /// known, it is, if the walk takes place during a run.
    fn rolls(&self, count: Option<usize>, nodes: usize) -> Result<bool, Refusal> {
        let (Some(iterations), Some(most)) = (count, self.unroll) else { return Ok(self.running) };
        let long = iterations.saturating_mul(nodes) > most;
        if long && !self.running {
            return Err(Refusal::Long { iterations, nodes, most });
        }
        Ok(long)
    }
}

impl Walk {
    /// Handles the end of an iteration: begins the next one, or leaves the repetition.
    pub(super) fn iterated(&mut self, importer: &mut Importer<'_>) -> Result<(), OnnxError> {
        let outputs = self.outputs()?;
        let Some(Frame { kind: Kind::Iteration(repeat), .. }) = self.frames.last() else { return Ok(()) };
        let mut repeat = repeat.clone();
        let Some(parent) = self.frames.len().checked_sub(2).map(|at| &self.frames[at]) else { return Ok(()) };
        let body = Arc::clone(&parent.body);
        let operation = &body.operations[parent.at];
        let refuse = |why: Refusal| refused_node(operation, why);
        let goes = repeat.take(&outputs, importer).map_err(refuse)?;
        self.frames.pop();
        if goes {
            let frame = repeat.frame(self, operation, importer).map_err(refuse)?;
            self.frames.push(frame);
        } else {
            importer.builder.prefix =
                self.frames.last().map_or_else(|| "".into(), |frame| Arc::clone(&frame.prefix));
            let results = repeat.results(self, operation, importer).map_err(refuse)?;
            self.leave(results);
        }
        Ok(())
    }

    /// Binds the elements that an iteration takes of its operands.
    pub(super) fn open(&mut self, importer: &mut Importer<'_>) -> Result<(), OnnxError> {
        let Some(frame) = self.frames.last() else { return Ok(()) };
        let Kind::Iteration(repeat) = &frame.kind else { return Ok(()) };
        let names = frame.body.inputs.iter().skip(repeat.carried.len()).map(|input| input.name.clone());
        let names: Vec<String> = if repeat.form == Form::Loop { Vec::new() } else { names.collect() };
        let index = frame.scope.get(INDEX).cloned();
        let mut bound = Vec::new();
        for (name, source) in names.into_iter().zip(&repeat.sources) {
            let label = format!("{}{name}", frame.prefix);
            let element = source.element(repeat, index.as_ref(), &label, importer).map_err(|why| {
                let node = format!("the iteration that makes `{label}`");
                OnnxError::Node { node, why: Box::new(why), operands: Vec::new() }
            })?;
            bound.push((Arc::from(name.as_str()), element));
        }
        if let Some(frame) = self.frames.last_mut() {
            Arc::make_mut(&mut frame.scope).extend(bound);
        }
        Ok(())
    }
}

impl Repeat {
    /// Returns every value that the state holds.
    pub(super) fn bindings(&mut self) -> impl Iterator<Item = &mut Binding> {
        let sources = self.sources.iter_mut().map(|source| &mut source.value);
        let sequences =
            self.batch.iter_mut().flat_map(|batch| batch.starts.iter_mut().chain(&mut batch.ends).flatten());
        self.carried.iter_mut().chain(sources).chain(self.collected.iter_mut().flatten()).chain(sequences)
    }

    /// Returns the name of the input of a rolled iteration that holds its number.
    pub(super) fn counter<'a>(&self, body: &'a [ValueInfoProto]) -> &'a str {
        match self.form {
            Form::Loop => body.first().map_or(INDEX, |input| &input.name),
            Form::Scan | Form::Map => INDEX,
        }
    }

    /// Takes the outputs of an iteration. Returns whether another one follows.
    fn take(&mut self, outputs: &[Binding], importer: &Importer<'_>) -> Result<bool, Refusal> {
        let mut outputs = outputs.iter();
        let mut goes = true;
        if self.form == Form::Loop {
            let condition = outputs.next().ok_or_else(|| Refusal::other("its body has no outputs"))?;
            goes = truth(importer, condition, "condition")?;
        }
        self.carried = outputs.by_ref().take(self.carried.len()).cloned().collect();
        for (list, output) in self.collected.iter_mut().zip(outputs) {
            list.push(output.clone());
        }
        self.iteration += 1;
        if let Some(batch) = self.batch.as_mut().filter(|batch| self.iteration.is_multiple_of(batch.steps)) {
            batch.ends.push(std::mem::take(&mut self.carried));
            self.carried = batch.starts.pop().unwrap_or_default();
        }
        Ok(goes && self.count.is_none_or(|count| self.iteration < count))
    }

    /// Makes the frame of an iteration.
    fn frame(
        self,
        walk: &Walk,
        operation: &Operation,
        importer: &mut Importer<'_>,
    ) -> Result<Frame, Refusal> {
        let suffix = self.iteration.to_string();
        let mut frame = enter(walk, operation, "body", &suffix, importer, Kind::Main)?;
        let scope = Arc::make_mut(&mut frame.scope);
        let number = |name: &str| {
            #[allow(clippy::cast_possible_wrap)]
            let tensor = Tensor::scalar(self.iteration as i64);
            Binding::Tensor(ImportedValue::constant(format!("{}{name}", frame.prefix), tensor))
        };
        let mut inputs = frame.body.inputs.iter().map(|input| Arc::<str>::from(input.name.as_str()));
        if self.form == Form::Loop {
            let truth = Tensor::from_f64(DType::Bool, [0_usize; 0], &[1.0]);
            let condition = ImportedValue::constant(format!("{}condition", frame.prefix), truth);
            let bound = [number("iteration"), Binding::Tensor(condition)];
            scope.extend(inputs.by_ref().take(2).zip(bound));
        } else {
            scope.insert(INDEX.into(), number("iteration"));
        }
        scope.extend(inputs.zip(self.carried.iter().cloned()));
        frame.cut = self.rolled;
        frame.fresh = true;
        frame.kind = Kind::Iteration(self);
        Ok(frame)
    }

    /// Returns the results of the repetition.
    fn results(
        mut self,
        walk: &Walk,
        operation: &Operation,
        importer: &mut Importer<'_>,
    ) -> Result<Vec<Binding>, Refusal> {
        let mut results = std::mem::take(&mut self.carried);
        if let Some(batch) = &self.batch {
            for at in 0..batch.ends.first().map_or(0, Vec::len) {
                let list: Vec<Binding> = batch.ends.iter().map(|end| end[at].clone()).collect();
                let name = walk.prefix(operation, &format!("ends-{at}"));
                results.push(Binding::Tensor(join(&list, 0, at, operation, &name, importer)?));
            }
        }
        let carried = results.len();
        for (at, mut list) in std::mem::take(&mut self.collected).into_iter().enumerate() {
            if self.form == Form::Map {
                results.push(Binding::Sequence(Arc::new(list)));
                continue;
            }
            let (axis, reversed) = self.joins[at];
            if reversed {
                list.reverse();
            }
            let position = usize::from(self.form == Form::Loop) + carried + at;
            let name = walk.prefix(operation, &format!("joined-{at}"));
            let mut joined = join(&list, axis, position, operation, &name, importer)?;
            if let Some(batch) = &self.batch {
                let dims = [&[batch.ends.len(), batch.steps], &joined.dims()[1..]].concat();
                let attrs = Attrs::new().ints("shape", &signed(&dims));
                joined = emit(importer, &format!("{name}/sequences"), "reshape", attrs, &[&joined])?;
            }
            results.push(Binding::Tensor(joined));
        }
        Ok(results)
    }
}

impl Source {
    /// Returns the element for an iteration.
    fn element(
        &self,
        repeat: &Repeat,
        index: Option<&Binding>,
        name: &str,
        importer: &mut Importer<'_>,
    ) -> Result<Binding, Refusal> {
        let value = match &self.value {
            Binding::Sequence(list) => return Ok(list[repeat.iteration].clone()),
            other if repeat.form == Form::Map => return Ok(other.clone()),
            other => other.tensor()?,
        };
        let Some(Binding::Tensor(index)) = index.filter(|_| repeat.rolled) else {
            let mut starts = vec![0; value.rank()];
            let at = repeat.iteration;
            starts[self.axis] = if self.reversed { value.dims()[self.axis] - 1 - at } else { at };
            let mut sizes = value.dims().to_vec();
            sizes[self.axis] = 1;
            let attrs = Attrs::new()
                .ints("starts", &signed(&starts))
                .ints("sizes", &signed(&sizes))
                .ints("steps", &vec![1; value.rank()]);
            let slice = emit(importer, &format!("{name}/slice"), "slice", attrs, &[value])?;
            sizes.remove(self.axis);
            let attrs = Attrs::new().ints("shape", &signed(&sizes));
            return Ok(Binding::Tensor(emit(importer, name, "reshape", attrs, &[&slice])?));
        };
        let mut index = index.clone();
        if self.reversed {
            // Negative positions count from the end.
            let one = Tensor::scalar(-1_i64);
            let one = ImportedValue::constant(format!("{name}/last"), one);
            index = emit(importer, &format!("{name}/position"), "sub", Attrs::new(), &[&one, &index])?;
        }
        let attrs = Attrs::new().int("axis", i64::try_from(self.axis).unwrap_or(0));
        Ok(Binding::Tensor(emit(importer, name, "gather", attrs, &[value, &index])?))
    }
}

/// Joins what the iterations gave along a new axis.
fn join(
    list: &[Binding],
    at: i64,
    position: usize,
    operation: &Operation,
    name: &str,
    importer: &mut Importer<'_>,
) -> Result<ImportedValue, Refusal> {
    let Some(first) = list.first() else {
        let output = operation.bodies.first().and_then(|(_, body)| body.outputs.get(position));
        let output = output.ok_or_else(|| Refusal::other("its body has too few outputs"))?;
        let (dtype, dims) = declared_type(output)?;
        let size = |dim: &crate::onnx::proto::DimensionProto| {
            dim.dim_value.and_then(|size| usize::try_from(size).ok()).unwrap_or(0)
        };
        let mut dims: Vec<usize> = dims.unwrap_or_default().iter().map(size).collect();
        dims.insert(axis(at, dims.len() + 1)?, 0);
        return Ok(ImportedValue::constant(name, Tensor::zeros(TensorType::plain(dtype, dims))));
    };
    let rank = first.tensor()?.rank();
    let axis = axis(at, rank + 1)?;
    let mut parts = Vec::with_capacity(list.len());
    for (number, part) in list.iter().enumerate() {
        let part = part.tensor()?;
        let mut dims = part.dims().to_vec();
        dims.insert(axis.min(dims.len()), 1);
        let attrs = Attrs::new().ints("shape", &signed(&dims));
        parts.push(emit(importer, &format!("{name}/{number}"), "reshape", attrs, &[part])?);
    }
    let parts: Vec<&ImportedValue> = parts.iter().collect();
    let attrs = Attrs::new().int("axis", i64::try_from(axis).unwrap_or(0));
    emit(importer, name, "concat", attrs, &parts)
}

fn attribute<'a>(node: &'a NodeProto, name: &str) -> Option<&'a AttributeProto> {
    node.attribute.iter().find(|attribute| attribute.name == name)
}

fn int(node: &NodeProto, name: &str) -> Option<i64> {
    attribute(node, name).map(|attribute| attribute.i)
}

fn ints<'a>(node: &'a NodeProto, name: &str) -> &'a [i64] {
    attribute(node, name).map_or(&[], |attribute| &attribute.ints)
}
