//! Tests that the command line refuses wrong requests with a message before anything is written.
#![allow(clippy::unwrap_used)]

use crate::common;

use crate::common::ovolo;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Returns a folder for one test, with a model whose two outputs have similar names.
fn folder(name: &str) -> PathBuf {
    let folder = common::folder(name);
    let model = "graph {\n  x: f32[2] = input\n  \"a/b\" = relu(x)\n  a_b = neg(x)\n  return \"a/b\"\n  return a_b\n}\n";
    std::fs::write(folder.join("model.ovolo"), model).unwrap();
    folder
}

fn refused(at: &Path, arguments: &[&str], why: &str) {
    let output = ovolo(at, arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    assert!(said.contains(why), "{arguments:?}: {said}");
}

#[test]
fn the_program_has_the_commands_of_the_command_line() {
    let help = String::from_utf8(ovolo(&folder("help"), &["--help"]).stdout).unwrap();
    for name in ovolo_standard::command_line(ovolo::registry::Registry::new()).names() {
        let listed =
            help.lines().any(|line| line.strip_prefix("  ").is_some_and(|line| line.starts_with(&name)));
        assert!(listed, "{name}: {help}");
    }
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
    for (threads, why) in [
        ("0", "the threads (`--threads`) must be at least 1"),
        ("100000", "the threads (`--threads`) must be at most 1024"),
    ] {
        refused(&at, &["bench", "model.ovolo", "--cost", "flops", "--threads", threads], why);
    }
}

#[test]
fn a_dimension_may_be_given_only_once() {
    let at = folder("dimension");
    let twice = ["compile", "model.ovolo", "--cost", "flops", "--dim", "N=1", "--dim", "N=2"];
    refused(&at, &twice, "--dim gives `N` twice: 1 and 2");
}

/// Returns a folder for one test with a rule file.
fn rule_file(name: &str, text: &str) -> PathBuf {
    let at = folder(name);
    std::fs::create_dir_all(at.join("rules/examples")).unwrap();
    std::fs::write(at.join("rules/mine.ron"), text).unwrap();
    at
}

/// The same with a file of examples beside it.
fn rule_file_with(name: &str, text: &str, examples: &str) -> PathBuf {
    let at = rule_file(name, text);
    std::fs::write(at.join("rules/examples/mine.ron"), examples).unwrap();
    at
}

fn said(at: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = ovolo(at, arguments);
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

const RULE: &str = r#"[Rule(name: "no-neg", from: "(neg (neg ?x))", to: "?x")]"#;

const EXAMPLES: &str = r#"[
    Examples(
        rule: "no-neg",
        examples: [
            Example(
                fires: "
                    x: f32[2] = input
                    y = neg(x)
                    z = neg(y)
                    return z
                ",
            ),
            Example(refuses: "x: f32[2] = input; z = neg(x); return z"),
        ],
    ),
]
"#;

#[test]
fn blessing_reports_what_it_did_and_what_it_cannot_do() {
    let at = rule_file_with("bless", RULE, EXAMPLES);
    let bless = ["rules", "test", "rules/mine.ron", "--bless"];
    let (code, first, _) = said(&at, &bless);
    assert_eq!((code, first.as_str()), (Some(0), "rules/examples/mine.ron: 2 examples blessed\n"));
    let blessed = std::fs::read_to_string(at.join("rules/examples/mine.ron")).unwrap();
    let expected = EXAMPLES
        .replace(
            "return z\n                \",\n",
            "return z\n                \",\n                after: \"z = x\",\n",
        )
        .replace("return z\"),", "return z\", because: \"no match\"),");
    assert_eq!(blessed, expected);
    let (code, second, _) = said(&at, &bless);
    assert_eq!((code, second.as_str()), (Some(0), "nothing to bless: 2 examples are as expected\n"));
    std::fs::write(at.join("rules/examples/mine.ron"), EXAMPLES.replace("z = neg(y)", "z = exp(y)")).unwrap();
    let (code, report, why) = said(&at, &bless);
    assert_eq!(code, Some(1));
    assert!(report.contains("no-neg (rules/examples/mine.ron:6:24): it does not fire"), "{report}");
    assert!(report.contains("1 example blessed"), "examples that can be blessed must be: {report}");
    assert!(why.contains("1 example is wrong or missing, and cannot be blessed"), "{why}");
}

#[test]
fn findings_have_places_and_notes_are_shown_on_request() {
    let text = r#"[
        Rule(name: "one-way", from: "(neg (relu ?x))", to: "(relu (neg ?x))"),
        Rule(name: "other-way", from: "(relu (neg ?y))", to: "(neg (relu ?y))"),
        Rule(name: "turned", from: "(transpose ?x {perm: [1,0]})", to: "?x"),
    ]"#;
    let at = rule_file("check", text);
    let (code, report, why) = said(&at, &["rules", "check", "rules/mine.ron"]);
    // That no pipeline names a file that is named alone is a note.
    assert_eq!((code, why.as_str()), (Some(1), "error: 2 findings\n"));
    assert!(report.contains("rules/mine.ron:4:37") && report.contains("left: f32[1,2]"), "{report}");
    assert!(report.ends_with("3 rules, 2 findings, 1 note (`--notes` shows them)\n"), "{report}");
    let allow = ["rules", "check", "rules/mine.ron", "--allow", "undone"];
    let (_, report, _) = said(&at, &allow);
    assert!(report.ends_with("3 rules, 1 finding, 2 notes (`--notes` shows them)\n"), "{report}");
    let (_, report, _) = said(&at, &[allow.as_slice(), &["--notes"]].concat());
    let (note, finding) = (report.find("note: undone: one-way"), report.find("error: mistyped"));
    assert!(note > finding && finding.is_some(), "{report}");
    assert!(report.contains("one-way (rules/mine.ron:2:21)"), "{report}");
}

#[test]
fn mistakes_and_findings_are_reported_together() {
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
    assert_eq!(why, "error: 2 mistakes, 1 finding\n");
}

#[test]
fn own_rules_are_checked_together_with_the_shipped_ones() {
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
    assert!(report.contains("never-fires: the rule changed nothing on 1 model\n"), "{report}{why}");
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
fn laws_are_listed() {
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
fn mistakes_in_rules_and_in_the_pipeline_are_reported_together() {
    let at = rule_file("pipeline", &RULE.replace("(neg (neg", "(ngg (neg"));
    let pipeline = |rules: &str| {
        format!(
            "Pipeline(name: \"p\", passes: [\n    Rewrite(name: \"r\", rules: [\"{rules}\"]), Extract(cost: \"flop\"), Plan(),\n], backends: [\"native\"])"
        )
    };
    std::fs::write(at.join("p.ron"), pipeline("algebr")).unwrap();
    let both = ["compile", "model.ovolo", "--rules", "rules", "--pipeline", "p.ron"];
    refused(&at, &both, "op `ngg` is not known");
    refused(&at, &both, "cost model `flop` is not known");
    let alone = ["compile", "model.ovolo", "--pipeline", "p.ron"];
    refused(&at, &alone, "no rule and no rule file is called `algebr`\n  --> p.ron:2:32");
    refused(&at, &alone, "did you mean `algebra`?");
    refused(&at, &alone, "cost model `flop` is not known");
}

#[test]
fn messages_name_the_file_and_the_nearest_rule() {
    let at = rule_file("names", RULE);
    std::fs::write(at.join("rules/latin.ron"), b"[\n    // caf\xe9\n]").unwrap();
    refused(&at, &["rules", "check", "--rules", "rules"], "rules/latin.ron:2:11: this is not UTF-8 text");
    // A folder stands for the rule files in it.
    refused(&at, &["rules", "verify", "rules"], "rules/latin.ron:2:11: this is not UTF-8 text");
    std::fs::write(at.join("model.onnx"), [8, 0, 9]).unwrap();
    refused(&at, &["rules", "check", "model.onnx"], "model.onnx: this is not a text file but a binary one");
    let passes = "[Rewrite(name: \"fuse\", rules: [\"fuse\"], rounds: 1, nodes: 100)]";
    let pipeline = format!("Pipeline(name: \"fuse\", passes: {passes}, backends: [\"native\"])");
    std::fs::write(at.join("fuse.ron"), pipeline).unwrap();
    let compile = ["compile", "model.ovolo", "--pipeline", "fuse.ron"];
    refused(&at, &compile, "fuse.ron: pipeline `fuse` has no `Plan`");
    std::fs::write(at.join("case.ovolo"), "graph {\n  x: f32[2] = inptu\n}").unwrap();
    refused(&at, &["compile", "case.ovolo"], "did you mean `input`?");
    std::fs::write(at.join("case.ovolo"), "graph {\n  x: f32[2] = input\n  left = rleu(x)\n}").unwrap();
    refused(&at, &["rules", "verify", "--case", "case.ovolo"], "--> case.ovolo:3:10");
    refused(&at, &["compile", "case.ovolo"], "--> case.ovolo:3:10");
    refused(&at, &["rules", "why-not", "fuse-conv", "model.ovolo"], "did you mean `fuse-conv-map`?");
    refused(&at, &["rules", "list", "--rule", "native-conv"], "did you mean `");
    let exchanged =
        "`model.ovolo` stands where the rule belongs, and rule `map-relu` where the model belongs";
    refused(&at, &["rules", "why-not", "model.ovolo", "map-relu"], exchanged);
}

#[test]
fn ablation_has_the_common_options_and_no_bar_without_a_terminal() {
    let at = folder("ablate");
    let (code, report, progress) =
        said(&at, &["rules", "ablate", "model.ovolo", "--seeded-weights", "--threads", "1"]);
    assert_eq!((code, progress.as_str()), (Some(0), ""));
    assert!(report.contains("with all rules by `flops`"), "{report}");
    refused(
        &at,
        &["rules", "ablate", "model.ovolo", "--dim", "N=-1"],
        "--dim needs NAME=N with N a whole number",
    );
    // Rules that a pipeline names one by one, and rules that are alone in their files.
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
fn the_table_of_an_ablation_names_what_wins_nowhere() {
    let at = folder("ablate-table");
    let graph =
        "graph { x: f32[4,16] = input; w: f32[16,8] = const ~1; m = matmul(x, w); y = relu(m); return y }";
    std::fs::write(at.join("small.ovolo"), graph).unwrap();
    let ablate = ["ablate", "small.ovolo", "--pipeline", "native", "--pipeline", "merged"];
    let (code, report, progress) = said(&at, &ablate);
    assert_eq!((code, progress.as_str()), (Some(0), ""), "{report}");
    assert!(report.starts_with("2 cases (a model with a pipeline)"), "{report}");
    let row = |name: &str| report.lines().find(|line| line.starts_with(name));
    let matmul = row("native.matmul").unwrap_or_else(|| panic!("{report}"));
    assert_eq!(matmul.split_whitespace().skip(1).take(3).collect::<Vec<_>>(), ["2", "2", "2"], "{report}");
    assert!(row("win nowhere").is_some_and(|line| line.contains("native.map")), "{report}");
    assert_eq!(said(&at, &ablate).1, report);
    let json = [&ablate[..], &["--by", "planner", "--json"]].concat();
    let (_, lines, why) = said(&at, &json);
    let names: Vec<String> = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["name"].to_string())
        .collect();
    assert_eq!(names, ["\"best\"", "\"exact\"", "\"first-fit\""], "{lines}{why}");
    let wrong = ovolo(&at, &["ablate", "small.ovolo", "--by", "kernels"]);
    assert_eq!(wrong.status.code(), Some(2), "the command line has a mistake");
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("is none of rule, file, kernel"));
}

#[test]
fn advice_can_be_followed() {
    let at = folder("advice");
    std::fs::create_dir_all(at.join("own")).unwrap();
    let write = |text: &str| std::fs::write(at.join("own/mine.ron"), text).unwrap();
    // There is no guard that could be relaxed.
    write(
        "[Rule(name: \"untyped\", from: \"(matmul (cast ?x {to: f32}) (cast ?x {to: f64}))\", to: \"?x\")]",
    );
    let (_, report, why) = said(&at, &["rules", "verify", "own/mine.ron", "--instances", "2"]);
    assert!(report.contains("No guard is the reason") && !report.contains("Loosen"), "{report}{why}");
    // Nothing can be blessed, because there are no examples.
    write("[Rule(name: \"bare\", from: \"(relu (relu ?x))\", to: \"(relu ?x)\")]");
    let (_, report, why) = said(&at, &["rules", "test", "own/mine.ron"]);
    assert!(!why.contains("--bless") && why.contains("write the example"), "{report}{why}");
    // A missing `after` can be blessed.
    let fires = "Example(fires: \"x: f32[2] = input; r = relu(x); y = relu(r); return y\")";
    std::fs::create_dir_all(at.join("own/examples")).unwrap();
    let examples = at.join("own/examples/mine.ron");
    std::fs::write(&examples, format!("[Examples(rule: \"bare\", examples: [{fires}])]")).unwrap();
    let (_, report, why) = said(&at, &["rules", "test", "own/mine.ron"]);
    assert!(
        why.contains("`--bless` writes the actual results into the files for 1 of them"),
        "{report}{why}"
    );
    std::fs::remove_file(examples).unwrap();
    // A rule with the name of a shipped rule.
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

#[test]
fn a_check_on_models_reports_shipped_names_and_everything_else() {
    let text = "[Rule(name: \"drop-identity-reshape\", from: \"(reshape ?x {shape: ?s})\", to: \"?x\", when: [\"shape-is(?x, ?s)\"]),
        Rule(name: \"idle\", from: \"(tanh (neg ?x))\", to: \"(tanh (neg ?x))\")]";
    let at = rule_file("check-on", text);
    let check = ["rules", "check", "rules/mine.ron", "--on", "."];
    let (code, report, why) = said(&at, &check);
    assert_eq!(code, Some(1));
    assert!(report.contains("name-taken: ") && report.contains("idle"), "{report}{why}");
    assert!(!why.contains("is called"), "{why}");
    // A model may be named itself.
    let on = |path| said(&at, &["rules", "check", "rules/mine.ron", "--on", path]);
    assert_eq!(on("model.ovolo").1, report);
    let (_, _, why) = on("rules/mine.ron");
    assert!(why.contains("--on rules/mine.ron: it is no model (.onnx, .ovolo), and no directory"), "{why}");
    // Findings are reported before the error that keeps a model from being compiled.
    std::fs::write(at.join("worse.ovolo"), "graph {").unwrap();
    let (code, report, why) = said(&at, &check);
    assert_eq!(code, Some(1));
    assert!(report.contains("name-taken: ") && why.contains("and then: "), "{report}{why}");
    // Another version of a shipped file replaces it, and pipelines that name the file still work.
    std::fs::remove_file(at.join("worse.ovolo")).unwrap();
    let shipped = &**common::registry().rules().get("rules/algebra.ron").unwrap();
    std::fs::write(at.join("rules/mine.ron"), shipped).unwrap();
    let allowed = ["--allow", "unused", "--allow", "never-fires"];
    let (_, report, why) = said(&at, &[&check[..], &allowed[..]].concat());
    assert!(!report.contains("name-taken") && !why.contains("is called"), "{report}{why}");
}

#[test]
fn a_check_tries_rules_that_are_added_and_names_each_model_that_it_cannot_use() {
    let at = rule_file("check-add", RULE);
    let graph = |body: &str| format!("graph {{ x: f32[2] = input; {body} }}");
    std::fs::create_dir_all(at.join("models")).unwrap();
    std::fs::write(at.join("models/twice.ovolo"), graph("y = neg(x); z = neg(y); return z")).unwrap();
    std::fs::write(at.join("models/once.ovolo"), graph("y = neg(x); return y")).unwrap();
    let check = |more: &[&str]| {
        let all = [&["rules", "check", "rules/mine.ron"], more].concat();
        let (code, report, why) = said(&at, &all);
        (code, report.contains("never-fires"), why)
    };
    // No pipeline has the rule, so no model has tried it.
    assert_eq!(check(&["--on", "models/once.ovolo"]), (Some(0), false, String::new()));
    let add = ["--add", "rules/mine.ron:fuse", "--on"];
    assert_eq!(check(&[&add[..], &["models"]].concat()), (Some(0), false, String::new()));
    let (code, never, _) = check(&[&add[..], &["models/once.ovolo"]].concat());
    assert_eq!((code, never), (Some(1), true));
    let (_, _, why) = check(&["--add", "rules/mine.ron:fuze", "--on", "models"]);
    assert!(why.contains("no `Rewrite` of the pipeline is called `fuze`"), "{why}");
    // The other models are still used.
    for name in ["a", "b"] {
        std::fs::write(at.join(format!("models/{name}.ovolo")), graph("return nothing")).unwrap();
    }
    std::fs::remove_file(at.join("models/twice.ovolo")).unwrap();
    let (_, never, why) = check(&[&add[..], &["models"]].concat());
    assert!(never && why.contains("models/a.ovolo: ") && why.contains("models/b.ovolo: "), "{why}");
    let (_, _, why) = check(&["--on", "models/once.ovolo", "--dim", "N=2"]);
    assert!(why.contains("no model of --on has a dimension `N` without a size"), "{why}");
}

#[test]
fn options_that_members_do_not_support_are_refused() {
    let at = folder("members");
    let none = ["rules", "verify", "--on", "model.ovolo", "--members", "0"];
    refused(&at, &none, "--members must be at least 1");
    let one = ["rules", "verify", "--rule", "drop-second-relu", "--on", "model.ovolo"];
    refused(&at, &one, "leave out --rule and rule files");
    let (code, report, why) = said(&at, &["rules", "verify", "--on", "model.ovolo", "--members", "1"]);
    assert_eq!(code, Some(0), "{report}{why}");
}

#[test]
fn blessing_is_advised_only_if_it_can_help() {
    let rows = r#"[Rule(name: "$a-of-neg", for_each: {"a": ["abs", "relu"]}, from: "($a (neg (neg ?x)))", to: "($a ?x)")]"#;
    let examples = r#"[Examples(rule: "$a-of-neg", examples: [
        Example(fires: "x: f32[2] = input; m = neg(x); n = neg(m); y = $a(n); return y"AFTER),
        Example(refuses: "x: f32[2] = input; z = neg(x); return z", because: "no match"),
    ])]"#;
    // Each row becomes a different graph, of another form, and one row is right already.
    let parts = r#"[Rule(name: "of-neg-$n", for_each: [{"n": "one", "part": "?x"}, {"n": "two", "part": "(exp ?x)"}],
        from: "(abs (neg (neg ?x)))", to: "(abs $part)")]"#;
    let of_parts = examples.replace("$a-of-neg", "of-neg-$n").replace("$a(n)", "abs(n)");
    for after in ["", r#", after: "y = abs(x)""#] {
        let at = rule_file_with("bless-rows", parts, &of_parts.replace("AFTER", after));
        let (_, _, why) = said(&at, &["rules", "test", "rules/mine.ron"]);
        assert!(!why.contains("--bless") && why.contains("wrong or missing"), "{why}");
        let (_, report, _) = said(&at, &["rules", "test", "rules/mine.ron", "--bless"]);
        assert!(report.contains("become different graphs"), "{report}");
        let text = std::fs::read_to_string(at.join("rules/examples/mine.ron")).unwrap();
        assert_eq!(text, of_parts.replace("AFTER", after));
    }
    let after = examples.replace("AFTER", r#", after: "y = $a(x)""#);
    let at = rule_file_with("bless-rows", rows, &after);
    assert_eq!(said(&at, &["rules", "test", "rules/mine.ron"]).0, Some(0));
}

#[test]
fn a_margin_is_printed_with_enough_digits() {
    let at = folder("margin");
    let digits = &*common::root().join("examples/digits/digits.onnx").to_string_lossy().into_owned();
    let ask = ["explain", digits, "--dim", "N=1", "--cost", "flops", "--threads", "1", "--runner-up"];
    let (_, text, _) = said(&at, &ask);
    let (_, json, _) = said(&at, &[&ask[..], &["--json"]].concat());
    let number = |text: &str, before: &str| -> f64 {
        let from = &text[text.find(before).unwrap() + before.len()..];
        from.split(' ').next().unwrap().parse().unwrap()
    };
    let lines: Vec<&str> = text.lines().collect();
    let found: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2 * found.len());
    for (lines, one) in lines.chunks(2).zip(&found) {
        let margin = one["margin"].as_f64().unwrap() * 1e6;
        let told = number(lines[1], ": +");
        assert!((told - margin).abs() <= 0.05 * margin + 1e-9, "{lines:?}: {margin}");
        let rise = number(lines[1], "the chosen one costs ") - number(lines[0], " at ");
        assert!((rise - told).abs() <= 0.11 * told + 1e-9, "{lines:?}");
    }
}

#[test]
fn input_files_are_never_overwritten() {
    let at = folder("overwrites");
    let read = |name: &str| std::fs::read(at.join(name)).unwrap();
    let model = "graph {\n  x: f32[2] = input\n  y = relu(x)\n  return y\n}\n";
    std::fs::write(at.join("model.ovolo"), model).unwrap();
    let root = common::root();
    std::fs::copy(root.join("passes/native.ron"), at.join("own.ron")).unwrap();
    std::fs::hard_link(at.join("model.ovolo"), at.join("linked.html")).unwrap();
    std::fs::create_dir_all(at.join("rules")).unwrap();
    std::fs::write(at.join("rules/own.ron"), "[]").unwrap();
    let x = ovolo::tensor::Tensor::zeros(ovolo::tensor::TensorType::plain(ovolo::tensor::DType::F32, [2]));
    ovolo::npy::write(at.join("y.npy"), &x).unwrap();
    let before: Vec<Vec<u8>> = ["model.ovolo", "own.ron", "rules/own.ron", "y.npy"].map(read).into();
    for line in [
        "explain model.ovolo --html model.ovolo",
        "explain model.ovolo --html ./rules/../model.ovolo",
        "explain model.ovolo --html linked.html",
        "explain model.ovolo --pipeline own.ron --html own.ron",
        "explain model.ovolo --rules rules --html rules/own.ron",
        "bench model.ovolo --profile --seconds 0.01 --html model.ovolo",
        "features model.ovolo --out model.ovolo",
        "dump model.ovolo --egraph model.ovolo",
        "save-cache model.ovolo model.ovolo",
        "run model.ovolo --input x=y.npy --output-dir .",
        "fit model.ovolo --out model.ovolo",
    ] {
        let mut arguments: Vec<&str> = line.split(' ').collect();
        if !line.starts_with("fit") {
            arguments.extend(["--cost", "flops", "--threads", "1"]);
        }
        refused(&at, &arguments, "it would overwrite ");
    }
    let times = at.join("times-1.txt");
    std::fs::write(&times, "ovolo").unwrap();
    refused(&at, &["merge-times", "times-1.txt", "times-1.txt", "--out", "times-1.txt"], "");
    assert_eq!(std::fs::read(&times).unwrap(), b"ovolo");
    assert_eq!(Vec::from(["model.ovolo", "own.ron", "rules/own.ron", "y.npy"].map(read)), before);
}

#[test]
fn a_plan_without_steps_has_no_negative_zeros() {
    let at = folder("no-steps");
    std::fs::write(at.join("none.ovolo"), "graph {\n  x: f32[2] = input\n  return x\n}\n").unwrap();
    for line in [
        "compile none.ovolo --no-cache",
        "compile none.ovolo",
        "compile none.ovolo",
        "explain none.ovolo",
        "explain none.ovolo --memory-curve",
        "explain none.ovolo --json",
        "cache list",
    ] {
        let mut arguments: Vec<&str> = line.split(' ').collect();
        if !line.starts_with("cache") {
            arguments.extend(["--cost", "flops", "--threads", "1"]);
        }
        let (code, text, said) = said(&at, &arguments);
        assert_eq!(code, Some(0), "{line}: {said}");
        assert!(!text.contains("-0.0") && !text.contains("-100"), "{line}: {text}");
    }
}

#[test]
fn a_cache_that_is_not_a_folder_is_an_error() {
    let at = folder("plain-cache");
    std::fs::write(at.join("cache"), "mine").unwrap();
    for command in ["list", "verify", "prune", "clear"] {
        refused(&at, &["cache", command], "this is not a folder");
    }
    assert_eq!(std::fs::read(at.join("cache")).unwrap(), b"mine");
    // A run does not need the cache.
    let x = ovolo::tensor::Tensor::zeros(ovolo::tensor::TensorType::plain(ovolo::tensor::DType::F32, [2]));
    ovolo::npy::write(at.join("x.npy"), &x).unwrap();
    let run = ["run", "model.ovolo", "--cost", "flops", "--threads", "1", "--input", "x=x.npy"];
    assert_eq!(ovolo(&at, &run).status.code(), Some(0));
}

#[test]
fn control_characters_never_reach_the_terminal() {
    let at = folder("escapes");
    let name = "new\nline\u{1b}[31m.ovolo";
    std::fs::write(at.join(name), "graph {\n  x: f32[2] = input\n  y = relu(x)\n  return y\n}\n").unwrap();
    assert_eq!(ovolo(&at, &["compile", name, "--cost", "flops", "--threads", "1"]).status.code(), Some(0));
    std::fs::write(at.join("cache/times-2.txt"), b"\x1b[31m\xff\x00\x07 not a table").unwrap();
    let (_, text, _) = said(&at, &["cache", "list"]);
    assert!(text.contains("new\\nline\\u{1b}[31m.ovolo"), "{text}");
    assert!(text.contains("times-2.txt: ") && text.contains("something that is not text"), "{text}");
    assert!(!text.contains(['\u{1b}', '\u{7}', '\0']), "{text:?}");
}

#[test]
fn a_limit_that_leaves_a_value_without_a_kernel_is_reported_with_the_growth() {
    let at = folder("limit");
    let pipeline = r#"Pipeline(name: "small", passes: [
        Rewrite(name: "few", rules: ["fuse", "native"], nodes: 1, nodes_per_op: 0),
        Extract(extractor: "exact", cost: "flops"),
        Plan(order: "peak", planner: "exact"),
    ], backends: ["native"])"#;
    std::fs::write(at.join("small.ron"), pipeline).unwrap();
    let compile = ["compile", "model.ovolo", "--pipeline", "small.ron", "--no-cache"];
    refused(&at, &compile, "phase `few` stopped at the limit on nodes");
    refused(&at, &compile, "Raise the limit of that phase in the pipeline");
    let output = ovolo(&at, &[&compile[..], &["--growth"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("few: stopped at the limit on nodes after"), "{printed}");
    let output = ovolo(&at, &[&compile[..], &["--growth", "--json"]].concat());
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["passes"][1]["pass"], "few", "{value}");
    assert!(value["error"].as_str().unwrap().contains("phase `few` stopped"), "{value}");
}

#[test]
fn every_value_without_a_kernel_is_named_those_behind_another_too() {
    let at = folder("no-kernels");
    let model = "graph {\n  x: f32[1,4,4,4] = input\n  a = softmax(x) {axis: 1}\n  b = relu(a)\n  c = softmax(b) {axis: 2}\n  \
                 d = neg(x)\n  return c\n  return d\n}\n";
    std::fs::write(at.join("two.ovolo"), model).unwrap();
    // Rules lower elementwise ops alone: the second softmax stands behind the first, and is named as well.
    let pipeline = r#"Pipeline(name: "p", passes: [
        Rewrite(name: "r", rules: ["lower-map-native", "map-relu", "map-neg"]), Extract(cost: "flops"), Plan(),
    ], backends: ["native"])"#;
    std::fs::write(at.join("p.ron"), pipeline).unwrap();
    let compile = ["compile", "two.ovolo", "--pipeline", "p.ron", "--no-cache"];
    refused(&at, &compile, "2 value(s) cannot be computed:");
    refused(&at, &compile, "`a`: no backend of this compilation runs `softmax`");
    refused(&at, &compile, "`c`: no backend of this compilation runs `softmax`");
    refused(&at, &compile, "Add a rule that lowers the op");
}

#[test]
fn a_rule_that_assumes_more_than_the_pipeline_is_told() {
    let at = rule_file(
        "assumes",
        "[Rule(name: \"bold\", from: \"(mul ?x 0.0)\", to: \"(sub 0.0 (mul ?x 0.0))\", assume: [\"finite\"]),
        Rule(name: \"timid\", from: \"(neg (neg ?x))\", to: \"?x\")]",
    );
    std::fs::write(at.join("g.ovolo"), "graph { x: f32[2] = input; y = neg(x); return y }").unwrap();
    let pipeline = "Pipeline(name: \"p\", passes: [Rewrite(name: \"r\", rules: [\"mine\", \"fuse\"]), Rewrite(name: \"l\", \
                    rules: [\"native\"]), Extract(cost: \"flops\"), Plan()], backends: [\"native\"])";
    std::fs::write(at.join("p.ron"), pipeline).unwrap();
    let own = ["--rules", "rules", "--pipeline", "p.ron"];
    let why =
        "because it does not assume \"finite\"; write `assume: [\"finite\"]` into the pipeline if it may";
    let (code, _, told) = said(&at, &[&["rules", "why-not", "bold", "g.ovolo"], &own[..]].concat());
    assert!(
        code == Some(1) && told.contains(&format!("pipeline `p` leaves out rule `bold`, {why}")),
        "{told}"
    );
    let (code, _, told) = said(&at, &[&["compile", "g.ovolo"], &own[..]].concat());
    let note = format!("note: pipeline `p` leaves out `bold` of rules/mine.ron, {why}");
    assert!(code == Some(0) && told.contains(&note), "{told}");
}

#[test]
fn rules_of_ones_own_are_ablated_and_checked_once() {
    let text = "[Rule(name: \"mine-twice\", from: \"(relu (relu ?x))\", to: \"(relu ?x)\"),
        Rule(name: \"odd-sine\", from: \"(sin (neg ?x))\", to: \"(neg (sin ?x))\")]";
    let at = rule_file("own", text);
    // It is compared with the shipped rules, and not with itself.
    let (_, report, _) = said(&at, &["rules", "check", "rules/mine.ron", "--rules", "rules"]);
    assert!(report.contains("`drop-second-relu` matches") && !report.contains("two rules"), "{report}");
    std::fs::write(at.join("g.ovolo"), "graph { x: f32[2] = input; y = neg(x); z = sin(y); return z }")
        .unwrap();
    let add = ["--add", "rules/mine.ron:fuse"];
    for command in [&["rules", "ablate", "g.ovolo"][..], &["ablate", "g.ovolo", "--by", "rule"]] {
        let (code, report, why) = said(&at, &[command, &add[..]].concat());
        assert!(code == Some(0) && report.contains("odd-sine"), "{report}{why}");
        // One reason is shown of a rule without which nothing compiles.
        assert!(report.lines().all(|line| line.len() < 250), "{report}");
    }
}

#[test]
fn what_all_rows_of_an_example_expect_is_blessed_with_its_key() {
    let text = "[Rule(name: \"odd-$op\", for_each: {\"op\": [\"sin\", \"tan\", \"tanh\"]}, from: \"($op (neg ?x))\", \
                to: \"(neg ($op ?x))\")]";
    let examples = "[Examples(rule: \"odd-$op\", examples: [
        Example(fires: \"x: f32[4] = input; t = neg(x); y = $op(t); return y\"),
        Example(refuses: \"x: f32[4] = input; y = $op(z); return y\"),
    ])]\n";
    let at = rule_file_with("bless-key", text, examples);
    let (_, report, _) = said(&at, &["rules", "test", "rules/mine.ron", "--bless"]);
    let blessed = std::fs::read_to_string(at.join("rules/examples/mine.ron")).unwrap();
    assert!(blessed.contains("x.$op = $op(x)") && blessed.contains("y = neg(x.$op)"), "{blessed}");
    // What is wrong in all rows is told once, with its place in the file.
    assert_eq!(report.matches("`z` is not defined").count(), 1, "{report}");
    assert!(report.contains("rules/examples/mine.ron:3:") && report.contains("in 2 other rows"), "{report}");
}

/// The digits model, with inputs of a wrong name, of a wrong shape and of a wrong type; and labels beyond its classes.
#[test]
fn explain_refuses_the_inputs_that_run_refuses() {
    let at = folder("explain-inputs");
    let example = |file: &str| common::root().join("examples/digits").join(file).display().to_string();
    let (model, images, labels) = (example("digits.onnx"), example("images.npy"), example("labels.npy"));
    let small = ovolo::tensor::Tensor::zeros(ovolo::tensor::TensorType::plain(
        ovolo::tensor::DType::F32,
        [1, 1, 8, 7],
    ));
    ovolo::npy::write(at.join("small.npy"), &small).unwrap();
    for (input, sizes, why) in [
        (format!("imag={images}"), None, "the model has no input `imag`; did you mean `image`?"),
        (format!("imag={images}"), Some("N=360"), "the model has no input `imag`; did you mean `image`?"),
        (format!("image={images}"), Some("N=4"), "dimension 0 is 360, not 4"),
        ("image=small.npy".to_owned(), None, "dimension 3 is 7, not 8"),
        (format!("image={labels}"), Some("N=360"), "input `image` must be f32[360,1,8,8], but is"),
    ] {
        let dims = sizes.map_or_else(Vec::new, |sizes| vec!["--dim", sizes]);
        for command in ["run", "explain"] {
            let arguments = [&[command, &model, "--cost", "flops", "--input", &input], &dims[..]].concat();
            refused(&at, &arguments, why);
        }
        let page = ["explain", &model, "--cost", "flops", "--input", &input, "--html", "page.html"];
        refused(&at, &[&page[..], &dims].concat(), why);
    }
    assert!(!at.join("page.html").exists());
    let text = ["explain", "model.ovolo", "--cost", "flops", "--input", "x=small.npy"];
    refused(&at, &text, "input `x` must be f32[2], but is f32[1,1,8,7]");
}

#[test]
fn sizes_that_would_be_ignored_are_refused() {
    let at = folder("ignored-sizes");
    let example = |file: &str| common::root().join("examples/digits").join(file).display().to_string();
    let (model, images) = (example("digits.onnx"), format!("image={}", example("images.npy")));
    let both = ["run", &model, "--input", &images, "--dim", "N=360", "--bucket", "N=512"];
    refused(&at, &both, "--dim and --bucket both give sizes for `N`");
    refused(
        &at,
        &["compile", "model.ovolo", "--dim", "N=4"],
        "--dim N=4: the shapes in model.ovolo are fixed",
    );
}

#[test]
fn labels_beyond_the_classes_of_a_model_are_refused() {
    let at = folder("labels");
    let example = |file: &str| common::root().join("examples/digits").join(file).display().to_string();
    let (model, images) = (example("digits.onnx"), format!("image={}", example("images.npy")));
    let mut labels = vec![0_i64; 360];
    labels[7] = 50;
    ovolo::npy::write(at.join("labels.npy"), &ovolo::tensor::Tensor::from_elements([360], &labels)).unwrap();
    let run = ["run", &model, "--cost", "flops", "--input", &images, "--labels", "labels.npy"];
    refused(&at, &run, "labels.npy: label 7 is 50, and a row of the output has 10 classes, from 0 on");
}

/// A plan for fixed shapes has the initializer of an optional input as a constant, so a given value needs another one.
#[test]
fn an_optional_input_may_be_given_where_all_shapes_are_fixed() {
    use crate::proto::{FLOAT, node, value};
    use ovolo::onnx::proto::{GraphProto, ModelProto, OperatorSetId, TensorProto};
    use ovolo::tensor::Tensor;
    use prost::Message;
    let at = folder("optional-input");
    let weight = TensorProto {
        name: "w".to_owned(),
        dims: vec![1],
        data_type: FLOAT,
        float_data: vec![1.0],
        ..TensorProto::default()
    };
    let graph = GraphProto {
        node: vec![node("Add", &["x", "w"], &["y"])],
        input: vec![value("x", FLOAT, &["3"]), value("w", FLOAT, &["1"])],
        output: vec![value("y", FLOAT, &["3"])],
        initializer: vec![weight],
        ..GraphProto::default()
    };
    let opset_import = vec![OperatorSetId { domain: String::new(), version: 17 }];
    let model = ModelProto { ir_version: 8, opset_import, graph: Some(graph), ..ModelProto::default() };
    std::fs::write(at.join("model.onnx"), model.encode_to_vec()).unwrap();
    ovolo::npy::write(at.join("x.npy"), &Tensor::from_elements([3], &[0.0_f32; 3])).unwrap();
    ovolo::npy::write(at.join("w.npy"), &Tensor::from_elements([1], &[5.0_f32])).unwrap();
    let run = ["run", "model.onnx", "--input", "x=x.npy"];
    assert!(said(&at, &run).1.contains("1.00000 1.00000 1.00000"));
    let (code, report, why) = said(&at, &[&run[..], &["--input", "w=w.npy"]].concat());
    assert!(code == Some(0) && report.contains("5.00000 5.00000 5.00000"), "{report}{why}");
}
