//! Runs programs that use the crate [`ort`](https://ort.pyke.io) with the compiler ovolo in place of ONNX Runtime.
//!
//! [`api`] returns the table of functions that `ort` calls. `ort` takes it if its feature `alternative-backend` is on:
//!
//! ```
//! use ort::session::Session;
//! use ort::value::TensorRef;
//!
//! # fn main() -> ort::Result<()> {
//! ort::set_api(ovolo_ort::api());
//! let environment = ort::init().build()?;
//! let mut builder = Session::builder(&environment)?;
//! # let mut builder = builder.with_config_entry("ovolo.cache", "0")?;
//! let mut session = builder.commit_from_file("../examples/digits/digits.onnx")?;
//! let image = vec![0.0_f32; 64];
//! let outputs = session.run(ort::inputs![TensorRef::from_array_view(([1_usize, 1, 8, 8], &*image))?])?;
//! let (shape, scores) = outputs["scores"].try_extract_tensor::<f32>()?;
//! assert_eq!((&**shape, scores.len()), (&[1, 10][..], 10));
//! # Ok(())
//! # }
//! ```
//!
//! What is supported, what is refused and what a call costs is told in `docs/ORT.md`.

// The functions have the names of the C API, and its documentation tells what callers must keep to.
#![allow(non_snake_case, clippy::missing_safety_doc)]

mod argument;
mod binding;
mod dtype;
mod env;
mod identity;
mod info;
mod log;
mod memory;
mod metadata;
mod model_file;
mod options;
mod path;
mod port;
mod provider;
mod refused;
mod registry;
mod run;
mod run_options;
mod session;
mod session_api;
mod status;
mod tensor;
mod texts;
mod threads;
mod type_info;
mod value;
mod value_api;

use ort_sys::OrtApi;

/// Returns ovolo's functions as the table of ONNX Runtime's C API, for `ort::set_api`.
///
/// A function that is not implemented returns a status that says so.
pub fn api() -> OrtApi {
    let modules = [
        refused::add,
        info::add,
        env::add,
        provider::add,
        options::add,
        session_api::add,
        metadata::add,
        memory::add,
        type_info::add,
        value_api::add,
        run_options::add,
        run::add,
        binding::add,
    ];
    modules.into_iter().fold(ort_sys::stub::api(), |api, add: fn(OrtApi) -> OrtApi| add(api))
}
