//! Tests the limit on bytes, and what is removed first.

use crate::cache::fixture::{build, digits, files, folder, key, origin, outputs, request, same};
use ovolo::cache::{Cache, Kind, Request};
use std::time::{Duration, SystemTime};

fn for_images(count: usize) -> Request {
    Request { dims: [("N".to_owned(), count)].into(), ..request(&digits()) }
}

#[test]
fn the_entry_used_longest_ago_is_removed_first_and_shared_weights_stay() {
    let at = folder("oldest");
    let cache = Cache::new(&at, Cache::LIMIT, crate::common::registry());
    // These numbers of images have the same kernels on any processor, which read the same weights.
    let requests: Vec<Request> = (9..=12).map(for_images).collect();
    for (age, request) in requests.iter().enumerate() {
        cache.keep(&key(request), &build(request), origin(request)).unwrap();
        let used = SystemTime::now() - Duration::from_secs(100 * (10 - age as u64));
        let path = at.join("plans").join(key(request).fingerprint().to_string());
        std::fs::File::open(path).unwrap().set_modified(used).unwrap();
    }
    // The last use counts, not the age.
    cache.find(&key(&requests[0]), None).unwrap();
    let plans = cache.folder().list(Kind::Plan);
    let weights: u64 = cache.folder().list(Kind::Weight).iter().map(|one| one.bytes).sum();
    let two = weights + 2 * plans.iter().map(|one| one.bytes).max().unwrap();
    let pruned = cache.prune(two);
    assert_eq!((pruned.plans, pruned.weights), (2, 0));
    assert!(cache.bytes() <= two);
    for (at, stays) in [true, false, false, true].into_iter().enumerate() {
        assert_eq!(cache.find(&key(&requests[at]), None).is_ok(), stays, "entry {at}");
    }
    let pruned = cache.prune(0);
    assert_eq!(pruned.plans, 2);
    assert!(pruned.weights > 0 && cache.bytes() == 0 && files(&at).is_empty());
}

#[test]
fn keeping_prunes_to_the_limit_by_itself() {
    let at = folder("limit");
    let request = for_images(12);
    let session = build(&request);
    Cache::new(&at, Cache::LIMIT, crate::common::registry())
        .keep(&key(&request), &session, origin(&request))
        .unwrap();
    let cache = Cache::new(
        &at,
        Cache::new(&at, 0, crate::common::registry()).bytes() * 5 / 4,
        crate::common::registry(),
    );
    for count in 1..12 {
        let request = for_images(count);
        let mut session = build(&request);
        cache.keep(&key(&request), &session, origin(&request)).unwrap();
        assert!(cache.bytes() <= cache.limit(), "{count}");
        let mut found = cache.find(&key(&request), None).unwrap();
        assert!(same(&outputs(&mut found), &outputs(&mut session)), "the newest stays");
    }
}

#[test]
fn a_model_that_is_larger_than_the_cache_is_not_kept() {
    let at = folder("larger");
    let request = for_images(1);
    let error = Cache::new(&at, 1000, crate::common::registry())
        .keep(&key(&request), &build(&request), origin(&request))
        .unwrap_err();
    assert!(error.to_string().ends_with("and the cache is limited to 1000 bytes"), "{error}");
    assert!(files(&at).is_empty());
}

#[test]
fn weights_that_no_entry_uses_stay_for_some_minutes() {
    let at = folder("grace");
    let request = for_images(1);
    let cache = Cache::new(&at, Cache::LIMIT, crate::common::registry());
    cache.keep(&key(&request), &build(&request), origin(&request)).unwrap();
    let count = cache.folder().list(Kind::Weight).len();
    cache.folder().remove(Kind::Plan, &key(&request).fingerprint().to_string()).unwrap();
    assert_eq!(cache.prune(Cache::LIMIT).weights, 0);
    for path in files(&at) {
        let old = SystemTime::now() - Duration::from_secs(3600);
        std::fs::File::open(path).unwrap().set_modified(old).unwrap();
    }
    assert_eq!(cache.prune(Cache::LIMIT).weights, count);
}

#[test]
fn weights_that_no_entry_uses_are_reported() {
    let at = folder("young");
    let request = for_images(1);
    let cache = Cache::new(&at, Cache::LIMIT, crate::common::registry());
    cache.keep(&key(&request), &build(&request), origin(&request)).unwrap();
    assert!(cache.others().is_empty());
    let weights = cache.folder().list(Kind::Weight);
    cache.folder().remove(Kind::Plan, &key(&request).fingerprint().to_string()).unwrap();
    let pruned = cache.prune(0);
    assert_eq!(pruned.young, (weights.len(), weights.iter().map(|one| one.bytes).sum()));
    let others = cache.others();
    assert_eq!(others.len(), weights.len());
    assert!(others.iter().all(|(kind, one)| cache.verify_other(*kind, &one.name).is_ok()));
    let said = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ovolo"));
        let output = command.args(arguments).env("OVOLO_CACHE", &at).output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (text, output.status.code())
    };
    let (text, code) = said(&["cache", "prune", "--limit", "0"]);
    assert!(code == Some(0) && text.contains("that no entry uses are kept for now"), "{text}");
    assert!(text.contains("in the last 10 minutes"), "{text}");
    let (text, code) = said(&["cache", "verify"]);
    assert!(code == Some(0) && text.contains("that no entry uses and 0 modules"), "{text}");
    // Damage is found in files that no entry uses, too.
    let path = at.join("weights").join(&weights[0].name);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[0] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    std::fs::create_dir_all(at.join("artifacts")).unwrap();
    let module = at.join("artifacts").join("ab".repeat(32));
    std::fs::write(&module, "no module").unwrap();
    let (text, code) = said(&["cache", "list"]);
    assert!(code == Some(0) && text.contains(", 1 module: "), "{text}");
    let (text, code) = said(&["cache", "verify"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains(&format!("weight {}: it is damaged", &weights[0].name[..7])), "{text}");
    assert!(
        text.contains("module abababa: it is damaged") && text.contains("and 2 files must be made"),
        "{text}"
    );
    assert_eq!(said(&["cache", "verify", "--remove"]).1, Some(0));
    assert!(!path.exists() && !module.exists());
    assert_eq!(said(&["cache", "verify"]).1, Some(0));
}

#[test]
fn a_failed_write_leaves_nothing_behind() {
    let at = folder("failed");
    let request = for_images(1);
    let cache = Cache::new(&at, Cache::LIMIT, crate::common::registry());
    let (named, other) = (build(&request), for_images(2));
    cache.keep(&key(&request), &named, origin(&request)).unwrap();
    let before = files(&at);
    // A folder with the name of the entry is in its place.
    let blocked = at.join("plans").join(key(&other).fingerprint().to_string());
    std::fs::rename(at.join("plans"), at.join("kept")).unwrap();
    std::fs::write(at.join("plans"), "no folder").unwrap();
    assert!(cache.keep(&key(&other), &build(&other), origin(&other)).is_err());
    // No entry uses the weights, because entries cannot be read either; weights from before stay.
    std::fs::remove_file(at.join("plans")).unwrap();
    std::fs::rename(at.join("kept"), at.join("plans")).unwrap();
    assert_eq!(files(&at), before);
    assert!(cache.find(&key(&request), None).is_ok() && !blocked.exists());
    // If there was nothing before, nothing is left.
    let empty = folder("failed-empty");
    std::fs::write(empty.join("plans"), "no folder").unwrap();
    let cache = Cache::new(&empty, Cache::LIMIT, crate::common::registry());
    assert!(cache.keep(&key(&request), &named, origin(&request)).is_err());
    assert_eq!(files(&empty), [empty.join("plans")]);
}
