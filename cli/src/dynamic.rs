//! Runs models whose shapes are not fixed: sizes are read off the inputs, and regions are compiled as a run comes to
//! them.

use super::Settings;
use super::caching::{Caching, ReadySession, times};
use super::load::{self, Accepted, by_times, options, tuned_and_told};
use super::note::say;
use super::value::Format;
use ovolo::backend::Unkept;
use ovolo::cache::{self, Cache, Digest, Key, Miss, Origin, Request, Specialised};
use ovolo::compile::{self, Compilation};
use ovolo::cost::{Basis, Machine};
use ovolo::dynamic::{Compiled, DynamicSession, Found, RegionReport, RegionRequest};
use ovolo::error::Error;
use ovolo::graph::{Graph, text};
use ovolo::onnx::{self, Dynamic, Item};
use ovolo::pass;
use ovolo::registry::Registry;
use ovolo::session::Session;
use ovolo::tensor::Tensor;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A model that is ready to run.
pub(super) enum Prepared {
    /// All its shapes are fixed. The plan may come from the cache; otherwise it is not stored there yet.
    Fixed(Box<ReadySession>),
    /// It is compiled while it runs.
    Dynamic(Box<DynamicSession<'static>>),
}

/// Makes a model ready to run on inputs. Dimensions without a size get that of the inputs. A model with fixed shapes is only
/// compiled if it is accepted.
pub(super) fn prepare(
    settings: &Settings,
    caching: &Caching,
    registry: &Arc<Registry>,
    given: &BTreeMap<String, Item<Tensor>>,
    accepted: Accepted<'_>,
) -> Result<Prepared, String> {
    let fixed =
        |settings: &Settings| Ok(Prepared::Fixed(Box::new(caching.session(registry, settings, accepted)?)));
    if text::is_named(&settings.model) {
        return fixed(settings);
    }
    let Some(bound) = sized(settings, given)? else {
        return dynamic(settings, caching, registry).map(Prepared::Dynamic);
    };
    fixed(&bound).or_else(|why| {
        if is_dynamic(&bound, registry)? {
            dynamic(settings, caching, registry).map(Prepared::Dynamic)
        } else {
            Err(why)
        }
    })
}

/// Returns the settings with the sizes that inputs give to dimensions without one; `None` if they give a dimension two
/// sizes, or if an input is no tensor.
pub(super) fn sized(
    settings: &Settings,
    given: &BTreeMap<String, Item<Tensor>>,
) -> Result<Option<Settings>, String> {
    let sizes = onnx::sizes(&settings.model, given).map_err(|error| error.to_string())?;
    let Some(sizes) = sizes else { return Ok(None) };
    let mut bound = settings.clone();
    let named = settings.bound()?;
    let free = sizes.into_iter().filter(|(name, _)| !named.contains_key(name));
    bound.dims.extend(free.map(|(name, size)| format!("{name}={size}")));
    Ok(Some(bound))
}

/// Returns whether a model that cannot be compiled as a whole can be compiled while it runs.
pub(super) fn is_dynamic(settings: &Settings, registry: &Arc<Registry>) -> Result<bool, String> {
    if text::is_named(&settings.model) {
        return Ok(false);
    }
    Ok(
        matches!(onnx::load(registry.onnx(), &settings.model, &settings.import(registry)?), Err(error) if error.is_dynamic()),
    )
}

/// Returns the inputs of a run of a model that is compiled while it runs: those in a directory, or zeros of the sizes
/// that the settings give to dimensions.
pub(super) fn directory_or_zeros(
    settings: &Settings,
    session: &DynamicSession<'_>,
    directory: Option<&Path>,
) -> Result<BTreeMap<String, Item<Tensor>>, String> {
    let Some(directory) = directory else {
        return session.model().zeros(&settings.bound()?).map_err(|error| error.to_string());
    };
    let mut given = BTreeMap::new();
    for (name, needed) in session.model().inputs() {
        let file = directory.join(Format::Npy.file_name(name));
        if needed || file.exists() {
            let tensor = ovolo::npy::read(&file).map_err(|error| error.to_string())?;
            given.insert(name.to_owned(), Item::Tensor(tensor));
        }
    }
    Ok(given)
}

/// Returns one line on each region that a run has passed. Iterations that the same plan runs one after the other have
/// one line, with the key of the first.
pub(super) fn region_lines(regions: &[RegionReport]) -> String {
    let again = |one: &RegionReport, next: &RegionReport| {
        let known = |region: &RegionReport| region.found == Found::Known;
        known(one) && known(next) && one.plan == next.plan && one.why == next.why
    };
    let (mut text, mut number) = (String::new(), 1);
    for group in regions.chunk_by(again) {
        let RegionReport { steps, key, found, why, .. } = &group[0];
        let why = why.as_deref().unwrap_or("the end of the model");
        let last = number + group.len() - 1;
        let which =
            if last == number { format!("region {number}") } else { format!("regions {number} to {last}") };
        let _ = writeln!(text, "{which}: {steps} steps, {}; {key}; then: {why}", found_text(*found));
        number = last + 1;
    }
    text
}

/// Says where the plan of a region came from.
pub(super) fn found_text(found: Found) -> String {
    match found {
        Found::Known => "same plan as before".to_owned(),
        Found::Cached(time) => format!("from the cache in {:.1} ms", time.as_secs_f64() * 1e3),
        Found::Compiled(time) => format!("compiled in {:.1} ms", time.as_secs_f64() * 1e3),
        Found::Empty => "nothing to compute".to_owned(),
    }
}

/// Returns the report on a region as JSON.
pub(super) fn region_json(region: &RegionReport) -> serde_json::Value {
    let inputs: Vec<String> = region.key.inputs.iter().map(|(_, ty)| ty.to_string()).collect();
    let names: Vec<&str> = region.key.inputs.iter().map(|(name, _)| name.as_str()).collect();
    let (found, time) = match region.found {
        Found::Known => ("known", None),
        Found::Cached(time) => ("cached", Some(time)),
        Found::Compiled(time) => ("compiled", Some(time)),
        Found::Empty => ("empty", None),
    };
    serde_json::json!({
        "steps": region.steps, "inputs": inputs, "names": names, "asked": region.key.asked, "why": region.why,
        "plan": region.plan.map(|plan| plan.to_string()), "found": found, "seconds": time.map(|time| time.as_secs_f64()),
    })
}

/// The graphs of regions, by the names of their plans, in the order in which they were asked for.
pub(super) type Seen = Arc<Mutex<Vec<(Digest, Graph)>>>;

/// Opens a model that is compiled while it runs. Plans of its regions are kept in the cache.
pub(super) fn dynamic(
    settings: &Settings,
    caching: &Caching,
    registry: &Arc<Registry>,
) -> Result<Box<DynamicSession<'static>>, String> {
    open(settings, caching.cache(registry), registry, None)
}

/// Opens a model that is compiled while it runs. Plans of its regions are kept in a cache, if there is one; their graphs
/// are added to `seen`.
pub(super) fn open(
    settings: &Settings,
    cache: Option<Cache>,
    registry: &Arc<Registry>,
    seen: Option<Seen>,
) -> Result<Box<DynamicSession<'static>>, String> {
    settings.tell_threads()?;
    let request = settings.request(registry, &settings.pipeline)?;
    let model = Dynamic::load(registry.onnx(), &settings.model, settings.missing_weights())
        .map_err(|error| error.to_string())?
        .with_unroll(request.pipeline.unroll);
    let request = Request { dims: BTreeMap::new(), ..request };
    // A model without a key is compiled without the cache.
    let key = cache.as_ref().and_then(|_| request.key(registry).ok());
    let compiler =
        Compiler { registry: Arc::clone(registry), request, cache, key, chosen: OnceLock::new(), seen };
    let session = DynamicSession::new(model, registry, Arc::new(move |region| compiler.run(region)));
    session.map(Box::new).map_err(|error| error.to_string())
}

/// Compiles regions, or reads their plans from the cache.
struct Compiler {
    registry: Arc<Registry>,
    request: Request,
    cache: Option<Cache>,
    /// The key of the model, without that of a region.
    key: Option<Key>,
    /// The options, which are the same for all regions unless tables of times grow meanwhile. With them, the speeds of
    /// the machine if they are needed and kept.
    chosen: OnceLock<(compile::Options, Option<Machine>)>,
    seen: Option<Seen>,
}

impl Compiler {
    fn run(&self, region: &RegionRequest<'_>) -> Result<Compiled, Error> {
        if let Some(seen) = &self.seen {
            let graph = (region.digest, region.graph.clone());
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(graph);
        }
        if let (Some(cache), Some(key)) = (&self.cache, self.key(region)) {
            match cache.find_sharing(&key, times(&self.registry, &self.request).as_ref(), region.store) {
                Ok(session) => return Ok(Compiled { session, cached: true }),
                Err(Miss::Absent) => {}
                Err(miss) => {
                    let entry = key.fingerprint().short();
                    say!("note: the cached plan {entry} cannot be used and is made again: {miss}");
                }
            }
        }
        let (compilation, basis) = self.compile(region)?;
        let (program, plan, store) = (&compilation.program, compilation.plan, region.store);
        let backends = self.registry.backends();
        let session = match &self.cache {
            Some(cache) => {
                Session::sharing(program, plan, backends, &cache::KeptArtifacts::new(cache.folder()), store)?
            }
            None => Session::sharing(program, plan, backends, &Unkept, store)?,
        };
        // The compilation may have measured the speeds of the machine, which belong to the key.
        if let (Some(cache), Some(key)) = (&self.cache, self.key(region)) {
            let inputs = region.key.inputs.iter().map(|(name, ty)| format!("{name} {ty}")).collect();
            let specialised = Specialised { inputs, asked: region.key.asked.clone() };
            let model = self.request.model.display().to_string();
            let origin = Origin { model, machine: self.machine(), basis, region: Some(specialised) };
            if let Err(why) = cache.keep_sharing(&key, &session, origin, store) {
                say!("note: the plan of a region was not stored in the cache: {why}");
            }
        }
        Ok(Compiled { session, cached: false })
    }

    /// Returns the speeds of the machine, if they are needed and kept.
    fn machine(&self) -> Option<Machine> {
        self.chosen.get().map_or(self.request.calibration, |(_, machine)| *machine)
    }

    /// Returns the key of a region.
    fn key(&self, region: &RegionRequest<'_>) -> Option<Key> {
        let request = Request { calibration: self.machine(), ..self.request.clone() };
        let key = self.key.clone()?.with(Request::CALIBRATION, request.speeds());
        let key = key.with("region", region.digest.to_string());
        let weighs = self.request.pipeline.extract().is_some_and(|extract| extract.further_forms > 0.0);
        Some(if weighs { key.with("held", region.held.digest().to_string()) } else { key })
    }

    /// Compiles a region. Also returns the part of the table of times that the plan depends on.
    fn compile(&self, region: &RegionRequest<'_>) -> Result<(Compilation, Option<Basis>), Error> {
        let new = || options(&self.registry, &self.request).map_err(Error::other);
        if by_times(&self.request.pipeline) {
            let (options, _) = new()?;
            let options = compile::Options { held: region.held.clone(), ..options };
            let tuned = tuned_and_told(region.graph, options).map_err(Error::other)?;
            return Ok((tuned.compilation, Some(tuned.basis)));
        }
        let (options, _) = match self.chosen.get() {
            Some(chosen) => chosen,
            None => {
                let made = new()?;
                let absent = pass::absent(&self.request.pipeline, self.registry.backends());
                load::absent(&absent).iter().for_each(|line| say!("{line}"));
                self.chosen.get_or_init(|| made)
            }
        };
        let options = compile::Options { held: region.held.clone(), ..options.clone() };
        Ok((compile::compile(region.graph.clone(), &options)?, None))
    }
}
