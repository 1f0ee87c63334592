//! Tests of `src/ron/lexer.rs`.

use super::source::ron::lexer::{Kind, hyphenated, tokens};

fn kinds(text: &str) -> Vec<(Kind, &str)> {
    tokens(text).map(|token| (token.kind, token.span.slice(text))).collect()
}

#[test]
fn texts_and_comments_are_one_token_each() {
    let text = r##"a: "x\"(" r#"y"["# /* /* ( */ */ b"z" 'c' '\'' // "end"
            1.5e-3]"##;
    let found: Vec<&str> = kinds(text).into_iter().map(|(_, text)| text).collect();
    let wanted = [
        "a",
        ":",
        r#""x\"(""#,
        r##"r#"y"["#"##,
        "/* /* ( */ */",
        r#"b"z""#,
        "'c'",
        r"'\''",
        "// \"end\"",
        "1.5e-3",
        "]",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn text_without_an_end_goes_to_the_end_of_the_file() {
    assert_eq!(kinds("(\"ab\nc"), [(Kind::Open, "("), (Kind::OpenText, "\"ab\nc")]);
    assert_eq!(kinds("r#\"ab\""), [(Kind::OpenText, "r#\"ab\"")]);
}

#[test]
fn only_keys_with_hyphens_are_found() {
    let text = r#"A(for-each: {"a-b": -1, c: "x-y: 1"}, d: e-f, g-h :2) // i-j: k"#;
    let found: Vec<&str> = hyphenated(text).into_iter().map(|span| span.slice(text)).collect();
    assert_eq!(found, ["for-each", "g-h"]);
}
