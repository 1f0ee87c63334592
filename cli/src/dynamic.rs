//! Runs models whose shapes are not fixed: sizes are read off the inputs, and regions are compiled as a run comes to
//! them.

use super::Settings;
use super::caching::{Caching, Ready, times};
use super::load::{self, by_times, options, tuned};
use super::value::Format;
use ovolo::cache::{self, Key, Origin, Request};
use ovolo::compile;
use ovolo::dynamic::{DynamicSession, RegionReport, Request as RegionRequest};
use ovolo::error::Error;
use ovolo::graph::text;
use ovolo::onnx::{self, Dynamic, ImportOptions, Item};
use ovolo::registry::Registry;
use ovolo::session::Session;
use ovolo::tensor::Tensor;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A model that is ready to run.
pub(super) enum Prepared {
    /// All its shapes are fixed. The plan may come from the cache.
    Fixed(Box<Ready<Session>>),
    /// It is compiled while it runs.
    Dynamic(Box<DynamicSession<'static>>),
}

/// Makes a model ready to run on inputs. Dimensions without a size get that of the inputs.
pub(super) fn prepare(
    settings: &Settings,
    caching: &Caching,
    registry: &Arc<Registry>,
    given: &BTreeMap<String, Item<Tensor>>,
) -> Result<Prepared, String> {
    let fixed = |settings: &Settings| Ok(Prepared::Fixed(Box::new(caching.session(registry, settings)?)));
    if text::is_named(&settings.model) {
        return fixed(settings);
    }
    let sizes = onnx::sizes(&settings.model, given).map_err(|error| error.to_string())?;
    let Some(sizes) = sizes else { return dynamic(settings, caching, registry).map(Prepared::Dynamic) };
    let mut bound = settings.clone();
    let named = settings.bound()?;
    let free = sizes.into_iter().filter(|(name, _)| !named.contains_key(name));
    bound.dims.extend(free.map(|(name, size)| format!("{name}={size}")));
    fixed(&bound).or_else(|why| {
        if is_dynamic(&bound, registry)? {
            dynamic(settings, caching, registry).map(Prepared::Dynamic)
        } else {
            Err(why)
        }
    })
}

/// Returns whether a model that cannot be compiled as a whole can be compiled while it runs.
pub(super) fn is_dynamic(settings: &Settings, registry: &Arc<Registry>) -> Result<bool, String> {
    if text::is_named(&settings.model) {
        return Ok(false);
    }
    let options = ImportOptions { dims: settings.bound()?, missing_weights: settings.missing_weights() };
    Ok(matches!(onnx::load(registry.onnx(), &settings.model, &options), Err(error) if error.is_dynamic()))
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

/// Returns one line on a region that a run has passed.
pub(super) fn region_line(number: usize, region: &RegionReport) -> String {
    let RegionReport { steps, inputs, asked, why } = region;
    let list = |types: Vec<String>| if types.is_empty() { "none".to_owned() } else { types.join(", ") };
    let inputs = list(inputs.iter().map(ToString::to_string).collect());
    let asked = if asked.is_empty() {
        String::new()
    } else {
        format!(", for these elements of {}", asked.join(", "))
    };
    let why = why.as_ref().map_or_else(|| "the end of the model".to_owned(), Clone::clone);
    format!("region {number}: {steps} steps, inputs {inputs}{asked}; then: {why}\n")
}

/// Opens a model that is compiled while it runs. Plans of its regions are kept in the cache.
pub(super) fn dynamic(
    settings: &Settings,
    caching: &Caching,
    registry: &Arc<Registry>,
) -> Result<Box<DynamicSession<'static>>, String> {
    let model = Dynamic::load(registry.onnx(), &settings.model, settings.missing_weights())
        .map_err(|error| error.to_string())?;
    let request = settings.request(registry, &settings.pipeline)?;
    let request = Request { dims: BTreeMap::new(), ..request };
    let cache = caching.cache(registry);
    let key = cache.as_ref().and_then(|_| request.key(registry).ok());
    let kept = cache.zip(key);
    let owner = Arc::clone(registry);
    let compile = move |region: &RegionRequest<'_>| {
        let key =
            kept.as_ref().map(|(cache, key)| (cache, key.clone().with("region", region.digest.to_string())));
        if let Some((cache, key)) = &key
            && let Ok(session) = cache.find(key, times(&owner, &request).as_ref())
        {
            return Ok(session);
        }
        let session = build(region, &request, &owner, key.as_ref().map(|(cache, _)| *cache))?;
        if let Some((cache, key)) = key {
            keep(cache, &key, &request, &session.0, session.1);
        }
        Ok(session.0)
    };
    Ok(Box::new(DynamicSession::new(model, registry, Box::new(compile))))
}

/// Compiles a region. Returns its session, and the part of the table of times that its plan depends on.
fn build(
    region: &RegionRequest<'_>,
    request: &Request,
    registry: &Arc<Registry>,
    cache: Option<&cache::Cache>,
) -> Result<(Session, Option<ovolo::cost::Basis>), Error> {
    let (options, _) = options(registry, request).map_err(Error::setting)?;
    let (compilation, basis) = if by_times(&options.pipeline) {
        let tuned = tuned(region.graph, options, |_| {}).map_err(Error::setting)?;
        (tuned.compilation, Some(tuned.basis))
    } else {
        (compile::compile(region.graph.clone(), &options)?, None)
    };
    for line in load::absent(&compilation.absent) {
        eprintln!("{line}");
    }
    let (program, plan) = (&compilation.program, compilation.plan.clone());
    let session = match cache {
        Some(cache) => Session::with(program, plan, registry.backends(), &cache::Kept::new(cache.folder()))?,
        None => Session::new(program, plan, registry.backends())?,
    };
    Ok((session, basis))
}

fn keep(
    cache: &cache::Cache,
    key: &Key,
    request: &Request,
    session: &Session,
    basis: Option<ovolo::cost::Basis>,
) {
    let origin = Origin { model: request.model.display().to_string(), machine: request.calibration, basis };
    if let Err(why) = cache.keep(key, session, origin) {
        eprintln!("note: the plan of a region was not stored in the cache: {why}");
    }
}
