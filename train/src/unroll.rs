//! Recurrent layers, step by step: one op has a whole sequence, and no rule of the table of derivatives can say a sequence
//! of operations whose length is a size.

use super::builder::Builder;
use super::error::TrainError;
use ovolo::attr::Attrs;
use ovolo::graph::{Graph, Node, NodeId};
use ovolo::op::Ops;
use ovolo::op::recurrent::{Activation, Cell, Layer};
use ovolo::tensor::TensorType;

/// Returns a graph in which each recurrent layer is written out by its definition. Layers with lengths of their sequences,
/// and those that round their state, stay as they are.
///
/// # Errors
/// An op cannot be applied, which is a mistake here.
pub(crate) fn unrolled(ops: &Ops, graph: Graph) -> Result<Graph, TrainError> {
    let layer = |node: &Node| {
        let cell = Cell::of(node.op.name)?;
        let types: Vec<&TensorType> = node.inputs.iter().map(|input| &graph[*input].ty).collect();
        let layer = Layer::new(cell, &node.attrs, &types).ok()?;
        (layer.lengths.is_none() && !layer.rounded && layer.steps > 0).then_some(layer)
    };
    if !graph.nodes().any(|(_, node)| layer(node).is_some()) {
        return Ok(graph);
    }
    let mut builder = Builder::new(ops, Graph::new());
    let mut ids: Vec<NodeId> = Vec::with_capacity(graph.len());
    for (id, node) in graph.nodes() {
        let inputs: Vec<NodeId> = node.inputs.iter().map(|input| ids[input.index()]).collect();
        ids.push(match (graph.constant(id), layer(node)) {
            (Some(value), _) => builder.constant(&node.name, value.clone()),
            (None, _) if node.op.is_leaf() => builder.input(&node.name, node.ty.clone()),
            (None, Some(layer)) => {
                Unroll { builder: &mut builder, name: &node.name, layer: &layer, inputs: &inputs }.whole()?
            }
            (None, None) => builder.copy(node, inputs),
        });
    }
    let mut result = builder.into_graph();
    for (name, id) in graph.outputs() {
        result.add_output(name, ids[id.index()]);
    }
    Ok(result)
}

/// One layer that is written out. Values of one step are matrices with a row for each sequence.
struct Unroll<'a, 'b> {
    builder: &'a mut Builder<'b>,
    name: &'a str,
    layer: &'a Layer,
    inputs: &'a [NodeId],
}

/// The values of one direction that are the same in each step.
struct Direction {
    at: usize,
    /// The weights of all gates, `[H, gates * H]`.
    weights: NodeId,
    /// The weights of the memory, or the bias inside of the reset gate, as a row.
    extra: Option<NodeId>,
}

type Made = Result<NodeId, TrainError>;

impl Unroll<'_, '_> {
    /// Adds the states after all steps, and then the final ones: `[S + n, D, B, H]`.
    fn whole(mut self) -> Made {
        let (steps, finals) = (self.layer.steps, self.layer.cell.finals());
        let mut directions = Vec::with_capacity(self.layer.directions);
        for direction in 0..self.layer.directions {
            directions.push(self.direction(direction)?);
        }
        let mut rows = Vec::with_capacity(steps + finals);
        for row in 0..steps + finals {
            let parts = directions.iter().map(|direction| direction[row]).collect();
            rows.push(self.joined("states", 1, parts)?);
        }
        match rows[..] {
            [row] => Ok(row),
            _ => self.builder.named(self.name, "concat", Attrs::new().int("axis", 0), rows),
        }
    }

    /// Adds one direction: the state at each position, and the final ones, each as `[1, 1, B, H]`.
    fn direction(&mut self, at: usize) -> Result<Vec<NodeId>, TrainError> {
        let Layer { cell, steps, batch, hidden, .. } = *self.layer;
        let gates = cell.gates() * hidden;
        let part = |this: &mut Self, operand: usize, rows: usize, columns: usize| {
            let value = this.inputs[operand];
            this.part(value, &[at, 0, 0], &[1, rows, columns], &[rows, columns])
        };
        let weights = part(self, 1, gates, hidden)?;
        let weights = self.op("transpose", Attrs::new().sizes("perm", &[1, 0]), vec![weights])?;
        let extra = match self.layer.extra {
            Some(operand) => {
                let (value, width) =
                    (self.inputs[operand], if cell == Cell::Lstm { 3 * hidden } else { hidden });
                Some(self.part(value, &[at, 0], &[1, width], &[1, width])?)
            }
            None => None,
        };
        let own = Direction { at, weights, extra };
        let mut state = part(self, 2, batch, hidden)?;
        let mut memory = if cell == Cell::Lstm { Some(part(self, 3, batch, hidden)?) } else { None };
        let mut states = vec![state; steps];
        for step in 0..steps {
            let time = if self.layer.is_reversed(at) { steps - 1 - step } else { step };
            let x = self.part(self.inputs[0], &[time, 0, at, 0], &[1, batch, 1, gates], &[batch, gates])?;
            (state, memory) = match (cell, memory) {
                (Cell::Lstm, Some(memory)) => {
                    let (state, memory) = self.lstm(&own, x, state, memory)?;
                    (state, Some(memory))
                }
                (Cell::Gru, _) => (self.gru(&own, x, state)?, None),
                _ => {
                    let sum = self.sum(&own, x, state)?;
                    (self.activate(&own, 0, sum)?, None)
                }
            };
            states[time] = state;
        }
        states.push(state);
        states.extend(memory);
        let shape = [1, 1, batch, hidden];
        states
            .into_iter()
            .map(|one| self.op("reshape", Attrs::new().sizes("shape", &shape), vec![one]))
            .collect()
    }

    fn lstm(
        &mut self,
        own: &Direction,
        x: NodeId,
        state: NodeId,
        memory: NodeId,
    ) -> Result<(NodeId, NodeId), TrainError> {
        let all = self.sum(own, x, state)?;
        let gate = |this: &mut Self, which: usize, seen: Option<(usize, NodeId)>| {
            let mut sum = this.columns(all, which)?;
            if let (Some(extra), Some((row, memory))) = (own.extra, seen) {
                let weights = this.columns(extra, row)?;
                let look = this.two("mul", memory, weights)?;
                sum = this.two("add", sum, look)?;
            }
            Ok::<NodeId, TrainError>(sum)
        };
        let input = gate(self, 0, Some((0, memory)))?;
        let input = self.activate(own, 0, input)?;
        let forget = if self.layer.coupled {
            let one = self.builder.number(1.0);
            self.two("sub", one, input)?
        } else {
            let forget = gate(self, 2, Some((2, memory)))?;
            self.activate(own, 0, forget)?
        };
        let new = gate(self, 3, None)?;
        let new = self.activate(own, 1, new)?;
        let (kept, added) = (self.two("mul", forget, memory)?, self.two("mul", input, new)?);
        let memory = self.two("add", kept, added)?;
        let open = gate(self, 1, Some((1, memory)))?;
        let open = self.activate(own, 0, open)?;
        // The bound of operands does not hold for the memory.
        let shown = self.applied(self.layer.activations(own.at)[2], 0.0, memory)?;
        Ok((self.two("mul", open, shown)?, memory))
    }

    fn gru(&mut self, own: &Direction, x: NodeId, state: NodeId) -> Made {
        let all = self.two("matmul", state, own.weights)?;
        let gate = |this: &mut Self, which: usize| {
            let (product, x) = (this.columns(all, which)?, this.columns(x, which)?);
            let sum = this.two("add", product, x)?;
            this.activate(own, 0, sum)
        };
        let (update, reset) = (gate(self, 0)?, gate(self, 1)?);
        let product = if self.layer.linear {
            let mut inner = self.columns(all, 2)?;
            if let Some(bias) = own.extra {
                inner = self.two("add", inner, bias)?;
            }
            self.two("mul", reset, inner)?
        } else {
            let left = self.two("mul", reset, state)?;
            let weights = self.columns(own.weights, 2)?;
            self.two("matmul", left, weights)?
        };
        let x = self.columns(x, 2)?;
        let sum = self.two("add", x, product)?;
        let new = self.activate(own, 1, sum)?;
        let one = self.builder.number(1.0);
        let rest = self.two("sub", one, update)?;
        let (new, old) = (self.two("mul", rest, new)?, self.two("mul", update, state)?);
        self.two("add", new, old)
    }

    /// Adds the sums of all gates.
    fn sum(&mut self, own: &Direction, x: NodeId, state: NodeId) -> Made {
        let product = self.two("matmul", state, own.weights)?;
        self.two("add", product, x)
    }

    fn activate(&mut self, own: &Direction, which: usize, value: NodeId) -> Made {
        let activation = self.layer.activations(own.at)[which];
        self.applied(activation, self.layer.clip.unwrap_or(0.0), value)
    }

    /// Adds the functions of an activation, of operands whose magnitude is at most `clip`, where that is above zero.
    fn applied(&mut self, activation: Activation, clip: f64, value: NodeId) -> Made {
        activation.steps(clip).into_iter().try_fold(value, |value, step| {
            let function = step.op.function().ok_or_else(|| TrainError::Op {
                what: self.name.to_owned(),
                op: "map",
                why: format!("`{activation}` is no function of one number"),
            })?;
            let parameters = function.parameters().iter().zip(&step.parameters);
            let attrs =
                parameters.fold(Attrs::new(), |attrs, (known, value)| attrs.float(known.name, value.0));
            self.op(function.name(), attrs, vec![value])
        })
    }

    /// Adds the columns of a gate.
    fn columns(&mut self, of: NodeId, gate: usize) -> Made {
        let hidden = self.layer.hidden;
        let rows = self.builder.graph()[of].ty.shape[0];
        self.part(of, &[0, gate * hidden], &[rows, hidden], &[rows, hidden])
    }

    /// Adds a part of a value in another shape.
    fn part(&mut self, of: NodeId, starts: &[usize], sizes: &[usize], shape: &[usize]) -> Made {
        let steps = vec![1; starts.len()];
        let attrs = Attrs::new().sizes("starts", starts).sizes("sizes", sizes).sizes("steps", &steps);
        let part = self.op("slice", attrs, vec![of])?;
        self.op("reshape", Attrs::new().sizes("shape", shape), vec![part])
    }

    fn joined(&mut self, part: &str, axis: i64, values: Vec<NodeId>) -> Made {
        match values[..] {
            [value] => Ok(value),
            _ => {
                let name = format!("{}.{part}", self.name);
                self.builder.named(&name, "concat", Attrs::new().int("axis", axis), values)
            }
        }
    }

    fn two(&mut self, op: &str, left: NodeId, right: NodeId) -> Made {
        self.op(op, Attrs::new(), vec![left, right])
    }

    fn op(&mut self, op: &str, attrs: Attrs, inputs: Vec<NodeId>) -> Made {
        self.builder.named(&format!("{}.{op}", self.name), op, attrs, inputs)
    }
}
