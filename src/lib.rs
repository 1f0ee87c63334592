//! Ovolo compiles and runs neural networks. Rules in text files say which kernels can run, in which layouts and on
//! which backend, and what can be fused; a cost model prices these candidates, and one extraction chooses among
//! them.
//!
//! An ONNX model becomes a [`graph::Graph`]; rules ([`rule`]) grow an e-graph ([`egraph`]) in which all fusions,
//! layouts, algorithms, backends and conversions are candidates at the same time; one extraction ([`mod@extract`])
//! chooses among them by the prices of a cost model ([`cost`]); memory is planned ([`memory`], [`plan`]) for
//! exactly the kernels that were chosen ([`backend`]), and the plan runs ([`session`]). Each stage of a compilation
//! is a type ([`stage`]), whose methods answer questions about it.
//!
//! # Use it as a library
//! What a program needs to compile and run a model is at the root of the crate: a [`Registry`] with backends, a
//! [`Model`], [`Options`], and a [`Session`].
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use ovolo::{ImportOptions, Model, Options, Registry};
//! let mut registry = Registry::new();
//! ovolo_native::register(&mut registry)?;
//! let registry = std::sync::Arc::new(registry);
//! let import = ImportOptions::default().with_dim("N", 360);
//! let model = Model::load(&registry, "examples/digits/digits.onnx", &import)?;
//! let compiled = model.compile(&Options::new(&registry, "native")?)?;
//! print!("{}", compiled.plan);
//! let mut session = compiled.session(registry.backends())?;
//! let images = ovolo::npy::read("examples/digits/images.npy")?;
//! println!("{:?}", session.run(&[&images])?[0].to_f64());
//! # Ok(())
//! # }
//! ```
//!
//! The modules have what you need to write your own ops, kernels, backends, guards, passes, cost models, extractors
//! and importers of ONNX operators; `examples/extend` has one of each.
//!
//! # The floors
//! A file uses only its own floor and lower ones; a test checks this. Floors 0 to 6 are pure: they compute values
//! from values, and use no file, clock, environment variable or terminal.
//!
//! | floor | modules |
//! |---|---|
//! | 0 | `diagnostic`, `random`, [`mod@ron`], [`scalar`], [`setting`], `table`, [`team`], [`tensor`] |
//! | 1 | [`attr`], [`value`] |
//! | 2 | [`graph`], [`op`], [`verify`] |
//! | 3 | [`rule`] |
//! | 4 | [`cost`], [`mod@extract`] |
//! | 5 | [`egraph`] |
//! | 6 | [`memory`], [`plan`] |
//! | 7 | [`backend`], `digest`, [`mod@file`], [`host`] |
//! | 8 | [`error`], `model`, [`stage`], [`pass`], [`mod@compile`], [`registry`], [`session`], [`dynamic`], [`cache`], [`onnx`], [`npy`], [`subprocess`] |
//!
//! # Invariants
//! - Every choice of kernels, layouts, backends and fusions comes from the e-graph: no pass rewrites the graph before
//!   or after it, and what was chosen is what runs. `docs/DECISIONS.md` names what is decided elsewhere (import, order
//!   of execution, places in memory, variants inside of kernels), each with the command that shows it.
//! - A logical op has no price, and nothing runs it. The name of a lowered op begins with that of its backend.
//! - Padding in a blocked layout holds zero, in every value and after every kernel.
//! - A plan from the [`cache`] was checked to the last bit, and is the one that would be compiled now. If it is
//!   not, the model is compiled.
//! - The same input gives the same plan, byte for byte, however many threads compile.
pub mod attr;
pub mod backend;
pub mod cache;
pub mod compile;
pub mod cost;
mod diagnostic;
mod digest;
pub mod dynamic;
pub mod egraph;
pub mod error;
pub mod extract;
pub mod file;
pub mod graph;
pub mod host;
pub mod memory;
mod model;
pub mod npy;
pub mod onnx;
pub mod op;
pub mod pass;
pub mod plan;
mod random;
pub mod registry;
pub mod ron;
pub mod rule;
pub mod scalar;
pub mod session;
pub mod setting;
pub mod stage;
pub mod subprocess;
mod table;
pub mod tensor;
pub mod value;
pub mod verify;

pub use ovolo_team as team;

pub use crate::compile::{Compilation, Options};
pub use crate::error::{Diagnostics, Error, Result};
pub use crate::graph::Graph;
pub use crate::model::Model;
pub use crate::onnx::{ImportOptions, MissingWeights};
pub use crate::pass::pipeline::Pipeline;
pub use crate::plan::Plan;
pub use crate::registry::{Registry, RegistryError};
pub use crate::rule::RuleSet;
pub use crate::session::{Session, SessionError};
pub use crate::team::Team;
pub use crate::tensor::{DType, Shape, Tensor, TensorType};
pub use crate::value::{Value, ValueType};

/// Identifies this build of the crate: a digest of its sources and of the compiler's settings.
pub(crate) const BUILD: &str = env!("OVOLO_BUILD");
