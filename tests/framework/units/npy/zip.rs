//! Tests of `src/npy/zip.rs`.

#[allow(dead_code)]
#[path = "../../../../src/npy/zip.rs"]
mod source;

use source::{CENTRAL, LOCAL, crc32, read, write};

#[test]
fn the_checksum_is_that_of_the_standard() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    assert_eq!(crc32(b""), 0);
}

#[test]
fn compression_and_damage_are_named() {
    let whole = write(&[("a.npy".to_owned(), b"content".to_vec())]).unwrap();
    assert_eq!(read(&whole).unwrap(), [("a.npy".to_owned(), b"content".as_slice())]);
    let directory = whole.windows(4).position(|bytes| bytes == CENTRAL.0.to_le_bytes()).unwrap();
    let mut compressed = whole.clone();
    compressed[directory + 10] = 8;
    assert!(read(&compressed).unwrap_err().contains("numpy.savez_compressed"));
    let mut damaged = whole.clone();
    damaged[LOCAL.1 + 5] ^= 1;
    assert_eq!(read(&damaged).unwrap_err(), "member `a.npy`: its checksum is wrong: the file is damaged");
    assert!(read(&whole[..whole.len() - 1]).unwrap_err().contains("no directory"));
}

#[test]
fn a_comment_after_the_directory_is_skipped() {
    let mut bytes = write(&[("a".to_owned(), vec![1])]).unwrap();
    let length = bytes.len();
    bytes[length - 2] = 3;
    bytes.extend_from_slice(b"hey");
    assert_eq!(read(&bytes).unwrap().len(), 1);
}
