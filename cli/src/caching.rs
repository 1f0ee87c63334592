//! Takes sessions and plans from the cache, or compiles them and stores them in it.

use super::Settings;
use super::amount::bytes;
use super::load::{Built, absent, by_times, measure_again};
use super::note::say;
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

#[derive(Args, Clone, Copy, Debug, Default)]
pub(super) struct Caching {
    /// Compile without reading or changing the cache.
    #[arg(long)]
    pub(super) no_cache: bool,
}

/// A result that the cache can provide: a session to run, or a plan to look at, which needs no device.
pub(super) trait Cacheable: Sized {
    fn find(cache: &Cache, key: &Key, times: Option<&Stored>) -> Result<Self, Miss>;
    /// Makes it from a compilation. Machine code for a device is stored in the cache, if there is one.
    fn make(built: &Built, registry: &Registry, cache: Option<&Cache>) -> Result<Self, String>;
    fn keep(&self, cache: &Cache, key: &Key, built: &Built, origin: Origin) -> Result<(), Error>;
}

impl Cacheable for Session {
    fn find(cache: &Cache, key: &Key, times: Option<&Stored>) -> Result<Self, Miss> {
        cache.find(key, times)
    }

    fn make(built: &Built, registry: &Registry, cache: Option<&Cache>) -> Result<Self, String> {
        let Compilation { program, plan, .. } = &built.compilation;
        match cache {
            Some(cache) => Self::with(
                program,
                plan.clone(),
                registry.backends(),
                &cache::KeptArtifacts::new(cache.folder()),
            ),
            None => Self::new(program, plan.clone(), registry.backends()),
        }
        .map_err(|error| error.to_string())
    }

    fn keep(&self, cache: &Cache, key: &Key, _: &Built, origin: Origin) -> Result<(), Error> {
        cache.keep(key, self, origin)
    }
}

impl Cacheable for Plan {
    fn find(cache: &Cache, key: &Key, times: Option<&Stored>) -> Result<Self, Miss> {
        cache.find_plan(key, times)
    }

    fn make(built: &Built, _: &Registry, _: Option<&Cache>) -> Result<Self, String> {
        Ok(built.compilation.plan.clone())
    }

    fn keep(&self, cache: &Cache, key: &Key, built: &Built, origin: Origin) -> Result<(), Error> {
        let constants = Session::constants_of(&built.compilation.program, self);
        cache.keep_plan(key, self, &session::in_order(&constants), origin)
    }
}

/// A session or plan, and where it came from.
pub(super) struct Ready<T = Session> {
    pub(super) made: T,
    /// Whether it came from the cache.
    pub(super) cached: bool,
    /// Backends that are absent, each with the reason.
    pub(super) absent: Vec<(String, String)>,
    /// The compilation, unless it came from the cache.
    pub(super) compilation: Option<Compilation>,
    /// The name of the cache entry, or why there is none.
    pub(super) entry: Result<String, String>,
}

impl Caching {
    /// Whether the cache is not used.
    pub(super) fn off(&self) -> bool {
        self.no_cache
    }

    /// The cache, unless it is not used or there is no folder for it.
    pub(super) fn cache(&self, registry: &Arc<Registry>) -> Option<Cache> {
        if self.no_cache { None } else { cache(registry) }
    }

    /// Returns the session of a model, and reports absent backends.
    pub(super) fn session(&self, registry: &Arc<Registry>, settings: &Settings) -> Result<Ready, String> {
        settings.tell_threads()?;
        let ready = self.ready::<Session>(registry, settings)?;
        for line in absent(&ready.absent) {
            say!("{line}");
        }
        for line in ready.made.notes() {
            say!("note: {line}");
        }
        Ok(ready)
    }

    /// Returns the session of a model, or its plan.
    pub(super) fn ready<T: Cacheable>(
        &self,
        registry: &Arc<Registry>,
        settings: &Settings,
    ) -> Result<Ready<T>, String> {
        let request = settings.request(registry, &settings.pipeline)?;
        let absent = pass::absent(&request.pipeline, registry.backends());
        let cache = self.cache(registry);
        // If a model has no key, compilation reports the reason.
        let why = if self.no_cache { "`--no-cache` was given" } else { "there is no folder for it" };
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
                    say!(
                        "note: the plan was chosen by speeds that were measured on a busy machine: {}",
                        measure_again(request.threads)
                    );
                }
                let entry = Ok(key.fingerprint().short());
                return Ok(Ready { made, cached: true, absent, compilation: None, entry });
            }
            Err(Miss::Absent) => {}
            Err(miss) => {
                say!(
                    "note: the cached plan {} cannot be used and is made again: {miss}",
                    key.fingerprint().short()
                )
            }
        }
        let built = settings.build(registry, &request)?;
        let made = T::make(&built, registry, Some(&cache))?;
        let entry =
            keep(&cache, registry, &key, &request, &built, &made).map(|key| key.fingerprint().short());
        if let Err(why) = &entry {
            say!("note: the plan was not stored in the cache: {why}");
        }
        Ok(Ready { made, cached: false, absent, compilation: Some(built.compilation), entry })
    }
}

/// Stores a result under its key, unless the model has changed, and returns the key.
fn keep(
    cache: &Cache,
    registry: &Registry,
    asked: &Key,
    request: &Request,
    built: &Built,
    made: &impl Cacheable,
) -> Result<Key, String> {
    let (key, origin) = settled(registry, asked, request, built)?;
    made.keep(cache, &key, built, origin).map_err(|error| error.to_string())?;
    Ok(key)
}

/// Returns the key of a compilation and what is stored beside it; an error if the model has changed.
pub(super) fn settled(
    registry: &Registry,
    asked: &Key,
    request: &Request,
    built: &Built,
) -> Result<(Key, Origin), String> {
    // The compilation may have measured the calibration, so it may differ from the request's. If the model
    // was overwritten meanwhile, it has another key, and the plan may belong to either version.
    let request = Request { calibration: built.machine, ..request.clone() };
    let key = request.key(registry).map_err(|error| error.to_string())?;
    let calibration = key.get("calibration").unwrap_or_default();
    if key != asked.clone().with("calibration", calibration) {
        return Err("the model changed while it was compiled".to_owned());
    }
    let model = request.model.display().to_string();
    Ok((key, Origin { model, machine: built.machine, basis: built.basis.clone(), region: None }))
}

/// Returns the cache, if there is a folder for it. If the limit cannot be parsed, a note says so and nothing
/// is removed, because the user may have wanted more than the default.
pub(super) fn cache(registry: &Arc<Registry>) -> Option<Cache> {
    let limit = limit().unwrap_or_else(|why| {
        say!("note: {why}; nothing is removed from the cache until this is corrected");
        u64::MAX
    });
    cache::home().map(|folder| Cache::new(&folder, limit, registry))
}

/// The limit of the cache in bytes.
pub(super) fn limit() -> Result<u64, String> {
    match std::env::var_os("OVOLO_CACHE_LIMIT").filter(|text| !text.is_empty()) {
        Some(text) => bytes(&text.to_string_lossy()).map_err(|why| format!("OVOLO_CACHE_LIMIT: {why}")),
        None => Ok(Cache::LIMIT),
    }
}

/// The table of times, if plans of the pipeline depend on it.
pub(super) fn times(registry: &Registry, request: &Request) -> Option<Stored> {
    by_times(&request.pipeline).then(|| {
        let folder = cache::home();
        let machine = request.calibration.unwrap_or(Machine::NOMINAL);
        Tuner::open(folder.as_deref(), request.threads, machine, registry.backends()).stored().clone()
    })
}
