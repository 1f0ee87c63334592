//! Asks ONNX Runtime for the values of a model, through its Python package.

use ovolo::npy;
use ovolo::onnx::proto::ModelProto;
use ovolo::tensor::Tensor;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SCRIPT: &str = include_str!("runtime/values.py");

/// What ONNX Runtime computed.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// Its version.
    pub version: String,
    /// The values of the model's main graph, by their names.
    pub values: BTreeMap<String, Tensor>,
    /// What it could not do.
    pub notes: Vec<String>,
}

/// Why ONNX Runtime cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// Python does not start.
    #[error(
        "cannot start the Python `{python}`: {why}; name one with --python or OVOLO_PYTHON, or compare with ovolo's own \
         reference evaluation (--with reference)"
    )]
    Python {
        /// The program.
        python: String,
        /// The reason of the system.
        why: String,
    },
    /// A package is absent.
    #[error(
        "the Python `{python}` has no package `{package}`: install it with `{python} -m pip install onnxruntime numpy`, \
         name another Python with --python or OVOLO_PYTHON, or compare with ovolo's own reference evaluation (--with \
         reference)"
    )]
    Package {
        /// The program.
        python: String,
        /// The package.
        package: String,
    },
    /// ONNX Runtime refuses the model or its inputs.
    #[error("ONNX Runtime does not run `{model}`: {why}")]
    Refused {
        /// The model's file.
        model: String,
        /// Its reason.
        why: String,
    },
    /// Values cannot be exchanged with it.
    #[error("values for ONNX Runtime in {folder}: {why}")]
    Exchange {
        /// The folder.
        folder: String,
        /// The reason.
        why: String,
    },
}

/// Returns whether a Python has ONNX Runtime.
pub fn is_present(python: &Path) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", "import numpy, onnxruntime"]).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Returns the names of the values that the nodes of a model's main graph compute.
fn names(model: &Path) -> Option<Vec<String>> {
    let bytes = std::fs::read(model).ok()?;
    let proto: ModelProto = prost::Message::decode(bytes.as_slice()).ok()?;
    let nodes = proto.graph?.node;
    let names = nodes.into_iter().flat_map(|node| node.output).filter(|name| !name.is_empty());
    Some(names.filter(|name| !name.contains('\n')).collect())
}

/// Runs a model with ONNX Runtime, without its own rewriting of the model, and returns all values of its main graph.
/// Files are exchanged in a folder, which is made and removed.
///
/// # Errors
/// If Python or the package is absent, or if ONNX Runtime refuses the model.
pub fn values(
    python: &Path,
    model: &Path,
    inputs: &BTreeMap<String, Tensor>,
    folder: &Path,
) -> Result<Values, RuntimeError> {
    let made = Folder::new(folder)?;
    let result = exchange(python, model, inputs, &made.0);
    drop(made);
    result
}

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(path: &Path) -> Result<Self, RuntimeError> {
        std::fs::create_dir_all(path).map_err(|why| exchanged(path, &why))?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays behind does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn exchanged(folder: &Path, why: &dyn std::fmt::Display) -> RuntimeError {
    RuntimeError::Exchange { folder: folder.display().to_string(), why: why.to_string() }
}

fn exchange(
    python: &Path,
    model: &Path,
    inputs: &BTreeMap<String, Tensor>,
    folder: &Path,
) -> Result<Values, RuntimeError> {
    let write = |name: &str, bytes: &[u8]| {
        ovolo::file::write(&folder.join(name), &[bytes]).map_err(|why| exchanged(folder, &why))
    };
    let mut list = String::new();
    for (at, (name, tensor)) in inputs.iter().enumerate() {
        let _ = writeln!(list, "{at} {name}");
        write(&format!("input-{at}.npy"), &npy::encode(tensor))?;
    }
    write("inputs.txt", list.as_bytes())?;
    let names = names(model).unwrap_or_default();
    write("values.txt", names.join("\n").as_bytes())?;
    write("values.py", SCRIPT.as_bytes())?;
    let mut command = Command::new(python);
    command.arg(folder.join("values.py")).arg(model).arg(folder).stdin(Stdio::null());
    let named = python.display().to_string();
    let output = command
        .output()
        .map_err(|why| RuntimeError::Python { python: named.clone(), why: why.to_string() })?;
    let (said, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        let last = complaint.trim().lines().last().unwrap_or_default();
        return Err(match last.strip_prefix("MISSING ") {
            Some(package) => RuntimeError::Package { python: named, package: package.to_owned() },
            None => RuntimeError::Refused {
                model: model.display().to_string(),
                why: complaint.trim().trim_start_matches("FAILED ").to_owned(),
            },
        });
    }
    let mut found = Values::default();
    for line in said.lines() {
        if let Some(version) = line.strip_prefix("VERSION ") {
            version.clone_into(&mut found.version);
        } else if let Some(note) = line.strip_prefix("NOTE ") {
            found.notes.push(note.to_owned());
        }
    }
    for (at, name) in names.into_iter().enumerate() {
        let file = folder.join(format!("value-{at}.npy"));
        if file.exists() {
            let value = npy::read(&file).map_err(|why| exchanged(folder, &why))?;
            found.values.insert(name, value);
        }
    }
    Ok(found)
}
