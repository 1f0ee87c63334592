//! The table of times as text, for the cost model `measured`: one kernel a line, sorted, each with a checksum, validators at the head.
//!
//! A line reads: what came of it, the median in microseconds, runs, spread, the time within plans, implementation,
//! relative error, the library that was timed, the call, and the checksum of what stands before it. Lines that are
//! damaged are left out, and counted; a head that is not this machine's empties the table. Lines of a library
//! that is not here, or is another version, are not used, and stay in the table.

use super::{Entry, InPlans, State, Table};
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
    /// The decisions, by the checksum of the plan that the times alone give, and the libraries it may use.
    pub decisions: BTreeMap<String, Decision>,
    /// Times by libraries that are not here: by the library and the call.
    pub others: BTreeMap<(String, String), Entry>,
}

/// What times depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validators {
    /// What all of them do, a line each: the version of ovolo, the processor, the threads.
    pub machine: Vec<String>,
    /// What those of a backend's kernels do besides, by the name of the backend: the version of its library,
    /// and not where that lies. Backends that are not there are left out.
    pub libraries: BTreeMap<String, String>,
}

impl Validators {
    /// The library by which a call runs here, if there is one.
    fn library(&self, call: &str) -> Option<&str> {
        self.libraries.get(backend_of(call)).map(String::as_str)
    }

    /// What there is of some backends, for what depends on all of them: names and libraries.
    pub fn of(&self, backends: &[String]) -> String {
        let one = |name: &String| {
            format!("{name}: {}\n", self.libraries.get(name).map_or("not there", String::as_str))
        };
        backends.iter().map(one).collect()
    }
}

/// The backend whose kernel a call is.
pub fn backend_of(call: &str) -> &str {
    call.split_once('.').map_or("", |(backend, _)| backend)
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
pub fn settled_seconds(seconds: f64) -> f64 {
    format!("{:.3}", seconds * 1e6).parse::<f64>().map_or(seconds, |micro| micro / 1e6)
}

/// What stands for the time within plans where nothing is known of it.
const UNKNOWN: &str = "in no plan";

/// The text of a kernel's line: what came of it, without the library, the call and the checksum.
pub fn write_entry(entry: &Entry) -> String {
    let error = entry.error.map_or_else(|| "unchecked".to_owned(), |error| format!("error {error:.1e}"));
    let in_plans = match entry.in_plans {
        InPlans::Unknown => UNKNOWN.to_owned(),
        InPlans::Likely(seconds) => format!("in plans about {:.3} us", seconds * 1e6),
        InPlans::Timed(seconds) => format!("in plans {:.3} us", seconds * 1e6),
    };
    format!(
        "{}\t{:.3} us\t{} runs\t{:.1} %\t{in_plans}\t{}\t{error}",
        entry.state.name(),
        entry.seconds * 1e6,
        entry.samples,
        entry.spread * 100.0,
        entry.implementation
    )
}

/// Reads what [`write_entry`] writes; `None` where the text is damaged.
pub fn read_entry(text: &str) -> Option<Entry> {
    let fields: Vec<&str> = text.split('\t').collect();
    let [state, time, runs, spread, in_plans, implementation, error] = fields[..] else { return None };
    Some(Entry {
        state: State::ALL.into_iter().find(|known| known.name() == state)?,
        seconds: number(time.strip_suffix(" us")?)? / 1e6,
        samples: runs.strip_suffix(" runs")?.parse().ok()?,
        spread: number(spread.strip_suffix(" %")?)? / 100.0,
        in_plans: read_in_plans(in_plans)?,
        implementation: implementation.to_owned(),
        error: match error {
            "unchecked" => None,
            _ => Some(number(error.strip_prefix("error ")?)?),
        },
    })
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number| *number >= 0.0)
}

fn read_in_plans(text: &str) -> Option<InPlans> {
    if text == UNKNOWN {
        return Some(InPlans::Unknown);
    }
    let time = text.strip_prefix("in plans ")?.strip_suffix(" us")?;
    let likely = time.strip_prefix("about ");
    let seconds = number(likely.unwrap_or(time))? / 1e6;
    Some(if likely.is_some() { InPlans::Likely(seconds) } else { InPlans::Timed(seconds) })
}

/// The text of times and decisions.
pub fn write(validators: &Validators, stored: &Stored) -> String {
    let mut lines: BTreeMap<(&str, &str), &Entry> = BTreeMap::new();
    for (call, entry) in &stored.table.entries {
        lines.insert((call, validators.library(call).unwrap_or_default()), entry);
    }
    for ((library, call), entry) in &stored.others {
        lines.entry((call, library)).or_insert(entry);
    }
    write_lines(&validators.machine, &lines, &stored.decisions)
}

/// The text of lines by their calls and libraries.
pub fn write_lines(
    machine: &[String],
    lines: &BTreeMap<(&str, &str), &Entry>,
    decisions: &BTreeMap<String, Decision>,
) -> String {
    let mut text = String::new();
    for line in machine {
        let _ = writeln!(text, "{line}");
    }
    let mut line = |content: String| {
        let _ = writeln!(text, "{content}\t#{}", checksum(&content));
    };
    for ((call, library), entry) in lines {
        line(format!("{}\t{library}\t{call}", write_entry(entry)));
    }
    for (key, decision) in decisions {
        let times: Vec<String> =
            decision.times.iter().map(|(way, seconds)| format!("{way}: {:.3} us", seconds * 1e6)).collect();
        line(format!("plan\t{key}\t{}\t{}\t{}", decision.winner, decision.plan, times.join(", ")));
    }
    text
}

/// Reads a text, and says in a line what of it cannot be used.
pub fn read(text: &str, validators: &Validators) -> (Stored, Option<String>) {
    let mut lines = text.lines();
    for expected in &validators.machine {
        let found = lines.next().unwrap_or("");
        let text = !found.chars().any(|c| c.is_control() || c == char::REPLACEMENT_CHARACTER);
        let found = if text { found } else { "something that is no text" };
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
        if whole.and_then(|(content, _)| read_line(content, validators, &mut stored)).is_none() {
            damaged += 1;
        }
    }
    // A text that was cut at the end of a line has lost lines that nobody misses: they are timed again.
    let note = (damaged > 0).then(|| {
        format!("{damaged} line(s) of the table of times are damaged: those kernels are timed anew")
    });
    (stored, note)
}

fn read_line(content: &str, validators: &Validators, stored: &mut Stored) -> Option<()> {
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
    let (rest, call) = content.rsplit_once('\t')?;
    let (entry, library) = rest.rsplit_once('\t')?;
    let entry = read_entry(entry)?;
    if validators.library(call) == Some(library) {
        stored.table.entries.insert(call.to_owned(), entry);
    } else {
        stored.others.insert((library.to_owned(), call.to_owned()), entry);
    }
    Some(())
}
