//! Tests sessions whose kernels panic, and sessions that share a team.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss)]

use crate::common;
use ovolo::backend::{Args, Backend, Call, Kernel};
use ovolo::compile::{self, Compilation, Options};
use ovolo::graph::{Graph, text};
use ovolo::op::Lowering;
use ovolo::plan::Step;
use ovolo::registry::Registry;
use ovolo::session::{Session, SessionError};
use ovolo::team::Team;
use ovolo::tensor::{DType, Tensor};
use ovolo_native::Native;
use std::cell::RefCell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, LazyLock};

/// Different models with kernels whose work is divided between threads.
const MODELS: [&str; 4] = [
    "graph image {
        x: f32[1,16,48,48] = input
        w: f32[32,16,3,3] = const ~1
        b: f32[32] = const ~2
        d: f32[32,1,3,3] = const ~3
        y = conv(x, w, b) {pads: [1,1,1,1]}
        r = relu(y)
        z = conv(r, d, b) {pads: [1,1,1,1], groups: 32}
        p = max-pool(z) {kernel: [2,2], strides: [2,2]}
        return p
    }",
    "graph words {
        x: f32[1,64,128] = input
        w: f32[128,128] = const ~1
        g: f32[128] = const ~2
        q = matmul(x, w)
        n = layer-norm(q, g, g) {axis: 2}
        h = reshape(n) {shape: [1,64,4,32]}
        t = transpose(h) {perm: [0,2,1,3]}
        k = transpose(t) {perm: [0,1,3,2]}
        c = matmul(t, k)
        p = softmax(c) {axis: 3}
        o = matmul(p, t)
        return o
    }",
    "graph layers {
        x: f32[96,256] = input
        a: f32[256,256] = const ~1
        b: f32[256,256] = const ~2
        c: f32[256,64] = const ~3
        y = matmul(x, a)
        r = relu(y)
        z = matmul(r, b)
        s = sigmoid(z)
        t = matmul(s, c)
        return t
    }",
    "graph rows {
        x: f32[300,200] = input
        e = exp(x)
        s = reduce-sum(e) {axes: [1]}
        t = transpose(e) {perm: [1,0]}
        m = softmax(t) {axis: 1}
        return s
        return m
    }",
];

fn session(model: &str, threads: usize) -> (Graph, Session) {
    session_of(common::registry(), model, threads)
}

fn session_of(registry: &Arc<Registry>, model: &str, threads: usize) -> (Graph, Session) {
    let (graph, compilation) = compiled(registry, model, threads);
    let session = Session::new(&compilation.program, compilation.plan, registry.backends()).unwrap();
    (graph, session)
}

fn compiled(registry: &Arc<Registry>, model: &str, threads: usize) -> (Graph, Compilation) {
    let graph = text::parse(registry.ops(), model).unwrap();
    let rules = registry.rule_set().unwrap();
    let options = Options { registry: Arc::clone(registry), rules, ..common::options(threads) };
    let compilation = compile::compile(graph.clone(), &options).unwrap();
    (graph, compilation)
}

#[test]
fn outputs_that_were_handed_over_stay_as_they_are() {
    let (graph, mut session) = session(MODELS[3], 1);
    let inputs = inputs(&graph, 0);
    let first = session.run_owned(&inputs.iter().collect::<Vec<_>>()).unwrap();
    let kept: Vec<Vec<f64>> = first.iter().map(Tensor::to_f64).collect();
    let zeros: Vec<Tensor> = inputs.iter().map(|input| Tensor::zeros(input.ty().clone())).collect();
    let zeros: Vec<&Tensor> = zeros.iter().collect();
    let second: Vec<Tensor> = session.run(&zeros).unwrap().to_vec();
    assert_eq!(first.iter().map(Tensor::to_f64).collect::<Vec<_>>(), kept);
    assert_ne!(second[0].to_f64(), kept[0]);
    // The session shares its outputs with `second` now, and must leave them alone too.
    let shared: Vec<Vec<f64>> = second.iter().map(Tensor::to_f64).collect();
    session.run(&inputs.iter().collect::<Vec<_>>()).unwrap();
    assert_eq!(second.iter().map(Tensor::to_f64).collect::<Vec<_>>(), shared);
}

thread_local! {
    /// The kernel that will panic, among those that this thread makes from now on: how many are made before
    /// it, where it panics, and a switch.
    static FAULT: RefCell<Option<(usize, Place, Arc<AtomicBool>)>> = const { RefCell::new(None) };
}

/// The native backend with kernels that panic on demand.
struct Faulty;

// SAFETY: contracts and kernels are the native backend's for the same call; a kernel that panics writes
// nothing.
unsafe impl Backend for Faulty {
    fn name(&self) -> &'static str {
        "native"
    }

    fn ops(&self) -> Vec<Lowering> {
        let faulty = |op: Lowering| Lowering {
            contract: |call| sound(call).contract(),
            kernel: |call| {
                let kernel = sound(call).kernel()?;
                Ok(match FAULT.take() {
                    Some((0, place, armed)) => Box::new(Panicking { kernel, place, armed }),
                    Some((before, place, armed)) => {
                        FAULT.set(Some((before - 1, place, armed)));
                        kernel
                    }
                    None => kernel,
                })
            },
            fallback: None,
            ..op
        };
        Native.ops().into_iter().map(faulty).collect()
    }
}

fn sound<'a>(call: &Call<'a>) -> Call<'a> {
    Call { op: common::ops().get(call.op.name).unwrap(), ..*call }
}

/// A registry whose only backend has kernels that panic on demand.
static FAULTY: LazyLock<Arc<Registry>> = LazyLock::new(|| {
    let mut registry = Registry::new();
    for op in ovolo_native::logical_ops() {
        registry.add_op(op).unwrap();
    }
    registry.add_backend(Arc::new(Faulty)).unwrap();
    Arc::new(registry)
});

/// Returns a session in which the kernel of a step panics while the switch is on. It is on at first.
fn faulty(compilation: &Compilation, step: usize, place: Place) -> (Session, Arc<AtomicBool>) {
    let armed = Arc::new(AtomicBool::new(true));
    FAULT.set(Some((step, place, Arc::clone(&armed))));
    let session = Session::new(&compilation.program, compilation.plan.clone(), FAULTY.backends()).unwrap();
    assert!(FAULT.take().is_none(), "no kernel was made for step {step}");
    (session, armed)
}

/// Inputs of a model; each number gives different ones.
fn inputs(graph: &Graph, number: usize) -> Vec<Tensor> {
    let value = |at: usize| ((at * 37 + number * 101) % 1000) as f64 / 500.0 - 1.0;
    let input = |shape: &ovolo::tensor::Shape| {
        let values: Vec<f64> = (0..shape.count()).map(value).collect();
        Tensor::from_f64(DType::F32, shape.clone(), &values)
    };
    graph.inputs().map(|(_, node)| input(&node.ty.shape)).collect()
}

fn run(session: &mut Session, inputs: &[Tensor]) -> Result<Vec<Vec<u8>>, SessionError> {
    let outputs = session.run(&inputs.iter().collect::<Vec<_>>())?;
    Ok(outputs.iter().map(|output| output.bytes().to_vec()).collect())
}

/// Where a kernel panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// Before it gives the team a job.
    Caller,
    /// In one task of a job.
    Task,
    /// In every task of a job, on every thread.
    Tasks,
}

/// A kernel that panics on demand and otherwise runs another kernel.
struct Panicking {
    kernel: Box<dyn Kernel>,
    place: Place,
    armed: Arc<AtomicBool>,
}

impl Kernel for Panicking {
    unsafe fn run(&self, args: &Args<'_>) {
        if self.armed.load(Ordering::Relaxed) {
            // This panics like `panic!`, but prints nothing.
            match self.place {
                Place::Caller => resume_unwind(Box::new("on the caller")),
                Place::Task => args.team.run(8, |task| {
                    if task == 6 {
                        resume_unwind(Box::new(format!("in task {task}")));
                    }
                }),
                Place::Tasks => args.team.run(8, |_| resume_unwind(Box::new(8))),
            }
        }
        // SAFETY: the caller's promise, passed on.
        unsafe { self.kernel.run(args) };
    }
}

#[test]
fn a_panic_in_a_kernel_is_an_error_of_its_run_and_the_next_run_is_right() {
    for threads in [1, 2, 3] {
        let (_, compilation) = compiled(&FAULTY, MODELS[0], threads);
        for place in [Place::Caller, Place::Task, Place::Tasks] {
            let (graph, mut session) = session(MODELS[0], threads);
            let inputs = inputs(&graph, 0);
            let expected = run(&mut session, &inputs).unwrap();
            for step in 0..session.plan().steps.len() {
                let (mut session, armed) = faulty(&compilation, step, place);
                let Step { name, op, .. } = &session.plan().steps[step];
                let message = match place {
                    Place::Caller => "on the caller",
                    Place::Task => "in task 6",
                    Place::Tasks => "(a panic without a text)",
                };
                let error = SessionError::Panicked {
                    step: name.to_string(),
                    op: op.name.to_owned(),
                    message: message.to_owned(),
                };
                assert_eq!(run(&mut session, &inputs), Err(error.clone()));
                let references: Vec<&Tensor> = inputs.iter().collect();
                assert_eq!(session.profile(&references), Err(error), "{place:?}");
                armed.store(false, Ordering::Relaxed);
                assert_eq!(run(&mut session, &inputs).as_ref(), Ok(&expected), "{place:?} on {threads}");
            }
        }
    }
}

#[test]
fn the_message_of_a_panic_names_the_step() {
    let (graph, compilation) = compiled(&FAULTY, MODELS[2], 2);
    let (mut session, _) = faulty(&compilation, 0, Place::Task);
    let step = &session.plan().steps[0];
    let expected = format!("`{}` ({}): the kernel panicked: in task 6", step.name, step.op);
    assert_eq!(run(&mut session, &inputs(&graph, 0)).unwrap_err().to_string(), expected);
}

/// Sessions of different models run on one team from several threads at once. Their values equal those of
/// each session alone, bit for bit, and no session waits for ever.
#[test]
fn sessions_on_one_team_from_several_threads_are_right_and_make_progress() {
    /// Runs of the slowest session.
    const RUNS: usize = 40;
    /// The largest ratio between the numbers of runs of two sessions. Sessions take turns by kernel, and
    /// models have different numbers of kernels of different lengths; also, the system may leave a thread
    /// without a processor.
    const FACTOR: usize = 100;
    for threads in [2, 3] {
        let team = Arc::new(Team::new(threads));
        let sessions = MODELS.map(|model| {
            let (graph, mut session) = session(model, threads);
            let inputs: Vec<Vec<Tensor>> = (0..3).map(|number| inputs(&graph, number)).collect();
            let expected: Vec<_> = inputs.iter().map(|inputs| run(&mut session, inputs).unwrap()).collect();
            assert!(expected[0] != expected[1]);
            (session.on(&team), inputs, expected)
        });
        let runs = MODELS.map(|_| AtomicUsize::new(0));
        let begin = Barrier::new(MODELS.len());
        std::thread::scope(|scope| {
            for ((mut session, inputs, expected), own) in sessions.into_iter().zip(&runs) {
                let (runs, begin) = (&runs, &begin);
                scope.spawn(move || {
                    begin.wait();
                    while runs.iter().any(|runs| runs.load(Ordering::Relaxed) < RUNS) {
                        let number = own.fetch_add(1, Ordering::Relaxed) % inputs.len();
                        let values = run(&mut session, &inputs[number]);
                        if values.as_ref() != Ok(&expected[number]) {
                            // The other sessions must not wait for this one.
                            own.fetch_add(RUNS, Ordering::Relaxed);
                            panic!("a session gives different values than alone");
                        }
                    }
                });
            }
        });
        let runs = runs.map(AtomicUsize::into_inner);
        let (least, most) = (runs.iter().min().unwrap(), runs.iter().max().unwrap());
        assert!(*most <= FACTOR * least, "{runs:?}");
    }
}

/// A panic in the kernel of one session does not disturb other sessions on its team.
#[test]
fn a_panic_in_one_session_leaves_the_others_on_its_team_alone() {
    let team = Arc::new(Team::new(2));
    let (wrong_graph, compilation) = compiled(&FAULTY, MODELS[1], 2);
    let (wrong, _) = faulty(&compilation, 1, Place::Tasks);
    let (graph, mut right) = session(MODELS[0], 2);
    let (wrong_inputs, inputs) = (inputs(&wrong_graph, 0), inputs(&graph, 0));
    let expected = run(&mut right, &inputs).unwrap();
    let (mut wrong, mut right) = (wrong.on(&team), right.on(&team));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..100 {
                assert!(matches!(run(&mut wrong, &wrong_inputs), Err(SessionError::Panicked { .. })));
            }
        });
        scope.spawn(move || {
            for _ in 0..100 {
                assert_eq!(run(&mut right, &inputs).as_ref(), Ok(&expected));
            }
        });
    });
}

#[test]
fn a_plan_that_was_changed_is_refused() {
    let (_, session) = session(MODELS[2], 2);
    let with = |change: &dyn Fn(&mut ovolo::plan::Plan)| {
        let mut plan = session.plan().clone();
        change(&mut plan);
        Session::stored(
            plan,
            session.constants().into_iter().map(|(node, tensor)| (node, tensor.clone())).collect(),
            common::registry().backends(),
            &ovolo::backend::Unkept,
        )
        .err()
    };
    assert_eq!(with(&|_| ()), None);
    let changes: [&dyn Fn(&mut ovolo::plan::Plan); 4] = [
        &|plan| plan.arena = 64,
        &|plan| plan.steps[0].output.offset += 64,
        &|plan| plan.steps[0].scratch += 64,
        &|plan| plan.threads = 0,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let error = with(change);
        assert!(matches!(error, Some(SessionError::Stored(_))), "change {number}: {error:?}");
    }
}
