//! Evaluating what depends on constants alone: packed weights, folded batch norms.

use crate::graph::{CONST, Graph, NodeId};
use crate::op;
use crate::tensor::Tensor;
use rustc_hash::FxHashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The values of the wanted nodes. Each is computed with what it needs by one of `threads` threads;
/// what several need is computed for each of them, which is rare and cheap.
pub(super) fn evaluate(program: &Graph, wanted: &[NodeId], threads: usize) -> FxHashMap<NodeId, Tensor> {
    let mut readers = vec![0_u32; program.len()];
    program.nodes().flat_map(|(_, node)| &node.inputs).for_each(|input| readers[input.index()] += 1);
    let next = AtomicUsize::new(0);
    let done = Mutex::new(FxHashMap::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, wanted.len().max(1)) {
            scope.spawn(|| {
                while let Some(id) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let value = value(program, *id, &readers, &mut FxHashMap::default());
                    done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(*id, value);
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// What only one node reads is gone once that is computed: weights are large, and each way to their packed
/// form has several steps.
fn value(program: &Graph, id: NodeId, readers: &[u32], known: &mut FxHashMap<NodeId, Tensor>) -> Tensor {
    if let Some(value) = known.get(&id) {
        return value.clone();
    }
    let node = &program[id];
    let result = if node.op == CONST {
        program.constant(id).expect("constants have values").clone()
    } else {
        let operands: Vec<Tensor> =
            node.inputs.iter().map(|input| value(program, *input, readers, known)).collect();
        let operands: Vec<&Tensor> = operands.iter().collect();
        let def = op::find(node.op).expect("programs hold ops of the registry");
        (def.eval)(&node.attrs, &operands, &node.ty)
    };
    if readers[id.index()] > 1 {
        known.insert(id, result.clone());
    }
    result
}
