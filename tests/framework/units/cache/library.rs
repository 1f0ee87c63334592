//! Tests of `src/cache/library.rs`.

#[allow(dead_code)]
#[path = "../../../../src/cache/library.rs"]
mod source;

use ovolo::cache::{Digest, home};
use source::{content_in, read};
use std::fs;
use std::time::Duration;

#[test]
fn a_change_is_noticed_that_keeps_length_and_time() {
    let folder = std::env::temp_dir().join(format!("ovolo-library-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("lib.so");
    let old = std::time::SystemTime::now() - Duration::from_secs(1000);
    let write = |text: &str| {
        fs::write(&path, text).expect("it is written");
        fs::File::options().write(true).open(&path).and_then(|file| file.set_modified(old)).expect("a time");
    };
    write("one");
    let one = content_in(&path, 1, Some(&folder));
    assert_eq!(one, content_in(&path, 1, Some(&folder)));
    assert_eq!(one, Digest::new(b"one").to_string());
    write("two");
    assert_eq!(content_in(&path, 1, Some(&folder)), Digest::new(b"two").to_string());
    let kept = read(&folder);
    assert_eq!(kept.values().collect::<Vec<_>>(), [&Digest::new(b"two")], "{kept:?}");
    assert!(content_in(&folder.join("none"), 1, None).starts_with("not read: "));
    fs::remove_dir_all(&folder).expect("it is removed");
}
