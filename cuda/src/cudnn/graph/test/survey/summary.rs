//! The counted answers of the library: a file in the repository, and a table of it in the documentation.
//!
//! The file has a line for each version, device, pipeline, batch and network, and one for all networks together, which
//! share graphs. Only lines of combinations all of whose graphs have answers are there.

use super::store::Answer;
use super::{DEVICES, OTHER, PIPELINES, batches, device_name, names};
use ovolo::file;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

/// The name of all networks together.
pub const ALL: &str = "all";
/// The first line of the file.
const HEAD: &str = "cuDNN\tdevice\tpipeline\tbatch\tnetwork\tgraphs\twithout an engine\tengines\toffered by rules\t\
                    finalised\tmost scratch bytes\tslowest ms";
/// The lines around the table in the documentation.
const BEGIN: &str = "<!-- The survey of cuDNN: a test compares it with cuda/survey.tsv. -->\n";
const END: &str = "<!-- The end of the survey. -->\n";

/// A combination of what graphs are asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub version: usize,
    pub device: String,
    pub pipeline: String,
    pub batch: usize,
}

/// The counts of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub network: String,
    pub graphs: usize,
    /// How many graphs have no engine.
    without: usize,
    /// How many engines the library names that compute what calls require.
    engines: usize,
    /// How many of these rules can choose, and how many of those are finalised; the library refuses the others.
    offered: usize,
    finalised: usize,
    /// The most bytes of scratch memory that an engine needs.
    scratch: usize,
    /// The milliseconds that the slowest engine took to finalise.
    slowest: u128,
    place: Place,
}

impl Line {
    /// Counts the answers of a network.
    pub fn new<'a>(place: &Place, network: &str, answers: impl Iterator<Item = &'a Answer>) -> Self {
        let mut line = Self {
            network: network.to_owned(),
            graphs: 0,
            without: 0,
            engines: 0,
            offered: 0,
            finalised: 0,
            scratch: 0,
            slowest: 0,
            place: place.clone(),
        };
        for answer in answers {
            line.graphs += 1;
            line.without += usize::from(answer.engines == 0);
            line.engines += answer.engines;
            line.offered += answer.offered;
            line.finalised += answer.finalised;
            line.scratch = line.scratch.max(answer.scratch);
            line.slowest = line.slowest.max(answer.slowest);
        }
        line
    }

    /// Returns the counts without the time, which is another one in each run.
    pub fn but_slowest(&self) -> Self {
        Self { slowest: 0, ..self.clone() }
    }

    fn read(line: &str) -> Option<Self> {
        let parts: Vec<&str> = line.split('\t').collect();
        let [version, device, pipeline, batch, network, counts @ ..] = parts.as_slice() else { return None };
        let counts: Vec<usize> = counts.iter().map(|count| count.parse().ok()).collect::<Option<_>>()?;
        let [graphs, without, engines, offered, finalised, scratch, slowest] = counts[..] else {
            return None;
        };
        let place = Place {
            version: version.parse().ok()?,
            device: (*device).to_owned(),
            pipeline: (*pipeline).to_owned(),
            batch: batch.parse().ok()?,
        };
        let (network, slowest) = ((*network).to_owned(), slowest as u128);
        Some(Self { network, graphs, without, engines, offered, finalised, scratch, slowest, place })
    }

    /// Returns what is wrong with the counts.
    fn mistake(&self) -> Option<&str> {
        let Self { graphs, without, engines, offered, finalised, .. } = self;
        if finalised > offered || offered > engines || without > graphs {
            return Some("a part is larger than the whole");
        }
        (graphs > without && *finalised == 0).then_some("no engine is finalised")
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { version, device, pipeline, batch } = &self.place;
        let Self { network, graphs, without, engines, offered, finalised, scratch, slowest, .. } = self;
        write!(f, "{version}\t{device}\t{pipeline}\t{batch}\t{network}\t{graphs}\t{without}\t{engines}\t")?;
        write!(f, "{offered}\t{finalised}\t{scratch}\t{slowest}")
    }
}

/// All counts, by their combinations.
#[derive(Default)]
pub struct Summary(BTreeMap<Place, Vec<Line>>);

impl Summary {
    /// Reads the file of the repository.
    pub fn open() -> Self {
        let text = std::fs::read_to_string(counts()).unwrap_or_default();
        let mut summary = Self::default();
        for line in text.lines().skip(1) {
            let line = Line::read(line).unwrap_or_else(|| panic!("`{line}` is no line of counts"));
            summary.0.entry(line.place.clone()).or_default().push(line);
        }
        summary
    }

    /// Returns whether a combination is counted.
    pub fn has(&self, place: &Place) -> bool {
        self.0.contains_key(place)
    }

    /// Returns the counts of a network.
    pub fn line(&self, place: &Place, network: &str) -> Option<&Line> {
        self.0.get(place)?.iter().find(|line| line.network == network)
    }

    /// Adds the counts of a combination, and writes the file.
    pub fn add(mut self, lines: Vec<Line>) {
        let place = lines.first().expect("there are counts").place.clone();
        self.0.insert(place, lines);
        let lines: String = self.0.values().flatten().map(|line| format!("{line}\n")).collect();
        file::write(&counts(), &[HEAD.as_bytes(), b"\n", lines.as_bytes()]).expect("the file can be written");
    }

    /// Returns the table: the newest version first, and each device with all pipelines and batches.
    fn table(&self) -> String {
        let mut text =
            "| cuDNN | Device | Pipeline | Batch | Graphs | Without an engine | Engines | Offered by rules | \
             Finalised | Refused | Most scratch, MiB | Slowest, s |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n"
                .to_owned();
        let mut places: Vec<&Place> = self.0.keys().collect();
        let at = |name: &str, all: &[String]| all.iter().position(|one| one == name);
        let (devices, pipelines) = (DEVICES.map(device_name), PIPELINES.map(str::to_owned));
        places.sort_by_key(|place| {
            (
                usize::MAX - place.version,
                at(&place.device, &devices),
                at(&place.pipeline, &pipelines),
                place.batch,
            )
        });
        for place in &places {
            let line = self.line(place, ALL).expect("all networks are counted");
            let _ = writeln!(
                text,
                "| {}.{} | {} | `{}` | {} | {} | {} | {} | {} | {} | {} | {} | {}.{} |",
                place.version / 10_000,
                place.version / 100 % 100,
                place.device.replace('-', " "),
                place.pipeline,
                place.batch,
                line.graphs,
                line.without,
                line.engines,
                line.offered,
                line.finalised,
                line.offered - line.finalised,
                line.scratch.div_ceil(1 << 20),
                line.slowest / 1000,
                line.slowest % 1000 / 100,
            );
        }
        let all = 2 * DEVICES.len() * PIPELINES.len() * batches().len();
        let _ = write!(
            text,
            "\n{} of the {all} combinations of two versions, three devices, four pipelines and three batches are \
             complete. No device has run them.\n",
            places.len()
        );
        text
    }
}

/// Returns the file of the repository.
fn counts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("survey.tsv")
}

/// The documentation has the table of the counts. With `INSTA_UPDATE=always` it is written there.
#[test]
fn the_documentation_has_the_counts() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/CUDA.md");
    let text = std::fs::read_to_string(&page).expect("the page is in the repository");
    let (before, rest) = text.split_once(BEGIN).expect("the page marks where the table begins");
    let (there, after) = rest.split_once(END).expect("the page marks where the table ends");
    let expected = format!("\n{}\n", Summary::open().table());
    if there != expected && std::env::var_os("INSTA_UPDATE").is_some_and(|how| how == "always") {
        file::write(&page, &[before, BEGIN, &expected, END, after].map(str::as_bytes))
            .expect("the page can be written");
        return;
    }
    assert_eq!(there, expected, "`INSTA_UPDATE=always` writes the table");
}

/// Each combination has all its networks, with counts that fit each other, and all graphs are those of some network.
#[test]
fn counts_are_complete() {
    let summary = Summary::open();
    assert!(!summary.0.is_empty(), "nothing is counted");
    for (place, lines) in &summary.0 {
        let mut expected: Vec<&str> = names();
        expected.extend((place.batch == 1).then_some(OTHER));
        expected.push(ALL);
        assert_eq!(lines.iter().map(|line| line.network.as_str()).collect::<Vec<_>>(), expected, "{place:?}");
        for line in lines {
            assert_eq!(line.mistake(), None, "{line}");
        }
        let (all, networks) = lines.split_last().expect("there are counts");
        let graphs = networks.iter().map(|line| line.graphs);
        assert!(all.graphs <= graphs.clone().sum() && all.graphs >= graphs.max().unwrap_or(0), "{all}");
        let scratch = networks.iter().map(|line| line.scratch).max();
        assert_eq!(scratch, Some(all.scratch), "{all}");
    }
}

/// Counts that contradict each other are noticed, and a line is read as it was written.
#[test]
fn wrong_counts_are_noticed() {
    let place = Place { version: 92_800, device: "H100".to_owned(), pipeline: "cuda".to_owned(), batch: 8 };
    let answer = Answer { engines: 3, offered: 2, finalised: 2, scratch: 7, ..Answer::default() };
    let none = Answer::default();
    let line = Line::new(&place, "one", [&answer, &answer, &none].into_iter());
    assert_eq!(line.to_string(), "92800\tH100\tcuda\t8\tone\t3\t1\t6\t4\t4\t7\t0");
    assert_eq!(Line::read(&line.to_string()), Some(line.clone()));
    assert_eq!(line.mistake(), None);
    assert!(Line { finalised: 5, ..line.clone() }.mistake().is_some());
    assert!(Line { finalised: 0, ..line }.mistake().is_some());
    assert_eq!(Line::read("92800\tH100\tcuda\t8\tone\t3"), None);
}
