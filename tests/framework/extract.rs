//! Tests the claims of extractors on random and network-shaped e-graphs.
#![allow(clippy::unwrap_used, missing_docs)]

mod synthetic;

use ovolo::extract::{
    Candidate, Claim, Class, ClassId, Exact, ExtractError, Extraction, Extractor, Limits, Naive, Named,
    Problem,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use synthetic::{Random, chains, dense, inception, large_tangle, residual, tangle, transformer, unet, wired};

fn all() -> impl Iterator<Item = std::sync::Arc<dyn Extractor>> {
    ovolo::extract::extractors().iter().map(|(_, kind)| (kind.plain)())
}

fn find(name: &str) -> Option<std::sync::Arc<dyn Extractor>> {
    let kind = ovolo::extract::extractors().get(name)?;
    Some((kind.plain)())
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

/// Checks everything that every extraction promises.
fn sound(problem: &Problem, result: &Extraction, what: &str) {
    let cost = problem.cost(&result.choice).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(close(cost, result.cost), "{what}: reports cost {}, but costs {cost}", result.cost);
    assert!(result.bound <= result.cost, "{what}: bound {} above {cost}", result.bound);
    assert_eq!(result.choice.len(), problem.classes.len());
    assert!(!result.proven || result.bound == result.cost, "{what}");
}

/// The number of random problems.
const SEEDS: u64 = 2000;

#[test]
fn claims_hold_on_tangles() {
    let tight = Exact { limits: Limits { states: 2, beam: 2, work: 1000, options: 3000 } };
    // These limits make the first short attempt fail, so that another order is used.
    let medium = Exact { limits: Limits { states: 19, beam: 4, work: 100_000, options: 3000 } };
    let mut solved = 0;
    for seed in 0..SEEDS {
        let problem = tangle(seed);
        let best = match Naive.extract(&problem) {
            Ok(best) => best,
            Err(ExtractError::NothingRuns { .. }) => {
                for extractor in all() {
                    let result = extractor.extract(&problem);
                    assert!(
                        matches!(result, Err(ExtractError::NothingRuns { .. })),
                        "{seed} {}",
                        extractor.name()
                    );
                }
                continue;
            }
            Err(error) => panic!("{seed}: {error}"),
        };
        solved += 1;
        for extractor in all() {
            let what = format!("{} on {seed}", extractor.name());
            let result = extractor.extract(&problem).unwrap();
            sound(&problem, &result, &what);
            assert!(result.bound <= best.cost + 1e-9, "{what}: bound {} above {}", result.bound, best.cost);
            assert!(result.cost >= best.cost - 1e-9, "{what}: {} below {}", result.cost, best.cost);
            if extractor.claim() == Claim::Optimal {
                assert!(result.proven, "{what}");
                assert!(close(result.cost, best.cost), "{what}: {} but {}", result.cost, best.cost);
            }
        }
        for limited in [tight, medium] {
            let result = limited.extract(&problem).unwrap();
            let what = format!("{:?} on {seed}", limited.limits);
            sound(&problem, &result, &what);
            assert!(result.bound <= best.cost + 1e-9, "{what}: bound {} above {}", result.bound, best.cost);
            assert_eq!(result.proven, result.report.limit.is_none(), "{what}");
            if result.proven {
                assert!(close(result.cost, best.cost), "{what}: {} but {}", result.cost, best.cost);
            }
        }
    }
    assert!(solved > 1000, "only {solved} could be solved");
}

/// The same problem with classes and candidates in another order.
fn shuffled(problem: &Problem, seed: u64) -> (Problem, Vec<usize>) {
    let random = &mut Random(seed);
    let mut place: Vec<usize> = (0..problem.classes.len()).collect();
    for at in (1..place.len()).rev() {
        place.swap(at, random.below(at + 1));
    }
    let mut classes = vec![Class::default(); place.len()];
    let moved = |class: &ClassId| ClassId(place[class.index()] as u32);
    for (at, class) in problem.classes.iter().enumerate() {
        let node = |node: &Candidate| Candidate {
            children: node.children.iter().rev().map(moved).collect(),
            ..*node
        };
        classes[place[at]].nodes = class.nodes.iter().rev().map(node).collect();
    }
    (Problem { classes, roots: problem.roots.iter().rev().map(moved).collect() }, place)
}

#[test]
fn results_do_not_depend_on_numbers() {
    let tangles = (0..200).map(tangle);
    // The integer program takes a minute for each of the larger networks.
    let small = [residual(1, 1, 2), unet(1, 1), wired(1, 4)];
    let large = [residual(1, 4, 4), unet(1, 3), wired(1, 12)];
    let small = small.into_iter().map(|problem| (problem, &["naive"][..]));
    let large = large.into_iter().map(|problem| (problem, &["naive", "ilp"][..]));
    let problems: Vec<(Problem, &[&str])> =
        tangles.map(|problem| (problem, &[][..])).chain(small).chain(large).collect();
    let next = AtomicUsize::new(0);
    // Two threads, so that this test does not end long after the others.
    let some = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((problem, too_slow)) = problems.get(at) else { return };
            does_not_depend_on_numbers(problem, too_slow, at as u64);
        }
    };
    std::thread::scope(|scope| {
        for thread in [scope.spawn(some), scope.spawn(some)] {
            thread.join().unwrap();
        }
    });
}

fn does_not_depend_on_numbers(problem: &Problem, too_slow: &[&str], seed: u64) {
    let (other, place) = shuffled(problem, seed);
    for extractor in all().filter(|extractor| !too_slow.contains(&extractor.name())) {
        let (Ok(a), Ok(b)) = (extractor.extract(problem), extractor.extract(&other)) else {
            continue;
        };
        assert_eq!(a.cost.to_bits(), b.cost.to_bits(), "{} on {seed}", extractor.name());
        for (class, node) in a.choice.iter().enumerate() {
            let rank = |problem: &Problem, class: usize, node: Option<u32>| {
                node.map(|node| problem.classes[class].nodes[node as usize].rank)
            };
            let (here, there) =
                (rank(problem, class, *node), rank(&other, place[class], b.choice[place[class]]));
            assert_eq!(here, there, "{} on {seed}, class {class}", extractor.name());
        }
    }
}

#[test]
fn networks_are_proven() {
    let problems = [
        ("residual", residual(1, 16, 4)),
        ("inception", inception(2, 9)),
        ("dense", dense(3, &[6, 12, 24, 16])),
        ("unet", unet(4, 20)),
        ("transformer", transformer(5, 12)),
        ("deep", residual(6, 60, 3)),
    ];
    for (name, problem) in problems {
        let result = Exact::DEFAULT.extract(&problem).unwrap();
        sound(&problem, &result, name);
        assert!(result.proven, "{name}: {:?}", result.report);
        for other in ["greedy-dag", "greedy-tree"] {
            let greedy = find(other).unwrap().extract(&problem).unwrap();
            sound(&problem, &greedy, name);
            assert!(result.cost <= greedy.cost + 1e-9, "{name}: {} {}", result.cost, greedy.cost);
        }
    }
}

#[test]
fn small_networks_agree_with_naive() {
    for seed in 0..12 {
        for problem in [residual(seed, 1, 2), wired(seed, 2)] {
            let Ok(best) = Naive.extract(&problem) else {
                continue;
            };
            let result = Exact::DEFAULT.extract(&problem).unwrap();
            assert!(result.proven && close(result.cost, best.cost), "{} {}", result.cost, best.cost);
        }
    }
}

/// Checks a result against the cheapest selection: its bound is at most that cost, and a proven result costs
/// the same.
fn agrees(problem: &Problem, result: &Extraction, best: &Extraction, what: &str) {
    sound(problem, result, what);
    assert!(result.bound <= best.cost + 1e-9, "{what}: bound {} above {}", result.bound, best.cost);
    let same = close(result.cost, best.cost);
    assert!(!result.proven || same, "{what}: {} but {}", result.cost, best.cost);
}

#[test]
fn fused_chains_agree_with_naive() {
    // With few states, the frontier prunes hard and tries every order; the default has enough states.
    let tight = Exact { limits: Limits { states: 40, beam: 4, ..Exact::DEFAULT.limits } };
    for seed in 0..SEEDS {
        let problem = chains(seed);
        let best = Naive.extract(&problem).unwrap();
        for exact in [Exact::DEFAULT, tight] {
            let result = exact.extract(&problem).unwrap();
            let what = format!("chains {seed}");
            agrees(&problem, &result, &best, &what);
        }
        assert!(Exact::DEFAULT.extract(&problem).unwrap().proven);
    }
}

#[test]
fn bounds_without_proof_are_true() {
    let (mut unproven, seeds) = (0, crate::common::draws(20, 6));
    for seed in 0..seeds as u64 {
        for problem in [wired(seed, 8), unet(seed, 3), residual(seed, 3, 4)] {
            let best = Exact::DEFAULT.extract(&problem).unwrap();
            assert!(best.proven);
            for (states, beam) in [(1, 2), (19, 10), (100, 30), (10_000, 30)] {
                let limits = Limits { states, beam, ..Exact::DEFAULT.limits };
                let result = Exact { limits }.extract(&problem).unwrap();
                sound(&problem, &result, "limited");
                assert!(result.cost >= best.cost - 1e-9 && result.bound <= best.cost + 1e-9);
                assert!(!result.proven || close(result.cost, best.cost), "{} {}", result.cost, best.cost);
                unproven += usize::from(!result.proven);
            }
        }
    }
    assert!(unproven * 2 > seeds, "limits were reached only {unproven} times");
}

#[test]
fn bounds_and_proofs_hold_where_the_frontier_gives_up() {
    // With one option, a proof must come from what landmarks and messages rule out.
    let limits = Limits { states: 1, beam: 2, options: 1, ..Limits::DEFAULT };
    let (mut proven, mut solved) = (0, 0);
    for seed in 0..SEEDS {
        for problem in [tangle(seed), chains(seed)] {
            let Ok(best) = Naive.extract(&problem) else { continue };
            let result = Exact { limits }.extract(&problem).unwrap();
            let what = format!("without the frontier on {seed}");
            agrees(&problem, &result, &best, &what);
            solved += 1;
            proven += usize::from(result.proven);
        }
    }
    assert!(2 * proven > solved, "{proven} of {solved}");
}

/// E-graphs of tensor programs from the data of extraction-gym: the cost found is the optimum.
#[test]
fn stored_egraphs_are_proven() {
    for (name, text, cost) in [
        ("resnet50_acyclic", include_str!("extract/resnet50_acyclic.json"), 4.415_993),
        ("vgg", include_str!("extract/vgg.json"), 4.850_757_1),
    ] {
        let problem = Named::read(text).unwrap().problem;
        for extractor in [find("exact").unwrap(), find("local-search").unwrap()] {
            let result = extractor.extract(&problem).unwrap();
            sound(&problem, &result, name);
            assert!(result.proven && result.cost < cost + 1e-6, "{} on {name}: {result:?}", extractor.name());
        }
    }
}

#[test]
fn large_tangles_are_bounded_and_mostly_proven() {
    let tight = Exact { limits: Limits { states: 2, beam: 2, work: 1000, options: 10 } };
    let (mut proven, mut wide) = (0, 0);
    let seeds = crate::common::draws(40, 20);
    let sizes = |seed: usize| [30, 120, 400].map(|classes| (seed as u64, classes));
    for (seed, classes) in (0..seeds).flat_map(sizes) {
        let problem = large_tangle(seed, classes);
        let Ok(best) = Exact::DEFAULT.extract(&problem) else { continue };
        let what = format!("{classes} classes, seed {seed}");
        sound(&problem, &best, &what);
        proven += usize::from(best.proven);
        wide += usize::from(best.proven && best.report.largest_component > 64);
        let search = find("local-search").unwrap();
        for other in [&tight as &dyn Extractor, &*search, &*find("greedy-dag").unwrap()] {
            let result = other.extract(&problem).unwrap();
            let what = format!("{} on {what}", other.name());
            sound(&problem, &result, &what);
            assert!(result.bound <= best.cost + 1e-9, "{what}: {} above {}", result.bound, best.cost);
            assert!(result.cost >= best.bound - 1e-9, "{what}: {} below {}", result.cost, best.bound);
        }
        if let Ok(naive) = Naive.extract(&problem) {
            assert!(!best.proven || close(naive.cost, best.cost), "{what}: {} but {}", best.cost, naive.cost);
        }
    }
    assert!(
        proven > crate::common::draws(100, 40) && wide > crate::common::draws(20, 5),
        "{proven} proven, {wide} of them with large components"
    );
}

#[test]
fn random_wiring_is_within_five_percent_of_its_bound() {
    // The search on 256 nodes takes ten seconds.
    for (seed, nodes) in [(1, 64), (2, 64), (3, 256)].into_iter().take(crate::common::draws(3, 2)) {
        for extractor in [find("exact").unwrap(), find("local-search").unwrap()] {
            let problem = wired(seed, nodes);
            let result = extractor.extract(&problem).unwrap();
            let what = format!("{} on {nodes} nodes, seed {seed}", extractor.name());
            sound(&problem, &result, &what);
            let gap = 1.0 - result.bound / result.cost;
            assert!(gap < 0.05, "{what}: gap {gap:.4}, {:?}", result.report);
        }
    }
}

#[test]
fn a_shared_class_is_paid_once() {
    let node = |cost, children: &[u32], rank| Candidate {
        cost,
        children: children.iter().map(|&class| ClassId(class)).collect(),
        rank,
    };
    // Two readers of class 3 together are cheaper than what each would choose alone.
    let problem = Problem {
        classes: vec![
            Class { nodes: vec![node(0.0, &[1, 2], 0)] },
            Class { nodes: vec![node(0.0, &[3], 1), node(6.0, &[], 2)] },
            Class { nodes: vec![node(0.0, &[3], 3), node(6.0, &[], 4)] },
            Class { nodes: vec![node(10.0, &[], 5)] },
        ],
        roots: vec![ClassId(0)],
    };
    assert_eq!(Exact::DEFAULT.extract(&problem).unwrap().cost, 10.0);
    assert_eq!(find("greedy-tree").unwrap().extract(&problem).unwrap().cost, 12.0);
}

#[test]
fn errors_name_what_is_wrong() {
    let one = |cost, child| Problem {
        classes: vec![Class { nodes: vec![Candidate { cost, children: vec![ClassId(child)], rank: 0 }] }],
        roots: vec![ClassId(0)],
    };
    for extractor in all() {
        assert!(matches!(extractor.extract(&one(1.0, 7)), Err(ExtractError::UnknownClass { .. })));
        assert!(matches!(extractor.extract(&one(-1.0, 0)), Err(ExtractError::BadCost { .. })));
        assert!(matches!(extractor.extract(&one(f64::NAN, 0)), Err(ExtractError::BadCost { .. })));
        assert!(matches!(extractor.extract(&one(1.0, 0)), Err(ExtractError::NothingRuns { .. })));
        let nothing = extractor.extract(&Problem::default()).unwrap();
        assert_eq!(nothing.cost, 0.0);
    }
}

/// A chain of classes with one candidate each; every eighth class has another reader.
fn chain(length: usize, root: Class) -> Problem {
    let node = |at: usize| Candidate {
        cost: if at.is_multiple_of(3) { 0.0 } else { 1.0 },
        children: if at + 1 < length { vec![ClassId(at as u32 + 1)] } else { Vec::new() },
        rank: at as u32,
    };
    let mut classes: Vec<Class> = (0..length).map(|at| Class { nodes: vec![node(at)] }).collect();
    classes.push(root);
    Problem { classes, roots: vec![ClassId(length as u32)] }
}

/// An algorithm that walks the whole chain for each of its classes would take an hour.
#[test]
fn long_chains_are_inlined_at_once() {
    const LENGTH: usize = 200_000;
    let way = |child: usize, rank: usize, cost: f64| Candidate {
        cost,
        children: vec![ClassId(child as u32)],
        rank: (LENGTH + rank) as u32,
    };
    let whole = (0..LENGTH).filter(|at| !at.is_multiple_of(3)).count() as f64;
    let start = std::time::Instant::now();
    // The chain below a required class; and below a choice in which half of it is read twice.
    let below = Class { nodes: vec![way(0, 0, 1.0)] };
    let choice = Class { nodes: vec![way(0, 0, 1.0), way(LENGTH / 2, 1, 5e5)] };
    for (root, cost) in [(below, whole + 1.0), (choice, whole + 1.0)] {
        let problem = chain(LENGTH, root);
        for name in ["exact", "local-search"] {
            let result = find(name).unwrap().extract(&problem).unwrap();
            sound(&problem, &result, name);
            assert!(close(result.cost, cost) && result.proven, "{name}: {} {cost}", result.cost);
        }
    }
    assert!(start.elapsed().as_secs() < 120, "{:?}", start.elapsed());
}

#[test]
fn costs_whose_sum_overflows_are_refused() {
    let node = |cost: f64, children: &[u32], rank: u32| Class {
        nodes: vec![Candidate {
            cost,
            children: children.iter().map(|child| ClassId(*child)).collect(),
            rank,
        }],
    };
    let problem =
        Problem { classes: vec![node(1e308, &[1], 0), node(1e308, &[], 1)], roots: vec![ClassId(0)] };
    for extractor in all() {
        let error = extractor.extract(&problem).unwrap_err();
        assert_eq!(error, ExtractError::TooDear { class: ClassId(1) }, "{}", extractor.name());
    }
}

#[test]
fn the_bound_of_a_proof_equals_the_cost_to_the_last_bit() {
    let up = f64::from_bits(1.5_f64.to_bits() + 1);
    let of = |bound: f64, proven: bool| {
        let mut one = Extraction {
            choice: Vec::new(),
            cost: 1.5,
            bound,
            proven,
            report: ovolo::extract::Report::default(),
        };
        one.settle();
        (one.bound, one.gap())
    };
    assert_eq!([of(up, true), of(1.4, true), of(up, false)], [(1.5, 0.0); 3]);
    assert_eq!(of(0.75, false), (0.75, 0.5));
}

#[test]
fn an_extractor_absent_from_this_build_is_reported_with_its_feature() {
    use ovolo::extract::unknown;
    assert!(
        unknown("best", ovolo::extract::extractors())
            .starts_with("there is no extractor `best`: there are exact, ")
    );
    if find("ilp").is_none() {
        assert_eq!(
            unknown("ilp", ovolo::extract::extractors()),
            "this build has no extractor `ilp`: build with `--features ilp`"
        );
    }
}
