//! ONNX Runtime, in a process of Python that is kept alive.

use crate::model::{Model, tensor_proto};
use ovolo::onnx::decode_value;
use ovolo::tensor::{DType, Tensor};
use ovolo::value::{Value, ValueType};
use prost::Message;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What the process runs.
const WORKER: &str = include_str!("worker.py");
/// The number in place of the number of outputs if there are none.
const NONE: u32 = u32::MAX;

/// The outputs of a model, or why there are none.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Values(Vec<(String, Tensor)>),
    Refused(String),
}

/// A process with ONNX Runtime's Python package.
pub struct Runtime {
    python: PathBuf,
    child: Child,
}

/// The process did not start.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", python.display())]
pub struct StartError {
    /// The Python interpreter.
    pub python: PathBuf,
    /// The error of the system.
    pub source: io::Error,
}

impl Runtime {
    /// Starts the process by a Python interpreter that has the packages `onnx` and `onnxruntime`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(python: &Path) -> Result<Self, StartError> {
        Ok(Self { python: python.to_owned(), child: spawn(python)? })
    }

    /// Runs a model. A process that dies, as it may on a model that ONNX Runtime cannot bear, is started again.
    pub(crate) fn run(&mut self, model: &Model) -> Answer {
        match self.exchange(model) {
            Ok(answer) => answer,
            Err(why) => {
                self.stop();
                match spawn(&self.python) {
                    Ok(child) => self.child = child,
                    Err(again) => return Answer::Refused(format!("{why}; {again}")),
                }
                Answer::Refused(format!("ONNX Runtime's process ended: {why}"))
            }
        }
    }

    fn exchange(&mut self, model: &Model) -> Result<Answer, String> {
        let gone = || "its pipes are closed".to_owned();
        let (input, output) =
            (self.child.stdin.as_mut().ok_or_else(gone)?, self.child.stdout.as_mut().ok_or_else(gone)?);
        let mut message = Vec::new();
        let mut put = |bytes: &[u8]| {
            message.extend(u32::try_from(bytes.len()).unwrap_or(0).to_le_bytes());
            message.extend(bytes);
        };
        put(&model.bytes());
        let inputs: Vec<Vec<u8>> =
            model.inputs().map(|leaf| tensor_proto(&leaf.name, &leaf.tensor).encode_to_vec()).collect();
        let count = u32::try_from(inputs.len()).unwrap_or(0).to_le_bytes();
        let mut rest = count.to_vec();
        for one in &inputs {
            rest.extend(u32::try_from(one.len()).unwrap_or(0).to_le_bytes());
            rest.extend(one);
        }
        message.extend(rest);
        input.write_all(&message).and_then(|()| input.flush()).map_err(|error| error.to_string())?;
        let count = number(output)?;
        if count == NONE {
            return Ok(Answer::Refused(String::from_utf8_lossy(&bytes(output)?).into_owned()));
        }
        let mut values = Vec::new();
        for _ in 0..count {
            let bytes = bytes(output)?;
            let name = ovolo::onnx::proto::TensorProto::decode(bytes.as_slice())
                .map_err(|error| error.to_string())?
                .name;
            match decode_value(&bytes, &ValueType::Tensor(DType::F32)) {
                Ok(Value::Tensor(tensor)) => values.push((name, tensor)),
                Ok(_) => return Ok(Answer::Refused("an output is no tensor of numbers".to_owned())),
                Err(why) => return Ok(Answer::Refused(why.to_string())),
            }
        }
        Ok(Answer::Values(values))
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(python: &Path) -> Result<Child, StartError> {
    Command::new(python)
        .args(["-c", WORKER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|source| StartError { python: python.to_owned(), source })
}

fn number(from: &mut impl Read) -> Result<u32, String> {
    let mut four = [0; 4];
    from.read_exact(&mut four).map_err(|error| error.to_string())?;
    Ok(u32::from_le_bytes(four))
}

fn bytes(from: &mut impl Read) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; number(from)? as usize];
    from.read_exact(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}
