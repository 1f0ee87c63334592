//! Tests of `src/diagnostic.rs`.

#[allow(dead_code)]
#[path = "../../../src"]
pub mod source {
    pub mod diagnostic;
}

use source::diagnostic::{Diagnostic, Diagnostics, Span, nearest, suggestion};

#[test]
fn a_diagnostic_shows_its_line_its_caret_and_its_advice() {
    let mut found = Diagnostics::for_text("x.ron", "one\ntwo tree\n");
    found.push(
        Diagnostic::new("unknown number `tree`")
            .label(0, Span::new(8, 12), "not a number")
            .label(0, Span::new(0, 3), "counting starts here")
            .suggest("tree", ["one", "three", "two"]),
    );
    insta::assert_snapshot!(found, @r"
        error: unknown number `tree`
          --> x.ron:2:5
          |
        1 | one
          | --- counting starts here
        2 | two tree
          |     ^^^^ not a number
          |
          = help: did you mean `three`?
        ");
}

#[test]
fn colours_come_only_when_asked_for() {
    let mut found = Diagnostics::for_text("x", "abc");
    found.push(Diagnostic::new("no").label(0, Span::new(0, 1), ""));
    assert!(!found.render(false).contains('\u{1b}'));
    assert!(found.render(true).contains('\u{1b}'));
}

#[test]
fn spans_outside_the_text_or_inside_a_character_still_render() {
    let mut found = Diagnostics::for_text("x", "aé");
    found.push(Diagnostic::new("far").label(0, Span::new(90, 3), ""));
    found.push(Diagnostic::new("half").label(0, Span::new(2, 2), ""));
    found.push(Diagnostic::new("nowhere").label(7, Span::new(0, 1), ""));
    let text = found.to_string();
    assert!(text.contains("far") && text.contains("half") && text.contains("nowhere"));
}

#[test]
fn long_lines_are_cut_around_what_is_pointed_at() {
    let words = |count: usize| "word ".repeat(count);
    let line = format!("{}é wrng {}and {}wrng{}", words(50), words(50), words(3), " end".repeat(40));
    let text = format!("short\n{line}\n{line}\nlast");
    let mut found = Diagnostics::for_text("x", &text);
    let second = 6 + line.len() + 1;
    let (first, last) = (line.find("wrng").unwrap(), line.rfind("wrng").unwrap());
    let place = |line: usize, at: usize| Span::new(line + at, line + at + 4);
    found.push(Diagnostic::new("twice").label(0, place(6, first), "this").label(
        0,
        place(6, last),
        "and this",
    ));
    found.push(Diagnostic::new("all of it").label(0, Span::new(second, second + line.len()), "a line"));
    found.push(Diagnostic::new("many lines").label(0, Span::new(2, text.len()), "to the end"));
    insta::assert_snapshot!(found, @r"
        error: twice
          --> x:2:253
          |
        2 | …d word word word word word word word word word word word é wrng word word word word word word word word word word word word… word word word word word word word word and word word word wrng end end end end end end end end end end end end end end end…
          |                                                             ^^^^                                                                                                                         ---- and this
          |                                                             |
          |                                                             this

        error: all of it
          --> x:3:1
          |
        3 | word word word word word word word word word word word word … end end end end end end end end end end end end end end end
          | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ a line

        error: many lines
          --> x:1:3
          |
        1 |   short
          | /---^
        2 | | word word word word word word word word word word word word word word word word word word word word word word word word …
        3 | | word word word word word word word word word word word word word word word word word word word word word word word word …
        4 | | last
          | \----^ to the end
        ");
    let column = line[..first].chars().count() + 1;
    assert!(found.to_string().contains(&format!("x:2:{column}")));
}

#[test]
fn appended_labels_keep_their_texts() {
    let mut all = Diagnostics::for_text("a", "first");
    let mut other = Diagnostics::for_text("b", "second");
    other.push(Diagnostic::new("wrong").label(0, Span::new(0, 6), ""));
    all.append(other);
    assert!(all.to_string().contains("b:1:1"));
}

#[test]
fn suggestions_are_close_or_absent() {
    assert_eq!(suggestion("rleu", ["gelu", "relu", "elu"]), Some("relu"));
    assert_eq!(suggestion("softmaxx", ["softmax", "log-softmax"]), Some("softmax"));
    assert_eq!(suggestion("attention", ["conv", "relu"]), None);
}

#[test]
fn the_nearest_name_is_close_or_has_the_same_words() {
    let known = ["fuse-conv-relu", "fuse-conv-relu-bias", "pack-conv-nChw16c", "map-relu"];
    assert_eq!(nearest("fuse-conv-rleu", known), Some("fuse-conv-relu"));
    assert_eq!(nearest("fuse-relu", known), Some("fuse-conv-relu"));
    assert_eq!(nearest("conv", known), Some("fuse-conv-relu"));
    assert_eq!(nearest("attention", known), None);
    assert_eq!(nearest("", known), None);
}
