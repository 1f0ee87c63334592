//! Turns of callers who run several jobs one after another.

use crate::Team;
use crate::fair_lock::FairLockGuard;
use crate::pin::{self, Away};
use crate::sync::HasTurn;

/// A guard: its owner has the turn until it is dropped.
pub struct Turn<'a> {
    // Fields are dropped in this order. The next caller may go on as soon as the lock is free.
    _mark: Option<HasTurn>,
    _lock: Option<FairLockGuard<'a>>,
    _away: Option<Away>,
}

impl Team {
    /// Waits until no other caller has the turn, and takes it. Callers get it in the order in which they arrived, and
    /// sleep until then.
    ///
    /// Without turns the jobs of several callers alternate. Then each caller spins between two of its jobs, on a
    /// processor that the team needs for the job of another one, and its data leave the caches meanwhile.
    ///
    /// A thread that has a turn already gets another one at once, also of another team, so that callers cannot wait for
    /// each other in a cycle. So does everybody on a team of one thread, since its jobs keep no other thread busy.
    ///
    /// A caller that has waited keeps off the processors of the workers while it has the turn: the system may wake it on
    /// one of them, where a worker spins, and moves it to the free one too late.
    pub fn turn(&self) -> Turn<'_> {
        if self.workers.is_empty() || HasTurn::get() {
            return Turn { _mark: None, _lock: None, _away: None };
        }
        let (lock, away) = self.shared.run.lock_prepared(|| pin::away_from(&self.processors));
        Turn { _mark: Some(HasTurn::enter()), _lock: Some(lock), _away: away.flatten() }
    }
}
