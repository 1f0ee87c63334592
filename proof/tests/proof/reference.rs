//! Tests that `rules/REFERENCE.md` agrees with the lists of ops and guards. `INSTA_UPDATE=always` rewrites
//! it.
#![allow(clippy::unwrap_used)]

use ovolo_proof::reference;

#[test]
fn the_reference_for_rule_authors_is_up_to_date() {
    let path = crate::common::root().join("rules/REFERENCE.md");
    let actual = reference::markdown(crate::common::registry());
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&path, &actual).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == actual, "update it: ovolo rules reference > rules/REFERENCE.md");
}
