//! The topology of the processors that this process may use: their cores, kinds of cores, packages, NUMA nodes and caches.
//!
//! It is read from the files of Linux's `sysfs`. A virtual machine has the topology that its host tells it. On other
//! systems, and where the files are absent, the topology is unknown: nothing is guessed.

use ovolo::team::cores::{list, numbered};
use ovolo::team::{self, cores};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

/// The folders of `devices` by which Linux tells the kinds of Intel's cores apart, from the fastest kind on.
const KINDS: [&str; 3] = ["cpu_core", "cpu_atom", "cpu_lowpower"];

/// The least speed of a core of the same kind as a faster one, in percent of the speed of that one. Cores of one kind may
/// differ by a tenth, because some of them keep a higher clock; those of different kinds differ by a quarter and more.
const LIKE: u64 = 80;

/// The topology of some processors. A processor is a hardware thread, of which a core may have several.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Topology {
    /// The number of cores of which the process may use a processor.
    pub cores: usize,
    /// The number of processors that the process may use.
    pub threads: usize,
    /// The number of further processors of these cores, which the process may not use.
    pub other_threads: usize,
    /// The number of packages, if the system tells it.
    pub packages: Option<usize>,
    /// The number of NUMA nodes, if the system tells it.
    pub nodes: Option<usize>,
    /// The kinds of cores, from the fastest on.
    pub kinds: Vec<Kind>,
    /// The caches of data, by level; empty if the system does not tell them.
    pub caches: Vec<Cache>,
}

/// Cores of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kind {
    /// The system's name of the kind, if it has one.
    pub name: Option<String>,
    /// For each core, the processors that the process may use.
    pub processors: Vec<Vec<usize>>,
    /// The capacity of the fastest core, as the system's scheduler rates it: 1024 is that of the fastest core there is.
    pub capacity: Option<u64>,
    /// The greatest frequency of the fastest core, in hertz.
    pub hertz: Option<u64>,
}

/// Caches of one level and size that are shared by as many processors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cache {
    /// The level, from 1 on.
    pub level: u64,
    /// Whether it has instructions as well.
    pub unified: bool,
    /// The size of each, in bytes.
    pub bytes: u64,
    /// How many there are.
    pub count: usize,
    /// How many processors share each.
    pub shared_by: usize,
    /// How many of these the process may use.
    pub usable: usize,
}

/// Why a topology is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The processors are unknown.
    #[error("this system does not tell which processors a process may use")]
    Processors,
    /// A folder does not tell with which processors one shares its core.
    #[error("{} has no list of processors in core_cpus_list or thread_siblings_list", .0.display())]
    Core(PathBuf),
}

/// A core of which the process may use some processors.
struct Core {
    processors: Vec<usize>,
    capacity: Option<u64>,
    hertz: Option<u64>,
}

impl Topology {
    /// Returns the topology of the processors that the calling thread may use.
    ///
    /// # Errors
    /// The system does not tell it.
    pub fn here() -> Result<Self, Unknown> {
        Self::read(Path::new("/sys"), &team::allowed())
    }

    /// Returns the topology of some processors from the folder where `sysfs` is.
    ///
    /// # Errors
    /// There are no processors, or the folder does not tell which of them share a core.
    pub fn read(root: &Path, processors: &[usize]) -> Result<Self, Unknown> {
        if processors.is_empty() {
            return Err(Unknown::Processors);
        }
        let usable: BTreeSet<usize> = processors.iter().copied().collect();
        let devices = root.join("devices");
        let folder = |processor: usize| devices.join(format!("system/cpu/cpu{processor}"));
        let mut siblings: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
        for &processor in &usable {
            let topology = folder(processor).join("topology");
            let shared = cores::siblings(processor, &topology);
            siblings.entry(shared.ok_or(Unknown::Core(topology))?).or_default().push(processor);
        }
        let other_threads = siblings.keys().flatten().filter(|processor| !usable.contains(processor)).count();
        let cores: Vec<Core> = siblings
            .into_values()
            .map(|processors| {
                let folder = folder(processors[0]);
                let kilohertz = number(&folder.join("cpufreq/cpuinfo_max_freq"));
                let capacity = number(&folder.join("cpu_capacity"));
                Core { processors, capacity, hertz: kilohertz.map(|kilohertz| kilohertz * 1000) }
            })
            .collect();
        let package = |processor: &usize| number(&folder(*processor).join("topology/physical_package_id"));
        let packages: Option<BTreeSet<u64>> = usable.iter().map(package).collect();
        Ok(Self {
            cores: cores.len(),
            threads: usable.len(),
            other_threads,
            packages: packages.map(|packages| packages.len()),
            nodes: nodes(&devices.join("system/node"), &usable),
            kinds: kinds(&devices, cores),
            caches: caches(usable.iter().map(|&processor| folder(processor).join("cache")), &usable),
        })
    }

    /// Says what follows for the number of threads of a plan, where `threads` is the number that it has unless another
    /// one is named.
    pub fn advice(&self, threads: usize) -> Vec<String> {
        let mut advice = Vec::new();
        if threads < self.threads {
            let processors = if threads == 1 { "processor" } else { "processors" };
            advice.push(format!(
                "a quota limits this process to the time of {threads} {processors}, so the default is `--threads {threads}`"
            ));
        }
        // A team of no more threads than cores gives each a core of its own.
        if self.cores < threads {
            advice.push(format!(
                "hardware threads of one core share its arithmetic, and the default is `--threads {threads}`: measure \
                 `--threads {}` as well, which takes one hardware thread of each core",
                self.cores
            ));
        }
        if let [fast, _, ..] = &self.kinds[..] {
            advice.push(format!(
                "a step waits for its slowest core: measure `--threads {}` as well, on the cores of kind 1 alone \
                 (`taskset -c {}`)",
                fast.processors.len().min(threads),
                ranges(fast.one_of_each())
            ));
        }
        advice
    }
}

impl Kind {
    /// Returns the first processor of each core.
    fn one_of_each(&self) -> impl Iterator<Item = usize> {
        self.processors.iter().filter_map(|core| core.first().copied())
    }
}

/// Lines for people, without an end of the last one.
impl Display for Topology {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "cores: {}, hardware threads: {}", self.cores, self.threads)?;
        let more = [("packages", self.packages), ("NUMA nodes", self.nodes)];
        for (what, count) in more.into_iter().chain([("kinds of cores", Some(self.kinds.len()))]) {
            if let Some(count) = count.filter(|count| *count > 1) {
                write!(f, ", {what}: {count}")?;
            }
        }
        if self.other_threads > 0 {
            write!(
                f,
                "\nhardware threads of these cores that this process may not use: {}",
                self.other_threads
            )?;
        }
        if self.kinds.len() > 1 {
            let rated = self.kinds.iter().any(|kind| kind.capacity != self.kinds[0].capacity);
            for (at, kind) in self.kinds.iter().enumerate() {
                write!(f, "\ncores of kind {}", at + 1)?;
                if let Some(name) = &kind.name {
                    write!(f, " ({name})")?;
                }
                let processors = ranges(kind.processors.iter().flatten().copied());
                write!(f, ": {}, processors {processors}", kind.processors.len())?;
                if let Some(capacity) = kind.capacity.filter(|_| rated) {
                    write!(f, ", capacity {capacity}")?;
                }
                if let Some(hertz) = kind.hertz {
                    let megahertz = hertz / 1_000_000;
                    write!(f, ", up to {}.{:02} GHz", megahertz / 1000, megahertz % 1000 / 10)?;
                }
            }
        }
        if self.caches.is_empty() {
            write!(f, "\ncaches: unknown, because the system does not tell them")?;
        }
        self.caches.iter().try_for_each(|cache| write!(f, "\n{cache}"))
    }
}

impl Display for Cache {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { level, unified, bytes, count, shared_by, usable } = *self;
        write!(f, "level {level} {}: ", if unified { "cache" } else { "data cache" })?;
        if count > 1 {
            write!(f, "{count} x ")?;
        }
        write!(f, "{}, {}", size(bytes), if count > 1 { "each " } else { "" })?;
        match shared_by {
            1 => write!(f, "of one processor"),
            _ if usable == shared_by => write!(f, "shared by {shared_by} processors"),
            _ => write!(f, "shared by {shared_by} processors, of which this process may use {usable}"),
        }
    }
}

/// Divides cores into kinds: by the system's names of kinds, and cores of one name by their speeds.
fn kinds(devices: &Path, cores: Vec<Core>) -> Vec<Kind> {
    let named = KINDS.map(|name| list(&devices.join(name).join("cpus")).unwrap_or_default());
    let mut by_name: BTreeMap<usize, Vec<Core>> = BTreeMap::new();
    for core in cores {
        let name = named.iter().position(|processors| processors.contains(&core.processors[0]));
        by_name.entry(name.unwrap_or(KINDS.len())).or_default().push(core);
    }
    let mut kinds = Vec::new();
    for (name, cores) in by_name {
        let parts = by_speed(cores, |core| core.capacity).into_iter();
        for mut cores in parts.flat_map(|cores| by_speed(cores, |core| core.hertz)) {
            cores.sort_by(|a, b| a.processors.cmp(&b.processors));
            kinds.push(Kind {
                name: KINDS.get(name).map(|name| (*name).to_owned()),
                capacity: cores.iter().filter_map(|core| core.capacity).max(),
                hertz: cores.iter().filter_map(|core| core.hertz).max(),
                processors: cores.into_iter().map(|core| core.processors).collect(),
            });
        }
    }
    kinds
}

/// Divides cores into groups of about the same speed, the fastest group first; one group if a speed is unknown.
fn by_speed(mut cores: Vec<Core>, speed: impl Fn(&Core) -> Option<u64>) -> Vec<Vec<Core>> {
    if cores.iter().any(|core| speed(core).is_none()) {
        return vec![cores];
    }
    let speed = |core: &Core| speed(core).unwrap_or_default();
    cores.sort_by_key(|core| Reverse(speed(core)));
    let mut groups: Vec<Vec<Core>> = Vec::new();
    for core in cores {
        match groups.last_mut().filter(|group| 100 * speed(&core) >= LIKE * speed(&group[0])) {
            Some(group) => group.push(core),
            None => groups.push(vec![core]),
        }
    }
    groups
}

/// Returns the number of NUMA nodes that have some of these processors.
fn nodes(folder: &Path, usable: &BTreeSet<usize>) -> Option<usize> {
    let nodes = numbered(folder, "node");
    let lists = nodes.values().filter_map(|node| list(&node.join("cpulist")));
    let count = lists.filter(|list| list.iter().any(|processor| usable.contains(processor))).count();
    (count > 0).then_some(count)
}

/// Returns the caches of data in the folders of some processors.
fn caches(folders: impl Iterator<Item = PathBuf>, usable: &BTreeSet<usize>) -> Vec<Cache> {
    let mut each = BTreeMap::new();
    for folder in folders.flat_map(|folder| numbered(&folder, "index").into_values()) {
        let unified = match text(&folder.join("type")).as_deref() {
            Some("Data") => false,
            Some("Unified") => true,
            _ => continue,
        };
        let bytes = || text(&folder.join("size"))?.strip_suffix('K')?.parse::<u64>().ok();
        let shared = list(&folder.join("shared_cpu_list"));
        if let (Some(level), Some(shared), Some(bytes)) = (number(&folder.join("level")), shared, bytes()) {
            each.insert((level, unified, shared), bytes * 1024);
        }
    }
    let mut caches: Vec<Cache> = Vec::new();
    for ((level, unified, shared), bytes) in each {
        let usable = shared.iter().filter(|processor| usable.contains(processor)).count();
        let one = Cache { level, unified, bytes, count: 1, shared_by: shared.len(), usable };
        match caches.iter_mut().find(|cache| Cache { count: 1, ..**cache } == one) {
            Some(cache) => cache.count += 1,
            None => caches.push(one),
        }
    }
    caches
}

/// Returns what a file of one line says.
fn text(file: &Path) -> Option<String> {
    Some(std::fs::read_to_string(file).ok()?.trim().to_owned())
}

fn number(file: &Path) -> Option<u64> {
    text(file)?.parse().ok()
}

/// Writes processors as a list such as `0-3,8`.
fn ranges(processors: impl Iterator<Item = usize>) -> String {
    let mut processors: Vec<usize> = processors.collect();
    processors.sort_unstable();
    let parts = processors.chunk_by(|a, b| a + 1 == *b).map(|range| match range {
        [first, .., last] => format!("{first}-{last}"),
        one => one.iter().map(ToString::to_string).collect(),
    });
    parts.collect::<Vec<_>>().join(",")
}

/// Writes bytes exactly, in KiB or MiB.
fn size(bytes: u64) -> String {
    match bytes % (1 << 18) {
        0 if bytes >= 1 << 20 => {
            let part = ["", ".25", ".5", ".75"][usize::try_from(bytes >> 18).unwrap_or(0) % 4];
            format!("{}{part} MiB", bytes >> 20)
        }
        _ => format!("{} KiB", bytes >> 10),
    }
}
