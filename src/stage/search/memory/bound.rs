//! Lower bounds on the bytes and on the cost of all plans within limits.

use super::ROUNDING;
use super::search::Search;
use crate::extract::Problem;
use crate::stage::objective::Objective;
use crate::stage::search::room::Room;
use crate::tensor::Device;

impl Search<'_, '_> {
    /// Returns a lower bound on the sum of cost and of the arena's worth, for all plans whose host's arena
    /// has at most `most` bytes.
    pub fn bound(&self, worth: f64, most: usize) -> f64 {
        let mut levels = self.levels.borrow().clone();
        levels.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.total_cmp(&b.1)));
        let least = self.least_arena();
        let (mut bound, mut seconds) = (f64::INFINITY, 0.0_f64);
        for (at, (limit, faster)) in levels.iter().enumerate() {
            seconds = seconds.max(*faster);
            // The smallest plan that is within this limit and above the next.
            let smallest = levels.get(at + 1).map_or(0, |(next, _)| next.saturating_add(1)).max(least);
            if smallest <= (*limit).min(most) {
                bound = bound.min(seconds + Objective::memory_of(smallest, worth));
            }
        }
        bound
    }

    /// Returns a lower bound on the bytes of the host's arena, for all plans: without the kernels that need
    /// more bytes than that, some output cannot be computed.
    fn least_arena(&self) -> usize {
        let host = self.needs.iter().flatten().filter(|need| need.device == Device::Host);
        let mut known: Vec<usize> = host.map(|need| need.least).chain([0]).collect();
        known.sort_unstable();
        known.dedup();
        let enough = known.partition_point(|bytes| !self.runs_within(*bytes));
        known.get(enough).copied().unwrap_or(0)
    }

    /// Returns whether all outputs can be computed by kernels that need at most `bytes` bytes of the host.
    fn runs_within(&self, bytes: usize) -> bool {
        let Problem { classes, roots, .. } = &self.problem;
        let mut runs = vec![false; classes.len()];
        // For each class the candidates that read it, and for each candidate the number of its operands that no allowed
        // kernel computes so far.
        let mut readers: Vec<Vec<(usize, usize)>> = vec![Vec::new(); classes.len()];
        let mut missing: Vec<Vec<usize>> = Vec::with_capacity(classes.len());
        let mut ready = Vec::new();
        for (class, needs) in self.needs.iter().enumerate() {
            let mut counts = Vec::with_capacity(needs.len());
            for (place, (node, need)) in classes[class].nodes.iter().zip(needs).enumerate() {
                let allowed = need.device != Device::Host || need.least <= bytes;
                let allowed = allowed && node.cost.is_finite();
                counts.push(if allowed { node.children.len() } else { usize::MAX });
                if allowed {
                    node.children.iter().for_each(|child| readers[child.index()].push((class, place)));
                    if node.children.is_empty() {
                        ready.push(class);
                    }
                }
            }
            missing.push(counts);
        }
        while let Some(class) = ready.pop() {
            if std::mem::replace(&mut runs[class], true) {
                continue;
            }
            for (reader, place) in &readers[class] {
                let left = &mut missing[*reader][*place];
                *left -= 1;
                if *left == 0 {
                    ready.push(*reader);
                }
            }
        }
        roots.iter().all(|root| runs[root.index()])
    }

    /// Returns a lower bound on the bytes of constants on a device, for all plans. It is the bound of an
    /// extraction whose only costs are the bytes of constants.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(super) fn fewest(&self, device: Device) -> usize {
        if let Some(known) = self.fewest.borrow().get(&device) {
            return *known;
        }
        let mut problem = self.problem.clone();
        for (class, constant) in problem.classes.iter_mut().zip(&self.constants) {
            let bytes = constant.filter(|(on, _)| *on == device).map_or(0, |(_, bytes)| bytes);
            let nodes = class.nodes.iter_mut().filter(|node| node.cost.is_finite());
            nodes.for_each(|node| node.cost = bytes as f64);
        }
        let found = self.chooser.effort.extract(&problem);
        let bound = found.and_then(Result::ok).map_or(0.0, |extraction| extraction.bound);
        let bytes = (bound * (1.0 - ROUNDING)).ceil().max(0.0) as usize;
        self.fewest.borrow_mut().insert(device, bytes);
        bytes
    }

    /// Records a lower bound on the cost of all plans within limits.
    pub(super) fn level(&self, room: &Room, cost: f64) {
        self.levels.borrow_mut().push((room.arena.get(Device::Host).unwrap_or(usize::MAX), cost));
    }
}
