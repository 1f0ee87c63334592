//! The search for plans within limits of memory: prices of bytes, and kernels that are forbidden.

use super::recompute::Base;
use super::{ROUNDING, live, nothing, too_large};
use crate::egraph::Need;
use crate::error::Error;
use crate::extract::Problem;
use crate::memory::Limit;
use crate::op::Call;
use crate::plan::Plan;
use crate::stage::objective::Objective;
use crate::stage::search::effort::WORK;
use crate::stage::search::room::{Measure, Room};
use crate::stage::search::trial::{Chooser, Trial};
use crate::tensor::Device;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The state of a search.
pub(super) struct Search<'a, 'b> {
    /// Chooses and plans programs.
    pub(super) chooser: &'a Chooser<'b>,
    /// The extraction problem. Its costs include the worth of the constants.
    pub(super) problem: Problem,
    /// For each class, the memory that each of its candidates needs.
    pub(super) needs: Vec<Vec<Need>>,
    /// For each class, its device and bytes if it is constant.
    pub(super) constants: Vec<Option<(Device, usize)>>,
    /// For each device, the bytes of constants that every plan keeps on it. They are computed when they are
    /// first needed.
    pub(super) fewest: RefCell<BTreeMap<Device, usize>>,
    /// The smallest plan that was found so far, by the bytes on devices with a limit.
    least: RefCell<Plan>,
    /// The fastest program, whose values may be computed again.
    base: Base,
    /// Limits of the host's arena in bytes, each with a lower bound on the cost of all plans within it. The bound is
    /// infinite if there is no plan within the limit.
    pub(super) levels: RefCell<Vec<(usize, f64)>>,
}

/// The most prices of a byte that are tried for one limit.
const ROUNDS: usize = 24;
/// The first price of a byte, as a fraction of the plan's cost divided by its bytes, and the factor by which the price
/// rises from one attempt to the next.
const PRICE: (f64, f64) = (1.0 / 64.0, 4.0);
/// The highest price, as such a fraction. At this price a byte costs so much more than time that a higher
/// price finds no other plan.
const DEAREST: f64 = 4096.0;
/// The number of steps of the binary search between a price that is too low for the limit and one that is high enough.
const HALVINGS: usize = 4;
/// The unit in which progress is reported.
const MILLION: usize = 1_000_000;
/// The most points of a curve.
const POINTS: usize = 64;

impl<'a, 'b> Search<'a, 'b> {
    /// Begins a search from the fastest plan.
    pub fn new(chooser: &'a Chooser<'b>, fastest: &Trial) -> Result<Self, Error> {
        let contracts = |call: &Call<'_>| chooser.target.contract(call);
        let needs = chooser.pick.needs(chooser.target.threads, &contracts);
        chooser.effort.begin(&fastest.extraction);
        Ok(Self {
            chooser,
            base: Base::new(fastest, chooser)?,
            problem: weighed(chooser),
            constants: (0..needs.len()).map(|class| chooser.pick.constant(class)).collect(),
            needs,
            fewest: RefCell::default(),
            least: RefCell::new(fastest.plan.clone()),
            levels: RefCell::new(vec![(usize::MAX, fastest.extraction.bound)]),
        })
    }

    /// Returns plans of which each is cheaper than all plans that were found with less memory on a device.
    /// The first one is the cheapest within the limits.
    pub fn curve(
        &self,
        fastest: Trial,
        (measure, device): (Measure, Device),
        room: &Room,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Trial>, Error> {
        let first = match room.holds(&fastest.plan) {
            true => fastest,
            false => self.within(fastest, room, progress)?,
        };
        self.down(first, (measure, device), 0, room, progress)
    }

    /// Returns a plan within the limits. If no fast one is found at once, the search goes down from the fastest plan to
    /// smaller and smaller ones, for one device after the other.
    pub fn within(
        &self,
        fastest: Trial,
        room: &Room,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Trial, Error> {
        if let Some(trial) = self.fit(room)? {
            return Ok(trial);
        }
        let (mut trial, mut kept) = (fastest, Room::default());
        for (device, most) in room.whole.iter() {
            let by = (Measure::Whole, device);
            trial = self.down(trial, by, most, &kept, progress)?.pop().ok_or_else(nothing)?;
            if trial.plan.memory_of(device) > most {
                return Err(self.too_large(trial.plan, device, most));
            }
            kept = kept.with(Measure::Whole, device, most);
        }
        Ok(trial)
    }

    /// Returns the error that no plan is within a limit. It describes the peak of the smallest plan that was found.
    fn too_large(&self, found: Plan, device: Device, limit: usize) -> Error {
        let least = self.least.borrow();
        let plan = if least.memory_of(device) < found.memory_of(device) { &*least } else { &found };
        let mut text = too_large(plan, device, limit);
        if self.chooser.effort.is_spent() {
            let _ = write!(
                text,
                "\nthe search ended at its limit of work ({WORK} steps): there may be a smaller plan"
            );
        }
        Error::TooLarge { device, limit, why: text }
    }

    /// Returns a plan and smaller and smaller ones after it, by their memory on a device. It ends when a plan
    /// is within the limit, or when no smaller plan is found that is within the other limits.
    fn down(
        &self,
        first: Trial,
        (measure, device): (Measure, Device),
        limit: usize,
        others: &Room,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Trial>, Error> {
        // If each plan takes much work, there is no time to find all of them, so that small differences are skipped.
        let hasty = self.chooser.effort.is_hasty();
        let least_step = if hasty { measure.bytes(&first.plan, device) / POINTS } else { 0 };
        let mut trials = vec![first];
        while let Some(bytes) = trials.last().map(|trial| measure.bytes(&trial.plan, device))
            && bytes > limit
            && trials.len() < POINTS
        {
            if limit == 0 {
                progress(self.chooser.effort.spent() / MILLION, WORK / MILLION);
            }
            let next = (bytes - 1).min((bytes - least_step).max(limit));
            let Some(next) = self.fit(&others.with(measure, device, next))? else { break };
            while trials.last().is_some_and(|last| last.extraction.cost >= next.extraction.cost) {
                trials.pop();
            }
            trials.push(next);
        }
        if limit == 0 {
            // Reports the end, even if there is work left in the budget.
            let done = (self.chooser.effort.spent() / MILLION).max(1);
            progress(done, done);
        }
        Ok(trials)
    }

    /// Returns a fast plan within the limits, if one is found.
    fn fit(&self, room: &Room) -> Result<Option<Trial>, Error> {
        let of_other_kernels = self.of_other_kernels(room)?;
        let again = self.base.within(room, self.chooser)?;
        Ok(cheaper(of_other_kernels, again))
    }

    /// Returns a fast plan within the limits that computes nothing again, if one is found.
    fn of_other_kernels(&self, room: &Room) -> Result<Option<Trial>, Error> {
        let with_copies = self.search(room, room)?;
        let copies = |trial: &Trial| trial.plan.steps.iter().map(|step| step.copies).sum::<f64>();
        if with_copies.as_ref().is_some_and(|trial| copies(trial) == 0.0) {
            return Ok(with_copies);
        }
        // Another kernel may be cheaper than the copies.
        Ok(cheaper(with_copies, self.search(room, &Room::default())?))
    }

    /// Returns a fast plan within the limits `room`, if one is found. Candidates are planned for the limits
    /// `planned`: memory planning adds copies to keep within them.
    fn search(&self, room: &Room, planned: &Room) -> Result<Option<Trial>, Error> {
        // A kernel that needs more memory than a limit, even if it runs alone, is in no plan within the limits.
        let mut allowed = self.problem.clone();
        let above = |limit: &Limit, device, bytes| limit.get(device).is_some_and(|most| bytes > most);
        let too_much = |_, need: &Need| {
            let constants = || need.constants.max(self.fewest(need.device));
            above(&room.arena, need.device, need.least)
                || room.whole.get(need.device).is_some_and(|most| need.least + constants() > most)
        };
        self.forbid(&mut allowed, too_much);
        let (mut problem, mut bound) = (allowed.clone(), None);
        // The last price at which the plan was above the limits, and the present price.
        let (mut before, mut price) = (0.0, 0.0);
        let mut found: Option<Trial> = None;
        for _ in 0..ROUNDS {
            let Some(trial) = self.chooser.best(&self.priced(&problem, room, price), planned)? else {
                let spent = self.chooser.effort.is_spent();
                if bound.is_none() && !spent {
                    self.level(room, f64::INFINITY);
                }
                if price > 0.0 || bound.is_none() || spent {
                    break;
                }
                // Too many kernels were forbidden. Allow them again, and use prices only.
                problem = allowed.clone();
                price = f64::MIN_POSITIVE;
                continue;
            };
            if bound.is_none() {
                self.level(room, trial.extraction.bound);
            }
            bound.get_or_insert(trial.extraction.bound);
            if room.bytes(&trial.plan) < room.bytes(&self.least.borrow()) {
                *self.least.borrow_mut() = trial.plan.clone();
            }
            if room.holds(&trial.plan) {
                found = Some(trial);
                break;
            }
            if price == 0.0 && self.make_room(&trial, room, &mut problem) {
                continue;
            }
            #[allow(clippy::cast_precision_loss)]
            let each = |bytes: usize| trial.extraction.cost / bytes.max(1) as f64;
            let limited = trial.plan.arenas().filter(|arena| room.limits(arena.device));
            let arenas = limited.map(|arena| arena.bytes).sum::<usize>();
            let unit = each(room.bytes(&trial.plan));
            before = price;
            price = if price < PRICE.0 * unit { PRICE.0 * unit } else { price * PRICE.1 };
            if price > DEAREST * each(arenas) {
                break;
            }
        }
        let (Some(first), Some(bound)) = (found, bound) else { return Ok(None) };
        let mut trial = self.cheaper(first, &problem, (before, price), room, planned)?;
        trial.extraction.bound = bound;
        trial.extraction.proven &= trial.extraction.cost <= bound * (1.0 + ROUNDING);
        trial.extraction.settle();
        Ok(Some(trial))
    }

    /// Improves a plan by a binary search for the lowest price of a byte at which the plan is within the
    /// limits: at a higher price, the extraction saves memory that need not be saved, and loses time for it.
    /// `above` is a price at which the plan is above the limits, and `within` one at which it is not.
    fn cheaper(
        &self,
        first: Trial,
        problem: &Problem,
        (mut above, mut within): (f64, f64),
        room: &Room,
        planned: &Room,
    ) -> Result<Trial, Error> {
        let mut best = first;
        if within <= f64::MIN_POSITIVE {
            return Ok(best);
        }
        for _ in 0..HALVINGS {
            let price = f64::midpoint(above, within);
            let Some(trial) = self.chooser.best(&self.priced(problem, room, price), planned)? else { break };
            if !room.holds(&trial.plan) {
                above = price;
                continue;
            }
            within = price;
            if trial.extraction.cost < best.extraction.cost {
                best = trial;
            }
        }
        Ok(best)
    }

    /// Forbids the candidates for which `too_much` holds, and returns whether there are any.
    fn forbid(&self, problem: &mut Problem, too_much: impl Fn(usize, &Need) -> bool) -> bool {
        let mut any = false;
        for (class, needs) in self.needs.iter().enumerate() {
            for (node, need) in problem.classes[class].nodes.iter_mut().zip(needs) {
                if node.cost.is_finite() && too_much(class, need) {
                    node.cost = f64::INFINITY;
                    any = true;
                }
            }
        }
        any
    }

    /// Looks at the steps at which a plan is above the limits, and forbids the kernels that leave no room
    /// there for the other live buffers. Returns whether it forbade any. If the constants alone are above a
    /// limit, no kernel can make room.
    fn make_room(&self, trial: &Trial, room: &Room, problem: &mut Problem) -> bool {
        let constants = trial.plan.constants();
        let kept = |device| constants.get(&device).copied().unwrap_or(0);
        if room.whole.iter().any(|(device, most)| kept(device) > most) {
            return false;
        }
        let limit = room.beside(&constants);
        let mut most = vec![usize::MAX; self.needs.len()];
        for (at, step) in trial.plan.steps.iter().enumerate() {
            let device = step.output_type.device;
            let Some(limit) = limit.get(device) else { continue };
            let live: usize = live(&trial.plan, device, at).map(|buffer| buffer.size).sum();
            let Some((class, place)) = trial.candidate(step.node).filter(|_| live > limit) else { continue };
            let beside = live.saturating_sub(self.needs[class][place].least);
            let left = limit.saturating_sub(beside);
            let nodes = problem.classes[class].nodes.iter().zip(&self.needs[class]);
            if nodes.filter(|(node, _)| node.cost.is_finite()).any(|(_, need)| need.least <= left) {
                most[class] = most[class].min(left);
            }
        }
        self.forbid(problem, |class, need| need.least > most[class])
    }

    /// Returns the problem with a price for every byte of results, scratch and constants on devices with a limit.
    #[allow(clippy::cast_precision_loss)]
    fn priced(&self, problem: &Problem, room: &Room, price: f64) -> Problem {
        let mut priced = problem.clone();
        for (class, needs) in priced.classes.iter_mut().zip(&self.needs) {
            for (node, need) in class.nodes.iter_mut().zip(needs) {
                if room.limits(need.device) {
                    node.cost += price * need.own as f64;
                }
            }
        }
        let counts = |device| room.whole.get(device).is_some();
        price_constants(&mut priced, &self.constants, counts, price);
        priced
    }
}

/// Returns the one that costs less; of equal ones the first.
fn cheaper(a: Option<Trial>, b: Option<Trial>) -> Option<Trial> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.extraction.cost < a.extraction.cost { b } else { a }),
        (a, b) => a.or(b),
    }
}

/// Returns the extraction problem. Its costs include the worth of the constants.
pub(super) fn weighed(chooser: &Chooser<'_>) -> Problem {
    let mut problem = chooser.problem.clone();
    if chooser.worth > 0.0 {
        let constants: Vec<_> =
            (0..problem.classes.len()).map(|class| chooser.pick.constant(class)).collect();
        let price = Objective::memory_of(1, chooser.worth);
        price_constants(&mut problem, &constants, |device| device == Device::Host, price);
    }
    problem
}

/// Adds a price for every byte of the constants of some devices. A constant is paid once, even if several
/// kernels read it.
#[allow(clippy::cast_precision_loss)] // Bytes are far below what a float holds.
fn price_constants(
    problem: &mut Problem,
    constants: &[Option<(Device, usize)>],
    counts: impl Fn(Device) -> bool,
    price: f64,
) {
    for (class, constant) in problem.classes.iter_mut().zip(constants) {
        let Some((_, bytes)) = constant.filter(|(device, _)| counts(*device)) else { continue };
        class.nodes.iter_mut().for_each(|node| node.cost += price * bytes as f64);
    }
}
