//! `ovolo fmt`.
#![allow(clippy::unwrap_used)]

use crate::common;
use ovolo::rule::{Places, Rule, RuleSet};
use std::path::Path;
use std::process::{Command, Output};

fn fmt(at: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ovolo"));
    command.arg("fmt").args(arguments).current_dir(at).output().unwrap()
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn files_that_ship_are_in_one_form() {
    let output = fmt(&common::root(), &["--check", "rules", "ops", "passes", "costs", "examples"]);
    let (code, listed, why) = said(&output);
    assert_eq!((code, listed.as_str()), (Some(0), ""), "write them anew with `ovolo fmt`\n{why}");
}

/// The rules of some files, without what the form of a file tells.
fn meaning(files: &[(String, String)]) -> Vec<Rule> {
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    let set =
        RuleSet::read(common::registry().vocabulary(), &files).unwrap_or_else(|found| panic!("{found}"));
    let plain = |rule: &Rule| Rule {
        doc: String::new(),
        line: 0,
        places: Places::default(),
        examples: Vec::new(),
        ..rule.clone()
    };
    set.rules().iter().map(|rule| plain(rule)).collect()
}

/// The shipped rules, each file on one line without its comments, are written as they ship, but for the comments.
#[test]
fn rules_mean_what_they_meant_once_they_are_formatted() {
    let at = common::folder("fmt/meaning");
    let shipped: Vec<(String, String)> = common::registry()
        .rules()
        .iter()
        .map(|(name, text)| (name.rsplit('/').next().unwrap().to_owned(), text.to_string()))
        .collect();
    assert!(shipped.len() > 10);
    let without_comments = |text: &str| {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    for (name, text) in &shipped {
        std::fs::write(at.join(name), without_comments(text).join(" ")).unwrap();
    }
    let (code, listed, why) = said(&fmt(&at, &["."]));
    assert_eq!((code, listed.lines().count()), (Some(0), shipped.len()), "{why}");
    let formatted: Vec<(String, String)> = shipped
        .iter()
        .map(|(name, _)| (name.clone(), std::fs::read_to_string(at.join(name)).unwrap()))
        .collect();
    for ((name, text), (_, formatted)) in shipped.iter().zip(&formatted) {
        assert_eq!(without_comments(text), without_comments(formatted), "{name}");
    }
    assert_eq!(meaning(&shipped), meaning(&formatted));
}

#[test]
fn long_statements_are_broken_and_joined_again() {
    let at = common::folder("fmt/statements");
    let written = |graph: &str| {
        let text = format!("[Examples(rule: \"a\", examples: [Example(fires: r#\"{graph}\"#)])]");
        std::fs::write(at.join("a.ron"), text).unwrap();
        assert_eq!(said(&fmt(&at, &["a.ron"])).0, Some(0));
        std::fs::read_to_string(at.join("a.ron")).unwrap()
    };
    let operand = "an-operand-with-a-long-name";
    let call = |blank: &str| {
        let operands = [operand; 4].join(&format!(",{blank}"));
        format!(
            "result = concat({operands}) {{axis: 0,{blank}text: \"a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q\"}}"
        )
    };
    let formatted = written(&call(" "));
    assert_eq!(formatted, written(&call("\n")));
    assert!(formatted.lines().all(|line| line.chars().count() <= 100), "{formatted}");
    // A comma in a quoted text breaks nothing.
    assert!(formatted.contains("\"a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q\""), "{formatted}");
    let statements = ovolo::ron::lines(&call("\n"));
    assert_eq!(statements, [call(" ")]);
    // Where there are no commas, a statement is broken after `=`, and else before its attributes.
    for operand in [operand.repeat(2), format!("{}-and-more", operand.repeat(2))] {
        let steps = ["hard-sigmoid(0.3,0.4)"; 3].join(",");
        let statement = format!("{operand}.map = map({operand}) {{post: <{steps}>}}");
        let formatted = written(&statement);
        assert!(formatted.lines().all(|line| line.chars().count() <= 100), "{formatted}");
        let rows: Vec<&str> = formatted.split('"').filter(|text| text.contains("hard-sigmoid")).collect();
        assert_eq!(ovolo::ron::lines(rows[0]), [statement]);
    }
}

#[test]
fn a_check_lists_what_would_change_and_writes_nothing() {
    let at = common::folder("fmt/check");
    let text = "// Law.\n[Rule(name:\"a\",from:\"(relu  (relu ?x))\",to:\"(relu ?x)\")]";
    std::fs::create_dir_all(at.join("rules/examples")).unwrap();
    std::fs::write(at.join("rules/a.ron"), text).unwrap();
    std::fs::write(at.join("rules/examples/a.ron"), "[]\n").unwrap();
    let (code, listed, why) = said(&fmt(&at, &["--check", "rules"]));
    assert_eq!((code, listed.as_str()), (Some(1), "rules/a.ron\n"));
    assert!(why.contains("1 of 2 files would change"), "{why}");
    assert_eq!(std::fs::read_to_string(at.join("rules/a.ron")).unwrap(), text);
    let (code, listed, _) = said(&fmt(&at, &["rules/a.ron"]));
    assert_eq!((code, listed.as_str()), (Some(0), "rules/a.ron\n"));
    let formatted = "// Law.\n[\n    Rule(name: \"a\", from: \"(relu (relu ?x))\", to: \"(relu ?x)\"),\n]\n";
    assert_eq!(std::fs::read_to_string(at.join("rules/a.ron")).unwrap(), formatted);
    assert_eq!(said(&fmt(&at, &["--check", "rules"])).0, Some(0));
    // What is no RON is told with its place, and stays as it is.
    std::fs::write(at.join("rules/b.ron"), "[Rule(name: \"b\"]").unwrap();
    let (code, _, why) = said(&fmt(&at, &["rules"]));
    assert_eq!(code, Some(1));
    assert!(why.contains("rules/b.ron:1:16"), "{why}");
}
