//! Tests packing: the hard instances, tables with mistakes, and the command `ovolo pack`.
#![allow(clippy::unwrap_used)]

use ovolo::memory::{Exact, Packing, Planner, planners};
use ovolo_lab::buffer::Table;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The capacity in which every hard instance is known to fit.
const CAPACITY: usize = 1 << 20;

/// Compares with `snapshots/memory/NAME.snap`.
fn compare(name: &str, report: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(crate::common::root().join("snapshots/memory"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, report));
}

fn folder() -> PathBuf {
    crate::common::root().join("tests/memory")
}

fn instances() -> Vec<(String, Table)> {
    let mut found = Vec::new();
    for name in "ABCDEFGHIJK".chars() {
        let file = format!("{name}.1048576.csv");
        let bytes = std::fs::read(folder().join(&file)).unwrap();
        found.push((file.clone(), Table::read(&file, &bytes).unwrap()));
    }
    found
}

/// Computes the peak of a packing from its text alone, and checks at every moment that live buffers do not
/// overlap.
fn peak(text: &str) -> usize {
    let mut events: BTreeMap<usize, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    let mut rows = Vec::new();
    for (at, line) in text.lines().skip(1).enumerate() {
        let numbers: Vec<usize> = line.split(',').skip(1).map(|field| field.parse().unwrap()).collect();
        let [lower, upper, size, offset] = numbers[..] else { panic!("{line}") };
        rows.push((size, offset));
        events.entry(lower).or_default().1.push(at);
        events.entry(upper).or_default().0.push(at);
    }
    let mut live: BTreeMap<usize, usize> = BTreeMap::new();
    let mut peak = 0;
    for (ends, begins) in events.into_values() {
        for at in ends {
            assert_eq!(live.remove(&rows[at].1), Some(rows[at].0));
        }
        for at in begins {
            let (size, offset) = rows[at];
            let below = live.range(..=offset).next_back();
            assert!(
                below.is_none_or(|(start, size)| start + size <= offset),
                "row {at} overlaps the buffer below it"
            );
            let above = live.range(offset..).next();
            assert!(
                above.is_none_or(|(start, _)| offset + size <= *start),
                "row {at} overlaps the buffer above it"
            );
            live.insert(offset, size);
            peak = peak.max(offset + size);
        }
    }
    peak
}

#[test]
fn every_hard_instance_is_packed_within_its_capacity() {
    let mut report = String::new();
    for (name, table) in instances() {
        let packing = Exact { steps: 200_000, capacity: CAPACITY }.plan(&table.buffers);
        assert_eq!(peak(&table.write(&packing)), packing.peak, "{name}");
        assert!(packing.peak <= CAPACITY, "{name}: {} bytes", packing.peak);
        let Packing { peak, lower_bound, proven, .. } = packing;
        report += &format!("{name}: {peak} bytes, lower bound {lower_bound}, proven {proven}\n");
    }
    compare("hard-instances", &report);
}

#[test]
fn packings_are_the_same_on_every_run() {
    let (_, table) = instances().swap_remove(4);
    let exact = Exact { steps: 20_000, capacity: 0 };
    assert_eq!(exact.plan(&table.buffers), exact.plan(&table.buffers));
}

#[test]
fn heuristics_pack_correctly_if_not_well() {
    for (name, table) in instances() {
        for planner in ["best", "first-fit"] {
            let packing = planners().get(planner).unwrap().plan(&table.buffers);
            assert_eq!(peak(&table.write(&packing)), packing.peak, "{name} by {planner}");
            assert!(packing.peak > packing.lower_bound && !packing.proven, "{name} by {planner}");
        }
    }
}

#[test]
fn tables_are_read_and_written_unchanged() {
    let text = "size,id,upper,alignment,lower\r\n\r\n4,\"b,1\", 3,2,0\r\n0,b2,5,1,5\r\n";
    let table = Table::read("x.csv", format!("\u{feff}{text}").as_bytes()).unwrap();
    assert_eq!(table.ids, ["b,1", "b2"]);
    let written = table.write(&Exact::DEFAULT.plan(&table.buffers));
    insta::assert_snapshot!(written, @r#"
    id,lower,upper,size,alignment,offset
    "b,1",0,3,4,2,0
    b2,5,5,0,1,0
    "#);
    assert_eq!(Table::read("x.csv", written.as_bytes()).unwrap(), table);
}

#[test]
fn mistakes_are_reported_with_their_lines() {
    let many: String = (0..40).map(|row| format!("b{row},0,1,x\n")).collect();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("an empty file", b"".to_vec()),
        ("no buffers", b"id,lower,upper,size\n".to_vec()),
        ("no column size", b"id,lower,upper,sise\nb1,0,3,4\n".to_vec()),
        ("a column twice", b"id,lower,lower,upper,size\nb1,0,0,3,4\n".to_vec()),
        ("numbers that are none", b"id,lower,upper,size\nb1,zero,3.5,\nb2,0,3,4k\n".to_vec()),
        ("negative numbers", b"id,lower,upper,size\nb1,-1,3,-4\n".to_vec()),
        (
            "large numbers",
            b"id,lower,upper,size\nb1,0,3,99999999999999999999\nb2,0,3,9999999999999999999\n".to_vec(),
        ),
        ("an end before the beginning", b"id,lower,upper,size\nb1,9,3,4\n".to_vec()),
        ("an id twice", b"id,lower,upper,size\nb1,0,3,4\nb2,0,3,4\nb1,3,9,4\n".to_vec()),
        ("an id that is empty", b"id,lower,upper,size\n,0,3,4\n".to_vec()),
        ("a field too few", b"id,lower,upper,size\nb1,0,3\n".to_vec()),
        ("an alignment of zero", b"id,lower,upper,size,alignment\nb1,0,3,4,0\n".to_vec()),
        ("no text", b"id,lower,upper,size\nb1,0,3,4\nb\xff,0,3,4\n".to_vec()),
        (
            "a quotation mark that is not closed",
            b"id,lower,upper,size\n\"b \"\"1\"\"\",0,3,4\n\"b2,0,3,4\nb3,0,3,4\n".to_vec(),
        ),
        ("lines that end in CR alone", b"id,lower,upper,size\rb1,0,3,4\rb2,0,3,x\r".to_vec()),
        ("mistakes without end", format!("id,lower,upper,size\n{many}").into_bytes()),
    ];
    let mut report = String::new();
    for (what, bytes) in cases {
        let found = Table::read("buffers.csv", &bytes).unwrap_err();
        let text = found.to_string();
        let text = if found.len() > 5 { text.split("\nerror").last().unwrap().to_owned() } else { text };
        report += &format!("== {what}: {}\n{text}\n\n", found.len());
    }
    compare("table-errors", &report);
}

/// Returns an empty directory for one test.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn pack(at: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ovolo")).arg("pack").args(arguments).current_dir(at).output().unwrap()
}

fn listing(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const SMALL: &str = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n";

#[test]
fn the_program_writes_offsets_and_reports_the_result() {
    let at = directory("pack-writes");
    std::fs::write(at.join("small.csv"), SMALL).unwrap();
    let output = pack(&at, &["small.csv", "--out", "out/deep", "--capacity", "12"]);
    assert!(output.status.success());
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @"small: 12 bytes, lower bound 12, proven optimal, 0 steps");
    let written = std::fs::read_to_string(at.join("out/deep/small.csv")).unwrap();
    assert_eq!(peak(&written), 12);
    assert_eq!(listing(&at.join("out/deep")), ["small.csv"]);
    let output = pack(&at, &["small.csv", "--out", "out", "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    insta::assert_snapshot!(value, @r#"{"tables":[{"bytes":12,"file":"out/small.csv","fits":true,"gained":0,"lower_bound":12,"name":"small","proven":true,"steps":0}]}"#);
}

/// The same number of live buffers at any time, of random sizes: with a thousand of them, one test of a
/// position touches hundreds.
fn crowd(count: usize) -> String {
    let mut text = "id,lower,upper,size\n".to_owned();
    for at in 0..count {
        let draw = |salt: usize, end: usize| (at * 2_654_435_761 + salt * 40_503) % 1_000_003 % end;
        let lower = draw(1, 1000);
        text += &format!("b{at},{lower},{},{}\n", lower + 1 + draw(2, 1000), 1 + draw(3, 10_000));
    }
    text
}

#[test]
fn steps_take_the_same_time_for_any_number_of_buffers() {
    let at = directory("pack-crowd");
    std::fs::write(at.join("crowd.csv"), crowd(1000)).unwrap();
    let output = pack(&at, &["crowd.csv", "--out", "out", "--steps", "40000"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{said}");
    // One test takes several steps, so the limit need not be hit exactly.
    let steps: u64 = said.split(" steps").next().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(said.contains("not proven optimal") && (39_000..=40_000).contains(&steps), "{said}");
    assert!(said.contains(" without gain"), "{said}");
    let written = std::fs::read_to_string(at.join("out/crowd.csv")).unwrap();
    assert!(said.starts_with(&format!("crowd: {} bytes", peak(&written))), "{said}");
    let mut told = Vec::new();
    let table = Table::read("crowd.csv", crowd(1000).as_bytes()).unwrap();
    let exact = Exact { steps: 40_000, capacity: 0 };
    let packing = exact.plan_with(&table.buffers, &mut |done, all| told.push((done, all)));
    assert!(packing.gained <= packing.steps && packing.steps == steps);
    assert!(told.is_sorted() && told.last() == Some(&(steps, 40_000)), "{told:?}");
}

#[test]
fn the_program_writes_nothing_when_something_is_wrong() {
    let at = directory("pack-refuses");
    std::fs::create_dir(at.join("other")).unwrap();
    std::fs::write(at.join("small.csv"), SMALL).unwrap();
    std::fs::write(at.join("other/small.csv"), SMALL).unwrap();
    std::fs::write(at.join("bad.csv"), "id,lower,upper,size\nb1,0,3,-4\n").unwrap();
    let mut report = String::new();
    for arguments in [
        &["small.csv", "bad.csv", "missing.csv", "--out", "out"][..],
        &["small.csv", "other/small.csv", "--out", "out"],
        &["small.csv", "--out", "."],
        &["small.csv", "--out", "out", "--capacity", "11"],
        &["small.csv", "--out", "bad.csv"],
    ] {
        let output = pack(&at, arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        report += &format!("== {}\n{}\n", arguments.join(" "), String::from_utf8(output.stderr).unwrap());
        let out = at.join("out");
        assert!(!out.exists() || listing(&out).is_empty(), "{arguments:?}");
    }
    assert_eq!(listing(&at), ["bad.csv", "other", "out", "small.csv"]);
    compare("program-errors", &report);
}

/// Heuristics on thousands of buffers take as long as a search, so they count as steps and show in the bar.
#[test]
fn heuristics_count_where_there_are_thousands_of_buffers() {
    let table = Table::read("crowd.csv", crowd(8000).as_bytes()).unwrap();
    let all = |steps: u64| {
        let mut told = Vec::new();
        let packing =
            Exact { steps, capacity: 0 }.plan_with(&table.buffers, &mut |done, all| told.push((done, all)));
        (packing, told)
    };
    let (first, told) = all(0);
    assert!(first.steps == 0 && told.is_empty(), "exactly one order is always tried");
    let (packing, told) = all(12_000);
    assert!(packing.steps > 4_000 && packing.steps <= 12_000, "{}", packing.steps);
    assert!(
        told.len() > 2 && told[0].0 < 12_000 && told.is_sorted(),
        "the bar is shown from the start: {told:?}"
    );
    assert!(packing.peak <= first.peak);
    let (again, _) = all(12_000);
    assert_eq!(again, packing);
}
