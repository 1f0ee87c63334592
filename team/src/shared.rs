//! Teams that the sessions of a process share.

use crate::Team;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The teams in use, by the process that started them and their number of threads. A process that was forked has none
/// of the threads of the one before it.
static TEAMS: Mutex<BTreeMap<(u32, usize), Weak<Team>>> = Mutex::new(BTreeMap::new());

impl Team {
    /// Returns the team of `threads` threads that this process shares. It is started for the first caller, and ends when
    /// nobody holds it.
    ///
    /// Sessions of a server should share one: with a team of its own for each, their threads would compete for the same
    /// processors, and those that wait for work would take time from those that have some.
    ///
    /// # Panics
    /// As [`Team::new`].
    pub fn shared(threads: usize) -> Arc<Self> {
        let key = (std::process::id(), threads.max(1));
        let mut teams = TEAMS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(team) = teams.get(&key).and_then(Weak::upgrade) {
            return team;
        }
        let team = Arc::new(Self::new(threads));
        teams.insert(key, Arc::downgrade(&team));
        team
    }
}
