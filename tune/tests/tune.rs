//! Tests tables of times: keeping, reading, damage, interruption, and the plans that follow from them.
#![allow(clippy::unwrap_used)]

#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "tune/fixture.rs"]
mod fixture;

use fixture::{THREADS, folder, graph, options, tuner};
use ovolo::backend::{Args, Backend, Kernel};
use ovolo::compile::{self, Compilation, Options};
use ovolo::cost::{Entry, InPlans, Leaning, Machine, Measured, State, Stored, stored};
use ovolo::host;
use ovolo::op::Lowering;
use ovolo::pass::pricing::pricings;
use ovolo::registry::Registry;
use ovolo_native::Native;
use ovolo_tune::{Sampling, TimeLimit, Tuner};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

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
    by_prices.pipeline.extract_mut().unwrap().price_by("fitted", pricings()).unwrap();
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
    // Which kernels are skipped as hopeless depends on the times of the others.
    assert_eq!(
        longer.timed + longer.untimed + longer.skipped,
        first.tally.untimed + first.tally.skipped,
        "{longer:?}"
    );
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

/// Returns a registry with the ops that make operands of native kernels.
fn registry() -> Registry {
    let mut registry = Registry::new();
    for op in ovolo_native::logical_ops() {
        registry.add_op(op).unwrap();
    }
    registry
}

#[test]
fn a_wrong_kernel_is_recorded_and_never_chosen() {
    let folder = folder("wrong");
    let mut tuner = tuner(&folder);
    // The ops are registered apart from those of the other tests in the same process.
    let mut registry = registry();
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
    for leaning in [Leaning::None, Leaning::Prices(Machine::NOMINAL), Leaning::Conversions(0.5)] {
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
fn recurrent_layers_whose_results_move_with_rounding_are_checked_with_smaller_operands() {
    let text = "graph {
        x: f32[100,1,1,96] = input
        w: f32[1,96,32] = const ~1
        h: f32[1,1,32] = const ~2
        y: f32[101,1,1,32] = gru(x, w, h) {activations: \"sigmoid 0 0,tanh 0 0\"}
        return y
    }";
    let graph = ovolo::graph::text::parse(common::ops(), text).unwrap();
    let mut tuner = tuner(&folder("moving"));
    let tally = tuner.fill(&graph, &options()).unwrap();
    assert_eq!(tally.wrong, 0);
    let entries = &tuner.stored().table.entries;
    let layers: Vec<_> = entries.iter().filter(|(key, _)| key.starts_with("native.gru")).collect();
    assert!(layers.len() >= 2, "{layers:?}");
    for (key, entry) in layers {
        assert!(entry.error.is_some_and(|error| error < 1e-4), "{key}: {entry:?}");
    }
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

/// The kernels of convolutions among which a plan may choose.
const CONVOLUTIONS: [&str; 3] = ["native.conv-direct", "native.conv-nhwc", "native.conv-winograd"];

/// The native backend with kernels of convolutions that take far longer than they should, except for those by which the
/// price list computes the graph.
struct Slow;

/// The kernels by which the price list computes the graph.
static BY_PRICES: LazyLock<String> = LazyLock::new(|| {
    let compilation = compile::compile(graph(), &by_prices(common::options(THREADS))).unwrap();
    compilation.plan.to_string()
});

fn by_prices(mut options: Options) -> Options {
    options.pipeline.extract_mut().unwrap().price_by("fitted", pricings()).unwrap();
    options
}

fn is_slow(op: &str) -> bool {
    CONVOLUTIONS.contains(&op) && !BY_PRICES.contains(op)
}

struct Waiting(Box<dyn Kernel>);

impl Kernel for Waiting {
    unsafe fn run(&self, args: &Args<'_>) {
        std::thread::sleep(Duration::from_millis(10));
        // SAFETY: the caller's promise, passed on.
        unsafe { self.0.run(args) };
    }
}

// SAFETY: kernels and contracts are the native backend's for the same call.
unsafe impl Backend for Slow {
    fn name(&self) -> &'static str {
        "native"
    }

    fn ops(&self) -> Vec<Lowering> {
        let mut ops = Native.ops();
        for op in ops.iter_mut().filter(|op| is_slow(op.name)) {
            op.kernel = |call| {
                let sound = Native.ops().into_iter().find(|op| op.name == call.op.name).unwrap();
                Ok(Box::new(Waiting((sound.kernel)(call)?)))
            };
        }
        ops
    }
}

/// The table says that slow kernels take little time, so the plan that follows from it has some, and so have plans that are
/// drawn around it. They lose against the plan of the price list when they are run.
#[test]
fn a_plan_that_follows_from_the_table_and_loses_the_race_is_not_chosen() {
    let folder = folder("loses");
    let mut registry = registry();
    registry.add_backend(Arc::new(Slow)).unwrap();
    ovolo_onednn::register(&mut registry).unwrap();
    ovolo_cuda::register(&mut registry).unwrap();
    let rules = registry.rule_set().unwrap();
    let options = Options { registry: Arc::new(registry), rules, ..options() };
    let open = || Tuner::open(Some(&folder), THREADS, Machine::NOMINAL, options.registry.backends());
    let mut tuner = open();
    tuner.fill(&graph(), &options).unwrap();
    let has_slow = |plan: &str| CONVOLUTIONS.iter().any(|op| is_slow(op) && plan.contains(op));
    let sampling = Sampling { plans: 3, seed: 1 };
    let saturated = options.saturate(&graph()).unwrap();
    // The least time of slow kernels with which the plan that follows from the table has some, and so has another plan
    // that is drawn around it.
    let tempting = |stored: &Stored, seconds: f64| {
        let mut stored = stored.clone();
        for (key, entry) in &mut stored.table.entries {
            if key.split(['{', '(']).next().is_some_and(is_slow) {
                (entry.state, entry.seconds, entry.in_plans) =
                    (State::Timed, seconds, InPlans::Timed(seconds));
            }
        }
        let mut options = Options { measured: Some(measured(&stored)), ..options.clone() };
        let drawn = ovolo_tune::draw(&saturated, &mut options, sampling, 1).unwrap();
        let slow = drawn.iter().filter(|one| has_slow(&one.planned.plan.to_string()));
        (has_slow(&drawn[0].planned.plan.to_string()) && slow.count() > 1).then_some(stored)
    };
    let validators = host::validators(THREADS, options.registry.backends());
    let tempt = |stored: &Stored| {
        let found =
            (0..40).map(|step| 1e-6 * 1.2_f64.powi(step)).find_map(|seconds| tempting(stored, seconds));
        let stored = found.expect("the price list leaves a kernel out that the table can recommend");
        std::fs::write(table_file(&folder), stored::write(&validators, &stored)).unwrap();
    };
    tempt(tuner.stored());

    let tuned = ovolo_tune::compile(&graph(), options.clone(), &mut open()).unwrap();
    let text = tuned.compilation.plan.to_string();
    assert_eq!(tuned.decision.winner, "fitted", "{}", tuned.report());
    assert!(!tuned.known && !has_slow(&text), "{text}");
    let time = |way: &str| tuned.decision.times.iter().find(|(known, _)| known == way).unwrap().1;
    assert!(time("measured") > 5e-3 && time("measured") > time("fitted"), "{}", tuned.report());
    // The decision holds, and plans that are drawn have to win as well.
    let again = ovolo_tune::compile(&graph(), options.clone(), &mut open()).unwrap();
    assert!(again.known && again.compilation.plan.to_string() == text);
    // Tuning has timed kernels within plans.
    tempt(open().stored());
    let mut drawing = open();
    drawing.sampling = Some(sampling);
    let sampled = ovolo_tune::compile(&graph(), options.clone(), &mut drawing).unwrap();
    assert!(!has_slow(&sampled.compilation.plan.to_string()), "{}", sampled.report());
    assert!(sampled.sampled.iter().any(|(_, seconds)| *seconds > 5e-3), "{:?}", sampled.sampled);
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
