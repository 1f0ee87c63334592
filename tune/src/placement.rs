//! The placement of a team's threads: whether each has a core of its own, close to the others.
//!
//! A thread is pinned to a processor that the system shows. In a virtual machine, these processors move over
//! the host's cores: at one time two of them are the two halves of one core, at another they are cores with a
//! common last-level cache, at another cores with different ones, and at any time another machine may use the
//! other half of a core. So the same plan takes different times, up to a factor of two, and no time of a
//! kernel holds for all placements. A sample that was taken in a bad placement is repeated. On a physical
//! machine the placement never changes.
//!
//! Two figures show it: the time in which a cache line goes from the caller to the farthest worker and back
//! (several times longer if they do not share the last-level cache), and how fast all threads compute at the
//! same time (half as fast if they share cores). A single thread has only the second figure.

use ovolo::team::Team;
use std::collections::VecDeque;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Round trips for one figure.
const TRIPS: usize = 24;
/// How long the caller waits for a worker; a slower one has no processor.
const PATIENCE: Duration = Duration::from_millis(1);
/// The largest multiple of the shortest round trip that counts as close, that is, under the same last-level
/// cache.
const NEAR: f64 = 2.2;
/// The largest multiple of the usual time of the computation that counts as one thread on each core.
const WHOLE: f64 = 1.15;
/// If all threads are faster than usual by this factor, they shared cores before.
const DOUBLE: f64 = 1.5;
/// The number of recent measurements whose lower quartile is the usual time.
const RECENT: usize = 512;
/// The number of measurements before the best placement counts as known.
const LOOKS: usize = 24;
/// The pause between measurements: the system places threads anew after they sleep.
const PAUSE: Duration = Duration::from_millis(4);

/// One measurement of a placement, in seconds.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The round trip of a cache line; 0 for one thread.
    trip: f64,
    /// The computation of the slowest thread while all compute.
    calculation: f64,
}

impl Seen {
    /// Measures a team; `None` if one of its threads has no processor.
    fn look(team: &Team) -> Option<Self> {
        let trip = match team.threads() {
            1 => 0.0,
            // The first run only wakes workers that slept.
            _ => round_trip(team).or_else(|| round_trip(team))?,
        };
        Some(Self { trip, calculation: together(team)? })
    }
}

/// The placement of a team, as known from measurements.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The shortest round trip between threads on cores of their own, in seconds. `None` if there are more
    /// threads than processors, so that it cannot be measured.
    near: Option<f64>,
    /// Whether it differs from the value that was known at first.
    news: bool,
    /// The latest times of the computation. The usual time follows the load of the machine, so it is not kept
    /// between processes.
    recent: VecDeque<f64>,
}

impl Placement {
    /// Measures a team for a tenth of a second. `known` is the shortest round trip if it was kept. A team with more threads
    /// than processors is not measured: each of its threads would wait for one without a processor.
    pub fn find(team: &Team, known: Option<f64>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        if team.threads() > processors {
            return Self { near: None, news: false, recent: VecDeque::new() };
        }
        let mut placement = Self { near: known, news: false, recent: VecDeque::new() };
        let mut looks: Vec<Seen> = Vec::new();
        for look in 0..LOOKS {
            if look > 0 {
                std::thread::sleep(PAUSE);
            }
            if let Some(seen) = Seen::look(team) {
                placement.note(seen.calculation);
                looks.push(seen);
            }
        }
        looks.into_iter().for_each(|seen| placement.learn(seen));
        placement
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

    /// Takes over a shorter round trip of threads on cores of their own.
    fn learn(&mut self, seen: Seen) {
        let usual = self.usual();
        let shorter = seen.calculation <= WHOLE * usual && self.near.is_none_or(|near| seen.trip < near);
        if shorter || seen.calculation * DOUBLE < usual {
            (self.near, self.news) = (Some(seen.trip), true);
        }
    }

    /// Returns the shortest round trip, if it differs from the known one.
    pub fn news(&self) -> Option<f64> {
        self.near.filter(|near| self.news && *near > 0.0)
    }

    /// Whether the placement of the team is good now.
    pub fn holds(&mut self, team: &Team) -> bool {
        if self.near.is_none() {
            return true;
        }
        Seen::look(team).is_some_and(|now| self.judge(now))
    }

    /// Decides whether a measurement shows a good placement, and learns from it.
    fn judge(&mut self, now: Seen) -> bool {
        self.learn(now);
        self.note(now.calculation);
        self.near.is_some_and(|near| now.trip <= NEAR * near) && now.calculation <= WHOLE * self.usual()
    }

    /// Waits at most `most` until the placement of the team is good: the system places sleeping threads anew.
    /// Returns whether it is, and how long it took.
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

/// The seconds in which a cache line goes from the caller to a worker and back: the mean of some round trips
/// with the farthest worker. `None` if a worker does not answer.
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

/// The nanoseconds of all round trips with the worker that answers in this line.
fn trip(line: &AtomicUsize) -> Option<usize> {
    let mut start = Instant::now();
    let mut asked = start;
    // The first one is not counted, because the worker may not have started yet.
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

/// The seconds of a computation by the slowest thread while all compute: the faster of two. `None` if a
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

/// The nanoseconds of some microseconds of arithmetic that uses a core fully.
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
    fn every_team_is_measured_in_time() {
        for threads in [1, 2, 5] {
            // On any machine: workers without a processor are given up, not waited for.
            let team = Team::new(threads);
            let mut placement = Placement::find(&team, None);
            for _ in 0..50 {
                placement.holds(&team);
            }
            let (holds, waited) = placement.wait(&team, Duration::ZERO);
            assert!(holds || waited < Duration::from_secs(10));
        }
    }

    #[test]
    fn distant_threads_and_shared_cores_are_detected_and_a_wrong_start_is_corrected() {
        let [one_core, near, far] = [45e-9, 90e-9, 450e-9];
        let [whole, half] = [3e-6, 6e-6];
        let mut placement = Placement { near: None, news: false, recent: [half; 40].into() };
        // A team that was only seen on one core: that is the best known so far.
        assert!(placement.judge(Seen { trip: one_core, calculation: half }));
        assert_eq!(placement.news(), Some(one_core));
        // Then on two cores, which shows that it was on one before; then far apart, on shared cores, and
        // close again.
        assert!(placement.judge(Seen { trip: near, calculation: whole }));
        assert_eq!(placement.news(), Some(near));
        (0..RECENT).for_each(|_| placement.note(whole));
        assert!(!placement.judge(Seen { trip: far, calculation: whole }));
        assert!(!placement.judge(Seen { trip: one_core, calculation: half }));
        assert!(!placement.judge(Seen { trip: near, calculation: half }));
        assert!(placement.judge(Seen { trip: 1.4 * near, calculation: 1.1 * whole }));
        assert_eq!(placement.news(), Some(near));
    }

    #[test]
    fn one_thread_is_judged_by_its_computation() {
        let mut placement = Placement { near: None, news: false, recent: [3e-6; 40].into() };
        assert!(placement.judge(Seen { trip: 0.0, calculation: 3.1e-6 }));
        assert!(!placement.judge(Seen { trip: 0.0, calculation: 6e-6 }));
        assert_eq!(placement.news(), None, "it has no round trip to keep");
    }

    #[test]
    fn a_known_round_trip_is_not_kept_again() {
        let placement = Placement { near: Some(90e-9), news: false, recent: [3e-6; 40].into() };
        let mut same = placement.clone();
        assert!(same.judge(Seen { trip: 90e-9, calculation: 3e-6 }));
        assert_eq!(same.news(), None);
        let mut shorter = placement;
        assert!(shorter.judge(Seen { trip: 80e-9, calculation: 3e-6 }));
        assert_eq!(shorter.news(), Some(80e-9));
    }
}
