//! The table of times as text: one kernel a line, sorted, each with a checksum, validators at the head.
//!
//! A line reads: what came of it, the median in microseconds, runs, spread, implementation, relative
//! error, the call, and the checksum of what stands before it. Lines that are damaged are left out, and
//! counted; a head that is not this machine's empties the table.

use crate::backend;
use crate::cost::{Entry, State, Table};
use rustc_hash::FxHasher;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::Hasher;

/// The plan that was fastest when timed whole, for the plan that the times alone give.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The way to the fastest plan.
    pub winner: String,
    /// The checksum of its text.
    pub plan: String,
    /// The median seconds of each way that was tried.
    pub times: Vec<(String, f64)>,
}

/// What a text holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stored {
    /// The times.
    pub table: Table,
    /// The decisions, by the checksum of the plan that the times alone give.
    pub decisions: BTreeMap<String, Decision>,
}

/// What the times depend on: versions, the processor, and the threads.
pub fn validators(threads: usize) -> Vec<String> {
    let mut head = vec![format!("ovolo {} times, format 1", env!("CARGO_PKG_VERSION"))];
    for backend in backend::BACKENDS {
        let found = backend.found().unwrap_or_else(|_| "not there".to_owned());
        head.push(format!("backend {}: {}", backend.name(), found.replace('\n', " ")));
    }
    head.push(format!("processor {}", backend::features::processor()));
    head.push(format!("features {}", backend::features::detected().join(" ")));
    head.push(format!("threads {threads}"));
    head
}

/// Eight hexadecimal digits that change with the text.
pub fn checksum(text: &str) -> String {
    let mut hasher = FxHasher::default();
    hasher.write(text.as_bytes());
    let hash = hasher.finish();
    format!("{:08x}", (hash ^ (hash >> 32)) & 0xffff_ffff)
}

/// An entry with its numbers as the text form keeps them.
pub fn settled(entry: &Entry) -> Entry {
    read_entry(&write_entry(entry)).unwrap_or_else(|| entry.clone())
}

/// Seconds as the text form keeps them.
pub(super) fn settled_seconds(seconds: f64) -> f64 {
    format!("{:.3}", seconds * 1e6).parse::<f64>().map_or(seconds, |micro| micro / 1e6)
}

pub(super) fn write_entry(entry: &Entry) -> String {
    let error = entry.error.map_or_else(|| "unchecked".to_owned(), |error| format!("error {error:.1e}"));
    format!(
        "{}\t{:.3} us\t{} runs\t{:.1} %\t{}\t{error}",
        entry.state.name(),
        entry.seconds * 1e6,
        entry.samples,
        entry.spread * 100.0,
        entry.implementation
    )
}

pub(super) fn read_entry(text: &str) -> Option<Entry> {
    let fields: Vec<&str> = text.split('\t').collect();
    let [state, time, runs, spread, implementation, error] = fields[..] else { return None };
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| *number >= 0.0);
    Some(Entry {
        state: State::ALL.into_iter().find(|known| known.name() == state)?,
        seconds: number(time.strip_suffix(" us")?)? / 1e6,
        samples: runs.strip_suffix(" runs")?.parse().ok()?,
        spread: number(spread.strip_suffix(" %")?)? / 100.0,
        implementation: implementation.to_owned(),
        error: match error {
            "unchecked" => None,
            _ => Some(number(error.strip_prefix("error ")?)?),
        },
    })
}

/// The text of times and decisions.
pub fn write(head: &[String], stored: &Stored) -> String {
    let mut text = String::new();
    for line in head {
        let _ = writeln!(text, "{line}");
    }
    let mut line = |content: String| {
        let _ = writeln!(text, "{content}\t#{}", checksum(&content));
    };
    for (key, entry) in &stored.table.entries {
        line(format!("{}\t{key}", write_entry(entry)));
    }
    for (key, decision) in &stored.decisions {
        let times: Vec<String> =
            decision.times.iter().map(|(way, seconds)| format!("{way}: {:.3} us", seconds * 1e6)).collect();
        line(format!("plan\t{key}\t{}\t{}\t{}", decision.winner, decision.plan, times.join(", ")));
    }
    text
}

/// Reads a text, and says in a line what of it cannot be used.
pub fn read(text: &str, head: &[String]) -> (Stored, Option<String>) {
    let mut lines = text.lines();
    for expected in head {
        let found = lines.next().unwrap_or("");
        if found != expected {
            let note = format!(
                "the table of times is another machine's or version's: it has `{found}` where `{expected}` is; timing anew"
            );
            return (Stored::default(), Some(note));
        }
    }
    let mut stored = Stored::default();
    let mut damaged = 0;
    for line in lines {
        let whole = line.rsplit_once("\t#").filter(|(content, sum)| checksum(content) == *sum);
        if whole.and_then(|(content, _)| read_line(content, &mut stored)).is_none() {
            damaged += 1;
        }
    }
    // A text that was cut at the end of a line has lost lines that nobody misses: they are timed again.
    let note = (damaged > 0).then(|| {
        format!("{damaged} line(s) of the table of times are damaged: those kernels are timed anew")
    });
    (stored, note)
}

fn read_line(content: &str, stored: &mut Stored) -> Option<()> {
    if let Some(plan) = content.strip_prefix("plan\t") {
        let fields: Vec<&str> = plan.split('\t').collect();
        let [key, winner, plan, times] = fields[..] else { return None };
        let times = times
            .split(", ")
            .filter(|time| !time.is_empty())
            .map(|time| {
                let (way, time) = time.rsplit_once(": ")?;
                Some((way.to_owned(), time.strip_suffix(" us")?.parse::<f64>().ok()? / 1e6))
            })
            .collect::<Option<Vec<_>>>()?;
        let decision = Decision { winner: winner.to_owned(), plan: plan.to_owned(), times };
        stored.decisions.insert(key.to_owned(), decision);
        return Some(());
    }
    let (entry, key) = content.rsplit_once('\t')?;
    stored.table.entries.insert(key.to_owned(), read_entry(entry)?);
    Some(())
}
