//! Sessions from the cache, or compiled and kept in it.

use super::Settings;
use super::amount::bytes;
use super::load::{Built, absent, by_times, measure_again};
use clap::Args;
use ovolo::cache::{self, Cache, Key, Miss, Origin, Request};
use ovolo::compile::Compilation;
use ovolo::cost::Machine;
use ovolo::cost::Stored;
use ovolo::error::Error;
use ovolo::pass;
use ovolo::plan::Plan;
use ovolo::registry::Registry;
use ovolo::session::{self, Session};
use ovolo_tune::Tuner;
use std::sync::Arc;

#[derive(Args)]
pub(super) struct Caching {
    /// Compile, whatever the cache holds, and leave it as it is.
    #[arg(long)]
    no_cache: bool,
}

/// What is taken from the cache, or made and kept in it: a session to run, or a plan to look at, which takes no
/// device.
pub(super) trait Kept: Sized {
    fn find(cache: &Cache, key: &Key, times: Option<&Stored>) -> Result<Self, Miss>;
    /// Makes it of what was built; machine code for a device is kept in the cache, where there is one.
    fn make(built: &Built, registry: &Registry, cache: Option<&Cache>) -> Result<Self, String>;
    fn keep(&self, cache: &Cache, key: &Key, built: &Built, origin: Origin) -> Result<(), Error>;
}

impl Kept for Session {
    fn find(cache: &Cache, key: &Key, times: Option<&Stored>) -> Result<Self, Miss> {
        cache.find(key, times)
    }

    fn make(built: &Built, registry: &Registry, cache: Option<&Cache>) -> Result<Self, String> {
        let Compilation { program, plan, .. } = &built.compilation;
        match cache {
            Some(cache) => {
                Self::with(program, plan.clone(), registry.backends(), &cache::Kept::new(cache.folder()))
            }
            None => Self::new(program, plan.clone(), registry.backends()),
        }
        .map_err(|error| error.to_string())
    }

    fn keep(&self, cache: &Cache, key: &Key, _: &Built, origin: Origin) -> Result<(), Error> {
        cache.keep(key, self, origin)
    }
}

impl Kept for Plan {
    fn find(cache: &Cache, key: &Key, times: Option<&Stored>) -> Result<Self, Miss> {
        cache.find_plan(key, times)
    }

    fn make(built: &Built, _: &Registry, _: Option<&Cache>) -> Result<Self, String> {
        Ok(built.compilation.plan.clone())
    }

    fn keep(&self, cache: &Cache, key: &Key, built: &Built, origin: Origin) -> Result<(), Error> {
        let constants = session::constants(&built.compilation.program, self);
        cache.keep_plan(key, self, &session::in_order(&constants), origin)
    }
}

/// What is ready, and how it came about.
pub(super) struct Ready<T = Session> {
    pub(super) made: T,
    /// Whether it is from the cache.
    pub(super) cached: bool,
    /// Backends that are not there, each with the reason.
    pub(super) absent: Vec<(String, String)>,
    /// What was compiled, where it is not.
    pub(super) compilation: Option<Compilation>,
    /// What became of the cache: the name of the entry, or why there is none.
    pub(super) entry: Result<String, String>,
}

impl Caching {
    /// Whether the cache is left alone.
    pub(super) fn off(&self) -> bool {
        self.no_cache
    }

    /// The cache, unless it is left alone or there is no folder for it.
    pub(super) fn cache(&self, registry: &Arc<Registry>) -> Option<Cache> {
        if self.no_cache { None } else { cache(registry) }
    }

    /// The session of a model; what is absent is said.
    pub(super) fn session(&self, registry: &Arc<Registry>, settings: &Settings) -> Result<Ready, String> {
        let ready = self.ready::<Session>(registry, settings)?;
        for line in absent(&ready.absent) {
            eprintln!("{line}");
        }
        Ok(ready)
    }

    /// The session of a model, or its plan.
    pub(super) fn ready<T: Kept>(
        &self,
        registry: &Arc<Registry>,
        settings: &Settings,
    ) -> Result<Ready<T>, String> {
        let request = settings.request(registry, &settings.pipeline)?;
        let absent = pass::absent(&request.pipeline, registry.backends());
        let cache = self.cache(registry);
        // A model without a key is not one that compiles, which says why.
        let why = if self.no_cache { "it was not asked" } else { "there is no folder for it" };
        let keyed = cache.clone().ok_or_else(|| why.to_owned());
        let keyed =
            keyed.and_then(|cache| Ok((cache, request.key(registry).map_err(|error| error.to_string())?)));
        let (cache, key) = match keyed {
            Ok(keyed) => keyed,
            Err(why) => {
                let built = settings.build(registry, &request)?;
                let (made, compilation) =
                    (T::make(&built, registry, cache.as_ref())?, Some(built.compilation));
                return Ok(Ready { made, cached: false, absent, compilation, entry: Err(why) });
            }
        };
        match T::find(&cache, &key, times(registry, &request).as_ref()) {
            Ok(made) => {
                if key.get("calibration") == Some(Request::NO_SPEEDS) {
                    eprintln!(
                        "note: the plan goes by speeds that were measured on a busy machine: {}",
                        measure_again(request.threads)
                    );
                }
                let entry = Ok(key.fingerprint().short());
                return Ok(Ready { made, cached: true, absent, compilation: None, entry });
            }
            Err(Miss::Absent) => {}
            Err(miss) => {
                eprintln!("note: the cached plan {} is made again: {miss}", key.fingerprint().short())
            }
        }
        let built = settings.build(registry, &request)?;
        let made = T::make(&built, registry, Some(&cache))?;
        let entry =
            keep(&cache, registry, &key, &request, &built, &made).map(|key| key.fingerprint().short());
        if let Err(why) = &entry {
            eprintln!("note: the plan is not kept in the cache: {why}");
        }
        Ok(Ready { made, cached: false, absent, compilation: Some(built.compilation), entry })
    }
}

/// Keeps what was made under its key, unless the model is no longer what was asked for; gives the key.
fn keep(
    cache: &Cache,
    registry: &Registry,
    asked: &Key,
    request: &Request,
    built: &Built,
    made: &impl Kept,
) -> Result<Key, String> {
    let (key, origin) = settled(registry, asked, request, built)?;
    made.keep(cache, &key, built, origin).map_err(|error| error.to_string())?;
    Ok(key)
}

/// The key of what was built, unless the model is no longer what was asked for, and what is kept beside it.
pub(super) fn settled(
    registry: &Registry,
    asked: &Key,
    request: &Request,
    built: &Built,
) -> Result<(Key, Origin), String> {
    // The calibration may have come with this compilation; a model that was written meanwhile has
    // another key, and the plan may be that of either.
    let request = Request { calibration: built.machine, ..request.clone() };
    let key = request.key(registry).map_err(|error| error.to_string())?;
    let calibration = key.get("calibration").unwrap_or_default();
    if key != asked.clone().with("calibration", calibration) {
        return Err("the model changed while it was compiled".to_owned());
    }
    let model = request.model.display().to_string();
    Ok((key, Origin { model, machine: built.machine, basis: built.basis.clone() }))
}

/// The cache, if there is a folder for it. A limit that cannot be read is said, and nothing is removed by it:
/// it may have been meant to be larger than the usual one.
pub(super) fn cache(registry: &Arc<Registry>) -> Option<Cache> {
    let limit = limit().unwrap_or_else(|why| {
        eprintln!("note: {why}; until it is mended nothing is removed from the cache");
        u64::MAX
    });
    cache::home().map(|folder| Cache::new(&folder, limit, registry))
}

/// The bytes that the cache may take.
pub(super) fn limit() -> Result<u64, String> {
    match std::env::var_os("OVOLO_CACHE_LIMIT").filter(|text| !text.is_empty()) {
        Some(text) => bytes(&text.to_string_lossy()).map_err(|why| format!("OVOLO_CACHE_LIMIT: {why}")),
        None => Ok(Cache::LIMIT),
    }
}

/// The table of times that a plan may rest on.
pub(super) fn times(registry: &Registry, request: &Request) -> Option<Stored> {
    by_times(&request.pipeline).then(|| {
        let folder = cache::home();
        let machine = request.calibration.unwrap_or(Machine::NOMINAL);
        Tuner::open(folder.as_deref(), request.threads, machine, registry.backends()).stored().clone()
    })
}
