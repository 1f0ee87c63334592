//! Tests what is read of a machine's processors, in folders such as those of Linux.
#![allow(clippy::unwrap_used)]

#[path = "../../tests/common/mod.rs"]
mod common;

use ovolo_tune::topology::{Topology, Unknown};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A folder with files as in `/sys`.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Self {
        Self(common::folder(&format!("topology-{name}")))
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.join("devices").join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{text}\n")).unwrap();
    }

    /// Adds a processor of package 0 which shares its core with these.
    fn processor(&self, number: usize, siblings: &str) {
        let topology = format!("system/cpu/cpu{number}/topology");
        self.write(&format!("{topology}/core_cpus_list"), siblings);
        self.write(&format!("{topology}/physical_package_id"), "0");
    }

    /// Adds the caches of a processor: level, type, size, and the processors that share it.
    fn caches(&self, number: usize, caches: &[(&str, &str, &str, &str)]) {
        for (index, (level, kind, size, shared)) in caches.iter().enumerate() {
            let folder = format!("system/cpu/cpu{number}/cache/index{index}");
            for (file, text) in
                [("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)]
            {
                self.write(&format!("{folder}/{file}"), text);
            }
        }
    }

    fn kilohertz(&self, number: usize, kilohertz: &str) {
        self.write(&format!("system/cpu/cpu{number}/cpufreq/cpuinfo_max_freq"), kilohertz);
    }

    fn read(&self, processors: impl IntoIterator<Item = usize>) -> Result<Topology, Unknown> {
        Topology::read(&self.0, &processors.into_iter().collect::<Vec<_>>())
    }
}

/// What is said of processors, with what follows if as many threads are the default.
#[track_caller]
fn says(topology: &Topology, threads: usize, lines: &[&str], advice: &[&str]) {
    assert_eq!(topology.to_string().lines().collect::<Vec<_>>(), lines);
    assert_eq!(topology.advice(threads), advice);
}

/// Two processors of a virtual machine.
fn virtual_machine(name: &str) -> Files {
    let files = Files::new(name);
    for number in 0..2 {
        let own = number.to_string();
        files.processor(number, &own);
        files.write(&format!("system/cpu/cpu{number}/cpu_capacity"), "1024");
        let level_1 = [("1", "Data", "32K", &*own), ("1", "Instruction", "32K", &*own)];
        let others = [("2", "Unified", "1024K", &*own), ("3", "Unified", "32768K", "0-1")];
        files.caches(number, &[level_1, others].concat());
    }
    files.write("system/node/node0/cpulist", "0-1");
    files.write("system/node/online", "0");
    files
}

/// Eight cores of two hardware threads: 0 and 8, 1 and 9. Some of them keep a higher clock.
fn desktop(name: &str) -> Files {
    let files = Files::new(name);
    for number in 0..16 {
        let core = format!("{},{}", number % 8, number % 8 + 8);
        files.processor(number, &core);
        files.kilohertz(number, if number % 8 < 2 { "5050000" } else { "4550000" });
        let level_1 = [("1", "Data", "32K", &*core), ("1", "Instruction", "32K", &*core)];
        let others = [("2", "Unified", "512K", &*core), ("3", "Unified", "32768K", "0-15")];
        files.caches(number, &[level_1, others].concat());
    }
    files.write("system/node/node0/cpulist", "0-15");
    files
}

/// Six fast cores of two hardware threads, 0 and 1, 2 and 3, and eight slow ones of one.
fn hybrid(name: &str) -> Files {
    let files = Files::new(name);
    let core = |number: usize| match number {
        0..12 => format!("{}-{}", number / 2 * 2, number / 2 * 2 + 1),
        _ => number.to_string(),
    };
    for number in 0..20 {
        let core = core(number);
        files.processor(number, &core);
        let four = if number < 16 { "12-15" } else { "16-19" };
        let (hertz, level_1, level_2) = match number {
            0..12 => ("5000000", "48K", ("2", "Unified", "1280K", &*core)),
            _ => ("3800000", "32K", ("2", "Unified", "2048K", four)),
        };
        files.kilohertz(number, hertz);
        files.caches(number, &[("1", "Data", level_1, &core), level_2, ("3", "Unified", "24576K", "0-19")]);
    }
    files.write("cpu_core/cpus", "0-11");
    files.write("cpu_atom/cpus", "12-19");
    files.write("system/node/node0/cpulist", "0-19");
    files
}

#[test]
fn a_virtual_machine_has_cores_of_one_hardware_thread() {
    let topology = virtual_machine("virtual").read(0..2).unwrap();
    let lines = [
        "cores: 2, hardware threads: 2",
        "level 1 data cache: 2 x 32 KiB, each of one processor",
        "level 2 cache: 2 x 1 MiB, each of one processor",
        "level 3 cache: 32 MiB, shared by 2 processors",
    ];
    says(&topology, 2, &lines, &[]);
    let cache = |level: u64, bytes: u64, count: usize, shared: usize| {
        json!({
            "level": level, "unified": level > 1, "bytes": bytes, "count": count, "shared_by": shared, "usable": shared,
        })
    };
    let expected = json!({
        "cores": 2, "threads": 2, "other_threads": 0, "packages": 1, "nodes": 1,
        "kinds": [{ "name": null, "processors": [[0], [1]], "capacity": 1024, "hertz": null }],
        "caches": [cache(1, 32 << 10, 2, 1), cache(2, 1 << 20, 2, 1), cache(3, 32 << 20, 1, 2)],
    });
    assert_eq!(serde_json::to_value(&topology).unwrap(), expected);
}

#[test]
fn hardware_threads_of_one_core_share_its_arithmetic() {
    let topology = desktop("desktop").read(0..16).unwrap();
    let lines = [
        "cores: 8, hardware threads: 16",
        "level 1 data cache: 8 x 32 KiB, each shared by 2 processors",
        "level 2 cache: 8 x 512 KiB, each shared by 2 processors",
        "level 3 cache: 32 MiB, shared by 16 processors",
    ];
    let advice = "hardware threads of one core share its arithmetic, and the default is `--threads 16`: measure \
                  `--threads 8` as well, which takes one hardware thread of each core";
    says(&topology, 16, &lines, &[advice]);
    let quota = |threads: usize| {
        format!(
            "a quota limits this process to the time of {threads} processors, so the default is `--threads {threads}`"
        )
    };
    let advice = "hardware threads of one core share its arithmetic, and the default is `--threads 12`: measure \
                  `--threads 8` as well, which takes one hardware thread of each core";
    says(&topology, 12, &lines, &[&quota(12), advice]);
    // As many threads as cores, and fewer, have a core each.
    says(&topology, 8, &lines, &[&quota(8)]);
    says(&topology, 4, &lines, &[&quota(4)]);
    let json = serde_json::to_value(&topology).unwrap();
    let cores: Vec<Value> = (0..8).map(|core| json!([core, core + 8])).collect();
    let kind = json!({ "name": null, "processors": cores, "capacity": null, "hertz": 5_050_000_000_u64 });
    assert_eq!(json["kinds"], json!([kind]));
    assert_eq!([&json["cores"], &json["threads"], &json["other_threads"]], [8, 16, 0]);
}

#[test]
fn steps_wait_for_the_slow_cores_of_a_hybrid_processor() {
    let files = hybrid("hybrid");
    let topology = files.read(0..20).unwrap();
    let lines = [
        "cores: 14, hardware threads: 20, kinds of cores: 2",
        "cores of kind 1 (cpu_core): 6, processors 0-11, up to 5.00 GHz",
        "cores of kind 2 (cpu_atom): 8, processors 12-19, up to 3.80 GHz",
        "level 1 data cache: 6 x 48 KiB, each shared by 2 processors",
        "level 1 data cache: 8 x 32 KiB, each of one processor",
        "level 2 cache: 6 x 1.25 MiB, each shared by 2 processors",
        "level 2 cache: 2 x 2 MiB, each shared by 4 processors",
        "level 3 cache: 24 MiB, shared by 20 processors",
    ];
    let advice = [
        "hardware threads of one core share its arithmetic, and the default is `--threads 20`: measure `--threads 14` \
         as well, which takes one hardware thread of each core",
        "a step waits for its slowest core: measure `--threads 6` as well, on the cores of kind 1 alone (`taskset -c \
         0,2,4,6,8,10`)",
    ];
    says(&topology, 20, &lines, &advice);
    let json = serde_json::to_value(&topology).unwrap();
    let fast: Vec<Value> = (0..6).map(|core| json!([2 * core, 2 * core + 1])).collect();
    let slow: Vec<Value> = (12..20).map(|processor| json!([processor])).collect();
    let expected = json!([
        { "name": "cpu_core", "processors": fast, "capacity": null, "hertz": 5_000_000_000_u64 },
        { "name": "cpu_atom", "processors": slow, "capacity": null, "hertz": 3_800_000_000_u64 },
    ]);
    assert_eq!(json["kinds"], expected);
    // A process that may use the slow cores alone waits for no other ones.
    let lines = [
        "cores: 4, hardware threads: 4",
        "level 1 data cache: 4 x 32 KiB, each of one processor",
        "level 2 cache: 2 MiB, shared by 4 processors",
        "level 3 cache: 24 MiB, shared by 20 processors, of which this process may use 4",
    ];
    says(&files.read(12..16).unwrap(), 4, &lines, &[]);
    // Some slow cores are slower than others of the same name.
    (18..20).for_each(|number| files.kilohertz(number, "2500000"));
    let topology = files.read(0..20).unwrap();
    let kinds: Vec<_> =
        topology.kinds.iter().map(|kind| (kind.name.as_deref(), kind.processors.len())).collect();
    assert_eq!(kinds, [(Some("cpu_core"), 6), (Some("cpu_atom"), 6), (Some("cpu_atom"), 2)]);
}

#[test]
fn a_process_with_a_part_of_the_processors_is_told_of_its_part() {
    let files = desktop("part");
    let lines = [
        "cores: 4, hardware threads: 4",
        "hardware threads of these cores that this process may not use: 4",
        "level 1 data cache: 4 x 32 KiB, each shared by 2 processors, of which this process may use 1",
        "level 2 cache: 4 x 512 KiB, each shared by 2 processors, of which this process may use 1",
        "level 3 cache: 32 MiB, shared by 16 processors, of which this process may use 4",
    ];
    let topology = files.read(0..4).unwrap();
    says(&topology, 4, &lines, &[]);
    let json = serde_json::to_value(&topology).unwrap();
    assert_eq!([&json["cores"], &json["threads"], &json["other_threads"]], [4, 4, 4]);
    assert_eq!([&json["caches"][2]["shared_by"], &json["caches"][2]["usable"]], [16, 4]);
    // The second hardware threads of some cores.
    let topology = files.read([3, 10, 11]).unwrap();
    assert_eq!(topology.kinds[0].processors, [vec![3, 11], vec![10]]);
    assert_eq!((topology.cores, topology.threads, topology.other_threads), (2, 3, 1));
    let advice = "hardware threads of one core share its arithmetic, and the default is `--threads 3`: measure \
                  `--threads 2` as well, which takes one hardware thread of each core";
    assert_eq!(topology.advice(3), [advice]);
}

#[test]
fn cores_are_told_apart_by_their_capacity() {
    let files = Files::new("capacity");
    for number in 0..4 {
        files.processor(number, &number.to_string());
        let capacity = if number < 2 { "430" } else { "1024" };
        files.write(&format!("system/cpu/cpu{number}/cpu_capacity"), capacity);
    }
    let lines = [
        "cores: 4, hardware threads: 4, kinds of cores: 2",
        "cores of kind 1: 2, processors 2-3, capacity 1024",
        "cores of kind 2: 2, processors 0-1, capacity 430",
        "caches: unknown, because the system does not tell them",
    ];
    let advice = "a step waits for its slowest core: measure `--threads 2` as well, on the cores of kind 1 alone (`taskset -c 2-3`)";
    says(&files.read(0..4).unwrap(), 4, &lines, &[advice]);
}

#[test]
fn packages_and_nodes_are_counted_where_processors_are_of_more_than_one() {
    let files = Files::new("packages");
    for number in 0..8 {
        files.processor(number, &number.to_string());
        let package = if number < 4 { "0" } else { "1" };
        files.write(&format!("system/cpu/cpu{number}/topology/physical_package_id"), package);
    }
    for (node, processors) in ["0-1", "2-3", "4-5", "6-7", ""].iter().enumerate() {
        files.write(&format!("system/node/node{node}/cpulist"), processors);
    }
    let first = |processors| files.read(processors).unwrap().to_string().lines().next().unwrap().to_owned();
    assert_eq!(first(0..8), "cores: 8, hardware threads: 8, packages: 2, NUMA nodes: 4");
    assert_eq!(first(2..4), "cores: 2, hardware threads: 2");
}

#[test]
fn what_is_not_told_is_not_guessed() {
    let files = Files::new("none");
    assert_eq!(
        files.read([]).unwrap_err().to_string(),
        "this system does not tell which processors a process may use"
    );
    let folder = files.0.join("devices/system/cpu/cpu0/topology");
    let lists = "has no list of processors in core_cpus_list or thread_siblings_list";
    let unknown = || files.read([0]).unwrap_err().to_string();
    assert_eq!(unknown(), format!("{} {lists}", folder.display()));
    files.write("system/cpu/cpu0/topology/core_cpus_list", "none");
    assert_eq!(unknown(), format!("{} {lists}", folder.display()));
    // The list of a core under its name before Linux 5.3, and nothing else.
    files.write("system/cpu/cpu0/topology/thread_siblings_list", "0-1");
    let topology = files.read([0]).unwrap();
    let json = json!({
        "cores": 1, "threads": 1, "other_threads": 1, "packages": null, "nodes": null,
        "kinds": [{ "name": null, "processors": [[0]], "capacity": null, "hertz": null }], "caches": [],
    });
    assert_eq!(serde_json::to_value(&topology).unwrap(), json);
}
