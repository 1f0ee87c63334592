//! The plans of regions: at most a given number, of which the least recently used one is dropped for a new one.

use crate::digest::Digest;
use crate::session::Session;
use rustc_hash::FxHashMap;

pub(super) struct Plans {
    sessions: FxHashMap<Digest, (Session, u64)>,
    /// Counts the uses.
    clock: u64,
    most: usize,
}

impl Plans {
    pub fn new(most: usize) -> Self {
        Self { sessions: FxHashMap::default(), clock: 0, most: most.max(1) }
    }

    /// Sets the most plans that are kept, and drops what is more.
    pub fn limit(&mut self, most: usize) {
        self.most = most.max(1);
        self.drop_beyond(self.most);
    }

    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns a plan without using it.
    pub fn look(&self, digest: &Digest) -> Option<&Session> {
        self.sessions.get(digest).map(|(session, _)| session)
    }

    /// Returns all plans, in no particular order.
    pub fn all(&self) -> impl Iterator<Item = &Session> {
        self.sessions.values().map(|(session, _)| session)
    }

    /// Returns a plan for a use.
    pub fn get(&mut self, digest: &Digest) -> Option<&mut Session> {
        self.clock += 1;
        let (session, used) = self.sessions.get_mut(digest)?;
        *used = self.clock;
        Some(session)
    }

    /// Adds a plan. Drops the one that was used longest ago if there are too many.
    pub fn insert(&mut self, digest: Digest, session: Session) {
        self.drop_beyond(self.most - 1);
        self.clock += 1;
        self.sessions.insert(digest, (session, self.clock));
    }

    fn drop_beyond(&mut self, most: usize) {
        while self.sessions.len() > most {
            let oldest = self.sessions.iter().min_by_key(|(_, (_, used))| *used).map(|(digest, _)| *digest);
            let Some(oldest) = oldest else { return };
            self.sessions.remove(&oldest);
        }
    }
}
