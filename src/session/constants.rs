//! Evaluating what depends on constants alone: packed weights, folded batch norms.

use crate::graph::{CONST, Graph, NodeId};
use crate::tensor::Tensor;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes that may be worked on at once, whatever the largest value needs.
const AT_ONCE: usize = 128 << 20;

/// The values of the wanted nodes. Each is computed with what it needs by one of `threads` threads, what
/// takes the most memory first, and at once no more than that takes; what several need is computed for each
/// of them, which is rare and cheap.
pub(super) fn evaluate(program: &Graph, wanted: &[NodeId], threads: usize) -> FxHashMap<NodeId, Tensor> {
    let mut readers = vec![0_u32; program.len()];
    program.nodes().flat_map(|(_, node)| &node.inputs).for_each(|input| readers[input.index()] += 1);
    let needs = needs(program);
    let mut jobs: Vec<(usize, NodeId)> = wanted.iter().map(|id| (needs[id.index()], *id)).collect();
    jobs.sort_unstable_by_key(|(need, id)| (Reverse(*need), *id));
    let most = jobs.first().map_or(0, |(need, _)| *need).max(AT_ONCE);
    let work = Mutex::new(Work { next: 0, taken: 0, done: FxHashMap::default() });
    let freed = Condvar::new();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, wanted.len().max(1)) {
            scope.spawn(|| {
                let mut guard = lock(&work);
                while let Some((need, id)) = jobs.get(guard.next) {
                    if guard.taken + need > most {
                        guard = freed.wait(guard).unwrap_or_else(PoisonError::into_inner);
                        continue;
                    }
                    guard.next += 1;
                    guard.taken += need;
                    drop(guard);
                    let held = Held { work: &work, freed: &freed, need: *need };
                    let value = value(program, *id, &readers, &mut FxHashMap::default());
                    lock(&work).done.insert(*id, value);
                    drop(held);
                    guard = lock(&work);
                }
            });
        }
    });
    work.into_inner().unwrap_or_else(PoisonError::into_inner).done
}

/// What is done, and what is being worked on.
struct Work {
    next: usize,
    /// Bytes that are being worked on.
    taken: usize,
    done: FxHashMap<NodeId, Tensor>,
}

fn lock(work: &Mutex<Work>) -> MutexGuard<'_, Work> {
    work.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory that one thread works in. It is given back where the work panics, too: nobody waits for it.
struct Held<'a> {
    work: &'a Mutex<Work>,
    freed: &'a Condvar,
    need: usize,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        lock(self.work).taken -= self.need;
        self.freed.notify_all();
    }
}

/// For each node, the most bytes that an op on the way to its value reads and writes.
fn needs(program: &Graph) -> Vec<usize> {
    let mut needs: Vec<usize> = Vec::with_capacity(program.len());
    for (_, node) in program.nodes() {
        let operands: usize = node.inputs.iter().map(|input| program[*input].ty.bytes()).sum();
        let before = node.inputs.iter().map(|input| needs[input.index()]).max();
        needs.push((operands + node.ty.bytes()).max(before.unwrap_or(0)));
    }
    needs
}

/// What only one node reads is gone once that is computed: weights are large, and each way to their packed
/// form has several steps.
fn value(program: &Graph, id: NodeId, readers: &[u32], known: &mut FxHashMap<NodeId, Tensor>) -> Tensor {
    if let Some(value) = known.get(&id) {
        return value.clone();
    }
    let node = &program[id];
    let result = if node.op == CONST {
        program.constant(id).expect("constants have values").taken()
    } else {
        let operands: Vec<Tensor> =
            node.inputs.iter().map(|input| value(program, *input, readers, known)).collect();
        let operands: Vec<&Tensor> = operands.iter().collect();
        node.op.evaluate(&node.attrs, &operands, &node.ty)
    };
    if readers[id.index()] > 1 {
        known.insert(id, result.clone());
    }
    result
}
