//! A team of threads that runs one job after another. All kernels on the processor use it.
//!
//! A job is a number of tasks, each of which runs once. The calling thread works as a member of the team. Each thread
//! starts with its own range of neighbouring tasks, and helps the others when it has finished. So a thread finds in
//! the cache of its core what the previous job left there, if both jobs have their tasks in the same order.
//!
//! A worker that has finished a job first spins for some microseconds, then yields its processor, then parks. So a
//! sequence of short jobs needs no wake-ups, and an idle process uses no processor time. A job waits only for workers
//! that have started on it: if another process keeps the processor of a worker busy, the other threads do the work of
//! that worker. Each worker is pinned to one processor, because the system would otherwise put several workers on one
//! core.
//!
//! # Processors
//! A team takes the first hardware thread of every core, then the second ones, each in the order of their numbers, of the
//! processors that the thread which starts it may use. So a core has two threads of a team only where the team has more
//! threads than there are cores. The first of these processors is left to the caller, which is not pinned. Where the system
//! does not tell which processors share a core, they are taken by their numbers.
//!
//! # Several callers
//! Several threads may share a team. Their jobs run one at a time, in the order in which the callers arrived, so no
//! caller starves. A caller with a sequence of jobs should take a [`Team::turn`] for all of them.
//!
//! # Jobs within jobs
//! If a task itself runs a job, on this team or another, then all tasks of that inner job run in order on the thread
//! of the task. So threads can never wait for each other in a cycle.
//!
//! # Panics
//! A panic in a task ends the job: tasks that have started are finished, and tasks that have not started are skipped.
//! When all threads have left the job, the first panic continues on the caller. The team can be used again
//! afterwards.
//!
//! ```
//! use std::sync::atomic::{AtomicUsize, Ordering};
//!
//! let team = ovolo_team::Team::new(2);
//! let sum = AtomicUsize::new(0);
//! team.run(10, |task| {
//!     sum.fetch_add(task, Ordering::Relaxed);
//! });
//! assert_eq!(sum.into_inner(), 45);
//! ```

mod backoff;
pub mod cores;
mod fair_lock;
mod gate;
#[cfg(all(test, loom))]
mod model;
mod pin;
#[cfg(not(loom))]
mod shared;
mod sync;
#[cfg(all(test, not(loom)))]
mod test;
mod turn;

use backoff::Backoff;
use fair_lock::FairLock;
use gate::Gate;
pub use pin::allowed;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use sync::thread::{self, JoinHandle};
use sync::{Arc, AtJob, Mutex, PoisonError, UnsafeCell};
pub use turn::Turn;

/// The largest number of threads of a team.
pub const MOST_THREADS: usize = gate::MOST_WORKERS + 1;

/// A job: its arguments are the number of the thread and the number of the task.
type Job<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// The job that the team holds before its first one. It is never run.
const NOTHING: &Job<'static> = &|_, _| ();

/// The payload of a panic.
type Payload = Box<dyn Any + Send>;

/// A fixed number of threads that run one job at a time.
pub struct Team {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// The processors that workers are pinned to.
    processors: Vec<usize>,
}

/// The state that the caller and the workers share.
struct Shared {
    /// Held for one job.
    turn: FairLock,
    /// Held for several jobs of one caller.
    run: FairLock,
    gate: Gate,
    work: WorkCell,
    /// For each thread, the next task of its range.
    next: Vec<PaddedCounter>,
    /// Whether a task of the current job has panicked.
    panicked: AtomicBool,
    /// The payload of the first panic in the current job.
    payload: Mutex<Option<Payload>>,
}

/// A counter in a cache line of its own.
#[repr(align(128))]
struct PaddedCounter(AtomicUsize);

/// A job, and the number of threads that share its tasks.
#[derive(Clone, Copy)]
struct Work {
    job: *const Job<'static>,
    tasks: usize,
    members: usize,
}

/// The memory that holds the current job. The caller whose turn it is writes it while the gate is shut and no worker
/// is behind it; workers read it behind the gate.
struct WorkCell(UnsafeCell<Work>);

// SAFETY: the gate keeps workers from reading the work while the caller writes it. The pointer in it is used only
// behind the gate, while the caller waits and so keeps the job alive, and a job is `Sync`.
unsafe impl Sync for WorkCell {}
// SAFETY: as above; no part of it is bound to the thread that created it.
unsafe impl Send for WorkCell {}

impl Team {
    /// Starts a team of `threads` threads, including the caller. A team always has at least one thread.
    ///
    /// # Panics
    /// If `threads` is more than [`MOST_THREADS`], or if the system cannot start a thread.
    pub fn new(threads: usize) -> Self {
        let workers = threads.max(1) - 1;
        assert!(workers <= gate::MOST_WORKERS, "a team has at most {MOST_THREADS} threads, not {threads}");
        let shared = Arc::new(Shared {
            turn: FairLock::new(Backoff::new),
            run: FairLock::new(Backoff::none),
            gate: Gate::new(workers),
            work: WorkCell(UnsafeCell::new(Work { job: NOTHING, tasks: 0, members: 0 })),
            next: (0..=workers).map(|_| PaddedCounter(AtomicUsize::new(0))).collect(),
            panicked: AtomicBool::new(false),
            payload: Mutex::new(None),
        });
        // If the system refuses a thread, dropping this value ends the threads that have already started.
        // A team without workers pins no thread.
        let processors = if workers == 0 { Vec::new() } else { cores::spread(&allowed()) };
        let own = processors.iter().skip(1).take(workers).copied().collect();
        let mut team = Self { shared, workers: Vec::with_capacity(workers), processors: own };
        for worker in 0..workers {
            let shared = Arc::clone(&team.shared);
            let processor = processors.get(worker + 1).copied();
            let run = move || {
                if let Some(processor) = processor {
                    pin::pin(processor);
                }
                shared.serve(worker);
            };
            let builder = thread::Builder::new().name(format!("ovolo-{}", worker + 1));
            team.workers.push(builder.spawn(run).expect("the system can start a thread"));
        }
        team
    }

    /// Returns the number of threads, including the caller.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `job(0)` to `job(tasks - 1)`, each once and divided between the threads, and returns when all are done.
    /// Neighbouring tasks mostly run on the same thread. If tasks differ in length, use more tasks than there are
    /// threads.
    ///
    /// # Panics
    /// If a task panics.
    pub fn run(&self, tasks: usize, job: impl Fn(usize) + Sync) {
        self.share(usize::MAX, tasks, |_, task| job(task));
    }

    /// Like [`Team::run`], but on at most `most` threads. The job receives the number of the thread and then that of
    /// the task. The number of a thread is below `most`, and no two threads of this job have the same number.
    ///
    /// # Panics
    /// If a task panics.
    pub fn share(&self, most: usize, tasks: usize, job: impl Fn(usize, usize) + Sync) {
        let members = self.threads().min(most).min(tasks);
        if members <= 1 || AtJob::get() {
            (0..tasks).for_each(|task| job(0, task));
            return;
        }
        assert!(tasks <= usize::MAX / members, "{tasks} tasks are too many to divide");
        let turn = self.shared.turn.lock();
        // SAFETY: this caller has the turn until `turn` is dropped, and `job` outlives the call.
        let payload = unsafe { self.run_job(&job, tasks, members) };
        drop(turn);
        if let Some(payload) = payload {
            resume_unwind(payload);
        }
    }

    /// Runs a job from beginning to end and returns the payload of the first panic, if there was one. It does not
    /// panic itself.
    ///
    /// # Safety
    /// No other thread may call this function until it returns.
    unsafe fn run_job(&self, job: &Job<'_>, tasks: usize, members: usize) -> Option<Payload> {
        let shared = &*self.shared;
        let pointer: *const Job<'_> = job;
        // SAFETY: only the lifetime changes. Only workers behind the gate use the pointer, and none of them is left
        // there when this function returns.
        let pointer = unsafe { std::mem::transmute::<*const Job<'_>, *const Job<'static>>(pointer) };
        let work = Work { job: pointer, tasks, members };
        // SAFETY: the gate is shut and no worker is behind it, because the previous caller waited for that, and only
        // the caller that has the turn opens it.
        shared.work.0.with_mut(|place| unsafe { *place = work });
        for (thread, next) in shared.next[..members].iter().enumerate() {
            next.0.store(work.range_start(thread), Ordering::Relaxed);
        }
        shared.gate.open(|worker| {
            // Workers above `members` have no range of their own and can continue to sleep.
            if worker + 1 < members {
                self.workers[worker].thread().unpark();
            }
        });
        shared.take_part(0, work, job);
        shared.gate.shut();
        if !shared.panicked.load(Ordering::Relaxed) {
            return None;
        }
        shared.panicked.store(false, Ordering::Relaxed);
        shared.payload.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.gate.stop();
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker catches all panics of jobs, so it ends normally.
            let _ = worker.join();
        }
    }
}

impl Work {
    /// Returns the first task of the range of `thread`, which is also the end of the range before it.
    fn range_start(&self, thread: usize) -> usize {
        self.tasks * thread / self.members
    }
}

impl Shared {
    /// The main loop of a worker: it runs until the team ends.
    fn serve(&self, worker: usize) {
        let mut last = None;
        while let Some(number) = self.gate.enter(worker, last) {
            last = Some(number);
            // SAFETY: no caller writes the work while this worker is behind the gate.
            let work = self.work.0.with(|place| unsafe { *place });
            if worker + 1 < work.members {
                // SAFETY: the caller keeps the job alive until this worker has left the gate.
                self.take_part(worker + 1, work, unsafe { &*work.job });
            }
            self.gate.leave();
        }
    }

    /// Runs tasks until none is left: first those of the thread's own range, then those of the following threads.
    fn take_part(&self, thread: usize, work: Work, job: &Job<'_>) {
        let tasks = || {
            for owner in (thread..work.members).chain(0..thread) {
                let (next, end) = (&self.next[owner].0, work.range_start(owner + 1));
                loop {
                    let task = next.fetch_add(1, Ordering::Relaxed);
                    if task >= end {
                        break;
                    }
                    job(thread, task);
                }
            }
        };
        let inside = AtJob::enter();
        // After a panic no thread uses the job any more, so it need not be unwind safe: the caller passes the panic
        // on.
        let result = catch_unwind(AssertUnwindSafe(tasks));
        drop(inside);
        if let Err(payload) = result {
            self.cancel(work, payload);
        }
    }

    /// Skips the tasks that no thread has started, and keeps the payload if it is the first.
    fn cancel(&self, work: Work, payload: Payload) {
        for next in &self.next[..work.members] {
            // This is far enough below the maximum that further `fetch_add` calls cannot overflow.
            next.0.store(usize::MAX / 2, Ordering::Relaxed);
        }
        let mut first = self.payload.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            *first = Some(payload);
            drop(first);
        } else {
            drop(first);
            // Dropping a payload may panic. The payload of that second panic is forgotten, because dropping it may
            // panic again.
            if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                std::mem::forget(again);
            }
        }
        self.panicked.store(true, Ordering::Relaxed);
    }
}
