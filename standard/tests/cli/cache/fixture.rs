//! A small trained model, compilation requests for it, and its sessions.

pub use super::values::{files, folder, outputs, same};
use crate::common;
use ovolo::cache::{Cache, Key, Origin, Request};
use ovolo::compile::{self, Options};
use ovolo::cost::Machine;
use ovolo::graph::{Graph, text};
use ovolo::onnx::{self, ImportOptions, MissingWeights};
use ovolo::rule::RuleSet;
use ovolo::session::Session;
use std::path::{Path, PathBuf};

/// The model of handwritten digits.
pub fn digits() -> PathBuf {
    common::root().join("examples/digits/digits.onnx")
}

/// The default request.
pub fn request(model: &Path) -> Request {
    Request {
        model: model.to_owned(),
        weights: None,
        dims: [("N".to_owned(), 2)].into(),
        missing_weights: MissingWeights::Refuse,
        pipeline: common::options(1).pipeline,
        rules: common::registry()
            .rules()
            .iter()
            .map(|(name, text)| (name.to_owned(), text.to_string()))
            .collect(),
        threads: 1,
        calibration: None,
        builds: ovolo_cli::BUILDS,
    }
}

pub fn key(request: &Request) -> Key {
    request.key(common::registry()).unwrap()
}

/// Compiles a request.
pub fn build(request: &Request) -> Session {
    let files: Vec<(&str, &str)> = request.rules.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
    let rules = RuleSet::read(common::registry().vocabulary(), &files);
    let rules = rules.unwrap_or_else(|errors| panic!("{errors}"));
    let options = Options {
        threads: request.threads,
        machine: request.calibration.unwrap_or(Machine::NOMINAL),
        ..Options::from_parts(common::registry(), rules, request.pipeline.clone())
    };
    let graph = graph(request);
    let compilation = compile::compile(graph, &options).unwrap_or_else(|error| panic!("{error}"));
    Session::new(&compilation.program, compilation.plan, common::registry().backends()).unwrap()
}

fn graph(request: &Request) -> Graph {
    if request.model.extension().is_some_and(|extension| extension == "ovolo") {
        return text::parse(common::ops(), &std::fs::read_to_string(&request.model).unwrap()).unwrap();
    }
    let options = ImportOptions {
        dims: request.dims.clone(),
        missing_weights: request.missing_weights,
        unroll: request.pipeline.unroll,
    };
    onnx::load(common::registry().onnx(), &request.model, &options).unwrap().graph
}

pub fn origin(request: &Request) -> Origin {
    Origin { model: request.model.display().to_string(), ..Origin::default() }
}

/// Returns a cache that holds the plan of a request.
pub fn filled(folder: &Path, request: &Request) -> (Cache, Session) {
    let cache = Cache::new(folder, Cache::LIMIT, common::registry());
    let session = build(request);
    cache.keep(&key(request), &session, origin(request)).unwrap();
    (cache, session)
}
