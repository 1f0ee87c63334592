//! The text form of the table of times: validators first, and then one line for each kernel, sorted, each with a
//! checksum.
//!
//! A line contains the result of timing, the median in microseconds, the number of runs, the spread, the time within
//! plans, the implementation, the relative error, the library, the call, and the checksum of all of these. Damaged
//! lines are left out and counted. If the validators are those of another machine, the table is empty. Lines of a
//! library that is absent here, or has another version, are not used but stay in the table.

use super::{Entry, InPlans, State, Table};
use rustc_hash::FxHasher;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::Hasher;

/// The plan that was fastest when whole plans were timed, for the plan that follows from the times alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The method that found the fastest plan.
    pub winner: String,
    /// The checksum of that plan's text.
    pub plan: String,
    /// The median seconds of the plan of each method.
    pub times: Vec<(String, f64)>,
}

/// The contents of a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stored {
    /// The times.
    pub table: Table,
    /// The decisions, by the checksum of the plan that follows from the times alone, and the libraries that this plan
    /// may use.
    pub decisions: BTreeMap<String, Decision>,
    /// Times of libraries that are absent here, by the library and the call.
    pub others: BTreeMap<(String, String), Entry>,
}

/// The data that decides whether times are still valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validators {
    /// The lines on which all times depend: the version of ovolo, the processor, the threads.
    pub machine: Vec<String>,
    /// The version of each backend's library, on which the times of its kernels depend in addition, by the name of
    /// the backend. Absent backends are left out. The place of the library does not count.
    pub libraries: BTreeMap<String, String>,
}

impl Validators {
    /// Returns the library that runs a call here, if there is one.
    fn library(&self, call: &str) -> Option<&str> {
        self.libraries.get(backend_of(call)).map(String::as_str)
    }

    /// Returns a text with the names and libraries of some backends, for data that depends on all of them.
    pub fn describe(&self, backends: &[String]) -> String {
        let one = |name: &String| {
            format!("{name}: {}\n", self.libraries.get(name).map_or("not there", String::as_str))
        };
        backends.iter().map(one).collect()
    }
}

/// Returns the backend of the kernel that a call names.
pub fn backend_of(call: &str) -> &str {
    call.split_once('.').map_or("", |(backend, _)| backend)
}

/// Returns eight hexadecimal digits that depend on the text: the hash of `rustc-hash`, folded to 32 bits.
pub fn checksum(text: &str) -> String {
    let mut hasher = FxHasher::default();
    hasher.write(text.as_bytes());
    let hash = hasher.finish();
    format!("{:08x}", (hash ^ (hash >> 32)) & 0xffff_ffff)
}

/// Returns seconds rounded as in the text form.
pub fn settled_seconds(seconds: f64) -> f64 {
    format!("{:.3}", seconds * 1e6).parse::<f64>().map_or(seconds, |micro| micro / 1e6)
}

/// The text for an unknown time within plans.
const UNKNOWN: &str = "in no plan";

impl Entry {
    /// Returns the entry with its numbers rounded as in the text form.
    #[must_use]
    pub fn settled(&self) -> Self {
        Self::from_text(&self.to_text()).unwrap_or_else(|| self.clone())
    }

    /// Returns the text of a kernel's line without the library, the call and the checksum.
    pub fn to_text(&self) -> String {
        let error = self.error.map_or_else(|| "unchecked".to_owned(), |error| format!("error {error:.1e}"));
        let in_plans = match self.in_plans {
            InPlans::Unknown => UNKNOWN.to_owned(),
            InPlans::Likely(seconds) => format!("in plans about {:.3} us", seconds * 1e6),
            InPlans::Timed(seconds) => format!("in plans {:.3} us", seconds * 1e6),
        };
        format!(
            "{}\t{:.3} us\t{} runs\t{:.1} %\t{in_plans}\t{}\t{error}",
            self.state.name(),
            self.seconds * 1e6,
            self.samples,
            self.spread * 100.0,
            self.implementation
        )
    }

    /// Reads the text that [`Entry::to_text`] writes; `None` if it is damaged.
    pub fn from_text(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.split('\t').collect();
        let [state, time, runs, spread, in_plans, implementation, error] = fields[..] else { return None };
        Some(Self {
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

/// Returns the text of times and decisions.
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

/// Returns the text of lines by their calls and libraries.
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
        line(format!("{}\t{library}\t{call}", entry.to_text()));
    }
    for (key, decision) in decisions {
        let times: Vec<String> =
            decision.times.iter().map(|(way, seconds)| format!("{way}: {:.3} us", seconds * 1e6)).collect();
        line(format!("plan\t{key}\t{}\t{}\t{}", decision.winner, decision.plan, times.join(", ")));
    }
    text
}

/// Reads a text. Also returns one line that says what part of it cannot be used.
pub fn read(text: &str, validators: &Validators) -> (Stored, Option<String>) {
    let mut lines = text.lines();
    for expected in &validators.machine {
        let found = lines.next().unwrap_or("");
        let text = !found.chars().any(|c| c.is_control() || c == char::REPLACEMENT_CHARACTER);
        let found = if text { found } else { "something that is not text" };
        if found != expected {
            let note = format!(
                "the table of times is another machine's or version's: it has `{found}` where `{expected}` is; all kernels are timed again"
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
    // If a text is cut off at the end of a line, the missing lines cannot be noticed; their kernels are timed again.
    let note = (damaged > 0).then(|| {
        format!("{damaged} line(s) of the table of times are damaged: those kernels are timed again")
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
    let entry = Entry::from_text(entry)?;
    if validators.library(call) == Some(library) {
        stored.table.entries.insert(call.to_owned(), entry);
    } else {
        stored.others.insert((library.to_owned(), call.to_owned()), entry);
    }
    Some(())
}
