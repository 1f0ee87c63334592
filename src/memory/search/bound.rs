//! Bytes that are live while a task runs in every order.

use super::super::order::{Task, roots};
use crate::tensor::Device;
use std::collections::BTreeSet;
use std::ops::Range;

/// Returns the most bytes of the operands, the result and the scratch of a task on a device, if there are too many
/// tasks for more. What may share bytes with something else counts once.
pub(super) fn operands(tasks: &[Task], device: Device) -> usize {
    let roots = roots(tasks);
    let mut part = vec![false; tasks.len()];
    tasks.iter().flat_map(|task| &task.parts).for_each(|at| part[roots[*at]] = true);
    let here = |at: usize| if tasks[at].device == device { tasks[at].size } else { 0 };
    let bytes = |(at, task): (usize, &Task)| {
        let inputs: BTreeSet<usize> = task.inputs.iter().map(|input| roots[*input]).collect();
        let operands: usize = inputs.into_iter().filter(|root| !part[*root]).map(here).sum();
        let result = if task.in_place.is_empty() { here(at) } else { 0 };
        operands + result + if task.device == device { task.scratch } else { 0 }
    };
    tasks.iter().enumerate().map(bytes).max().unwrap_or(0)
}

/// The most tasks of a program for which it is asked which of them come before which.
const MOST: usize = 1 << 12;

/// For each task the tasks that depend on it, and those on which it depends, itself included.
pub(super) struct Reach {
    words: usize,
    below: Vec<u64>,
    above: Vec<u64>,
}

impl Reach {
    /// Returns `None` if there are too many tasks.
    pub(super) fn new(tasks: &[Task]) -> Option<Self> {
        if tasks.len() > MOST {
            return None;
        }
        let words = tasks.len().div_ceil(64);
        let mut reach =
            Self { words, below: vec![0; words * tasks.len()], above: vec![0; words * tasks.len()] };
        let merge = |rows: &mut [u64], into: usize, from: usize| {
            for word in 0..words {
                rows[into * words + word] |= rows[from * words + word];
            }
        };
        for (at, task) in tasks.iter().enumerate() {
            reach.above[at * words + at / 64] |= 1 << (at % 64);
            reach.below[at * words + at / 64] |= 1 << (at % 64);
            task.inputs.iter().for_each(|input| merge(&mut reach.above, at, *input));
        }
        for (at, task) in tasks.iter().enumerate().rev() {
            task.inputs.iter().for_each(|input| merge(&mut reach.below, *input, at));
        }
        Some(reach)
    }

    /// Returns whether a task is the other one or comes before it in every order.
    pub(super) fn comes_before(&self, one: usize, other: usize) -> bool {
        self.below[one * self.words + other / 64] >> (other % 64) & 1 == 1
    }

    fn row<'a>(&self, rows: &'a [u64], at: usize) -> &'a [u64] {
        &rows[at * self.words..(at + 1) * self.words]
    }

    /// Returns the ranges of tasks that come one after the other in every order. The last task of each but the last
    /// one is comparable with all tasks.
    pub(super) fn ranges(&self) -> Vec<Range<usize>> {
        let count = |row: &[u64]| row.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        let tasks = self.below.len() / self.words.max(1);
        let mut ranges = Vec::new();
        let mut start = 0;
        for at in 0..tasks {
            let all = count(self.row(&self.above, at)) + count(self.row(&self.below, at)) == tasks + 1;
            if all || at + 1 == tasks {
                ranges.push(start..at + 1);
                start = at + 1;
            }
        }
        ranges
    }

    /// Returns for each task the bytes that are live while it runs, in every order and every plan: its operands and
    /// its result, and whatever is computed before it and read after it.
    pub(super) fn least(&self, tasks: &[Task], device: Option<Device>) -> Vec<usize> {
        let roots = roots(tasks);
        let counts = |at: usize| device.is_none_or(|device| tasks[at].device == device);
        // For each buffer, the tasks during which it is live in every order.
        let mut live: Vec<Vec<u64>> = vec![Vec::new(); tasks.len()];
        let mut output = vec![false; tasks.len()];
        tasks.iter().enumerate().for_each(|(at, task)| output[roots[at]] |= task.output);
        for (at, task) in tasks.iter().enumerate() {
            if roots[at] == at && task.size > 0 {
                live[at] = vec![if output[at] { u64::MAX } else { 0 }; self.words];
                live[at][at / 64] |= 1 << (at % 64);
            }
            for input in &task.inputs {
                let (root, above) = (roots[*input], self.row(&self.above, at));
                live[root].iter_mut().zip(above).for_each(|(word, above)| *word |= above);
            }
        }
        for (at, live) in live.iter_mut().enumerate() {
            live.iter_mut().zip(self.row(&self.below, at)).for_each(|(word, below)| *word &= below);
        }
        // An operand that lies within a live result needs no bytes of its own.
        let mut holders = vec![Vec::new(); tasks.len()];
        for (at, task) in tasks.iter().enumerate() {
            task.parts.iter().for_each(|part| holders[roots[*part]].push(at));
        }
        let mut least = vec![0; tasks.len()];
        for at in 0..tasks.len() {
            if live[at].is_empty() || !counts(at) {
                continue;
            }
            let mut alone = live[at].clone();
            let (mut open, mut seen) = (holders[at].clone(), vec![]);
            while let Some(holder) = open.pop() {
                if !seen.contains(&holder) {
                    seen.push(holder);
                    open.extend(&holders[holder]);
                    alone.iter_mut().zip(&live[holder]).for_each(|(word, held)| *word &= !held);
                }
            }
            for (word, mut bits) in alone.into_iter().enumerate() {
                while bits != 0 {
                    let task = 64 * word + bits.trailing_zeros() as usize;
                    if let Some(least) = least.get_mut(task) {
                        *least += tasks[at].size;
                    }
                    bits &= bits - 1;
                }
            }
        }
        for (at, task) in tasks.iter().enumerate().filter(|(at, _)| counts(*at)) {
            least[at] += task.scratch;
            // Its result may take the buffer of an operand that no task after it needs in every order.
            let taken = task.in_place.iter().map(|operand| roots[*operand]).any(|root| {
                let (live, below) = (&live[root], self.row(&self.below, at));
                let mut after = live.iter().zip(below).enumerate().map(|(word, (live, below))| {
                    live & below & !if word == at / 64 { 1 << (at % 64) } else { 0 }
                });
                after.all(|word| word == 0)
            });
            if taken && !live[at].is_empty() {
                least[at] -= task.size;
            }
        }
        least
    }
}
