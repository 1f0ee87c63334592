//! Evaluates what depends on constants alone, such as packed weights and folded batch norms.

use super::{Constants, Recipes, Store};
use crate::digest::Digest;
use crate::graph::{CONST, Graph, NodeId};
use crate::host;
use crate::tensor::Tensor;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The bytes that may be in use at one time, besides those of the value that needs the most.
const AT_ONCE: usize = 128 << 20;

/// Returns the values of the wanted nodes. What a store has is taken from there, and what it lacks is added to it; then
/// the recipes of the values are returned as well.
pub(super) fn evaluate(
    program: &Graph,
    wanted: &[NodeId],
    threads: usize,
    store: Option<&Store>,
) -> (Constants, Recipes) {
    let Some(store) = store else { return (compute(program, wanted, threads), Recipes::default()) };
    let recipes = recipes(program, wanted, store);
    let find = |id: &NodeId| Some((*id, store.find(recipes.get(id)?)?));
    let mut values: Constants = wanted.iter().filter_map(find).collect();
    let missing: Vec<NodeId> = wanted.iter().filter(|id| !values.contains_key(id)).copied().collect();
    for (id, value) in compute(program, &missing, threads) {
        let value = match recipes.get(&id) {
            Some(recipe) => store.keep(*recipe, value, None),
            None => value,
        };
        values.insert(id, value);
    }
    (values, recipes)
}

/// Returns the recipes of nodes that depend on constants alone. `wanted` is sorted.
pub(super) fn recipes(program: &Graph, wanted: &[NodeId], store: &Store) -> Recipes {
    let mut needed = vec![false; program.len()];
    wanted.iter().for_each(|id| needed[id.index()] = true);
    for (id, node) in program.nodes().rev().filter(|(_, node)| !node.inputs.is_empty()) {
        if needed[id.index()] {
            node.inputs.iter().for_each(|input| needed[input.index()] = true);
        }
    }
    let mut known = Recipes::default();
    for (id, node) in program.nodes().filter(|(id, _)| needed[id.index()]) {
        let recipe = match program.constant(id) {
            Some(constant) => Some(store.leaf(constant)),
            None => node
                .inputs
                .iter()
                .map(|input| known.get(input).map(Digest::to_string))
                .collect::<Option<Vec<_>>>()
                .map(|inputs| {
                    let own = [node.op.to_string(), format!("{:?}", node.attrs), node.ty.to_string()];
                    Digest::texts(own.iter().chain(&inputs).map(String::as_str))
                }),
        };
        if let Some(recipe) = recipe {
            known.insert(id, recipe);
        }
    }
    known.retain(|id, _| wanted.binary_search(id).is_ok());
    known
}

/// Computes the values of the wanted nodes. Each of `threads` threads computes one node at a time, together with
/// everything that the node needs. Nodes that need the most memory come first, and together the threads never need
/// more than [`AT_ONCE`] besides the first node's memory. What several nodes need is computed for each of them, which is
/// rare and cheap.
fn compute(program: &Graph, wanted: &[NodeId], threads: usize) -> Constants {
    let mut readers = vec![0_u32; program.len()];
    program.nodes().flat_map(|(_, node)| &node.inputs).for_each(|input| readers[input.index()] += 1);
    let needs = needs(program);
    let mut jobs: Vec<(usize, NodeId)> = wanted.iter().map(|id| (needs[id.index()], *id)).collect();
    jobs.sort_unstable_by_key(|(need, id)| (Reverse(*need), *id));
    let most = jobs.first().map_or(0, |(need, _)| *need) + AT_ONCE;
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
    if !jobs.is_empty() {
        host::return_freed_memory();
    }
    work.into_inner().unwrap_or_else(PoisonError::into_inner).done
}

/// The finished nodes, and the memory in use.
struct Work {
    next: usize,
    /// The bytes that are in use.
    taken: usize,
    done: FxHashMap<NodeId, Tensor>,
}

fn lock(work: &Mutex<Work>) -> MutexGuard<'_, Work> {
    work.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The memory that one thread uses. It is also released if the work panics, so that no other thread waits for it
/// forever.
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

/// Returns, for each node, the most bytes that a single op reads and writes while the node's value is computed.
fn needs(program: &Graph) -> Vec<usize> {
    let mut needs: Vec<usize> = Vec::with_capacity(program.len());
    for (_, node) in program.nodes() {
        let operands: usize = node.inputs.iter().map(|input| program[*input].ty.bytes()).sum();
        let before = node.inputs.iter().map(|input| needs[input.index()]).max();
        needs.push((operands + node.ty.bytes()).max(before.unwrap_or(0)));
    }
    needs
}

/// Computes a value. A value that only one node reads is freed once that node is computed, since weights are large
/// and packing them takes several steps.
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
