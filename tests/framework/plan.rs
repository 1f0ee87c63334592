//! Tests plans of random graphs: it compares orders, checks that live values do not overlap, and checks that
//! changed plans are refused.
#![allow(clippy::unwrap_used)]

use crate::common::seeded::Random;
use crate::common::tasks::peak;
use ovolo::attr::Attrs;
use ovolo::graph::{Graph, Node, NodeId};
use ovolo::memory::{Candidate, Candidates, Limit, Order, Task, execution_orders, planners};
use ovolo::op::{Call, Contract, OpError};
use ovolo::plan::{Base, Place, Plan, Settings, Step, Unsound};
use ovolo::tensor::{DType, Device, Tensor, TensorType};
use std::sync::{Arc, Mutex};

/// Adds a node whose type follows from its operands.
fn add(graph: &mut Graph, op: &'static str, attrs: Attrs, inputs: Vec<NodeId>) -> NodeId {
    let def = crate::common::ops().get(op).unwrap();
    let attrs = def.complete(attrs);
    let types: Vec<&TensorType> = inputs.iter().map(|input| &graph[*input].ty).collect();
    let ty = def.result(&attrs, &types).unwrap();
    let name = format!("v{}", graph.len()).into();
    graph.add_node(Node { op: def, attrs: Arc::new(attrs), inputs, name, ty })
}

/// A random graph over rows: elementwise ops, sums, reductions to fewer rows, views, and concatenations.
fn program(seed: u64) -> Graph {
    let mut random = Random(seed);
    let mut graph = Graph::new();
    // Rows of 16 values are aligned, and rows of 15 are not.
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
    // Values without readers become outputs.
    for (id, users) in graph.nodes().map(|(id, _)| id).collect::<Vec<_>>().into_iter().zip(graph.users()) {
        if users.is_empty() {
            graph.add_output(&format!("y{}", id.index()), id);
        }
    }
    graph
}

/// Contracts like those of the backends, with scratch for reductions.
fn ask(call: &Call<'_>, _: &[bool]) -> Result<(Contract, f64), OpError> {
    let mut contract = Contract { implementation: "any".into(), ..Contract::default() };
    match call.op.name {
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
        "cuda.upload" | "cuda.download" => {}
        "cuda.softmax" => contract.in_place = vec![0],
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
    within(graph, order, &limit.into())
}

fn within(graph: &Graph, order: &str, limit: &Limit) -> Plan {
    ordered(graph, &**execution_orders().get(order).unwrap(), limit)
}

fn ordered(graph: &Graph, order: &dyn Order, limit: &Limit) -> Plan {
    let planners = planners();
    let planner = &**planners.get("exact").unwrap();
    Plan::new(graph, &[], 1, &ask, &copy, &Settings { order, planner, limit }).unwrap()
}

fn copies(plan: &Plan) -> f64 {
    plan.steps.iter().map(|step| step.copies).sum()
}

fn check(plan: &Plan) -> Result<(), Unsound> {
    plan.check(&|_| None)
}

/// A recurrent cell: each time step multiplies the state by every weight and adds the products.
fn cell(weights: usize, steps: usize) -> Graph {
    let mut graph = Graph::new();
    let mut state = graph.add_input("x", TensorType::plain(DType::F32, [1, 256]));
    let weight = |graph: &mut Graph, at| {
        let name = format!("w{at}");
        graph.add_constant(&name, Tensor::zeros(TensorType::plain(DType::F32, [256, 256])))
    };
    let weights: Vec<NodeId> = (0..weights).map(|at| weight(&mut graph, at)).collect();
    for _ in 0..steps {
        let product =
            |graph: &mut Graph, weight| add(graph, "native.matmul", Attrs::new(), vec![state, weight]);
        let products: Vec<NodeId> = weights.iter().map(|weight| product(&mut graph, *weight)).collect();
        state = products
            .into_iter()
            .reduce(|a, b| add(&mut graph, "native.add", Attrs::new(), vec![a, b]))
            .unwrap();
    }
    graph.add_output("y", state);
    graph
}

#[test]
fn the_order_for_reuse_reads_shared_weights_back_and_forth() {
    let graph = cell(4, 3);
    let plan = plan(&graph, "reuse", None);
    assert_eq!(plan.check(&|id| Some(graph[id].ty.bytes())), Ok(()));
    let weight = |step: &Step| {
        step.inputs.iter().find_map(|place| match place.base {
            Base::Constant(id) => Some(graph[id].name.to_string()),
            _ => None,
        })
    };
    let read: Vec<String> = plan.steps.iter().filter_map(weight).collect();
    assert_eq!(read.join(" "), "w0 w1 w2 w3 w3 w2 w1 w0 w0 w1 w2 w3");
}

#[test]
fn the_orders_for_reuse_and_peak_agree_if_no_constant_is_read_twice() {
    for seed in 0..200 {
        let graph = program(seed);
        assert_eq!(plan(&graph, "reuse", None), plan(&graph, "peak", None), "seed {seed}");
    }
    let once = cell(4, 1);
    assert_eq!(plan(&once, "reuse", None), plan(&once, "peak", None));
}

#[test]
fn the_order_for_the_peak_is_never_worse_than_the_given_one() {
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

/// A random order. It keeps the tasks that it is given.
struct Shuffled(u64, Mutex<(Vec<Task>, Vec<usize>)>);

impl Shuffled {
    fn new(seed: u64) -> Self {
        Self(seed, Mutex::default())
    }
}

impl Order for Shuffled {
    fn name(&self) -> &'static str {
        "shuffled"
    }

    fn candidates(&self, tasks: &[Task]) -> Candidates {
        let mut random = Random(self.0);
        let mut order = Vec::new();
        while order.len() < tasks.len() {
            let ready = |at: &usize| {
                !order.contains(at) && tasks[*at].inputs.iter().all(|input| order.contains(input))
            };
            let ready: Vec<usize> = (0..tasks.len()).filter(ready).collect();
            order.push(ready[random.below(ready.len())]);
        }
        *self.1.lock().unwrap() = (tasks.to_vec(), order.clone());
        Candidates { orders: vec![Candidate { tasks: order, reread: 0 }], least: Vec::new() }
    }
}

#[test]
fn tasks_say_how_many_bytes_a_plan_has_live() {
    let (mut equal, mut joined) = (0, 0);
    for seed in 0..1000 {
        let order = Shuffled::new(seed);
        let plan = ordered(&program(seed), &order, &Limit::default());
        check(&plan).unwrap_or_else(|why| panic!("seed {seed}: {why}\n{plan}"));
        let (tasks, order) = &*order.1.lock().unwrap();
        assert!(plan.lower_bound_any_order <= plan.lower_bound, "seed {seed}");
        if tasks.iter().all(|task| task.parts.is_empty()) {
            assert_eq!(peak(tasks, order), plan.lower_bound, "seed {seed}\n{plan}");
            equal += 1;
        } else {
            joined += 1;
        }
    }
    assert!(equal > 100 && joined > 100, "{equal} {joined}");
}

#[test]
fn no_order_is_below_the_bound_for_all_orders() {
    let (mut proven, mut better) = (0, 0);
    for seed in 0..300 {
        let graph = program(seed);
        let plan = plan(&graph, "search", None);
        check(&plan).unwrap_or_else(|why| panic!("seed {seed}: {why}\n{plan}"));
        let bound = plan.lower_bound_any_order;
        assert!(bound <= plan.lower_bound, "seed {seed}");
        // Without operands within results, the search ends with proof.
        let joins = plan.steps.iter().any(|step| !step.joined.is_empty());
        let concatenates = graph.nodes().any(|(_, node)| node.op.name == "native.concat");
        assert!(joins || concatenates || bound == plan.lower_bound, "seed {seed}\n{plan}");
        proven += usize::from(bound == plan.lower_bound);
        let peak = self::plan(&graph, "peak", None);
        assert!(plan.lower_bound <= peak.lower_bound && peak.lower_bound_any_order <= bound, "seed {seed}");
        better += usize::from(plan.lower_bound < peak.lower_bound);
        for other in 0..20 {
            let limit = if other % 2 == 0 { Limit::default() } else { Limit::host(0) };
            let other = ordered(&graph, &Shuffled::new(1000 * seed + other), &limit);
            assert!(bound <= other.lower_bound, "seed {seed}: {bound}\n{other}");
        }
    }
    assert!(proven > 150 && better > 20, "{proven} {better}");
}

#[test]
fn each_device_has_a_bound_for_all_orders() {
    for seed in 0..100 {
        let graph = spread(seed);
        let plan = plan(&graph, "search", None);
        for other in 0..10 {
            let other = ordered(&graph, &Shuffled::new(1000 * seed + other), &Limit::default());
            for (arena, other) in plan.arenas().zip(other.arenas()) {
                assert_eq!(arena.device, other.device);
                assert!(
                    arena.lower_bound_any_order <= arena.lower_bound.min(other.lower_bound),
                    "seed {seed}"
                );
            }
        }
    }
}

#[test]
fn copies_are_made_only_for_a_limit_that_needs_them() {
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

/// A plan with a value that is read long after it was computed, scratch, and a concatenation.
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
    let arena =
        |plan: &Plan, at: usize| plan.steps[at].inputs.iter().position(|p| matches!(p.base, Base::Arena(_)));
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
    refused("buffers that are not recorded", &|plan| plan.buffers.clear());
    refused("a result over a value that is read later", &|plan| {
        // A step in the middle of the value's lifetime that does not read it.
        let found = plan.buffers.iter().find_map(|buffer| {
            let inside = |place: &Place| {
                matches!(place.base, Base::Arena(_))
                    && (buffer.offset..buffer.offset + buffer.size).contains(&place.offset)
            };
            let beside = |at: &usize| !plan.steps[*at].inputs.iter().any(inside);
            let at = (buffer.lower + 1..buffer.upper.min(plan.steps.len()) - 1).find(beside)?;
            Some((at, plan.steps[buffer.lower].output))
        });
        let (at, place) = found.unwrap();
        (plan.steps[at].output, plan.steps[at].in_place) = (place, None);
    });
    refused("an operand that no step has written", &|plan| {
        plan.steps.remove(0);
        for buffer in &mut plan.buffers {
            buffer.lower = buffer.lower.saturating_sub(1);
            buffer.upper -= 1;
        }
    });
    insta::with_settings!({ snapshot_path => crate::common::root().join("snapshots/fit"), prepend_module_to_snapshot => false, omit_expression => true }, {
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

/// A random graph on the host and two devices; each value on a device was copied there.
fn spread(seed: u64) -> Graph {
    let mut random = Random(seed);
    let mut graph = Graph::new();
    let rows = |count: usize| TensorType::plain(DType::F32, [count, 16]);
    let mut values = vec![graph.add_input("x", rows(1 + random.below(30)))];
    for _ in 0..10 + random.below(30) {
        let one = values[random.below(values.len())];
        let ty = graph[one].ty.clone();
        let on_host = ty.device == Device::Host;
        let next = match random.below(4) {
            0 if on_host => {
                let id = add(&mut graph, "cuda.upload", Attrs::new(), vec![one]);
                // `cuda.upload` copies to the first device; setting the type moves the value to the second.
                let node = Node::clone(&graph[id]);
                if random.below(2) == 0 || seed.is_multiple_of(2) {
                    id
                } else {
                    let ty =
                        TensorType { device: Device::Accelerator(ovolo_cuda::FAMILY, 1), ..node.ty.clone() };
                    let name = format!("{}b", node.name).into();
                    graph.add_node(Node { ty, name, ..node })
                }
            }
            0 | 1 if !on_host => add(&mut graph, "cuda.download", Attrs::new(), vec![one]),
            _ if on_host => add(&mut graph, "native.abs", Attrs::new(), vec![one]),
            2 => {
                let sum = Attrs::new().ints("axes", &[0]).int("keepdims", 1);
                add(&mut graph, "cuda.reduce-sum", sum, vec![one])
            }
            _ => add(&mut graph, "cuda.softmax", Attrs::new().int("axis", 1), vec![one]),
        };
        values.push(next);
    }
    for (id, users) in graph.nodes().map(|(id, _)| id).collect::<Vec<_>>().into_iter().zip(graph.users()) {
        if users.is_empty() {
            graph.add_output(&format!("y{}", id.index()), id);
        }
    }
    graph
}

/// The most bytes of a device's buffers that are live at one step.
fn most_live(plan: &Plan, device: Device) -> usize {
    let live = |step: usize| {
        let taken = |buffer: &&ovolo::plan::Placed| {
            buffer.device == device && (buffer.lower..buffer.upper).contains(&step)
        };
        plan.buffers.iter().filter(taken).map(|buffer| buffer.size).sum::<usize>()
    };
    (0..=plan.steps.len()).map(live).max().unwrap_or(0)
}

#[test]
fn each_device_has_an_arena_of_its_own() {
    let (mut several, mut shared, mut smaller) = (0, 0, 0);
    for seed in 0..300 {
        let graph = spread(seed);
        let plan = plan(&graph, "peak", None);
        let refused: Vec<String> = check(&plan).err().into_iter().map(|why| why.to_string()).collect();
        // The op that copies supports only the first device; nothing else may be wrong with plans for the
        // second.
        assert!(
            refused.iter().all(|why| seed % 2 == 1 && why.contains("recorded as")),
            "seed {seed}: {refused:?}\n{plan}"
        );
        several += usize::from(plan.devices.len() > 1);
        for arena in plan.arenas() {
            assert_eq!(arena.lower_bound, most_live(&plan, arena.device), "seed {seed}\n{plan}");
            assert!(arena.bytes >= arena.lower_bound);
            assert!(!arena.proven || arena.bytes == arena.lower_bound, "seed {seed}");
        }
        for step in &plan.steps {
            assert_eq!(step.output.base, Base::Arena(step.output_type.device), "seed {seed}");
        }
        // Offsets on different devices are independent.
        let begins = |device: Device| plan.buffers.iter().any(|b| b.device == device && b.offset == 0);
        shared += usize::from(begins(Device::Host) && begins(Device::Accelerator(ovolo_cuda::FAMILY, 0)));
        let given = self::plan(&graph, "given", None);
        let total = |plan: &Plan| plan.arenas().map(|arena| arena.lower_bound).sum::<usize>();
        assert!(total(&plan) <= total(&given), "seed {seed}");
        smaller += usize::from(total(&plan) < total(&given));
    }
    assert!(several > 50 && shared > 100 && smaller > 20, "{several} {shared} {smaller}");
}

#[test]
fn a_limit_applies_to_one_device() {
    for seed in 0..100 {
        let graph = spread(seed);
        let free = plan(&graph, "peak", None);
        for arena in free.arenas() {
            let limit = Limit::default().with(arena.device, arena.bytes);
            assert_eq!(free.above(&limit), None);
            assert_eq!(within(&graph, "peak", &limit).arena_of(arena.device), arena.bytes, "seed {seed}");
            if arena.bytes > 0 {
                let less = Limit::default().with(arena.device, arena.bytes - 1);
                assert_eq!(free.above(&less), Some((arena.device, arena.bytes - 1)));
            }
        }
        assert_eq!(
            free.above(&Limit::default().with(Device::Accelerator(ovolo_cuda::FAMILY, 7), 0)),
            None,
            "this device holds nothing"
        );
    }
}

#[test]
fn a_value_in_the_memory_of_another_device_is_refused() {
    let mut graph = Graph::new();
    let x = graph.add_input("x", TensorType::plain(DType::F32, [4, 16]));
    let up = add(&mut graph, "cuda.upload", Attrs::new(), vec![x]);
    let there = add(&mut graph, "cuda.softmax", Attrs::new().int("axis", 1), vec![up]);
    let down = add(&mut graph, "cuda.download", Attrs::new(), vec![there]);
    let y = add(&mut graph, "native.abs", Attrs::new(), vec![down]);
    graph.add_output("y", y);
    let plan = plan(&graph, "peak", None);
    check(&plan).unwrap();
    let text = plan.to_string();
    assert!(text.contains(" -> @0#cuda:0 ") && text.contains(" -> @0 "), "{text}");
    assert!(
        text.contains(
            "arena of host 256 bytes, lower bound 256 in this order, 256 in any order\narena of cuda:0 "
        ),
        "{text}"
    );
    let refused = |change: &dyn Fn(&mut Plan)| {
        let mut changed = plan.clone();
        change(&mut changed);
        check(&changed).unwrap_err().to_string()
    };
    let host = |place: &mut Place| place.base = Base::Arena(Device::Host);
    assert!(refused(&|plan| host(&mut plan.steps[0].output)).contains("is in the memory of host"));
    assert!(refused(&|plan| host(&mut plan.steps[1].inputs[0])).contains("is in the memory of host"));
    assert!(refused(&|plan| plan.devices[0].bytes = 64).contains("does not lie within 64 bytes"));
    assert!(refused(&|plan| plan.devices.clear()).contains("does not lie within 0 bytes"));
    assert!(refused(&|plan| plan.devices[0].device = Device::Host).contains("are not in the order"));
    assert!(refused(&|plan| plan.devices[0].bytes = 1 << 40).contains("than all its buffers"));
    let moved = refused(&|plan| {
        let buffer = plan.buffers.iter_mut().find(|buffer| buffer.device != Device::Host).unwrap();
        buffer.device = Device::Host;
    });
    assert!(moved.contains("overlap") || moved.contains("no buffer contains"), "{moved}");
}

#[test]
fn every_node_without_a_kernel_is_named() {
    let text = "graph { x: f32[2,2] = input; a = native.abs(x); s = native.softmax(a) {axis: 1}; t = relu(s); return t }";
    let graph = ovolo::graph::text::parse(crate::common::ops(), text).unwrap();
    let (orders, planners) = (execution_orders(), planners());
    let (order, planner) = (&**orders.get("given").unwrap(), &**planners.get("exact").unwrap());
    let settings = Settings { order, planner, limit: &Limit::default() };
    let refused = |names: &'static [&'static str]| {
        let ask = move |call: &Call<'_>, constant: &[bool]| match names.contains(&call.op.name) {
            true => Err(OpError::Backend { why: "not here".to_owned() }),
            false => ask(call, constant),
        };
        Plan::new(&graph, &[], 1, &ask, &copy, &settings).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(refused(&[]), Ok(()));
    assert_eq!(refused(&["relu"]), Err("`t`: no kernel for `relu`: not here".to_owned()));
    let both = "2 nodes have no kernel:\n  `s`: no kernel for `native.softmax`: not here\n  `t`: no kernel for `relu`: not here";
    assert_eq!(refused(&["relu", "native.softmax"]), Err(both.to_owned()));
}
