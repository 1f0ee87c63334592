//! A model that is drawn node by node.

use crate::bench::evaluate;
use crate::model::{Leaf, Model, tensor_proto};
use crate::rng::Rng;
use ovolo::onnx::proto::{AttributeProto, AttributeType, GraphProto, NodeProto};
use ovolo::onnx::{self, ImportOptions};
use ovolo::registry::Registry;
use ovolo::tensor::{DType, Tensor};
use std::collections::BTreeMap;

/// The floating-point types, `f32` mostly.
pub(crate) const FLOATS: &[DType] =
    &[DType::F32, DType::F32, DType::F32, DType::F32, DType::F32, DType::F16, DType::F64];
/// Types of arithmetic that ONNX Runtime has as well.
pub(crate) const NUMBERS: &[DType] =
    &[DType::F32, DType::F32, DType::F32, DType::F32, DType::I32, DType::I64, DType::F16, DType::F64];

/// A value that nodes may read.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub name: String,
    pub dtype: DType,
    pub dims: Vec<usize>,
    /// Whether all elements are finite.
    pub finite: bool,
}

impl Known {
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    pub fn count(&self) -> usize {
        self.dims.iter().product()
    }
}

/// A model that grows.
pub(crate) struct Draft<'r> {
    pub rng: Rng,
    pub model: Model,
    pub pool: Vec<Known>,
    registry: &'r Registry,
    types: BTreeMap<String, DType>,
    /// The kind of values that leaves get.
    edge: bool,
    /// Whether a node was added that nothing can follow, since its type is not known.
    pub closed: bool,
}

impl<'r> Draft<'r> {
    /// Begins a model without nodes.
    pub fn new(registry: &'r Registry, rng: Rng, opset: i64, edge: bool) -> Self {
        let model = Model { opset, ..Model::default() };
        Self { rng, model, pool: Vec::new(), registry, types: BTreeMap::new(), edge, closed: false }
    }

    /// Ends the model: its last values are outputs, and what none of them needs goes.
    pub fn finish(mut self) -> Model {
        self.model.expose(&self.types);
        self.model.sweep();
        if self.model.inputs().next().is_none()
            && let Some(leaf) = self.model.leaves.iter_mut().find(|leaf| leaf.tensor.ty().dtype.is_float())
        {
            leaf.constant = false;
        }
        self.model
    }
}

impl Draft<'_> {
    pub fn opset(&self) -> i64 {
        self.model.opset
    }

    /// Returns a size, seldom zero.
    pub fn size(&mut self) -> usize {
        match self.rng.below(40) {
            0 => 0,
            1..8 => 1,
            8..12 => 8,
            12..14 => 16,
            14 => 17,
            15 => 33,
            _ => 2 + self.rng.below(5),
        }
    }

    pub fn dims(&mut self, rank: usize) -> Vec<usize> {
        let mut dims: Vec<usize> = (0..rank).map(|_| self.size()).collect();
        while dims.iter().product::<usize>() > 4096 {
            let at = self.rng.below(rank);
            dims[at] = 1 + self.rng.below(3);
        }
        dims
    }

    /// Returns a value of one of these types: a known one mostly, or else a new leaf.
    pub fn any(&mut self, types: &[DType], ranks: std::ops::RangeInclusive<usize>) -> Known {
        // Most operators began with floats alone.
        let types = if self.opset() < 7 && types.contains(&DType::F32) { &[DType::F32] } else { types };
        let fits: Vec<Known> = self
            .pool
            .iter()
            .filter(|known| types.contains(&known.dtype) && ranks.contains(&known.rank()))
            .cloned()
            .collect();
        if !fits.is_empty() && self.rng.percent(80) {
            // The newest ones make deeper models.
            let at = fits.len() - 1 - self.rng.below(fits.len().min(3));
            return fits[at].clone();
        }
        let rank = ranks.start() + self.rng.below(ranks.end() - ranks.start() + 1);
        let (dtype, dims) = (self.rng.pick(types), self.dims(rank));
        self.leaf(dtype, &dims)
    }

    /// Returns a value of this type, and of a shape that can be broadcast together with another one.
    pub fn partner(&mut self, dtype: DType, dims: &[usize]) -> Known {
        let fits = |known: &&Known| known.dtype == dtype && broadcast(&known.dims, dims);
        let fits: Vec<Known> = self.pool.iter().filter(fits).cloned().collect();
        if !fits.is_empty() && self.rng.percent(40) {
            return self.rng.pick(&fits);
        }
        let mut dims = dims.to_vec();
        match self.rng.below(6) {
            0 => dims.clear(),
            1 if dims.len() > 1 => drop(dims.drain(..1)),
            2 if dims.len() < 4 => dims.insert(0, 1 + self.rng.below(3)),
            3 => (0..dims.len()).for_each(|at| {
                if self.rng.percent(40) {
                    dims[at] = 1;
                } else if dims[at] == 1 && self.rng.percent(50) {
                    dims[at] = 1 + self.rng.below(4);
                }
            }),
            _ => {}
        }
        self.leaf(dtype, &dims)
    }

    /// Adds a leaf with drawn values: a constant or an input.
    pub fn leaf(&mut self, dtype: DType, dims: &[usize]) -> Known {
        let values: Vec<f64> = (0..dims.iter().product()).map(|_| self.element(dtype)).collect();
        let constant = self.rng.percent(35);
        self.add(Tensor::from_f64(dtype, dims, &values), constant)
    }

    fn element(&mut self, dtype: DType) -> f64 {
        if dtype == DType::Bool {
            return f64::from(u8::from(self.rng.percent(50)));
        }
        if let Some((least, _)) = dtype.integer_range() {
            // Integers at the ends of their types wrap here, and saturate there: `docs/NUMERICS.md`.
            #[allow(clippy::cast_precision_loss)]
            return self.rng.between(if least == 0 { 0 } else { -5 }, 6) as f64;
        }
        if self.edge && self.rng.percent(20) {
            return self.rng.pick(&[
                f64::NAN,
                f64::INFINITY,
                -f64::INFINITY,
                0.0,
                -0.0,
                1e15,
                -1e-15,
                60000.0,
            ]);
        }
        match self.rng.below(8) {
            0 => (self.rng.unit() * 8.0).floor() - 4.0,
            _ => self.rng.unit() * 4.0 - 2.0,
        }
    }

    /// Adds a leaf of finite values, which other nodes may read: weights, slopes and their kind. What an infinite one gives
    /// depends on whether padding is multiplied, and on the order of factors.
    pub fn weights(&mut self, dtype: DType, dims: &[usize]) -> Known {
        let edge = std::mem::take(&mut self.edge);
        let leaf = self.leaf(dtype, dims);
        self.edge = edge;
        leaf
    }

    /// Adds a leaf with these values.
    pub fn add(&mut self, tensor: Tensor, constant: bool) -> Known {
        let known = Known {
            name: format!("{}{}", if constant { 'c' } else { 'x' }, self.model.leaves.len()),
            dtype: tensor.ty().dtype,
            dims: tensor.ty().shape.to_vec(),
            finite: finite(&tensor),
        };
        self.model.leaves.push(Leaf { name: known.name.clone(), tensor, constant });
        self.pool.push(known.clone());
        known
    }

    /// Adds a constant list of 64-bit integers, which is not for other nodes.
    pub fn ints(&mut self, values: &[i64]) -> String {
        self.hidden(Tensor::from_elements([values.len()], values))
    }

    /// Adds a constant, which is not for other nodes.
    pub fn hidden(&mut self, tensor: Tensor) -> String {
        let name = self.add(tensor, true).name;
        self.pool.pop();
        name
    }

    /// Adds a constant of one element without dimensions, which is not for other nodes.
    pub fn scalar(&mut self, dtype: DType, value: f64) -> String {
        self.hidden(Tensor::from_f64(dtype, [0_usize; 0], &[value]))
    }

    /// Adds an input or a constant of these texts.
    pub fn texts(&mut self, dims: &[usize], texts: &[&str]) -> Known {
        let constant = self.rng.percent(35);
        self.add(Tensor::from_texts(dims, texts), constant)
    }

    /// Adds a node whose results are no tensors, and that only nodes of the same family may read; returns their names.
    pub fn step(
        &mut self,
        op: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
        results: usize,
    ) -> Vec<String> {
        let output: Vec<String> =
            (0..results).map(|at| format!("s{}_{at}", self.model.nodes.len())).collect();
        self.model.nodes.push(NodeProto {
            op_type: op.to_owned(),
            input: inputs.iter().map(|&name| name.to_owned()).collect(),
            output: output.clone(),
            attribute: attributes,
            ..NodeProto::default()
        });
        output
    }

    /// Adds a node with results of these element types, whose shapes ovolo infers. If it refuses the node, nothing
    /// follows it. An input without a name is left out. An operator that is not ONNX's own has its domain in front.
    pub fn node(
        &mut self,
        op: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
        results: &[DType],
    ) -> Option<()> {
        let mut input: Vec<String> = inputs.iter().map(|&name| name.to_owned()).collect();
        while input.last().is_some_and(String::is_empty) {
            input.pop();
        }
        let number = self.model.nodes.len();
        let output: Vec<String> = (0..results.len()).map(|at| format!("n{number}_{at}")).collect();
        let (domain, name) = op.rsplit_once('.').unwrap_or(("", op));
        self.model.nodes.push(NodeProto {
            op_type: name.to_owned(),
            domain: domain.to_owned(),
            input,
            output: output.clone(),
            attribute: attributes,
            ..NodeProto::default()
        });
        self.types.extend(output.iter().cloned().zip(results.iter().copied()));
        let alone = Model {
            outputs: output.iter().cloned().zip(results.iter().copied()).collect(),
            ..self.model.clone()
        };
        let imported =
            onnx::from_bytes(self.registry.onnx(), alone.bytes(), "draft", &ImportOptions::default());
        let Ok(imported) = imported else {
            self.closed = true;
            return Some(());
        };
        let inputs: Vec<Tensor> = alone.inputs().map(|leaf| leaf.tensor.clone()).collect();
        for ((_, value), name) in evaluate(&imported.graph, &inputs, None).iter().zip(output) {
            let (dtype, dims) = (value.ty().dtype, value.ty().shape.to_vec());
            self.pool.push(Known { name, dtype, dims, finite: finite(value) });
        }
        Some(())
    }
}

/// Returns whether all elements are finite.
fn finite(tensor: &Tensor) -> bool {
    !tensor.ty().dtype.is_float() || tensor.to_f64().iter().all(|value| value.is_finite())
}

/// Returns whether shapes can be broadcast together.
fn broadcast(one: &[usize], other: &[usize]) -> bool {
    one.iter().rev().zip(other.iter().rev()).all(|(a, b)| a == b || *a == 1 || *b == 1)
}

/// Makes an attribute that is an integer.
pub fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto { i: value, ..attribute(name, AttributeType::Int) }
}

/// Makes an attribute that is a list of integers.
pub fn list(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto { ints: values.to_vec(), ..attribute(name, AttributeType::Ints) }
}

/// Makes an attribute that is a float.
#[allow(clippy::cast_possible_truncation)]
pub fn float(name: &str, value: f64) -> AttributeProto {
    AttributeProto { f: value as f32, ..attribute(name, AttributeType::Float) }
}

/// Makes an attribute that is a text.
pub fn text(name: &str, value: &str) -> AttributeProto {
    AttributeProto { s: value.as_bytes().to_vec().into(), ..attribute(name, AttributeType::String) }
}

/// Makes an attribute that is a list of floats.
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn floats(name: &str, values: &[f64]) -> AttributeProto {
    let floats = values.iter().map(|value| *value as f32).collect();
    AttributeProto { floats, ..attribute(name, AttributeType::Floats) }
}

/// Makes an attribute that is a list of texts.
pub(crate) fn texts(name: &str, values: &[&str]) -> AttributeProto {
    let strings = values.iter().map(|value| value.as_bytes().to_vec().into()).collect();
    AttributeProto { strings, ..attribute(name, AttributeType::Strings) }
}

/// Makes an attribute that is a tensor.
pub(crate) fn tensor(name: &str, value: &Tensor) -> AttributeProto {
    AttributeProto { t: Some(tensor_proto(name, value)), ..attribute(name, AttributeType::Tensor) }
}

/// Makes an attribute that is a graph.
pub(crate) fn graph(name: &str, value: GraphProto) -> AttributeProto {
    AttributeProto { g: Some(Box::new(value)), ..attribute(name, AttributeType::Graph) }
}

fn attribute(name: &str, kind: AttributeType) -> AttributeProto {
    AttributeProto { name: name.to_owned(), r#type: kind.into(), ..AttributeProto::default() }
}
