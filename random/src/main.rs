//! Compares random models with the reference evaluation and with ONNX Runtime: `cargo xtask random`.

use ovolo_random::coverage::{NEVER_DRAWN, importable};
use ovolo_random::{Bench, Kind, Runtime, Verdict, generate, shrink};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "usage: random [--count N] [--seed S] [--pipelines A,B] [--python FILE] [--out DIR]
  --count N      models to draw (1000)
  --seed S       the first one's seed; each model has the next one (0)
  --pipelines    shipped pipelines of the host (native,cpu)
  --python FILE  an interpreter with the packages onnx and onnxruntime; without it ovolo is compared with itself
  --out DIR      where models that fail are written (random-failures)";

/// The most reasons for which ONNX Runtime does not run models that are printed.
const SHOWN: usize = 30;

struct Settings {
    count: u64,
    seed: u64,
    pipelines: Vec<String>,
    python: Option<PathBuf>,
    out: PathBuf,
}

fn settings() -> Result<Settings, String> {
    let mut settings = Settings {
        count: 1000,
        seed: 0,
        pipelines: vec!["native".to_owned(), "cpu".to_owned()],
        python: None,
        out: PathBuf::from("random-failures"),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("`{word}` needs a value\n{USAGE}"))?;
        let number = || value.parse().map_err(|_| format!("`{word}` takes a number, not `{value}`"));
        match word.as_str() {
            "--count" => settings.count = number()?,
            "--seed" => settings.seed = number()?,
            "--pipelines" => settings.pipelines = value.split(',').map(ToOwned::to_owned).collect(),
            "--python" => settings.python = Some(PathBuf::from(&value)),
            "--out" => settings.out = PathBuf::from(&value),
            _ => return Err(format!("`{word}` is unknown\n{USAGE}")),
        }
    }
    Ok(settings)
}

/// Runs the models; returns how many fail.
fn run(settings: &Settings) -> Result<usize, String> {
    let pipelines: Vec<&str> = settings.pipelines.iter().map(String::as_str).collect();
    let bench = Bench::new(&pipelines).map_err(|error| error.to_string())?;
    let runtime = settings.python.as_deref().map(Runtime::start).transpose();
    let mut runtime = runtime.map_err(|error| error.to_string())?;
    let (mut right, mut alone, mut invalid) = (0, 0, 0);
    let mut wrong: BTreeMap<Kind, usize> = BTreeMap::new();
    let (mut drawn, mut reasons) = (BTreeSet::new(), BTreeMap::<String, usize>::new());
    let start = Instant::now();
    for seed in settings.seed..settings.seed + settings.count {
        let model = generate(bench.registry(), seed);
        drawn.extend(model.operators());
        let failure = match bench.judge(&model, runtime.as_mut()) {
            Verdict::Right => {
                right += 1;
                continue;
            }
            Verdict::Alone(why) => {
                alone += 1;
                *reasons.entry(reason(&why)).or_default() += 1;
                continue;
            }
            Verdict::Invalid(why) => {
                invalid += 1;
                println!("seed {seed}: neither runs it: {why}");
                continue;
            }
            Verdict::Wrong(failure) => failure,
        };
        *wrong.entry(failure.kind).or_default() += 1;
        let small = shrink(&bench, &model, failure.kind, runtime.as_mut());
        let what = match bench.judge(&small, runtime.as_mut()) {
            Verdict::Wrong(failure) => failure.what,
            _ => failure.what,
        };
        std::fs::create_dir_all(&settings.out)
            .map_err(|error| format!("{}: {error}", settings.out.display()))?;
        let file = settings.out.join(format!("{seed}.onnx"));
        ovolo::file::write(&file, &[&small.bytes()])
            .map_err(|error| format!("{}: {error}", file.display()))?;
        println!("seed {seed}: {:?}: {what}\n{}in {}\n", failure.kind, small.text(), file.display());
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{} models in {seconds:.0} s: {right} agree, {alone} agree and ONNX Runtime does not run them, {invalid} run \
         nowhere, wrong: {wrong:?}",
        settings.count
    );
    let mut reasons: Vec<(String, usize)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (why, count) in reasons.iter().take(SHOWN) {
        println!("ONNX Runtime does not run {count}: {why}");
    }
    let all = importable(bench.registry());
    println!("{} of {} operators were drawn; not drawn:", all.intersection(&drawn).count(), all.len());
    for name in all.difference(&drawn) {
        let reason = NEVER_DRAWN.iter().find(|(known, _)| known == name);
        println!("  {name}: {}", reason.map_or("not by these seeds", |(_, why)| why));
    }
    Ok(wrong.values().sum())
}

/// Returns the part of a message of ONNX Runtime that does not name a value.
fn reason(why: &str) -> String {
    let text = why.split_once(" : ").map_or(why, |(_, text)| text);
    let plain = text
        .split_whitespace()
        .map(|word| if word.contains(|c: char| c.is_ascii_digit()) { "…" } else { word });
    plain.take(14).collect::<Vec<_>>().join(" ")
}

fn main() -> ExitCode {
    match settings().and_then(|settings| run(&settings)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
