//! A graph that is taken apart: values that can be removed, replaced and resized.

use ovolo::attr::{Attr, Attrs};
use ovolo::graph::text::{print_in_full, random};
use ovolo::graph::{Graph, INPUT, Node, NodeId};
use ovolo::op::Op;
use ovolo::tensor::{Tensor, TensorType};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Constants of at most this many elements decide what ops mean (sizes, axes, bounds), so they keep their values.
const SMALL: usize = 16;

/// A graph that is taken apart. Operands come before their users, and every value is needed for an output.
#[derive(Clone, Debug)]
pub struct Sketch {
    values: Vec<Value>,
    outputs: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Value {
    name: Arc<str>,
    ty: TensorType,
    source: Source,
}

/// Where a value comes from.
#[derive(Clone, Debug)]
enum Source {
    Input,
    /// A constant of seeded values.
    Seed(u64),
    Constant(Tensor),
    Call {
        op: Op,
        attrs: Arc<Attrs>,
        operands: Vec<usize>,
    },
}

/// How large a sketch is; calls count first, elements last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    /// Calls of ops.
    pub calls: usize,
    /// Outputs.
    pub outputs: usize,
    /// Values, those of inputs and constants included.
    pub values: usize,
    /// Elements of constants that have to be written out.
    pub written: usize,
    /// Elements of all values.
    pub elements: usize,
}

impl Sketch {
    /// Takes a graph.
    pub fn new(graph: &Graph) -> Self {
        let source = |id: NodeId, node: &Node| match graph.constant(id) {
            Some(tensor) => Source::Constant(tensor.clone()),
            None if node.op == INPUT => Source::Input,
            None => Source::Call {
                op: node.op,
                attrs: Arc::clone(&node.attrs),
                operands: node.inputs.iter().map(|id| id.index()).collect(),
            },
        };
        let value = |(id, node): (NodeId, &Arc<Node>)| Value {
            name: Arc::clone(&node.name),
            ty: node.ty.clone(),
            source: source(id, node),
        };
        let outputs = graph.outputs().map(|(_, id)| id.index()).collect();
        Self { values: graph.nodes().map(value).collect(), outputs }.pruned()
    }

    /// Returns the graph.
    pub fn graph(&self) -> Graph {
        let mut graph = Graph::new();
        let mut ids: Vec<NodeId> = Vec::new();
        for Value { name, ty, source } in &self.values {
            ids.push(match source {
                Source::Input => graph.add_input(name, ty.clone()),
                Source::Seed(seed) => graph.add_constant(name, random(ty, *seed)),
                Source::Constant(tensor) => graph.add_constant(name, tensor.clone()),
                Source::Call { op, attrs, operands } => graph.add_node(Node {
                    op: *op,
                    attrs: Arc::clone(attrs),
                    inputs: operands.iter().map(|at| ids[*at]).collect(),
                    name: Arc::clone(name),
                    ty: ty.clone(),
                }),
            });
        }
        for at in &self.outputs {
            graph.add_output(&self.values[*at].name, ids[*at]);
        }
        graph
    }

    /// Returns the text form, which holds the values of all constants; `None` if a constant has none.
    pub fn text(&self) -> Option<String> {
        let seed = |id: NodeId| match self.values[id.index()].source {
            Source::Seed(seed) => Some(seed),
            _ => None,
        };
        print_in_full(&self.graph(), &seed)
    }

    /// Returns the size.
    pub fn size(&self) -> Size {
        let elements = |value: &Value| value.ty.shape.count();
        let written = |value: &Value| match &value.source {
            Source::Constant(tensor) if !is_splat(tensor) => elements(value),
            _ => 0,
        };
        Size {
            calls: self.calls().count(),
            outputs: self.outputs.len(),
            values: self.values.len(),
            written: self.values.iter().map(written).sum(),
            elements: self.values.iter().map(elements).sum(),
        }
    }

    fn calls(&self) -> impl Iterator<Item = usize> {
        let call = |at: &usize| matches!(self.values[*at].source, Source::Call { .. });
        (0..self.values.len()).filter(call)
    }

    /// Removes outputs. `None` if none would be left.
    pub fn without_outputs(&self, range: Range<usize>) -> Option<Self> {
        let kept = self.outputs.iter().enumerate().filter(|(at, _)| !range.contains(at));
        let outputs: Vec<usize> = kept.map(|(_, output)| *output).collect();
        (!outputs.is_empty()).then(|| Self { outputs, ..self.clone() }.pruned())
    }

    /// Keeps the first calls. Those that no other one of them reads are the outputs.
    pub fn prefix(&self, calls: usize) -> Self {
        let kept: Vec<usize> = self.calls().take(calls).collect();
        let mut read = vec![false; self.values.len()];
        for at in &kept {
            if let Source::Call { operands, .. } = &self.values[*at].source {
                operands.iter().for_each(|operand| read[*operand] = true);
            }
        }
        let outputs = kept.into_iter().filter(|at| !read[*at]).collect();
        Self { outputs, ..self.clone() }.pruned()
    }

    /// Makes some calls inputs. `None` if no output would be the result of a call.
    pub fn opened(&self, range: Range<usize>) -> Option<Self> {
        let mut sketch = self.clone();
        for at in self.calls().skip(range.start).take(range.len()) {
            sketch.values[at].source = Source::Input;
        }
        let values = &sketch.values;
        sketch.outputs.retain(|at| matches!(values[*at].source, Source::Call { .. }));
        (!sketch.outputs.is_empty()).then(|| sketch.pruned())
    }

    /// Puts an operand of the same type in the place of each of some calls. `None` if none of them has one.
    pub fn bypassed(&self, range: Range<usize>) -> Option<Self> {
        let mut sketch = self.clone();
        // What stands for each value. Operands come first, so that chains of calls lead to their beginning.
        let mut instead: Vec<usize> = (0..self.values.len()).collect();
        let chosen: Vec<usize> = self.calls().skip(range.start).take(range.len()).collect();
        for at in 0..self.values.len() {
            let Source::Call { operands, .. } = &mut sketch.values[at].source else { continue };
            operands.iter_mut().for_each(|operand| *operand = instead[*operand]);
            if !chosen.contains(&at) {
                continue;
            }
            let values = &self.values;
            let alike = |operand: &&usize| {
                values[**operand].ty == values[at].ty
                    && !matches!(values[**operand].source, Source::Constant(_))
            };
            if let Some(operand) = operands.iter().find(alike) {
                instead[at] = *operand;
            }
        }
        sketch.outputs = self.outputs.iter().map(|at| instead[*at]).collect();
        sketch.outputs.dedup();
        let values = &sketch.values;
        sketch.outputs.retain(|at| matches!(values[*at].source, Source::Call { .. }));
        let changed = instead.iter().enumerate().any(|(at, other)| at != *other);
        (changed && !sketch.outputs.is_empty()).then(|| sketch.pruned())
    }

    /// Gives seeded values to some of the values that are large constants. `None` if none of them is.
    pub fn seeded(&self, range: Range<usize>) -> Option<Self> {
        let mut sketch = self.clone();
        let mut changed = false;
        for (at, value) in sketch.values.iter_mut().enumerate().take(range.end).skip(range.start) {
            if let Source::Constant(tensor) = &value.source
                && value.ty.shape.count() > SMALL
                && !is_splat(tensor)
                && !value.ty.dtype.is_complex()
                && value.ty.dtype != ovolo::tensor::DType::Text
            {
                value.source = Source::Seed(at as u64);
                changed = true;
            }
        }
        changed.then_some(sketch)
    }

    /// Returns the sizes of dimensions above 1, the largest first.
    pub fn dimensions(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.values.iter().flat_map(|value| value.ty.shape.to_vec()).collect();
        sizes.retain(|size| *size > 1);
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        sizes.dedup();
        sizes
    }

    /// Gives every dimension of one size another size, in inputs, constants and the attributes of calls. `None` if the
    /// types of operands then do not fit, or a small constant would change.
    pub fn resized(&self, from: usize, to: usize) -> Option<Self> {
        let mut sketch = self.clone();
        let whole = |size: usize| i64::try_from(size).ok();
        let (old, new) = (whole(from)?, whole(to)?);
        for at in 0..sketch.values.len() {
            let (before, rest) = sketch.values.split_at_mut(at);
            let Value { ty, source, .. } = &mut rest[0];
            let mapped: Vec<usize> =
                ty.shape.iter().map(|size| if *size == from { to } else { *size }).collect();
            let sized = TensorType { shape: mapped.into(), ..ty.clone() };
            match source {
                Source::Call { op, attrs, operands } => {
                    let types: Vec<&TensorType> = operands.iter().map(|at| &before[*at].ty).collect();
                    let other = Arc::new(with_size(attrs, old, new));
                    let fits = |attrs: &Attrs| (op.infer)(attrs, &types).ok();
                    match fits(&other) {
                        Some(inferred) => (*ty, *attrs) = (inferred, other),
                        None => *ty = fits(attrs)?,
                    }
                }
                Source::Input | Source::Seed(_) => *ty = sized,
                Source::Constant(_) if sized == *ty => {}
                Source::Constant(tensor) if is_splat(tensor) => {
                    let mut resized = Tensor::zeros(sized.clone());
                    let element = tensor.bytes().get(..ty.dtype.size())?.to_vec();
                    resized
                        .bytes_mut()
                        .chunks_mut(element.len())
                        .for_each(|one| one.copy_from_slice(&element));
                    (*ty, *source) = (sized, Source::Constant(resized));
                }
                Source::Constant(_) if ty.shape.count() > SMALL => {
                    (*ty, *source) = (sized, Source::Seed(at as u64))
                }
                Source::Constant(_) => return None,
            }
        }
        Some(sketch)
    }

    /// Removes values that no output needs.
    fn pruned(self) -> Self {
        let mut needed = vec![false; self.values.len()];
        self.outputs.iter().for_each(|at| needed[*at] = true);
        for at in (0..self.values.len()).rev().collect::<Vec<_>>() {
            if let (true, Source::Call { operands, .. }) = (needed[at], &self.values[at].source) {
                operands.iter().for_each(|operand| needed[*operand] = true);
            }
        }
        let mut places = BTreeMap::new();
        let mut values = Vec::new();
        for (at, mut value) in self.values.into_iter().enumerate().filter(|(at, _)| needed[*at]) {
            if let Source::Call { operands, .. } = &mut value.source {
                operands.iter_mut().for_each(|operand| *operand = places[operand]);
            }
            places.insert(at, values.len());
            values.push(value);
        }
        Self { values, outputs: self.outputs.iter().map(|at| places[at]).collect() }
    }
}

/// Returns the attributes with another number where lists of integers have this one.
fn with_size(attrs: &Attrs, from: i64, to: i64) -> Attrs {
    attrs.iter().fold(Attrs::new(), |made, (name, attr)| {
        let attr = match attr {
            Attr::Ints(list) => {
                Attr::Ints(list.iter().map(|one| if *one == from { to } else { *one }).collect())
            }
            other => other.clone(),
        };
        made.with(name, attr)
    })
}

/// Returns whether all elements of a constant are equal.
fn is_splat(tensor: &Tensor) -> bool {
    let size = tensor.ty().dtype.size();
    let first = tensor.bytes().get(..size);
    first.is_some_and(|first| tensor.bytes().chunks(size).all(|element| element == first))
}
