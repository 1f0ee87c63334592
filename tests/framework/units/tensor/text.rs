//! Tests of `src/tensor/text.rs`.

#[allow(dead_code)]
#[path = "../../../../src/tensor/text.rs"]
mod source;

use ovolo::tensor::DType;
use source::{TEXTS, Text, hash, number, shown};

#[test]
fn equal_texts_have_equal_handles() {
    assert_eq!(Text::new("ovolo"), Text::new("ovolo"));
    assert_ne!(Text::new("ovolo"), Text::new("Ovolo"));
    assert_eq!(&*Text::new("ключ").get(), "ключ");
    assert_eq!(Text::new(""), Text::default());
    assert_eq!(&*Text(1).get(), "", "bytes that are no handle");
}

#[test]
fn texts_with_one_hash_stay_apart() {
    let first = Text(hash("first of two"));
    TEXTS.write().unwrap().insert(first.0, "another text".into());
    let second = Text::new("first of two");
    assert_ne!(first, second);
    assert_eq!(&*second.get(), "first of two");
}

#[test]
fn numbers_have_their_shortest_texts() {
    let texts = [1.0, -0.25, 1e20, 3.5e-7, f64::INFINITY].map(|value| shown(DType::F32, value));
    assert_eq!(texts, ["1", "-0.25", "1e+20", "3.5e-07", "INF"]);
    assert_eq!(shown(DType::F32, f64::from(0.1_f32)), "0.1");
    assert!(number(" 1e-5 ") == 1e-5 && number("x").is_nan());
}
