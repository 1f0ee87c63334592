//! Tests of `src/cache/artifact.rs`.

use crate::common;
use ovolo::backend::Artifacts;
use ovolo::cache::{Cache, Digest, KeptArtifacts, Kind};

/// The length of the digest with which a file begins.
const DIGEST: usize = 64;

#[test]
fn a_name_depends_on_each_part_and_what_is_damaged_is_not_read() {
    let cache = Cache::new(&common::folder("artifact"), Cache::LIMIT, common::registry());
    let kept = KeptArtifacts::new(cache.folder());
    let names = || cache.folder().list(Kind::Artifact).into_iter().map(|file| file.name).collect::<Vec<_>>();
    let key = ["12.9", "sm_90", "k"];
    let body = [1, 2, 3];
    kept.store(&key, &body);
    kept.store(&key, &body);
    let name = names().concat();
    assert_eq!(name.len(), DIGEST, "one file");
    for other in [["12.8", "sm_90", "k"], ["12.9", "sm_90", "l"], ["12.9", "sm_80", "k"]] {
        assert_eq!(kept.load(&other), None);
        kept.store(&other, &[4]);
    }
    assert_eq!(names().len(), 4);
    let path = cache.folder().path().join("artifacts").join(name);
    let mut file = Digest::new(&body).to_string().into_bytes();
    file.extend(body);
    assert_eq!(std::fs::read(&path).unwrap(), file);
    assert_eq!(kept.load(&key).as_deref(), Some(&body[..]));
    for at in [0, DIGEST, file.len() - 1] {
        let mut damaged = file.clone();
        damaged[at] ^= 1;
        std::fs::write(&path, damaged).unwrap();
        assert_eq!(kept.load(&key), None, "byte {at}");
    }
    std::fs::write(&path, &file[..10]).unwrap();
    assert_eq!(kept.load(&key), None);
}
