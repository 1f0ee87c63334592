//! Tests of the team with real threads.
#![allow(clippy::unwrap_used)]

use crate::{MOST_THREADS, Team, allowed, cores};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

fn counters(count: usize) -> Vec<AtomicUsize> {
    (0..count).map(|_| AtomicUsize::new(0)).collect()
}

fn values(counters: &[AtomicUsize]) -> Vec<usize> {
    counters.iter().map(|counter| counter.load(Ordering::Relaxed)).collect()
}

#[test]
fn every_task_of_every_job_runs_once_before_the_job_returns() {
    // With more threads than processors, some threads have not started when a job is over, and some park.
    for threads in [1, 2, 3, 8] {
        let team = Team::new(threads);
        assert_eq!(team.threads(), threads);
        for round in 0..3_000_usize {
            let tasks = round % 7;
            let done = counters(tasks);
            team.run(tasks, |task| {
                if round % 50 == 0 {
                    thread::yield_now();
                }
                done[task].fetch_add(1, Ordering::Relaxed);
            });
            assert!(values(&done).iter().all(|done| *done == 1), "job {round}");
            // Only one thread at a time has a given number, and numbers are below the limit.
            let busy = counters(2);
            team.share(2, tasks, |thread, task| {
                assert_eq!(busy[thread].fetch_add(1, Ordering::Relaxed), 0);
                done[task].fetch_add(1, Ordering::Relaxed);
                busy[thread].fetch_sub(1, Ordering::Relaxed);
            });
            assert!(values(&done).iter().all(|done| *done == 2), "job {round}");
            if round % 1_000 == 999 {
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

#[test]
fn each_worker_has_a_processor_of_its_own_and_the_caller_keeps_all() {
    let before = allowed();
    let processors = cores::spread(&before);
    if processors.is_empty() {
        // This system does not tell them, and pins no thread.
        return;
    }
    let team = Team::new(processors.len().min(16));
    let all = Barrier::new(team.threads());
    let seen: Vec<Mutex<Vec<usize>>> = (0..team.threads()).map(|_| Mutex::default()).collect();
    team.share(usize::MAX, team.threads(), |thread, _| {
        // No task is over before the last one has started, so each thread runs one.
        all.wait();
        *seen[thread].lock().unwrap() = allowed();
    });
    let seen: Vec<Vec<usize>> = seen.into_iter().map(|seen| seen.into_inner().unwrap()).collect();
    let own: Vec<Vec<usize>> = processors[1..].iter().map(|processor| vec![*processor]).collect();
    assert_eq!((&seen[0], &seen[1..]), (&before, &own[..team.threads() - 1]));
}

#[test]
fn a_team_can_be_sent_and_shared() {
    fn check<T: Send + Sync>(_: &T) {}
    check(&Team::new(1));
}

#[test]
fn zero_threads_mean_the_caller_alone_and_too_many_are_refused() {
    assert_eq!(Team::new(0).threads(), 1);
    let refused = catch_unwind(|| Team::new(MOST_THREADS + 1)).err().unwrap();
    assert!(refused.downcast_ref::<String>().unwrap().contains("at most"));
}

#[test]
fn a_panic_on_any_thread_reaches_the_caller_and_the_team_works_on() {
    for threads in [1, 2, 4] {
        let team = Team::new(threads);
        for round in 0..500_usize {
            let tasks = 1 + round % 9;
            let wrong = round % tasks;
            let done = counters(tasks);
            let job = catch_unwind(AssertUnwindSafe(|| {
                team.run(tasks, |task| {
                    if task == wrong {
                        // Unlike `panic_any`, this prints no message.
                        resume_unwind(Box::new(task));
                    }
                    done[task].fetch_add(1, Ordering::Relaxed);
                });
            }));
            assert_eq!(*job.unwrap_err().downcast::<usize>().unwrap(), wrong);
            let done = values(&done);
            assert_eq!(done[wrong], 0);
            assert!(done.iter().all(|done| *done <= 1));
            let done = counters(tasks);
            team.run(tasks, |task| {
                done[task].fetch_add(1, Ordering::Relaxed);
            });
            assert!(values(&done).iter().all(|done| *done == 1), "job {round}");
        }
    }
}

#[test]
fn a_panic_of_a_worker_keeps_its_message() {
    let team = Team::new(2);
    // Both tasks have started before one of them panics, so a worker must be running one of them.
    let both = Barrier::new(2);
    let caller = thread::current().id();
    let job = catch_unwind(AssertUnwindSafe(|| {
        team.run(2, |_| {
            both.wait();
            if thread::current().id() != caller {
                panic_any("the worker's");
            }
        });
    }));
    assert_eq!(*job.unwrap_err().downcast::<&str>().unwrap(), "the worker's");
}

#[test]
fn tasks_that_have_not_begun_are_skipped_after_a_panic() {
    let team = Team::new(2);
    let done = AtomicUsize::new(0);
    let job = catch_unwind(AssertUnwindSafe(|| {
        team.run(10_000, |_| {
            done.fetch_add(1, Ordering::Relaxed);
            resume_unwind(Box::new(()));
        });
    }));
    assert!(job.is_err());
    // Each thread leaves the job at its first panic.
    assert!((1..=2).contains(&done.into_inner()));
}

#[test]
fn panics_whose_payloads_panic_on_drop_become_one_panic() {
    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            if !thread::panicking() {
                resume_unwind(Box::new(()));
            }
        }
    }
    let team = Team::new(4);
    for _ in 0..100 {
        let all = AtomicUsize::new(0);
        let job = catch_unwind(AssertUnwindSafe(|| {
            team.run(4, |_| {
                all.fetch_add(1, Ordering::Relaxed);
                resume_unwind(Box::new(PanicsOnDrop));
            });
        }));
        let first = job.unwrap_err().downcast::<PanicsOnDrop>().unwrap();
        std::mem::forget(*first);
        assert!(all.into_inner() >= 1);
    }
}

#[test]
fn a_job_within_a_job_runs_on_its_thread_in_order() {
    let team = Team::new(3);
    let other = Team::new(2);
    for within in [&team, &other] {
        let done = counters(12);
        team.run(3, |task| {
            let here = thread::current().id();
            let next = AtomicUsize::new(0);
            within.share(2, 4, |thread, inner| {
                assert_eq!((thread::current().id(), thread), (here, 0));
                assert_eq!(next.fetch_add(1, Ordering::Relaxed), inner);
                done[4 * task + inner].fetch_add(1, Ordering::Relaxed);
            });
        });
        assert!(values(&done).iter().all(|done| *done == 1));
    }
    // The caller has left the job, also after a panic, so its next job is divided again.
    let job = catch_unwind(AssertUnwindSafe(|| {
        team.run(2, |_| other.run(2, |_| resume_unwind(Box::new(()))));
    }));
    assert!(job.is_err());
    let both = Barrier::new(2);
    other.run(2, |_| {
        both.wait();
    });
}

#[test]
fn callers_from_several_threads_take_turns_and_none_starves() {
    const CALLERS: usize = 4;
    /// The number of jobs of each caller.
    const JOBS: usize = 2_000;
    for threads in [2, 3] {
        let team = Team::new(threads);
        let (at_once, begin) = (AtomicUsize::new(0), Barrier::new(CALLERS));
        let (jobs, over) = (counters(CALLERS), AtomicBool::new(false));
        thread::scope(|scope| {
            for caller in 0..CALLERS {
                let (team, at_once, begin, jobs, over) = (&team, &at_once, &begin, &jobs, &over);
                scope.spawn(move || {
                    begin.wait();
                    while !over.load(Ordering::Relaxed) {
                        let done = counters(3);
                        team.run(3, |task| {
                            // Each caller counts its running tasks in its own bits, so a nonzero count elsewhere is a
                            // second caller.
                            let one = 1 << (8 * caller);
                            let before = at_once.fetch_add(one, Ordering::Relaxed);
                            assert_eq!(before & !(0xff * one), 0);
                            for _ in 0..200 {
                                std::hint::spin_loop();
                            }
                            done[task].fetch_add(1, Ordering::Relaxed);
                            at_once.fetch_sub(one, Ordering::Relaxed);
                        });
                        assert!(values(&done).iter().all(|done| *done == 1));
                        jobs[caller].fetch_add(1, Ordering::Relaxed);
                        if values(jobs).iter().all(|jobs| *jobs >= JOBS) {
                            over.store(true, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let jobs = values(&jobs);
        let (least, most) = (jobs.iter().min().unwrap(), jobs.iter().max().unwrap());
        // Callers that take turns run about equally many jobs. The factor leaves room for threads that the system
        // does not schedule.
        assert!(*most <= 20 * least, "{jobs:?}");
    }
}

#[test]
fn teams_can_be_created_and_dropped_repeatedly() {
    for round in 0..50 {
        let team = Team::new(1 + round % 5);
        if round % 2 == 0 {
            team.run(8, |_| ());
        }
        if round % 10 == 0 {
            // This is long enough for the workers to park.
            thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_shared_team_is_one_team_as_long_as_somebody_holds_it() {
    let team = Team::shared(3);
    assert!(Arc::ptr_eq(&team, &Team::shared(3)) && !Arc::ptr_eq(&team, &Team::shared(2)));
    assert_eq!((team.threads(), Team::shared(2).threads(), Team::shared(0).threads()), (3, 2, 1));
    let held = Arc::downgrade(&team);
    drop(team);
    assert!(held.upgrade().is_none());
    assert_eq!(Team::shared(3).threads(), 3);
}

#[test]
fn callers_with_a_turn_run_all_of_their_jobs_before_others() {
    let (team, other) = (Team::new(2), Team::new(2));
    let order = Mutex::new(Vec::new());
    let ready = Barrier::new(4);
    thread::scope(|scope| {
        for caller in 0..4 {
            let (team, other, order, ready) = (&team, &other, &order, &ready);
            scope.spawn(move || {
                ready.wait();
                for _ in 0..50 {
                    let turn = team.turn();
                    // A turn within a turn is there at once, also of another team.
                    let _within = (team.turn(), other.turn());
                    for _ in 0..3 {
                        team.run(2, |_| {});
                        order.lock().unwrap().push(caller);
                    }
                    drop(turn);
                }
            });
        }
    });
    let order = order.into_inner().unwrap();
    assert_eq!(order.len(), 4 * 50 * 3);
    assert!(order.chunks(3).all(|jobs| jobs[0] == jobs[1] && jobs[1] == jobs[2]), "{order:?}");
}

#[test]
fn threads_on_a_team_of_one_do_not_wait_for_each_other() {
    let team = Team::new(1);
    let together = Barrier::new(2);
    let run = || {
        let _turn = team.turn();
        together.wait();
    };
    thread::scope(|scope| {
        scope.spawn(run);
        scope.spawn(run);
    });
}
