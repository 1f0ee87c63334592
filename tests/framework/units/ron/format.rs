//! Tests of `src/ron/format.rs`.

use ovolo::ron::{Style, format};

fn style(field: &str) -> Style {
    match field {
        "from" | "let" => Style::Code,
        "graph" => Style::Lines,
        _ => Style::Plain,
    }
}

#[track_caller]
fn becomes(text: &str, formatted: &str) {
    let first = format("test.ron", text, style).unwrap_or_else(|found| panic!("{found}"));
    assert_eq!(first, formatted);
    assert_eq!(format("test.ron", &first, style).unwrap_or_default(), formatted, "a second time");
}

#[test]
fn comments_stay_where_they_are() {
    becomes(
        "// Of the file.\n\n// Of the list.\n[ // First.\n  A(x:1),// At the end.\n\n\n  // Above.\n  B( y : [ 1,2 ] ) // Last.\n  // Below.\n]\n// After.\n",
        "// Of the file.\n\n// Of the list.\n[\n    // First.\n    A(x: 1), // At the end.\n\n    // Above.\n    B(y: [1, 2]), // Last.\n    // Below.\n]\n// After.\n",
    );
    becomes("A(x: /* why */ 1, y: 2)", "A(\n    /* why */\n    x: 1,\n    y: 2,\n)\n");
}

#[test]
fn what_is_too_long_has_a_line_for_each_part() {
    let word = "\"abcdefghijklmnopqrstuvwxyz\"";
    becomes(
        &format!("[A(list: [{word}, {word}, {word}, {word}], map: {{\"k\": 1}})]"),
        &format!(
            "[\n    A(\n        list: [\n            {word}, {word},\n            {word}, {word},\n        ],\n        map: {{\"k\": 1}},\n    ),\n]\n"
        ),
    );
}

#[test]
fn code_is_broken_between_its_parts_and_graphs_by_statements() {
    becomes(
        "[A(from: \"(relu   ( neg ?x ))\", graph: \"x: f32[4] = input; y = map(x) {post: <\\\"a;b\\\">}\")]",
        "[\n    A(\n        from: \"(relu (neg ?x))\",\n        graph: r#\"\n            x: f32[4] = input\n            y = map(x) {post: <\"a;b\">}\n        \"#,\n    ),\n]\n",
    );
    let long = "(conv ?aaaaaaaaaaaaaaaaaaaa (conv ?bbbbbbbbbbbbbbbbbbbb ?cccccccccccccccccccc {group: 1}) {axis: ?dddddddd})";
    becomes(
        &format!("[A(from: \"{long}\")]"),
        "[\n    A(\n        from: \"(conv ?aaaaaaaaaaaaaaaaaaaa\n                (conv ?bbbbbbbbbbbbbbbbbbbb ?cccccccccccccccccccc {group: 1}) {axis: ?dddddddd})\",\n    ),\n]\n",
    );
}

#[test]
fn what_is_not_ron_is_told_with_its_place() {
    let found = format("test.ron", "[A(x: 1]", style).err().map(|found| found.to_string());
    assert!(found.is_some_and(|found| found.contains("test.ron:1:8")));
}
