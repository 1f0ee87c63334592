//! Merges and compares tables of times.

use ovolo::cost::stored::{self, Decision, Stored, Validators, backend_of};
use ovolo::cost::{Entry, InPlans, State, median, spearman};
use std::collections::{BTreeMap, BTreeSet};

/// A table with its name and its header.
#[derive(Clone, Debug)]
pub struct Part {
    name: String,
    machine: Vec<String>,
    /// The libraries that it has lines for, or that are present, by backend.
    libraries: BTreeMap<String, BTreeSet<String>>,
    /// Lines by call and library.
    lines: BTreeMap<(String, String), Entry>,
    decisions: BTreeMap<String, Decision>,
}

/// The result of merging several tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// The number of kernels that have lines.
    pub kernels: usize,
    /// The number of decisions between plans.
    pub decisions: usize,
    /// The text of the table.
    pub text: String,
}

/// How the kernels of two tables compare.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The names of the tables.
    pub names: [String; 2],
    /// The first difference between the conditions under which the tables hold, one text for each table.
    pub differs: Option<[String; 2]>,
    /// The number of kernels that both have times for.
    pub kernels: usize,
    /// The median of the ratios of the second's times to the first's.
    pub ratio: Option<f64>,
    /// The rank correlation of the times (Spearman).
    pub spearman: Option<f64>,
}

/// Why tables of times are not merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// There is no table.
    #[error("there is nothing to merge")]
    Nothing,
    /// A text is no table of times.
    #[error("{name}: this is not a table of times")]
    NoTable {
        /// The table's name.
        name: String,
    },
    /// A table is damaged.
    #[error("{name}: {why}")]
    Damaged {
        /// The table's name.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// Two tables are of different machines, libraries or versions.
    #[error(
        "{} and {}: `{}` and `{}`: times of different machines or versions cannot be \
         merged; --compare shows how they differ",
        names[0], names[1], said[0], said[1]
    )]
    Different {
        /// The tables.
        names: [String; 2],
        /// What each says of its machine.
        said: [String; 2],
    },
}

impl Part {
    /// Reads a table, whichever machine it was made on.
    ///
    /// # Errors
    /// An error if the text is not a table, or if it is damaged.
    pub fn read(name: &str, text: &str) -> Result<Self, MergeError> {
        // Lines of kernels end with a checksum; those of the header do not.
        let machine: Vec<String> =
            text.lines().take_while(|line| !line.contains("\t#")).map(str::to_owned).collect();
        if !machine.first().is_some_and(|line| line.starts_with("ovolo ") && line.contains(" times, format "))
        {
            return Err(MergeError::NoTable { name: name.to_owned() });
        }
        // No libraries are given, so all lines count as those of other libraries.
        let validators = Validators { machine, ..Validators::default() };
        let (stored, note) = stored::read(text, &validators);
        match note {
            Some(note) => Err(MergeError::Damaged { name: name.to_owned(), why: note }),
            None => Ok(Self::new(name, validators, stored)),
        }
    }

    /// Returns a table of a machine on which these libraries are present.
    pub fn new(name: &str, validators: Validators, stored: Stored) -> Self {
        let mut libraries: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut lines = BTreeMap::new();
        for (backend, library) in &validators.libraries {
            libraries.entry(backend.clone()).or_default().insert(library.clone());
        }
        for ((library, call), entry) in stored.others {
            libraries.entry(backend_of(&call).to_owned()).or_default().insert(library.clone());
            lines.insert((call, library), entry);
        }
        for (call, entry) in stored.table.entries {
            let library = validators.libraries.get(backend_of(&call)).cloned().unwrap_or_default();
            lines.insert((call, library), entry);
        }
        let Validators { machine, .. } = validators;
        Self { name: name.to_owned(), machine, libraries, lines, decisions: stored.decisions }
    }

    /// The number of threads with which its kernels were timed.
    pub fn threads(&self) -> Option<usize> {
        self.machine.iter().find_map(|line| line.strip_prefix("threads ")?.parse().ok())
    }

    /// Returns the first difference between the machines or the libraries. One table may have lines of more
    /// libraries than the other, or of none.
    fn differs(&self, other: &Self) -> Option<[String; 2]> {
        let line = |head: &[String], at: usize| head.get(at).cloned().unwrap_or_default();
        let machine = (0..self.machine.len().max(other.machine.len()))
            .map(|at| [line(&self.machine, at), line(&other.machine, at)])
            .find(|[here, there]| here != there);
        let list = |backend: &str, libraries: &BTreeSet<String>| {
            let list: Vec<&str> = libraries.iter().map(String::as_str).collect();
            format!("backend {backend}: {}", list.join("; "))
        };
        machine.or_else(|| {
            self.libraries.iter().find_map(|(backend, here)| {
                let there = other.libraries.get(backend)?;
                let apart = !here.is_subset(there) && !there.is_subset(here);
                apart.then(|| [list(backend, here), list(backend, there)])
            })
        })
    }
}

/// Merges tables. The result does not depend on their order. Of two lines for a kernel the better one stays:
/// timed before rough, timed within plans before not, and more runs before fewer.
///
/// # Errors
/// An error if the tables are of different machines, libraries or versions.
pub fn merge(parts: &[Part]) -> Result<Merged, MergeError> {
    let Some(first) = parts.first() else { return Err(MergeError::Nothing) };
    for (at, part) in parts.iter().enumerate() {
        for other in &parts[..at] {
            if let Some([here, there]) = other.differs(part) {
                return Err(MergeError::Different {
                    names: [other.name.clone(), part.name.clone()],
                    said: [here, there],
                });
            }
        }
    }
    let mut lines: BTreeMap<(&str, &str), &Entry> = BTreeMap::new();
    let mut decisions: BTreeMap<String, Decision> = BTreeMap::new();
    for part in parts {
        for ((call, library), entry) in &part.lines {
            let known = lines.entry((call, library)).or_insert(entry);
            if worth(entry) > worth(known) {
                *known = entry;
            }
        }
        for (key, decision) in &part.decisions {
            if decisions.get(key).is_none_or(|known| worth_of_decision(decision) > worth_of_decision(known)) {
                decisions.insert(key.clone(), decision.clone());
            }
        }
    }
    let text = stored::write_lines(&first.machine, &lines, &decisions);
    Ok(Merged { kernels: lines.len(), decisions: decisions.len(), text })
}

/// The order of two lines: the larger one stays. The text comes last, so that the order of the tables does
/// not matter.
pub(crate) fn worth(entry: &Entry) -> (usize, bool, usize, String) {
    let state = match entry.state {
        // A kernel whose result was wrong once must not be used.
        State::Wrong => 3,
        State::Timed => 2,
        State::Rough => 1,
        State::Skipped | State::Untimed => 0,
    };
    (state, matches!(entry.in_plans, InPlans::Timed(_)), entry.samples, entry.to_text())
}

/// The order of two decisions between the same plans.
pub(crate) fn worth_of_decision(decision: &Decision) -> (usize, String, String) {
    (decision.times.len(), decision.plan.clone(), decision.winner.clone())
}

/// Compares each table with the first one.
pub fn compare(parts: &[Part]) -> Vec<Comparison> {
    let Some((first, others)) = parts.split_first() else { return Vec::new() };
    let one = |other: &Part| {
        let timed =
            |entry: &&Entry| matches!(entry.state, State::Timed | State::Rough) && entry.seconds > 0.0;
        // By the same library if both have times for it, else by any.
        let of = |(call, library): &(String, String)| {
            let same = other.lines.get(&(call.clone(), library.clone())).filter(timed);
            let from = (call.clone(), String::new());
            let mut all = other.lines.range(from..).take_while(|((known, _), _)| known == call);
            same.or_else(|| all.find_map(|(_, entry)| Some(entry).filter(timed)))
        };
        let pairs: Vec<(f64, f64)> = first
            .lines
            .iter()
            .filter(|(_, entry)| timed(entry))
            .filter_map(|(key, entry)| Some((entry.seconds, of(key)?.seconds)))
            .collect();
        let (here, there): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let mut ratios: Vec<f64> = pairs.iter().map(|(here, there)| there / here).collect();
        Comparison {
            names: [first.name.clone(), other.name.clone()],
            differs: first.differs(other),
            kernels: pairs.len(),
            ratio: median(&mut ratios),
            spearman: spearman(&here, &there),
        }
    };
    others.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, head: &str, library: &str, lines: &[(&str, &str)]) -> Part {
        let mut stored = Stored::default();
        for (key, entry) in lines {
            let entry = Entry::from_text(entry).expect("an entry");
            stored.others.insert((library.to_owned(), format!("b.{key}")), entry);
        }
        let machine = vec!["ovolo 1 times, format 1".to_owned(), head.to_owned()];
        let validators = Validators { machine, ..Validators::default() };
        Part::read(name, &stored::write(&validators, &stored)).expect("a table")
    }

    const FAST: &str = "timed\t1.000 us\t9 runs\t1.0 %\tin no plan\tfast\tunchecked";
    const SLOW: &str = "timed\t2.000 us\t3 runs\t1.0 %\tin no plan\tslow\tunchecked";
    const GUESS: &str = "skipped\t9.000 us\t0 runs\t0.0 %\tin no plan\tslow\tunchecked";

    #[test]
    fn merging_does_not_depend_on_the_order_and_keeps_the_better_line() {
        let a = part("a", "here", "one", &[("x", FAST), ("y", GUESS)]);
        let b = part("b", "here", "one", &[("x", SLOW), ("y", SLOW), ("z", SLOW)]);
        let one = merge(&[a.clone(), b.clone()]).expect("they fit");
        assert_eq!(merge(&[b, a]).expect("they fit"), one);
        let one = Part::read("one", &one.text).expect("a table");
        let state = |key: &str| one.lines[&(format!("b.{key}"), "one".to_owned())].to_text();
        assert_eq!([state("x"), state("y"), state("z")], [FAST, SLOW, SLOW]);
    }

    #[test]
    fn tables_of_two_libraries_are_not_merged_unless_one_has_both() {
        let a = part("a", "here", "one", &[("x", FAST)]);
        let b = part("b", "here", "two", &[("x", SLOW)]);
        let none = part("none", "here", "one", &[]);
        let mut both = a.clone();
        both.lines.extend(b.lines.clone());
        both.libraries.clone_from(&BTreeMap::from([(
            "b".to_owned(),
            BTreeSet::from(["one".to_owned(), "two".to_owned()]),
        )]));
        let why = merge(&[none.clone(), a.clone(), b.clone()]).expect_err("two libraries").to_string();
        assert!(why.contains("a and b: `backend b: one` and `backend b: two`"), "{why}");
        for parts in [[&none, &a], [&both, &b], [&a, &both]] {
            let parts: Vec<Part> = parts.into_iter().cloned().collect();
            assert_eq!(
                merge(&parts).map(|one| one.kernels),
                Ok(if parts[0].lines.is_empty() { 1 } else { 2 })
            );
        }
        // Kernels that both libraries were timed for are compared nevertheless.
        let [found] = &compare(&[a, b])[..] else { unreachable!("two are compared") };
        assert_eq!((found.kernels, found.ratio), (1, Some(2.0)));
    }

    #[test]
    fn tables_of_two_machines_are_compared_and_not_merged() {
        let a = part("a", "here", "one", &[("w", FAST), ("x", FAST), ("y", SLOW), ("z", GUESS)]);
        let b = part("b", "there", "one", &[("x", SLOW), ("y", SLOW), ("z", SLOW)]);
        let why = merge(&[a.clone(), b.clone()]).expect_err("two machines").to_string();
        assert!(why.contains("a and b: `here` and `there`"), "{why}");
        let [found] = &compare(&[a, b])[..] else { unreachable!("two are compared") };
        assert_eq!((found.kernels, found.ratio, found.spearman), (2, Some(1.5), None));
        assert!(Part::read("c", "nothing").is_err());
    }
}
