//! Plans of random programs: orders against each other, what is live against what is live beside it, and
//! plans that somebody has changed.
#![allow(clippy::unwrap_used)]

use ovolo::attr::Attrs;
use ovolo::contract::{Call, Contract};
use ovolo::graph::{Graph, Node, NodeId};
use ovolo::op;
use ovolo::plan::{Base, Place, Plan, Settings};
use ovolo::tensor::{DType, TensorType};
use std::sync::Arc;

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((bits ^ bits >> 31) % limit as u64).unwrap()
    }
}

/// A node whose type follows from its operands.
fn add(graph: &mut Graph, op: &'static str, attrs: Attrs, inputs: Vec<NodeId>) -> NodeId {
    let def = op::find(op).unwrap();
    let attrs = op::complete(def, attrs);
    let types: Vec<&TensorType> = inputs.iter().map(|input| &graph[*input].ty).collect();
    let ty = (def.infer)(&attrs, &types).unwrap();
    let name = format!("v{}", graph.len()).into();
    graph.add_node(Node { op, attrs: Arc::new(attrs), inputs, name, ty })
}

/// A program of rows: maps, sums, reductions to fewer rows, views, and concatenations of what lies about.
fn program(seed: u64) -> Graph {
    let mut random = Random(seed);
    let mut graph = Graph::new();
    // Rows of 16 values begin and end on the alignment, rows of 15 do not.
    let width = 15 + usize::from(random.below(4) > 0);
    let rows = |count: usize| TensorType::plain(DType::F32, [count, width]);
    let mut values: Vec<NodeId> = (0..1 + random.below(2))
        .map(|at| graph.add_input(&format!("x{at}"), rows(1 + random.below(30))))
        .collect();
    for _ in 0..6 + random.below(24) {
        let one = values[random.below(values.len())];
        let count = graph[one].ty.shape[0];
        let next = match random.below(6) {
            0 => add(&mut graph, "native.abs", Attrs::new(), vec![one]),
            1 => {
                let other = values.iter().find(|other| **other != one && graph[**other].ty == graph[one].ty);
                let Some(&other) = other else { continue };
                add(&mut graph, "native.add", Attrs::new(), vec![one, other])
            }
            2 => {
                let attrs = Attrs::new().ints("shape", &[i64::try_from(count * width).unwrap()]);
                let flat = add(&mut graph, "native.reshape", attrs, vec![one]);
                let shape = [i64::try_from(count).unwrap(), i64::try_from(width).unwrap()];
                add(&mut graph, "native.reshape", Attrs::new().ints("shape", &shape), vec![flat])
            }
            3 | 4 => {
                let operands: Vec<NodeId> =
                    (0..2 + random.below(3)).map(|_| values[random.below(values.len())]).collect();
                let all: usize = operands.iter().map(|operand| graph[*operand].ty.shape[0]).sum();
                if all > 400 {
                    continue;
                }
                add(&mut graph, "native.concat", Attrs::new().int("axis", 0), operands)
            }
            _ => {
                let sum = Attrs::new().ints("axes", &[0]).int("keepdims", 1);
                add(&mut graph, "native.reduce-sum", sum, vec![one])
            }
        };
        values.push(next);
    }
    // What nothing reads is an output.
    for (id, users) in graph.nodes().map(|(id, _)| id).collect::<Vec<_>>().into_iter().zip(graph.users()) {
        if users.is_empty() {
            graph.add_output(&format!("y{}", id.index()), id);
        }
    }
    graph
}

/// Contracts as the backends give them, with scratch for reductions.
fn ask(call: &Call<'_>, _: &[bool]) -> Result<(Contract, f64), String> {
    let mut contract = Contract { implementation: "any".into(), ..Contract::default() };
    match call.op {
        "native.abs" => contract.in_place = vec![0],
        "native.add" => contract.in_place = vec![0, 1],
        "native.reshape" => contract.view_of = Some(0),
        "native.concat" => {
            let mut at = 0;
            for input in call.inputs {
                contract.parts.push(at);
                at += input.bytes();
            }
        }
        _ => contract.scratch = 3 * call.inputs[0].bytes(),
    }
    #[allow(clippy::cast_precision_loss)]
    Ok((contract, copy(call.output.bytes())))
}

#[allow(clippy::cast_precision_loss)]
fn copy(bytes: usize) -> f64 {
    1e-6 + bytes as f64 * 1e-9
}

fn plan(graph: &Graph, order: &str, limit: Option<usize>) -> Plan {
    Plan::new(graph, &[], 1, &ask, &copy, &Settings { order, planner: "exact", limit }).unwrap()
}

fn copies(plan: &Plan) -> f64 {
    plan.steps.iter().map(|step| step.copies).sum()
}

fn check(plan: &Plan) -> Result<(), String> {
    plan.check(&|_| None)
}

#[test]
fn the_order_for_the_peak_never_loses_to_the_one_given() {
    let mut wins = 0;
    for seed in 0..1000 {
        let graph = program(seed);
        let (given, peak) = (plan(&graph, "given", None), plan(&graph, "peak", None));
        assert!(
            peak.lower_bound <= given.lower_bound,
            "seed {seed}: {} {}",
            peak.lower_bound,
            given.lower_bound
        );
        wins += usize::from(peak.lower_bound < given.lower_bound);
        for plan in [&given, &peak] {
            check(plan).unwrap_or_else(|why| panic!("seed {seed}: {why}\n{plan}"));
        }
        assert_eq!(peak, plan(&graph, "peak", None), "seed {seed}");
    }
    assert!(wins > 100, "{wins}");
}

#[test]
fn copies_are_made_for_a_limit_that_needs_them_and_for_no_other() {
    let mut fit = 0;
    for seed in 0..400 {
        let graph = program(seed);
        let fastest = plan(&graph, "peak", None);
        let enough = plan(&graph, "peak", Some(fastest.arena));
        assert!(enough.arena <= fastest.arena && copies(&enough) <= copies(&fastest), "seed {seed}");
        let smaller = plan(&graph, "peak", Some(fastest.arena - 1));
        check(&smaller).unwrap_or_else(|why| panic!("seed {seed}: {why}\n{smaller}"));
        fit += usize::from(smaller.arena < fastest.arena && copies(&smaller) > copies(&fastest));
        let least = plan(&graph, "peak", Some(0));
        check(&least).unwrap_or_else(|why| panic!("seed {seed}: {why}\n{least}"));
        assert!(least.lower_bound <= smaller.lower_bound, "seed {seed}");
    }
    assert!(fit > 10, "{fit}");
}

/// A value that is read long after it was computed, scratch, and a concatenation.
fn small() -> Plan {
    let mut graph = Graph::new();
    let x = graph.add_input("x", TensorType::plain(DType::F32, [9, 16]));
    let sum = || Attrs::new().ints("axes", &[0]).int("keepdims", 1);
    let a = add(&mut graph, "native.abs", Attrs::new(), vec![x]);
    let b = add(&mut graph, "native.reduce-sum", sum(), vec![x]);
    let c = add(&mut graph, "native.reduce-sum", sum(), vec![b]);
    let d = add(&mut graph, "native.reduce-sum", sum(), vec![a]);
    let all = add(&mut graph, "native.concat", Attrs::new().int("axis", 0), vec![b, c, d]);
    graph.add_output("y", all);
    plan(&graph, "given", None)
}

#[test]
fn a_plan_whose_buffers_were_moved_is_refused() {
    let plan = small();
    check(&plan).unwrap();
    let mut report = String::new();
    let mut refused = |what: &str, change: &dyn Fn(&mut Plan)| {
        let mut changed = plan.clone();
        change(&mut changed);
        assert_ne!(changed, plan, "{what}");
        report += &format!("{what}: {}\n", check(&changed).expect_err(what));
    };
    let arena = |plan: &Plan, at: usize| plan.steps[at].inputs.iter().position(|p| p.base == Base::Arena);
    let reads = (1..plan.steps.len()).find(|at| arena(&plan, *at).is_some()).unwrap();
    let operand = arena(&plan, reads).unwrap();
    refused("a result over an operand", &|plan| {
        let step = &mut plan.steps[reads];
        (step.output, step.in_place) = (step.inputs[operand], None);
    });
    let scratch = plan.steps.iter().position(|step| step.scratch > 0).unwrap();
    refused("scratch over the result", &|plan| {
        plan.steps[scratch].scratch_offset = plan.steps[scratch].output.offset;
    });
    refused("two buffers in one place", &|plan| {
        let (first, second) = (plan.buffers[0], plan.buffers.iter().position(|b| b.lower == 1).unwrap());
        plan.buffers[second].offset = first.offset;
    });
    refused("a buffer that ends early", &|plan| {
        let buffer = plan.buffers.iter_mut().find(|buffer| buffer.upper > buffer.lower + 1).unwrap();
        buffer.upper = buffer.lower + 1;
    });
    refused("a buffer beyond the arena", &|plan| plan.buffers[0].offset = plan.arena);
    refused("buffers that are not told", &|plan| plan.buffers.clear());
    refused("a result over a value that is read later", &|plan| {
        // A value that the step in the middle of its life does not read.
        let found = plan.buffers.iter().find_map(|buffer| {
            let inside = |place: &Place| {
                place.base == Base::Arena
                    && (buffer.offset..buffer.offset + buffer.size).contains(&place.offset)
            };
            let beside = |at: &usize| !plan.steps[*at].inputs.iter().any(inside);
            let at = (buffer.lower + 1..buffer.upper.min(plan.steps.len()) - 1).find(beside)?;
            Some((at, plan.steps[buffer.lower].output))
        });
        let (at, place) = found.unwrap();
        (plan.steps[at].output, plan.steps[at].in_place) = (place, None);
    });
    refused("an operand that nobody has written", &|plan| {
        plan.steps.remove(0);
        for buffer in &mut plan.buffers {
            buffer.lower = buffer.lower.saturating_sub(1);
            buffer.upper -= 1;
        }
    });
    insta::with_settings!({ snapshot_path => "../snapshots/fit", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("moved_buffers", report);
    });
}

#[test]
fn a_result_that_was_moved_onto_another_buffer_is_refused() {
    let (mut refused, mut tried) = (0, 0);
    for seed in 0..60 {
        let plan = plan(&program(seed), "peak", None);
        for at in 0..plan.steps.len() {
            let own = plan.steps[at].output.offset;
            let elsewhere = |other: &&ovolo::plan::Placed| {
                !(other.offset..other.offset + other.size).contains(&own)
                    && other.upper > at + 1
                    && other.lower < at
            };
            for other in plan.buffers.iter().filter(elsewhere) {
                let mut changed = plan.clone();
                changed.steps[at].output.offset = other.offset;
                tried += 1;
                refused += usize::from(check(&changed).is_err());
            }
        }
    }
    assert!(tried > 100 && refused == tried, "{refused} of {tried}");
}
