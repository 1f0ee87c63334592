//! Tests tables of times: keeping, reading, damage, interruption, and the plans that follow from them.
#![allow(clippy::unwrap_used)]

#[path = "../../tests/common/mod.rs"]
mod common;

use ovolo::backend::{Args, Backend, Kernel};
use ovolo::compile::{self, Compilation, Options};
use ovolo::cost::{Entry, InPlans, Leaning, Machine, Measured, State, Stored, stored};
use ovolo::graph::Graph;
use ovolo::host;
use ovolo::op::Lowering;
use ovolo::pass::pricing::pricings;
use ovolo::registry::Registry;
use ovolo_native::Native;
use ovolo_tune::{TimeLimit, Tuner, TuningStage, Within};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

const THREADS: usize = 2;

/// Three small, different convolutions.
fn graph() -> Graph {
    let text = "graph {
        x: f32[1,16,14,14] = input
        w1: f32[32,16,3,3] = const ~1
        b1: f32[32] = const ~2
        c1 = conv(x, w1, b1) {pads: [1,1,1,1]}
        r1 = relu(c1)
        w2: f32[32,32,1,1] = const ~3
        b2: f32[32] = const ~4
        c2 = conv(r1, w2, b2)
        s2 = add(c2, r1)
        w3: f32[16,32,3,3] = const ~5
        b3: f32[16] = const ~6
        c3 = conv(s2, w3, b3) {strides: [2,2]}
        y = sigmoid(c3)
        return y
    }";
    ovolo::graph::text::parse(common::ops(), text).unwrap()
}

fn options() -> Options {
    let mut options = common::options(THREADS);
    options.pipeline.extract_mut().unwrap().price_by("measured", pricings()).unwrap();
    options
}

/// An empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("tune-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn tuner(folder: &Path) -> Tuner<'static> {
    Tuner::open(Some(folder), THREADS, Machine::NOMINAL, common::registry().backends())
}

/// The file of a table of times in a folder.
fn table_file(folder: &Path) -> PathBuf {
    folder.join(format!("times-{THREADS}.txt"))
}

/// The graph's table after tuning, which is also put into a folder. The kernels are timed once for all tests.
fn timed(folder: &Path) -> Stored {
    static TIMED: LazyLock<(PathBuf, Stored)> = LazyLock::new(|| {
        let folder = self::folder("timed");
        let mut tuner = tuner(&folder);
        tuner.fill(&graph(), &options()).unwrap();
        (table_file(&folder), tuner.stored().clone())
    });
    std::fs::copy(&TIMED.0, table_file(folder)).unwrap();
    TIMED.1.clone()
}

fn plan(measured: Measured) -> Result<String, String> {
    let options = Options { measured: Some(measured), ..options() };
    let compilation = compile::compile(graph(), &options).map_err(|error| error.to_string())?;
    Ok(compilation.plan.to_string())
}

fn measured(stored: &Stored) -> Measured {
    Measured { table: Arc::new(stored.table.clone()), ..Measured::default() }
}

/// How many lines of a table have a state.
fn count(stored: &Stored, state: State) -> usize {
    stored.table.entries.values().filter(|entry| entry.state == state).count()
}

#[test]
fn kernels_that_a_limit_of_time_leaves_keep_their_estimates_until_there_is_time() {
    let folder = folder("limit");
    let mut limited = tuner(&folder);
    limited.limit = Some(TimeLimit::from_now(Duration::from_nanos(1)));
    let first = ovolo_tune::compile(&graph(), options(), &mut limited).unwrap();
    assert_eq!((first.tally.timed, first.tally.in_plans), (0, 0), "{:?}", first.tally);
    assert!(first.tally.untimed > 0 && count(limited.stored(), State::Untimed) == first.tally.untimed);
    // With estimates alone, the plan is that of the price list at the speeds of this machine.
    let mut by_prices = options();
    by_prices.pipeline.extract_mut().unwrap().price_by("roofline", pricings()).unwrap();
    let by_prices = compile::compile(graph(), &by_prices).unwrap();
    let steps = |compilation: &Compilation| -> Vec<String> {
        compilation
            .plan
            .steps
            .iter()
            .map(|step| format!("{} {}", step.op.name, step.implementation))
            .collect()
    };
    assert_eq!(steps(&first.compilation), steps(&by_prices));
    // Who only runs the model does not tune it.
    let mut run = tuner(&folder);
    let again = ovolo_tune::compile(&graph(), options(), &mut run).unwrap();
    assert_eq!((again.tally.timed, again.known), (0, true), "{:?}", again.tally);
    // With time, those are timed whose values matter; without a limit, all.
    let mut longer = tuner(&folder);
    longer.limit = Some(TimeLimit::from_now(Duration::from_secs(60)));
    let longer = ovolo_tune::compile(&graph(), options(), &mut longer).unwrap().tally;
    assert_eq!(longer.timed + longer.untimed, first.tally.untimed, "{longer:?}");
    assert!(longer.timed > 0, "{longer:?}");
    let mut whole = tuner(&folder);
    whole.refine = true;
    ovolo_tune::compile(&graph(), options(), &mut whole).unwrap();
    assert_eq!(count(whole.stored(), State::Untimed), 0);
}

#[test]
fn a_table_is_read_back_as_it_was_and_nothing_is_timed_again() {
    let folder = folder("back");
    let first = timed(&folder);
    assert!(first.table.entries.len() > 20, "{} entries", first.table.entries.len());
    for (key, entry) in &first.table.entries {
        assert_ne!(entry.state, State::Wrong, "{key}: {entry:?}");
        assert!(entry.state == State::Skipped || entry.samples >= 3, "{key}: {entry:?}");
    }
    let mut again = tuner(&folder);
    assert_eq!(again.notes(), Vec::<String>::new());
    assert_eq!(*again.stored(), first);
    let tally = again.fill(&graph(), &options()).unwrap();
    assert_eq!((tally.timed, tally.wrong), (0, 0));
    assert!(tally.known > 0 && tally.known + tally.skipped == tally.kernels, "{tally:?}");
    assert_eq!(*again.stored(), first);
}

#[test]
fn a_table_of_another_machine_is_not_used_and_reported() {
    let folder = folder("validators");
    let first = timed(&folder);
    let validators = host::validators(THREADS, common::registry().backends());
    let text = stored::write(&validators, &first);
    for at in 0..validators.machine.len() {
        let mut other = validators.clone();
        other.machine[at].push_str(" and a half");
        let (stored, note) = stored::read(&text, &other);
        assert_eq!(stored, Stored::default());
        assert!(note.unwrap().contains("another machine's"), "line {at}");
    }
    assert!(host::validators(1, common::registry().backends()) != validators, "threads are a validator");
}

#[test]
fn lines_of_a_library_that_is_not_here_are_kept_and_not_used() {
    let folder = folder("libraries");
    let here = host::validators(THREADS, common::registry().backends());
    let file = table_file(&folder);
    let entry = Entry {
        state: State::Timed,
        seconds: 1e-6,
        samples: 9,
        spread: 0.0,
        in_plans: InPlans::Unknown,
        implementation: "fast".into(),
        error: None,
    };
    // The times of two versions of a library for one kernel.
    let call = "onednn.conv(x) -> y x2".to_owned();
    let with = |library: &str| {
        let mut there = here.clone();
        there.libraries.insert("onednn".into(), library.into());
        there
    };
    let mut stored = timed(&folder);
    let natives = stored.table.entries.clone();
    stored.table.entries.insert(call.clone(), entry.clone());
    std::fs::write(&file, stored::write(&with("oneDNN 3.1"), &stored)).unwrap();
    let text = || std::fs::read_to_string(&file).unwrap();
    let (read, note) = stored::read(&text(), &with("oneDNN 3.2"));
    assert_eq!((note, &read.table.entries), (None, &natives), "native lines hold with any library");
    assert_eq!(read.others.len(), 1);
    let mut second = read;
    second.table.entries.insert(call.clone(), Entry { seconds: 2e-6, ..entry.clone() });
    std::fs::write(&file, stored::write(&with("oneDNN 3.2"), &second)).unwrap();
    // Tuning on a machine without the library, or with a third version, loses nothing.
    let mut none = here.clone();
    none.libraries.remove("onednn");
    for there in [none, with("oneDNN 3.3")] {
        let (stored, note) = stored::read(&text(), &there);
        assert_eq!((note, stored.others.len(), &stored.table.entries), (None, 2, &natives));
        std::fs::write(&file, stored::write(&there, &stored)).unwrap();
    }
    let mut tuner = tuner(&folder);
    assert_eq!(tuner.notes(), Vec::<String>::new());
    tuner.refine = true;
    tuner.fill(&graph(), &options()).unwrap();
    for (library, seconds) in [("oneDNN 3.1", 1e-6), ("oneDNN 3.2", 2e-6)] {
        let (stored, _) = stored::read(&text(), &with(library));
        assert_eq!(stored.table.entries[&call].seconds, seconds, "{library}");
    }
}

#[test]
fn damaged_tables_lose_the_damaged_lines_only() {
    let folder = folder("damaged");
    let first = timed(&folder);
    let head = host::validators(THREADS, common::registry().backends());
    let text = stored::write(&head, &first);
    let body: usize = head.machine.iter().map(|line| line.len() + 1).sum();
    let whole = |stored: &Stored| {
        stored.table.entries.iter().all(|(key, entry)| first.table.entries.get(key) == Some(entry))
    };
    for end in (0..text.len()).step_by(97) {
        let (stored, _) = stored::read(&String::from_utf8_lossy(&text.as_bytes()[..end]), &head);
        assert!(whole(&stored), "cut at {end}");
    }
    for at in (body..text.len()).step_by(61) {
        for bit in [0, 3, 6] {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let (stored, note) = stored::read(&String::from_utf8_lossy(&bytes), &head);
            assert!(whole(&stored), "bit {bit} of byte {at}");
            assert!(stored.table.entries.len() + 2 >= first.table.entries.len());
            assert!(note.unwrap().contains("damaged"), "bit {bit} of byte {at}");
        }
    }
    // The lost lines are timed again, and only those.
    std::fs::write(table_file(&folder), &text.as_bytes()[..text.len() * 2 / 3]).unwrap();
    let mut rebuilt = tuner(&folder);
    assert_eq!(rebuilt.notes().len(), 1);
    let tally = rebuilt.fill(&graph(), &options()).unwrap();
    assert!(tally.timed > 0 && tally.known > 0, "{tally:?}");
    assert_eq!(
        rebuilt.stored().table.entries.keys().collect::<Vec<_>>(),
        first.table.entries.keys().collect::<Vec<_>>()
    );
}

/// The native backend with a mistake in one kernel.
struct Mistaken;

struct Off(Box<dyn Kernel>);

impl Kernel for Off {
    unsafe fn run(&self, args: &Args<'_>) {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.0.run(args) };
        // SAFETY: every result of the test has more than one element of four bytes.
        unsafe { args.output.cast::<f32>().write(1e3) };
    }
}

// SAFETY: kernels and contracts are the native backend's for the same call; what is added writes within the result.
unsafe impl Backend for Mistaken {
    fn name(&self) -> &'static str {
        "native"
    }

    fn ops(&self) -> Vec<Lowering> {
        let mut ops = Native.ops();
        let direct = ops.iter_mut().find(|op| op.name == "native.conv-direct").unwrap();
        direct.kernel = |call| {
            let sound = Native.ops().into_iter().find(|op| op.name == call.op.name).unwrap();
            Ok(Box::new(Off((sound.kernel)(call)?)))
        };
        ops
    }
}

#[test]
fn a_wrong_kernel_is_recorded_and_never_chosen() {
    let folder = folder("wrong");
    let mut tuner = tuner(&folder);
    // The ops are registered apart from those of the other tests in the same process.
    let mut registry = Registry::new();
    registry.add_backend(Arc::new(Mistaken)).unwrap();
    ovolo_onednn::register(&mut registry).unwrap();
    ovolo_cuda::register(&mut registry).unwrap();
    let rules = registry.rule_set().unwrap();
    let options = Options { registry: Arc::new(registry), rules, ..options() };
    let tally = tuner.fill(&graph(), &options).unwrap();
    assert!(tally.wrong > 0);
    let mut stored = tuner.stored().clone();
    for (key, entry) in &mut stored.table.entries {
        if key.starts_with("native.conv-direct") && entry.state != State::Skipped {
            assert_eq!(entry.state, State::Wrong, "{key}");
            assert!(entry.error.unwrap() > 1e-4);
        } else {
            assert_ne!(entry.state, State::Wrong, "{key}");
        }
    }
    // Whatever its time is, and however extraction leans.
    let direct = |stored: &mut Stored, state: State| {
        for (key, entry) in &mut stored.table.entries {
            if key.starts_with("native.conv-direct") {
                (entry.seconds, entry.state) = (1e-9, state);
            }
        }
    };
    direct(&mut stored, State::Wrong);
    for leaning in [Leaning::None, Leaning::Roofline(Machine::NOMINAL), Leaning::Conversions(0.5)] {
        let text = plan(Measured { leaning, ..measured(&stored) }).unwrap();
        assert!(!text.contains("conv-direct"), "{leaning:?}: {text}");
    }
    direct(&mut stored, State::Timed);
    assert!(plan(measured(&stored)).unwrap().contains("conv-direct"));
}

#[test]
fn one_table_gives_one_plan() {
    let folder = folder("one");
    let stored = timed(&folder);
    let first = plan(measured(&stored)).unwrap();
    let read_back = tuner(&folder).measured();
    assert_eq!(plan(read_back).unwrap(), first);
    for _ in 0..3 {
        assert_eq!(plan(measured(&stored)).unwrap(), first);
    }
}

#[test]
fn an_interrupted_tuning_continues_where_it_stopped() {
    let folder = folder("interrupted");
    let mut first = tuner(&folder);
    let mut seen = None;
    first.progress = Box::new(|_| false);
    let stopped = first.fill(&graph(), &options()).unwrap_err().to_string();
    assert!(stopped.contains("kept"), "{stopped}");
    let kept = first.stored().clone();
    let mut second = tuner(&folder);
    assert_eq!(*second.stored(), kept);
    second.progress = Box::new(|progress| {
        seen = Some(progress);
        true
    });
    let tally = second.fill(&graph(), &options()).unwrap();
    for (key, entry) in kept.table.entries.iter().filter(|(_, entry)| entry.state == State::Timed) {
        assert_eq!(second.stored().table.entries.get(key), Some(entry), "{key} is not timed again");
    }
    drop(second);
    assert!(tally.known > 0 && tally.timed > 0, "{tally:?}");
    assert_eq!(seen.unwrap().done, tally.timed + tally.wrong);
}

#[test]
fn a_kernel_without_a_time_is_an_error_that_says_what_to_do() {
    let folder = folder("missing");
    let mut stored = timed(&folder);
    let error = plan(Measured::default()).unwrap_err();
    assert!(error.contains("ovolo tune"), "{error}");
    let lost = stored.table.entries.pop_first().unwrap().0;
    let error = plan(measured(&stored)).unwrap_err();
    let call = lost.split(" among ").next().unwrap();
    assert!(error.contains("ovolo tune") && error.contains(call), "{error}");
    let without = Options { measured: None, ..options() };
    assert!(compile::compile(graph(), &without).unwrap_err().to_string().contains("ovolo tune"));
}

#[test]
fn the_best_plan_is_decided_once() {
    let folder = folder("decided");
    let mut first = tuner(&folder);
    let cold = ovolo_tune::compile(&graph(), options(), &mut first).unwrap();
    assert!(!cold.known && cold.tally.timed > 0);
    let mut second = tuner(&folder);
    second.progress = Box::new(|_| panic!("nothing is timed when everything is known"));
    let warm = ovolo_tune::compile(&graph(), options(), &mut second).unwrap();
    assert!(warm.known);
    assert_eq!(warm.decision, first.stored().decisions.values().next().unwrap().clone());
    assert_eq!(warm.compilation.plan.to_string(), cold.compilation.plan.to_string());
}

#[test]
fn kernels_of_a_plan_are_priced_by_their_time_within_plans() {
    let folder = folder("in-plans");
    let mut first = tuner(&folder);
    let mut settings = options();
    let (chosen, tally) = ovolo_tune::settle(&graph(), &mut settings, &mut first).unwrap();
    assert!(tally.in_plans > 0);
    let stored = first.stored().clone();
    let timed = |entry: &Entry| matches!(entry.in_plans, InPlans::Timed(_));
    let likely = stored.table.entries.values().filter(|entry| matches!(entry.in_plans, InPlans::Likely(_)));
    assert!(likely.count() > 0, "not all candidates are in some plan");
    // Each step of the plan costs what it took in one.
    for step in &chosen.plan.steps {
        let of_step = |(key, entry): &(&String, &Entry)| {
            key.starts_with(step.op.name) && timed(entry) && (entry.price() - step.seconds).abs() < 1e-12
        };
        let view = step.seconds == 0.0;
        assert!(view || stored.table.entries.iter().any(|line| of_step(&line)), "{}: {step:?}", step.name);
    }
    // If all of that is known, nothing is timed, and the plan is the same.
    let mut second = tuner(&folder);
    let (again, tally) = ovolo_tune::settle(&graph(), &mut options(), &mut second).unwrap();
    assert_eq!((tally.timed, tally.in_plans), (0, 0));
    assert_eq!(again.plan.to_string(), chosen.plan.to_string());
    assert_eq!(*second.stored(), stored);
    drop(second);
    // Plans farther away have other kernels, which are timed if they are asked for; known times stay.
    let mut seen = Vec::new();
    let mut third = tuner(&folder);
    third.within = Some(Within { plans: 20, spread: 4 });
    third.progress = Box::new(|progress| {
        seen.extend((progress.stage == TuningStage::Plans).then_some((progress.done, progress.all)));
        true
    });
    let (_, tally) = ovolo_tune::settle(&graph(), &mut options(), &mut third).unwrap();
    assert!(tally.in_plans > 0, "{tally:?}");
    for (key, entry) in stored.table.entries.iter().filter(|(_, entry)| timed(entry)) {
        assert_eq!(third.stored().table.entries.get(key), Some(entry), "{key} is not timed again");
    }
    drop(third);
    assert!(matches!(seen[..], [(0, _), ..]), "{seen:?}");
    let (done, all) = *seen.last().unwrap();
    assert!(done == all && all > 0, "{seen:?}");
    // If it is stopped between plans, it says so.
    let mut fourth = tuner(&self::folder("in-plans-stopped"));
    fourth.progress = Box::new(|progress| progress.stage == TuningStage::Kernels);
    let stopped = ovolo_tune::settle(&graph(), &mut options(), &mut fourth).unwrap_err().to_string();
    assert!(stopped.contains("kept"), "{stopped}");
}

#[test]
fn a_time_within_plans_counts_in_place_of_the_time_alone() {
    let folder = folder("in-plans-counts");
    let mut stored = timed(&folder);
    let direct = |stored: &mut Stored, in_plans: InPlans| {
        for (key, entry) in &mut stored.table.entries {
            if key.starts_with("native.conv-direct") {
                (entry.state, entry.seconds, entry.in_plans) = (State::Timed, 1e-3, in_plans);
            }
        }
    };
    for (in_plans, taken) in
        [(InPlans::Unknown, false), (InPlans::Likely(1e-9), true), (InPlans::Timed(1e-9), true)]
    {
        direct(&mut stored, in_plans);
        let text = stored::write(&host::validators(THREADS, common::registry().backends()), &stored);
        let (read, _) = stored::read(&text, &host::validators(THREADS, common::registry().backends()));
        assert_eq!(plan(measured(&read)).unwrap().contains("conv-direct"), taken, "{in_plans:?}");
    }
}

#[test]
fn rough_times_hold_until_a_tuning_that_refines() {
    let folder = folder("rough");
    let mut stored = timed(&folder);
    let rough = stored.table.entries.values_mut().find(|entry| entry.state == State::Timed);
    // On a machine that is never idle, every time is rough already.
    if let Some(rough) = rough {
        rough.state = State::Rough;
    }
    let marked = stored.table.entries.values().filter(|entry| entry.state == State::Rough).count();
    assert!(marked > 0);
    let text = stored::write(&host::validators(THREADS, common::registry().backends()), &stored);
    std::fs::write(table_file(&folder), text).unwrap();
    assert_eq!(tuner(&folder).fill(&graph(), &options()).unwrap().timed, 0);
    let mut refining = tuner(&folder);
    refining.refine = true;
    assert_eq!(refining.fill(&graph(), &options()).unwrap().timed, marked);
}

#[test]
fn plans_are_drawn_and_the_fastest_can_be_compiled_again() {
    let folder = folder("sampled");
    let mut first = tuner(&folder);
    first.sampling = Some(ovolo_tune::Sampling { plans: 6, seed: 3 });
    let tuned = ovolo_tune::compile(&graph(), options(), &mut first).unwrap();
    let ways: Vec<&str> = tuned.sampled.iter().map(|(way, _)| way.as_str()).collect();
    assert!(ways.len() > 3 && ways[1..].iter().all(|way| way.starts_with("sample-3.")), "{ways:?}");
    let time = |way: &str| tuned.sampled.iter().find(|(known, _)| known == way).unwrap().1;
    assert!(time(&tuned.decision.winner) <= time(ways[0]), "it is not slower than the first plan");
    // The same seed draws the same plans; the winner is compiled again without timing anything.
    let mut second = tuner(&folder);
    let again = ovolo_tune::compile(&graph(), options(), &mut second).unwrap();
    assert!(again.known && again.sampled.is_empty());
    assert_eq!(again.compilation.plan.to_string(), tuned.compilation.plan.to_string());
    let draw = |seed: u64| -> Vec<String> {
        let mut options = Options { measured: Some(second.measured()), ..options() };
        let sampling = ovolo_tune::Sampling { plans: 6, seed };
        let drawn = ovolo_tune::draw(&saturated(&options), &mut options, sampling, 1).unwrap();
        drawn.into_iter().map(|one| one.text).collect()
    };
    assert_eq!(draw(3), draw(3));
    assert_ne!(draw(3), draw(4));
    let distinct: std::collections::BTreeSet<String> = draw(3).into_iter().collect();
    assert_eq!(distinct.len(), draw(3).len(), "plans differ from each other");
    // Of more plans, those whose prices are farther apart stay, including the extracted one.
    let drawn = |plans: usize, among: usize| -> Vec<(Option<usize>, f64)> {
        let mut options = Options { measured: Some(second.measured()), ..options() };
        let sampling = ovolo_tune::Sampling { plans, seed: 3 };
        let drawn = ovolo_tune::draw_evenly(&saturated(&options), &mut options, sampling, 2, among).unwrap();
        drawn.into_iter().map(|one| (one.draw, one.planned.plan.seconds().ln())).collect()
    };
    let (all, kept) = (drawn(20, 1), drawn(4, 5));
    assert!(kept.len() == 5 && kept[0].0.is_none() && kept.iter().all(|one| all.contains(one)), "{kept:?}");
    assert_eq!(kept, drawn(4, 5));
    // A plan that is left out is not farther from all that stay than any two of these are from each other.
    let mut prices: Vec<f64> = kept.iter().map(|(_, price)| *price).collect();
    prices.sort_by(f64::total_cmp);
    let closest = prices.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    let away = |price: f64| prices.iter().map(|kept| (kept - price).abs()).fold(f64::INFINITY, f64::min);
    let farthest = all.iter().map(|(_, price)| away(*price)).fold(0.0, f64::max);
    assert!(all.len() > 5 && farthest <= closest + 1e-12, "{farthest} {closest}");
}

/// The graph after all rewriting.
fn saturated(options: &Options) -> ovolo::stage::Saturated {
    options.saturate(&graph()).unwrap()
}

#[test]
fn shards_time_every_kernel_once_and_their_tables_merge() {
    let whole = timed(&folder("unsharded"));
    let mut parts = Vec::new();
    for number in 1..=3 {
        let at = folder(&format!("shard-{number}"));
        let mut tuner = tuner(&at);
        tuner.shard = format!("{number}/3").parse().unwrap();
        assert!(tuner.fill(&graph(), &options()).unwrap().timed > 0);
        let text = std::fs::read_to_string(table_file(&at)).unwrap();
        parts.push(ovolo_tune::Part::read(&format!("shard {number}"), &text).unwrap());
    }
    let merged = ovolo_tune::merge(&parts).unwrap();
    let (stored, note) =
        stored::read(&merged.text, &host::validators(THREADS, common::registry().backends()));
    assert_eq!((note, stored.table.entries.len(), stored.others.len()), (None, merged.kernels, 0));
    assert_eq!(
        stored.table.entries.keys().collect::<Vec<_>>(),
        whole.table.entries.keys().collect::<Vec<_>>()
    );
}
