//! Answers of the library: a file in the build folder for each device and version of the library.
//!
//! A line tells what became of one graph, which is asked about once. Lines are written as soon as there is an answer, so
//! an interrupted survey goes on where it was.

use ovolo::file;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Separates the reasons of a line.
const AND: &str = " | ";
/// Begins the reason of an engine that failed other than by refusing, which is a mistake of ours or of the library.
const FAILED: &str = "failed: ";

/// What the library answered for a graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The op whose calls have the graph.
    pub op: String,
    /// How many engines the library named that compute what calls require.
    pub engines: usize,
    /// How many of these rules can choose.
    pub offered: usize,
    /// How many of the offered ones are finalised and need no more scratch than a plan reserves.
    pub finalised: usize,
    /// The most bytes of scratch that a finalised one needs.
    pub scratch: usize,
    /// The milliseconds that the slowest took to finalise.
    pub slowest: u128,
    /// Why others are not finalised, or why there is no engine.
    pub reasons: Vec<String>,
}

impl Answer {
    /// Adds the reason of an engine that is not finalised.
    pub fn add_reason(&mut self, unsupported: bool, text: &str) {
        let text = text.replace(['\t', '\n'], " ").replace(AND, " / ");
        self.reasons.push(if unsupported { text } else { format!("{FAILED}{text}") });
    }

    /// Returns what is wrong with the answer: an offered engine without an outcome, or one that failed.
    pub fn mistake(&self) -> Option<String> {
        let expected = if self.engines == 0 { 1 } else { self.offered - self.finalised.min(self.offered) };
        if self.finalised > self.offered || self.offered > self.engines || self.reasons.len() != expected {
            return Some(format!("the numbers contradict each other: {self:?}"));
        }
        self.reasons.iter().find(|why| why.starts_with(FAILED)).cloned()
    }

    fn read(parts: &[&str]) -> Option<Self> {
        let [op, engines, offered, finalised, scratch, slowest, reasons] = parts else { return None };
        let reasons =
            if reasons.is_empty() { Vec::new() } else { reasons.split(AND).map(str::to_owned).collect() };
        Some(Self {
            op: (*op).to_owned(),
            engines: engines.parse().ok()?,
            offered: offered.parse().ok()?,
            finalised: finalised.parse().ok()?,
            scratch: scratch.parse().ok()?,
            slowest: slowest.parse().ok()?,
            reasons,
        })
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, engines, offered, finalised, scratch, slowest, reasons } = self;
        write!(f, "{op}\t{engines}\t{offered}\t{finalised}\t{scratch}\t{slowest}\t{}", reasons.join(AND))
    }
}

/// The answers for a device and a version of the library.
#[derive(Default)]
pub struct Store {
    file: PathBuf,
    /// The answers by the digests of the graphs' texts.
    known: BTreeMap<String, Answer>,
}

impl Store {
    /// Returns the file of a device and a version.
    pub fn file(folder: &Path, device: &str, version: usize) -> PathBuf {
        folder.join(format!("{device}-{version}.tsv"))
    }

    /// Reads a file, which may be absent. Panics if it has a line that is no answer, or two for a graph.
    pub fn open(file: &Path) -> Self {
        let mut store = Self { file: file.to_owned(), ..Self::default() };
        let text = std::fs::read_to_string(file).unwrap_or_default();
        // A survey that was interrupted while it wrote leaves a line without an end.
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        if whole.len() < text.len() {
            file::write(file, &[whole.as_bytes()]).expect("the file can be written");
        }
        for line in whole.lines() {
            store.read(line).unwrap_or_else(|| panic!("{}: `{line}` is no new answer", file.display()));
        }
        store
    }

    fn read(&mut self, line: &str) -> Option<()> {
        let parts: Vec<&str> = line.split('\t').collect();
        let (graph, rest) = parts.split_first()?;
        self.known.insert((*graph).to_owned(), Answer::read(rest)?).is_none().then_some(())
    }

    /// Returns the answer for a graph.
    pub fn known(&self, graph: &str) -> Option<&Answer> {
        self.known.get(graph)
    }

    /// Keeps the answer for a graph that has none.
    pub fn keep(&mut self, graph: &str, answer: &Answer) {
        let line = format!("{graph}\t{answer}");
        self.read(&line).unwrap_or_else(|| panic!("`{line}` is no new answer"));
        file::append(&self.file, format!("{line}\n").as_bytes()).expect("the file can be written");
    }
}

/// An answer that accounts for too few engines, or that holds a failure, is noticed, and so is a second one for a
/// graph. What was written before an interruption is kept.
#[test]
fn wrong_answers_are_noticed_and_interruptions_harmless() {
    let folder = std::env::temp_dir().join(format!("ovolo-survey-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder can be made");
    let file = Store::file(&folder, "H100", 92_800);
    let mut answer =
        Answer { op: "cudnn.attention".into(), engines: 3, offered: 2, finalised: 2, ..Answer::default() };
    let mut store = Store::open(&file);
    store.keep("one", &answer);
    assert_eq!(answer.mistake(), None);
    answer.finalised = 1;
    assert!(answer.mistake().is_some());
    answer.add_reason(true, "the library\nhas no kernel");
    assert_eq!(answer.mistake(), None);
    store.keep("two", &answer);
    answer.reasons.clear();
    answer.add_reason(false, "bad parameter");
    assert_eq!(answer.mistake().as_deref(), Some("failed: bad parameter"));
    let text = std::fs::read_to_string(&file).expect("the file was written");
    file::write(&file, &[text.as_bytes(), b"thr"]).expect("the file can be written");
    let mut store = Store::open(&file);
    assert_eq!(std::fs::read_to_string(&file).expect("the file is there"), text);
    assert_eq!(store.known("one").map(|answer| answer.finalised), Some(2));
    assert_eq!(store.known("two").map(|answer| answer.finalised), Some(1));
    assert!(std::panic::catch_unwind(move || store.keep("one", &answer)).is_err(), "there are two answers");
    std::fs::remove_dir_all(&folder).expect("the folder can be removed");
}
