//! Compares the ten models and the nine light networks with ONNX Runtime's outputs: with native kernels only
//! and, if oneDNN is found, with its kernels too.
//!
//! `cargo xtask models` installs ONNX Runtime into the build folder and writes models, inputs and outputs
//! there. Without them the tests count as ignored; with `OVOLO_REQUIRE_MODELS` set, as in CI, they fail.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/need.rs"]
mod need;

use common::{pipeline, relative_error};
use libtest_mimic::{Arguments, Failed, Trial};
use need::Need;
use ovolo::cache::{Cache, Key, Origin};
use ovolo::compile;
use ovolo::npy;
use ovolo::onnx::{self, ImportOptions};
use ovolo::session::Session;
use ovolo::tensor::Tensor;
use std::path::{Path, PathBuf};

/// The largest relative L2 error compared with ONNX Runtime.
const TOLERANCE: f64 = 1e-4;

/// The pipelines; all but the first need oneDNN.
const PIPELINES: [&str; 3] = ["native", "onednn", "cpu"];

/// The models that `cargo xtask models` makes.
const MODELS: [&str; 19] = [
    "bert_base",
    "efficientnet_b0",
    "inception_v3",
    "light_bvlc_alexnet",
    "light_densenet121",
    "light_inception_v1",
    "light_inception_v2",
    "light_resnet50",
    "light_shufflenet",
    "light_squeezenet",
    "light_vgg19",
    "light_zfnet512",
    "mobilenet_v2",
    "nasrnn",
    "resnet50",
    "resnext50_32x4d",
    "squeezenet1_1",
    "vgg16",
    "vit_b_16",
];

fn main() {
    let mut arguments = Arguments::from_args();
    // One test at a time, because the largest model takes a gigabyte.
    arguments.test_threads = Some(1);
    let folder = folder();
    let trials: Vec<Trial> = MODELS
        .iter()
        .flat_map(|name| PIPELINES.map(|pipeline| (folder.join(name), *name, pipeline)))
        .map(|(path, name, pipeline)| {
            let mut needs = vec![model(&path)];
            if pipeline != "native" {
                needs.push(need::onednn());
            }
            let title = format!("{name}_agrees_with_onnx_runtime_by_{pipeline}");
            need::trial(title, &needs, move || agrees(&path, pipeline))
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit();
}

/// A model with ONNX Runtime's outputs.
fn model(path: &Path) -> Need {
    let file = path.join("model.onnx");
    let absent = || format!("{} is absent; `cargo xtask models` makes it (needs Python 3)", file.display());
    Need::new("the models", file.exists().then_some(()).ok_or_else(absent), "OVOLO_REQUIRE_MODELS")
}

/// Where `cargo xtask models` writes: `models` in the build folder.
fn folder() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| common::root().join("target"), PathBuf::from);
    target.join("models")
}

fn agrees(folder: &Path, name: &str) -> Result<(), Failed> {
    let light = folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("light_"));
    let imported =
        onnx::load(common::registry().onnx(), folder.join("model.onnx"), &ImportOptions::default())
            .map_err(|e| e.to_string())?;
    let compilation = compile::compile(imported.graph, &pipeline(name, 2)).map_err(|e| e.to_string())?;
    let mut session = Session::new(&compilation.program, compilation.plan, common::registry().backends())
        .map_err(|e| e.to_string())?;
    let file = |kind: &str, name: &str| folder.join(kind).join(format!("{}.npy", name.replace('/', "_")));
    let inputs: Vec<Tensor> =
        session.plan().inputs.iter().map(|(name, _)| npy::read(file("inputs", name)).unwrap()).collect();
    let names: Vec<String> = session.plan().outputs.iter().map(|(name, _, _)| name.to_string()).collect();
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let outputs = session.run(&inputs).map_err(|e| e.to_string())?.to_vec();
    assert!(!names.is_empty());
    for (name, output) in names.iter().zip(&outputs) {
        let expected = npy::read(file("outputs", name)).unwrap();
        if light {
            // The tolerance of the ONNX test suite: rtol 1e-3, atol 1e-7.
            let worst = output
                .to_f64()
                .iter()
                .zip(expected.to_f64())
                .map(|(a, b)| (a - b).abs() - 1e-7 - 1e-3 * b.abs())
                .fold(f64::NEG_INFINITY, f64::max);
            if worst.is_nan() || worst > 0.0 {
                return Err(format!("{name}: exceeds rtol 1e-3, atol 1e-7 by {worst:e}").into());
            }
        } else {
            let error = relative_error(output, &expected);
            if error.is_nan() || error > TOLERANCE {
                return Err(format!("{name}: relative L2 error {error:e}, allowed {TOLERANCE:e}").into());
            }
        }
    }
    from_the_cache(session, &inputs, &outputs)
}

/// Checks that the session gives the same bits after it was stored in the cache and loaded again.
fn from_the_cache(session: Session, inputs: &[&Tensor], outputs: &[Tensor]) -> Result<(), Failed> {
    let cache = Cache::new(
        &Path::new(env!("CARGO_TARGET_TMPDIR")).join("models-cache"),
        Cache::LIMIT,
        common::registry(),
    );
    let key = Key::default().with("test", "models");
    cache.keep(&key, &session, Origin::default()).map_err(|error| error.to_string())?;
    let plan = session.plan().clone();
    drop(session);
    let mut found = cache.find(&key, None).map_err(|miss| miss.to_string())?;
    let again = found.run(inputs).map_err(|error| error.to_string())?;
    let same = outputs.iter().zip(again).all(|(one, other)| one.bytes() == other.bytes());
    if !same || *found.plan() != plan {
        return Err("the plan from the cache differs or gives different bits".into());
    }
    cache.clear();
    Ok(())
}
