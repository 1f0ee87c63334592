//! `cargo xtask tables`: times kernels on this machine, for the tables that `ovolo costs fit` reads.

use crate::python::{build_folder, command, root, with};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages that draw networks, from the Python package index.
const PACKAGES: &[&str] = &["numpy==2.4.6", "onnx==1.23.2"];

const USAGE: &str =
    "usage: cargo xtask tables NAME [--threads 1,2] [--isa best,avx2] [--pipeline native] [--with FOLDER]";

/// The words of the task.
struct Settings {
    name: String,
    threads: Vec<String>,
    sets: Vec<String>,
    pipeline: String,
    /// A folder of further models, such as the quantised ones that `benches/quantised.py --out` keeps.
    with: Option<PathBuf>,
}

fn settings(words: &[String]) -> Result<Settings, String> {
    let mut words = words.iter();
    let name = words.next().filter(|name| !name.starts_with('-')).ok_or(USAGE)?;
    let list = |text: &str| text.split(',').map(str::to_owned).collect();
    let mut found = Settings {
        name: name.clone(),
        threads: list("1,2"),
        sets: list("best,avx2"),
        pipeline: "native".into(),
        with: None,
    };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("`{word}` needs a value\n{USAGE}"))?;
        match word.as_str() {
            "--threads" => found.threads = list(value),
            "--isa" => found.sets = list(value),
            "--pipeline" => found.pipeline.clone_from(value),
            "--with" => found.with = Some(value.into()),
            _ => return Err(format!("`{word}` is unknown\n{USAGE}")),
        }
    }
    Ok(found)
}

/// Tunes the ten networks and drawn ones with each instruction set and number of threads, and writes a table for each:
/// `costs/tables/NAME-SET-THREADS.csv`.
pub fn run(words: &[String]) -> Result<(), String> {
    let settings = settings(words)?;
    let target = build_folder();
    command(Command::new(env!("CARGO")).current_dir(root()).args(["build", "--release"]))?;
    crate::models::run(&[])?;
    let python = with(&target.join("python-drawn"), PACKAGES)?;
    let drawn = target.join("drawn");
    command(Command::new(python).arg(root().join("xtask/python/drawn.py")).arg(&drawn))?;
    let mut models = models(&target.join("models"))?;
    models.extend(self::models(&drawn)?);
    if let Some(folder) = &settings.with {
        models.extend(self::models(folder)?);
    }
    for set in &settings.sets {
        for threads in &settings.threads {
            table(&settings, set, threads, &models)?;
        }
    }
    Ok(())
}

/// The files `NAME/model.onnx` and `NAME.onnx` of a folder.
fn models(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("light_")))
        .map(|path| if path.is_dir() { path.join("model.onnx") } else { path })
        .filter(|path| path.extension().is_some_and(|ending| ending == "onnx") && path.exists())
        .collect();
    found.sort();
    Ok(found)
}

fn table(settings: &Settings, set: &str, threads: &str, models: &[PathBuf]) -> Result<(), String> {
    let name = format!("{}-{set}-{threads}", settings.name);
    let ovolo = |words: &[&str]| {
        let mut ovolo = Command::new(build_folder().join("release/ovolo"));
        // Times of several instruction sets do not share a table.
        ovolo.args(words).env("OVOLO_CACHE", build_folder().join("tables").join(&name));
        if set != "best" {
            ovolo.env("OVOLO_ISA", set);
        }
        ovolo.args(["--pipeline", &settings.pipeline, "--threads", threads]);
        ovolo
    };
    for model in models {
        println!("{name}: {}", model.display());
        command(ovolo(&["tune"]).arg(model))?;
    }
    let out = root().join("costs/tables").join(format!("{name}.csv"));
    command(ovolo(&["costs", "table"]).args(models).arg("--out").arg(&out))
}
