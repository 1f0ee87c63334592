//! Chooses an order of execution, and the operands that are computed at their places in a larger result, before
//! buffers get their offsets.
//!
//! An operand that is computed within the result of which it is a part needs no copy. But the whole result is live
//! from then on. If this raises the peak by more than the copy is worth, or above a limit, the operand gets a buffer
//! of its own and is copied.

use super::Arena;
use super::draft::Draft;
use super::order::{Sequence, Sequences};
use super::subject::Subject;
use crate::graph::{Graph, INPUT, Node, NodeId};
use crate::memory::{Buffer, Limit, Packing, Planner};
use crate::op::{ALIGN, Contract};
use crate::tensor::Device;
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// The operands that are not computed within a result: the result, and the index of the operand.
type Apart = BTreeSet<(NodeId, usize)>;

/// A step without its offsets.
pub(super) struct Arranged {
    pub node: NodeId,
    pub in_place: Option<usize>,
    pub copied: Option<usize>,
    pub joined: Vec<usize>,
    pub scratch: usize,
    /// The index of the scratch among the buffers.
    pub scratch_buffer: Option<usize>,
    pub seconds: f64,
    /// The part of the seconds that is for copies.
    pub copies: f64,
}

/// The steps in order, and the buffers that they need.
pub(super) struct Arrangement {
    pub draft: Draft,
    pub steps: Vec<Arranged>,
    /// The buffers to place: first those of values, then scratch. Their lifetimes are positions in the order.
    pub buffers: Vec<Buffer>,
    /// The device of each buffer.
    pub devices: Vec<Device>,
    /// For each storage of the draft, the index of its buffer.
    pub buffer_of: Vec<usize>,
    /// For each position, the number of steps before it. A view has a position but is not a step.
    pub steps_before: Vec<usize>,
    /// The peak of each device, the host first.
    peaks: Vec<Peak>,
    /// The seconds of all copies.
    copies: f64,
    /// The expected bytes of constants that are read again from beyond a cache, if the order counts them.
    reread: usize,
    /// The results within which operands are computed, with these operands, the first computed one first.
    joins: Vec<(NodeId, Vec<usize>)>,
}

/// The most bytes of a device that are live at one position.
#[derive(Clone, Copy)]
struct Peak {
    device: Device,
    bytes: usize,
    /// The first position at which this number of bytes is live, and the number of such positions.
    first: usize,
    count: usize,
}

/// The places of the buffers of an arrangement, each in the arena of its device.
pub(super) struct Packed {
    pub offsets: Vec<usize>,
    /// The arena of each device, the host first.
    pub arenas: Vec<Arena>,
}

impl Packed {
    fn bytes(&self, device: Device) -> usize {
        self.arenas.iter().find(|arena| arena.device == device).map_or(0, |arena| arena.bytes)
    }

    /// Returns the bytes above the limits, and all bytes. Fewer are better.
    fn rank(&self, limit: &Limit) -> (usize, usize) {
        let excess = limit.iter().map(|(device, most)| self.bytes(device).saturating_sub(most)).sum();
        (excess, self.arenas.iter().map(|arena| arena.bytes).sum())
    }
}

/// The most nodes that may be visited while joins are undone, so that planning stays fast.
const WORK: usize = 1 << 22;
/// The most attempts to place the buffers of an arrangement whose live bytes are within the limits.
const PLACED: usize = 8;

impl Subject<'_> {
    /// Returns the best arrangement of all candidate orders, and its packing. If some arrangement is within the
    /// limits, the best one has the fewest copies, and among equal ones the fewest bytes. Otherwise it has the fewest
    /// bytes that are live at one time. Bytes are the peaks of all devices together; within the limits, constants
    /// that are read again from beyond a cache are added.
    pub(crate) fn arrange(
        &self,
        orders: &Sequences,
        planner: &dyn Planner,
        limit: &Limit,
    ) -> Option<(Arrangement, Packed)> {
        let mut target = limit.clone();
        let mut least: Option<(Arrangement, Packed)> = None;
        for _ in 0..PLACED {
            let refined = orders.orders.iter().map(|order| self.refined(order, &target));
            let Some(best) = refined.reduce(|a, b| if b.before(&a, &target).is_lt() { b } else { a }) else {
                break;
            };
            let packed = best.pack(planner, &orders.least);
            // The live bytes are within the limits, but the packing is not: try with lower limits.
            let mut aim = target.clone();
            for (device, most) in limit.iter() {
                let bound = best.bound(device);
                let fits = target.get(device).is_some_and(|target| bound <= target);
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

    /// Returns the arrangement of an order, after undoing joins that are not worth their memory.
    fn refined(&self, order: &Sequence, limit: &Limit) -> Arrangement {
        let mut work = WORK;
        let mut apart = Apart::new();
        let mut best = self.draft(order, &apart);
        // The bytes at the peak count as the seconds of a copy, because they are written and read.
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
            // The bytes and the number of peaks of the devices that exceed their limits.
            let over = |one: &Arrangement| {
                let over = best.peaks.iter().zip(&one.peaks).filter(|(best, _)| best.is_above(limit));
                over.fold((0, 0), |(bytes, count), (_, peak)| (bytes + peak.bytes, count + peak.count))
            };
            let ((now, peaks), (then, left)) = (over(best), over(next));
            match then.cmp(&now) {
                Ordering::Less => (now - then) as f64 / (next.copies - best.copies).max(f64::MIN_POSITIVE),
                // One of several peaks disappears.
                Ordering::Equal if left < peaks => f64::MIN_POSITIVE,
                _ => 0.0,
            }
        };
        while best.is_above(limit)
            && let Some((next, sets)) = self.next(order, &best, &apart, &mut work, gain)
        {
            (best, apart) = (next, sets);
        }
        // Join again what was undone on the way without need.
        for pair in apart.clone() {
            let mut fewer = apart.clone();
            fewer.remove(&pair);
            let again = self.draft(order, &fewer);
            let small = again
                .peaks
                .iter()
                .zip(&best.peaks)
                .all(|(again, best)| again.bytes <= best.bytes.max(limit.get(best.device).unwrap_or(0)));
            if small && again.copies < best.copies {
                (best, apart) = (again, fewer);
            }
        }
        best
    }

    /// Undoes the join that gains the most, if any gains.
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
            // The lifetime of the result begins with its first operands, so only these cost memory.
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

    /// Returns the devices on which the values of the program lie, the host first.
    fn devices(&self) -> impl Iterator<Item = Device> + use<> {
        let of = self.graph.nodes().map(|(_, node)| node.ty.device);
        of.chain([Device::Host]).collect::<BTreeSet<Device>>().into_iter()
    }

    /// Returns the arrangement of an order in which these operands are not computed within results.
    fn draft(&self, order: &Sequence, apart: &Apart) -> Arrangement {
        let graph = self.graph;
        let Sequence { nodes: order, reread } = order;
        let mut draft = Draft::new(graph, self.constant, self.updates, order);
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
        limit.get(self.device).is_some_and(|limit| self.bytes > limit)
    }
}

impl Arrangement {
    /// Packs the buffers of each device separately, because devices share no memory. `least` has for devices a
    /// number of bytes that are live at one time in every order.
    fn pack(&self, planner: &dyn Planner, least: &[(Device, usize)]) -> Packed {
        let mut packed = Packed { offsets: vec![0; self.buffers.len()], arenas: Vec::new() };
        for Peak { device, .. } in &self.peaks {
            let mine: Vec<usize> =
                (0..self.buffers.len()).filter(|at| self.devices[*at] == *device).collect();
            let buffers: Vec<Buffer> = mine.iter().map(|at| self.buffers[*at]).collect();
            let Packing { offsets, peak, lower_bound, proven, .. } = planner.plan(&buffers);
            mine.iter().zip(offsets).for_each(|(at, offset)| packed.offsets[*at] = offset);
            let least = least.iter().find(|(on, _)| on == device).map_or(0, |(_, bytes)| *bytes);
            packed.arenas.push(Arena {
                device: *device,
                bytes: peak,
                lower_bound,
                lower_bound_any_order: least,
                proven,
            });
        }
        packed
    }

    /// Returns the most bytes of a device that are live at one position.
    fn bound(&self, device: Device) -> usize {
        self.peaks.iter().find(|peak| peak.device == device).map_or(0, |peak| peak.bytes)
    }

    /// Returns the sum of the peaks of all devices.
    fn total(&self) -> usize {
        self.peaks.iter().map(|peak| peak.bytes).sum()
    }

    fn is_above(&self, limit: &Limit) -> bool {
        self.peaks.iter().any(|peak| peak.is_above(limit))
    }

    /// Returns whether the buffer of a value is live at the peak of its device.
    fn at_peak(&self, id: NodeId) -> bool {
        self.draft.storage(id).map(|storage| self.buffer_of[storage]).is_some_and(|at| {
            let lives = self.buffers[at].lower..self.buffers[at].upper;
            self.peaks.iter().any(|peak| peak.device == self.devices[at] && lives.contains(&peak.first))
        })
    }

    /// Compares two arrangements under limits. The lesser one is preferred.
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

/// Returns the peak of the buffers of a device over this number of positions.
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

/// Returns the share of its time that a kernel still takes if it does not copy the joined operands.
#[allow(clippy::cast_precision_loss)]
fn share_copied(graph: &Graph, node: &Node, contract: &Contract, joined: &[usize]) -> f64 {
    if contract.parts.is_empty() {
        return 1.0;
    }
    let bytes = |operand: usize| graph[node.inputs[operand]].ty.bytes() as f64;
    let copied: f64 = (0..node.inputs.len()).filter(|operand| !joined.contains(operand)).map(bytes).sum();
    copied / (node.ty.bytes().max(1) as f64)
}

/// Returns the share of the result's bytes that is copied in every memory plan: from operands that are constants or
/// inputs, that occur twice, or that are not aligned.
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
