//! The cache: plans with their packed weights, kept from one process to the next.
//!
//! Takes a [`Key`] of everything that can change the answer ([`Request`] makes it), gives a
//! [`Session`] that is ready to run, with its weights mapped. What it reads it checks, to the last bit,
//! against checksums, then against the ops of the registry, and against what the backends of this process
//! say of each kernel: what does not fit is a [`Miss`], and is built again. It refuses nothing and waits
//! for nobody: a cache that cannot be read or written is as good as none.
//!
//! ```no_run
//! # use ovolo::cache::{Cache, Request};
//! # use ovolo::registry::Registry;
//! # use std::sync::Arc;
//! # fn of(request: &Request, registry: &Arc<Registry>) -> Result<(), Box<dyn std::error::Error>> {
//! let cache = Cache::new(std::path::Path::new("folder"), Cache::LIMIT, registry);
//! match cache.find(&request.key(registry)?, None) {
//!     Ok(session) => println!("{} steps", session.plan().steps.len()),
//!     Err(miss) => println!("{miss}"),
//! }
//! # Ok(()) }
//! ```

mod archive;
mod artifact;
mod digest;
mod entry;
mod folder;
mod home;
mod key;
mod library;
mod prune;
mod request;
mod weights;

pub use artifact::Kept;
pub use digest::Digest;
pub use digest::NoDigest;
pub use entry::Damage;
pub use entry::{Constant, Entry, Value};
pub use folder::{Folder, Kind, Listed};
pub use home::{home, keep_in};
pub use key::{Difference, Key};
pub use prune::{GRACE, Pruned};
pub use request::{Builds, Request, build, elsewhere};

use crate::cost::{Basis, Machine, Stored};
use crate::error::{CacheError, Error};
use crate::graph::NodeId;
use crate::plan::Plan;
use crate::registry::Registry;
use crate::session::{self, Constants, Session};
use crate::tensor::Tensor;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// A folder of entries, and how large it may become.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: Folder,
    limit: u64,
    registry: Arc<Registry>,
}

/// An entry that is there, or what is wrong with it.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its name: the fingerprint of its key.
    pub name: String,
    /// Bytes of its own, without weights.
    pub bytes: u64,
    /// When it was last used.
    pub used: SystemTime,
    /// What it holds.
    pub entry: Result<Entry, Miss>,
}

/// Why there is no session for a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Miss {
    /// There is no entry.
    #[error("there is no entry")]
    Absent,
    /// The system does not let it be read.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// A part of it is missing.
    #[error("it is not complete: {0}")]
    Incomplete(String),
    /// It is not what was written.
    #[error("it is damaged: {why}")]
    Damaged {
        /// What is wrong.
        why: String,
        /// The weights that are not what they were.
        weights: Vec<Digest>,
    },
    /// What it was made by is no longer so.
    #[error("it no longer holds: {0}")]
    Changed(String),
}

/// What is to be kept beside a plan and its constants.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The model's file.
    pub model: String,
    /// The speeds of the machine, where the cost model went by them and they are kept.
    pub machine: Option<Machine>,
    /// What the plan was chosen by of the table of times.
    pub basis: Option<Basis>,
}

/// The entry that is most like a key, and where it differs.
#[derive(Clone, Debug)]
pub struct Nearest {
    /// The entry.
    pub item: Item,
    /// Where it differs.
    pub differences: Vec<Difference>,
}

impl Cache {
    /// Bytes that a cache takes unless it is told otherwise.
    pub const LIMIT: u64 = 8 << 30;

    /// The cache in a folder, which need not exist yet. Its plans are of the ops and backends of this registry.
    pub fn new(folder: &Path, limit: u64, registry: &Arc<Registry>) -> Self {
        Self { folder: Folder::new(folder), limit, registry: Arc::clone(registry) }
    }

    /// Its files.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Bytes that it may take.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// A session from the entry of a key. What is damaged is removed, and so is what the limit does not allow.
    /// `times` is the table of times, for a plan that was chosen by one.
    ///
    /// # Errors
    /// Why there is none.
    pub fn find(&self, key: &Key, times: Option<&Stored>) -> Result<Session, Miss> {
        self.used(key, self.look(key, times))
    }

    /// Notes that an entry was used, or removes it where it is of no use.
    fn used<T>(&self, key: &Key, found: Result<T, Miss>) -> Result<T, Miss> {
        let name = key.fingerprint().to_string();
        match &found {
            Ok(_) => {
                self.folder.touch(Kind::Plan, &name);
                // The limit may be another than when something was kept last. What is mapped stays mapped.
                prune::tidy(&self.folder, self.limit);
            }
            Err(miss) => {
                // What cannot be removed is found damaged again.
                let _ = self.discard(&name, miss);
            }
        }
        found
    }

    /// Removes an entry that is damaged or not complete, and its weights that are not what they were.
    ///
    /// # Errors
    /// The first that could not be removed; the others are.
    pub fn discard(&self, name: &str, miss: &Miss) -> Result<(), Error> {
        let weights = match miss {
            Miss::Damaged { weights, .. } => weights.as_slice(),
            Miss::Incomplete(_) => &[],
            Miss::Absent | Miss::Unreadable(_) | Miss::Changed(_) => return Ok(()),
        };
        let removed = self.folder.remove(Kind::Plan, name);
        weights
            .iter()
            .map(|weight| self.folder.remove(Kind::Weight, &weight.to_string()))
            .fold(removed, Result::and)
    }

    /// As [`Cache::find`], and leaves everything as it is.
    ///
    /// # Errors
    /// Why there is none.
    pub fn look(&self, key: &Key, times: Option<&Stored>) -> Result<Session, Miss> {
        let (plan, constants) = self.stored(key, times)?;
        Session::stored(plan, constants, self.registry.backends(), &Kept::new(&self.folder))
            .map_err(|error| Miss::Changed(error.to_string()))
    }

    /// As [`Cache::find`], of the plan alone: it is checked as a session would be, and no kernel is made, so that
    /// it is found where it cannot run, too.
    ///
    /// # Errors
    /// Why there is none.
    pub fn find_plan(&self, key: &Key, times: Option<&Stored>) -> Result<Plan, Miss> {
        self.used(key, self.look_plan(key, times))
    }

    /// As [`Cache::find_plan`], and leaves everything as it is.
    ///
    /// # Errors
    /// Why there is none.
    pub fn look_plan(&self, key: &Key, times: Option<&Stored>) -> Result<Plan, Miss> {
        let (plan, constants) = self.stored(key, times)?;
        session::check(&plan, &constants).map_err(|error| Miss::Changed(error.to_string()))?;
        Ok(plan)
    }

    /// The plan of an entry and its constants, mapped.
    fn stored(&self, key: &Key, times: Option<&Stored>) -> Result<(Plan, Constants), Miss> {
        let entry = Entry::read(&self.folder, &key.fingerprint().to_string())?.ok_or(Miss::Absent)?;
        if let Some(why) =
            entry.basis.as_ref().and_then(|basis| basis.differs(times.unwrap_or(&Stored::default())))
        {
            return Err(Miss::Changed(why));
        }
        let plan = self.plan(&entry)?;
        let constants = weights::read(&self.folder, &entry.constants, plan.threads)?;
        Ok((plan, constants))
    }

    /// The plan of an entry.
    ///
    /// # Errors
    /// If an op of it is absent.
    pub fn plan(&self, entry: &Entry) -> Result<Plan, Miss> {
        entry.plan.clone().resolve(self.registry.ops()).map_err(|why| Miss::Changed(why.to_string()))
    }

    /// Keeps a session's plan and constants under a key, and prunes what the limit does not allow.
    ///
    /// # Errors
    /// If they cannot be written, or are larger than the limit; the cache is then as it was.
    pub fn keep(&self, key: &Key, session: &Session, origin: Origin) -> Result<(), Error> {
        self.keep_plan(key, session.plan(), &session.constants(), origin)
    }

    /// Keeps a plan and the constants that it reads as [`Cache::keep`] does.
    ///
    /// # Errors
    /// As [`Cache::keep`].
    pub fn keep_plan(
        &self,
        key: &Key,
        plan: &Plan,
        constants: &[(NodeId, &Tensor)],
        origin: Origin,
    ) -> Result<(), Error> {
        let (encoded, weights) = encode(key, plan, constants, origin)?;
        self.allows(encoded.len() + weights.values().map(|bytes| bytes.len()).sum::<usize>())?;
        weights::write_entry(&self.folder, &key.fingerprint().to_string(), &encoded, weights)?;
        prune::tidy(&self.folder, self.limit);
        Ok(())
    }

    /// That the limit allows an entry of so many bytes.
    fn allows(&self, bytes: usize) -> Result<(), Error> {
        if bytes as u64 <= self.limit {
            return Ok(());
        }
        let limit = self.limit;
        Err(CacheError::Limit { bytes, limit }.into())
    }

    /// The entries, the last used first.
    pub fn items(&self) -> Vec<Item> {
        prune::items(&self.folder)
    }

    /// Bytes of all entries and weights, and of what is being written.
    pub fn bytes(&self) -> u64 {
        prune::total(&self.folder)
    }

    /// The entry that differs from a key in the fewest fields; of several, the last used.
    pub fn nearest(&self, key: &Key) -> Option<Nearest> {
        let items = self.items().into_iter().filter_map(|item| {
            let differences = key.differences(&item.entry.as_ref().ok()?.key);
            Some(Nearest { item, differences })
        });
        items.min_by_key(|nearest| nearest.differences.len())
    }

    /// Removes what was used longest ago, until at most so many bytes are left; entries whose own bytes are
    /// damaged, and what nothing names, go as well.
    pub fn prune(&self, limit: u64) -> Pruned {
        prune::prune(&self.folder, limit)
    }

    /// Removes all entries and weights.
    pub fn clear(&self) -> Pruned {
        prune::clear(&self.folder)
    }

    /// What no entry names: modules, and weights of entries that are gone or were never finished; by name.
    pub fn others(&self) -> Vec<(Kind, Listed)> {
        let named = prune::named(&self.folder);
        let named: BTreeSet<String> = named.iter().map(ToString::to_string).collect();
        let weights = self.folder.list(Kind::Weight).into_iter().map(|one| (Kind::Weight, one));
        let modules = self.folder.list(Kind::Artifact).into_iter().map(|one| (Kind::Artifact, one));
        weights.filter(|(_, one)| !named.contains(&one.name)).chain(modules).collect()
    }

    /// Reads every bit of a file that is no entry.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn verify_other(&self, kind: Kind, name: &str) -> Result<(), Miss> {
        match kind {
            Kind::Artifact => artifact::check(&self.folder, name),
            Kind::Plan | Kind::Weight => weights::check(&self.folder, name),
        }
    }

    /// Reads every bit of an entry.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn verify(&self, item: &Item) -> Result<(), Miss> {
        let entry = item.entry.as_ref().map_err(Clone::clone)?;
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let constants = weights::read(&self.folder, &entry.constants, threads)?;
        let bytes = |node| constants.get(&node).map(|constant| constant.bytes().len());
        self.plan(entry)?
            .check(&bytes)
            .map_err(|why| Miss::Damaged { why: why.to_string(), weights: Vec::new() })
    }
}

/// The bytes of an entry, and those of its weights.
type Encoded<'a> = (Vec<u8>, BTreeMap<Digest, &'a [u8]>);

/// The entry of a plan.
fn encode<'a>(
    key: &Key,
    plan: &Plan,
    constants: &[(NodeId, &'a Tensor)],
    origin: Origin,
) -> Result<Encoded<'a>, Error> {
    let (constants, weights) = weights::describe(constants, plan.threads);
    let plan = plan.clone().into();
    let Origin { model, machine, basis } = origin;
    let entry = Entry { key: key.clone(), model, plan, constants, machine, basis };
    Ok((entry.encode().map_err(|damage| CacheError::Entry { why: damage.to_string() })?, weights))
}
