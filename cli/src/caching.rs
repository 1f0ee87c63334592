//! Takes sessions and plans from the cache, or compiles them and stores them in it.

use super::Settings;
use super::amount::bytes;
use super::load::{Accepted, Built, Prices, any, by_times, measure_again};
use super::note::say;
use clap::Args;
use ovolo::cache::{self, Cache, Key, Miss, Origin, Request};
use ovolo::compile::Compilation;
use ovolo::cost::Machine;
use ovolo::cost::Stored;
use ovolo::graph::NodeId;
use ovolo::pass;
use ovolo::plan::Plan;
use ovolo::registry::Registry;
use ovolo::session::{self, Session};
use ovolo::tensor::Tensor;
use ovolo_tune::Tuner;
use std::sync::Arc;

#[derive(Args, Clone, Copy, Debug, Default)]
pub(super) struct Caching {
    /// Compile without reading or changing the cache.
    #[arg(long)]
    pub(super) no_cache: bool,
}

/// A result that the cache can provide: a session to run, or a plan to look at, which needs no device.
trait Cacheable: Sized {
    fn find(cache: &Cache, key: &Key, times: Option<&Stored>) -> Result<Self, Miss>;
    /// Makes it from a compilation. Machine code for a device is stored in the cache, if there is one.
    fn make(compilation: &Compilation, registry: &Registry, cache: Option<&Cache>) -> Result<Self, String>;
}

impl Cacheable for Session {
    fn find(cache: &Cache, key: &Key, times: Option<&Stored>) -> Result<Self, Miss> {
        cache.find(key, times)
    }

    fn make(compilation: &Compilation, registry: &Registry, cache: Option<&Cache>) -> Result<Self, String> {
        let Compilation { program, plan, .. } = compilation;
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
}

impl Cacheable for Plan {
    fn find(cache: &Cache, key: &Key, times: Option<&Stored>) -> Result<Self, Miss> {
        cache.find_plan(key, times)
    }

    fn make(compilation: &Compilation, _: &Registry, _: Option<&Cache>) -> Result<Self, String> {
        Ok(compilation.plan.clone())
    }
}

/// A plan, and where it came from.
pub(super) struct ReadyPlan {
    pub(super) plan: Plan,
    /// Whether it came from the cache.
    pub(super) cached: bool,
    /// Backends that are absent, each with the reason.
    pub(super) absent: Vec<(String, String)>,
    /// The compilation, unless it came from the cache.
    pub(super) compilation: Option<Compilation>,
    /// The name of the cache entry, or why there is none.
    pub(super) entry: Result<String, String>,
}

/// A session that is ready to run.
pub(super) struct ReadySession {
    pub(super) session: Session,
    /// Whether it came from the cache.
    pub(super) cached: bool,
    /// What stores it in the cache, if it is to be stored.
    pub(super) unkept: Option<Unkept>,
}

impl ReadySession {
    /// Stores a new session in the cache, and returns it.
    pub(super) fn kept(self, registry: &Registry) -> Session {
        if let Some(unkept) = self.unkept {
            unkept.keep(registry, &self.session);
        }
        self.session
    }
}

/// A new plan's place in the cache.
struct Place {
    cache: Cache,
    /// The key by which the plan was sought.
    asked: Key,
    request: Request,
}

impl Place {
    /// Stores a plan with its constants, unless the model has changed, and returns the name of the entry.
    fn keep(
        &self,
        registry: &Registry,
        prices: &Prices,
        plan: &Plan,
        constants: &[(NodeId, &Tensor)],
    ) -> Result<String, String> {
        let (key, origin) = settled(registry, &self.asked, &self.request, prices)?;
        self.cache.keep_plan(&key, plan, constants, origin).map_err(|error| error.to_string())?;
        Ok(key.fingerprint().short())
    }
}

/// What stores the plan and the constants of a session in the cache. For a large network this takes as long as many runs,
/// so a command may report the results of the session before.
pub(super) struct Unkept {
    place: Box<Place>,
    prices: Prices,
}

impl Unkept {
    /// Stores the session, or says why that is not possible.
    pub(super) fn keep(&self, registry: &Registry, session: &Session) {
        let kept = self.place.keep(registry, &self.prices, session.plan(), &session.constants());
        if let Err(why) = kept {
            tell_not_stored(&why);
        }
    }
}

fn tell_not_stored(why: &str) {
    say!("note: the plan was not stored in the cache: {why}");
}

/// A result of [`Caching::find`].
struct Found<T> {
    made: T,
    /// Backends that are absent, each with the reason.
    absent: Vec<(String, String)>,
    source: Source,
}

/// Where a result came from.
enum Source {
    /// The cache entry of this name.
    Cache(String),
    /// A compilation. It is to be stored in a place in the cache, or cannot be for a reason.
    Compilation(Box<Built>, Result<Box<Place>, String>),
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

    /// Returns the session of a model, and reports absent backends. A new one is not stored in the cache yet; it is only
    /// made if the imported model is accepted.
    pub(super) fn session(
        &self,
        registry: &Arc<Registry>,
        settings: &Settings,
        accepted: Accepted<'_>,
    ) -> Result<ReadySession, String> {
        settings.tell_threads()?;
        let Found { made: session, absent, source } = self.find::<Session>(registry, settings, accepted)?;
        for line in super::load::absent(&absent) {
            say!("{line}");
        }
        for line in session.notes() {
            say!("note: {line}");
        }
        let (cached, unkept) = match source {
            Source::Cache(_) => (true, None),
            Source::Compilation(built, Ok(place)) => (false, Some(Unkept { place, prices: built.prices })),
            Source::Compilation(_, Err(_)) => (false, None),
        };
        Ok(ReadySession { session, cached, unkept })
    }

    /// Returns the plan of a model, and stores a new one in the cache.
    pub(super) fn plan(&self, registry: &Arc<Registry>, settings: &Settings) -> Result<ReadyPlan, String> {
        let Found { made: plan, absent, source } = self.find::<Plan>(registry, settings, &any)?;
        let (built, place) = match source {
            Source::Cache(entry) => {
                return Ok(ReadyPlan { plan, cached: true, absent, compilation: None, entry: Ok(entry) });
            }
            Source::Compilation(built, place) => (*built, place),
        };
        let Built { compilation, prices } = built;
        let entry = place.and_then(|place| {
            let constants = Session::constants_of(&compilation.program, &plan);
            place
                .keep(registry, &prices, &plan, &session::in_order(&constants))
                .inspect_err(|why| tell_not_stored(why))
        });
        Ok(ReadyPlan { plan, cached: false, absent, compilation: Some(compilation), entry })
    }

    /// Takes a session or a plan from the cache, or compiles it if the imported model is accepted.
    fn find<T: Cacheable>(
        &self,
        registry: &Arc<Registry>,
        settings: &Settings,
        accepted: Accepted<'_>,
    ) -> Result<Found<T>, String> {
        let request = settings.request(registry, &settings.pipeline)?;
        let absent = pass::absent(&request.pipeline, registry.backends());
        let cache = self.cache(registry);
        let compile = |place: Result<Box<Place>, String>, request: &Request| {
            let built = settings.build(registry, request, accepted)?;
            let made = T::make(&built.compilation, registry, cache.as_ref())?;
            Ok::<_, String>((made, Source::Compilation(Box::new(built), place)))
        };
        // If a model has no key, compilation reports the reason.
        let why = if self.no_cache { "`--no-cache` was given" } else { "there is no folder for it" };
        let keyed = cache.clone().ok_or_else(|| why.to_owned());
        let keyed =
            keyed.and_then(|cache| Ok((cache, request.key(registry).map_err(|error| error.to_string())?)));
        let (cache, key) = match keyed {
            Ok(keyed) => keyed,
            Err(why) => {
                let (made, source) = compile(Err(why), &request)?;
                return Ok(Found { made, absent, source });
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
                let source = Source::Cache(key.fingerprint().short());
                return Ok(Found { made, absent, source });
            }
            Err(Miss::Absent) => {}
            Err(miss) => {
                say!(
                    "note: the cached plan {} cannot be used and is made again: {miss}",
                    key.fingerprint().short()
                )
            }
        }
        let place = Box::new(Place { cache, asked: key, request: request.clone() });
        let (made, source) = compile(Ok(place), &request)?;
        Ok(Found { made, absent, source })
    }
}

/// Returns the key of a compilation and what is stored beside it; an error if the model has changed.
pub(super) fn settled(
    registry: &Registry,
    asked: &Key,
    request: &Request,
    prices: &Prices,
) -> Result<(Key, Origin), String> {
    // The compilation may have measured the calibration, so it may differ from the request's. If the model
    // was overwritten meanwhile, it has another key, and the plan may belong to either version.
    let request = Request { calibration: prices.machine, ..request.clone() };
    let key = request.key(registry).map_err(|error| error.to_string())?;
    let calibration = key.get("calibration").unwrap_or_default();
    if key != asked.clone().with("calibration", calibration) {
        return Err("the model changed while it was compiled".to_owned());
    }
    let model = request.model.display().to_string();
    Ok((key, Origin { model, machine: prices.machine, basis: prices.basis.clone(), region: None }))
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
