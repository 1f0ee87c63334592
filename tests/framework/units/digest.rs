//! Tests of `src/digest.rs`.

#[allow(dead_code)]
#[path = "../../../src/digest.rs"]
mod source;

use source::{BLOCK, Digest};

#[test]
fn a_digest_does_not_depend_on_threads_and_tells_every_byte() {
    let bytes: Vec<u8> = (0..3 * BLOCK + 17).map(|at| (at * 7 % 251) as u8).collect();
    let digest = Digest::new(&bytes);
    assert_eq!(Digest::all(&[&bytes, &[]], 3), [digest, Digest::new(&[])]);
    for at in [0, BLOCK, bytes.len() - 1] {
        let mut other = bytes.clone();
        other[at] ^= 4;
        assert_ne!(Digest::new(&other), digest);
    }
    assert_ne!(Digest::new(&bytes[..bytes.len() - 1]), digest);
}

#[test]
fn the_digest_of_a_file_is_that_of_its_bytes() {
    let path = std::env::temp_dir().join(format!("ovolo-digest-{}", std::process::id()));
    for length in [0, 1, BLOCK, 2 * BLOCK + 5] {
        let bytes: Vec<u8> = (0..length).map(|at| (at * 11 % 241) as u8).collect();
        std::fs::write(&path, &bytes).expect("it is written");
        for threads in [1, 3] {
            assert_eq!(Digest::read_file(&path, threads).expect("it is read"), Digest::new(&bytes));
        }
    }
    std::fs::remove_file(&path).expect("it is removed");
    assert!(Digest::read_file(&path, 1).is_err());
}

#[test]
fn texts_stand_apart() {
    assert_ne!(Digest::texts(["ab", "c"]), Digest::texts(["a", "bc"]));
}
