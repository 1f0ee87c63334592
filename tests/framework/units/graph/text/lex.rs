//! Tests of `src/graph/text/lex.rs`.

#[allow(dead_code)]
#[path = "../../../../../src/graph/text/lex.rs"]
mod source;

use crate::diagnostic::Diagnostics;
use source::{Token, is_plain, lex};

fn tokens(text: &str) -> Vec<Token> {
    let mut found = Diagnostics::for_text("test", text);
    let lexemes = lex(text, &mut found);
    assert!(found.is_empty(), "{found}");
    lexemes.into_iter().map(|lexeme| lexeme.token).collect()
}

#[test]
fn every_escaped_string_reads_back() {
    for text in ["", "a b", "\"\\'", "\n\t\r\0", "é\u{200b}\u{1f600}", "\u{7}"] {
        assert_eq!(tokens(&format!("{text:?}"))[0], Token::Quoted(text.to_owned()));
    }
}

#[test]
fn numbers_read_whole() {
    for text in ["0", "-12", "1.5", "1e-7", "-2.5e+10", "1e300", "-inf", "+3"] {
        assert_eq!(tokens(text)[0], Token::Number(text.to_owned()));
    }
}

#[test]
fn a_comment_ends_a_name_and_a_path_does_not() {
    assert_eq!(tokens("/a/b//c")[0], Token::Word("/a/b".to_owned()));
    assert_eq!(tokens("/a/b//c").len(), 2);
    assert!(is_plain("/layer1/conv.0/Conv'") && !is_plain("a//b") && !is_plain("1") && !is_plain("a:0"));
}

#[test]
fn open_strings_and_odd_characters_are_reported() {
    let mut found = Diagnostics::for_text("test", "\"abc\n ? \"\\q\"");
    lex("\"abc\n ? \"\\q\"", &mut found);
    assert_eq!(found.len(), 3);
}
