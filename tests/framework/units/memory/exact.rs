//! Tests of `src/memory/exact.rs`.

#[allow(dead_code)]
#[path = "../../../../src/memory/exact/problem.rs"]
mod problem;
#[allow(dead_code)]
#[path = "../../../../src/memory/exact/search.rs"]
mod search;
#[allow(dead_code)]
#[path = "../../../../src/memory/exact/strategy.rs"]
mod strategy;

use ovolo::memory::{Buffer, Exact, Planner, planners};
use problem::components;
use search::{Search, Verdict};
use strategy::{STRATEGIES, mix, rank};

/// A stream of numbers from a seed.
struct Numbers(usize, usize);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.1 += 1;
        usize::try_from(mix(self.0, self.1) >> 32).unwrap() % end
    }
}

/// Returns the least peak. If buffers are placed in some order, each above all placed buffers that are live with it,
/// the results over all orders include every packing in which no buffer can move down. One of these has the least
/// peak.
fn least(buffers: &[Buffer], offsets: &mut Vec<Option<usize>>, peak: usize, best: &mut usize) {
    if peak >= *best {
        return;
    }
    if offsets.iter().all(Option::is_some) {
        *best = peak;
        return;
    }
    for at in 0..buffers.len() {
        if offsets[at].is_some() {
            continue;
        }
        let one = buffers[at];
        let top = (0..buffers.len())
            .filter(|&other| one.lower < buffers[other].upper && buffers[other].lower < one.upper)
            .filter_map(|other| Some(offsets[other]? + buffers[other].size))
            .max();
        let offset = top.unwrap_or(0).next_multiple_of(one.align);
        offsets[at] = Some(offset);
        least(buffers, offsets, peak.max(offset + one.size), best);
        offsets[at] = None;
    }
}

fn brute(buffers: &[Buffer]) -> usize {
    let mut best = usize::MAX;
    least(buffers, &mut vec![None; buffers.len()], 0, &mut best);
    best
}

/// Returns random buffers of one of three kinds: of any size; on a grid; with mixed alignments.
fn instance(seed: usize) -> Vec<Buffer> {
    let mut numbers = Numbers(seed, 0);
    let count = 4 + numbers.below(5);
    let time = 3 + numbers.below(8);
    let most = [4, 9, 30][numbers.below(3)];
    (0..count)
        .map(|_| {
            let lower = numbers.below(time);
            let upper = lower + 1 + numbers.below(time - lower);
            let size = 1 + numbers.below(most);
            let (size, align) = match seed % 3 {
                0 => (size, 1),
                1 => (size * 8, 8),
                _ => (size, [1, 2, 4, 3][numbers.below(3 + seed % 2)]),
            };
            Buffer { lower, upper, size, align }
        })
        .collect()
}

/// Panics if buffers overlap, or if an offset is not aligned.
fn check(buffers: &[Buffer], offsets: &[usize], peak: usize) {
    for (a, one) in buffers.iter().enumerate() {
        assert_eq!(offsets[a] % one.align, 0);
        assert!(offsets[a] + one.size <= peak);
        for (b, other) in buffers.iter().enumerate().take(a) {
            let together = one.lower < other.upper && other.lower < one.upper;
            let apart = offsets[a] + one.size <= offsets[b] || offsets[b] + other.size <= offsets[a];
            assert!(!together || apart, "{a} and {b}");
        }
    }
}

#[test]
fn the_least_peak_of_small_instances_is_found_and_proven() {
    let (mut hard, seeds) = (0, crate::common::draws(3000, 1000));
    for seed in 0..seeds {
        let buffers = instance(seed);
        let packing = Exact { steps: 5_000_000, capacity: 0 }.plan(&buffers);
        check(&buffers, &packing.offsets, packing.peak);
        assert!(packing.proven, "seed {seed}");
        assert_eq!(packing.peak, brute(&buffers), "seed {seed}");
        hard += usize::from(packing.steps > 0);
    }
    assert!(hard * 10 > seeds, "heuristics alone settle all but {hard} of the instances");
}

#[test]
fn every_strategy_finds_the_least_peak_and_refutes_the_one_below() {
    for seed in 0..crate::common::draws(1500, 500) {
        let buffers = instance(seed);
        for problem in components(&buffers) {
            let members: Vec<Buffer> = problem.items.iter().map(|item| item.given).collect();
            let best = brute(&members);
            for (at, (pick, order)) in STRATEGIES.into_iter().enumerate() {
                let rank = rank(&problem, order, at + seed % 3 * STRATEGIES.len());
                let mut search = Search::new(&problem, best, &rank, pick);
                assert_eq!(search.run(u64::MAX), Verdict::Packed, "seed {seed}, {pick:?}");
                check(&members, &search.offsets(), best);
                let mut search = Search::new(&problem, best - 1, &rank, pick);
                assert_eq!(search.run(u64::MAX), Verdict::Impossible, "seed {seed}, {pick:?}");
            }
        }
    }
}

#[test]
fn buffers_of_no_bytes_or_no_time_are_in_nobodys_way() {
    let buffer = |lower, upper, size| Buffer { lower, upper, size, align: 64 };
    let buffers = [buffer(0, 9, 100), buffer(3, 3, 1000), buffer(2, 5, 0), buffer(4, 9, 28)];
    let packing = Exact::DEFAULT.plan(&buffers);
    assert_eq!((packing.peak, packing.lower_bound, packing.proven), (156, 128, true));
    assert_eq!(Exact::DEFAULT.plan(&[]).peak, 0);
}

#[test]
fn without_steps_the_heuristics_answer_and_nothing_is_claimed() {
    let buffers = (0..).map(instance).find(|buffers| Exact::DEFAULT.plan(buffers).steps > 0).unwrap();
    let packing = Exact { steps: 0, capacity: 0 }.plan(&buffers);
    assert_eq!(packing, planners().find("best").unwrap().plan(&buffers));
    assert!(!packing.proven);
}

#[test]
fn parts_that_share_no_time_share_their_bytes() {
    let one: Vec<Buffer> = instance(4);
    let span = one.iter().map(|buffer| buffer.upper).max().unwrap();
    let mut twice = one.clone();
    twice.extend(one.iter().map(|b| Buffer { lower: b.lower + span, upper: b.upper + span, ..*b }));
    let packing = Exact::DEFAULT.plan(&twice);
    check(&twice, &packing.offsets, packing.peak);
    assert_eq!(packing.peak, Exact::DEFAULT.plan(&one).peak);
    assert!(components(&twice).len() >= 2);
}
