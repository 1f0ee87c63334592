//! `ovolo doctor`.

use super::amount::count;
use super::{Outcome, print};
use clap::Args;
use ovolo::backend::{BackendError, RuntimeLibrary};
use ovolo::plan::MOST_THREADS;
use ovolo::registry::Registry;
use ovolo_tune::calibrate;
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
        let calibrate::Calibration { machine, steady } = calibrate::machine(registry, threads);
        let features = registry.backends().planned_features();
        let backends: Vec<(&str, Result<String, BackendError>, Vec<RuntimeLibrary>)> = registry
            .backends()
            .iter()
            .map(|(name, backend)| (name, backend.found(), backend.libraries()))
            .collect();
        let said = |found: &Result<String, BackendError>| match found {
            Ok(what) => what.clone(),
            Err(why) => why.to_string(),
        };
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
            let value = serde_json::json!({
                "version": env!("CARGO_PKG_VERSION"), "threads": processors, "features": features,
                "machine": machine, "machine_threads": threads, "steady": steady, "backends": backends, "extractors": extractors,
                "cost_models": models, "planners": planners, "rules": rules, "pipelines": pipelines, "price_lists": prices,
            });
            print(&format!("{value}\n"));
            return Ok(());
        }
        let mut text = format!("ovolo {}\n", env!("CARGO_PKG_VERSION"));
        let _ = writeln!(text, "processors this process may use: {processors}");
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
                "; the machine is busy, so these speeds are not kept and will be measured again"
            }
        );
        for (name, found, _) in &backends {
            let _ = writeln!(text, "backend {name}: {}", said(found));
        }
        for (name, _, libraries) in &backends {
            for library in libraries {
                let _ = writeln!(text, "{name} {}: {}", library.name, said(&library.found));
            }
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
