//! `rules/REFERENCE.md` is what the lists of ops and guards say. `INSTA_UPDATE=always` writes it.
#![allow(clippy::unwrap_used)]

use ovolo_proof::reference;

#[test]
fn the_reference_for_rule_authors_is_true() {
    let path = crate::common::root().join("rules/REFERENCE.md");
    let actual = reference::markdown(crate::common::registry());
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&path, &actual).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == actual, "write it anew: ovolo rules reference > rules/REFERENCE.md");
}
