//! Tests cost models from outside, the features of kernels, and choices under other prices.
#![allow(clippy::unwrap_used, missing_docs)]

use ovolo::cost::FEATURES;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder(name: &str) -> PathBuf {
    crate::common::folder(&format!("lab/{name}"))
}

/// Runs a command on the digits model.
fn ovolo(at: &Path, command: &str, arguments: &[&str]) -> Output {
    let model = crate::common::root().join("examples/digits/digits.onnx");
    let model = [command, model.to_str().unwrap(), "--dim", "N=1", "--threads", "1"];
    let mut run = Command::new(env!("CARGO_BIN_EXE_ovolo"));
    let run = run
        .args(model)
        .args(arguments)
        .current_dir(at)
        .env("OVOLO_CACHE", at.join("cache"))
        .env("OVOLO_PIPELINE", "native");
    run.output().unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&said(output)).unwrap()
}

fn refused(output: &Output, why: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(why), "{said}");
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[test]
fn expensive_kernels_are_avoided_and_the_changes_explain_the_difference() {
    let at = folder("what-if");
    let explain = |scales: &[&str]| {
        let scales = scales.iter().flat_map(|scale| ["--what-if", scale]);
        let arguments: Vec<&str> = ["--cost", "flops", "--json"].into_iter().chain(scales).collect();
        json(&ovolo(&at, "explain", &arguments))
    };
    let same = explain(&["*=1"]);
    assert_eq!((&same["flips"], &same["cost"]), (&serde_json::json!([]), &same["then"]));
    let plan = json(&ovolo(&at, "explain", &["--cost", "flops", "--json"]));
    let steps = plan["steps"].as_array().unwrap();
    let dearest =
        steps.iter().max_by(|a, b| number(&a["seconds"]).total_cmp(&number(&b["seconds"]))).unwrap();
    let op = dearest["op"].as_str().unwrap();
    // If two patterns match an op, both factors apply.
    let dear = explain(&[&format!("{op}=50"), &format!("{op}*=2")]);
    let (cost, unchanged, then) = (number(&dear["cost"]), number(&dear["unchanged"]), number(&dear["then"]));
    assert!(cost < then && then < unchanged, "{dear}");
    assert!(unchanged >= 100.0 * number(&dearest["seconds"]), "{dear}");
    let flips = dear["flips"].as_array().unwrap();
    assert!(
        flips.iter().any(|flip| flip["before"]["op"].as_str().is_some_and(|text| text.starts_with(op))),
        "{dear}"
    );
    let text = said(&ovolo(&at, "explain", &["--cost", "flops", "--what-if", &format!("{op}=50")]));
    assert!(text.starts_with("now ") && text.contains("\n    then "), "{text}");
    // Doubling all prices changes no choice, and a pattern must match some kernel.
    let whole = explain(&["native.*=2"]);
    assert!((number(&whole["then"]) - 2.0 * number(&whole["cost"])).abs() <= 1e-9 * cost, "{whole}");
    refused(
        &ovolo(&at, "explain", &["--cost", "flops", "--what-if", "onednn.conv*=2"]),
        "fits no kernel of this e-graph; there are native.",
    );
    refused(&ovolo(&at, "explain", &["--cost", "flops", "--what-if", "native.conv*"]), "PATTERN=FACTOR");
}

#[test]
fn each_kernel_has_all_features() {
    let at = folder("features");
    said(&ovolo(&at, "features", &["--cost", "flops", "--out", "kernels.csv"]));
    let mut table = csv::Reader::from_path(at.join("kernels.csv")).unwrap();
    let names: Vec<String> = table.headers().unwrap().iter().map(str::to_owned).collect();
    let known = FEATURES.iter().map(|feature| feature.name).chain(["measured", "seconds"]);
    assert!(names.iter().map(String::as_str).eq(known), "{names:?}");
    let column = |name: &str| names.iter().position(|known| known == name).unwrap();
    let rows: Vec<csv::StringRecord> = table.records().map(Result::unwrap).collect();
    assert!(rows.len() > 20, "{}", rows.len());
    for row in &rows {
        for (feature, value) in FEATURES.iter().zip(row.iter()).filter(|(feature, _)| feature.is_number()) {
            let number: f64 = value.parse().unwrap();
            assert!(number.is_finite() && number >= 0.0, "{}: {value}", feature.name);
            assert!(!value.starts_with('-'), "{}: {value}", feature.name);
        }
        let bytes: Vec<f64> = ["bytes_in", "bytes_const", "bytes_out", "bytes"]
            .iter()
            .map(|name| row[column(name)].parse().unwrap())
            .collect();
        assert_eq!(bytes[0] + bytes[1] + bytes[2], bytes[3]);
        assert!(row[column("seconds")].parse::<f64>().unwrap() >= 0.0);
    }
    let conv = rows.iter().find(|row| &row[column("op")] == "native.conv").unwrap();
    assert!(
        conv[column("kernel_h")].parse::<f64>().unwrap() > 1.0
            && conv[column("flops")].parse::<f64>().unwrap() > 0.0
    );
    let printed = said(&ovolo(&at, "features", &["--cost", "flops"]));
    assert_eq!(printed, std::fs::read_to_string(at.join("kernels.csv")).unwrap());
    let json: Value =
        serde_json::from_str(&said(&ovolo(&at, "features", &["--cost", "flops", "--json"]))).unwrap();
    let objects = json.as_array().unwrap();
    assert_eq!(objects.len(), rows.len());
    for (object, row) in objects.iter().zip(&rows) {
        assert_eq!(object["op"], row[column("op")]);
        assert_eq!(object["seconds"].as_f64().unwrap(), row[column("seconds")].parse::<f64>().unwrap());
    }
    refused(
        &ovolo(&at, "features", &["--cost", "flops", "--out", "kernels.parquet"]),
        "--out kernels.parquet: the table is written as CSV",
    );
    assert!(!at.join("kernels.parquet").exists());
    // A failed price is an error, not an unknown price.
    refused(
        &ovolo(&at, "features", &["--process", "exit 3", "--out", "none.csv"]),
        "the program `exit 3` ended before it answered (exit status: 3)",
    );
    assert!(!at.join("none.csv").exists());
    let unknown = r#"while read -r line; do echo '{"seconds": null}'; done"#;
    let table = said(&ovolo(&at, "features", &["--process", unknown]));
    assert_eq!(table.lines().count(), rows.len() + 1);
    // A view costs nothing in any cost model.
    let known = |line: &str| line.ends_with(',') || line.ends_with(",0");
    assert!(table.lines().skip(1).all(known) && table.lines().any(|line| line.ends_with(',')));
}

#[test]
fn a_price_list_prices_every_kernel() {
    let at = folder("prices");
    let estimate = |prices: &str| {
        std::fs::write(at.join("mine.ron"), prices).unwrap();
        json(&ovolo(&at, "explain", &["--costs", "mine.ron", "--json"]))
    };
    let plan = estimate(
        r#"Prices(define: {"seconds": [Case(op: "native.conv*", value: "min(0.5, flops)"), Case(value: 1)]})"#,
    );
    let steps = plan["steps"].as_array().unwrap();
    assert!(!steps.is_empty());
    for step in steps {
        let conv = step["op"].as_str().unwrap().starts_with("native.conv");
        assert_eq!(number(&step["seconds"]), if conv { 0.5 } else { 1.0 }, "{step}");
    }
    // Several files are combined.
    std::fs::write(at.join("other.ron"), "Prices(define: {\"seconds\": 2})").unwrap();
    let plan = json(&ovolo(&at, "explain", &["--costs", "mine.ron", "--costs", "other.ron", "--json"]));
    assert!(plan["steps"].as_array().unwrap().iter().all(|step| number(&step["seconds"]) == 2.0));
    let wrong = |prices: &str, why: &str| {
        std::fs::write(at.join("mine.ron"), prices).unwrap();
        refused(&ovolo(&at, "compile", &["--costs", "mine.ron"]), why);
    };
    wrong("Prices(define: {\"seconds\": \"1 + flop\"})", "did you mean `flops`?");
    wrong("Price(define: {})", "`Prices`");
    wrong("Prices(defined: {})", "did you mean `define`?");
    wrong("Prices(define: {\"seconds\": \"-1\"})", "must give a finite number of seconds, zero or more");
    refused(&ovolo(&at, "compile", &["--cost", "prices"]), "name its file with `--costs FILE.ron`");
}

#[test]
fn shipped_price_lists_only_name_existing_ops() {
    let registry = crate::common::registry();
    let prices = &registry.catalog().prices;
    assert!(prices.fitted_on().all(|(_, fitted_on)| fitted_on.is_some()));
    prices.check_ops(registry.ops(), 0).unwrap_or_else(|mistakes| panic!("{mistakes}"));
}

#[test]
fn a_price_list_of_a_user_must_speak_of_ops_that_exist() {
    let at = folder("typo");
    let cases = "Case(op: \"native.mtmul\", value: 0.5), Case(logical: [\"conv\", \"sofmax\"], value: 0.4)";
    std::fs::write(
        at.join("mine.ron"),
        format!("Prices(\n    ops: \"nativ.*\",\n    define: {{\"share\": [{cases}]}},\n)\n"),
    )
    .unwrap();
    for command in ["compile", "explain"] {
        let output = ovolo(&at, command, &["--costs", "mine.ron"]);
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        for (what, place, help) in [
            ("no op is called `nativ.*`", "mine.ron:2:10", ""),
            ("no op is called `native.mtmul`", "mine.ron:3:33", "did you mean `native.matmul`?"),
            ("no op is called `sofmax`", "mine.ron:3:85", "did you mean `softmax`?"),
        ] {
            assert!(said.contains(what) && said.contains(place) && said.contains(help), "{said}");
        }
    }
}

/// `INSTA_UPDATE=always` rewrites it.
#[test]
fn the_reference_for_authors_of_price_lists_is_up_to_date() {
    let path = crate::common::root().join("costs/REFERENCE.md");
    let actual = ovolo::cost::price::reference();
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&path, &actual).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == actual, "update it: ovolo costs reference > costs/REFERENCE.md");
}

/// A more expensive kernel is not chosen if another one computes the same.
#[test]
fn a_price_list_changes_what_is_chosen() {
    let at = folder("choice");
    let ops = |options: &[&str]| -> Vec<String> {
        let plan = json(&ovolo(&at, "explain", &[options, &["--json"]].concat()));
        let steps = plan["steps"].as_array().unwrap();
        steps.iter().map(|step| step["op"].as_str().unwrap().to_owned()).collect()
    };
    let chosen = ops(&[]);
    let first = chosen.iter().find(|op| op.starts_with("native.conv")).expect("the model has a convolution");
    let prices = format!(r#"Prices(define: {{"seconds": [Case(op: "{first}", value: 1e3)]}})"#);
    std::fs::write(at.join("mine.ron"), prices).unwrap();
    let other = ops(&["--costs", "mine.ron"]);
    assert!(!other.contains(first) && other != chosen, "{other:?}");
}

#[test]
fn a_price_is_traced_to_the_cases_of_its_words() {
    let at = folder("price");
    std::fs::write(
        at.join("mine.ron"),
        "Prices(define: {\"share\": [Case(op: \"native.matmul*\", value: 0.5)]})",
    )
    .unwrap();
    let text = said(&ovolo(&at, "explain", &["--cost", "flops", "--price", "scores"]));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("scores: native.") && lines[1].starts_with("      seconds = "), "{text}");
    assert!(text.contains("\n              share = ") && text.contains("  [costs/native.ron:"), "{text}");
    // A list of the user's own has its place as well, and its value.
    let text = said(&ovolo(&at, "explain", &["--costs", "mine.ron", "--price", "scores"]));
    assert!(text.contains("\n              share = 0.5000: 0.5  [mine.ron:1]\n"), "{text}");
    let none = ovolo(&at, "explain", &["--cost", "flops", "--price", "scorse"]);
    refused(&none, "no step of the plan has the value or the op `scorse`; did you mean `scores`?");
    let program = "while read -r line; do echo '{\"seconds\": 1e-6}'; done";
    let text = said(&ovolo(&at, "explain", &["--process", program, "--price", "scores"]));
    assert!(text.contains("the cost model `process` gives a number alone"), "{text}");
}

#[test]
fn a_program_prices_every_kernel() {
    let at = folder("process");
    let program = r#"while read -r line; do case "$line" in *native.conv*) echo '{"seconds": 3e-6}';; *) echo '{"seconds": 1e-6}';; esac; done"#;
    let plan = json(&ovolo(&at, "explain", &["--process", program, "--json"]));
    for step in plan["steps"].as_array().unwrap() {
        let conv = step["op"].as_str().unwrap().starts_with("native.conv");
        assert_eq!(number(&step["seconds"]), if conv { 3e-6 } else { 1e-6 }, "{step}");
    }
    let compile = |program: &str| ovolo(&at, "compile", &["--process", program]);
    refused(&compile("exit 3"), "the program `exit 3` ended before it answered (exit status: 3)");
    refused(
        &compile("while read -r line; do echo fast; done"),
        "the program answered `fast`, which is not of the form",
    );
    refused(
        &compile("while read -r line; do echo '{\"seconds\": null}'; done"),
        "its program must know every kernel",
    );
    refused(&ovolo(&at, "compile", &["--cost", "process"]), "name it with `--process COMMAND`");
    refused(
        &compile("while read -r line; do echo '{\"second\": 1e-6}'; done"),
        "the program answered `{\"second\": 1e-6}`, which is not of the form",
    );
    refused(
        &compile("while read -r line; do echo '{\"seconds\": 1e-6}'; echo '{\"seconds\": 2e-6}'; done"),
        "wrote a line that nobody had asked for",
    );
    let slow = ovolo(&at, "compile", &["--process", "sleep 3", "--process-timeout", "2"]);
    refused(&slow, "the program `sleep 3` has not answered line 1 within 2 s");
    refused(&slow, "note: the program `sleep 3` has not answered line 1 for 1 s");
    refused(&ovolo(&at, "compile", &["--process-timeout", "6"]), "--process <COMMAND>");
}

#[test]
fn a_program_prices_all_kernels_at_once() {
    let at = folder("batch");
    // As many answers as there are kernels: each kernel has one `"op":`.
    let program = r#"while read -r line; do
        echo "$line" >> asked.txt
        printf '%s\n' "$line" | grep -o '"op":' | wc -l > count.txt
        awk 'NR == 1 { printf "["; for (i = 0; i < $1; i++) printf "%s{\"seconds\": 2e-6}", i ? "," : ""; print "]" }' count.txt
    done"#;
    let batch = |program: &str, command: &str, more: &[&str]| {
        ovolo(&at, command, &[&["--process", program, "--process-batch"], more].concat())
    };
    let plan = json(&batch(program, "explain", &["--json"]));
    let steps = plan["steps"].as_array().unwrap();
    assert!(!steps.is_empty() && steps.iter().all(|step| number(&step["seconds"]) == 2e-6));
    let asked = std::fs::read_to_string(at.join("asked.txt")).unwrap();
    let whole: Vec<Value> = serde_json::from_str(asked.lines().next().unwrap()).unwrap();
    assert!(asked.lines().count() == 1 && whole.len() > 100, "all kernels are in one line");
    let table = said(&batch(program, "features", &[]));
    assert!(
        table
            .lines()
            .skip(1)
            .all(|line| line.ends_with(",,2e-6") || line.ends_with(",,0.000002") || line.ends_with(",,0"))
    );
    let few = "while read -r line; do echo '[{\"seconds\": 1e-6}]'; done";
    refused(&batch(few, "compile", &[]), "kernels with 1 answers");
    let single = "while read -r line; do echo '{\"seconds\": 1e-6}'; done";
    refused(
        &batch(single, "compile", &[]),
        "the program answered a batch with a line that is not of the form",
    );
    refused(&ovolo(&at, "compile", &["--process-batch"]), "--process <COMMAND>");
}

/// A misspelt word would change no price, and nobody would see why.
#[test]
fn a_word_of_a_price_list_that_no_price_uses_is_refused() {
    let at = folder("unused");
    std::fs::write(at.join("mine.ron"), "Prices(define: {\"sahre\": 0.5})").unwrap();
    let output = ovolo(&at, "compile", &["--costs", "mine.ron"]);
    refused(&output, "no price uses `sahre`");
    refused(&output, "did you mean `share`?");
    std::fs::write(at.join("mine.ron"), "Prices(define: {\"twice\": 2, \"seconds\": \"twice * flops\"})")
        .unwrap();
    said(&ovolo(&at, "compile", &["--costs", "mine.ron"]));
    std::fs::write(at.join("mine.ron"), "Prices(define: {\"seconds\": \"-1e-6\"})").unwrap();
    refused(&ovolo(&at, "compile", &["--costs", "mine.ron"]), "and gives -0.000001 for one of them");
}

#[test]
fn a_selection_from_elsewhere_is_planned_and_run() {
    let at = folder("choices");
    let model = ["--cost", "flops"];
    let with = |command: &str, more: &[&str]| ovolo(&at, command, &[&model[..], more].concat());
    said(&with("dump", &["--egraph", "e.json"]));
    let extract = |extractor: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ovolo"));
        command.args(["extract", "e.json", "--json", "--extractor", extractor]).current_dir(&at);
        said(&command.output().unwrap())
    };
    let best: Value = serde_json::from_str(&extract("exact")).unwrap();
    std::fs::write(at.join("best.json"), best.to_string()).unwrap();
    let ops = |plan: &Value| -> Vec<String> {
        plan["steps"].as_array().unwrap().iter().map(|step| step["op"].to_string()).collect()
    };
    let own = json(&with("explain", &["--json"]));
    let taken = json(&with("explain", &["--json", "--choices", "best.json"]));
    assert_eq!(ops(&own), ops(&taken));
    // Ids do not depend on prices, so what is chosen by other prices can be priced by these.
    std::fs::write(at.join("bytes.ron"), "Prices(define: {\"seconds\": \"1e-6 + bytes / 1e10\"})").unwrap();
    said(&ovolo(&at, "dump", &["--costs", "bytes.ron", "--egraph", "e.json"]));
    std::fs::write(at.join("other.json"), extract("exact")).unwrap();
    let by_bytes = json(&ovolo(&at, "explain", &["--costs", "bytes.ron", "--json"]));
    let plan = json(&with("explain", &["--json", "--choices", "other.json"]));
    assert_eq!(ops(&plan), ops(&by_bytes));
    assert_ne!(ops(&plan), ops(&own));
    assert!(number(&plan["seconds"]) > number(&own["seconds"]));
    said(&with("bench", &["--seconds", "0.01", "--choices", "other.json"]));
    // A program that chooses: ovolo itself.
    let program = "ovolo extract /dev/stdin --extractor greedy-dag --json";
    let program = program.replace("ovolo", env!("CARGO_BIN_EXE_ovolo"));
    said(&with("explain", &["--extractor-process", &program]));
    for (program, why) in [
        ("cat > /dev/null; exit 4", "failed (exit status: 4)"),
        ("echo no", "the form is {\"choices\": {\"CLASS\": \"NODE\"}}"),
        ("echo '{\"choices\": {}}'", "is reached, but nothing is chosen"),
        (
            "echo '{\"choices\": {\"c0\": \"c0.99\"}}'",
            "the class `c0` has no node `c0.99`; its nodes are c0.0",
        ),
        ("echo '{\"choices\": {\"x\": \"c0.99\"}}'", "the e-graph has no class `x`"),
        ("printf '\\377'", "wrote bytes that are not UTF-8"),
    ] {
        refused(&with("compile", &["--extractor-process", program]), why);
    }
    let slow = with("compile", &["--extractor-process", "sleep 9", "--extractor-timeout", "1"]);
    refused(&slow, "the program `sleep 9` has not ended within 1 s");
    refused(&with("compile", &["--extractor", "choices"]), "name it with `--choices FILE.json`");
    refused(&with("compile", &["--extractor", "process"]), "name it with `--extractor-process COMMAND`");
}

#[test]
fn the_keys_of_experiments_and_the_columns_of_their_tables_are_documented() {
    let page = std::fs::read_to_string(crate::common::root().join("examples/experiments/README.md")).unwrap();
    let at = folder("keys");
    std::fs::write(at.join("spec.ron"), "Experiment(zzz: 1)").unwrap();
    let run = |spec: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ovolo"));
        command.args(["experiment", spec, "--out", "results"]).current_dir(&at).output().unwrap()
    };
    let wrong = String::from_utf8(run("spec.ron").stderr).unwrap();
    let keys =
        wrong.split("known are ").nth(1).and_then(|rest| rest.lines().next()).expect("the keys are listed");
    for key in keys.split(", ") {
        assert!(page.contains(&format!("\n| `{key}` | ")), "the page has no line for the key `{key}`");
    }
    std::fs::copy(crate::common::root().join("examples/digits/digits.onnx"), at.join("digits.onnx")).unwrap();
    std::fs::write(
        at.join("spec.ron"),
        "Experiment(name: \"k\", models: [Model(file: \"digits.onnx\", dims: {\"N\": 1})], costs: [\"flops\"], \
         extractors: [\"exact\", \"sample\", Process(name: \"mine\", command: \"OVOLO extract /dev/stdin --json\")], \
         threads: 1, sample: 2, rounds: 1, parts: [\"memory\", \"gap\"])"
            .replace("OVOLO", env!("CARGO_BIN_EXE_ovolo")),
    )
    .unwrap();
    let output = run("spec.ron");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let plans = std::fs::read_to_string(at.join("results/plans.csv")).unwrap();
    assert!(plans.lines().any(|line| line.starts_with("digits,native,flops,mine,")), "{plans}");
    let mut tables = 0;
    for folder in ["results", "results/measured"] {
        for file in std::fs::read_dir(at.join(folder)).unwrap().map(|entry| entry.unwrap().path()) {
            if file.extension().is_some_and(|ending| ending == "csv") {
                tables += 1;
                let text = std::fs::read_to_string(&file).unwrap();
                for column in
                    text.lines().next().unwrap().split(',').filter(|column| !column.starts_with("by "))
                {
                    assert!(page.contains(&format!("`{column}`")), "{}: `{column}`", file.display());
                }
            }
        }
    }
    assert!(tables >= 8, "{tables} tables");
}

#[test]
fn a_fitted_model_prices_kernels_and_one_of_another_machine_is_refused() {
    let at = folder("fit");
    let run = |arguments: &[&str]| {
        let mut run = Command::new(env!("CARGO_BIN_EXE_ovolo"));
        run.args(arguments)
            .args(["--threads", "1"])
            .current_dir(&at)
            .env("OVOLO_CACHE", at.join("cache"))
            .env("OVOLO_PIPELINE", "native");
        run.output().unwrap()
    };
    // Three small networks with different kernels.
    let model = |name: &str, channels: usize, side: usize| {
        let text = format!(
            "graph {{ x: f32[1,16,{side},{side}] = input; w: f32[{channels},16,3,3] = const ~1
             b: f32[{channels}] = const ~2; c = conv(x, w, b) {{pads: [1,1,1,1]}}; r = relu(c)
             v: f32[32,{channels},1,1] = const ~3; d: f32[32] = const ~4; e = conv(r, v, d); y = sigmoid(e); return y }}"
        );
        std::fs::write(at.join(name), text.replace("; ", "\n")).unwrap();
    };
    for (name, channels, side) in [("a.ovolo", 32, 14), ("b.ovolo", 48, 20), ("c.ovolo", 16, 28)] {
        model(name, channels, side);
    }
    refused(&run(&["compile", "a.ovolo", "--cost", "learned"]), "run `ovolo fit MODEL`");
    refused(&run(&["fit", "a.ovolo"]), "the table has no times for its kernels: run `ovolo tune a.ovolo");
    for name in ["a.ovolo", "b.ovolo", "c.ovolo"] {
        said(&run(&["tune", name, "--budget", "1s"]));
    }
    refused(
        &run(&["fit", "a.ovolo", "--learner", "deep"]),
        "there is no learner `deep`: there are boosted, linear",
    );
    for learner in ["linear", "boosted"] {
        let fit = ["fit", "a.ovolo", "b.ovolo", "c.ovolo", "--learner", learner];
        let fitted = json(&run(&[&fit[..], &["--json"]].concat()));
        assert_eq!(fitted["learner"], learner);
        let held_out = fitted["held_out"].as_array().unwrap();
        let models: Vec<&str> = held_out.iter().map(|one| one["model"].as_str().unwrap()).collect();
        assert_eq!(models, ["a", "b", "c", "all"]);
        for one in held_out {
            assert!(number(&one["error"]) >= 0.0 && number(&one["spearman"]) <= 1.0, "{one}");
        }
        let plan = json(&run(&["explain", "a.ovolo", "--cost", "learned", "--json"]));
        let steps = plan["steps"].as_array().unwrap();
        assert!(!steps.is_empty() && steps.iter().all(|step| number(&step["seconds"]) > 0.0), "{plan}");
        assert_eq!(plan, json(&run(&["explain", "a.ovolo", "--cost", "learned", "--json"])));
    }
    // A dimension applies to the models that have it; one that no model has is a mistake.
    let digits = crate::common::root().join("examples/digits/digits.onnx");
    let digits = digits.to_str().unwrap();
    said(&run(&["tune", digits, "--dim", "N=1", "--budget", "1s"]));
    let both = ["fit", digits, "a.ovolo", "--dim", "N=1", "--out", "both.json"];
    assert!(said(&run(&both)).contains("kernels of 2 model(s)"));
    let slip = run(&["fit", digits, "a.ovolo", "--dim", "N=1", "--dim", "M=2"]);
    refused(&slip, "--dim M=2 applies to none of the models: their dimensions without a size are `N`");
    refused(&run(&["fit", "a.ovolo", "--dim", "N=1"]), "--dim N=1 applies to none of the models");
    let file = at.join("cache/learned-1.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(at.join("other.json"), text.replacen("\"processor ", "\"processor not ", 1)).unwrap();
    let other = run(&["compile", "a.ovolo", "--learned", "other.json"]);
    refused(
        &other,
        "other.json: the model was fitted on another machine or by another version: it has `processor not",
    );
    std::fs::write(at.join("other.json"), "{}").unwrap();
    refused(
        &run(&["compile", "a.ovolo", "--learned", "other.json"]),
        "not a model that `ovolo fit` has written",
    );
    said(&run(&["compile", "a.ovolo", "--learned", file.to_str().unwrap()]));
}

#[test]
fn tables_of_shards_are_merged_and_those_of_other_machines_compared() {
    let at = folder("shards");
    let text = "graph { x: f32[1,16,14,14] = input\n w: f32[32,16,3,3] = const ~1\n b: f32[32] = const ~2\n \
                c = conv(x, w, b) {pads: [1,1,1,1]}\n y = relu(c)\n return y }";
    std::fs::write(at.join("a.ovolo"), text).unwrap();
    let run = |cache: &str, arguments: &[&str]| {
        let mut run = Command::new(env!("CARGO_BIN_EXE_ovolo"));
        run.args(arguments)
            .current_dir(&at)
            .env("OVOLO_CACHE", at.join(cache))
            .env("OVOLO_PIPELINE", "native")
            .output()
            .unwrap()
    };
    for number in ["1", "2"] {
        let tune = ["tune", "a.ovolo", "--threads", "1", "--json", "--shard", &format!("{number}/2")];
        assert!(number_of(&json(&run(number, &tune)), "timed") > 0.0);
    }
    let merged = json(&run("both", &["merge-times", "1/times-1.txt", "2/times-1.txt", "--json"]));
    assert!(number_of(&merged, "kernels") > 5.0, "{merged}");
    // Nothing is timed again after the merge.
    let tuned = json(&run("both", &["tune", "a.ovolo", "--threads", "1", "--json"]));
    assert_eq!(number_of(&tuned, "timed"), number_of(&tuned, "rough"), "{tuned}");
    let table = std::fs::read_to_string(at.join("2/times-1.txt")).unwrap();
    std::fs::write(at.join("there.txt"), table.replacen("processor ", "processor not ", 1)).unwrap();
    let mixed = run("both", &["merge-times", "1/times-1.txt", "there.txt", "--out", "mixed.txt"]);
    refused(&mixed, "times of different machines or versions cannot be merged");
    assert!(!at.join("mixed.txt").exists());
    let compared = said(&run("both", &["merge-times", "2/times-1.txt", "there.txt", "--compare"]));
    assert!(compared.contains("kernels in both, median ratio 1.000, Spearman 1.000"), "{compared}");
    assert!(compared.contains("`processor not "), "{compared}");
    refused(&run("both", &["merge-times", "a.ovolo"]), "a.ovolo: this is not a table of times");
}

fn number_of(value: &Value, key: &str) -> f64 {
    number(&value[key])
}

/// A table of times in which matrix products of two models take three times their roofline.
fn table_of_products() -> String {
    let shipped =
        std::fs::read_to_string(crate::common::root().join("costs/tables/zen4-avx2-1.csv")).unwrap();
    let head = shipped.lines().find(|line| !line.starts_with('#')).unwrap();
    let mut table = csv::Writer::from_writer(Vec::new());
    let head = csv::ReaderBuilder::new().from_reader(head.as_bytes()).headers().unwrap().clone();
    table.write_record(&head).unwrap();
    for at in 0..24_u32 {
        let field = |column: &str| match column {
            "model" => ["a", "b"][at as usize % 2].to_owned(),
            "call" => at.to_string(),
            "op" => "native.matmul".to_owned(),
            "implementation" => "tiles-avx2".to_owned(),
            "roofline" => "1e-5".to_owned(),
            "seconds" => "3e-5".to_owned(),
            _ => "1".to_owned(),
        };
        table.write_record(head.iter().map(field)).unwrap();
    }
    String::from_utf8(table.into_inner().unwrap()).unwrap()
}

#[test]
fn corrections_that_are_fitted_to_a_table_count_in_prices() {
    let at = folder("correct");
    let costs = |arguments: &[&str]| {
        let mut run = Command::new(env!("CARGO_BIN_EXE_ovolo"));
        run.arg("costs")
            .args(arguments)
            .current_dir(&at)
            .env("OVOLO_CACHE", at.join("cache"))
            .output()
            .unwrap()
    };
    std::fs::write(at.join("products.csv"), table_of_products()).unwrap();
    let text = said(&costs(&["fit", "products.csv", "--out", "fitted.ron"]));
    assert!(text.starts_with("fitted.ron: 1 kind of kernels with 1 regime, "), "{text}");
    let prices = |cost: &[&str]| -> Vec<(String, f64)> {
        let kernels = json(&ovolo(&at, "features", &[cost, &["--json"]].concat()));
        let kernels = kernels.as_array().unwrap().iter();
        kernels.map(|one| (one["op"].as_str().unwrap().to_owned(), number(&one["seconds"]))).collect()
    };
    let (before, after) = (prices(&["--cost", "roofline"]), prices(&["--costs", "fitted.ron"]));
    let mut products = 0;
    for ((op, before), (_, after)) in before.iter().zip(&after) {
        // Times that are few draw a correction to 1.
        let right = if op == "native.matmul" { 2.6..=3.0 } else { 1.0 - 1e-9..=1.0 + 1e-9 };
        assert!(*before == 0.0 || right.contains(&(after / before)), "{op}: {before} and {after}");
        products += usize::from(op == "native.matmul");
    }
    assert!(products > 0 && before.len() > products);
    let checked =
        said(&costs(&["fit", "products.csv", "--quick", "--check", "products.csv", "--out", "again.ron"]));
    let (_, report) = checked.split_once("table not fitted").expect("it has a part for the table");
    assert!(report.contains("products ") && report.contains(" 66.7 % "), "{checked}");
    refused(&costs(&["fit", "absent.csv", "--out", "no.ron"]), "absent.csv: ");
    let absent = costs(&["fit", "products.csv", "--check", "absent.csv", "--out", "no.ron"]);
    refused(&absent, "absent.csv: ");
    let strange = costs(&["fit", "products.csv", "--without", "c", "--out", "no.ron"]);
    refused(&strange, "--without c: no table has a model of this name; there are a, b");
    let none = costs(&["fit", "products.csv", "--without", "a", "--without", "b", "--out", "no.ron"]);
    refused(&none, "there is no kind of kernels of which the tables have enough");
    refused(&costs(&["fit", "products.csv", "--out", "products.csv"]), "products.csv");
    assert!(!at.join("no.ron").exists());
    let model = crate::common::root().join("examples/digits/digits.onnx");
    let untimed =
        costs(&["table", model.to_str().unwrap(), "--dim", "N=1", "--threads", "1", "--out", "no.csv"]);
    refused(&untimed, "the table has no times for its kernels: run `ovolo tune ");
}
