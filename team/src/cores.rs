//! Which processors share a core, and so in which order a team takes them. A processor is a hardware thread.
//!
//! Linux tells it in files of its `sysfs`. Where these are absent, nothing is guessed.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Puts processors, given by ascending numbers, in the order in which a team takes them: the first of every core, then the
/// second ones, and so on, each by their numbers. Processors of one core share its arithmetic, so two threads on one core
/// would leave another core without work.
pub(crate) fn spread(processors: &[usize]) -> Vec<usize> {
    // The cores of a machine stay the same, and a team should be quick to start.
    static CORES: OnceLock<BTreeMap<usize, usize>> = OnceLock::new();
    match processors {
        // One processor has no order, and a system that does not tell them has no such files.
        [] | [_] => processors.to_vec(),
        _ => in_order(processors, CORES.get_or_init(|| cores(Path::new("/sys")))),
    }
}

/// The order of [`spread`] where for each processor the first one of its core is known. A processor that is missing counts
/// as a core of its own.
fn in_order(processors: &[usize], cores: &BTreeMap<usize, usize>) -> Vec<usize> {
    let mut of_core: BTreeMap<usize, usize> = BTreeMap::new();
    let ranked = processors.iter().map(|processor| {
        let rank = of_core.entry(*cores.get(processor).unwrap_or(processor)).or_default();
        *rank += 1;
        (*rank, *processor)
    });
    let mut order: Vec<(usize, usize)> = ranked.collect();
    order.sort_unstable();
    order.into_iter().map(|(_, processor)| processor).collect()
}

/// Returns for each processor the first one of its core, from the folder where `sysfs` is.
fn cores(root: &Path) -> BTreeMap<usize, usize> {
    let mut cores = BTreeMap::new();
    for (processor, folder) in numbered(&root.join("devices/system/cpu"), "cpu") {
        // The files of a core's first processor tell of the others.
        if !cores.contains_key(&processor) {
            let siblings = siblings(processor, &folder.join("topology"));
            cores.extend(siblings.into_iter().flatten().map(|sibling| (sibling, processor)));
        }
    }
    cores
}

/// Returns the processors that share the core of a processor, with itself, from its folder `topology`; `None` if it does not
/// tell them.
pub fn siblings(processor: usize, folder: &Path) -> Option<Vec<usize>> {
    // The second is the name before Linux 5.3.
    let files = ["core_cpus_list", "thread_siblings_list"];
    let siblings = files.iter().find_map(|file| list(&folder.join(file)));
    siblings.filter(|siblings| siblings.contains(&processor))
}

/// Returns the folders in a folder whose names are this word and a number, by the number.
pub fn numbered(folder: &Path, word: &str) -> BTreeMap<usize, PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |name: &str| name.strip_prefix(word)?.parse().ok();
    entries.filter_map(|entry| Some((number(entry.file_name().to_str()?)?, entry.path()))).collect()
}

/// Returns the processors in a file with a list such as `0-3,8`.
pub fn list(file: &Path) -> Option<Vec<usize>> {
    let text = std::fs::read_to_string(file).ok()?;
    let range = |part: &str| -> Option<RangeInclusive<usize>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    let ranges: Option<Vec<_>> = text.trim().split(',').filter(|part| !part.is_empty()).map(range).collect();
    Some(ranges?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with files as in `/sys`, which is removed when it is dropped.
    struct Files(PathBuf);

    impl Files {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("ovolo-cores-{}-{name}", std::process::id()));
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        /// The files of processors that share their cores with others.
        fn of(name: &str, processors: impl IntoIterator<Item = (usize, String)>) -> Self {
            let files = Self::new(name);
            // Folders beside those of processors.
            ["cpufreq", "cpuidle"].iter().for_each(|name| files.write(&format!("{name}/any"), ""));
            for (processor, siblings) in processors {
                files.write(&format!("cpu{processor}/topology/core_cpus_list"), &siblings);
            }
            files
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.0.join("devices/system/cpu").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }

        fn order(&self, processors: impl IntoIterator<Item = usize>) -> Vec<usize> {
            in_order(&processors.into_iter().collect::<Vec<_>>(), &cores(&self.0))
        }
    }

    impl Drop for Files {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// The list of a core whose processors have as many neighbouring numbers.
    fn neighbours(processor: usize, threads: usize) -> String {
        let first = processor / threads * threads;
        format!("{first}-{}", first + threads - 1)
    }

    #[test]
    fn cores_of_one_hardware_thread_are_taken_by_their_numbers() {
        let files = Files::of("virtual", (0..2).map(|processor| (processor, processor.to_string())));
        assert_eq!(files.order(0..2), [0, 1]);
    }

    #[test]
    fn second_hardware_threads_that_are_numbered_after_all_first_ones_stay_there() {
        let core = |processor: usize| format!("{},{}", processor % 8, processor % 8 + 8);
        let files = Files::of("desktop", (0..16).map(|processor| (processor, core(processor))));
        assert_eq!(files.order(0..16), (0..16).collect::<Vec<_>>());
    }

    #[test]
    fn of_hardware_threads_that_are_neighbours_the_first_ones_are_taken_first() {
        let files = Files::of("neighbours", (0..8).map(|processor| (processor, neighbours(processor, 2))));
        assert_eq!(files.order(0..8), [0, 2, 4, 6, 1, 3, 5, 7]);
        let files = Files::of("four", (0..8).map(|processor| (processor, neighbours(processor, 4))));
        assert_eq!(files.order(0..8), [0, 4, 1, 5, 2, 6, 3, 7]);
    }

    #[test]
    fn slow_cores_of_a_hybrid_processor_come_before_second_hardware_threads() {
        let core = |processor: usize| match processor {
            0..4 => neighbours(processor, 2),
            _ => processor.to_string(),
        };
        let files = Files::of("hybrid", (0..7).map(|processor| (processor, core(processor))));
        assert_eq!(files.order(0..7), [0, 2, 4, 5, 6, 1, 3]);
    }

    #[test]
    fn of_a_part_of_the_processors_the_first_ones_of_each_core_that_may_be_used_count() {
        let files = Files::of("part", (0..8).map(|processor| (processor, neighbours(processor, 2))));
        assert_eq!(files.order([1, 2, 3, 6]), [1, 2, 6, 3]);
        assert_eq!(files.order([1, 3, 5]), [1, 3, 5]);
        assert_eq!(files.order([4, 5]), [4, 5]);
        let core = |processor: usize| format!("{},{}", processor % 8, processor % 8 + 8);
        let files = Files::of("part-of-desktop", (0..16).map(|processor| (processor, core(processor))));
        assert_eq!(files.order([3, 10, 11]), [3, 10, 11]);
        assert_eq!(files.order([2, 3, 10, 12]), [2, 3, 12, 10]);
    }

    #[test]
    fn without_files_the_order_stays() {
        let files = Files::new("none");
        assert_eq!(files.order(0..4), [0, 1, 2, 3]);
        // A list that is none, and one without the processor itself.
        files.write("cpu0/topology/core_cpus_list", "none");
        files.write("cpu1/topology/core_cpus_list", "0,2-3");
        assert_eq!(files.order(0..4), [0, 1, 2, 3]);
        // Only some processors have their files, by the older name.
        files.write("cpu2/topology/thread_siblings_list", "2-3");
        assert_eq!(files.order(0..5), [0, 1, 2, 4, 3]);
        // There are no processors at all, or only one.
        assert_eq!([spread(&[]), spread(&[5])], [vec![], vec![5]]);
    }

    #[test]
    fn lists_are_of_numbers_and_ranges() {
        let files = Files::new("lists");
        let read = |text: &str| {
            files.write("list", text);
            list(&files.0.join("devices/system/cpu/list"))
        };
        assert_eq!(read("0-3,8"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(read(""), Some(vec![]));
        assert_eq!([read("0-"), read("a"), read("0 1")], [None, None, None]);
        assert_eq!(list(&files.0.join("absent")), None);
    }
}
