//! Tables of times taken together, or compared.

use super::store::{self, Stored, write_entry};
use crate::cost::{Entry, State, spearman};

/// A table with its name and its head.
#[derive(Clone, Debug)]
pub struct Part {
    name: String,
    head: Vec<String>,
    stored: Stored,
}

/// How the kernels of two tables compare.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The names of the tables.
    pub names: [String; 2],
    /// The first line of their heads that differs, of each.
    pub differs: Option<[String; 2]>,
    /// Kernels that both have times for.
    pub kernels: usize,
    /// The median of the ratios of the second's times to the first's.
    pub ratio: Option<f64>,
    /// How alike the order of the times is.
    pub spearman: Option<f64>,
}

impl Part {
    /// Reads a table, whatever machine it is of.
    ///
    /// # Errors
    /// A text that is no table, or that is damaged.
    pub fn read(name: &str, text: &str) -> Result<Self, String> {
        // Lines of kernels end with their checksums, those of the head do not.
        let head: Vec<String> =
            text.lines().take_while(|line| !line.contains("\t#")).map(str::to_owned).collect();
        if !head.first().is_some_and(|line| line.starts_with("ovolo ") && line.contains(" times, format ")) {
            return Err(format!("{name}: this is no table of times"));
        }
        let (stored, note) = store::read(text, &head);
        match note {
            Some(note) => Err(format!("{name}: {note}")),
            None => Ok(Self { name: name.to_owned(), head, stored }),
        }
    }

    /// An own table.
    pub fn new(name: &str, head: Vec<String>, stored: Stored) -> Self {
        Self { name: name.to_owned(), head, stored }
    }

    /// The threads that its kernels were timed with.
    pub fn threads(&self) -> Option<usize> {
        self.head.iter().find_map(|line| line.strip_prefix("threads ")?.parse().ok())
    }

    fn differs(&self, other: &Self) -> Option<[String; 2]> {
        let line = |head: &[String], at: usize| head.get(at).cloned().unwrap_or_default();
        (0..self.head.len().max(other.head.len()))
            .map(|at| [line(&self.head, at), line(&other.head, at)])
            .find(|[here, there]| here != there)
    }
}

/// One table of several, and its text; the same in whatever order they come. Of two lines for a kernel the
/// better stays: timed before rough, and more runs before fewer.
///
/// # Errors
/// Tables of different machines, libraries or versions.
pub fn merge(parts: &[Part]) -> Result<(Stored, String), String> {
    let Some(first) = parts.first() else { return Err("there is nothing to merge".to_owned()) };
    let mut merged = Stored::default();
    for part in parts {
        if let Some([here, there]) = first.differs(part) {
            return Err(format!(
                "{} and {}: `{here}` and `{there}`: times of different machines or versions are not of one table; \
                 --compare tells how they differ",
                first.name, part.name
            ));
        }
        for (key, entry) in &part.stored.table.entries {
            let known = merged.table.entries.get(key);
            if known.is_none_or(|known| worth(entry) > worth(known)) {
                merged.table.entries.insert(key.clone(), entry.clone());
            }
        }
        for (key, decision) in &part.stored.decisions {
            let worth = |one: &store::Decision| (one.times.len(), one.plan.clone(), one.winner.clone());
            if merged.decisions.get(key).is_none_or(|known| worth(decision) > worth(known)) {
                merged.decisions.insert(key.clone(), decision.clone());
            }
        }
    }
    let text = store::write(&first.head, &merged);
    Ok((merged, text))
}

/// What decides between two lines, the larger stays; the text last, so that no order of the tables counts.
fn worth(entry: &Entry) -> (usize, usize, String) {
    let state = match entry.state {
        // A result that was wrong once is not to be trusted.
        State::Wrong => 3,
        State::Timed => 2,
        State::Rough => 1,
        State::Skipped => 0,
    };
    (state, entry.samples, write_entry(entry))
}

/// Compares each table with the first one.
pub fn compare(parts: &[Part]) -> Vec<Comparison> {
    let Some((first, others)) = parts.split_first() else { return Vec::new() };
    let one = |other: &Part| {
        let timed =
            |entry: &&Entry| matches!(entry.state, State::Timed | State::Rough) && entry.seconds > 0.0;
        let pairs: Vec<(f64, f64)> = first
            .stored
            .table
            .entries
            .iter()
            .filter(|(_, entry)| timed(entry))
            .filter_map(|(key, entry)| {
                Some((entry.seconds, other.stored.table.entries.get(key).filter(timed)?.seconds))
            })
            .collect();
        let (here, there): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let mut ratios: Vec<f64> = pairs.iter().map(|(here, there)| there / here).collect();
        ratios.sort_by(f64::total_cmp);
        Comparison {
            names: [first.name.clone(), other.name.clone()],
            differs: first.differs(other),
            kernels: pairs.len(),
            ratio: ratios.get(ratios.len() / 2).copied(),
            spearman: spearman(&here, &there),
        }
    };
    others.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::store::read_entry;
    use super::*;

    fn part(name: &str, head: &str, lines: &[(&str, &str)]) -> Part {
        let mut stored = Stored::default();
        for (key, entry) in lines {
            stored.table.entries.insert((*key).to_owned(), read_entry(entry).expect("an entry"));
        }
        let head = vec!["ovolo 1 times, format 1".to_owned(), head.to_owned()];
        Part::read(name, &store::write(&head, &stored)).expect("a table")
    }

    const FAST: &str = "timed\t1.000 us\t9 runs\t1.0 %\tfast\tunchecked";
    const SLOW: &str = "timed\t2.000 us\t3 runs\t1.0 %\tslow\tunchecked";
    const GUESS: &str = "skipped\t9.000 us\t0 runs\t0.0 %\tslow\tunchecked";

    #[test]
    fn tables_are_one_in_whatever_order_and_the_better_line_stays() {
        let a = part("a", "here", &[("x", FAST), ("y", GUESS)]);
        let b = part("b", "here", &[("x", SLOW), ("y", SLOW), ("z", SLOW)]);
        let (one, text) = merge(&[a.clone(), b.clone()]).expect("they fit");
        assert_eq!(merge(&[b, a]).expect("they fit"), (one.clone(), text));
        let state = |key: &str| write_entry(&one.table.entries[key]);
        assert_eq!([state("x"), state("y"), state("z")], [FAST, SLOW, SLOW]);
    }

    #[test]
    fn tables_of_two_machines_are_compared_and_not_merged() {
        let a = part("a", "here", &[("w", FAST), ("x", FAST), ("y", SLOW), ("z", GUESS)]);
        let b = part("b", "there", &[("x", SLOW), ("y", SLOW), ("z", SLOW)]);
        let why = merge(&[a.clone(), b.clone()]).expect_err("two machines");
        assert!(why.contains("a and b: `here` and `there`"), "{why}");
        let [found] = &compare(&[a, b])[..] else { unreachable!("two are compared") };
        assert_eq!((found.kernels, found.ratio, found.spearman), (2, Some(2.0), None));
        assert!(Part::read("c", "nothing").is_err());
    }
}
