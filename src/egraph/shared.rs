//! The attributes of e-nodes: shared, together with their hash.
//!
//! The e-graph hashes and compares each node many times, and attributes are lists of strings and numbers. So they are
//! hashed once, and compared by address first.

use crate::attr::Attrs;
use rustc_hash::FxHashSet;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Attributes that are cheap to copy, hash and compare.
#[derive(Clone)]
pub(crate) struct Shared {
    hash: u64,
    attrs: Arc<Attrs>,
}

impl Shared {
    pub(crate) fn new(attrs: Attrs) -> Self {
        Self { hash: rustc_hash::FxBuildHasher.hash_one(&attrs), attrs: Arc::new(attrs) }
    }

    /// The attributes in the form that a graph holds.
    pub(crate) fn arc(&self) -> &Arc<Attrs> {
        &self.attrs
    }
}

/// The known attributes, so that equal ones are stored once.
#[derive(Default)]
pub(super) struct Pool(FxHashSet<Shared>);

impl Pool {
    /// Returns these attributes, or equal ones that are already stored.
    pub(crate) fn share(&mut self, attrs: Attrs) -> Shared {
        let fresh = Shared::new(attrs);
        if let Some(known) = self.0.get(&fresh) {
            return known.clone();
        }
        self.0.insert(fresh.clone());
        fresh
    }
}

impl Deref for Shared {
    type Target = Attrs;

    fn deref(&self) -> &Attrs {
        &self.attrs
    }
}

impl PartialEq for Shared {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && (Arc::ptr_eq(&self.attrs, &other.attrs) || self.attrs == other.attrs)
    }
}

impl Eq for Shared {}

impl Hash for Shared {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Ord for Shared {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.attrs, &other.attrs) { Ordering::Equal } else { self.attrs.cmp(&other.attrs) }
    }
}

impl PartialOrd for Shared {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.attrs.fmt(f)
    }
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.attrs.fmt(f)
    }
}
