//! The file of a table of times, which several processes may fill at the same time.
//!
//! A process keeps its own table in memory, so that the times of others do not change its choice while it tunes. When it
//! writes, it takes a lock, reads what others have written meanwhile, and writes the lines of all. The lock is that of a
//! file beside the table, which the system releases if the process is killed.

use crate::merge;
use ovolo::cost::stored::{read, write};
use ovolo::cost::{Stored, Validators};
use ovolo::file;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The file of a table.
pub(crate) struct Shared {
    path: PathBuf,
    /// This process's lines when it last read or wrote the file. Lines that have changed since then are news.
    before: Stored,
}

impl Shared {
    /// Opens the file of a table, which need not exist yet. Also returns the table, and one line that says what part of it
    /// cannot be used.
    pub fn open(path: PathBuf, validators: &Validators) -> (Self, Stored, Option<String>) {
        // A file that cannot be read is reported when it cannot be written either.
        let (stored, note) = found(file::read(&path).ok().flatten(), validators);
        (Self { path, before: stored.clone() }, stored, note)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the lines of a table together with those that other processes have written since it was read. Of two new
    /// lines for a kernel the better one stays, as [`merge`] has it, whoever writes last.
    ///
    /// # Errors
    /// The error of the file system. Then the file is unchanged.
    pub fn keep(&mut self, validators: &Validators, stored: &Stored) -> io::Result<()> {
        file::update(&self.path, |bytes| {
            let (there, _) = found(bytes, validators);
            write(validators, &joined(&self.before, stored, there)).into_bytes()
        })?;
        self.before = stored.clone();
        Ok(())
    }
}

/// Reads the content of a file; nothing if there is none.
fn found(bytes: Option<Vec<u8>>, validators: &Validators) -> (Stored, Option<String>) {
    bytes.map_or_else(Default::default, |bytes| read(&String::from_utf8_lossy(&bytes), validators))
}

/// Returns the lines of a table and of the file as it is now. `before` are the lines of the table when the file was last
/// read or written.
fn joined(before: &Stored, stored: &Stored, there: Stored) -> Stored {
    let mut all = there;
    join(&before.table.entries, &stored.table.entries, &mut all.table.entries, |a, b| {
        merge::worth(a) >= merge::worth(b)
    });
    join(&before.others, &stored.others, &mut all.others, |a, b| merge::worth(a) >= merge::worth(b));
    join(&before.decisions, &stored.decisions, &mut all.decisions, |a, b| {
        merge::worth_of_decision(a) >= merge::worth_of_decision(b)
    });
    all
}

/// Adds lines to those of a file. A line of the file is replaced if only this process has changed it, or if both have and
/// this one's is `better`.
fn join<K: Ord + Clone, V: Clone + PartialEq>(
    before: &BTreeMap<K, V>,
    own: &BTreeMap<K, V>,
    file: &mut BTreeMap<K, V>,
    better: impl Fn(&V, &V) -> bool,
) {
    for (key, line) in own {
        let known = before.get(key);
        let stays = file.get(key).is_some_and(|there| {
            let (news_here, news_there) = (known != Some(line), known != Some(there));
            !news_here || news_there && !better(line, there)
        });
        if !stays {
            file.insert(key.clone(), line.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ovolo::cost::Entry;
    use ovolo::cost::stored::Decision;

    const GUESS: &str = "untimed\t9.000 us\t0 runs\t0.0 %\tin no plan\tone\tunchecked";
    const FEW: &str = "timed\t2.000 us\t3 runs\t1.0 %\tin no plan\tone\tunchecked";
    const MANY: &str = "timed\t1.000 us\t9 runs\t1.0 %\tin no plan\tone\tunchecked";
    const WITHIN: &str = "timed\t2.000 us\t3 runs\t1.0 %\tin plans 3.000 us\tone\tunchecked";

    fn lines(list: &[(&str, &str)]) -> Stored {
        let mut stored = Stored::default();
        for (call, entry) in list {
            stored.table.entries.insert((*call).to_owned(), Entry::from_text(entry).expect("an entry"));
        }
        stored
    }

    #[test]
    fn lines_of_both_stay_and_the_better_one_of_two_new_ones() {
        let before = lines(&[("a", GUESS), ("b", GUESS), ("c", GUESS)]);
        let one = lines(&[("a", FEW), ("b", GUESS), ("c", FEW), ("own", FEW)]);
        let other = lines(&[("a", GUESS), ("b", FEW), ("c", MANY), ("other", MANY)]);
        let all = lines(&[("a", FEW), ("b", FEW), ("c", MANY), ("other", MANY), ("own", FEW)]);
        assert_eq!(joined(&before, &one, other.clone()), all);
        assert_eq!(joined(&before, &other, one), all, "whoever writes last");
        let decision = Decision { winner: "measured".to_owned(), plan: "0".to_owned(), times: Vec::new() };
        let decided = |key: &str| {
            let decisions = BTreeMap::from([(key.to_owned(), decision.clone())]);
            Stored { decisions, ..Stored::default() }
        };
        let all = joined(&Stored::default(), &decided("one"), decided("other"));
        assert_eq!(all.decisions.keys().collect::<Vec<_>>(), ["one", "other"]);
        // A line that this process alone has changed replaces the one in the file, whatever it says.
        assert_eq!(
            joined(&lines(&[("a", MANY)]), &lines(&[("a", FEW)]), lines(&[("a", MANY)])),
            lines(&[("a", FEW)])
        );
    }

    #[test]
    fn no_line_is_lost_where_many_write_at_once() {
        const WRITERS: usize = 4;
        const LINES: usize = 25;
        let folder = std::env::temp_dir().join(format!("ovolo-shared-many-{}", std::process::id()));
        let libraries = BTreeMap::from([("b".to_owned(), "1.0".to_owned())]);
        let validators = Validators { machine: vec!["here".to_owned()], libraries };
        let path = folder.join("times-1.txt");
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (path, validators) = (path.clone(), &validators);
                scope.spawn(move || {
                    let (mut file, mut own, _) = Shared::open(path, validators);
                    for line in 0..LINES {
                        own.table
                            .entries
                            .extend(lines(&[(&format!("b.{writer}-{line}"), FEW)]).table.entries);
                        file.keep(validators, &own).expect("it is written");
                    }
                });
            }
        });
        assert_eq!(Shared::open(path, &validators).1.table.entries.len(), WRITERS * LINES);
        std::fs::remove_dir_all(&folder).expect("it can be removed");
    }

    #[test]
    fn a_line_that_is_written_twice_takes_what_was_added_to_it() {
        let folder = std::env::temp_dir().join(format!("ovolo-shared-{}", std::process::id()));
        let libraries = BTreeMap::from([("b".to_owned(), "1.0".to_owned())]);
        let validators = Validators { machine: vec!["here".to_owned()], libraries };
        let path = folder.join("times-1.txt");
        let open = || Shared::open(path.clone(), &validators);
        let (mut one, none, note) = open();
        assert_eq!((none, note), (Stored::default(), None));
        let (mut other, ..) = open();
        one.keep(&validators, &lines(&[("b.x", FEW)])).expect("it is written");
        other.keep(&validators, &lines(&[("b.y", MANY)])).expect("it is written");
        one.keep(&validators, &lines(&[("b.x", WITHIN)])).expect("it is written");
        // What was written before does not come back.
        other.keep(&validators, &lines(&[("b.y", MANY)])).expect("it is written");
        let (_, there, note) = open();
        let texts: Vec<_> =
            there.table.entries.iter().map(|(call, entry)| (call.as_str(), entry.to_text())).collect();
        assert_eq!((texts, note), (vec![("b.x", WITHIN.to_owned()), ("b.y", MANY.to_owned())], None));
        // A table of another machine is not merged but replaced.
        let moved = Validators { machine: vec!["there".to_owned()], ..validators.clone() };
        let (mut moved_table, none, note) = Shared::open(path.clone(), &moved);
        assert!(none == Stored::default() && note.is_some());
        moved_table.keep(&moved, &lines(&[("b.z", FEW)])).expect("it is written");
        assert_eq!(Shared::open(path.clone(), &moved).1, lines(&[("b.z", FEW)]));
        std::fs::remove_dir_all(&folder).expect("it can be removed");
    }
}
