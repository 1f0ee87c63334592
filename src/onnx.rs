//! ONNX import: a model file becomes a [`Graph`] of ops.
//!
//! Takes opsets 1 to 28 of ONNX's own operators. Every shape is fixed while importing: symbolic dimensions are
//! bound by name, and everything that depends only on shapes and small constants is computed at once, so that the
//! graph holds only the work of a run. A model whose shapes depend on its inputs is a [`Dynamic`], which is imported
//! one [`Region`] at a time while it runs.
//!
//! Values keep the model's names; a node that an operator needs beside its result is named after the result
//! (`conv1.bias`). What ovolo cannot do is refused with an [`OnnxError`], never skipped: unknown operators, unknown
//! attributes, values that are not constant where a shape depends on them. One message has all reasons. Only nodes
//! that read the result of a refused node cannot be checked if the model does not declare that result's type; the
//! message has their number.
//!
//! ```no_run
//! let options = ovolo::onnx::ImportOptions::default();
//! let registry = ovolo::registry::Registry::new();
//! let imported = ovolo::onnx::load(registry.onnx(), "model.onnx", &options)?;
//! for (_, input) in imported.graph.inputs() {
//!     println!("{} {}", input.name, input.ty);
//! }
//! # Ok::<(), ovolo::onnx::OnnxError>(())
//! ```

mod builder;
mod call;
mod document;
mod element;
mod error;
mod external;
mod function;
mod importer;
mod initializer;
mod input;
mod item;
mod node;
mod operator;
#[doc(hidden)]
pub mod proto;
mod region;
mod signature;
mod sparse;
mod stand_in;
mod structure;
mod survey;
mod value;
mod walk;
pub(crate) mod weight;

pub use builder::ImportedValue;
pub use call::Call;
pub(crate) use element::checked_type;
pub use error::Unsupported;
pub use error::{OnnxError, Refusal};
pub use external::{external, sizes, symbols};
pub use input::{check_inputs, check_types};
pub use item::Item;
pub(crate) use operator::function::{operators as functions, taken};
pub use operator::{Operator, Results};
pub(crate) use operator::{Operators, operators};
pub(crate) use region::Position;
pub use region::{Dynamic, LiveFrom, Region, Then};
pub use survey::{Remark, Survey, survey};
pub use value::{Interface, Size, decode_value, encode_value};

use crate::graph::Graph;
use crate::op::Ops;
use memmap2::Mmap;
use prost::Message;
use prost::bytes::Bytes;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The oldest opset that is imported.
pub(crate) const OLDEST_OPSET: i64 = 1;
/// The newest opset whose operators are known.
pub const NEWEST_OPSET: i64 = 28;
/// The newest version of the file format that is known.
pub(crate) const NEWEST_IR: i64 = 14;

/// The tables that models are imported by.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a> {
    /// The ops of which importers make nodes.
    pub ops: &'a Ops,
    /// The importers of operators.
    pub operators: &'a Operators,
}

impl Tables<'_> {
    /// Returns the names of operators with graphs inside, on sequences and on maps, each with its domain if it is not
    /// ONNX's own. They are carried out while a model is imported, and have no entry in the table of operators.
    pub fn structural() -> impl Iterator<Item = &'static str> {
        walk::structural()
    }
}

/// The most nodes that the iterations of a loop may have together to become part of the graph around it, unless a
/// pipeline says another number.
pub const UNROLL: usize = 512;

/// The options of an import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Sizes of symbolic dimensions, by name. A dimension without a name is called after its
    /// input and axis: `x.0`.
    pub dims: BTreeMap<String, usize>,
    /// What to do with initializers whose values were stripped from the file.
    pub missing_weights: MissingWeights,
    /// The most nodes that the iterations of a loop may have together. A model with a longer loop is compiled while it
    /// runs, by a [`DynamicSession`](crate::dynamic::DynamicSession).
    pub unroll: usize,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self { dims: BTreeMap::new(), missing_weights: MissingWeights::default(), unroll: UNROLL }
    }
}

impl ImportOptions {
    /// Sets the size of a symbolic dimension.
    #[must_use]
    pub fn with_dim(mut self, name: &str, size: usize) -> Self {
        self.dims.insert(name.to_owned(), size);
        self
    }
}

/// What to do with an initializer without data whose note says `normal MEAN STD`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingWeights {
    /// The model is refused.
    #[default]
    Refuse,
    /// The values are generated: normal, with that mean and deviation, seeded by the name.
    Seeded,
}

/// A model that was imported.
#[derive(Clone, Debug)]
pub struct ImportedModel {
    /// The graph, in which all values are on the host in the default layout.
    pub graph: Graph,
    /// The version of ONNX's own operators that the model imports.
    pub opset: i64,
    /// The program that wrote the model, with its version; may be empty.
    pub producer: String,
    /// Initializers whose values were generated.
    pub seeded: Vec<String>,
    /// Warnings, one line each: what is unusual about the model but does not prevent the import.
    pub notes: Vec<String>,
}

/// Imports a model from a file. The file stays mapped as long as the graph has weights from it, since large ones
/// are read only when they are used.
///
/// # Errors
/// See [`OnnxError`].
pub fn load(
    tables: Tables<'_>,
    path: impl AsRef<Path>,
    options: &ImportOptions,
) -> Result<ImportedModel, OnnxError> {
    let path = path.as_ref();
    let (proto, folder, map) = read(path)?;
    importer::import(tables, proto, &path.display().to_string(), folder, map, options)
}

/// A decoded model, the folder of its file, and the mapped file, if the model comes from one.
type Decoded = (proto::ModelProto, Option<PathBuf>, Option<Arc<Mmap>>);

/// Decodes a model's file, which is mapped.
fn read(path: &Path) -> Result<Decoded, OnnxError> {
    let model = path.display().to_string();
    let read = |why: std::io::Error| OnnxError::Read { path: model.clone(), why: why.to_string() };
    let map = weight::map(path).map_err(read)?.map(Arc::new);
    let bytes = map.clone().map_or_else(Bytes::new, |map| Bytes::from_owner(Mapped(map)));
    Ok((decode(bytes, &model)?, Some(folder(path)), map))
}

/// A mapped file, as an owner of bytes.
struct Mapped(Arc<Mmap>);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Returns the folder of a model's file.
fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Imports a model from memory. `name` is its name in messages. External data is refused.
///
/// # Errors
/// See [`OnnxError`].
pub fn from_bytes(
    tables: Tables<'_>,
    bytes: impl Into<Bytes>,
    name: &str,
    options: &ImportOptions,
) -> Result<ImportedModel, OnnxError> {
    importer::import(tables, decode(bytes.into(), name)?, name, None, None, options)
}

fn decode(bytes: Bytes, model: &str) -> Result<proto::ModelProto, OnnxError> {
    if bytes.is_empty() {
        return Err(OnnxError::Empty { model: model.to_owned() });
    }
    let length = bytes.len();
    let seems = impression(&bytes);
    let damaged = |why: &str| {
        let (why, advice) = seems.clone().unwrap_or_else(|| (why.to_owned(), "export or download it again"));
        OnnxError::Damaged { model: model.to_owned(), why, length, advice }
    };
    let proto = proto::ModelProto::decode(bytes)
        .map_err(|why| damaged(why.to_string().trim_start_matches("failed to decode Protobuf message: ")))?;
    if proto.graph.is_none() {
        return Err(damaged("it has no graph"));
    }
    Ok(proto)
}

/// Returns what a file that is not an ONNX model seems to be, judged by its beginning, and what to do; `None` if that is
/// unknown.
fn impression(bytes: &[u8]) -> Option<(String, &'static str)> {
    if bytes.starts_with(b"ovolo file, v") {
        let advice = "add it to the cache with `ovolo load-cache`, and run the model itself";
        return Some(("it was written by `ovolo save-cache`".to_owned(), advice));
    }
    let start = std::str::from_utf8(bytes.get(..bytes.len().min(40))?).ok()?;
    if start.starts_with(r#"{"nodes":"#) {
        let advice =
            "choose from it with `ovolo extract`; commands that compile take the model that it was made of";
        return Some(("it seems to be an e-graph in JSON".to_owned(), advice));
    }
    if start.starts_with("version https://git-lfs") {
        return Some(("it is a pointer of Git LFS".to_owned(), "get the model with `git lfs pull`"));
    }
    let readable = start.chars().all(|c| c.is_ascii_graphic() || c.is_ascii_whitespace());
    let text = || format!("it is text that begins with `{}`", start.trim().replace(['\n', '\r'], " "));
    readable.then(|| (text(), "export or download it again"))
}
