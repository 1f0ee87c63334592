//! Tests damage: flipped bits, truncated, swapped or missing files. A lookup then misses or gives the right
//! outputs; it never crashes and never gives other outputs.

use crate::cache::fixture::{build, digits, files, filled, folder, key, origin, outputs, request, same};
use crate::common;
use crate::common::seeded::Random;
use ovolo::cache::{Cache, Digest, Key, Miss, Request};
use ovolo::session::Session;
use ovolo::tensor::Tensor;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A cache with one model, its original files, and the outputs.
struct Bench {
    cache: Cache,
    key: Key,
    session: Session,
    expected: Vec<Tensor>,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Bench {
    fn new(at: &Path) -> Self {
        Self::of(at, &request(&digits()))
    }

    fn of(at: &Path, request: &Request) -> Self {
        let (cache, mut session) = filled(at, request);
        let expected = outputs(&mut session);
        let files: Vec<(PathBuf, Vec<u8>)> =
            files(at).into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
        assert!(files.len() > 1, "at least a plan and a weight");
        Self { cache, key: key(request), session, expected, files }
    }

    /// Checks that a lookup misses or gives the right outputs, and that keeping the plan again repairs the
    /// cache.
    fn holds(&self, what: &str) -> Option<Miss> {
        let miss = match self.cache.find(&self.key, None) {
            Ok(mut session) => {
                assert!(same(&outputs(&mut session), &self.expected), "{what}: other outputs");
                None
            }
            Err(miss) => Some(miss),
        };
        if miss.is_some() {
            self.cache.keep(&self.key, &self.session, Default::default()).unwrap();
            let mut session =
                self.cache.find(&self.key, None).unwrap_or_else(|miss| panic!("{what}: {miss}"));
            assert!(same(&outputs(&mut session), &self.expected), "{what}: other outputs after the next");
        }
        miss
    }
}

/// Writes a file in place. A file that is truncated and written again is flushed to the disk at once by some file
/// systems, which takes most of the time of tests that do so thousands of times.
fn overwrite(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(path).unwrap();
    file.write_all(bytes).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
}

#[test]
fn ten_thousand_flips_and_cuts_give_a_rebuild_or_the_right_answer() {
    let bench = Bench::new(&folder("flips"));
    let mut random = Random(5);
    let mut missed = 0;
    for round in 0..10_000 {
        let (path, whole) = &bench.files[random.below(bench.files.len())];
        let mut bytes = whole.clone();
        match random.below(4) {
            // One flipped bit, a few, a stretch of noise, or a truncation.
            0 => bytes[random.below(whole.len())] ^= 1 << random.below(8),
            1 => {
                for _ in 0..=random.below(8) {
                    bytes[random.below(whole.len())] ^= 1 << random.below(8);
                }
            }
            2 => {
                let start = random.below(whole.len());
                let end = (start + 1 + random.below(600)).min(whole.len());
                bytes[start..end].iter_mut().for_each(|byte| *byte = random.word() as u8);
            }
            _ => bytes.truncate(random.below(whole.len())),
        }
        overwrite(path, &bytes);
        let miss = match bench.cache.find(&bench.key, None) {
            // Whether the next run repairs the damage is checked only sometimes, because it takes most of the
            // time.
            Err(_) if round % 20 == 0 => bench.holds(&format!("round {round}, {}", path.display())),
            Err(miss) => Some(miss),
            Ok(mut session) => {
                assert!(same(&outputs(&mut session), &bench.expected), "round {round}: other outputs");
                None
            }
        };
        assert_eq!(miss.is_some(), bytes != *whole, "round {round}: {miss:?}");
        missed += usize::from(miss.is_some());
        // A damaged entry is removed with the damaged weights. Only the file of this round has other bytes.
        for (other, whole) in &bench.files {
            if other == path || !other.exists() {
                overwrite(other, whole);
            }
        }
    }
    assert!(missed > 9_000, "{missed} rounds did damage");
}

/// Checksums find all damage, and so hide the checks behind them: here the checksums are right.
#[test]
fn a_damaged_plan_under_the_right_checksum_is_refused_or_runs_and_never_crashes() {
    const HEAD: usize = 16 + 32;
    let bench = Bench::new(&folder("sealed"));
    let (path, whole) =
        bench.files.iter().find(|(path, _)| path.parent().unwrap().ends_with("plans")).unwrap();
    let mut random = Random(11);
    let (mut refused, mut ran) = (0, 0);
    for _ in 0..4_000 {
        let mut bytes = whole.clone();
        for _ in 0..=random.below(3) {
            let at = HEAD + random.below(whole.len() - HEAD);
            bytes[at] =
                if random.below(2) == 0 { bytes[at] ^ 1 << random.below(8) } else { random.word() as u8 };
        }
        let digest = *Digest::new(&bytes[HEAD..]).bytes();
        bytes[16..HEAD].copy_from_slice(&digest);
        overwrite(path, &bytes);
        match bench.cache.look(&bench.key, None) {
            Err(_) => refused += 1,
            Ok(mut session) => {
                let inputs: Vec<Tensor> = session
                    .plan()
                    .inputs
                    .iter()
                    .map(|(name, ty)| common::random(name, ty.dtype, &ty.shape).to_layout(&ty.layout))
                    .collect();
                session.run(&inputs.iter().collect::<Vec<_>>()).unwrap();
                ran += 1;
            }
        }
    }
    assert!(refused > 500 && ran > 500, "{refused} refused, {ran} ran");
}

#[test]
fn longer_swapped_empty_and_missing_files_are_detected() {
    let bench = Bench::new(&folder("files"));
    for (at, (path, whole)) in bench.files.iter().enumerate() {
        let other = &bench.files[(at + 1) % bench.files.len()].1;
        let longer = [whole.as_slice(), &[0]].concat();
        for (what, bytes) in [("longer", longer.as_slice()), ("swapped", other), ("empty", &[])] {
            std::fs::write(path, bytes).unwrap();
            assert!(bench.holds(what).is_some(), "{what}: {}", path.display());
        }
        std::fs::remove_file(path).unwrap();
        assert!(bench.holds("gone").is_some());
        std::fs::remove_file(path).unwrap();
        std::fs::create_dir(path).unwrap();
        let miss = bench.holds("a folder").map(|miss| miss.to_string()).unwrap_or_default();
        assert!(miss.ends_with("it is not a plain file"), "{miss}: {}", path.display());
    }
}

/// Large weights are read in pieces, by all threads.
#[test]
fn weights_of_many_pieces_are_read_completely_or_not_at_all() {
    let (at, model) = (folder("large"), folder("large-model").join("product.ovolo"));
    let text = "graph {\n  x: f32[1,2048] = input\n  w: f32[2048,1100] = const ~1\n  y = matmul(x, w)\n  return y\n}\n";
    std::fs::write(&model, text).unwrap();
    let bench = Bench::of(&at, &Request { threads: 3, ..request(&model) });
    let is_large = |(_, bytes): &&(PathBuf, Vec<u8>)| bytes.len() > (8 << 20);
    let (path, whole) = bench.files.iter().find(is_large).expect("the weight has 9 MB");
    assert_eq!(bench.holds("whole"), None);
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let longer = [whole.as_slice(), &[0]].concat();
    let cut = &whole[..whole.len() - 1];
    for (what, bytes) in [("flipped", flipped.as_slice()), ("longer", &longer), ("cut", cut), ("empty", &[])]
    {
        std::fs::write(path, bytes).unwrap();
        assert!(bench.holds(what).is_some(), "{what}");
    }
    std::fs::remove_file(path).unwrap();
    assert!(bench.holds("gone").is_some());
}

#[test]
fn files_of_killed_writers_are_never_read_and_removed_later() {
    let at = folder("killed");
    let bench = Bench::new(&at);
    for (path, whole) in &bench.files {
        let mut part = path.clone().into_os_string();
        part.push(".4711-0.part");
        std::fs::write(&part, &whole[..whole.len() / 2]).unwrap();
    }
    assert_eq!(bench.holds("parts"), None);
    bench.cache.prune(Cache::LIMIT);
    assert_eq!(files(&at).len(), 2 * bench.files.len(), "another process may be writing them");
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    for path in files(&at).iter().filter(|path| path.extension().is_some()) {
        std::fs::File::open(path).unwrap().set_modified(long_ago).unwrap();
    }
    bench.cache.keep(&bench.key, &bench.session, Default::default()).unwrap();
    assert_eq!(files(&at).len(), bench.files.len());
    assert_eq!(bench.holds("swept"), None);
}

#[test]
fn a_damaged_weight_is_written_again_by_the_next_model_that_has_it() {
    let at = folder("mended");
    let bench = Bench::new(&at);
    let (weight, whole) =
        bench.files.iter().find(|(path, _)| path.parent().unwrap().ends_with("weights")).unwrap();
    let mut bytes = whole.clone();
    bytes[5] ^= 1;
    std::fs::write(weight, &bytes).unwrap();
    // Another entry with the same weight finds it damaged, although its length is right.
    let other = request(&digits());
    let other = Request { threads: 2, ..other };
    bench.cache.keep(&key(&other), &build(&other), origin(&other)).unwrap();
    assert!(std::fs::read(weight).unwrap() == *whole);
    assert!(same(&outputs(&mut bench.cache.find(&key(&other), None).unwrap()), &bench.expected));
    assert_eq!(bench.holds("the first"), None, "its weight is whole again");
}

#[test]
fn an_entry_whose_weights_are_gone_is_removed() {
    let at = folder("incomplete");
    let bench = Bench::new(&at);
    for (path, _) in bench.files.iter().filter(|(path, _)| path.parent().unwrap().ends_with("weights")) {
        std::fs::remove_file(path).unwrap();
    }
    let items = bench.cache.items();
    let miss = bench.cache.verify(&items[0]).unwrap_err();
    assert!(matches!(miss, Miss::Incomplete { .. }), "{miss}");
    bench.cache.discard(&items[0].name, &miss).unwrap();
    assert!(bench.cache.items().is_empty() && files(&at).is_empty());
}

#[test]
fn files_of_killed_writers_count_towards_the_limit_and_are_removed() {
    let at = folder("parts-of-plans");
    let bench = Bench::new(&at);
    let before = bench.cache.bytes();
    let (path, whole) = &bench.files[0];
    let mut part = path.clone().into_os_string();
    part.push(".4711-0.part");
    std::fs::write(&part, whole).unwrap();
    assert_eq!(bench.cache.bytes(), before + whole.len() as u64);
    // While it may still be in use it stays, and counts towards the limit.
    let pruned = bench.cache.prune(before);
    assert_eq!((pruned.plans, pruned.parts), (1, 0));
    assert!(bench.cache.bytes() <= before && Path::new(&part).exists());
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    std::fs::File::open(&part).unwrap().set_modified(long_ago).unwrap();
    let pruned = bench.cache.prune(before);
    assert_eq!((pruned.plans, pruned.parts, pruned.bytes), (0, 1, whole.len() as u64));
    assert!(pruned.failed.is_empty() && !Path::new(&part).exists());
}
