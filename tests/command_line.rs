//! The command line refuses what it cannot do as asked, in words, before anything is written.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of this test's own, with a model whose two outputs have nearly one name.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let model = "graph {\n  x: f32[2] = input\n  \"a/b\" = relu(x)\n  a_b = neg(x)\n  return \"a/b\"\n  return a_b\n}\n";
    std::fs::write(folder.join("model.ovolo"), model).unwrap();
    folder
}

fn ovolo(at: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ovolo"));
    command.args(arguments).current_dir(at).env("OVOLO_CACHE", at.join("cache")).output().unwrap()
}

fn refused(at: &Path, arguments: &[&str], why: &str) {
    let output = ovolo(at, arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    assert!(said.contains(why), "{arguments:?}: {said}");
}

#[test]
fn outputs_of_one_file_name_are_refused_and_none_is_written() {
    let at = folder("one-file-name");
    let x = ovolo::tensor::Tensor::zeros(ovolo::tensor::TensorType::plain(ovolo::tensor::DType::F32, [2]));
    ovolo::npy::write(at.join("x.npy"), &x).unwrap();
    let run = ["run", "model.ovolo", "--cost", "flops", "--input", "x=x.npy", "--output-dir", "out"];
    refused(&at, &run, "outputs `a/b` and `a_b` would both be a_b.npy");
    assert!(!at.join("out").exists());
}

#[test]
fn numbers_that_no_machine_has_are_refused() {
    let at = folder("numbers");
    for (threads, why) in [("0", "--threads takes 1 or more"), ("100000", "--threads takes up to 1024")] {
        refused(&at, &["bench", "model.ovolo", "--cost", "flops", "--threads", threads], why);
    }
}

#[test]
fn a_dimension_is_given_once() {
    let at = folder("dimension");
    let twice = ["compile", "model.ovolo", "--cost", "flops", "--dim", "N=1", "--dim", "N=2"];
    refused(&at, &twice, "--dim gives `N` twice: 1 and 2");
}

/// A rule file of one rule in a folder of this test's own.
fn rule_file(name: &str, text: &str) -> PathBuf {
    let at = folder(name);
    std::fs::create_dir_all(at.join("rules")).unwrap();
    std::fs::write(at.join("rules/mine.ron"), text).unwrap();
    at
}

fn said(at: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = ovolo(at, arguments);
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

const RULE: &str = r#"[Rule(name: "no-neg", from: "(neg (neg ?x))", to: "?x", examples: [
    Example(fires: "x: f32[2] = input; y = neg(x); z = neg(y); return z"),
    Example(refuses: "x: f32[2] = input; z = neg(x); return z"),
])]"#;

#[test]
fn blessing_says_what_it_did_and_what_it_cannot_do() {
    let at = rule_file("bless", RULE);
    let bless = ["rules", "test", "rules/mine.ron", "--bless"];
    let (code, first, _) = said(&at, &bless);
    assert_eq!((code, first.as_str()), (Some(0), "rules/mine.ron: 2 examples blessed\n"));
    let (code, second, _) = said(&at, &bless);
    assert_eq!((code, second.as_str()), (Some(0), "nothing to bless: 2 examples are as expected\n"));
    std::fs::write(at.join("rules/mine.ron"), RULE.replace("z = neg(y)", "z = exp(y)")).unwrap();
    let (code, report, why) = said(&at, &bless);
    assert_eq!(code, Some(1));
    assert!(report.contains("no-neg (rules/mine.ron:2:20): it does not fire"), "{report}");
    assert!(report.contains("1 examples blessed"), "what can be blessed is: {report}");
    assert!(why.contains("1 examples are wrong or missing, and cannot be blessed"), "{why}");
}

#[test]
fn findings_have_places_and_notes_come_when_asked_for() {
    let text = r#"[
        Rule(name: "one-way", from: "(neg (relu ?x))", to: "(relu (neg ?x))"),
        Rule(name: "other-way", from: "(relu (neg ?y))", to: "(neg (relu ?y))"),
        Rule(name: "turned", from: "(transpose ?x {perm: [1,0]})", to: "?x"),
    ]"#;
    let at = rule_file("check", text);
    let (code, report, why) = said(&at, &["rules", "check", "rules/mine.ron"]);
    assert_eq!((code, why.as_str()), (Some(1), "error: 3 findings\n"));
    assert!(report.contains("rules/mine.ron:4:37") && report.contains("left: f32[2,1]"), "{report}");
    assert!(report.ends_with("3 rules, 3 findings, 0 notes\n"), "{report}");
    let allow = ["rules", "check", "rules/mine.ron", "--allow", "undone"];
    let (_, report, _) = said(&at, &allow);
    assert!(report.ends_with("3 rules, 2 findings, 1 notes (`--notes` shows them)\n"), "{report}");
    let (_, report, _) = said(&at, &[allow.as_slice(), &["--notes"]].concat());
    let (note, finding) = (report.find("note: undone: one-way"), report.find("error: mistyped"));
    assert!(note > finding && finding.is_some(), "{report}");
    assert!(report.contains("one-way (rules/mine.ron:2:21)"), "{report}");
}

#[test]
fn mistakes_and_findings_of_the_other_rules_are_told_together() {
    let text = r#"[
        Rule(name: "misread", from: "(rleu ?x)", to: "?x"),
        Rule(name: "misspelt" from: "(abs ?x)", to: "?x"),
        Rule(name: "turned", from: "(transpose ?x {perm: [1,0]})", to: "?x"),
    ]"#;
    let at = rule_file("together", text);
    let (code, report, why) = said(&at, &["rules", "check", "rules/mine.ron"]);
    assert_eq!(code, Some(1));
    assert!(
        report.contains("op `rleu` is not known") && report.contains("`,` or `)` is missing"),
        "{report}"
    );
    assert!(report.contains("mistyped: the sides differ in type"), "{report}");
    assert_eq!(why, "error: 2 mistakes, 2 findings\n");
}

#[test]
fn rules_of_ones_own_are_checked_beside_the_shipped_ones() {
    let text = r#"[
        Rule(name: "mine-twice", from: "(abs (abs ?x))", to: "(abs ?x)"),
        Rule(name: "mine-shipped", from: "(relu (relu ?x))", to: "(relu ?x)", when: ["is-f32(?x)"]),
    ]"#;
    let at = rule_file("beside", text);
    let pipeline = "Pipeline(name: \"p\", passes: [Rewrite(name: \"r\", rules: [\"algebra\", \"fuse\", \"mine\"]), \
                    Rewrite(name: \"l\", rules: [\"native\"]), Extract(cost: \"flops\"), Plan()], \
                    backends: [\"native\"])";
    std::fs::write(at.join("p.ron"), pipeline).unwrap();
    let check = ["rules", "check", "rules/mine.ron", "--pipeline", "p.ron", "--on", "."];
    let (code, report, why) = said(&at, &check);
    assert_eq!(code, Some(1), "{report}{why}");
    assert!(report.contains("never-fires: it changed nothing on 1 models"), "{report}{why}");
    assert!(report.contains("subsumed: whatever it matches, `drop-second-relu` matches"), "{report}{why}");
}

#[test]
fn a_rule_without_instances_is_shown_at_the_guard_that_refuses() {
    let text = r#"[
        Rule(name: "no-such", from: "(relu ?x)", to: "?x",
            when: ["is-f32(?x)", "less(dim(?x, 0), 0)"]),
    ]"#;
    let at = rule_file("uncovered", text);
    let (code, report, _) = said(&at, &["rules", "verify", "rules/mine.ron", "--instances", "2"]);
    assert_eq!(code, Some(1));
    assert!(report.contains("no-such (rules/mine.ron:2:21): 0 instances in"), "{report}");
    assert!(report.contains("(rules/mine.ron:3:35), such as: less(dim(?x, 0), 0): dim(?x, 0) ("), "{report}");
}

#[test]
fn the_law_of_a_rule_is_listed() {
    let at = rule_file("law", &RULE.replacen('[', "[\n    // Twice is once.\n    ", 1));
    let (_, report, _) = said(&at, &["rules", "list", "rules/mine.ron", "--json"]);
    assert!(report.contains("\"law\":\"Twice is once.\""), "{report}");
}

#[test]
fn explaining_ends_at_the_imported_nodes() {
    let at = folder("explain");
    let (_, report, _) = said(&at, &["explain", "model.ovolo", "--cost", "flops", "--threads", "1"]);
    assert!(report.contains(" <- a/b (relu)\n") && report.contains(" <- a_b (neg)\n"), "{report}");
    let json = ["explain", "model.ovolo", "--cost", "flops", "--threads", "1", "--json"];
    let (_, report, _) = said(&at, &json);
    assert!(report.contains("\"imported\":[{\"name\":\"a/b\",\"op\":\"relu\"}]"), "{report}");
}

#[test]
fn values_of_a_model_are_found_by_a_part_of_their_name() {
    let at = folder("node");
    let ask = ["rules", "why-not", "map-relu", "model.ovolo", "--cost", "flops", "--node", "b"];
    refused(&at, &ask, "no value is called `b`: did you mean `a/b`?");
    let ask = ["rules", "why-not", "map-relu", "model.ovolo", "--cost", "flops", "--node", "A_"];
    refused(&at, &ask, "no value is called `A_`: did you mean `a_b`?");
}

#[test]
fn mistakes_of_rules_and_of_the_pipeline_are_told_at_once() {
    let at = rule_file("pipeline", &RULE.replace("(neg (neg", "(ngg (neg"));
    let pipeline = |rules: &str| {
        format!(
            "Pipeline(name: \"p\", passes: [\n    Rewrite(name: \"r\", rules: [\"{rules}\"]), Extract(cost: \"flop\"), Plan(),\n], backends: [\"native\"])"
        )
    };
    std::fs::write(at.join("p.ron"), pipeline("algebr")).unwrap();
    let both = ["compile", "model.ovolo", "--rules", "rules", "--pipeline", "p.ron"];
    refused(&at, &both, "op `ngg` is not known");
    refused(&at, &both, "cost `flop` is not known");
    let alone = ["compile", "model.ovolo", "--pipeline", "p.ron"];
    refused(&at, &alone, "no rule and no rule file is called `algebr`\n  --> p.ron:2:32");
    refused(&at, &alone, "did you mean `algebra`?");
    refused(&at, &alone, "cost `flop` is not known");
}

#[test]
fn messages_name_the_file_and_the_nearest_rule() {
    let at = rule_file("names", RULE);
    std::fs::write(at.join("rules/latin.ron"), b"[\n    // caf\xe9\n]").unwrap();
    refused(&at, &["rules", "check", "--rules", "rules"], "rules/latin.ron:2:11: this is not UTF-8 text");
    std::fs::write(at.join("case.ovolo"), "graph {\n  x: f32[2] = input\n  left = rleu(x)\n}").unwrap();
    refused(&at, &["rules", "verify", "--case", "case.ovolo"], "--> case.ovolo:3:10");
    refused(&at, &["compile", "case.ovolo"], "--> case.ovolo:3:10");
    refused(&at, &["rules", "why-not", "fuse-conv", "model.ovolo"], "did you mean `fuse-conv-map`?");
    refused(&at, &["rules", "list", "--rule", "native-conv"], "did you mean `");
}

#[test]
fn ablation_takes_what_other_commands_take_and_draws_nothing_beside_a_terminal() {
    let at = folder("ablate");
    let (code, report, progress) =
        said(&at, &["rules", "ablate", "model.ovolo", "--seeded-weights", "--threads", "1"]);
    assert_eq!((code, progress.as_str()), (Some(0), ""));
    assert!(report.contains("with all rules by `flops`"), "{report}");
    refused(&at, &["rules", "ablate", "model.ovolo", "--dim", "N=0"], "--dim takes NAME=N with N at least 1");
    // Rules that a pipeline names one by one, and rules that are alone in their file.
    std::fs::create_dir_all(at.join("own")).unwrap();
    let own = "[Rule(name: \"twice\", from: \"(relu (relu ?x))\", to: \"(relu ?x)\")]";
    std::fs::write(at.join("own/alone.ron"), own).unwrap();
    let pipeline = "Pipeline(name: \"p\", passes: [
        Rewrite(name: \"one\", rules: [\"alone\", \"map-relu\"]), Rewrite(name: \"all\", rules: [\"native\", \"fuse\"]),
        Extract(cost: \"flops\"), Plan()], backends: [\"native\"])";
    std::fs::write(at.join("p.ron"), pipeline).unwrap();
    let relus = "graph { x: f32[4] = input; r = relu(x); s = relu(r); y = exp(s); return y }";
    std::fs::write(at.join("relus.ovolo"), relus).unwrap();
    let ablate = ["rules", "ablate", "relus.ovolo", "--pipeline", "p.ron", "--rules", "own"];
    let (code, report, why) = said(&at, &ablate);
    assert_eq!(code, Some(0), "{why}");
    assert!(!report.contains("is called"), "{report}");
    for rule in ["twice", "map-relu"] {
        assert!(report.lines().any(|line| line.trim_start().starts_with(rule)), "{report}");
    }
}

#[test]
fn advice_is_what_can_be_done() {
    let at = folder("advice");
    std::fs::create_dir_all(at.join("own")).unwrap();
    let write = |text: &str| std::fs::write(at.join("own/mine.ron"), text).unwrap();
    // No guard is there to be loosened.
    write(
        "[Rule(name: \"untyped\", from: \"(matmul (cast ?x {to: f32}) (cast ?x {to: f64}))\", to: \"?x\")]",
    );
    let (_, report, why) = said(&at, &["rules", "verify", "own/mine.ron", "--instances", "2"]);
    assert!(report.contains("No guard is to blame") && !report.contains("Loosen"), "{report}{why}");
    // Nothing of this can be written into the file: there are no examples.
    write("[Rule(name: \"bare\", from: \"(relu (relu ?x))\", to: \"(relu ?x)\")]");
    let (_, report, why) = said(&at, &["rules", "test", "own/mine.ron"]);
    assert!(!why.contains("--bless") && why.contains("write the example"), "{report}{why}");
    // What is missing after it fires can.
    let fires = "Example(fires: \"x: f32[2] = input; r = relu(x); y = relu(r); return y\")";
    write(&format!(
        "[Rule(name: \"bare\", from: \"(relu (relu ?x))\", to: \"(relu ?x)\", examples: [{fires}])]"
    ));
    let (_, report, why) = said(&at, &["rules", "test", "own/mine.ron"]);
    assert!(why.contains("`--bless` writes what happens into the files for 1 of them"), "{report}{why}");
    // A name that is taken.
    write(
        "[Rule(name: \"drop-second-relu\", from: \"(relu (relu ?x))\", to: \"(relu ?x)\", when: [\"is-f32(?x)\"])]",
    );
    let (code, report, _) = said(&at, &["rules", "check", "own/mine.ron"]);
    assert_eq!(code, Some(1));
    assert!(
        report.contains("name-taken: a rule that ships with ovolo has this name (rules/algebra.ron:"),
        "{report}"
    );
    assert!(report.contains("mine.ron:1:"), "{report}");
    write("\n// nothing\n");
    let (code, report, why) = said(&at, &["rules", "check", "own/mine.ron"]);
    assert_eq!(code, Some(1));
    assert!(format!("{report}{why}").contains("the rule file is empty"), "{report}{why}");
}
