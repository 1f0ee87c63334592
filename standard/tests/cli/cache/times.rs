//! Tests plans that depend on the table of times: they hold as long as their lines hold.

use crate::cache::fixture::{folder, outputs, same};
use crate::common;
use ovolo::cache::{Cache, Key, Miss, Origin};
use ovolo::compile::Options;
use ovolo::cost::{Basis, Entry, InPlans, Machine, State, Stored};
use ovolo::graph::{Graph, text};
use ovolo::pass::pricing::pricings;
use ovolo::plan::Plan;
use ovolo::session::Session;
use ovolo::tensor::DType;
use ovolo_tune::{TimeLimit, Tuned, Tuner};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Barrier, LazyLock};
use std::time::Duration;

const MODEL: &str = "graph {
    x: f32[1,16,14,14] = input
    w: f32[32,16,3,3] = const ~1
    b: f32[32] = const ~2
    c = conv(x, w, b) {pads: [1,1,1,1]}
    y = relu(c)
    return y
}";

fn options() -> Options {
    let mut options = common::options(1);
    options.pipeline.extract_mut().unwrap().price_by("measured", pricings()).unwrap();
    options
}

fn tuned(tuner: &mut Tuner<'_>) -> Tuned {
    ovolo_tune::compile(&text::parse(common::ops(), MODEL).unwrap(), options(), tuner).unwrap()
}

/// Returns a tuner that stops after a second: how good its plan is does not count here.
fn brief(folder: Option<&Path>) -> Tuner<'static> {
    let mut tuner = unlimited(folder);
    tuner.limit = Some(TimeLimit::from_now(Duration::from_secs(1)));
    tuner
}

/// Returns a tuner that times all kernels that the plan may have, however long that takes.
fn unlimited(folder: Option<&Path>) -> Tuner<'static> {
    Tuner::open(folder, 1, Machine::NOMINAL, common::registry().backends())
}

/// A tuned plan with what it was chosen by, which serves several tests.
struct Chosen {
    program: Graph,
    plan: Plan,
    basis: Basis,
    stored: Stored,
}

static CHOSEN: LazyLock<Chosen> = LazyLock::new(|| {
    let mut tuner = unlimited(None);
    let Tuned { compilation, basis, .. } = tuned(&mut tuner);
    Chosen { program: compilation.program, plan: compilation.plan, basis, stored: tuner.stored().clone() }
});

#[test]
fn a_plan_holds_as_long_as_the_lines_it_was_chosen_by() {
    let at = folder("times");
    let cache = Cache::new(&at, Cache::LIMIT, common::registry());
    let Chosen { program, plan, basis, stored } = &*CHOSEN;
    assert!(basis.lines.len() > 3 && basis.decision.1.is_some());
    let mut session = Session::new(program, plan.clone(), common::registry().backends()).unwrap();
    let key = Key::default().with("model", "this one");
    let origin = Origin { basis: Some(basis.clone()), ..Origin::default() };
    cache.keep(&key, &session, origin).unwrap();
    let mut found = cache.find(&key, Some(stored)).unwrap();
    assert!(same(&outputs(&mut found), &outputs(&mut session)));

    // Lines of other models change nothing.
    let mut other = stored.clone();
    let line = stored.table.entries.values().next().unwrap().clone();
    other.table.entries.insert("native.nothing() -> f32[1] x1".into(), line);
    assert!(cache.find(&key, Some(&other)).is_ok());

    // A change of one of its own lines does, and so does a change of the decision.
    let changed = |why: &str, stored: &Stored| match cache.find(&key, Some(stored)) {
        Err(Miss::Times(said)) => assert!(said.to_string().contains(why), "{said}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was accepted"),
    };
    for line in basis.lines.keys() {
        let mut other = stored.clone();
        match other.table.entries.get_mut(line) {
            Some(entry) => entry.seconds *= 2.0,
            None => {
                let entry = Entry {
                    state: State::Timed,
                    seconds: 1e-6,
                    samples: 3,
                    spread: 0.0,
                    in_plans: InPlans::Unknown,
                    implementation: "new".into(),
                    error: None,
                };
                other.table.entries.insert(line.clone(), entry);
            }
        }
        changed("1 of ", &other);
    }
    let mut other = stored.clone();
    other.decisions.get_mut(&basis.decision.0).unwrap().plan = "another".into();
    changed("another plan was the fastest", &other);
    changed("lines of the table of times", &Stored::default());
    assert!(matches!(cache.find(&key, None), Err(Miss::Times(_))));
}

#[test]
fn another_table_adds_the_lines_it_lacks() {
    let at = folder("adopted");
    let basis = CHOSEN.basis.clone();
    let mut other = Tuner::open(Some(&at), 1, Machine::NOMINAL, common::registry().backends());
    other.adopt(&basis).unwrap();
    assert_eq!(basis.differs(other.stored()), None);
    let mut read = Tuner::open(Some(&at), 1, Machine::NOMINAL, common::registry().backends());
    assert_eq!(basis.differs(read.stored()), None);
    // With those lines the same plan is chosen, and nothing is timed.
    let again = tuned(&mut read);
    assert_eq!((again.tally.timed, again.known), (0, true));
    assert_eq!(again.basis, basis);
    // Different lines that exist already stay.
    let mut own = brief(None);
    let Tuned { basis: ours, .. } = tuned(&mut own);
    if ours != basis {
        assert!(own.adopt(&basis).is_err());
        assert_eq!(ours.differs(own.stored()), None);
    }
}

/// Two tuners that began with the same table, as two processes do that start at the same time.
#[test]
fn the_table_has_the_lines_of_all_who_tune_at_once() {
    let at = folder("tuned-at-once");
    let other = "graph { x: f32[64,48] = input; w: f32[48,32] = const ~1; y = matmul(x, w); return y }";
    let start = Barrier::new(2);
    let tune = |model: &str| {
        let mut tuner = brief(Some(&at));
        start.wait();
        ovolo_tune::compile(&text::parse(common::ops(), model).unwrap(), options(), &mut tuner).unwrap();
        assert_eq!(tuner.notes().iter().find(|note| note.contains("cannot be written")), None);
        tuner.stored().clone()
    };
    let [one, other] = std::thread::scope(|scope| {
        [MODEL, other].map(|model| scope.spawn(|| tune(model))).map(|thread| thread.join().unwrap())
    });
    let there = unlimited(Some(&at)).stored().clone();
    assert_ne!(one, other);
    for (own, rival) in [(&one, &other), (&other, &one)] {
        for (call, line) in &own.table.entries {
            let found = there.table.entries.get(call);
            assert!(
                found == Some(line) || found.is_some() && found == rival.table.entries.get(call),
                "{call}"
            );
        }
        assert!(own.decisions.iter().all(|(key, one)| there.decisions.get(key) == Some(one)));
    }
}

/// `ovolo run` by measured times: whether the plan came from the cache, and the messages.
fn run(at: &Path, cache: &str) -> (bool, String) {
    let output = ovolo(at, cache, "run model.ovolo --cost measured --threads 1 --input x=x.npy --json");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    (json["cached"] == true, said)
}

fn ovolo(at: &Path, cache: &str, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ovolo"));
    command
        .args(line.split(' '))
        .env("OVOLO_CACHE", at.join(cache))
        .env("OVOLO_PIPELINE", "native")
        .current_dir(at)
        .output()
        .unwrap()
}

#[test]
fn a_tuned_plan_is_kept_until_its_times_change_and_is_saved_with_them() {
    let at = folder("tuned");
    std::fs::write(at.join("model.ovolo"), MODEL).unwrap();
    let x = common::random("x", DType::F32, &[1, 16, 14, 14]);
    ovolo::npy::write(at.join("x.npy"), &x).unwrap();
    assert!(!run(&at, "one").0);
    assert!(run(&at, "one").0);
    let saved = ovolo(&at, "one", "save-cache model.ovolo --cost measured --threads 1 saved");
    assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));

    let table = at.join("one/times-1.txt");
    let text = std::fs::read_to_string(&table).unwrap();
    let (mut lines, mut removed) = (Vec::new(), false);
    for line in text.lines() {
        match !removed && (line.starts_with("timed\t") || line.starts_with("rough\t")) {
            true => removed = true,
            false => lines.push(line),
        }
    }
    assert!(removed);
    std::fs::write(&table, lines.join("\n") + "\n").unwrap();
    let (cached, said) = run(&at, "one");
    assert!(!cached && said.contains("it no longer holds: 1 of "), "{said}");
    assert!(run(&at, "one").0);

    let loaded = ovolo(&at, "other", "load-cache saved");
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    let (cached, said) = run(&at, "other");
    assert!(cached, "{said}");
    // A machine with its own times keeps them.
    let loaded = ovolo(&at, "one", "load-cache saved");
    let said = String::from_utf8(loaded.stderr).unwrap();
    assert!(loaded.status.success() || said.contains("remove "), "{said}");
}
