//! Runs the crate `ort` on ovolo.
#![allow(clippy::unwrap_used)]

mod binding;
mod element;
mod errors;
mod model;
mod options;
mod raw;
#[cfg(target_os = "linux")]
mod release;
mod run;
mod sequence;
mod session;
mod threads;

#[path = "../../../tests/common/onnx.rs"]
mod onnx;

use ort::environment::Environment;
use ort::session::Session;
use ort::session::builder::SessionBuilder;
use std::sync::OnceLock;

/// The environment, of which a process has one.
fn environment() -> &'static Environment {
    static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        assert!(ort::set_api(ovolo_ort::api()));
        ort::init().with_name("test").build().unwrap()
    })
}

/// A builder of sessions whose plans are those of every machine, and are not cached.
fn builder() -> SessionBuilder {
    let builder = Session::builder(environment()).unwrap().with_intra_threads(1).unwrap();
    let builder = builder.with_config_entry("ovolo.cache", "0").unwrap();
    builder.with_config_entry("ovolo.pipeline", "native").unwrap()
}

/// Opens a model in memory.
fn open(model: &ovolo::onnx::proto::ModelProto) -> Session {
    builder().commit_from_memory(&prost::Message::encode_to_vec(model)).unwrap()
}

/// The digits of the repository: a batch of `N` images, and their scores.
const DIGITS: &str = "../examples/digits/digits.onnx";
