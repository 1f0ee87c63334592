//! One team of threads for every kernel on the processor.
//!
//! The caller is a member. Workers spin for some microseconds after a job, then yield, then park,
//! so that short kernels in a row cost no wake-up and an idle process costs no processor. A job waits
//! for those workers alone that have begun with it: one whose processor is taken by another process
//! keeps nobody waiting, and the others do its share.
//! Each thread begins with a stretch of tasks of its own, and helps the others when it is done: so what
//! one kernel leaves in a core's cache is where the next kernel's tasks, in the same order, look for it.
//! Workers are pinned, one to a processor, because unpinned ones get packed onto one core.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// How long a worker spins for the next job before it yields.
const SPIN: Duration = Duration::from_micros(20);
/// How long a worker yields before it parks.
const YIELD: Duration = Duration::from_micros(2000);

/// Takes the number of a thread and of a task.
type Job<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// A fixed number of threads that run one job at a time.
pub struct Team {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    unpark: Vec<Thread>,
}

/// The gate: the workers at the present job in the low half, whether it may still be begun, and above that
/// the number of the job.
const WORKERS: u64 = (1 << 32) - 1;
const OPEN: u64 = 1 << 32;
const JOB: u64 = 1 << 33;

struct Shared {
    gate: AtomicU64,
    job: UnsafeCell<Option<*const Job<'static>>>,
    tasks: AtomicUsize,
    /// How many threads take part in the present job.
    members: AtomicUsize,
    /// For each thread, the next task of its stretch.
    next: Vec<Line>,
    parked: Vec<AtomicBool>,
    stop: AtomicBool,
}

/// A counter in a cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicUsize);

// SAFETY: `job` is written by the caller only while the gate is shut and no worker is behind it, and read
// by workers only once they have passed the gate (release/acquire).
unsafe impl Sync for Shared {}
// SAFETY: the job pointer is only dereferenced while the caller of `run` waits.
unsafe impl Send for Shared {}

impl Team {
    /// A team of `threads` members, the caller included.
    pub fn new(threads: usize) -> Self {
        let workers = threads.max(1) - 1;
        let shared = Arc::new(Shared {
            gate: AtomicU64::new(0),
            job: UnsafeCell::new(None),
            tasks: AtomicUsize::new(0),
            members: AtomicUsize::new(0),
            next: (0..=workers).map(|_| Line::default()).collect(),
            parked: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            stop: AtomicBool::new(false),
        });
        let allowed = pin::allowed();
        let workers: Vec<_> = (0..workers)
            .map(|index| {
                let shared = Arc::clone(&shared);
                let processor = allowed.get(index + 1).copied();
                std::thread::Builder::new()
                    .name(format!("ovolo-{}", index + 1))
                    .spawn(move || {
                        if let Some(processor) = processor {
                            pin::pin(processor);
                        }
                        shared.work(index);
                    })
                    .expect("the system gives a thread")
            })
            .collect();
        let unpark = workers.iter().map(|worker| worker.thread().clone()).collect();
        Self { shared, workers, unpark }
    }

    /// The number of threads, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `job(0)` to `job(tasks - 1)`, each once, spread over the threads; returns when all are done.
    /// Neighbours mostly run on one thread; give more tasks than there are threads where they differ in
    /// length.
    pub fn run(&self, tasks: usize, job: impl Fn(usize) + Sync) {
        self.share(usize::MAX, tasks, |_, task| job(task));
    }

    /// As [`Team::run`], on so many threads at most, with the number of the thread before that of the
    /// task: below `most`, and for each thread another.
    pub fn share(&self, most: usize, tasks: usize, job: impl Fn(usize, usize) + Sync) {
        let members = self.threads().min(most).min(tasks);
        if members <= 1 {
            (0..tasks).for_each(|task| job(0, task));
            return;
        }
        let shared = &*self.shared;
        let pointer: *const Job<'_> = &job;
        // SAFETY: only the lifetime is erased; this function does not return before the gate is shut and
        // every worker that passed it has finished with the job, and none is behind it now.
        unsafe {
            *shared.job.get() = Some(std::mem::transmute::<*const Job<'_>, *const Job<'static>>(pointer));
        }
        shared.tasks.store(tasks, Ordering::Relaxed);
        shared.members.store(members, Ordering::Relaxed);
        for (thread, next) in shared.next[..members].iter().enumerate() {
            next.0.store(tasks * thread / members, Ordering::Relaxed);
        }
        let job_number = (shared.gate.load(Ordering::Relaxed) & !(JOB - 1)).wrapping_add(JOB);
        shared.gate.store(job_number | OPEN, Ordering::SeqCst);
        for (parked, thread) in shared.parked.iter().zip(&self.unpark) {
            if parked.load(Ordering::SeqCst) {
                thread.unpark();
            }
        }
        shared.take(0, &job);
        shared.gate.fetch_and(!OPEN, Ordering::AcqRel);
        let mut spins = 0_u32;
        while shared.gate.load(Ordering::Acquire) & WORKERS != 0 {
            spins += 1;
            if spins < 20_000 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

impl Shared {
    /// Takes tasks: of one's own stretch, then of those of the threads that follow.
    fn take(&self, thread: usize, job: &Job<'_>) {
        let (tasks, members) = (self.tasks.load(Ordering::Relaxed), self.members.load(Ordering::Relaxed));
        if thread >= members {
            return;
        }
        for of in (thread..members).chain(0..thread) {
            let end = tasks * (of + 1) / members;
            loop {
                let task = self.next[of].0.fetch_add(1, Ordering::Relaxed);
                if task >= end {
                    break;
                }
                job(thread, task);
            }
        }
    }

    fn work(&self, index: usize) {
        let mut seen = 0;
        while let Some(job) = self.wait(index, seen) {
            seen = job;
            // SAFETY: set before the gate was opened, and kept while a worker is behind it.
            let job = unsafe { (*self.job.get()).map(|job| &*job) };
            if let Some(job) = job {
                self.take(index + 1, job);
            }
            self.gate.fetch_sub(1, Ordering::Release);
        }
    }

    /// Whether a job other than `seen` may be begun.
    fn waits(&self, seen: u64) -> bool {
        let gate = self.gate.load(Ordering::SeqCst);
        gate & OPEN != 0 && gate & !(JOB - 1) != seen
    }

    /// Waits for a job other than `seen` and passes the gate; `None` when the team ends.
    fn wait(&self, index: usize, seen: u64) -> Option<u64> {
        let start = Instant::now();
        let mut polls = 0_u32;
        loop {
            let gate = self.gate.load(Ordering::SeqCst);
            if self.stop.load(Ordering::SeqCst) {
                return None;
            }
            let job = gate & !(JOB - 1);
            if gate & OPEN != 0 && job != seen {
                if self.gate.compare_exchange(gate, gate + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    return Some(job);
                }
                continue;
            }
            polls += 1;
            if !polls.is_multiple_of(64) {
                std::hint::spin_loop();
                continue;
            }
            let waited = start.elapsed();
            if waited < SPIN {
                std::hint::spin_loop();
            } else if waited < YIELD {
                std::thread::yield_now();
            } else {
                self.parked[index].store(true, Ordering::SeqCst);
                if !self.waits(seen) && !self.stop.load(Ordering::SeqCst) {
                    std::thread::park();
                }
                self.parked[index].store(false, Ordering::SeqCst);
            }
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            let _ = worker.join();
        }
    }
}

mod pin {
    //! Thread affinity, where the system has it.

    #[cfg(target_os = "linux")]
    pub fn allowed() -> Vec<usize> {
        // SAFETY: `set` is a plain bit set of the size passed.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
                return Vec::new();
            }
            (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
        }
    }

    #[cfg(target_os = "linux")]
    pub fn pin(cpu: usize) {
        // SAFETY: `set` is a plain bit set of the size passed; a refusal is harmless.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub fn allowed() -> Vec<usize> {
        Vec::new()
    }

    #[cfg(not(target_os = "linux"))]
    pub fn pin(_cpu: usize) {}
}

#[cfg(test)]
mod tests {
    use super::Team;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_task_of_every_job_runs_once_before_the_job_returns() {
        // More threads than processors: some have not begun when a job is over, and some park.
        for threads in [1, 2, 3, 8] {
            let team = Team::new(threads);
            assert_eq!(team.threads(), threads);
            for round in 0..3_000_usize {
                let tasks = round % 7;
                let done: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                team.run(tasks, |task| {
                    if round % 50 == 0 {
                        std::thread::yield_now();
                    }
                    done[task].fetch_add(1, Ordering::Relaxed);
                });
                assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1), "job {round}");
                // Of few threads none is two at one time.
                let busy = [AtomicUsize::new(0), AtomicUsize::new(0)];
                team.share(2, tasks, |thread, task| {
                    assert_eq!(busy[thread].fetch_add(1, Ordering::Relaxed), 0);
                    done[task].fetch_add(1, Ordering::Relaxed);
                    busy[thread].fetch_sub(1, Ordering::Relaxed);
                });
                assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 2), "job {round}");
                if round % 1_000 == 999 {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            }
        }
    }
}
