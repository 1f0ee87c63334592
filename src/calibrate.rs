//! The speeds of this machine, measured in about a second and kept.
//!
//! Measured with the native backend's own kernels: a packed matrix product for arithmetic, copies
//! larger and smaller than the last cache for traffic, and a tiny kernel for the time to start one.

use crate::backend::{self, Args, team::Team};
use crate::contract::Call;
use crate::cost::Machine;
use crate::op;
use crate::tensor::{DType, Tensor, TensorType};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Instant;

/// What is kept: the speeds, and for what they hold.
#[derive(Serialize, Deserialize)]
struct Kept {
    version: String,
    features: Vec<String>,
    threads: usize,
    machine: Machine,
}

/// The speeds with so many threads: as kept, or measured now and kept.
pub fn machine(threads: usize) -> Machine {
    let features: Vec<String> = backend::features::detected().iter().map(ToString::to_string).collect();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let path = path(threads);
    let kept = path
        .as_ref()
        .and_then(|path| std::fs::read_to_string(path).ok())
        .and_then(|text| serde_json::from_str::<Kept>(&text).ok())
        .filter(|kept| kept.version == version && kept.features == features && kept.threads == threads);
    if let Some(kept) = kept {
        return kept.machine;
    }
    let machine = measure(threads);
    // A machine that cannot be kept is measured again next time: slower, not wrong.
    if let (Some(path), Ok(text)) =
        (path, serde_json::to_string(&Kept { version, features, threads, machine }))
    {
        let _ = keep(&path, &text);
    }
    machine
}

/// Writes through a temporary file, so that no reader ever sees half of it.
fn keep(path: &std::path::Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().ok_or(std::io::ErrorKind::NotFound)?;
    std::fs::create_dir_all(folder)?;
    let temporary = folder.join(format!("machine-{}.tmp", std::process::id()));
    std::fs::write(&temporary, text)?;
    std::fs::rename(&temporary, path)
}

fn path(threads: usize) -> Option<PathBuf> {
    let cache = match std::env::var_os("OVOLO_CACHE") {
        Some(folder) => PathBuf::from(folder),
        None => match std::env::var_os("XDG_CACHE_HOME") {
            Some(folder) => PathBuf::from(folder).join("ovolo"),
            None => PathBuf::from(std::env::var_os("HOME")?).join(".cache").join("ovolo"),
        },
    };
    Some(cache.join(format!("machine-{threads}.json")))
}

fn measure(threads: usize) -> Machine {
    let team = Team::new(threads);
    let seconds = |m: usize, k: usize, n: usize, rounds: usize| {
        let a = Tensor::zeros(TensorType::plain(DType::F32, [m, k]));
        let layout = "Ba32b".parse().unwrap_or_default();
        let b = Tensor::zeros(TensorType::plain(DType::F32, [k, n]).with_layout(layout));
        time(&team, "native.matmul-packed", &[&a, &b], rounds)
    };
    let copy = |bytes: usize, rounds: usize| {
        let a = Tensor::zeros(TensorType::plain(DType::F32, [bytes / 4]));
        time(&team, "native.abs", &[&a], rounds)
    };
    let nominal = Machine::NOMINAL;
    const SIDE: usize = 768;
    #[allow(clippy::cast_precision_loss)]
    let flops =
        seconds(SIDE, SIDE, SIDE, 20).map_or(nominal.flops, |s| 2.0 * (SIDE * SIDE * SIDE) as f64 / s);
    let memory = copy(96 << 20, 4).map_or(nominal.memory, |s| f64::from(2 * (96 << 20)) / s);
    let cache = copy(512 << 10, 200).map_or(nominal.cache, |s| f64::from(2 * (512 << 10)) / s);
    let start = copy(64, 2000).unwrap_or(nominal.start);
    Machine { flops, memory, cache, start }
}

/// The fastest of some runs of a kernel, in seconds; `None` where the kernel is refused.
fn time(team: &Team, op: &'static str, operands: &[&Tensor], rounds: usize) -> Option<f64> {
    let def = op::find(op)?;
    let attrs = op::complete(def, crate::attr::Attrs::new());
    let types: Vec<&TensorType> = operands.iter().map(|operand| operand.ty()).collect();
    let output = (def.infer)(&attrs, &types).ok()?;
    let call = Call { op, attrs: &attrs, inputs: &types, output: &output, threads: team.threads() };
    let backend = backend::find(def.backend()?)?;
    let contract = backend.contract(&call).ok()?;
    let kernel = backend.kernel(&call).ok()?;
    let mut result = Tensor::zeros(output.clone());
    let mut scratch = Tensor::zeros(TensorType::plain(DType::U8, [contract.scratch.max(1)]));
    let inputs: Vec<*const u8> = operands.iter().map(|operand| operand.bytes().as_ptr()).collect();
    let args = Args {
        inputs: &inputs,
        output: result.bytes_mut().as_mut_ptr(),
        scratch: scratch.bytes_mut().as_mut_ptr(),
        team,
    };
    let once = || {
        let start = Instant::now();
        kernel.run(&args);
        start.elapsed().as_secs_f64()
    };
    (0..=rounds).map(|_| once()).min_by(f64::total_cmp)
}
