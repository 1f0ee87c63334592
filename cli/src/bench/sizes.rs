//! `ovolo bench --sizes`: one session for inputs of several sizes.

use super::super::amount::size;
use super::super::dynamic::{dynamic, found_text, region_json};
use super::super::{Outcome, print};
use super::{Bench, milliseconds};
use ovolo::dynamic::RegionReport;
use ovolo::registry::Registry;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What was measured for one size.
struct Measured {
    size: usize,
    region: RegionReport,
    /// The fastest and the median run, if there were runs.
    times: Option<(Duration, Duration)>,
    /// The resident memory of the process, if the system tells it.
    resident: Option<u64>,
}

impl Bench {
    /// Runs zeros of each size for the time of `--seconds`.
    pub(super) fn sizes(&self, registry: &Arc<Registry>, name: &str, sizes: &[usize]) -> Outcome {
        let mut session = dynamic(&self.settings, &self.caching, registry)?;
        let mut all = Vec::new();
        for &size in sizes {
            let mut dims = self.settings.bound()?;
            dims.insert(name.to_owned(), size);
            let zeros = session.model().zeros(&dims).map_err(|error| error.to_string())?;
            let region = session.prepare(&zeros).map_err(|error| error.to_string())?;
            let (mut times, begin) = (Vec::new(), Instant::now());
            while self.seconds > 0.0 && (times.is_empty() || begin.elapsed().as_secs_f64() < self.seconds) {
                let start = Instant::now();
                session.run(&zeros).map_err(|error| error.to_string())?;
                times.push(start.elapsed());
            }
            times.sort_unstable();
            let times = times.first().map(|fastest| (*fastest, times[times.len() / 2]));
            all.push(Measured { size, region, times, resident: status("VmRSS:") });
        }
        let constants = session.store().bytes() as u64;
        let (plans, peak) = (session.plans(), status("VmHWM:"));
        if self.json {
            let list: Vec<_> = all
                .iter()
                .map(|one| {
                    json!({
                        "size": one.size, "region": region_json(&one.region), "resident": one.resident,
                        "min_ms": one.times.map(|(fastest, _)| milliseconds(fastest)),
                        "median_ms": one.times.map(|(_, median)| milliseconds(median)),
                    })
                })
                .collect();
            let value =
                json!({ "dim": name, "sizes": list, "plans": plans, "constants": constants, "peak": peak });
            print(&format!("{value}\n"));
            return Ok(());
        }
        for one in &all {
            let more = one.region.why.as_ref().map_or("", |_| ", and more regions");
            print(&format!(
                "{name}={}: {} steps, {}{more}{}{}\n",
                one.size,
                one.region.steps,
                found_text(one.region.found),
                one.times.map_or_else(String::new, |(fastest, median)| {
                    let [median, fastest] = [median, fastest].map(milliseconds);
                    format!("; median {median:.3} ms, fastest {fastest:.3} ms")
                }),
                one.resident.map_or_else(String::new, |bytes| format!("; {} resident", size(bytes)))
            ));
        }
        let peak = peak.map_or_else(String::new, |bytes| format!(", {} resident at most", size(bytes)));
        print(&format!("{plans} plan(s), {} of constants that they share{peak}\n", size(constants)));
        Ok(())
    }
}

/// Returns a line of what Linux says of this process, in bytes.
fn status(line: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let value = text.lines().find_map(|one| one.strip_prefix(line))?;
    let kilobytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
