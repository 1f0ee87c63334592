//! Tests models saved to one file: written, loaded elsewhere, and damaged.

use crate::cache::fixture::{digits, files, filled, folder, key, outputs, request, same};
use ovolo::cache::{Cache, elsewhere};
use ovolo_cli::BUILDS;

#[test]
fn a_saved_model_can_be_loaded_elsewhere() {
    let at = folder("saved");
    let request = request(&digits());
    let (cache, mut session) = filled(&at.join("one"), &request);
    let file = at.join("digits.cache");
    cache.save(&key(&request), &file).unwrap();
    let other = Cache::new(&at.join("other"), Cache::LIMIT, crate::common::registry());
    let entry = other.load(&file, &|_| None).unwrap();
    assert_eq!(entry.key, key(&request));
    assert!(same(&outputs(&mut other.find(&key(&request), None).unwrap()), &outputs(&mut session)));
    let names = |at: &str| -> Vec<String> {
        let root = folder_of(at);
        files(&root).iter().map(|path| path.strip_prefix(&root).unwrap().display().to_string()).collect()
    };
    fn folder_of(at: &str) -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache-saved").join(at)
    }
    assert_eq!(names("one"), names("other"));
}

#[test]
fn loading_a_model_rewrites_damaged_weights() {
    let at = folder("overwrites");
    let request = request(&digits());
    let (cache, mut session) = filled(&at.join("one"), &request);
    let file = at.join("digits.cache");
    cache.save(&key(&request), &file).unwrap();
    for weight in files(&at.join("one/weights")) {
        let mut bytes = std::fs::read(&weight).unwrap();
        bytes[9] ^= 2;
        std::fs::write(&weight, bytes).unwrap();
    }
    assert!(cache.look(&key(&request), None).is_err());
    cache.load(&file, &|_| None).unwrap();
    assert!(same(&outputs(&mut cache.find(&key(&request), None).unwrap()), &outputs(&mut session)));
}

#[test]
fn a_damaged_file_is_refused_completely() {
    let at = folder("refused");
    let request = request(&digits());
    let (cache, _) = filled(&at.join("one"), &request);
    let file = at.join("digits.cache");
    cache.save(&key(&request), &file).unwrap();
    let whole = std::fs::read(&file).unwrap();
    let other = Cache::new(&at.join("other"), Cache::LIMIT, crate::common::registry());
    let step = whole.len() / 400;
    for place in (0..whole.len()).step_by(step) {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x10;
        std::fs::write(&file, &bytes).unwrap();
        assert!(other.load(&file, &|_| None).is_err(), "bit at {place}");
        std::fs::write(&file, &whole[..place]).unwrap();
        assert!(other.load(&file, &|_| None).is_err(), "cut at {place}");
    }
    std::fs::write(&file, [&whole[..], b"more"].concat()).unwrap();
    let error = other.load(&file, &|_| None).unwrap_err();
    assert!(error.to_string().ends_with("there are bytes after its end"), "{error}");
    std::fs::write(&file, &whole).unwrap();
    let error = other.load(&file, &|_| Some("not wanted".to_owned())).unwrap_err();
    assert!(error.to_string().ends_with("not wanted"), "{error}");
    assert!(files(&at.join("other")).is_empty());
}

#[test]
fn entries_of_other_machines_are_refused() {
    let here = key(&request(&digits()));
    assert_eq!(elsewhere(&here, crate::common::registry(), BUILDS), []);
    for field in ["format", "ovolo", "build", "processor", "instruction sets", "backend native"] {
        let there = here.clone().with(field, "other");
        let found = elsewhere(&there, crate::common::registry(), BUILDS);
        assert_eq!(found.len(), 1, "{field}");
        assert_eq!((found[0].field.as_str(), found[0].there.as_deref()), (field, Some("other")));
    }
    for field in ["model", "dims", "threads", "rules"] {
        assert_eq!(
            elsewhere(&here.clone().with(field, "other"), crate::common::registry(), BUILDS),
            [],
            "{field}"
        );
    }
}
