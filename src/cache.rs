//! The cache keeps plans with their packed weights from one process to the next.
//!
//! It takes a [`Key`] of everything that can change the plan ([`Request`] makes it), and gives a [`Session`] that
//! is ready to run, with its weights mapped. It checks what it reads to the last bit against checksums, then
//! against the ops of the registry, and then against the contracts that the backends of this process give for each
//! kernel. If something does not fit, the result is a [`Miss`], and the caller compiles the model. It never waits
//! for another process. If the cache cannot be read or written, compilation goes on without it.
//!
//! ```no_run
//! # use ovolo::cache::{Cache, Request};
//! # use ovolo::registry::Registry;
//! # use std::sync::Arc;
//! # fn example(request: &Request, registry: &Arc<Registry>) -> Result<(), Box<dyn std::error::Error>> {
//! let cache = Cache::new(std::path::Path::new("folder"), Cache::LIMIT, registry);
//! match cache.find(&request.key(registry)?, None) {
//!     Ok(session) => println!("{} steps", session.plan().steps.len()),
//!     Err(miss) => println!("{miss}"),
//! }
//! # Ok(()) }
//! ```

mod archive;
mod artifact;
mod entry;
mod folder;
mod home;
mod key;
mod library;
mod loaded;
mod prune;
mod request;
mod weights;

pub use crate::digest::Digest;
pub use artifact::KeptArtifacts;
pub use entry::{ConstantBytes, Entry, Specialised};
pub(crate) use folder::Folder;
pub use folder::{Kind, Listed};
pub use home::{home, keep_in};
pub use key::{Difference, Key};
pub use prune::{GRACE, Pruned};
pub use request::{Builds, Request, build, elsewhere};

use crate::cost::{Basis, Differs, Machine, Stored};
use crate::error::{CacheError, Error};
use crate::graph::NodeId;
use crate::plan::{Plan, StoredError};
use crate::registry::Registry;
use crate::session::{self, Constants, Recipes, Session, SessionError, Store};
use crate::tensor::Tensor;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// A folder of entries with a limit on its size.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: Folder,
    limit: u64,
    registry: Arc<Registry>,
}

/// An entry of the cache, or what is wrong with it.
#[derive(Clone, Debug)]
pub struct Item {
    /// The name of the entry: the fingerprint of its key.
    pub name: String,
    /// The bytes of the entry itself, without weights.
    pub bytes: u64,
    /// When the entry was last used.
    pub used: SystemTime,
    /// What the entry holds.
    pub entry: Result<Entry, Miss>,
}

/// Why there is no session for a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Miss {
    /// There is no entry.
    #[error("there is no entry")]
    Absent,
    /// The entry cannot be read from the file system.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// A weight of the entry is missing.
    #[error("it is not complete: weight {} is gone", weight.short())]
    Incomplete {
        /// The digest of the weight.
        weight: Digest,
    },
    /// The entry differs from what was written.
    #[error("it is damaged: {why}")]
    Damaged {
        /// What is wrong.
        why: String,
        /// The weights that differ from what was written.
        weights: Vec<Digest>,
    },
    /// The plan was chosen by other times than those of the table.
    #[error("it no longer holds: {0}")]
    Times(Differs),
    /// An op of the plan is absent, or has other attributes.
    #[error("it no longer holds: {0}")]
    Op(StoredError),
    /// The plan does not run: a backend has another contract for a kernel, or a device is absent.
    #[error("it no longer holds: {0}")]
    Session(SessionError),
}

/// What an entry keeps beside a plan and its constants.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The model's file.
    pub model: String,
    /// The speeds of the machine, if the cost model used them and they are kept.
    pub machine: Option<Machine>,
    /// The part of the table of times by which the plan was chosen.
    pub basis: Option<Basis>,
    /// What the plan was specialised for, if it is that of a region.
    pub region: Option<Specialised>,
}

/// The entry whose key is closest to a given one, and the fields in which they differ.
#[derive(Clone, Debug)]
pub struct Nearest {
    /// The entry.
    pub item: Item,
    /// The fields in which it differs.
    pub differences: Vec<Difference>,
}

impl Cache {
    /// The default limit, in bytes.
    pub const LIMIT: u64 = 8 << 30;

    /// Makes a cache in a folder, which need not exist yet, of at most `limit` bytes. Its plans use the ops and
    /// backends of this registry.
    pub fn new(folder: &Path, limit: u64, registry: &Arc<Registry>) -> Self {
        Self { folder: Folder::new(folder), limit, registry: Arc::clone(registry) }
    }

    /// Returns the folder with the files.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Returns the limit, in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns a session made from the entry of a key. Removes the entry if it is damaged, and the oldest entries
    /// if the cache is larger than its limit. `times` is the table of times, for a plan that was chosen by one.
    ///
    /// # Errors
    /// Why there is no such entry.
    pub fn find(&self, key: &Key, times: Option<&Stored>) -> Result<Session, Miss> {
        self.used(key, self.look(key, times))
    }

    /// Does what [`Cache::find`] does, and shares constants with other sessions of the model through a store. What the
    /// store has is neither mapped nor checked again.
    ///
    /// # Errors
    /// Why there is no such entry.
    pub fn find_sharing(&self, key: &Key, times: Option<&Stored>, store: &Store) -> Result<Session, Miss> {
        self.used(key, self.session(key, times, Some(store)))
    }

    /// Notes that an entry was used, or removes it if it cannot be used.
    fn used<T>(&self, key: &Key, found: Result<T, Miss>) -> Result<T, Miss> {
        let name = key.fingerprint().to_string();
        match &found {
            Ok(_) => {
                self.folder.touch(Kind::Plan, &name);
                // The limit may have changed since the last entry was kept. Files that are mapped stay mapped when
                // they are removed.
                prune::tidy(&self.folder, self.limit);
            }
            Err(miss) => {
                // A failure to remove is harmless: the entry will be found damaged again.
                let _ = self.discard(&name, miss);
            }
        }
        found
    }

    /// Removes an entry that is damaged or incomplete, and those of its weights that are damaged.
    ///
    /// # Errors
    /// The first file that could not be removed. The others are removed.
    pub fn discard(&self, name: &str, miss: &Miss) -> Result<(), Error> {
        let weights = match miss {
            Miss::Damaged { weights, .. } => weights.as_slice(),
            Miss::Incomplete { .. } => &[],
            Miss::Absent | Miss::Unreadable(_) | Miss::Times(_) | Miss::Op(_) | Miss::Session(_) => {
                return Ok(());
            }
        };
        let removed = self.folder.remove(Kind::Plan, name);
        weights
            .iter()
            .map(|weight| self.folder.remove(Kind::Weight, &weight.to_string()))
            .fold(removed, Result::and)
    }

    /// Does what [`Cache::find`] does, but changes nothing in the folder.
    ///
    /// # Errors
    /// Why there is no such entry.
    pub fn look(&self, key: &Key, times: Option<&Stored>) -> Result<Session, Miss> {
        self.session(key, times, None)
    }

    fn session(&self, key: &Key, times: Option<&Stored>, store: Option<&Store>) -> Result<Session, Miss> {
        let (plan, constants, recipes) = self.stored(key, times, store)?;
        Session::load(plan, constants, recipes, self.registry.backends(), &KeptArtifacts::new(&self.folder))
            .map_err(Miss::Session)
    }

    /// Returns the plan that [`Cache::find`] would make a session of. The plan is checked in the same way, but no
    /// kernel is made, so that this also works on a machine where the plan cannot run.
    ///
    /// # Errors
    /// Why there is no such entry.
    pub fn find_plan(&self, key: &Key, times: Option<&Stored>) -> Result<Plan, Miss> {
        self.used(key, self.look_plan(key, times))
    }

    /// Does what [`Cache::find_plan`] does, but changes nothing in the folder.
    ///
    /// # Errors
    /// Why there is no such entry.
    pub fn look_plan(&self, key: &Key, times: Option<&Stored>) -> Result<Plan, Miss> {
        let (plan, constants, _) = self.stored(key, times, None)?;
        session::check(&plan, &constants).map_err(Miss::Session)?;
        Ok(plan)
    }

    /// Returns the plan of an entry and its constants, which are mapped, with their recipes.
    fn stored(
        &self,
        key: &Key,
        times: Option<&Stored>,
        store: Option<&Store>,
    ) -> Result<(Plan, Constants, Recipes), Miss> {
        let entry = Entry::read(&self.folder, &key.fingerprint().to_string())?.ok_or(Miss::Absent)?;
        if let Some(differs) =
            entry.basis.as_ref().and_then(|basis| basis.differs(times.unwrap_or(&Stored::default())))
        {
            return Err(Miss::Times(differs));
        }
        let plan = self.plan(&entry)?;
        let constants = weights::read(&self.folder, &entry.constants, plan.threads, store)?;
        let recipes = entry.constants.iter().filter_map(|one| Some((one.node, one.recipe?))).collect();
        Ok((plan, constants, recipes))
    }

    /// Returns the plan of an entry.
    ///
    /// # Errors
    /// If an op of it is absent.
    pub fn plan(&self, entry: &Entry) -> Result<Plan, Miss> {
        entry.plan.clone().resolve(self.registry.ops()).map_err(Miss::Op)
    }

    /// Keeps a session's plan and constants under a key, and prunes the cache to its limit.
    ///
    /// # Errors
    /// If they cannot be written, or are larger than the limit. Then the cache is unchanged.
    pub fn keep(&self, key: &Key, session: &Session, origin: Origin) -> Result<(), Error> {
        self.keep_plan(key, session.plan(), &session.constants(), origin)
    }

    /// Does what [`Cache::keep`] does for a session that shares constants through a store. Constants that the store
    /// knows to be in the cache are not read again.
    ///
    /// # Errors
    /// As [`Cache::keep`].
    pub fn keep_sharing(
        &self,
        key: &Key,
        session: &Session,
        origin: Origin,
        store: &Store,
    ) -> Result<(), Error> {
        let sharing = Some((store, session.recipes()));
        self.write(key, session.plan(), &session.constants(), origin, sharing)
    }

    /// Keeps a plan and the constants that it reads, as [`Cache::keep`] does for those of a session.
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
        self.write(key, plan, constants, origin, None)
    }

    fn write(
        &self,
        key: &Key,
        plan: &Plan,
        constants: &[(NodeId, &Tensor)],
        origin: Origin,
        sharing: Option<weights::Sharing<'_>>,
    ) -> Result<(), Error> {
        let (encoded, weights) = encode(key, plan, constants, origin, sharing)?;
        self.allows(encoded.len() + weights.values().map(|bytes| bytes.len()).sum::<usize>())?;
        let store = sharing.map(|(store, _)| store);
        weights::write_entry(
            &self.folder,
            &key.fingerprint().to_string(),
            &encoded,
            weights,
            (store, plan.threads),
        )?;
        prune::tidy(&self.folder, self.limit);
        Ok(())
    }

    /// Checks that the limit allows an entry of this many bytes.
    fn allows(&self, bytes: usize) -> Result<(), Error> {
        if bytes as u64 <= self.limit {
            return Ok(());
        }
        let limit = self.limit;
        Err(CacheError::Limit { bytes, limit }.into())
    }

    /// Returns the entries, the most recently used first.
    pub fn items(&self) -> Vec<Item> {
        prune::items(&self.folder)
    }

    /// Returns the bytes of all entries and weights, including files that are being written.
    pub fn bytes(&self) -> u64 {
        prune::total(&self.folder)
    }

    /// Returns the entry whose key differs from this one in the fewest fields; of several, the most recently used.
    pub fn nearest(&self, key: &Key) -> Option<Nearest> {
        let items = self.items().into_iter().filter_map(|item| {
            let differences = key.differences(&item.entry.as_ref().ok()?.key);
            Some(Nearest { item, differences })
        });
        items.min_by_key(|nearest| nearest.differences.len())
    }

    /// Removes the entries that were used longest ago, until at most `limit` bytes are left. Also removes entries
    /// whose own bytes are damaged, and files that no entry names.
    pub fn prune(&self, limit: u64) -> Pruned {
        prune::prune(&self.folder, limit)
    }

    /// Removes all entries and weights.
    pub fn clear(&self) -> Pruned {
        prune::clear(&self.folder)
    }

    /// Returns the files that no entry names, sorted by name: artifacts, and weights of entries that were removed
    /// or never finished.
    pub fn others(&self) -> Vec<(Kind, Listed)> {
        let named = prune::named(&self.folder);
        let named: BTreeSet<String> = named.iter().map(ToString::to_string).collect();
        let weights = self.folder.list(Kind::Weight).into_iter().map(|one| (Kind::Weight, one));
        let modules = self.folder.list(Kind::Artifact).into_iter().map(|one| (Kind::Artifact, one));
        weights.filter(|(_, one)| !named.contains(&one.name)).chain(modules).collect()
    }

    /// Checks every bit of a file that is not an entry.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn verify_other(&self, kind: Kind, name: &str) -> Result<(), Miss> {
        match kind {
            Kind::Artifact => artifact::check(&self.folder, name),
            Kind::Plan | Kind::Weight => weights::check(&self.folder, name),
        }
    }

    /// Checks every bit of an entry.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn verify(&self, item: &Item) -> Result<(), Miss> {
        let entry = item.entry.as_ref().map_err(Clone::clone)?;
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let constants = weights::read(&self.folder, &entry.constants, threads, None)?;
        let bytes = |node| constants.get(&node).map(|constant| constant.bytes().len());
        self.plan(entry)?
            .check(&bytes)
            .map_err(|why| Miss::Damaged { why: why.to_string(), weights: Vec::new() })
    }
}

/// The bytes of an entry, and those of its weights by digest.
type Encoded<'a> = (Vec<u8>, BTreeMap<Digest, &'a [u8]>);

/// Encodes the entry of a plan.
fn encode<'a>(
    key: &Key,
    plan: &Plan,
    constants: &[(NodeId, &'a Tensor)],
    origin: Origin,
    sharing: Option<weights::Sharing<'_>>,
) -> Result<Encoded<'a>, Error> {
    let (constants, weights) = weights::describe(constants, plan.threads, sharing);
    let plan = plan.clone().into();
    let Origin { model, machine, basis, region } = origin;
    let entry = Entry { key: key.clone(), model, plan, constants, machine, basis, region };
    Ok((entry.encode().map_err(|damage| CacheError::Entry { why: damage.to_string() })?, weights))
}
