//! Tests of how amounts on the command line are read and printed.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../src/amount.rs"]
mod amount;

use amount::{bytes, duration, memory, of_device, size, sizes};
use ovolo::tensor::Device;

#[test]
fn times_have_a_unit() {
    let read = |text: &str| duration(text).ok().map(|time| time.as_millis());
    for (text, expected) in
        [("10s", 10_000), ("1.5 s", 1_500), ("500ms", 500), ("2min", 120_000), (" 3s ", 3_000)]
    {
        assert_eq!(read(text), Some(expected), "{text}");
    }
    for text in ["", "10", "s", "-1s", "0s", "nans", "infs", "1h", "1e300s"] {
        assert_eq!(read(text), None, "{text}");
    }
}

#[test]
fn bytes_are_read_one_way() {
    let read = |text: &str| bytes(text).ok();
    let known = [
        ("0", 0),
        ("1000000", 1_000_000),
        ("12 B", 12),
        ("500MB", 500_000_000),
        ("500M", 500_000_000),
        ("500mib", 500 << 20),
        ("500Mi", 500 << 20),
        ("1.5 GiB", 3 << 29),
        (" 8GiB ", 8 << 30),
        ("9007199254740993B", 9_007_199_254_740_993),
    ];
    for (text, expected) in known {
        assert_eq!(read(text), Some(expected), "{text}");
    }
    for text in ["", "much", "-1", "1.5", "1.5.2 GB", "8 gigs", "G", "99999999EiB", "nan"] {
        assert_eq!(read(text), None, "{text}");
    }
    assert_eq!(memory("4MiB"), Ok(4 << 20));
    assert!(memory("2EiB").is_err());
    assert_eq!(of_device("4MiB"), Ok((Device::Host, 4 << 20)));
    assert_eq!(
        of_device("cuda:0 = 1GiB"),
        Ok((Device::Accelerator(ovolo::tensor::Family::new("cuda"), 0), 1 << 30))
    );
    for text in ["cuda=1GiB", "cuda:=1", "cuda:00=1", "gpu=1", "cuda:0="] {
        assert!(of_device(text).is_err(), "{text}");
    }
}

#[test]
fn printed_amounts_can_be_parsed_again() {
    assert_eq!([0, 1023, 1024, 8 << 30].map(size), ["0 B", "1023 B", "1.0 KiB", "8.0 GiB"]);
    assert_eq!(bytes(&size(8 << 30)), Ok(8 << 30));
}

#[test]
fn sizes_are_a_name_and_numbers_above_zero() {
    assert_eq!(sizes("N=1,2,16"), Ok(("N".to_owned(), vec![1, 2, 16])));
    for wrong in ["N", "N=", "N=0", "N=1,,2", "N=x"] {
        assert!(sizes(wrong).is_err(), "{wrong}");
    }
}
