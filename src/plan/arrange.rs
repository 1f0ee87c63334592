//! An order of execution, and which operands are computed where they belong: what a plan decides about
//! memory before buffers get their offsets.
//!
//! An operand that is computed in the result it is a part of saves a copy, and makes the whole result live
//! from then on. Where that raises the peak by more than the copy is worth, or above a limit, the operand
//! gets a buffer of its own, and is copied.

use super::draft::Draft;
use crate::contract::{ALIGN, Contract};
use crate::graph::{Graph, INPUT, Node, NodeId};
use crate::memory::{self, Buffer, Packing, Planner};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// What is planned: a program, and what is known of its kernels.
pub(super) struct Subject<'a> {
    pub graph: &'a Graph,
    /// Whether each node depends on no input.
    pub constant: &'a [bool],
    /// Of each node that runs, its contract and the seconds of one run.
    pub contracts: &'a [Option<(Contract, f64)>],
    /// Prices a copy of so many bytes.
    pub copy: &'a dyn Fn(usize) -> f64,
}

/// Operands that are not computed where they belong: the result, and which operand.
type Apart = BTreeSet<(NodeId, usize)>;

/// A step without its offsets.
pub(super) struct Arranged {
    pub node: NodeId,
    pub in_place: Option<usize>,
    pub copied: Option<usize>,
    pub joined: Vec<usize>,
    pub scratch: usize,
    /// Which of the buffers is the scratch.
    pub scratch_buffer: Option<usize>,
    pub seconds: f64,
    /// Seconds of them for copies.
    pub copies: f64,
}

/// The steps in order, and the buffers that they need.
pub(super) struct Arrangement {
    pub draft: Draft,
    pub steps: Vec<Arranged>,
    /// What is to be placed: the values' first, then scratch. Lives are in positions of the order.
    pub buffers: Vec<Buffer>,
    /// For each storage of the draft, its buffer.
    pub buffer_of: Vec<usize>,
    /// For each position, how many steps come before it: views take a position and are no steps.
    pub steps_before: Vec<usize>,
    /// The most bytes live at one position.
    bound: usize,
    /// The first position at which so many are live, and how many there are.
    peaks: (usize, usize),
    /// Seconds of all copies.
    copies: f64,
    /// Results that operands are computed in, with those operands, the first computed first.
    joins: Vec<(NodeId, Vec<usize>)>,
}

/// How many nodes may be looked at while joins are undone, so that planning stays quick.
const WORK: usize = 1 << 22;
/// How often the buffers of an arrangement that should fit are placed, and do not.
const PLACED: usize = 8;

impl Subject<'_> {
    /// The best arrangement by any of the orders, and its packing: within the limit if there is one that is,
    /// with the fewest copies; else with the fewest bytes live at one time.
    pub fn arrange(
        &self,
        orders: &[Vec<NodeId>],
        planner: &dyn Planner,
        limit: Option<usize>,
    ) -> Option<(Arrangement, Packing)> {
        let mut target = limit;
        let mut least: Option<(Arrangement, Packing)> = None;
        for _ in 0..PLACED {
            let refined = orders.iter().map(|order| self.refined(order, target));
            let Some(best) = refined.reduce(|a, b| if b.before(&a, target).is_lt() { b } else { a }) else {
                break;
            };
            let packing = planner.plan(&best.buffers);
            let (bound, peak) = (best.bound, packing.peak);
            if least.as_ref().is_none_or(|(_, least)| peak < least.peak) {
                least = Some((best, packing));
            }
            // Where there is room in theory alone, less must be live.
            match (limit, target) {
                (Some(limit), Some(aim)) if peak > limit && bound <= aim && bound > 0 => {
                    target = Some(bound - 1);
                }
                _ => break,
            }
        }
        least
    }

    /// The arrangement of an order, with joins undone where that is worth it.
    fn refined(&self, order: &[NodeId], limit: Option<usize>) -> Arrangement {
        let mut work = WORK;
        let mut apart = Apart::new();
        let mut best = self.draft(order, &apart);
        // What the bytes at the peak are worth in seconds: they are written and read, as by a copy.
        let worth = |one: &Arrangement| one.copies + (self.copy)(one.bound);
        while let Some((next, sets)) =
            self.next(order, &best, &apart, &mut work, |next, best| worth(best) - worth(next))
        {
            (best, apart) = (next, sets);
        }
        let Some(limit) = limit.filter(|limit| best.bound > *limit) else { return best };
        #[allow(clippy::cast_precision_loss)]
        let gain = |next: &Arrangement, best: &Arrangement| {
            let freed = best.bound.saturating_sub(next.bound) as f64;
            match next.bound.cmp(&best.bound) {
                Ordering::Less => freed / (next.copies - best.copies).max(f64::MIN_POSITIVE),
                // One peak of several is gone.
                Ordering::Equal if next.peaks.1 < best.peaks.1 => f64::MIN_POSITIVE,
                _ => 0.0,
            }
        };
        while best.bound > limit
            && let Some((next, sets)) = self.next(order, &best, &apart, &mut work, gain)
        {
            (best, apart) = (next, sets);
        }
        // What was undone on the way and is of no use in the end is joined again.
        for pair in apart.clone() {
            let mut fewer = apart.clone();
            fewer.remove(&pair);
            let again = self.draft(order, &fewer);
            if again.bound <= best.bound.max(limit) && again.copies < best.copies {
                (best, apart) = (again, fewer);
            }
        }
        best
    }

    /// The arrangement with more operands apart that gains the most, if any gains.
    fn next(
        &self,
        order: &[NodeId],
        best: &Arrangement,
        apart: &Apart,
        work: &mut usize,
        gain: impl Fn(&Arrangement, &Arrangement) -> f64,
    ) -> Option<(Arrangement, Apart)> {
        let mut found: Option<(f64, Arrangement, Apart)> = None;
        for (result, operands) in best.joins.iter().filter(|(result, _)| best.at_peak(*result)) {
            let mut sets = apart.clone();
            // The result begins to live with its first operand, so it is these that cost memory.
            for operand in operands {
                *work = work.checked_sub(order.len())?;
                sets.insert((*result, *operand));
                let next = self.draft(order, &sets);
                let gained = gain(&next, best);
                if gained > found.as_ref().map_or(0.0, |(most, ..)| *most) {
                    found = Some((gained, next, sets.clone()));
                }
            }
        }
        found.map(|(_, next, sets)| (next, sets))
    }

    /// The arrangement of an order, with these operands apart.
    fn draft(&self, order: &[NodeId], apart: &Apart) -> Arrangement {
        let graph = self.graph;
        let mut draft = Draft::new(graph, self.constant, order);
        let (mut steps, mut scratches, mut joins) = (Vec::<Arranged>::new(), Vec::new(), Vec::new());
        let mut steps_before = Vec::with_capacity(order.len() + 2);
        let mut copies_in_all = 0.0;
        for (position, &id) in order.iter().enumerate() {
            steps_before.push(steps.len());
            let Some((contract, seconds)) = &self.contracts[id.index()] else { continue };
            let node = &graph[id];
            if let Some(operand) = contract.view_of {
                draft.view(node.inputs[operand], id, contract.view_offset);
                continue;
            }
            let in_place = draft.result(graph, id, contract, position);
            let copied = contract.alias.filter(|operand| in_place != Some(*operand));
            let (joined, by_age) =
                draft.join(graph, id, contract, &|operand| !apart.contains(&(id, operand)));
            if !joined.is_empty() {
                joins.push((id, by_age));
            }
            if !joined.is_empty() && joined.len() == node.inputs.len() {
                continue;
            }
            let share = share_copied(graph, node, contract, &joined);
            let copies = match copied {
                Some(operand) => (self.copy)(graph[node.inputs[operand]].ty.bytes()),
                None if contract.parts.is_empty() => 0.0,
                None => seconds * (share - share_apart(graph, node, contract, self.constant)),
            };
            copies_in_all += copies;
            let seconds = seconds * share + copied.map_or(0.0, |_| copies);
            if contract.scratch > 0 {
                scratches.push((steps.len(), position));
            }
            steps.push(Arranged {
                node: id,
                in_place,
                copied,
                joined,
                scratch: contract.scratch,
                scratch_buffer: None,
                seconds,
                copies,
            });
        }
        let (mut buffers, buffer_of) = draft.buffers();
        for (step, position) in scratches {
            steps[step].scratch_buffer = Some(buffers.len());
            let size = steps[step].scratch.next_multiple_of(ALIGN);
            buffers.push(Buffer { lower: position, upper: position + 1, size, align: ALIGN });
        }
        steps_before.extend([steps.len(), steps.len() + 1]);
        let (bound, peaks) = peaks(&buffers, order.len() + 1);
        Arrangement {
            draft,
            steps,
            buffers,
            buffer_of,
            steps_before,
            bound,
            peaks,
            copies: copies_in_all,
            joins,
        }
    }
}

impl Arrangement {
    /// Whether the buffer of a value is live at the peak.
    fn at_peak(&self, id: NodeId) -> bool {
        let storage = self.draft.storage(id).map(|storage| self.buffers[self.buffer_of[storage]]);
        storage.is_some_and(|buffer| (buffer.lower..buffer.upper).contains(&self.peaks.0))
    }

    /// Whether it is preferred to another, under a limit.
    fn before(&self, other: &Self, limit: Option<usize>) -> Ordering {
        let above = |one: &Self| limit.is_some_and(|limit| one.bound > limit);
        let fewer_copies = self.copies.total_cmp(&other.copies);
        above(self).cmp(&above(other)).then(match limit {
            Some(_) if !above(self) => fewer_copies.then(self.bound.cmp(&other.bound)),
            _ => self.bound.cmp(&other.bound).then(fewer_copies),
        })
    }
}

/// The most bytes live at one position of so many; the first such position, and how many there are.
fn peaks(buffers: &[Buffer], positions: usize) -> (usize, (usize, usize)) {
    let mut begins = vec![0_usize; positions + 1];
    let mut ends = vec![0_usize; positions + 1];
    for buffer in buffers {
        begins[buffer.lower] += buffer.size;
        ends[buffer.upper] += buffer.size;
    }
    let (mut live, mut bound, mut found) = (0, 0, (0, 0));
    for position in 0..positions {
        live = live + begins[position] - ends[position];
        match live.cmp(&bound) {
            Ordering::Greater => (bound, found) = (live, (position, 1)),
            Ordering::Equal => found.1 += 1,
            Ordering::Less => {}
        }
    }
    (bound, found)
}

/// The share of its time that a kernel takes that need not copy what was computed where it belongs.
#[allow(clippy::cast_precision_loss)]
fn share_copied(graph: &Graph, node: &Node, contract: &Contract, joined: &[usize]) -> f64 {
    if contract.parts.is_empty() {
        return 1.0;
    }
    let bytes = |operand: usize| graph[node.inputs[operand]].ty.bytes() as f64;
    let copied: f64 = (0..node.inputs.len()).filter(|operand| !joined.contains(operand)).map(bytes).sum();
    copied / (node.ty.bytes().max(1) as f64)
}

/// The share of a result made of its operands that is copied however memory is planned: constants, the
/// caller's inputs, operands that come twice, and those off the alignment.
#[allow(clippy::cast_precision_loss)]
fn share_apart(graph: &Graph, node: &Node, contract: &Contract, constant: &[bool]) -> f64 {
    let apart = |(at, input): &(usize, &NodeId)| {
        constant[input.index()]
            || graph[**input].op == INPUT
            || node.inputs[..*at].contains(input)
            || !contract.joins(*at, graph[**input].ty.bytes())
    };
    let operands = node.inputs.iter().enumerate().filter(apart);
    let bytes: usize = operands.map(|(_, input)| graph[*input].ty.bytes()).sum();
    bytes as f64 / node.ty.bytes().max(1) as f64
}

/// The orders of execution that come into question by this name; `None` where it names none.
pub(super) fn orders(subject: &Subject<'_>, order: &str) -> Option<Vec<Vec<NodeId>>> {
    let Subject { graph, constant, contracts, .. } = subject;
    let runs: Vec<NodeId> = graph
        .nodes()
        .filter(|(id, node)| node.op != INPUT && !constant[id.index()])
        .map(|(id, _)| id)
        .collect();
    match order {
        "given" => return Some(vec![runs]),
        "peak" => {}
        _ => return None,
    }
    let mut task_of = vec![usize::MAX; graph.len()];
    for (task, id) in runs.iter().enumerate() {
        task_of[id.index()] = task;
    }
    let mut output = vec![false; graph.len()];
    graph.outputs().for_each(|(_, id)| output[id.index()] = true);
    let tasks: Vec<memory::Task> = runs
        .iter()
        .map(|id| {
            let node = &graph[*id];
            let contract = contracts[id.index()].as_ref().map(|(contract, _)| contract);
            let view = contract.and_then(|contract| contract.view_of);
            let inputs = node.inputs.iter().map(|input| task_of[input.index()]).filter(|t| *t != usize::MAX);
            memory::Task {
                size: if view.is_some() { 0 } else { node.ty.bytes().next_multiple_of(ALIGN) },
                scratch: contract.map_or(0, |contract| contract.scratch),
                inputs: inputs.collect(),
                alias_of: view.map(|v| task_of[node.inputs[v].index()]).filter(|t| *t != usize::MAX),
                output: output[id.index()],
            }
        })
        .collect();
    let named = |order: Vec<usize>| order.into_iter().map(|task| runs[task]).collect();
    Some(memory::orders(&tasks).into_iter().map(named).collect())
}
