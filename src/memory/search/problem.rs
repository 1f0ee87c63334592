//! The orders between two sets of done tasks, as steps from set to set.

use super::model::Model;
use super::set::Set;
use std::ops::Range;

/// A range of the tasks of a program such that those before it are done first and those after it last. Tasks and
/// buffers have numbers of their own.
pub(super) struct Problem<const N: usize> {
    /// For each task those of the range that it reads.
    pub before: Vec<Set<N>>,
    /// For each task itself and those of the range that depend on it.
    pub below: Vec<Set<N>>,
    moves: Vec<Local>,
    buffers: Vec<Buffer<N>>,
    /// The bytes that are live at the beginning.
    pub live: usize,
}

struct Local {
    scratch: usize,
    own: Option<usize>,
    reads: Vec<usize>,
    takes: Vec<usize>,
    free: bool,
}

struct Buffer<const N: usize> {
    size: usize,
    opens: Set<N>,
    closes: Set<N>,
    /// Whether a task before the range opens it.
    opened: bool,
    /// Whether a task after the range needs it.
    stays: bool,
}

impl<const N: usize> Problem<N> {
    /// Returns the problem of a range of tasks.
    pub(super) fn new(model: &Model, range: &Range<usize>) -> Self {
        let mut number = vec![usize::MAX; model.buffers.len()];
        let (mut buffers, mut live) = (Vec::new(), 0);
        for (at, buffer) in model.buffers.iter().enumerate() {
            let local = |tasks: &[usize]| {
                let inside = tasks.iter().filter(|task| range.contains(task));
                inside.fold(Set::EMPTY, |set, task| set.with(task - range.start))
            };
            let opened = buffer.opens.iter().any(|task| *task < range.start);
            let stays = buffer.stays || buffer.closes.iter().any(|task| *task >= range.end);
            let ended = !buffer.stays && buffer.closes.iter().all(|task| *task < range.start);
            live += if opened && !ended { buffer.size } else { 0 };
            let closes = local(&buffer.closes);
            // One that is live throughout adds the same to all states.
            let throughout = opened && stays;
            if !throughout && !closes.is_empty() {
                number[at] = buffers.len();
                buffers.push(Buffer {
                    size: buffer.size,
                    opens: local(&buffer.opens),
                    closes,
                    opened,
                    stays,
                });
            }
        }
        let known = |buffers: &[usize]| {
            buffers.iter().map(|buffer| number[*buffer]).filter(|buffer| *buffer != usize::MAX).collect()
        };
        let mut problem = Self { before: Vec::new(), below: Vec::new(), moves: Vec::new(), buffers, live };
        for task in &model.moves[range.clone()] {
            problem.moves.push(Local {
                scratch: task.scratch,
                own: task.own.map(|own| number[own]).filter(|own| *own != usize::MAX),
                reads: known(&task.reads),
                takes: known(&task.takes),
                free: task.free,
            });
            let inside = task.before.iter().filter(|before| **before >= range.start);
            problem.before.push(inside.fold(Set::EMPTY, |set, task| set.with(task - range.start)));
        }
        problem.descend();
        problem
    }

    fn descend(&mut self) {
        self.below = (0..self.len()).map(|task| Set::EMPTY.with(task)).collect();
        let mut order: Vec<usize> = Vec::with_capacity(self.len());
        let mut done = Set::EMPTY;
        while order.len() < self.len() {
            for task in 0..self.len() {
                if !done.contains(task) && self.before[task].is_within(&done) {
                    order.push(task);
                    done.insert(task);
                }
            }
        }
        for &task in order.iter().rev() {
            for before in self.before[task].iter() {
                self.below[before] = self.below[before].union(&self.below[task]);
            }
        }
    }

    /// Returns the problem of the same orders backwards.
    pub(super) fn reversed(&self) -> Self {
        let mut before = vec![Set::EMPTY; self.len()];
        for (task, inputs) in self.before.iter().enumerate() {
            inputs.iter().for_each(|input| before[input].insert(task));
        }
        let buffer = |one: &Buffer<N>| Buffer {
            size: one.size,
            opens: one.closes,
            closes: one.opens,
            opened: one.stays,
            stays: one.opened,
        };
        let one = |one: &Local| Local {
            scratch: one.scratch,
            own: one.own,
            reads: one.reads.clone(),
            takes: one.takes.clone(),
            free: one.free,
        };
        let mut problem = Self {
            before,
            below: Vec::new(),
            moves: self.moves.iter().map(one).collect(),
            buffers: self.buffers.iter().map(buffer).collect(),
            live: self.end(),
        };
        problem.descend();
        problem
    }

    pub(super) fn len(&self) -> usize {
        self.moves.len()
    }

    /// Returns the bytes that are live at the end.
    fn end(&self) -> usize {
        let started: usize =
            self.buffers.iter().filter(|one| !one.opened && one.stays).map(|one| one.size).sum();
        let ended: usize =
            self.buffers.iter().filter(|one| one.opened && !one.stays).map(|one| one.size).sum();
        self.live + started - ended
    }

    /// Returns the tasks that may run next.
    pub(super) fn ready(&self, done: &Set<N>) -> impl Iterator<Item = usize> {
        (0..self.len()).filter(|task| !done.contains(*task) && self.before[*task].is_within(done))
    }

    /// Returns the bytes that are live while a task runs, and after it.
    pub(super) fn step(&self, done: &Set<N>, live: usize, task: usize) -> (usize, usize) {
        let Local { scratch, own, reads, takes, free } = &self.moves[task];
        let then = done.with(task);
        let change = |buffer: usize| {
            let Buffer { opens, closes, opened, stays, .. } = &self.buffers[buffer];
            let begins = !opened && opens.contains(task) && !opens.meets(done);
            let ends = !stays && closes.contains(task) && closes.is_within(&then);
            (begins, ends)
        };
        let (mut grown, mut freed, mut taken) = (0, 0, 0);
        for &buffer in reads {
            let (begins, ends) = change(buffer);
            let size = self.buffers[buffer].size;
            grown += if begins { size } else { 0 };
            freed += if ends { size } else { 0 };
            taken += if begins != ends && takes.contains(&buffer) { size } else { 0 };
        }
        let mut most = 0;
        if let Some(own) = *own {
            let (begins, ends) = change(own);
            let size = self.buffers[own].size;
            grown += if begins { size } else { 0 };
            freed += if ends { size } else { 0 };
            most = if begins || ends { size } else { 0 };
        }
        let saved = if *free { most } else { taken.min(most) };
        (live + grown + scratch - saved, live + grown - freed)
    }
}
