//! An order of execution, and which operands are computed where they belong: what a plan decides about
//! memory before buffers get their offsets.
//!
//! An operand that is computed in the result it is a part of saves a copy, and makes the whole result live
//! from then on. Where that raises the peak by more than the copy is worth, or above a limit, the operand
//! gets a buffer of its own, and is copied.

use super::Arena;
use super::draft::Draft;
use super::order::Sequence;
use super::subject::Subject;
use crate::graph::{Graph, INPUT, Node, NodeId};
use crate::memory::{Buffer, Limit, Packing, Planner};
use crate::op::{ALIGN, Contract};
use crate::tensor::Device;
use std::cmp::Ordering;
use std::collections::BTreeSet;

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
    /// Whose memory each is of.
    pub devices: Vec<Device>,
    /// For each storage of the draft, its buffer.
    pub buffer_of: Vec<usize>,
    /// For each position, how many steps come before it: views take a position and are no steps.
    pub steps_before: Vec<usize>,
    /// Of each device, the host first, where the most bytes are live at one time.
    peaks: Vec<Peak>,
    /// Seconds of all copies.
    copies: f64,
    /// Bytes of constants that are read again from afar, where that counts.
    reread: usize,
    /// Results that operands are computed in, with those operands, the first computed first.
    joins: Vec<(NodeId, Vec<usize>)>,
}

/// The most bytes of a device that are live at one position.
#[derive(Clone, Copy)]
struct Peak {
    device: Device,
    bytes: usize,
    /// The first position at which so many are live, and how many there are.
    first: usize,
    count: usize,
}

/// Where the buffers of an arrangement lie, each in the arena of its device.
pub(super) struct Packed {
    pub offsets: Vec<usize>,
    /// The arena of each device, the host first.
    pub arenas: Vec<Arena>,
}

impl Packed {
    fn bytes(&self, device: Device) -> usize {
        self.arenas.iter().find(|arena| arena.device == device).map_or(0, |arena| arena.bytes)
    }

    /// Bytes above the limits, and bytes in all: the fewer the better.
    fn rank(&self, limit: &Limit) -> (usize, usize) {
        let excess = limit.iter().map(|(device, most)| self.bytes(device).saturating_sub(most)).sum();
        (excess, self.arenas.iter().map(|arena| arena.bytes).sum())
    }
}

/// How many nodes may be looked at while joins are undone, so that planning stays quick.
const WORK: usize = 1 << 22;
/// How often the buffers of an arrangement that should fit are placed, and do not.
const PLACED: usize = 8;

impl Subject<'_> {
    /// The best arrangement by any of the orders, and its packing: within the limits if there is one that is,
    /// with the fewest copies, and among these the fewest bytes; else with the fewest bytes live at one time. Bytes are
    /// those live at one time, of all devices together, and, within the limits, those of constants that are read
    /// again from afar.
    pub(crate) fn arrange(
        &self,
        orders: &[Sequence],
        planner: &dyn Planner,
        limit: &Limit,
    ) -> Option<(Arrangement, Packed)> {
        let mut target = limit.clone();
        let mut least: Option<(Arrangement, Packed)> = None;
        for _ in 0..PLACED {
            let refined = orders.iter().map(|order| self.refined(order, &target));
            let Some(best) = refined.reduce(|a, b| if b.before(&a, &target).is_lt() { b } else { a }) else {
                break;
            };
            let packed = best.pack(planner);
            // Where there is room in theory alone, less must be live.
            let mut aim = target.clone();
            for (device, most) in limit.iter() {
                let bound = best.bound(device);
                let fits = target.of(device).is_some_and(|target| bound <= target);
                if packed.bytes(device) > most && fits && bound > 0 {
                    aim = aim.with(device, bound - 1);
                }
            }
            if least.as_ref().is_none_or(|(_, least)| packed.rank(limit) < least.rank(limit)) {
                least = Some((best, packed));
            }
            if std::mem::replace(&mut target, aim.clone()) == aim {
                break;
            }
        }
        least
    }

    /// The arrangement of an order, with joins undone where that is worth it.
    fn refined(&self, order: &Sequence, limit: &Limit) -> Arrangement {
        let mut work = WORK;
        let mut apart = Apart::new();
        let mut best = self.draft(order, &apart);
        // What the bytes at the peak are worth in seconds: they are written and read, as by a copy.
        let worth = |one: &Arrangement| one.copies + (self.copy)(one.total());
        while let Some((next, sets)) =
            self.next(order, &best, &apart, &mut work, |next, best| worth(best) - worth(next))
        {
            (best, apart) = (next, sets);
        }
        if !best.is_above(limit) {
            return best;
        }
        #[allow(clippy::cast_precision_loss)]
        let gain = |next: &Arrangement, best: &Arrangement| {
            // Bytes and peaks of the devices on which it is too much.
            let over = |one: &Arrangement| {
                let over = best.peaks.iter().zip(&one.peaks).filter(|(best, _)| best.is_above(limit));
                over.fold((0, 0), |(bytes, count), (_, peak)| (bytes + peak.bytes, count + peak.count))
            };
            let ((now, peaks), (then, left)) = (over(best), over(next));
            match then.cmp(&now) {
                Ordering::Less => (now - then) as f64 / (next.copies - best.copies).max(f64::MIN_POSITIVE),
                // One peak of several is gone.
                Ordering::Equal if left < peaks => f64::MIN_POSITIVE,
                _ => 0.0,
            }
        };
        while best.is_above(limit)
            && let Some((next, sets)) = self.next(order, &best, &apart, &mut work, gain)
        {
            (best, apart) = (next, sets);
        }
        // What was undone on the way and is of no use in the end is joined again.
        for pair in apart.clone() {
            let mut fewer = apart.clone();
            fewer.remove(&pair);
            let again = self.draft(order, &fewer);
            let small = again
                .peaks
                .iter()
                .zip(&best.peaks)
                .all(|(again, best)| again.bytes <= best.bytes.max(limit.of(best.device).unwrap_or(0)));
            if small && again.copies < best.copies {
                (best, apart) = (again, fewer);
            }
        }
        best
    }

    /// The arrangement with more operands apart that gains the most, if any gains.
    fn next(
        &self,
        order: &Sequence,
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
                *work = work.checked_sub(order.nodes.len())?;
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

    /// The devices that the values of the program lie on, the host first.
    fn devices(&self) -> impl Iterator<Item = Device> + use<> {
        let of = self.graph.nodes().map(|(_, node)| node.ty.device);
        of.chain([Device::Host]).collect::<BTreeSet<Device>>().into_iter()
    }

    /// The arrangement of an order, with these operands apart.
    fn draft(&self, order: &Sequence, apart: &Apart) -> Arrangement {
        let graph = self.graph;
        let Sequence { nodes: order, reread } = order;
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
        let (mut buffers, mut devices, buffer_of) = draft.buffers();
        for (step, position) in scratches {
            steps[step].scratch_buffer = Some(buffers.len());
            let size = steps[step].scratch.next_multiple_of(ALIGN);
            buffers.push(Buffer { lower: position, upper: position + 1, size, align: ALIGN });
            devices.push(graph[steps[step].node].ty.device);
        }
        steps_before.extend([steps.len(), steps.len() + 1]);
        let peaks = self.devices().map(|device| {
            let mine = buffers.iter().zip(&devices).filter(|(_, of)| **of == device);
            peak(device, mine.map(|(buffer, _)| buffer), order.len() + 1)
        });
        let peaks = peaks.collect();
        Arrangement {
            draft,
            steps,
            buffers,
            devices,
            buffer_of,
            steps_before,
            peaks,
            copies: copies_in_all,
            reread: *reread,
            joins,
        }
    }
}

impl Peak {
    fn is_above(&self, limit: &Limit) -> bool {
        limit.of(self.device).is_some_and(|limit| self.bytes > limit)
    }
}

impl Arrangement {
    /// Packs the buffers of each device by themselves: memories do not overlap.
    fn pack(&self, planner: &dyn Planner) -> Packed {
        let mut packed = Packed { offsets: vec![0; self.buffers.len()], arenas: Vec::new() };
        for Peak { device, .. } in &self.peaks {
            let mine: Vec<usize> =
                (0..self.buffers.len()).filter(|at| self.devices[*at] == *device).collect();
            let buffers: Vec<Buffer> = mine.iter().map(|at| self.buffers[*at]).collect();
            let Packing { offsets, peak, lower_bound, proven, .. } = planner.plan(&buffers);
            mine.iter().zip(offsets).for_each(|(at, offset)| packed.offsets[*at] = offset);
            packed.arenas.push(Arena { device: *device, bytes: peak, lower_bound, proven });
        }
        packed
    }

    /// The most bytes live at one position, of one device.
    fn bound(&self, device: Device) -> usize {
        self.peaks.iter().find(|peak| peak.device == device).map_or(0, |peak| peak.bytes)
    }

    /// The sum of the devices' peaks: a byte counts alike wherever it is.
    fn total(&self) -> usize {
        self.peaks.iter().map(|peak| peak.bytes).sum()
    }

    fn is_above(&self, limit: &Limit) -> bool {
        self.peaks.iter().any(|peak| peak.is_above(limit))
    }

    /// Whether the buffer of a value is live at the peak of its device.
    fn at_peak(&self, id: NodeId) -> bool {
        self.draft.storage(id).map(|storage| self.buffer_of[storage]).is_some_and(|at| {
            let lives = self.buffers[at].lower..self.buffers[at].upper;
            self.peaks.iter().any(|peak| peak.device == self.devices[at] && lives.contains(&peak.first))
        })
    }

    /// Whether it is preferred to another, under limits.
    fn before(&self, other: &Self, limit: &Limit) -> Ordering {
        let fewer_copies = self.copies.total_cmp(&other.copies);
        let less = (self.total() + self.reread).cmp(&(other.total() + other.reread));
        self.is_above(limit).cmp(&other.is_above(limit)).then(if self.is_above(limit) {
            self.total().cmp(&other.total()).then(fewer_copies)
        } else if limit.is_none() {
            less.then(fewer_copies)
        } else {
            fewer_copies.then(less)
        })
    }
}

/// Where the most bytes are live at one position of so many.
fn peak<'a>(device: Device, buffers: impl Iterator<Item = &'a Buffer>, positions: usize) -> Peak {
    let mut begins = vec![0_usize; positions + 1];
    let mut ends = vec![0_usize; positions + 1];
    for buffer in buffers {
        begins[buffer.lower] += buffer.size;
        ends[buffer.upper] += buffer.size;
    }
    let mut live = 0;
    let mut peak = Peak { device, bytes: 0, first: 0, count: 0 };
    for position in 0..positions {
        live = live + begins[position] - ends[position];
        match live.cmp(&peak.bytes) {
            Ordering::Greater => peak = Peak { bytes: live, first: position, count: 1, ..peak },
            Ordering::Equal => peak.count += 1,
            Ordering::Less => {}
        }
    }
    peak
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
