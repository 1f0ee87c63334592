//! A short interface from a model's file to its results.
//!
//! A [`Model`] is a graph that was read from a file; compiled with some [`Options`] it is a [`Compilation`], whose
//! plan a [`Session`] runs. The modules that these types come from give access to each single part.

use crate::backend::Backends;
use crate::compile::{self, Compilation, Options};
use crate::error::{Error, Source};
use crate::graph::{Graph, text};
use crate::onnx::{self, ImportOptions};
use crate::pass::pipeline::Pipeline;
use crate::registry::Registry;
use crate::session::Session;
use std::path::Path;
use std::sync::Arc;

/// A model, as a graph of logical ops.
#[derive(Clone, Debug)]
pub struct Model {
    /// The graph, in which all values are on the host in the default layout.
    pub graph: Graph,
}

impl Model {
    /// Reads a model from a file: the text of a graph if [`text::is_named`] says so of its name, ONNX otherwise.
    /// ONNX operators become ops of the registry; the options must give a size for every symbolic dimension.
    ///
    /// # Errors
    /// [`Error::Onnx`], [`Error::Graph`] or [`Error::File`].
    pub fn load(registry: &Registry, file: impl AsRef<Path>, options: &ImportOptions) -> Result<Self, Error> {
        let file = file.as_ref();
        let graph = if text::is_named(file) {
            let text = std::fs::read_to_string(file).map_err(Error::io(file))?;
            let source = Source::new(file.display().to_string(), text);
            text::parse_source(registry.ops(), &source, &text::Constants::none()).map_err(Error::Graph)?
        } else {
            onnx::load(registry.onnx(), file, options)?.graph
        };
        Ok(Self { graph })
    }

    /// Compiles the model.
    ///
    /// # Errors
    /// If the graph does not verify or a pass of the pipeline fails.
    pub fn compile(&self, options: &Options) -> Result<Compilation, Error> {
        compile::compile(self.graph.clone(), options)
    }
}

impl Options {
    /// Makes options from a pipeline of the registry, by its name, with all rules of the registry, one thread and
    /// the speeds of a nominal machine. So every machine with the same instruction sets gets the same plan.
    ///
    /// # Errors
    /// [`Error::Unknown`] if the registry has no such pipeline; [`Error::Pipeline`] or [`Error::Rules`] if a text
    /// that was added to it has mistakes.
    pub fn new(registry: &Arc<Registry>, pipeline: &str) -> Result<Self, Error> {
        let (name, text) = registry.pipeline(pipeline).ok_or_else(|| registry.no_pipeline(pipeline))?;
        let rules = registry.rule_set().map_err(Error::Rules)?;
        let pipeline = Pipeline::read(&registry.scope(), name, text).map_err(Error::Pipeline)?;
        Ok(Self::from_parts(registry, rules, pipeline))
    }

    /// Sets the number of threads that the plan runs with.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }
}

impl Compilation {
    /// Loads the plan: makes its kernels, computes what depends on constants alone, and allocates its memory.
    ///
    /// # Errors
    /// [`Error::Session`] if a backend refuses a kernel, or the memory cannot be allocated.
    pub fn session(&self, backends: &Backends) -> Result<Session, Error> {
        Ok(Session::new(&self.program, self.plan.clone(), backends)?)
    }
}
