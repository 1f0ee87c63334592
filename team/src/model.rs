//! Tests of the team under the model checker `loom`, which tries every order in which the threads can run.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test --release -p ovolo-team --lib`, in a target directory of its own.

use crate::Team;
use crate::sync::Arc;
use crate::sync::thread;
use loom::cell::UnsafeCell;
use loom::model::Builder;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `body` in every order with at most `interruptions` preemptions, that is, points where a thread stops although
/// it could continue. Two preemptions are enough to expose most mistakes.
fn check(interruptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.check(body);
}

/// Memory that tasks write. The checker reports a task that runs twice or concurrently with another user, and a write
/// that the caller does not see.
struct Results(Vec<UnsafeCell<usize>>);

// SAFETY: the checker reports every access that is not synchronised.
unsafe impl Sync for Results {}
// SAFETY: as above.
unsafe impl Send for Results {}

impl Results {
    fn new(tasks: usize) -> Self {
        Self((0..tasks).map(|_| UnsafeCell::new(0)).collect())
    }

    fn add(&self, task: usize, value: usize) {
        // SAFETY: the checker reports a concurrent access.
        self.0[task].with_mut(|place| unsafe { *place += value });
    }

    fn all(&self) -> Vec<usize> {
        // SAFETY: the checker reports a concurrent write.
        self.0.iter().map(|place| place.with(|place| unsafe { *place })).collect()
    }
}

#[test]
fn every_task_of_two_jobs_is_done_once_and_seen_by_the_caller() {
    check(5, || {
        let team = Team::new(2);
        let results = Results::new(2);
        team.run(2, |task| results.add(task, 1));
        assert_eq!(results.all(), [1, 1]);
        team.run(2, |task| results.add(task, 2));
        assert_eq!(results.all(), [3, 3]);
    });
}

#[test]
fn a_job_on_fewer_threads_than_the_team_has_is_done() {
    check(2, || {
        let team = Team::new(3);
        let results = Results::new(2);
        team.share(2, 2, |thread, task| {
            assert!(thread < 2);
            results.add(task, 1);
        });
        assert_eq!(results.all(), [1, 1]);
    });
}

#[test]
fn three_threads_do_each_task_once() {
    check(2, || {
        let team = Team::new(3);
        let results = Results::new(3);
        team.run(3, |task| results.add(task, 1));
        assert_eq!(results.all(), [1, 1, 1]);
    });
}

#[test]
fn a_team_without_work_ends() {
    check(5, || drop(Team::new(3)));
}

#[test]
fn two_callers_take_turns() {
    check(3, || {
        let team = Arc::new(Team::new(2));
        // The tasks of both callers use the same memory, so the checker reports jobs that run at the same time.
        let results = Arc::new(Results::new(2));
        let other = {
            let (team, results) = (Arc::clone(&team), Arc::clone(&results));
            thread::spawn(move || team.run(2, |task| results.add(task, 1)))
        };
        team.run(2, |task| results.add(task, 10));
        other.join().unwrap();
        assert_eq!(results.all(), [11, 11]);
    });
}

#[test]
fn three_callers_take_turns() {
    // This test checks the turn alone, without workers. The turn is passed to a caller before it sleeps, or after.
    check(4, || {
        let turn = Arc::new(crate::fair_lock::FairLock::new(crate::backoff::Backoff::new));
        let results = Arc::new(Results::new(1));
        let caller = |value| {
            let (turn, results) = (Arc::clone(&turn), Arc::clone(&results));
            thread::spawn(move || {
                let guard = turn.lock();
                results.add(0, value);
                drop(guard);
            })
        };
        let others = [caller(1), caller(10)];
        let guard = turn.lock();
        results.add(0, 100);
        drop(guard);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(results.all(), [111]);
    });
}

#[test]
fn a_panic_reaches_the_caller_once_all_have_left_and_the_team_works_on() {
    check(4, || {
        let team = Team::new(2);
        let results = Results::new(2);
        let job = catch_unwind(AssertUnwindSafe(|| {
            team.run(2, |task| {
                results.add(task, 1);
                // This panics like `panic!`, but prints no message.
                resume_unwind(Box::new(task));
            });
        }));
        let first = *job.unwrap_err().downcast::<usize>().unwrap();
        let done = results.all();
        assert_eq!(done[first], 1);
        assert!(done.iter().all(|done| *done <= 1));
        team.run(2, |task| results.add(task, 10));
        assert_eq!(results.all(), [done[0] + 10, done[1] + 10]);
    });
}

#[test]
fn a_panic_on_one_thread_leaves_no_task_half_done() {
    check(4, || {
        let team = Team::new(2);
        let results = Results::new(3);
        let job = catch_unwind(AssertUnwindSafe(|| {
            team.run(3, |task| {
                if task == 1 {
                    resume_unwind(Box::new(()));
                }
                results.add(task, 1);
            });
        }));
        assert!(job.is_err());
        // No thread is at the job any more, or the checker reports a concurrent access.
        (0..3).for_each(|task| results.add(task, 1));
    });
}

#[test]
fn a_panic_reaches_its_own_caller_only() {
    check(2, || {
        let team = Arc::new(Team::new(2));
        let results = Arc::new(Results::new(2));
        let other = {
            let team = Arc::clone(&team);
            thread::spawn(move || {
                let job = || team.run(2, |_| resume_unwind(Box::new(())));
                assert!(catch_unwind(AssertUnwindSafe(job)).is_err());
            })
        };
        team.run(2, |task| results.add(task, 1));
        other.join().unwrap();
        assert_eq!(results.all(), [1, 1]);
    });
}

#[test]
fn a_job_within_a_job_is_done_on_its_thread() {
    check(4, || {
        let team = Team::new(2);
        let results = Results::new(4);
        team.run(2, |task| team.run(2, |inner| results.add(2 * task + inner, 1)));
        assert_eq!(results.all(), [1, 1, 1, 1]);
    });
}

#[test]
fn workers_that_sleep_are_woken() {
    // The task needs a second thread: it waits until both threads are at the job. So a worker that is not woken is a
    // deadlock.
    check(5, || {
        let team = Team::new(2);
        let seen = Arc::new(AtomicUsize::new(0));
        let begun = Arc::new(loom::sync::Notify::new());
        let (first, second) = (Arc::clone(&begun), Arc::clone(&seen));
        team.run(2, move |task| {
            second.fetch_add(1, Ordering::Relaxed);
            if task == 0 { first.wait() } else { first.notify() }
        });
        assert_eq!(seen.load(Ordering::Relaxed), 2);
    });
}
