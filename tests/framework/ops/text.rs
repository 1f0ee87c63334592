//! Regular expressions match as RE2 does.

use super::{find, infer};
use ovolo::attr::{Attr, Attrs};
use ovolo::tensor::{DType, Tensor, TensorType};

/// Returns whether a pattern matches a whole text.
fn matches(pattern: &str, text: &str) -> bool {
    let op = find("regex-full-match").unwrap();
    let attrs = op.complete(Attrs::new().with("pattern", Attr::Str(pattern.into())));
    let x = Tensor::from_texts([], &[text]);
    let ty = op.result(&attrs, &[x.ty()]).unwrap();
    op.evaluate(&attrs, &[&x], &ty).to_f64() == [1.0]
}

#[test]
fn classes_of_letters_are_of_ascii() {
    for (pattern, right, wrong) in [
        (r"(\w| )+", "the end_1", "été"),
        (r"\W", "é", "e"),
        (r"\d+", "12", "١٢"),
        (r"\D", "١", "1"),
        (r"\s", "\t", "\u{a0}"),
        (r"\S", "\u{a0}", " "),
        (r"[\w-]+", "a-b", "é-b"),
        (r"[^\w]", "é", "_"),
        (r"é\b.", "éa", "é "),
        (r"é\B.", "é ", "éa"),
        (r"[[:word:]]", "_", "é"),
    ] {
        assert!(matches(pattern, right), "{pattern} {right:?}");
        assert!(!matches(pattern, wrong), "{pattern} {wrong:?}");
    }
}

#[test]
fn other_letters_are_of_unicode() {
    for (pattern, text) in [(".", "é"), ("[à-ü]", "é"), (r"\pL", "é"), ("(?i)É", "é"), (r"\x{e9}", "é")]
    {
        assert!(matches(pattern, text), "{pattern} {text:?}");
    }
}

#[test]
fn signs_in_a_class_are_letters() {
    for (pattern, right, wrong) in [
        ("[[a]", "[", "b"),
        ("[]a]", "]", "["),
        ("[^]a]", "b", "]"),
        ("[a&&b]", "&", "c"),
        ("[a~~b]", "~", "c"),
        (r"[\]a]", "]", r"\"),
        ("a&&b~~[c]d", "a&&b~~cd", "a"),
        ("[+--/]+", ",/", "."),
        ("[a-b-c]+", "a-c", "d"),
        ("[a-]+", "-a", "b"),
        (r"[\w-]+", "a-b", "+"),
        ("[[:a]+", "[:a", "]"),
    ] {
        assert!(matches(pattern, right), "{pattern} {right:?}");
        assert!(!matches(pattern, wrong), "{pattern} {wrong:?}");
    }
}

#[test]
fn quoted_text_is_taken_as_it_is() {
    for (pattern, text) in [(r"a\Q.*\Eb+", "a.*bb"), (r"\Q(", "("), (r"\Q\E", "")] {
        assert!(matches(pattern, text), "{pattern} {text:?}");
    }
    assert!(!matches(r"\Q.\E", "a"));
}

#[test]
fn signs_outside_of_classes_are_those_of_re2() {
    for (pattern, right, wrong) in [
        (r"\<a\>\_", "<a>_", "a"),
        ("{a}", "{a}", "a"),
        ("a{b", "a{b", "a"),
        ("a{,3}", "a{,3}", "aaa"),
        ("a{2}", "aa", "a{2}"),
        ("a{1,}?", "aaa", ""),
        (r"a\b{start}", "a{start}", "a"),
        (r"\101\x41\x{41}", "AAA", "101"),
        (r"\p{^Greek}", "a", "α"),
        (r"\P{^Greek}", "α", "a"),
        ("(?i:ab)(?P<n>c)(?:d)", "ABcd", "abCd"),
        ("] } & ~ - #", "] } & ~ - #", ""),
    ] {
        assert!(matches(pattern, right), "{pattern} {right:?}");
        assert!(!matches(pattern, wrong), "{pattern} {wrong:?}");
    }
}

#[test]
fn a_pattern_that_is_none_is_refused() {
    let ty = TensorType::plain(DType::Text, [1]);
    for pattern in [
        "(",
        "[a",
        "\\",
        "*",
        "a**",
        "a{2}{3}",
        "a{1001}",
        "(?x)a b",
        r"\u0041",
        r"\1",
        r"\x4",
        r"\é",
        r"[\Qa\E]",
        "[[:foo:]]",
        r"[a-\d]",
        "[b-a]",
        r"\C",
        r"\p{Nothing}",
    ] {
        let attrs = Attrs::new().with("pattern", Attr::Str(pattern.into()));
        let why = infer("regex-full-match", attrs, std::slice::from_ref(&ty)).expect_err(pattern).to_string();
        assert!(why.contains("is no regular expression"), "{why}");
    }
}
