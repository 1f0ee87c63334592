//! Models that are imported while they run: one region after the other.
//!
//! The shapes of a region's values follow from the tensors that were computed before it. A region ends with the model,
//! or where the next operator needs elements that the region computes. It is a [`Graph`] like any other, and may be
//! used again for all tensors of the same types, if those whose elements it depends on are equal as well.

use super::builder::{Builder, ImportedValue, Origin};
use super::importer::{Opened, open, swept};
use super::proto::{GraphProto, ModelProto, ValueInfoProto};
use super::signature::{check_given, free_axes, input_types};
use super::walk::{Binding, INDEX, Importer, Scope, Stop, Walk};
use super::{Item, MissingWeights, OnnxError, Tables, UNROLL};
use crate::graph::{Graph, NodeId};
use crate::tensor::Tensor;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A model whose dimensions have no sizes yet.
pub struct Dynamic {
    opened: Opened,
    inputs: Vec<ValueInfoProto>,
    /// The inputs that have a default value.
    defaults: FxHashSet<String>,
    /// The weights with their names, by the identities of their tensors.
    weights: FxHashMap<usize, (Arc<str>, Tensor)>,
    /// The most nodes of a loop that become part of a region.
    unroll: usize,
}

/// A place between two regions of a model. What was computed before it is a list of live tensors.
#[derive(Clone, Debug)]
pub struct Position(Walk);

/// A region of a model.
#[derive(Debug)]
pub struct Region {
    /// Its nodes.
    pub graph: Graph,
    /// The live tensors that are the graph's inputs, by their indices, in the order of the graph's inputs.
    pub inputs: Vec<usize>,
    /// The live tensors whose elements the region depends on, with the names of their values. For other elements there is
    /// another region.
    pub asked: Vec<(usize, Arc<str>)>,
    /// The live tensors after the region.
    pub live: Vec<LiveFrom>,
    /// What comes after the region.
    pub then: Then,
}

/// Where a live tensor after a region comes from.
#[derive(Clone, Debug)]
pub enum LiveFrom {
    /// It is the output of the region's graph with this index.
    Output(usize),
    /// It was live before the region, with this index.
    Before(usize),
    /// It is this constant.
    Constant(Tensor),
}

/// What comes after a region.
#[derive(Clone, Debug)]
pub enum Then {
    /// Another region.
    Cut {
        /// The place where it begins.
        position: Position,
        /// Why the model is cut there.
        why: String,
    },
    /// The end of the model. The outputs are live tensors, by their indices.
    Finished(Vec<(String, Item<usize>)>),
}

impl Dynamic {
    /// Opens a model from a file.
    ///
    /// # Errors
    /// See [`OnnxError`].
    pub fn load(tables: Tables<'_>, path: &Path, weights: MissingWeights) -> Result<Self, OnnxError> {
        let (proto, folder, map) = super::read(path)?;
        Self::open(tables, proto, &path.display().to_string(), folder, map, weights)
    }

    /// Opens a model from memory. `name` is its name in messages. External data is refused.
    ///
    /// # Errors
    /// See [`OnnxError`].
    pub fn from_bytes(
        tables: Tables<'_>,
        bytes: impl Into<prost::bytes::Bytes>,
        name: &str,
    ) -> Result<Self, OnnxError> {
        Self::open(tables, super::decode(bytes.into(), name)?, name, None, None, MissingWeights::Refuse)
    }

    fn open(
        tables: Tables<'_>,
        proto: ModelProto,
        name: &str,
        folder: Option<std::path::PathBuf>,
        map: Option<Arc<memmap2::Mmap>>,
        policy: MissingWeights,
    ) -> Result<Self, OnnxError> {
        let mut reasons = super::error::Reasons::default();
        let inputs = proto.graph.as_ref().map_or_else(Vec::new, |graph| graph.input.clone());
        let opened = open(tables, proto, name, folder, map, policy, &mut reasons)?;
        let Some(opened) = opened else { return Err(reasons.into_error()) };
        reasons.into_result()?;
        let constants = opened.constants.iter();
        let defaults = constants.clone().map(|(name, _)| name.to_string()).collect();
        let weights = constants.filter_map(|(name, value)| match value {
            Binding::Tensor(value) => {
                let tensor = value.known()?;
                Some((tensor.identity(), (Arc::clone(name), tensor.clone())))
            }
            Binding::Sequence(_) | Binding::Maps(..) | Binding::Absent => None,
        });
        let weights = weights.collect();
        Ok(Self { inputs, defaults, weights, opened, unroll: UNROLL })
    }

    /// Sets the most nodes that the iterations of a loop may have together to become part of the region around it, in place
    /// of [`UNROLL`].
    #[must_use]
    pub fn with_unroll(mut self, nodes: usize) -> Self {
        self.unroll = nodes;
        self
    }

    /// Returns the name of the weight whose bytes a tensor has; `None` if it is no weight of the model.
    pub fn weight(&self, tensor: &Tensor) -> Option<&str> {
        self.weights.get(&tensor.identity()).map(|(name, _)| &**name)
    }

    /// Returns the weights with their names, in no particular order.
    pub fn weights(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.weights.values().map(|(name, tensor)| (&**name, tensor))
    }

    /// Returns the names of the inputs, each with whether it must be given.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, bool)> {
        self.inputs.iter().map(|input| (input.name.as_str(), !self.defaults.contains(&input.name)))
    }

    /// Returns the places of a dimension that has a name or no size: the names of inputs, each with an axis.
    pub fn places(&self, dim: &str) -> Vec<(&str, usize)> {
        let mut places = Vec::new();
        for input in &self.inputs {
            let axes = free_axes(input).filter(|(name, _)| name == dim);
            places.extend(axes.map(|(_, axis)| (input.name.as_str(), axis)));
        }
        places
    }

    /// Describes the named dimensions that have several sizes in given inputs: `N` is 2 in `x` and 4 in `y`. ONNX has no rule
    /// against that, and operators may broadcast.
    pub(crate) fn unequal(&self, given: &BTreeMap<String, Item<Tensor>>) -> Vec<String> {
        let mut sizes: BTreeMap<String, Vec<(&str, usize)>> = BTreeMap::new();
        for input in &self.inputs {
            let Some(Item::Tensor(tensor)) = given.get(&input.name) else { continue };
            for (dim, axis) in free_axes(input) {
                if let Some(size) = tensor.ty().shape.get(axis) {
                    sizes.entry(dim).or_default().push((&input.name, *size));
                }
            }
        }
        sizes.retain(|_, places| places.iter().any(|(_, size)| *size != places[0].1));
        let told = |(dim, places): (String, Vec<(&str, usize)>)| {
            let each: Vec<String> =
                places.iter().map(|(input, size)| format!("{size} in `{input}`")).collect();
            format!("dimension `{dim}` is {}", each.join(" and "))
        };
        sizes.into_iter().map(told).collect()
    }

    /// Returns zeros for the inputs that must be given, with these sizes of dimensions.
    ///
    /// # Errors
    /// If a dimension has no size, or if an input is no tensor.
    pub fn zeros(&self, dims: &BTreeMap<String, usize>) -> Result<BTreeMap<String, Item<Tensor>>, OnnxError> {
        let needed = self.inputs.iter().filter(|input| !self.defaults.contains(&input.name));
        let graph = GraphProto { input: needed.cloned().collect(), ..GraphProto::default() };
        let zeros = |(name, ty): (&str, _)| (name.to_owned(), Item::Tensor(Tensor::zeros(ty)));
        Ok(input_types(&graph, dims)?.into_iter().map(zeros).collect())
    }

    /// Returns the start of the model for inputs, and the tensors that are live there.
    ///
    /// # Errors
    /// [`OnnxError::Inputs`] if the inputs do not fit the model.
    pub fn start(
        &self,
        given: &BTreeMap<String, Item<Tensor>>,
    ) -> Result<(Position, Vec<Tensor>), OnnxError> {
        check_given(&self.inputs, &self.defaults, given)?;
        let mut scope: Scope = self.opened.constants.clone();
        let mut live = Vec::new();
        for (name, item) in given {
            scope.insert(name.as_str().into(), bind(name, item, &mut live));
        }
        Ok((Position(Walk::new(Arc::clone(&self.opened.main), scope)), live))
    }

    /// Imports the region that begins at a position, for these live tensors.
    ///
    /// # Errors
    /// See [`OnnxError`].
    pub fn region(
        &self,
        tables: Tables<'_>,
        position: &Position,
        live: &[Tensor],
    ) -> Result<Region, OnnxError> {
        let (weights, taken) = (Arc::clone(&self.opened.weights), self.opened.taken.clone());
        let builder = Builder::new(tables.ops.clone(), weights, taken, live.to_vec());
        let mut importer = Importer { tables, builder, running: true, unroll: Some(self.unroll) };
        let mut walk = position.0.clone();
        let stop = walk.advance(&mut importer, &mut |_, why, _| Err(why))?;
        let mut builder = importer.builder;
        let mut leaving = Leaving::default();
        let then = match stop {
            Stop::Finished(outputs) => {
                let names = self.opened.main.outputs.iter().map(|output| output.name.clone());
                // The walk ends at the first refused node, so no output is absent.
                let outputs = names.zip(outputs).filter_map(|(name, binding)| {
                    binding.map(|binding| (name, leaving.output(&binding, &mut builder)))
                });
                Then::Finished(outputs.collect())
            }
            Stop::Cut(why) => {
                leaving.walk(&mut walk, &mut builder);
                Then::Cut { position: Position(walk), why }
            }
        };
        for (at, node) in leaving.outputs.iter().enumerate() {
            builder.graph.add_output(&at.to_string(), *node);
        }
        let graph = swept(&builder.graph, false);
        let slot = |name: &str| builder.graph.find(name).and_then(|node| builder.slot(node));
        let inputs = graph.inputs().filter_map(|(_, node)| slot(&node.name)).collect();
        Ok(Region { graph, inputs, asked: builder.asked(), live: leaving.live, then })
    }
}

/// Binds an input of the model to live tensors.
fn bind(name: &str, item: &Item<Tensor>, live: &mut Vec<Tensor>) -> Binding {
    match item {
        Item::Tensor(tensor) => {
            live.push(tensor.clone());
            Binding::Tensor(ImportedValue::live(name, tensor.ty().clone(), live.len() - 1))
        }
        Item::Sequence(list) => {
            let element = |(at, item): (usize, &Item<Tensor>)| bind(&format!("{name}/{at}"), item, live);
            Binding::Sequence(Arc::new(list.iter().enumerate().map(element).collect()))
        }
        Item::Maps(keys, rows) => {
            live.push(rows.clone());
            let rows = ImportedValue::live(name, rows.ty().clone(), live.len() - 1);
            Binding::Maps(keys.clone(), rows)
        }
        Item::Absent => Binding::Absent,
    }
}

/// The tensors that are live after a region, and how values refer to them.
#[derive(Default)]
struct Leaving {
    live: Vec<LiveFrom>,
    /// The outputs of the region's graph.
    outputs: Vec<NodeId>,
    /// Indices among the live tensors, by the nodes that compute them.
    by_node: FxHashMap<NodeId, usize>,
    /// Indices among the live tensors, by those before the region.
    by_slot: FxHashMap<usize, usize>,
}

impl Leaving {
    /// Makes a value live after the region, and returns its index.
    fn slot(&mut self, value: &ImportedValue, builder: &Builder) -> Option<usize> {
        let before = match value.origin() {
            Origin::Constant => return None,
            Origin::Live(slot) => Some(slot),
            Origin::Node(node) => builder.slot(node),
        };
        let live = &mut self.live;
        let mut push = |origin| {
            live.push(origin);
            live.len() - 1
        };
        Some(match (before, value.origin()) {
            (Some(slot), _) => *self.by_slot.entry(slot).or_insert_with(|| push(LiveFrom::Before(slot))),
            (None, Origin::Node(node)) => *self.by_node.entry(node).or_insert_with(|| {
                self.outputs.push(node);
                push(LiveFrom::Output(self.outputs.len() - 1))
            }),
            (None, _) => return None,
        })
    }

    /// Makes the tensors of a binding live, and refers to them. Constants stay what they are.
    fn rebind(&mut self, binding: &mut Binding, builder: &Builder) {
        match binding {
            Binding::Tensor(value) | Binding::Maps(_, value) => {
                if let Some(slot) = self.slot(value, builder) {
                    *value = ImportedValue::live(Arc::clone(&value.name), value.ty.clone(), slot);
                }
            }
            Binding::Sequence(list) => {
                Arc::make_mut(list).iter_mut().for_each(|element| self.rebind(element, builder));
            }
            Binding::Absent => {}
        }
    }

    /// Makes what a walk still needs live.
    fn walk(&mut self, walk: &mut Walk, builder: &mut Builder) {
        for frame in &mut walk.frames {
            let (body, at) = (Arc::clone(&frame.body), frame.at);
            let counter = frame.counter().map(str::to_owned);
            let scope = Arc::make_mut(&mut frame.scope);
            scope.retain(|name, _| body.reads_from(at, name) || **name == *INDEX);
            let mut names: Vec<Arc<str>> = scope.keys().cloned().collect();
            names.sort_unstable(); // The order of live tensors must not depend on that of a table.
            for name in names {
                let Some(binding) = scope.get_mut(&name) else { continue };
                let constant = match binding {
                    Binding::Tensor(value) if counter.as_deref() == Some(&*name) => value.known().cloned(),
                    _ => None,
                };
                match (constant, &mut *binding) {
                    (Some(constant), Binding::Tensor(value)) => {
                        self.live.push(LiveFrom::Constant(constant));
                        let (name, ty) = (Arc::clone(&value.name), value.ty.clone());
                        *value = ImportedValue::live(name, ty, self.live.len() - 1);
                    }
                    _ => self.rebind(binding, builder),
                }
            }
            for binding in frame.bindings() {
                self.rebind(binding, builder);
            }
        }
        for (_, value) in &mut walk.resolved {
            let mut binding = Binding::Tensor(value.clone());
            self.rebind(&mut binding, builder);
            if let Binding::Tensor(live) = binding {
                *value = live;
            }
        }
    }

    /// Makes an output of the model live.
    fn output(&mut self, binding: &Binding, builder: &mut Builder) -> Item<usize> {
        let mut tensor = |value: &ImportedValue| {
            self.slot(value, builder).unwrap_or_else(|| {
                // A value that is neither live nor computed is a constant.
                let constant = value.known().cloned();
                self.live
                    .push(LiveFrom::Constant(constant.unwrap_or_else(|| Tensor::zeros(value.ty.clone()))));
                self.live.len() - 1
            })
        };
        match binding {
            Binding::Tensor(value) => Item::Tensor(tensor(value)),
            Binding::Maps(keys, rows) => Item::Maps(keys.clone(), tensor(rows)),
            Binding::Sequence(list) => {
                Item::Sequence(list.iter().map(|element| self.output(element, builder)).collect())
            }
            Binding::Absent => Item::Absent,
        }
    }
}
