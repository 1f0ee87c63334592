//! A team of threads that runs one job after another: the threads of every kernel on the processor.
//!
//! A job is a number of tasks, each run once. The caller is a member of the team and works as well. Each thread
//! begins with a stretch of neighbouring tasks of its own and helps the others when it has finished, so that what one
//! job leaves in a core's cache is found there by the next job with tasks in the same order.
//!
//! A worker that has finished a job spins for some microseconds, then yields its processor, then parks: short jobs in
//! a row need no wake-up, and an idle process uses no processor. A job waits only for workers that have begun with
//! it. A worker whose processor is busy with another process delays nobody; the others do its share. Workers are
//! pinned to one processor each, since the system would otherwise pack several onto one core.
//!
//! # Several callers
//! A team may be shared between threads. Their jobs run one at a time, in the order in which the callers came, so
//! none of them starves.
//!
//! # Jobs within jobs
//! A task that runs a job itself, on this team or another, does all tasks of that job on its own thread, in order:
//! threads that wait for each other in a circle cannot arise.
//!
//! # Panics
//! A panic in a task ends the job: tasks that have begun are finished, those that have not are skipped. When all
//! threads have left the job, the first panic continues on the caller. The team can be used again afterwards.
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

mod gate;
#[cfg(all(test, loom))]
mod model;
mod patience;
mod pin;
mod sync;
#[cfg(all(test, not(loom)))]
mod test;
mod turn;

use gate::Gate;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use sync::thread::{self, JoinHandle};
use sync::{Arc, Inside, Mutex, PoisonError, UnsafeCell};
use turn::Turn;

/// The most threads of a team.
pub const MOST_THREADS: usize = gate::MOST_WORKERS + 1;

/// Takes the number of a thread and the number of a task.
type Job<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// The job before the first: it is never run.
const NOTHING: &Job<'static> = &|_, _| ();

/// What a panic carries.
type Payload = Box<dyn Any + Send>;

/// A fixed number of threads that run one job at a time.
pub struct Team {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

/// What the caller and the workers share.
struct Shared {
    turn: Turn,
    gate: Gate,
    work: Place,
    /// For each thread, the next task of its stretch.
    next: Vec<Line>,
    /// Whether a task of the present job has panicked.
    panicked: AtomicBool,
    /// The first panic of the present job.
    payload: Mutex<Option<Payload>>,
}

/// A counter in a cache line of its own.
#[repr(align(128))]
struct Line(AtomicUsize);

/// A job, and between how many threads its tasks are divided.
#[derive(Clone, Copy)]
struct Work {
    job: *const Job<'static>,
    tasks: usize,
    members: usize,
}

/// Where the present job is. It is written by the caller whose turn it is, while the gate is shut and no worker is
/// behind it, and read by workers behind the gate.
struct Place(UnsafeCell<Work>);

// SAFETY: the gate lets nobody read the work while it is written. The pointer in it is used only behind the gate,
// while the caller waits and so keeps the job alive, and a job may be used by several threads at once.
unsafe impl Sync for Place {}
// SAFETY: as above; nothing in it belongs to the thread that made it.
unsafe impl Send for Place {}

impl Team {
    /// Starts a team of `threads` threads, the caller included; at least one.
    ///
    /// # Panics
    /// If there are more than [`MOST_THREADS`], or the system refuses a thread.
    pub fn new(threads: usize) -> Self {
        let workers = threads.max(1) - 1;
        assert!(workers <= gate::MOST_WORKERS, "a team has at most {MOST_THREADS} threads, not {threads}");
        let shared = Arc::new(Shared {
            turn: Turn::new(),
            gate: Gate::new(workers),
            work: Place(UnsafeCell::new(Work { job: NOTHING, tasks: 0, members: 0 })),
            next: (0..=workers).map(|_| Line(AtomicUsize::new(0))).collect(),
            panicked: AtomicBool::new(false),
            payload: Mutex::new(None),
        });
        // If the system refuses a thread, those that have started end with this value.
        let mut team = Self { shared, workers: Vec::with_capacity(workers) };
        let processors = pin::allowed();
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
            team.workers.push(builder.spawn(run).expect("the system gives a thread"));
        }
        team
    }

    /// The number of threads, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `job(0)` to `job(tasks - 1)`, each once, divided between the threads; returns when all are done.
    /// Neighbouring tasks mostly run on one thread. If tasks differ in length, make more of them than there are
    /// threads.
    ///
    /// # Panics
    /// If a task panics.
    pub fn run(&self, tasks: usize, job: impl Fn(usize) + Sync) {
        self.share(usize::MAX, tasks, |_, task| job(task));
    }

    /// As [`Team::run`], on at most `most` threads. The job is given the number of the thread before that of the
    /// task. This number is below `most`, and no two threads at this job have the same.
    ///
    /// # Panics
    /// If a task panics.
    pub fn share(&self, most: usize, tasks: usize, job: impl Fn(usize, usize) + Sync) {
        let members = self.threads().min(most).min(tasks);
        if members <= 1 || Inside::get() {
            (0..tasks).for_each(|task| job(0, task));
            return;
        }
        assert!(tasks <= usize::MAX / members, "{tasks} tasks are too many to divide");
        let turn = self.shared.turn.take();
        // SAFETY: it is this caller's turn until `turn` is dropped, and `job` lives longer than that.
        let payload = unsafe { self.conduct(&job, tasks, members) };
        drop(turn);
        if let Some(payload) = payload {
            resume_unwind(payload);
        }
    }

    /// Runs a job from beginning to end; returns the first panic if there was one. Does not panic itself.
    ///
    /// # Safety
    /// No other thread calls this before it returns.
    unsafe fn conduct(&self, job: &Job<'_>, tasks: usize, members: usize) -> Option<Payload> {
        let shared = &*self.shared;
        let pointer: *const Job<'_> = job;
        // SAFETY: only the lifetime changes. The pointer is used only by workers behind the gate, and none is left
        // there when this function returns.
        let pointer = unsafe { std::mem::transmute::<*const Job<'_>, *const Job<'static>>(pointer) };
        let work = Work { job: pointer, tasks, members };
        // SAFETY: the gate is shut and no worker is behind it: so the last caller left it, and only the caller
        // whose turn it is opens it.
        shared.work.0.with_mut(|place| unsafe { *place = work });
        for (thread, next) in shared.next[..members].iter().enumerate() {
            next.0.store(work.stretch(thread), Ordering::Relaxed);
        }
        shared.gate.open(|worker| {
            // Other workers have no stretch of their own, and are left to sleep.
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
            // Workers catch every panic of a job.
            let _ = worker.join();
        }
    }
}

impl Work {
    /// The first task of a thread's stretch, and the end of the stretch before it.
    fn stretch(&self, thread: usize) -> usize {
        self.tasks * thread / self.members
    }
}

impl Shared {
    /// What a worker does until the team ends.
    fn serve(&self, worker: usize) {
        let mut last = None;
        while let Some(number) = self.gate.enter(worker, last) {
            last = Some(number);
            // SAFETY: no caller writes the work while this worker is behind the gate.
            let work = self.work.0.with(|place| unsafe { *place });
            if worker + 1 < work.members {
                // SAFETY: the caller waits until this worker has left, and keeps the job alive so long.
                self.take_part(worker + 1, work, unsafe { &*work.job });
            }
            self.gate.leave();
        }
    }

    /// Does tasks until none is left: those of the thread's own stretch, then those of the threads that follow.
    fn take_part(&self, thread: usize, work: Work, job: &Job<'_>) {
        let tasks = || {
            for owner in (thread..work.members).chain(0..thread) {
                let (next, end) = (&self.next[owner].0, work.stretch(owner + 1));
                loop {
                    let task = next.fetch_add(1, Ordering::Relaxed);
                    if task >= end {
                        break;
                    }
                    job(thread, task);
                }
            }
        };
        let inside = Inside::enter();
        // The job is not used any more once a panic has been caught: the caller passes the panic on.
        let result = catch_unwind(AssertUnwindSafe(tasks));
        drop(inside);
        if let Err(payload) = result {
            self.give_up(work, payload);
        }
    }

    /// Skips the tasks that nobody has begun, and keeps the panic if it is the first.
    fn give_up(&self, work: Work, payload: Payload) {
        for next in &self.next[..work.members] {
            // Far enough from overflow, however often threads still look for a task.
            next.0.store(usize::MAX / 2, Ordering::Relaxed);
        }
        let mut first = self.payload.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            *first = Some(payload);
            drop(first);
        } else {
            drop(first);
            // A payload may panic when it is dropped. What that panic carries is not dropped.
            if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                std::mem::forget(again);
            }
        }
        self.panicked.store(true, Ordering::Relaxed);
    }
}
