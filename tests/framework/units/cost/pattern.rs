//! Tests of `src/cost/pattern.rs`.

use ovolo::cost::fits;

#[test]
fn patterns_fit_whole_names() {
    for (pattern, text, whether) in [
        ("onednn.conv*", "onednn.conv", true),
        ("onednn.conv*", "onednn.conv-first", true),
        ("onednn.conv", "onednn.conv-first", false),
        ("*conv*d", "native.conv-packed", true),
        ("*conv*d", "native.conv-first", false),
        ("native.????", "native.conv", true),
        ("native.????", "native.map", false),
        ("*", "native.map", true),
    ] {
        assert_eq!(fits(pattern, text), whether, "{pattern} {text}");
    }
}
