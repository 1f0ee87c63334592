//! The graph of attention for some heads, compiled to partitions with the places of their values.

use super::{Call, Division, MASK, SIZE, broadcast};
use onednn_sys::{Graph, Library, Operation, Partition, Value};
use ovolo::op::OpError;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The alignment of values in scratch memory, in bytes.
const ALIGN: usize = 64;

/// Where a value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Operand(usize),
    Result,
    /// The factor of the scores, which the kernel keeps.
    Scale,
    /// In the thread's scratch memory: the bytes from its start. While the graph is built, the number of the value.
    Scratch(usize),
}

/// A partition with the places of its values.
pub(super) struct Step {
    pub partition: Partition,
    pub inputs: Vec<Place>,
    pub outputs: Vec<Place>,
}

/// The partitions of the graph for some number of heads, in the order in which they run.
pub(super) struct Program {
    pub steps: Vec<Step>,
    pub needs: Needs,
}

/// What the contract states of a program.
#[derive(Clone, Copy)]
pub(super) struct Needs {
    /// The number of partitions.
    pub partitions: usize,
    /// The bytes of the scores that partitions leave to others: the scratch memory of a thread. What the library needs
    /// beside them, some tens of KiB, it takes from the system.
    pub scratch: usize,
}

impl Needs {
    /// Returns the needs of the program for so many heads. For the same sizes it is compiled once in a process, because
    /// contracts are asked for often.
    pub(super) fn of(
        sizes: &Division,
        library: &'static Library,
        call: &Call<'_>,
        heads: usize,
    ) -> Result<Self, OpError> {
        static KNOWN: Mutex<BTreeMap<Vec<usize>, Needs>> = Mutex::new(BTreeMap::new());
        let key = sizes.key(call, heads);
        if let Some(known) = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(*known);
        }
        let needs = Program::new(sizes, library, call, heads)?.needs;
        KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(key, needs);
        Ok(needs)
    }
}

/// A graph in construction.
struct Builder {
    graph: Graph,
    /// The place of each value.
    places: Vec<Place>,
    /// The sizes of the scores.
    shape: [usize; 4],
}

impl Builder {
    fn value(&mut self, place: Place, shape: [usize; 4], strides: [usize; 4]) -> Result<Value, OpError> {
        self.places.push(place);
        self.graph.value(&shape, &strides).map_err(OpError::backend)
    }

    /// Adds an operation whose result are scores.
    fn scores(&mut self, operation: Operation, operands: &[Value]) -> Result<Value, OpError> {
        let [_, heads, rows, columns] = self.shape;
        let strides = [heads * rows * columns, rows * columns, columns, 1];
        let result = self.value(Place::Scratch(self.places.len()), self.shape, strides)?;
        self.graph.operation(operation, operands, result).map_err(OpError::backend)?;
        Ok(result)
    }
}

impl Program {
    /// Compiles the graph for so many heads.
    pub(super) fn new(
        sizes: &Division,
        library: &'static Library,
        call: &Call<'_>,
        heads: usize,
    ) -> Result<Self, OpError> {
        let shape = [1, heads, sizes.queries, sizes.keys];
        let graph = Graph::new(library).map_err(|why| OpError::kernel(why.to_string()))?;
        let mut builder = Builder { graph, places: Vec::new(), shape };
        let operand = |builder: &mut Builder, operand: usize, rows: usize, columns: usize| {
            let strides = sizes.order.strides(&call.inputs[operand].shape);
            builder.value(Place::Operand(operand), [1, heads, rows, columns], strides)
        };
        let q = operand(&mut builder, 0, sizes.queries, sizes.depth)?;
        let k = operand(&mut builder, 1, sizes.keys, sizes.depth)?;
        let v = operand(&mut builder, 2, sizes.keys, sizes.width)?;
        let mut scores = builder.scores(Operation::Matmul { transposed: true }, &[q, k])?;
        #[allow(clippy::float_cmp)]
        if call.attrs.expect_float("scale") != 1.0 {
            let factor = builder.value(Place::Scale, [1; 4], [1; 4])?;
            scores = builder.scores(Operation::Multiply, &[scores, factor])?;
        }
        if let Some(mask) = call.inputs.get(MASK) {
            let ([_, several, rows, columns], strides) = broadcast(mask);
            let several = if several == 1 { 1 } else { heads };
            let mask = builder.value(Place::Operand(MASK), [1, several, rows, columns], strides)?;
            scores = builder.scores(Operation::Add, &[scores, mask])?;
        }
        let weights = builder.scores(Operation::Softmax { axis: 3 }, &[scores])?;
        let strides = sizes.order.strides(&call.output.shape);
        let result = builder.value(Place::Result, [1, heads, sizes.queries, sizes.width], strides)?;
        let Builder { mut graph, places, .. } = builder;
        let product = Operation::Matmul { transposed: false };
        graph.operation(product, &[weights, v], result).map_err(OpError::backend)?;
        let partitions = graph.partitions().map_err(OpError::backend)?;
        Ok(Self::placed(partitions, &places, shape.iter().product::<usize>() * SIZE))
    }

    /// Gives places in scratch memory to the scores that lie between partitions, of so many bytes each.
    fn placed(partitions: Vec<Partition>, places: &[Place], bytes: usize) -> Self {
        let bytes = bytes.next_multiple_of(ALIGN);
        let mut stored: Vec<usize> = Vec::new();
        let mut steps = Vec::new();
        for partition in partitions {
            let mut place = |value: &Value| match places[value.0] {
                Place::Scratch(number) => {
                    let known = stored.iter().position(|other| *other == number);
                    let at = known.unwrap_or_else(|| {
                        stored.push(number);
                        stored.len() - 1
                    });
                    Place::Scratch(at * bytes)
                }
                other => other,
            };
            let inputs = partition.inputs().iter().map(&mut place).collect();
            let outputs = partition.outputs().iter().map(&mut place).collect();
            steps.push(Step { partition, inputs, outputs });
        }
        let needs = Needs { partitions: steps.len(), scratch: stored.len() * bytes };
        Self { steps, needs }
    }
}
