//! Tests experiments: equal tables each time, continuation after an interruption, shards, and the page.
#![allow(clippy::unwrap_used)]

use crate::common;
use crate::common::ovolo;
use crate::report::browser::{browser, drawn};
use ovolo::error::Source;
use ovolo_lab::experiment::{self, Spec};
use ovolo_tune::Shard;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder(name: &str) -> PathBuf {
    common::folder(&format!("experiment/{name}"))
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn refused(output: &Output, why: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(why), "{said}");
}

fn shipped(name: &str) -> String {
    format!("{}/examples/experiments/{name}.ron", common::root().display())
}

/// Returns every CSV file of a folder except those with measured times, with its text.
fn tables(at: &Path) -> BTreeMap<String, String> {
    let files = std::fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path());
    let tables = files.filter(|file| file.extension().is_some_and(|extension| extension == "csv"));
    tables
        .map(|file| {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&file).unwrap())
        })
        .collect()
}

/// Checks that two folders have the same tables and results.
fn same(one: &Path, other: &Path) {
    let [here, there] = [one, other].map(tables);
    assert!(here.keys().eq(there.keys()), "{:?} {:?}", here.keys(), there.keys());
    for (name, text) in &here {
        let differs = text.lines().zip(there[name].lines()).find(|(a, b)| a != b);
        assert!(*text == there[name], "{name}: {differs:?}");
    }
    for (here, there) in results(one).iter().zip(&results(other)) {
        assert!(here == there, "{}", here["task"]);
    }
    assert_eq!(results(one).len(), results(other).len());
}

/// Returns the lines of results without measured times.
fn results(at: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(at.join("results.jsonl")).unwrap();
    let line = |line: &str| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        value.as_object_mut().unwrap().remove("measured");
        value
    };
    text.lines().map(line).collect()
}

fn rows(at: &Path, table: &str) -> Vec<BTreeMap<String, String>> {
    let mut table = csv::Reader::from_path(at.join(format!("{table}.csv"))).unwrap();
    table.deserialize().map(Result::unwrap).collect()
}

fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} of {row:?}"))
}

pub fn the_first_example_is_the_same_twice_and_agrees_with_the_commands() {
    let at = folder("digits");
    let spec = shipped("digits");
    let first = said(&ovolo(&at, &["experiment", &spec, "--out", "first"]));
    assert!(first.contains("results.jsonl, plans.csv") && first.contains("report.html"), "{first}");
    said(&ovolo(&at, &["experiment", &spec, "--out", "second"]));
    let names: Vec<String> = tables(&at.join("first")).into_keys().collect();
    assert_eq!(names, ["ablation.csv", "gap.csv", "memory.csv", "plans.csv"]);
    same(&at.join("first"), &at.join("second"));

    let plans = rows(&at.join("first"), "plans");
    assert_eq!(plans.len(), 3 * 4);
    for row in &plans {
        assert!(number(row, "bound") <= number(row, "seconds") && row["error"].is_empty(), "{row:?}");
        let exact = plans.iter().find(|other| other["cost"] == row["cost"] && other["extractor"] == "exact");
        assert!(number(exact.unwrap(), "seconds") <= number(row, "seconds") * (1.0 + 1e-9), "{row:?}");
        assert!(row["extractor"] != "exact" || row["proven"] == "true", "{row:?}");
        assert!(
            row["proven"] != "true" || row["bound"] == row["seconds"] && number(row, "gap") == 0.0,
            "{row:?}"
        );
    }
    let digits = format!("{}/examples/digits/digits.onnx", common::root().display());
    let explain = ["explain", &digits, "--dim", "N=1", "--threads", "1", "--cost", "flops", "--json"];
    let plan: Value = serde_json::from_str(&said(&ovolo(&at, &explain))).unwrap();
    let row = plans.iter().find(|row| row["cost"] == "flops" && row["extractor"] == "exact").unwrap();
    assert!((number(row, "seconds") - plan["seconds"].as_f64().unwrap()).abs() < 1e-12);
    assert_eq!(row["steps"], plan["steps"].as_array().unwrap().len().to_string());
    assert_eq!(row["arena"], plan["arena"].to_string());

    // Without the rules that lower convolutions nothing runs, and no rule has a negative worth.
    let ablation = rows(&at.join("first"), "ablation");
    assert!(ablation.iter().any(|row| !row["error"].is_empty()));
    assert!(ablation.iter().all(|row| !row["error"].is_empty() || number(row, "more") >= 0.0));
    // More work never gives a worse result or a weaker bound, for extractors that continue from their last
    // state.
    for row in rows(&at.join("first"), "gap") {
        assert!(row["effort"].is_empty() || (1e-5..=1.0).contains(&number(&row, "effort")), "{row:?}");
        assert!((0.0..=1.0).contains(&number(&row, "gap")), "{row:?}");
    }
    let memory = rows(&at.join("first"), "memory");
    for pair in memory.windows(2).filter(|pair| pair[0]["cost"] == pair[1]["cost"]) {
        assert!(number(&pair[0], "bytes") > number(&pair[1], "bytes"));
        assert!(number(&pair[0], "seconds") <= number(&pair[1], "seconds"));
    }
}

pub fn a_stopped_run_continues_where_it_stopped() {
    let at = folder("resumed");
    let path = shipped("digits");
    let source = Source::new(path.as_str(), std::fs::read_to_string(&path).unwrap());
    let spec = Spec::read(&source, Path::new(&path).parent().unwrap(), common::registry()).unwrap();
    let whole =
        experiment::run(&spec, common::registry(), &at.join("whole"), Shard::WHOLE, &mut |_| true).unwrap();
    assert_eq!((whole.known, whole.failed.len()), (0, 0));
    let stopped = at.join("stopped");
    let error = experiment::run(&spec, common::registry(), &stopped, Shard::WHOLE, &mut |now| now.done < 7)
        .unwrap_err();
    assert!(error.to_string().contains("finished tasks are kept"), "{error}");
    // The machine failed in the middle of a line.
    let results_file = stopped.join("results.jsonl");
    let mut text = std::fs::read_to_string(&results_file).unwrap();
    assert_eq!(text.lines().count(), 7);
    text.truncate(text.len() - 20);
    std::fs::write(&results_file, text).unwrap();
    let mut begun = Vec::new();
    let outcome = experiment::run(&spec, common::registry(), &stopped, Shard::WHOLE, &mut |now| {
        begun.push(now.done);
        true
    });
    let outcome = outcome.unwrap();
    assert_eq!((outcome.known, begun[0]), (6, 6));
    same(&stopped, &at.join("whole"));
    let again = experiment::run(&spec, common::registry(), &stopped, Shard::WHOLE, &mut |_| {
        panic!("all tasks are done")
    })
    .unwrap();
    assert_eq!(again.known, again.tasks);
    // A different spec cannot continue there.
    let changed = source.text.replace("\"greedy-tree\"", "\"naive\"");
    let other =
        Spec::read(&Source::new("x.ron", changed), Path::new(&path).parent().unwrap(), common::registry())
            .unwrap();
    let error =
        experiment::run(&other, common::registry(), &stopped, Shard::WHOLE, &mut |_| true).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("results of another spec, whose line ") && error.contains("`; here it is `"),
        "{error}"
    );
}

pub fn shards_give_the_results_of_one_run_and_other_machines_are_refused() {
    let at = folder("shards");
    let spec = shipped("digits");
    said(&ovolo(&at, &["experiment", &spec, "--out", "whole"]));
    for number in ["1", "2", "3"] {
        said(&ovolo(&at, &["experiment", &spec, "--shard", &format!("{number}/3"), "--out", number]));
        assert!(!at.join(number).join("plans.csv").exists(), "a shard has no tables");
    }
    let merge = |folders: &[&str], out: &str, more: &[&str]| {
        ovolo(&at, &[&["experiment", "merge", &spec], folders, &["--out", out], more].concat())
    };
    refused(&merge(&["1", "3"], "few", &[]), "tasks have no result");
    refused(&merge(&["1", "1", "2", "3"], "twice", &[]), "is both in 1 and in 1: give each shard once");
    said(&merge(&["3", "1", "2"], "merged", &[]));
    same(&at.join("merged"), &at.join("whole"));

    let head = |folder: &str, from: &str, to: &str| {
        let file = at.join(folder).join("head.json");
        let text = std::fs::read_to_string(&file).unwrap();
        let mut value: Value = serde_json::from_str(&text).unwrap();
        for field in value["fields"].as_array_mut().unwrap() {
            if field[0] == from {
                field[1] = to.into();
            }
        }
        std::fs::write(&file, value.to_string()).unwrap();
    };
    head("2", "processor", "another one");
    refused(&merge(&["1", "2", "3"], "mixed", &[]), "they hold under different conditions: compare them");
    refused(
        &merge(&["1", "2", "3"], "mixed", &["--compare"]),
        "tasks have no result under the conditions of 1",
    );
    said(&ovolo(&at, &["experiment", &spec, "--out", "there"]));
    head("there", "ovolo", "0.0.1");
    said(&merge(&["whole", "there"], "both", &["--compare"]));
    let plans = rows(&at.join("both"), "plans");
    let hosts: BTreeSet<&str> = plans.iter().map(|row| row["host"].as_str()).collect();
    assert_eq!((hosts, plans.len()), (BTreeSet::from(["there", "whole"]), 2 * 12));
    head("there", "spec", "0");
    refused(
        &merge(&["whole", "there"], "specs", &["--compare"]),
        "results of different experiments: spec is",
    );
    let dom = drawn(&browser().unwrap(), &at.join("both/report.html"), "");
    assert_eq!(dom.text("settings"), "compared: whole, there");
}

/// The second example: plans are timed, and the page shows all results.
pub fn the_page_of_the_second_example_has_every_plot() {
    let at = folder("sampled");
    // As shipped, with the parts of the first example, without the larger model, and timed in fewer rounds.
    let text = std::fs::read_to_string(shipped("sampled")).unwrap();
    let squeezenet = text.lines().find(|line| line.contains("squeezenet1_1")).unwrap();
    let text = text
        .replace(squeezenet, "")
        .replace("../digits", &format!("{}/examples/digits", common::root().display()))
        .replace("seeds: [1]", "seeds: [1, 2], parts: [\"ablation\", \"memory\", \"gap\"]")
        .replace("rounds: 7", "rounds: 3");
    std::fs::write(at.join("mine.ron"), text).unwrap();
    said(&ovolo(&at, &["experiment", "mine.ron", "--out", "out"]));
    let out = at.join("out");
    let plans = rows(&out, "measured/plans");
    assert!(plans.len() > 10, "{}", plans.len());
    for seed in ["1", "2"] {
        let of_seed = || plans.iter().filter(|row| row["seed"] == seed);
        assert!(of_seed().all(|row| number(row, "seconds") > 0.0 && number(row, "regret") >= 0.0));
        assert!(of_seed().any(|row| number(row, "regret") == 0.0), "the fastest plan has no regret");
    }
    let regret = rows(&out, "measured/regret");
    assert_eq!(regret.len(), 2 * 3 * 3);
    for row in &regret {
        // The extracted plan is one of the draws of a cell.
        let same = |other: &&BTreeMap<String, String>| {
            ["seed", "cost"].iter().all(|column| other[*column] == row[*column])
                && other["extractor"] == "exact"
        };
        let exact = regret.iter().find(same).unwrap();
        assert!(
            row["extractor"] != "sample" || number(row, "seconds") <= number(exact, "seconds"),
            "{row:?}"
        );
    }
    let rank = rows(&out, "measured/rank");
    assert_eq!(rank.len(), 3 * 2);
    for row in &rank {
        assert!((-1.0..=1.0).contains(&number(row, "spearman")), "{row:?}");
        // Plans are timed round by round; kernels only have a median.
        match row["of"].as_str() {
            "plans" => assert!((-1.0..=1.0).contains(&number(row, "repeat")), "{row:?}"),
            _ => assert_eq!(row["repeat"], ""),
        }
    }
    let drawn_plans = rows(&out, "drawn");
    // The cost of a plan by a model equals what the model's own extraction reports.
    for row in rows(&out, "plans") {
        let plan = drawn_plans.iter().find(|other| other["plan"] == row["plan"]).unwrap();
        let (said, found) = (number(plan, &format!("by {}", row["cost"])), number(&row, "seconds"));
        assert!((said / found - 1.0).abs() < 1e-9, "{row:?} {plan:?}");
    }

    let browser = browser().unwrap();
    let page = out.join("report.html");
    let text = std::fs::read_to_string(&page).unwrap();
    assert_eq!(text.matches("://").count(), 1, "the name of SVG is the only address");
    let dom = drawn(&browser, &page, "");
    let count = |panel: &str, class: &str| {
        dom.within(panel).filter(|element| element.classes().any(|one| one == class)).count()
    };
    let in_plots =
        |panel: &str| dom.within(panel).filter(|one| one.classes().any(|class| class == "point")).count();
    // Three in the legend, and a point for each plan and cost model.
    assert_eq!(in_plots("plans-predicted"), 3 + 3 * plans.len());
    assert_eq!(in_plots("kernels-predicted"), 3 + 3 * rows(&out, "measured/kernels").len());
    assert_eq!(count("regret", "bar-row"), 3 * 3);
    let shown = rows(&out, "memory").len();
    assert_eq!(in_plots("pareto"), 3 + shown);
    let points = rows(&out, "gap").len();
    assert_eq!((in_plots("gap"), in_plots("gap-time")), (2 + points, 2 + points));
    // A higher limit is never to the left of a lower one.
    for panel in ["gap", "gap-time"] {
        let mut curves = 0;
        for curve in dom.within(panel).filter(|one| one.get("class") == Some("curve")) {
            let path = curve.get("d").unwrap();
            let place = |point: &str| point.split_whitespace().next()?.parse::<f64>().ok();
            let places: Vec<f64> = path.split(['M', 'L']).filter_map(place).collect();
            assert!(places.len() > 1 && places.is_sorted(), "{panel}: {path}");
            curves += 1;
        }
        assert!(curves > 0, "{panel}");
    }
    assert!(count("ablation", "bar-row") > 5);
    let rows_of = |panel: &str| dom.within(panel).filter(|element| element.tag == "tr").count();
    assert_eq!((rows_of("rank"), rows_of("extraction")), (1 + 6, 1 + 6));
    // Marks lie inside their plots.
    for circle in dom.all("circle") {
        let place = |name: &str| circle.get(name).unwrap().parse::<f64>().unwrap();
        assert!((0.0..=430.0).contains(&place("cx")) && (0.0..=300.0).contains(&place("cy")));
    }
}

pub fn all_mistakes_of_a_spec_are_reported_together_with_their_places() {
    let at = folder("mistakes");
    std::fs::write(at.join("wrong.ron"), "Prices(define: {\"seconds\": \"1 + flop\"})").unwrap();
    std::fs::write(
        at.join("spec.ron"),
        r#"Experiment(
    name: "a b",
    models: [Model(file: "none.onnx"), Model(dims: {"N": 0}), "digits"],
    pipelines: ["nativ"],
    costs: ["flop", Prices(name: "mine", file: "wrong.ron"), "process", 3],
    extractors: ["exakt", "sample"],
    seeds: [1, 1, -2],
    thread: 1,
    machine: Machine(flops: 0, memory: 1, cache: 1, start: 1),
    rounds: 1.5,
    parts: ["memry"],
)"#,
    )
    .unwrap();
    let output = ovolo(&at, &["experiment", "spec.ron"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap().replace(at.to_str().unwrap(), "");
    for (why, place) in [
        ("a name has only letters", "2:11"),
        ("there is no file", "3:26"),
        ("`Model` lacks the field `file`", "3:40"),
        ("`models` must be `Model(…)`", "3:63"),
        ("pipeline `nativ` is not known", "4:17"),
        ("cost model `flop` is not known", "5:13"),
        ("`process` needs more than its name", "5:62"),
        ("a cost model should stand here", "5:73"),
        ("extractor `exakt` is not known", "6:18"),
        ("an entry of `seeds` must be 0 or more", "7:19"),
        ("two entries of `seeds` are called `1`", "7:12"),
        ("`Experiment` has no field `thread`", "8:5"),
        ("`flops` must be a number above zero", "9:29"),
        ("`rounds` must be a whole number", "10:13"),
        ("part `memry` is not known", "11:13"),
        ("needs a number of plans", "1:1"),
    ] {
        let found = text.find(why).unwrap_or_else(|| panic!("`{why}` is not reported:\n{text}"));
        let rest = &text[found..];
        let line = rest.lines().nth(1).unwrap();
        assert!(line.contains(&format!(":{place}")), "{why}: {line}");
    }
    assert!(text.contains("did you mean `flops`?") && text.contains("wrong.ron:1:"), "{text}");
    assert!(!at.join("a b").exists());
    refused(&ovolo(&at, &["experiment", "spec.ron", "--shard", "3/2"]), "give NUMBER/COUNT");
    // Settings that only the extractor `sample` has.
    for (field, why) in [
        ("spread: 2", "how far the extractor `sample` goes"),
        ("among: 4", "of how many plans the extractor `sample` keeps one"),
        ("sample: 5", "that the extractor `sample` draws"),
    ] {
        small(&at, "\"flops\"", &format!("extractors: [\"exact\"], {field}"));
        refused(&ovolo(&at, &["experiment", "spec.ron"]), why);
    }
    small(&at, "\"flops\"", "extractors: [\"sample\"], sample: 5, rounds: 1, spread: 11");
    refused(&ovolo(&at, &["experiment", "spec.ron"]), "`spread` must be 1 to 10");
    small(&at, "\"flops\"", "extractors: [\"sample\"], sample: 5, rounds: 1, among: 0");
    refused(&ovolo(&at, &["experiment", "spec.ron"]), "`among` must be 1 to 100");
}

/// Writes a small network, whose kernels are timed quickly, and a spec of it.
fn small(at: &Path, costs: &str, more: &str) {
    let text = "graph { x: f32[1,16,8,8] = input\n w: f32[16,16,3,3] = const ~1\n b: f32[16] = const ~2\n \
                c = conv(x, w, b) {pads: [1,1,1,1]}\n y = relu(c)\n return y }";
    std::fs::write(at.join("a.ovolo"), text).unwrap();
    std::fs::write(at.join("b.ovolo"), text.replace("8,8", "12,12")).unwrap();
    let spec = format!(
        "Experiment(name: \"small\", models: [Model(file: \"a.ovolo\"), Model(file: \"b.ovolo\")], costs: [{costs}],
         machine: Machine(flops: 1e11, memory: 1e10, cache: 5e10, start: 1e-6), {more})"
    );
    std::fs::write(at.join("spec.ron"), spec).unwrap();
}

/// Like `ovolo`, with the table of times of another folder.
fn with_times(at: &Path, times: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ovolo"));
    command.args(arguments).current_dir(at).env("OVOLO_CACHE", at.join(times)).output().unwrap()
}

pub fn results_by_other_times_are_neither_merged_nor_continued() {
    let at = folder("times");
    small(&at, "\"flops\", \"measured\"", "extractors: [\"exact\", \"greedy-dag\"]");
    said(&with_times(&at, "one", &["experiment", "spec.ron", "--shard", "1/2", "--out", "1"]));
    said(&with_times(&at, "one", &["experiment", "spec.ron", "--shard", "2/2", "--out", "2"]));
    // The table has all kernels that any task needs before the first task starts, and then does not change.
    let table = at.join("one/times-1.txt");
    let text = std::fs::read_to_string(&table).unwrap();
    said(&with_times(&at, "one", &["experiment", "spec.ron", "--out", "whole"]));
    assert_eq!(std::fs::read_to_string(&table).unwrap(), text);
    said(&with_times(&at, "one", &["experiment", "merge", "spec.ron", "1", "2", "--out", "both"]));
    same(&at.join("both"), &at.join("whole"));

    // The same table with one different time and its right checksum.
    std::fs::create_dir_all(at.join("two")).unwrap();
    let mut changed = false;
    let lines = text.lines().map(|line| {
        let Some((content, _)) = line.rsplit_once("\t#").filter(|(content, _)| content.contains(" us\t"))
        else {
            return line.to_owned();
        };
        if std::mem::replace(&mut changed, true) {
            return line.to_owned();
        }
        let mut fields: Vec<String> = content.split('\t').map(str::to_owned).collect();
        fields[1] = "123.000 us".to_owned();
        let content = fields.join("\t");
        format!("{content}\t#{}", ovolo::cost::stored::checksum(&content))
    });
    let other: String = lines.map(|line| line + "\n").collect();
    std::fs::write(at.join("two/times-1.txt"), other).unwrap();
    said(&with_times(&at, "two", &["experiment", "spec.ron", "--shard", "2/2", "--out", "3"]));
    let mixed = with_times(&at, "two", &["experiment", "merge", "spec.ron", "1", "3", "--out", "mixed"]);
    refused(&mixed, "kernels were priced by other times: give all shards one table");
    said(&with_times(&at, "two", &["experiment", "spec.ron", "--out", "there"]));
    let compare = ["experiment", "merge", "spec.ron", "whole", "there", "--out", "beside", "--compare"];
    said(&with_times(&at, "two", &compare));
    assert_eq!(rows(&at.join("beside"), "plans").len(), 2 * 8);

    // A stopped run only continues with the same times; finished tasks stay.
    let results = at.join("whole/results.jsonl");
    assert!(
        said(&with_times(&at, "two", &["experiment", "spec.ron", "--out", "whole"]))
            .contains("8 of them done")
    );
    let text = std::fs::read_to_string(&results).unwrap();
    let cut: String = text.lines().take(5).map(|line| format!("{line}\n")).collect();
    std::fs::write(&results, cut).unwrap();
    let resumed = with_times(&at, "two", &["experiment", "spec.ron", "--out", "whole"]);
    refused(&resumed, "its kernels were priced by other times");
    // Other kernels in the table do not matter.
    let more = text_of_another_kernel(&std::fs::read_to_string(&table).unwrap());
    std::fs::write(&table, more).unwrap();
    said(&with_times(&at, "one", &["experiment", "spec.ron", "--out", "whole"]));
    same(&at.join("both"), &at.join("whole"));
}

fn text_of_another_kernel(table: &str) -> String {
    let line = table.lines().find(|line| line.contains(" us\t")).unwrap();
    let content = line.rsplit_once("\t#").unwrap().0.to_owned() + "0";
    format!("{table}{content}\t#{}\n", ovolo::cost::stored::checksum(&content))
}

/// A program that answers correctly, and one that ends at its third kernel.
const RIGHT: &str = "while read -r line; do echo '{\"seconds\": 1e-6}'; done\n";
const WRONG: &str =
    "read -r line; echo '{\"seconds\": 1e-6}'; read -r line; echo '{\"seconds\": 1e-6}'; exit 7\n";

pub fn failed_tasks_are_tried_again_and_a_changed_program_is_another_experiment() {
    let at = folder("again");
    // The spec is not in the current folder: the program is looked for in the folder of the spec.
    let inner = at.join("specs");
    std::fs::create_dir_all(&inner).unwrap();
    small(
        &inner,
        "\"flops\", Process(name: \"mine\", command: \"sh scorer.sh\", timeout: 9)",
        "extractors: [\"exact\", \"greedy-dag\"], rounds: 1",
    );
    // A file that the program reads is not named in the command, so the results do not depend on it.
    std::fs::write(inner.join("scorer.sh"), ". ./inner.sh\n").unwrap();
    std::fs::write(inner.join("inner.sh"), WRONG).unwrap();
    let run = |out: &str| ovolo(&at, &["experiment", "specs/spec.ron", "--out", out]);
    let first = run("out");
    refused(&first, "6 task(s) failed, completely or in part; the first is `plan a native mine exact`");
    refused(&first, "the program `sh scorer.sh` ended before it answered (exit status: 7)");
    // The cells that could be timed were timed, and the others are named.
    let out = at.join("out");
    let regret = rows(&out, "measured/regret");
    assert_eq!(regret.len(), 4, "{regret:?}");
    assert!(regret.iter().all(|row| row["cost"] == "flops"), "{regret:?}");
    let failed = rows(&out, "failed");
    let races: Vec<&str> =
        failed.iter().filter(|row| row["task"] == "race a seed 1").map(|row| row["cell"].as_str()).collect();
    assert_eq!((failed.len(), races), (8, vec!["native mine exact", "native mine greedy-dag"]), "{failed:?}");
    let dom = drawn(&browser().unwrap(), &out.join("report.html"), "");
    assert_eq!(dom.within("failed").filter(|one| one.tag == "tr").count(), 1 + 8);
    let cells: Vec<&str> =
        dom.within("extraction").filter(|one| one.tag == "td").map(|one| one.text.trim()).collect();
    assert!(cells.contains(&"–") && !cells.contains(&"0 µs"), "{cells:?}");
    // After the correction, only the failed tasks run again.
    std::fs::write(inner.join("inner.sh"), RIGHT).unwrap();
    let second = said(&run("out"));
    assert!(second.contains("10 tasks, 4 of them done before, 6 failed ones tried again"), "{second}");
    assert!(!out.join("failed.csv").exists(), "no failures are left");
    assert_eq!(rows(&out, "measured/regret").len(), 8);
    assert!(said(&run("out")).contains("10 tasks, 10 of them done before; "));
    // A different program is a different experiment.
    std::fs::write(inner.join("scorer.sh"), RIGHT).unwrap();
    refused(&run("out"), "another experiment, version or machine: cost model mine is");
}

pub fn an_absent_backend_is_reported_in_one_line() {
    let at = folder("absent");
    small(&at, "\"flops\"", "extractors: [\"exact\"], pipelines: [\"native\", \"cpu\"]");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ovolo"));
    command.args(["experiment", "spec.ron"]).current_dir(&at);
    command.env("OVOLO_CACHE", at.join("cache")).env("OVOLO_ONEDNN", "/no/such/library");
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    said(&output);
    let lines: Vec<&str> = told.lines().filter(|line| line.contains("backend")).collect();
    assert_eq!(
        lines,
        [
            "note: backend onednn: not found (/no/such/library: there is no such file); install oneDNN 3, or name its library in \
          OVOLO_ONEDNN (pipeline `cpu`)"
        ]
    );
}
