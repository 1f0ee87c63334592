//! Tests cuDNN's operation graphs, on a device or on the stand-in: values, the calls to the library, refusals
//! and their reasons, choices, and the tuning of engines.

use super::case::{Case, Random};
use super::device::{self, Kept};
use super::library::{One, Test, called, chosen, contract, lowered, post, values};
use super::need::Place;
use super::standin::Standin;
use super::{agrees, common, standin};
use libtest_mimic::Failed;
use ovolo::attr::{Attr, Attrs, Float, Step};
use ovolo::backend::Call;
use ovolo::cost::{Entry, Machine, State};
use ovolo::npy;
use ovolo::op;
use ovolo::op::attention::AxisOrder;
use ovolo::pass::pricing::pricings;
use ovolo::session::Session;
use ovolo::tensor::{DType, Layout, NoLayout, Tensor, TensorType};
use ovolo_cuda::Module;
use ovolo_tune::Tuner;
use std::path::Path;
use std::process::Command;

/// The tests.
pub const TESTS: &[Test] = &[
    ("graphs_of_convolutions", convolutions, Place::Driver, &["cudnn"]),
    ("graphs_of_attention", attentions, Place::Driver, &["cudnn"]),
    ("graphs_that_are_refused", refused, Place::Standin, &["cudnn"]),
    ("graphs_as_the_library_receives_them", told, Place::Standin, &["cudnn"]),
    ("graphs_are_fused_with_following_ops", chosen_graphs, Place::Standin, &["cudnn"]),
    ("errors_of_graphs_say_what_to_do", errors_say_what_to_do, Place::Standin, &["cudnn"]),
    ("another_engine_runs_instead", another_engine_runs_instead, Place::Standin, &["cudnn"]),
    ("engines_may_need_more_scratch", engines_may_need_more_scratch, Place::Standin, &["cudnn"]),
    ("tuning_picks_the_fastest_engine", tuning_picks_the_fastest_engine, Place::Standin, &["cudnn"]),
    ("tuning_prices_copies", tuning_prices_copies, Place::Standin, &["cudnn"]),
    ("older_versions_have_fewer_graphs", older_versions_have_fewer_graphs, Place::Standin, &["cudnn"]),
];

const HALVES: [DType; 2] = [DType::F16, DType::BF16];

/// One step of a chain: its name, its parameters, and the shape of its operand.
type Link<'a> = (&'static str, &'a [f64], Option<&'a [usize]>);

fn chain(links: &[Link<'_>]) -> Attrs {
    let step = |(op, parameters, _): &Link<'_>| Step {
        op: (*op).into(),
        parameters: parameters.iter().map(|parameter| Float(*parameter)).collect(),
    };
    Attrs::new().with("post", Attr::Post(links.iter().map(step).collect()))
}

/// Convolutions in every type and layout with the steps that graphs support, by every engine that computes
/// them.
fn convolution_cases() -> Result<Vec<One>, String> {
    let r = &mut Random::new(21);
    // Input, weights, pads, strides, dilations, groups, result.
    type Shape = ([usize; 4], [usize; 4], [i64; 4], i64, i64, i64, [usize; 4]);
    let shapes: &[Shape] = &[
        ([1, 3, 9, 8], [4, 3, 3, 3], [1; 4], 1, 1, 1, [1, 4, 9, 8]),
        ([2, 6, 8, 8], [6, 1, 3, 3], [1, 1, 2, 2], 1, 2, 6, [2, 6, 7, 7]),
        ([2, 4, 8, 8], [8, 2, 1, 3], [0, 1, 0, 1], 2, 1, 2, [2, 8, 4, 4]),
    ];
    let mut list = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for (x, w, pads, stride, dilation, groups, y) in shapes {
            let whole: Option<&[usize]> = Some(y);
            let channels = [y[0], y[1], 1, 1];
            let chains: &[&[Link<'_>]] = &[
                &[],
                &[("relu", &[], None)],
                &[("add", &[], whole)],
                &[("add", &[], whole), ("relu", &[], None)],
                &[("clip", &[0.0, 6.0], None)],
                &[("silu", &[], None), ("mul", &[], Some(&channels))],
                &[("sigmoid", &[], None), ("sub", &[], whole), ("gelu", &[], None)],
                &[("add", &[], whole), ("tanh", &[], None), ("add", &[], whole)],
                &[("hard-swish", &[], None)],
                &[("mish", &[], None), ("hard-sigmoid", &[0.2, 0.4], None)],
                &[("leaky-relu", &[0.1], None), ("elu", &[0.5], None), ("max", &[], whole)],
                &[("gelu-tanh", &[], None), ("softplus", &[], None), ("min", &[], whole)],
                &[("abs", &[], None), ("sqrt", &[], None), ("neg", &[], None), ("exp", &[], None)],
                &[("erf", &[], None), ("exp", &[], None), ("rsub", &[], whole)],
            ];
            for links in chains {
                let attrs = chain(links)
                    .ints("pads", pads)
                    .ints("strides", &[*stride; 2])
                    .ints("dilations", &[*dilation; 2])
                    .int("groups", *groups);
                let mut operands = vec![r.tensor(dtype, x), r.tensor(dtype, w), r.tensor(dtype, &w[..1])];
                operands.extend(links.iter().filter_map(|link| link.2).map(|shape| r.tensor(dtype, shape)));
                for layout in ["plain", "nhwc"] {
                    for engine in 0..6 {
                        let one = One {
                            case: Case::new("conv", attrs.clone(), operands.clone()).ok_or("refused")?,
                            more: Attrs::new().int("engine", engine),
                            layout: layout.parse().map_err(|why: NoLayout| why.to_string())?,
                            form: "-graph",
                        };
                        // Of the stand-in's last two engines, no device has one, and the other gives wrong
                        // results.
                        let right =
                            standin::on_device() || !LAST[usize::from(dtype != DType::F32)].contains(&engine);
                        if right && accepted(&one) {
                            list.push(one);
                        }
                    }
                }
            }
        }
    }
    Ok(list)
}

/// On a device, one of this many cases is run. It has no divisor in common with the numbers of layouts and of chains, so
/// that all of them occur.
const CASES: usize = 23;
/// The stand-in's engines that do not work, for `f32` and for narrower types.
const LAST: [&[i64]; 2] = [&[1, 3], &[3, 5]];

fn accepted(one: &One) -> bool {
    let types: Vec<TensorType> = one.operands().iter().map(|one| one.ty().clone()).collect();
    contract(&format!("cudnn.{}{}", one.case.op, one.form), &one.attrs(), &types).is_ok()
}

/// Convolutions have the reference's values, with all steps after them.
fn convolutions() -> Result<(), Failed> {
    let cases = convolution_cases()?;
    if !standin::on_device() {
        let count = |dtype: DType, layout: &str| {
            let is = |one: &&One| one.case.ty.dtype == dtype && one.layout.to_string() == layout;
            cases.iter().filter(is).count()
        };
        // Four chains in nchw, and in nhwc all except the one with an unsupported step. Two engines for
        // `f32`, four for other types.
        for (dtype, engines) in [(DType::F32, 2), (DType::F16, 4), (DType::BF16, 4)] {
            let counted = (count(dtype, "plain"), count(dtype, "nhwc"));
            if counted != (3 * 4 * engines, 3 * 13 * engines) {
                return Err(format!("{dtype} has {counted:?} cases").into());
            }
        }
        return values("cudnn", &cases);
    }
    // There the library takes about a second to finalise a plan, and each case has its own: some of them are enough.
    values("cudnn", &cases.into_iter().step_by(CASES).collect::<Vec<_>>())
}

/// Attention has the reference's values, with masks of every shape and without a mask.
fn attentions() -> Result<(), Failed> {
    let r = &mut Random::new(22);
    let mut cases = Vec::new();
    for dtype in HALVES {
        for ([batch, heads, rows, length, depth, width], scale) in
            [([1, 2, 5, 7, 8, 8], 1.0), ([2, 3, 17, 33, 16, 24], 0.25), ([2, 1, 1, 64, 32, 8], -0.5)]
        {
            let masks: &[Option<&[usize]>] = &[
                None,
                Some(&[rows, length]),
                Some(&[batch, 1, 1, length]),
                Some(&[1, heads, rows, 1]),
                Some(&[batch, heads, rows, length]),
                Some(&[]),
            ];
            for mask in masks {
                let mut operands = vec![
                    r.tensor(dtype, &[batch, heads, rows, depth]),
                    r.tensor(dtype, &[batch, heads, length, depth]),
                    r.tensor(dtype, &[batch, heads, length, width]),
                ];
                operands.extend(mask.map(|mask| r.tensor(dtype, mask)));
                // The second engine also gets heads side by side in each row, and rows before batches.
                for (engine, order) in
                    [(0, [0, 1, 2, 3]), (1, [0, 1, 2, 3]), (1, [0, 2, 1, 3]), (1, [1, 2, 0, 3])]
                {
                    let attrs = Attrs::new().float("scale", scale).ints("order", &order);
                    let stored = AxisOrder::new(&attrs).map_err(|why| why.to_string())?;
                    let mut operands = operands.clone();
                    for operand in &mut operands[..3] {
                        let sizes =
                            <[usize; 4]>::try_from(&operand.ty().shape[..]).map_err(|_| "no heads")?;
                        *operand = r.tensor(dtype, &stored.stored(sizes));
                    }
                    let one = One {
                        case: Case::new("attention", attrs, operands).ok_or("refused")?,
                        more: Attrs::new().int("engine", engine),
                        layout: Layout::PLAIN,
                        form: "",
                    };
                    if accepted(&one) {
                        cases.push(one);
                    } else if engine == 0 || !standin::on_device() {
                        // A library for a device may have one engine only.
                        return Err(format!("{} is refused", one.case.name()).into());
                    }
                }
            }
        }
    }
    values("cudnn", &cases)
}

/// Refusals give the reason, and accepted calls have the scratch that the engine needs.
fn refused() -> Result<(), Failed> {
    let image = |dtype: DType, shape: &[usize], layout: &str| {
        TensorType::plain(dtype, shape).with_layout(layout.parse().unwrap())
    };
    let of = |more: Attrs, dtype: DType, steps: &[&'static str], layout: &str| {
        let mut types = vec![
            image(dtype, &[1, 4, 8, 8], layout),
            image(dtype, &[4, 4, 3, 3], layout),
            TensorType::plain(dtype, [4]),
        ];
        types
            .extend(steps.iter().filter(|step| **step == "add").map(|_| image(dtype, &[1, 4, 8, 8], layout)));
        let attrs = more.ints("pads", &[1; 4]).with("post", post(steps).get("post").cloned().unwrap());
        contract("cudnn.conv-graph", &attrs, &types)
    };
    let attention = |dtype: DType, depth: usize, engine: i64| {
        let types =
            [[1, 2, 5, depth], [1, 2, 7, depth], [1, 2, 7, 8]].map(|shape| TensorType::plain(dtype, shape));
        contract("cudnn.attention", &Attrs::new().float("scale", 0.5).int("engine", engine), &types)
    };
    let engine = |number: i64| Attrs::new().int("engine", number);
    let (f, h) = (DType::F32, DType::F16);
    for (answer, words) in [
        (of(engine(0), DType::F64, &[], "plain"), "graphs support f32, f16 and bf16"),
        (of(engine(-1), f, &[], "plain"), "attribute `engine` is -1"),
        (of(engine(0), f, &["silu"], "plain"), "some engines for nhwc do"),
        (of(engine(0), h, &["log"], "nhwc"), "step `log` at this position"),
        (of(engine(4), f, &[], "nhwc"), "cuDNN has 4 engine(s) for this graph, but number 4 is requested"),
        (of(engine(6), h, &["silu"], "nhwc"), "cuDNN has 6 engine(s)"),
        (of(engine(0).int("tf32", 1), h, &[], "nhwc"), "`tf32` needs f32"),
        (attention(f, 8, 0), "f16 and bf16 are supported"),
        (attention(h, 12, 0), "a head size is 12: the library supports multiples of 8 up to 256"),
        (attention(h, 264, 0), "a head size is 264"),
        (attention(h, 64, 3), "cuDNN has 3 engine(s)"),
    ] {
        match answer {
            Err(why) if why.contains(words) => {}
            other => return Err(format!("{other:?}, not `{words}`").into()),
        }
    }
    // Scratch is aligned to 256 bytes wherever a plan's buffer starts.
    let taken = |contract: Result<op::Contract, String>| -> Result<(String, usize), String> {
        contract.map(|contract| (contract.implementation, contract.scratch))
    };
    let moved = (2 * (256 + 4 * 4 * 9 + 256 + 4) as usize).next_multiple_of(64) + 192;
    for (answer, wanted) in [
        (of(engine(2), f, &["silu"], "nhwc"), ("f32-engine-2".to_owned(), 0)),
        (of(engine(0).int("tf32", 1), f, &["relu"], "nhwc"), ("tf32-engine-0".to_owned(), 192 + 192)),
        (of(engine(1), h, &[], "plain"), ("f16-engine-1".to_owned(), moved)),
        (attention(DType::BF16, 64, 0), ("bf16-engine-0".to_owned(), 256 + 192)),
    ] {
        let found = taken(answer)?;
        if found != wanted {
            return Err(format!("{found:?}, not {wanted:?}").into());
        }
    }
    Ok(())
}

/// The exact graphs that the library receives.
fn told() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let r = &mut Random::new(23);
    let half = |r: &mut Random, shape: &[usize]| r.tensor(DType::F16, shape);
    let image = vec![
        half(r, &[2, 8, 6, 5]),
        half(r, &[4, 4, 3, 3]),
        half(r, &[4]),
        half(r, &[2, 4, 4, 2]),
        half(r, &[2, 4, 1, 1]),
    ];
    let links: &[Link<'_>] =
        &[("add", &[], Some(&[2, 4, 4, 2])), ("clip", &[0.0, 6.0], None), ("mul", &[], Some(&[2, 4, 1, 1]))];
    let convolution = Case::new(
        "conv",
        chain(links).int("groups", 2).ints("pads", &[0, 0, 0, 1]).ints("strides", &[1, 2]),
        image,
    );
    let heads =
        vec![half(r, &[2, 3, 5, 8]), half(r, &[2, 3, 7, 8]), half(r, &[2, 3, 7, 16]), half(r, &[5, 7])];
    let attention = Case::new("attention", Attrs::new().float("scale", 0.5), heads);
    for (name, case, layout, form) in
        [("convolution", convolution, "nhwc", "-graph"), ("attention", attention, "plain", "")]
    {
        let one = One {
            case: case.ok_or("refused")?,
            more: Attrs::new(),
            layout: layout.parse().map_err(|why: NoLayout| why.to_string())?,
            form,
        };
        let graph = lowered("cudnn", std::slice::from_ref(&one))?;
        let plan = device::planned(&graph)?;
        let _turn = standin::turn();
        let session = Session::with(&graph, plan, common::registry().backends(), &Kept::default())
            .map_err(|error| error.to_string())?;
        drop(session);
        super::plan::snapshot("told", name, &standin.told());
        standin.faults()?;
    }
    Ok(())
}

/// A convolution keeps a chain that the library's direct call does not support, and attention of narrow types
/// uses the library.
fn chosen_graphs() -> Result<(), Failed> {
    let block = "x: f16[8,64,28,28] = input\nw: f16[64,64,3,3] = const ~1\nb: f16[64] = const ~2\n\
        c = conv(x, w, b) {pads: [1,1,1,1]}\nd = silu(c)\nreturn d";
    let plan = chosen(block)?;
    if !plan.iter().any(|step| step == "cudnn.conv-graph <silu>") {
        return Err(format!("{plan:?}").into());
    }
    let attention = |dtype: &str| {
        format!(
            "q: {dtype}[4,8,64,64] = input\nk: {dtype}[4,8,64,64] = input\nv: {dtype}[4,8,64,64] = input\n\
            m: {dtype}[4,1,1,64] = input\ns: {dtype}[] = const [0.125]\nt = transpose(k) {{perm: [0,1,3,2]}}\n\
            p = matmul(q, t)\nc = mul(p, s)\nd = add(c, m)\ne = softmax(d) {{axis: 3}}\ny = matmul(e, v)\nreturn y"
        )
    };
    for dtype in ["f16", "bf16"] {
        let source = format!(
            "q: {dtype}[4,8,64,64] = input\nk: {dtype}[4,8,64,64] = input\nv: {dtype}[4,8,64,64] = input\n\
            m: {dtype}[4,1,1,64] = input\ny = attention(q, k, v, m) {{scale: 0.125}}\nreturn y"
        );
        let plan = chosen(&source)?;
        if !plan.iter().any(|step| step == "cudnn.attention <>") {
            return Err(format!("{dtype}: {plan:?}").into());
        }
    }
    for pipeline in ["cuda-f16", "cuda-bf16"] {
        let graph =
            device::parsed(&attention("f32").replace("64,64]", "1024,64]").replace("1,64]", "1,1024]"))?;
        let plan = ovolo::compile::compile(graph, &common::pipeline(pipeline, 2))
            .map_err(|error| error.to_string())?
            .plan;
        if !plan.steps.iter().any(|step| step.op == "cudnn.attention") {
            return Err(format!("{pipeline}:\n{plan}").into());
        }
    }
    let plan = chosen(&attention("f32"))?;
    if plan.iter().any(|step| step.starts_with("cudnn.")) {
        return Err(format!("f32: {plan:?}").into());
    }
    Ok(())
}

/// A convolution in `f16` by one of the engines, with its operands; for each number of rows the graph is another one.
pub fn one(engine: i64, rows: usize) -> One {
    let r = &mut Random::new(24);
    let operands =
        [&[1, 4, rows, 6][..], &[4, 4, 3, 3], &[4]].map(|shape| r.tensor(DType::F16, shape)).to_vec();
    One {
        case: Case::new("conv", chain(&[("silu", &[], None)]), operands).unwrap(),
        more: Attrs::new().int("engine", engine),
        layout: "nhwc".parse().unwrap(),
        form: "-graph",
    }
}

/// Errors of the library name the step, and contain its own words and advice; nothing is left allocated.
fn errors_say_what_to_do() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    // A plan that was finalised is not finalised again, so each case has a graph of its own.
    let load = |engine: i64, rows: usize, failing: Option<(&str, i32, i32)>| -> Result<Session, String> {
        let graph = lowered("cudnn", &[one(engine, rows)])?;
        let plan = device::planned(&graph)?;
        if let Some((entry, after, code)) = failing {
            standin.fail(entry, after, code);
        }
        Session::with(&graph, plan, common::registry().backends(), &Kept::default())
            .map_err(|error| error.to_string())
    };
    let _turn = standin::turn();
    let says = |what: Result<String, String>, words: &[&str]| match what {
        Err(error) if words.iter().all(|word| error.contains(word)) => Ok(()),
        other => Err(format!("{other:?} does not say {words:?}")),
    };
    let made = |load: Result<Session, String>| load.map(|_| "a session".to_owned());
    standin.unfit(-2);
    let none = load(3, 30, None);
    standin.unfit(-1);
    says(
        made(none),
        &[
            "c0.result",
            "cudnnBackendFinalize of the plan of an engine (no device has this engine)",
            "CUDNN_STATUS_NOT_SUPPORTED (3000)",
            "ovolo tune",
        ],
    )?;
    for (rows, (entry, after)) in [
        ("cudnnBackendCreateDescriptor", 3),
        ("cudnnBackendSetAttribute", 9),
        ("cudnnBackendFinalize", 5),
        ("cudnnBackendGetAttribute", 2),
    ]
    .into_iter()
    .enumerate()
    {
        let words = ["cudnn.conv-graph", entry, "CUDNN_STATUS_EXECUTION_FAILED", "compute-sanitizer"];
        says(made(load(0, 31 + rows, Some((entry, after, 5000)))), &words)?;
        // A failure is not kept.
        drop(load(0, 31 + rows, None)?);
    }
    let unknown = load(0, 36, Some(("cudnnBackendSetAttribute", 0, 31999)));
    says(made(unknown), &["code 31999, which is unknown to the library", "doctor"])?;
    let given = one(0, 36).operands();
    let inputs: Vec<&Tensor> = given.iter().collect();
    let mut session = load(0, 36, None)?;
    standin.fail("cudnnBackendExecute", 0, 5000);
    let run = session.run(&inputs).map(|_| "values".to_owned()).map_err(|error| error.to_string());
    says(run, &["c0.result", "cudnnBackendExecute: CUDNN_STATUS_EXECUTION_FAILED (5000)"])?;
    session.run(&inputs).map_err(|error| error.to_string())?;
    drop(session);
    standin.faults()?;
    Ok(standin.nothing_left()?)
}

/// If an engine does not run on a device, the next one runs for which the scratch memory is enough, and the session says
/// which. In tuning, the engine itself must run.
fn another_engine_runs_instead() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let _turn = standin::turn();
    // Engines by the library's numbers, in the order of the list: 41, 41, 44, 60, 11 and 0.
    for (rows, unfit, requested, instead) in
        [(40, -1, 3, Some(4)), (41, 41, 0, Some(2)), (42, 41, 1, Some(2)), (43, -1, 2, None)]
    {
        let case = one(requested, rows);
        let graph = lowered("cudnn", std::slice::from_ref(&case))?;
        let plan = device::planned(&graph)?;
        standin.unfit(unfit);
        let session = Session::with(&graph, plan, common::registry().backends(), &Kept::default());
        standin.unfit(-1);
        let mut session = session.map_err(|error| error.to_string())?;
        let expected: Vec<String> = instead
            .iter()
            .map(|instead| {
                format!("`c0.result` (cudnn.conv-graph): engine {instead} of cuDNN runs instead of engine {requested}")
            })
            .collect();
        let notes = session.notes();
        if notes.len() != expected.len()
            || notes.iter().zip(&expected).any(|(note, one)| !note.starts_with(one))
        {
            return Err(format!("{notes:?}, not {expected:?}").into());
        }
        let operands = case.operands();
        let inputs: Vec<&Tensor> = operands.iter().collect();
        let outputs = session.run(&inputs).map_err(|error| error.to_string())?;
        agrees(&case.case, &outputs[0].to_layout(&Layout::PLAIN), &case.case.reference())?;
    }
    let case = one(3, 44);
    let types: Vec<TensorType> = case.operands().iter().map(|one| one.ty().clone()).collect();
    let alone = |call: &Call<'_>| call.kernel().map(|_| ()).map_err(|why| why.to_string());
    match called("cudnn.conv-graph", &case.attrs(), &types, alone) {
        Err(why) if why.contains("no device has this engine") => {}
        other => return Err(format!("an engine that no device has is timed: {other:?}").into()),
    }
    standin.faults()?;
    Ok(standin.nothing_left()?)
}

/// If an engine needs more scratch memory than is reserved for it, another one runs; if all do, the engine takes memory of
/// its own, of which the session tells. In both cases the values are right.
fn engines_may_need_more_scratch() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let _turn = standin::turn();
    // Engines by the library's numbers, in the order of the list: 41, 41, 44, 60, 11 and 0. No device has 60.
    for (rows, greedy, requested, expected) in [
        (50, 41, 0, &["engine 2 of cuDNN runs instead of engine 0"][..]),
        (51, -2, 0, &["the call takes memory of its own: engine 0 of cuDNN needs"]),
        (
            52,
            -2,
            3,
            &[
                "engine 4 of cuDNN runs instead of engine 3",
                "the call takes memory of its own: engine 4 of cuDNN needs",
            ],
        ),
    ] {
        let case = one(requested, rows);
        let graph = lowered("cudnn", std::slice::from_ref(&case))?;
        let plan = device::planned(&graph)?;
        standin.greedy(greedy);
        let session = Session::with(&graph, plan, common::registry().backends(), &Kept::default());
        standin.greedy(-1);
        let mut session = session.map_err(|error| error.to_string())?;
        let notes = session.notes();
        let says = |(note, one): (&String, &&str)| {
            note.strip_prefix("`c0.result` (cudnn.conv-graph): ").is_some_and(|note| note.starts_with(*one))
        };
        if notes.len() != expected.len() || !notes.iter().zip(expected).all(says) {
            return Err(format!("{notes:?}, not {expected:?}").into());
        }
        let operands = case.operands();
        let inputs: Vec<&Tensor> = operands.iter().collect();
        for _ in 0..3 {
            let outputs = session.run(&inputs).map_err(|error| error.to_string())?;
            agrees(&case.case, &outputs[0].to_layout(&Layout::PLAIN), &case.case.reference())?;
        }
    }
    // The device has no such memory.
    let graph = lowered("cudnn", &[one(0, 53)])?;
    let plan = device::planned(&graph)?;
    standin.greedy(-2);
    standin.memory(1 << 19);
    let session = Session::with(&graph, plan, common::registry().backends(), &Kept::default());
    standin.memory(24 << 30);
    standin.greedy(-1);
    match session.map(|_| ()).map_err(|error| error.to_string()) {
        Err(why) if why.contains("c0.result") && why.contains("OUT_OF_MEMORY") => {}
        other => return Err(format!("{other:?} does not say that memory is short").into()),
    }
    standin.faults()?;
    Ok(standin.nothing_left()?)
}

/// Tunes a graph in a new folder and returns the times, the plan, and the table.
fn tuned(name: &str, source: &str) -> Result<(Vec<Entry>, String, String), Failed> {
    let graph = device::parsed(source)?;
    let mut options = common::pipeline("cuda", 1);
    options.pipeline.backends.retain(|backend| backend != "cublaslt");
    options.pipeline.extract_mut().unwrap().price_by("measured", pricings()).unwrap();
    let folder = common::temporary().join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let mut tuner = Tuner::open(Some(&folder), 1, Machine::NOMINAL, common::registry().backends());
    let tuned = ovolo_tune::compile(&graph, options, &mut tuner).map_err(|error| error.to_string())?;
    let table = std::fs::read_to_string(folder.join("times-1.txt")).map_err(|error| error.to_string())?;
    let entries = tuner.stored().table.entries.values().cloned().collect();
    Ok((entries, tuned.compilation.plan.to_string(), table))
}

/// An op with its attributes and the types of its operands.
type Kernel<'a> = (&'a str, Attrs, &'a [TensorType]);

/// Registers generated kernels with the stand-in, so that a tuner can time them with others.
fn generated(standin: &Standin, kernels: &[Kernel<'_>]) -> Result<(), Failed> {
    let mut jobs = Vec::new();
    for (name, attrs, operands) in kernels {
        let job = |call: &Call<'_>| ovolo_cuda::job(call).map_err(|why| why.to_string());
        jobs.push(called(name, attrs, operands, job)?);
    }
    let first = jobs.iter().find_map(|job| job.kernels.first());
    let digest = first.map_or("none", |kernel| kernel.name.as_str()).to_owned();
    standin.register(&digest, &Module::new(&jobs));
    Ok(())
}

/// Engines are timed on the device, together with the library's version. The plan uses the fastest one, and
/// never one that is wrong or that no device has.
fn tuning_picks_the_fastest_engine() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let _turn = standin::turn();
    // These are the library's numbers; in a plan they are 0 and 1, 2, 4 and 5.
    for (number, microseconds) in [(41, 400), (44, 400), (11, 0), (0, 0)] {
        standin.delay("OVOLO_CUDNN", 64 + number, microseconds);
    }
    let source = "q: f16[1,2,8,8] = input\nk: f16[1,2,8,8] = input\nv: f16[1,2,8,8] = input\n\
        y = attention(q, k, v) {scale: 0.5}\nreturn y";
    let head = TensorType::plain(DType::F16, [1, 2, 8, 8]);
    let attrs = Attrs::new().float("scale", 0.5);
    generated(standin, &[("cuda.attention", attrs, &[head.clone(), head.clone(), head])])?;
    standin.delay("OVOLO_CUDNN", 64 + 2, 400);
    let attention = tuned("tuned_attention", source);
    standin.delay("OVOLO_CUDNN", 64 + 2, 0);
    let (entries, plan, table) = attention?;
    let entry = |implementation: &str| {
        let of = entries.iter().find(|entry| entry.implementation == implementation);
        of.map(|entry| (entry.state, entry.seconds))
            .ok_or_else(|| format!("{implementation} has no line:\n{table}"))
    };
    let (slow, fast, none) = (entry("f16-engine-0")?, entry("f16-engine-1")?, entry("f16-engine-2")?);
    if slow.0 != State::Timed || slow.1 < 4e-4 || fast.1 >= slow.1 || none.0 != State::Wrong {
        return Err(format!("times are {slow:?}, {fast:?} and {none:?}:\n{table}").into());
    }
    if plan.contains("f16-engine-0") || plan.contains("f16-engine-2") {
        return Err(format!("a slow engine is taken:\n{plan}\n{table}").into());
    }
    let line = table.lines().find(|line| line.contains("cudnn.attention") && line.contains("f16-engine-1"));
    if !line.is_some_and(|line| line.contains("cuDNN 9.21.0, CUDA 12.9 on Stand-in sm_90")) {
        return Err(format!("no version:\n{table}").into());
    }
    let source = "x: f16[1,8,6,6] = input\nw: f16[8,8,3,3] = const ~1\nb: f16[8] = const ~2\n\
        c = conv(x, w, b)\ny = silu(c)\nreturn y";
    let plain = |shape: &[usize]| TensorType::plain(DType::F16, shape);
    let lies = |shape: &[usize]| plain(shape).with_layout("nhwc".parse().unwrap());
    let image = [plain(&[1, 8, 6, 6]), plain(&[8, 8, 3, 3]), plain(&[8])];
    let nhwc = Attrs::new().with("layout", Attr::Layout("nhwc".parse()?));
    let kernels = [
        ("cuda.conv", post(&["silu"]), &image[..]),
        ("cuda.conv", Attrs::new(), &image[..]),
        ("cuda.map", post(&["silu"]), &[plain(&[1, 8, 4, 4])]),
        ("cuda.map", post(&["silu"]), &[lies(&[1, 8, 4, 4])]),
        ("cuda.silu", Attrs::new(), &[plain(&[1, 8, 4, 4])]),
        ("cuda.pack", nhwc.clone(), &image[..1]),
        ("cuda.pack", nhwc.clone(), &image[1..2]),
        ("cuda.unpack", Attrs::new(), &[lies(&[1, 8, 4, 4])]),
    ];
    generated(standin, &kernels)?;
    let convolution = tuned("tuned_convolution", source);
    for number in [41, 44] {
        standin.delay("OVOLO_CUDNN", 64 + number, 0);
    }
    let (_, plan, table) = convolution?;
    let line = |words: &[&str]| table.lines().find(|line| words.iter().all(|word| line.contains(word)));
    for words in [
        &["timed\t", "f16-engine-4", "cudnn.conv-graph", "silu"][..],
        &["wrong\t", "f16-engine-5", "cudnn.conv-graph", "silu"],
    ] {
        line(words).ok_or_else(|| format!("no line has {words:?}:\n{table}"))?;
    }
    if ["0", "1", "2", "3", "5"].iter().any(|engine| plan.contains(&format!("f16-engine-{engine}"))) {
        return Err(format!("a slow or a wrong engine is taken:\n{plan}\n{table}").into());
    }
    standin.faults()?;
    Ok(standin.nothing_left()?)
}

/// Copies to and from a device are timed like kernels, each for its bytes, and plans use these times.
fn tuning_prices_copies() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let _turn = standin::turn();
    let source = "x: f32[64,64] = input\nz: f32[3] = input\na = exp(x)\nb = exp(z)\nreturn a\nreturn b";
    for sizes in [&[64_usize, 64][..], &[3]] {
        generated(standin, &[("cuda.map", post(&["exp"]), &[TensorType::plain(DType::F32, sizes)])])?;
    }
    let (entries, plan, table) = tuned("tuned_copies", source)?;
    for op in ["cuda.upload", "cuda.download"] {
        for shape in ["f32[64,64]", "f32[3]"] {
            let words = ["timed\t", "copy\terror 0.0e0", "driver CUDA 12.9 on Stand-in sm_90", op, shape];
            let line = table.lines().find(|line| words.iter().all(|word| line.contains(word)));
            line.ok_or_else(|| format!("no line has {words:?}:\n{table}"))?;
        }
        if !plan.contains(op) {
            return Err(format!("{op} is not in\n{plan}").into());
        }
    }
    let copies = entries.iter().filter(|entry| entry.implementation == "copy");
    let right = |entry: &&Entry| {
        entry.state == State::Timed && entry.seconds > 0.0 && entry.samples > 0 && entry.price().is_finite()
    };
    if copies.filter(right).count() != 4 {
        return Err(table.into());
    }
    standin.faults()?;
    Ok(())
}

/// Tests a version without graphs, and one whose graphs have no softmax as one operation: plans use what exists,
/// and the rest is reported.
fn older_versions_have_fewer_graphs() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let none = standin.version("cudnn_without_graphs", &["-DWITHOUT_GRAPHS", "-DVERSION=90000"]);
    let old = standin.version("cudnn_without_softmax", &["-DVERSION=91002"]);
    let model = common::temporary().join("older.ovolo");
    let source = "graph {\nx: f16[8,64,28,28] = input\nw: f16[64,64,3,3] = const ~1\nb: f16[64] = const ~2\n\
        q: f16[4,8,64,64] = input\nc = conv(x, w, b) {pads: [1,1,1,1]}\nd = silu(c)\n\
        e = attention(q, q, q) {scale: 0.125}\nreturn d\nreturn e\n}";
    std::fs::write(&model, source).map_err(|error| error.to_string())?;
    let run = |library: &Path, arguments: &[&str]| {
        Command::new(super::need::program())
            .args(arguments)
            .env("OVOLO_CUDNN", library)
            // The stand-in for the library is linked to the one for the driver.
            .env("LD_PRELOAD", std::env::var_os("OVOLO_CUDA_DRIVER").unwrap_or_default())
            .output()
            .map_err(|error| error.to_string())
            .and_then(|output| {
                let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
                if output.status.success() { Ok(said) } else { Err(said) }
            })
    };
    let path = model.to_string_lossy();
    let plan = ["dump", "--cost", "roofline", "--pipeline", "cuda", "--after", "plan", &path];
    let doctor = ["doctor", "--threads", "1"];
    let lacks = "it has no graphs of operations";
    for (library, graphs) in [(&none, false), (&old, true)] {
        let said = run(library, &doctor)?;
        if !said.lines().any(|line| line.starts_with("cuda cuDNN: 9.") && line.contains(lacks) != graphs) {
            return Err(format!("graphs: {graphs}, but it says\n{said}").into());
        }
        let said = run(library, &plan)?;
        if ["cudnn.conv-graph", "cudnn.attention"].iter().any(|op| said.contains(op) != graphs) {
            return Err(said.into());
        }
    }
    // The composed softmax has the reference's values.
    let r = &mut Random::new(23);
    let operands = [&[2, 9, 3, 16][..], &[2, 11, 3, 16], &[9, 11]].map(|shape| r.tensor(DType::F16, shape));
    let [q, k, m] = &operands;
    let attrs = Attrs::new().float("scale", 0.25).ints("order", &[0, 2, 1, 3]);
    let case =
        Case::new("attention", attrs, vec![q.clone(), k.clone(), k.clone(), m.clone()]).ok_or("refused")?;
    let source = "graph {\nq: f16[2,9,3,16] = input\nk: f16[2,11,3,16] = input\nm: f16[9,11] = input\n\
        y = attention(q, k, k, m) {scale: 0.25, order: [0,2,1,3]}\nreturn y\n}";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("older");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    std::fs::write(&model, source).map_err(|error| error.to_string())?;
    let mut arguments =
        ["run", "--no-cache", "--cost", "roofline", "--pipeline", "cuda"].map(String::from).to_vec();
    for (name, operand) in ["q", "k", "m"].into_iter().zip(&operands) {
        let file = folder.join(format!("{name}.npy"));
        npy::write(&file, operand).map_err(|error| error.to_string())?;
        arguments.extend(["--input".to_owned(), format!("{name}={}", file.display())]);
    }
    arguments.extend(["--output-dir".to_owned(), folder.display().to_string(), path.into_owned()]);
    run(&old, &arguments.iter().map(String::as_str).collect::<Vec<_>>())?;
    let found = npy::read(folder.join("y.npy")).map_err(|error| error.to_string())?;
    Ok(agrees(&case, &found, &case.reference())?)
}
