//! `ovolo doctor`.

use super::amount::count;
use super::{Outcome, print};
use clap::Args;
use ovolo::backend::{BackendError, RuntimeLibrary};
use ovolo::plan::MOST_THREADS;
use ovolo::registry::Registry;
use ovolo_tune::calibrate;
use ovolo_tune::topology::Topology;
use std::fmt::Write;
use std::sync::Arc;

#[derive(Args)]
pub(super) struct Doctor {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Threads to measure speeds for. Default: the processors that this process may use.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MOST_THREADS as i64))]
    threads: Option<u16>,
}

impl Doctor {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = self.threads.map_or(processors, usize::from);
        let topology = Topology::here();
        let before = calibrate::known(registry.backends(), threads);
        let calibrate::Calibration { machine, steady, brief } = calibrate::settled(registry, threads);
        let features = registry.backends().planned_features();
        let backends: Vec<(&str, Result<String, BackendError>, Vec<RuntimeLibrary>)> = registry
            .backends()
            .iter()
            .map(|(name, backend)| (name, backend.found(), backend.libraries()))
            .collect();
        let extractors: Vec<&str> = registry.catalog().extractors.names().collect();
        let models: Vec<&str> = registry.catalog().pricings.names().collect();
        let planners: Vec<&str> = registry.catalog().planners.names().collect();
        let rules: Vec<&str> = registry.rules().names().collect();
        let pipelines: Vec<&str> = registry.pipelines().names().collect();
        let prices: Vec<&str> = registry.catalog().prices.fitted_on().map(|(name, _)| name).collect();
        if self.json {
            let json = |name: &str, found: &Result<String, BackendError>| match found {
                Ok(what) => serde_json::json!({ "name": name, "found": what }),
                Err(why) => serde_json::json!({ "name": name, "absent": why.to_string() }),
            };
            let backends: Vec<_> = backends
                .iter()
                .map(|(name, found, libraries)| {
                    let libraries = libraries.iter().map(|library| json(library.name, &library.found));
                    let mut backend = json(name, found);
                    backend["libraries"] = libraries.collect();
                    backend
                })
                .collect();
            let topology = match &topology {
                Ok(topology) => {
                    let mut value = serde_json::json!(topology);
                    value["advice"] = topology.advice(processors).into();
                    value
                }
                Err(why) => serde_json::json!({ "unknown": why.to_string() }),
            };
            let value = serde_json::json!({
                "version": env!("CARGO_PKG_VERSION"), "threads": processors, "topology": topology, "features": features,
                "machine": machine, "machine_threads": threads, "steady": steady, "brief": brief,
                "machine_before": before.map(|before| serde_json::json!({
                    "machine": before.machine, "steady": before.steady, "brief": before.brief,
                })),
                "backends": backends, "extractors": extractors,
                "cost_models": models, "planners": planners, "rules": rules, "pipelines": pipelines, "price_lists": prices,
            });
            print(&format!("{value}\n"));
            return Ok(());
        }
        let mut text = format!("ovolo {}\n", env!("CARGO_PKG_VERSION"));
        let _ = writeln!(text, "processors this process may use: {processors}");
        let _ = match &topology {
            Ok(topology) => writeln!(text, "{topology}"),
            Err(why) => writeln!(text, "topology of these processors: unknown ({why})"),
        };
        for advice in topology.iter().flat_map(|topology| topology.advice(processors)) {
            let _ = writeln!(text, "threads: {advice}");
        }
        let _ = writeln!(text, "instruction sets: {}", features.join(", "));
        let _ = writeln!(
            text,
            "calibrated for {}: {:.0} GFLOP/s, {:.1} GB/s from memory, {:.1} GB/s from cache, {:.2} us to start a kernel{}",
            count(threads, "thread", "threads"),
            machine.flops / 1e9,
            machine.memory / 1e9,
            machine.cache / 1e9,
            machine.start * 1e6,
            if steady {
                ""
            } else if !calibrate::can_measure(registry) {
                "; nominal: no backend has kernels that run here and by which the speed of a machine is measured"
            } else {
                "; the machine is busy, so these speeds are used for ten minutes and then measured again"
            }
        );
        text.push_str(&before.and_then(earlier).unwrap_or_default());
        for line in findings(&backends) {
            let _ = writeln!(text, "{line}");
        }
        for (what, names) in [
            ("cost models", models),
            ("extractors", extractors),
            ("memory planners", planners),
            ("rule files", rules),
            ("pipelines", pipelines),
            ("price lists", prices),
        ] {
            let _ = writeln!(text, "{what}: {}", names.join(", "));
        }
        print(&text);
        Ok(())
    }
}

/// The line on the speeds that were kept before, if they were not measured as well as they could be.
fn earlier(before: calibrate::Calibration) -> Option<String> {
    let calibrate::Calibration { machine, .. } = before;
    let how = before.reservation()?;
    let (flops, memory) = (machine.flops / 1e9, machine.memory / 1e9);
    Some(format!(
        "plans up to now were chosen by {flops:.0} GFLOP/s and {memory:.1} GB/s from memory, which were {how}\n"
    ))
}

/// The lines of backends and of their libraries. A reason for an absence is long, so no two lines give the same one: the
/// line of a backend gives it for its own libraries, and that of another backend's library for a backend.
fn findings(backends: &[(&str, Result<String, BackendError>, Vec<RuntimeLibrary>)]) -> Vec<String> {
    let mut told: Vec<(&BackendError, String)> = Vec::new();
    let mut lines = Vec::new();
    let refer = |subject: &str, to: &str| format!("{subject}: absent for the reason of `{to}`");
    for (name, found, _) in backends {
        let subject = format!("backend {name}");
        let needed = backends.iter().filter(|(owner, ..)| owner != name).find_map(|(owner, _, libraries)| {
            let library = libraries.iter().find(|library| found.is_err() && library.found == *found)?;
            Some(format!("{owner} {}", library.name))
        });
        lines.push(match (found, needed) {
            (Ok(what), _) => format!("{subject}: {what}"),
            (Err(_), Some(library)) => refer(&subject, &library),
            (Err(why), None) => {
                told.push((why, subject.clone()));
                format!("{subject}: {why}")
            }
        });
    }
    for (name, _, libraries) in backends {
        for RuntimeLibrary { name: library, found } in libraries {
            let subject = format!("{name} {library}");
            lines.push(match found {
                Ok(what) => format!("{subject}: {what}"),
                Err(why) => match told.iter().find(|(known, _)| *known == why) {
                    Some((_, first)) => refer(&subject, first),
                    None => {
                        told.push((why, subject.clone()));
                        format!("{subject}: {why}")
                    }
                },
            });
        }
    }
    lines
}
