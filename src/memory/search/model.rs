//! The live bytes of a program in the terms of its plan.

use super::super::order::{Task, roots};
use crate::tensor::Device;

/// What a task does to the live bytes.
#[derive(Default)]
pub(super) struct Move {
    /// The tasks whose results it reads.
    pub before: Vec<usize>,
    /// The buffer in which its result lies; `None` for a view, or where its bytes do not count.
    pub own: Option<usize>,
    /// The bytes of its scratch.
    pub scratch: usize,
    /// The buffers that it reads, each once.
    pub reads: Vec<usize>,
    /// The buffers of which its own takes the place if no other task needs them any more.
    pub takes: Vec<usize>,
    /// Whether its result needs no bytes of its own while it runs, because it may take those of an operand that is no
    /// longer counted.
    pub free: bool,
}

/// A buffer, which is live from the first task that opens it to the last one that closes it.
#[derive(Default)]
pub(super) struct Bytes {
    pub size: usize,
    /// The tasks that write it.
    pub opens: Vec<usize>,
    /// The tasks that write or read it.
    pub closes: Vec<usize>,
    /// Whether it is live until the end.
    pub stays: bool,
}

/// The buffers of a program, and what its tasks do to them.
pub(super) struct Model {
    pub moves: Vec<Move>,
    pub buffers: Vec<Bytes>,
    /// Whether some operand may be computed within a result.
    pub joins: bool,
}

impl Model {
    /// Returns a model whose live bytes no plan can be below, on one device or on all. They are those of the plan if
    /// no operand can be computed within a result, and no result takes the buffer of a part of a larger value.
    ///
    /// An operand that may be computed within a result counts alone until that result is there, and no longer from
    /// then on: neither a plan that joins it nor one that copies it needs fewer bytes.
    pub(super) fn least(
        tasks: &[Task],
        device: Option<Device>,
        reach: &dyn Fn(usize, usize) -> bool,
    ) -> Self {
        let roots = roots(tasks);
        let mut joiners = vec![Vec::new(); tasks.len()];
        for (at, task) in tasks.iter().enumerate() {
            task.parts.iter().for_each(|part| joiners[roots[*part]].push(at));
        }
        // The result that holds an operand first in every order. If none does, the operand counts only while it is
        // computed.
        let first = |joiners: &[usize]| {
            joiners
                .iter()
                .copied()
                .find(|one| joiners.iter().all(|other| one == other || reach(*one, *other)))
        };
        let ends: Vec<Option<usize>> = joiners
            .iter()
            .enumerate()
            .map(|(at, joiners)| (!joiners.is_empty()).then(|| first(joiners).unwrap_or(at)))
            .collect();
        let counts = |at: usize| device.is_none_or(|device| tasks[at].device == device);
        let mut model = Self::alone(tasks, &roots, &counts);
        model.joins = ends.iter().any(Option::is_some);
        for (at, end) in ends.iter().enumerate() {
            let (Some(end), Some(buffer)) = (*end, model.moves[at].own) else { continue };
            // What reads it later does not close it.
            for reader in std::mem::replace(&mut model.buffers[buffer].closes, vec![at]) {
                if reader != at && reader != end {
                    let reader = &mut model.moves[reader];
                    reader.reads.retain(|read| *read != buffer);
                    reader.free |= reader.takes.contains(&buffer);
                }
            }
            if end == at {
                model.moves[at].reads.retain(|read| *read != buffer);
            } else {
                model.buffers[buffer].closes.push(end);
                model.moves[end].takes.push(buffer);
            }
            model.buffers[buffer].stays = false;
        }
        model
    }

    /// Returns a model in which each operand that may be computed within a result lies there, so the result is live
    /// from its first operand on.
    pub(super) fn joined(tasks: &[Task]) -> Self {
        let roots = roots(tasks);
        let mut model = Self::alone(tasks, &roots, &|_| true);
        let mut whole: Vec<usize> = (0..tasks.len()).collect();
        for (at, task) in tasks.iter().enumerate().rev() {
            for part in task.parts.iter().map(|part| roots[*part]) {
                // The first result takes it; results are visited from the last to the first.
                whole[part] = at;
            }
        }
        // A value whose only reader works on it in place lies where that reader's result does.
        for at in (0..tasks.len()).rev() {
            let Some(buffer) = model.moves[at].own.filter(|_| whole[at] == at) else { continue };
            if let [own, reader] = model.buffers[buffer].closes[..]
                && own == at
                && whole[reader] != reader
                && model.moves[reader].takes.contains(&buffer)
            {
                whole[at] = reader;
            }
        }
        for at in 0..tasks.len() {
            let mut top = at;
            while whole[top] != top {
                top = whole[top];
            }
            let (Some(from), Some(to)) = (model.moves[at].own, model.moves[top].own) else { continue };
            if from == to {
                continue;
            }
            model.joins = true;
            let Bytes { opens, closes, stays, .. } = std::mem::take(&mut model.buffers[from]);
            for task in &closes {
                let task = &mut model.moves[*task];
                for list in [&mut task.reads, &mut task.takes] {
                    list.iter_mut().filter(|read| **read == from).for_each(|read| *read = to);
                    list.sort_unstable();
                    list.dedup();
                }
                if task.own == Some(from) {
                    task.own = Some(to);
                }
            }
            let target = &mut model.buffers[to];
            target.opens.extend(opens);
            target.closes.extend(closes);
            target.closes.sort_unstable();
            target.closes.dedup();
            target.stays |= stays;
        }
        for task in &mut model.moves {
            let own = task.own;
            task.reads.retain(|read| Some(*read) != own);
            task.takes.retain(|read| Some(*read) != own);
        }
        model
    }

    /// Returns the model in which every result that is no view has a buffer of its own.
    fn alone(tasks: &[Task], roots: &[usize], counts: &dyn Fn(usize) -> bool) -> Self {
        let mut model = Self { moves: Vec::with_capacity(tasks.len()), buffers: Vec::new(), joins: false };
        for (at, task) in tasks.iter().enumerate() {
            let mut one = Move { before: task.inputs.clone(), ..Move::default() };
            one.before.sort_unstable();
            one.before.dedup();
            if counts(at) {
                one.scratch = task.scratch;
            }
            let own = |task: &usize| model.moves[roots[*task]].own;
            one.reads = task.inputs.iter().filter_map(own).collect();
            one.reads.sort_unstable();
            one.reads.dedup();
            one.takes = task.in_place.iter().filter_map(own).filter(|_| counts(at)).collect();
            for read in &one.reads {
                model.buffers[*read].closes.push(at);
            }
            if task.size > 0 && counts(at) {
                one.own = Some(model.buffers.len());
                model.buffers.push(Bytes {
                    size: task.size,
                    opens: vec![at],
                    closes: vec![at],
                    stays: false,
                });
            }
            model.moves.push(one);
            if let Some(buffer) = model.moves[roots[at]].own.filter(|_| task.output) {
                model.buffers[buffer].stays = true;
            }
        }
        model
    }

    /// Returns the bytes that are live while each task runs, in an order.
    pub(super) fn live(&self, order: &[usize]) -> Vec<usize> {
        let mut left: Vec<usize> = self.buffers.iter().map(|buffer| buffer.closes.len()).collect();
        let mut open = vec![false; self.buffers.len()];
        let mut live = 0;
        let run = |&at: &usize| {
            let Move { own, scratch, reads, takes, free, .. } = &self.moves[at];
            let mut during = live + scratch;
            let mut opened = 0;
            if let Some(own) = *own
                && !std::mem::replace(&mut open[own], true)
            {
                opened = self.buffers[own].size;
            }
            let mut freed = 0;
            let mut taken = 0;
            for buffer in reads.iter().chain(own) {
                left[*buffer] -= 1;
                if left[*buffer] == 0 && !self.buffers[*buffer].stays {
                    freed += self.buffers[*buffer].size;
                    if takes.contains(buffer) {
                        taken += self.buffers[*buffer].size;
                    }
                }
            }
            during += opened - if *free { opened } else { taken.min(opened) };
            live = live + opened - freed;
            during
        };
        order.iter().map(run).collect()
    }
}
