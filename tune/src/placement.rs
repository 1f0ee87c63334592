//! Where a team's threads sit: each on a core of its own and near the others, or not.
//!
//! Pinning a thread to a processor pins it to what the system calls one. A virtual machine's processors move
//! over the host's: at one time two of them are the halves of one core, at another they are cores under one
//! last cache, at another under different ones, and at any time another machine may have the other half of
//! a core. So the same plan takes now one time, now nearly twice as much, and no time of a kernel holds for
//! both. What is timed in another seating than the best is timed again. On a machine of its own the seating
//! never changes.
//!
//! Two figures tell it: the time in which a cache line goes from the caller to the farthest worker and back
//! (under another last cache several times that of the same), and how fast all threads calculate together
//! (in halves of cores half as fast as in whole ones). One thread has the second alone.

use ovolo::team::Team;
use std::collections::VecDeque;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Round trips of which one figure is made.
const TRIPS: usize = 24;
/// How long the caller waits for a worker: one that takes so long has no processor.
const PATIENCE: Duration = Duration::from_millis(1);
/// So many times the shortest round trip of threads on cores of their own is near: under the same last cache.
const NEAR: f64 = 2.2;
/// So many times the usual calculation is whole.
const WHOLE: f64 = 1.15;
/// So many times faster than usual no two halves of one core calculate: they were that before.
const DOUBLE: f64 = 1.5;
/// Of so many looks the lower quartile is usual.
const RECENT: usize = 512;
/// Looks at the seating before what is best is taken as known.
const LOOKS: usize = 24;
/// Between looks: threads that sleep are seated anew.
const PAUSE: Duration = Duration::from_millis(4);

/// What was seen of a seating, in seconds.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// A round trip of a cache line; 0 for one thread.
    trip: f64,
    /// The calculation of the slowest thread, while all calculate.
    calculation: f64,
}

impl Seen {
    /// A look at a team; `None` where one of its threads has no processor.
    fn look(team: &Team) -> Option<Self> {
        let trip = match team.threads() {
            1 => 0.0,
            // A worker that slept is only waked by the first.
            _ => round_trip(team).or_else(|| round_trip(team))?,
        };
        Some(Self { trip, calculation: together(team)? })
    }
}

/// How a team was seen to sit.
#[derive(Clone, Debug)]
pub struct Seating {
    /// The shortest round trip of threads on cores of their own, in seconds; none where there is nothing to
    /// tell: more threads than processors.
    near: Option<f64>,
    /// Whether it is another than what was known.
    news: bool,
    /// The latest calculations. What is usual follows the load of the machine, and what is kept from before
    /// would not.
    recent: VecDeque<f64>,
}

impl Seating {
    /// Looks at a team for a tenth of a second; the shortest round trip may be known.
    pub fn find(team: &Team, known: Option<f64>) -> Self {
        let mut seating = Self { near: known, news: false, recent: VecDeque::new() };
        let mut looks: Vec<Seen> = Vec::new();
        for look in 0..LOOKS {
            if look > 0 {
                std::thread::sleep(PAUSE);
            }
            if let Some(seen) = Seen::look(team) {
                seating.note(seen.calculation);
                looks.push(seen);
            }
        }
        looks.into_iter().for_each(|seen| seating.learn(seen));
        seating
    }

    fn note(&mut self, calculation: f64) {
        self.recent.push_back(calculation);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    fn usual(&self) -> f64 {
        let mut recent: Vec<f64> = self.recent.iter().copied().collect();
        if recent.is_empty() {
            return f64::INFINITY;
        }
        let quartile = recent.len() / 4;
        *recent.select_nth_unstable_by(quartile, f64::total_cmp).1
    }

    /// Takes a shorter round trip of threads on cores of their own.
    fn learn(&mut self, seen: Seen) {
        let usual = self.usual();
        let shorter = seen.calculation <= WHOLE * usual && self.near.is_none_or(|near| seen.trip < near);
        if shorter || seen.calculation * DOUBLE < usual {
            (self.near, self.news) = (Some(seen.trip), true);
        }
    }

    /// The shortest round trip, if there is one and it is another than what was known.
    pub fn news(&self) -> Option<f64> {
        self.near.filter(|near| self.news && *near > 0.0)
    }

    /// Whether the team sits as it should now.
    pub fn holds(&mut self, team: &Team) -> bool {
        if self.near.is_none() {
            return true;
        }
        Seen::look(team).is_some_and(|now| self.judge(now))
    }

    /// Whether what was seen is as it should be; it is learned from.
    fn judge(&mut self, now: Seen) -> bool {
        self.learn(now);
        self.note(now.calculation);
        self.near.is_some_and(|near| now.trip <= NEAR * near) && now.calculation <= WHOLE * self.usual()
    }

    /// Waits until the team sits as well, for so long at most: sleeping threads are seated anew. Whether it
    /// does, and how long it took.
    pub fn wait(&mut self, team: &Team, most: Duration) -> (bool, Duration) {
        let start = Instant::now();
        loop {
            if self.holds(team) {
                return (true, start.elapsed());
            }
            if start.elapsed() >= most {
                return (false, start.elapsed());
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Seconds in which a cache line goes from the caller to a worker and back: of the farthest worker, the mean
/// of some. `None` where a worker does not answer.
fn round_trip(team: &Team) -> Option<f64> {
    #[repr(align(128))]
    #[derive(Default)]
    struct Line(AtomicUsize);
    let lines: Vec<Line> = (0..team.threads()).map(|_| Line::default()).collect();
    let over = AtomicBool::new(false);
    let farthest = AtomicUsize::new(0);
    team.share(usize::MAX, team.threads(), |thread, task| {
        if thread != task {
            return;
        }
        if thread == 0 {
            let mut most = Some(0);
            for line in &lines[1..] {
                most = most.and_then(|most| Some(trip(&line.0)?.max(most)));
            }
            farthest.store(most.unwrap_or(usize::MAX), Ordering::Relaxed);
            over.store(true, Ordering::Release);
            return;
        }
        let line = &lines[thread].0;
        let mut seen = 0;
        while !over.load(Ordering::Acquire) {
            let at = line.load(Ordering::Acquire);
            if at % 2 == 1 && at != seen {
                seen = at;
                line.store(at + 1, Ordering::Release);
            }
        }
    });
    let nanoseconds = farthest.into_inner();
    #[allow(clippy::cast_precision_loss)]
    (nanoseconds != usize::MAX).then(|| nanoseconds as f64 * 1e-9 / TRIPS as f64)
}

/// Nanoseconds of all round trips with the worker that answers in this line.
fn trip(line: &AtomicUsize) -> Option<usize> {
    let mut start = Instant::now();
    let mut asked = start;
    // The first is not counted: the worker may not have begun.
    for trip in 0..=TRIPS {
        line.store(2 * trip + 1, Ordering::Release);
        let mut spins = 0_u32;
        while line.load(Ordering::Acquire) != 2 * trip + 2 {
            spins += 1;
            spin_loop();
            if spins.is_multiple_of(256) && asked.elapsed() > PATIENCE {
                return None;
            }
        }
        if trip == 0 {
            start = Instant::now();
            asked = start;
        }
    }
    usize::try_from(start.elapsed().as_nanos()).ok()
}

/// Seconds of a calculation of the slowest thread, while all calculate: the fastest of two. `None` where a
/// thread did not come.
fn together(team: &Team) -> Option<f64> {
    let mut fastest: Option<usize> = None;
    for _ in 0..2 {
        let begun = AtomicUsize::new(0);
        let slowest = AtomicUsize::new(0);
        team.share(usize::MAX, team.threads(), |thread, task| {
            if thread != task {
                return;
            }
            begun.fetch_add(1, Ordering::AcqRel);
            let start = Instant::now();
            while begun.load(Ordering::Acquire) < team.threads() {
                spin_loop();
                if start.elapsed() > PATIENCE {
                    slowest.store(usize::MAX, Ordering::Release);
                    return;
                }
            }
            slowest.fetch_max(calculate(), Ordering::AcqRel);
        });
        let slowest = slowest.into_inner();
        if slowest != usize::MAX {
            fastest = Some(fastest.map_or(slowest, |fastest| fastest.min(slowest)));
        }
    }
    #[allow(clippy::cast_precision_loss)]
    fastest.map(|nanoseconds| nanoseconds as f64 * 1e-9)
}

/// Nanoseconds of arithmetic that leaves a core nothing to spare: some microseconds.
fn calculate() -> usize {
    let start = Instant::now();
    let mut sums = black_box([1.0_f32; 48]);
    let (factor, term) = black_box((0.999_f32, 0.001_f32));
    for _ in 0..1_500 {
        for sum in &mut sums {
            *sum = *sum * factor + term;
        }
    }
    black_box(sums);
    usize::try_from(start.elapsed().as_nanos()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_team_is_told_in_time() {
        for threads in [1, 2, 5] {
            // Whatever the machine has: workers without a processor are given up, not waited for.
            let team = Team::new(threads);
            let mut seating = Seating::find(&team, None);
            for _ in 0..50 {
                seating.holds(&team);
            }
            let (holds, waited) = seating.wait(&team, Duration::ZERO);
            assert!(holds || waited < Duration::from_secs(10));
        }
    }

    #[test]
    fn far_threads_and_halves_of_cores_are_told_and_a_wrong_beginning_is_mended() {
        let [one_core, near, far] = [45e-9, 90e-9, 450e-9];
        let [whole, half] = [3e-6, 6e-6];
        let mut seating = Seating { near: None, news: false, recent: [half; 40].into() };
        // A team that was seen on one core alone: that is the best it knows.
        assert!(seating.judge(Seen { trip: one_core, calculation: half }));
        assert_eq!(seating.news(), Some(one_core));
        // Then on two, by which it was not one before; then far, on halves beside others, and near again.
        assert!(seating.judge(Seen { trip: near, calculation: whole }));
        assert_eq!(seating.news(), Some(near));
        (0..RECENT).for_each(|_| seating.note(whole));
        assert!(!seating.judge(Seen { trip: far, calculation: whole }));
        assert!(!seating.judge(Seen { trip: one_core, calculation: half }));
        assert!(!seating.judge(Seen { trip: near, calculation: half }));
        assert!(seating.judge(Seen { trip: 1.4 * near, calculation: 1.1 * whole }));
        assert_eq!(seating.news(), Some(near));
    }

    #[test]
    fn one_thread_is_told_by_its_calculation() {
        let mut seating = Seating { near: None, news: false, recent: [3e-6; 40].into() };
        assert!(seating.judge(Seen { trip: 0.0, calculation: 3.1e-6 }));
        assert!(!seating.judge(Seen { trip: 0.0, calculation: 6e-6 }));
        assert_eq!(seating.news(), None, "it has no round trip to keep");
    }

    #[test]
    fn what_is_known_is_no_news() {
        let seating = Seating { near: Some(90e-9), news: false, recent: [3e-6; 40].into() };
        let mut same = seating.clone();
        assert!(same.judge(Seen { trip: 90e-9, calculation: 3e-6 }));
        assert_eq!(same.news(), None);
        let mut shorter = seating;
        assert!(shorter.judge(Seen { trip: 80e-9, calculation: 3e-6 }));
        assert_eq!(shorter.news(), Some(80e-9));
    }
}
