//! Tests sessions of models whose shapes are not fixed.
#![allow(clippy::unwrap_used)]

use crate::common;
use crate::proto::{BOOL, FLOAT, INT64, body, int, node, untyped, value};
use ovolo::backend::Unkept;
use ovolo::compile::{self, Options};
use ovolo::dynamic::{Compiled, DynamicSession, Found, RegionRequest};
use ovolo::onnx::proto::{AttributeProto, AttributeType, GraphProto, NodeProto, TensorProto, ValueInfoProto};
use ovolo::onnx::{Dynamic, ImportOptions, Item, MissingWeights};
use ovolo::pass::PassReport;
use ovolo::tensor::Tensor;
use ovolo::{Model, Pipeline, Session};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn floats(name: &str, dims: &[i64]) -> TensorProto {
    let count: i64 = dims.iter().product();
    let float_data = (0..count).map(|value| f32::from(i16::try_from(value % 7 - 3).unwrap()) / 4.0);
    let float_data: Vec<f32> = float_data.collect();
    crate::proto::floats(name, dims, &float_data)
}

fn graph(
    inputs: Vec<ValueInfoProto>,
    node: Vec<NodeProto>,
    outputs: &[&str],
    initializer: Vec<TensorProto>,
) -> GraphProto {
    let output = outputs.iter().map(|name| untyped(name)).collect();
    GraphProto { node, initializer, input: inputs, output, ..GraphProto::default() }
}

/// A model in a file, which is removed at the end.
struct File(PathBuf);

impl File {
    fn new(graph: GraphProto) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let model = crate::proto::model(17, graph);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ovolo-dynamic-{}-{number}.onnx", std::process::id()));
        std::fs::write(&path, model.encode_to_vec()).unwrap();
        Self(path)
    }

    fn open(&self) -> DynamicSession<'static> {
        DynamicSession::open(&self.0, options()).unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

fn options() -> Options {
    common::options(1)
}

fn digits() -> PathBuf {
    common::root().join("examples/digits/digits.onnx")
}

/// Returns different images.
fn images(count: usize) -> BTreeMap<String, Item<Tensor>> {
    #[allow(clippy::cast_precision_loss)]
    let pixels: Vec<f32> = (0..count * 64).map(|at| (at * 5 % 17) as f32).collect();
    [("image".to_owned(), Item::Tensor(Tensor::from_elements([count, 1, 8, 8], &pixels)))].into()
}

fn tensors(outputs: Vec<(String, Item<Tensor>)>) -> Vec<Tensor> {
    let tensor = |(_, item)| match item {
        Item::Tensor(tensor) => tensor,
        other => panic!("{other:?}"),
    };
    outputs.into_iter().map(tensor).collect()
}

/// Returns what a model with fixed shapes gives, and the bytes of its constants.
fn fixed(count: usize) -> (Tensor, usize) {
    let import = ImportOptions::default().with_dim("N", count);
    let compiled = Model::load(common::registry(), digits(), &import).unwrap().compile(&options()).unwrap();
    let mut session = Session::new(&compiled.program, compiled.plan, common::registry().backends()).unwrap();
    let Item::Tensor(input) = images(count)["image"].clone() else { panic!("it is a tensor") };
    (session.run(&[&input]).unwrap()[0].clone(), session.constant_bytes())
}

#[test]
fn sizes_are_read_off_the_inputs_and_plans_share_packed_weights() {
    let mut session = DynamicSession::open(digits(), options()).unwrap();
    let mut separate = 0;
    for count in [1, 2, 5] {
        let (expected, bytes) = fixed(count);
        assert_eq!(tensors(session.run(&images(count)).unwrap())[0].bytes(), expected.bytes(), "{count}");
        separate += bytes;
    }
    assert_eq!((session.plans(), session.made(), session.regions()), (3, 3, 3));
    // Plans of several sizes may pack a weight in several ways, but none of them keeps what another one has.
    assert!(session.store().bytes() < separate, "{} of {separate}", session.store().bytes());
    let mut found = Vec::new();
    session.run_and_report(&images(2), &mut |region, _| found.push(region.found)).unwrap();
    assert_eq!((found, session.made()), (vec![Found::Known], 3));
}

#[test]
fn sizes_whose_plans_want_the_same_weights_pack_them_once() {
    let mut session = DynamicSession::open(digits(), common::pipeline("strict", 1)).unwrap();
    session.run(&images(1)).unwrap();
    let bytes = session.store().bytes();
    assert!(bytes > 0);
    for count in [2, 3, 5, 8] {
        session.run(&images(count)).unwrap();
        assert_eq!(session.store().bytes(), bytes, "{count}");
    }
    assert_eq!(session.plans(), 5);
}

/// Compiles sizes of a model one after the other, with a price for further forms of weights. Returns the bytes of
/// constants after each size, and the seconds of each plan as they were reported, and as its steps cost.
fn with_further_forms(share: f64, counts: &[usize]) -> (Vec<usize>, Vec<(f64, f64)>) {
    let mut options = options();
    options.pipeline.extract_mut().unwrap().further_forms = share;
    let model = Dynamic::load(common::registry().onnx(), &digits(), MissingWeights::Refuse).unwrap();
    let times = Mutex::new(Vec::new());
    let compile = |region: &RegionRequest<'_>| {
        let options = Options { held: region.held.clone(), ..options.clone() };
        let compiled = compile::compile(region.graph.clone(), &options)?;
        let Some(PassReport::Extract { extraction, .. }) = compiled.extraction() else { panic!("it chose") };
        let steps = options.estimates(region.graph, &[&compiled.plan])?;
        let sum = steps[0].iter().map(|seconds| seconds.unwrap()).sum();
        times.lock().unwrap().push((extraction.cost, sum));
        let backends = common::registry().backends();
        let session = Session::sharing(&compiled.program, compiled.plan, backends, &Unkept, region.store)?;
        Ok(Compiled { session, cached: false })
    };
    let mut session = DynamicSession::new(model, common::registry(), Arc::new(compile)).unwrap();
    let mut bytes = Vec::new();
    for count in counts {
        session.run(&images(*count)).unwrap();
        bytes.push(session.store().bytes());
    }
    drop(session);
    (bytes, times.into_inner().unwrap())
}

#[test]
fn a_plan_takes_the_forms_of_weights_that_are_there_where_further_ones_save_too_little() {
    let counts = [1, 64, 360];
    let (apart, fastest) = with_further_forms(0.0, &counts);
    assert!(apart[2] > apart[0], "the sizes want different forms: {apart:?}");
    let (together, times) = with_further_forms(1e3, &counts);
    assert_eq!(together, [apart[0]; 3]);
    for (((reported, steps), (fastest, _)), count) in times.iter().zip(&fastest).zip(counts) {
        assert!((reported - steps).abs() <= 1e-9 * steps, "{count}: {reported} is not the time {steps}");
        assert!(reported >= fastest, "{count}");
    }
    // The first plan has nothing beside it.
    assert_eq!(times[0], fastest[0]);
}

#[test]
fn a_session_beside_another_shares_its_packed_weights() {
    let mut session = DynamicSession::open(digits(), options()).unwrap();
    session.run(&images(2)).unwrap();
    let bytes = session.store().bytes();
    let mut other = session.beside().unwrap();
    let results = std::thread::scope(|scope| {
        let there = scope.spawn(move || {
            let result = tensors(other.run(&images(2)).unwrap())[0].clone();
            (result, other.store().bytes())
        });
        [(tensors(session.run(&images(2)).unwrap())[0].clone(), bytes), there.join().unwrap()]
    });
    assert_eq!(results[0].0.bytes(), results[1].0.bytes());
    assert_eq!(results[0].1, results[1].1);
}

#[test]
fn the_plan_that_was_used_longest_ago_is_dropped_and_made_again() {
    let mut session = DynamicSession::open(digits(), options()).unwrap();
    session.keep_at_most(2, 100);
    for count in [1, 2, 1, 3, 1, 2] {
        session.run(&images(count)).unwrap();
        assert!(session.plans() <= 2);
    }
    // 3 came in place of 2, since 1 was used again; then 2 was made again.
    assert_eq!((session.made(), session.plans(), session.regions()), (4, 2, 3));
    assert_eq!(tensors(session.run(&images(2)).unwrap())[0].bytes(), fixed(2).0.bytes());
    assert_eq!(session.made(), 4);
}

#[test]
fn the_regions_that_were_passed_longest_ago_are_dropped() {
    let mut session = DynamicSession::open(digits(), options()).unwrap();
    session.keep_at_most(100, 4);
    for count in 1..=9 {
        session.run(&images(count)).unwrap();
        assert!(session.regions() <= 4, "{}", session.regions());
    }
    assert_eq!(session.made(), 9);
    // The plans are kept by what they compute, so a region that comes again needs no new one.
    session.run(&images(1)).unwrap();
    assert_eq!(session.made(), 9);
}

/// A loop that adds one until the sum of a vector reaches a limit, which only a run knows.
fn counting() -> File {
    let inner = graph(
        vec![value("i", INT64, &[]), value("go", BOOL, &[]), value("v", FLOAT, &["2"])],
        vec![
            node("Add", &["v", "one"], &["w"]),
            int("keepdims", 0, node("ReduceSum", &["w"], &["s"])),
            node("Less", &["s", "limit"], &["goes"]),
        ],
        &["goes", "w"],
        vec![],
    );
    let one = TensorProto { dims: vec![], float_data: vec![1.0], ..floats("one", &[1]) };
    let nodes = vec![body("body", inner, node("Loop", &["", "", "x"], &["y"]))];
    let inputs = vec![value("x", FLOAT, &["2"]), value("limit", FLOAT, &[])];
    File::new(graph(inputs, nodes, &["y"], vec![one]))
}

fn count_to(limit: f32) -> BTreeMap<String, Item<Tensor>> {
    let x = Tensor::from_elements([2], &[0.0_f32, 0.0]);
    [("x".to_owned(), Item::Tensor(x)), ("limit".to_owned(), Item::Tensor(Tensor::scalar(limit)))].into()
}

#[test]
fn iterations_share_a_plan_and_their_number_does_not_grow_what_is_kept() {
    let file = counting();
    let mut session = file.open();
    session.keep_at_most(100, 8);
    for (limit, expected) in [(5.0, 3.0), (60.0, 30.0), (9.0, 5.0), (60.0, 30.0)] {
        let result = tensors(session.run(&count_to(limit)).unwrap());
        assert_eq!(result[0].elements::<f32>(), [expected, expected]);
        assert!(session.regions() <= 8, "{}", session.regions());
    }
    assert!(session.plans() <= 3, "{}", session.plans());
}

/// Returns the reports of a run, and its first result.
fn passed(file: &File, inputs: &BTreeMap<String, Item<Tensor>>) -> (Vec<(usize, Option<String>)>, Vec<f32>) {
    passed_by(file.open(), inputs)
}

fn passed_by(
    mut session: DynamicSession<'_>,
    inputs: &BTreeMap<String, Item<Tensor>>,
) -> (Vec<(usize, Option<String>)>, Vec<f32>) {
    let mut regions = Vec::new();
    let result = session
        .run_and_report(inputs, &mut |region, _| regions.push((region.steps, region.why.clone())))
        .unwrap_or_else(|error| panic!("{error}"));
    (regions, tensors(result)[0].elements::<f32>().to_vec())
}

fn x(elements: &[f32]) -> BTreeMap<String, Item<Tensor>> {
    [("x".to_owned(), Item::Tensor(Tensor::from_elements([elements.len()], elements)))].into()
}

/// A model with a constant condition, and then a loop of three iterations of two nodes.
fn decided() -> File {
    let truth =
        TensorProto { name: "yes".into(), data_type: BOOL, int32_data: vec![1], ..TensorProto::default() };
    let three =
        TensorProto { name: "three".into(), data_type: INT64, int64_data: vec![3], ..TensorProto::default() };
    let then = graph(vec![], vec![node("Neg", &["x"], &["a"])], &["a"], vec![]);
    let other = graph(vec![], vec![node("Abs", &["x"], &["b"])], &["b"], vec![]);
    let inner = graph(
        vec![value("i", INT64, &[]), value("go", BOOL, &[]), value("v", FLOAT, &["N"])],
        vec![node("Add", &["v", "v"], &["w"]), node("Identity", &["go"], &["goes"])],
        &["goes", "w"],
        vec![],
    );
    let nodes = vec![
        body("else_branch", other, body("then_branch", then, node("If", &["yes"], &["n"]))),
        body("body", inner, node("Loop", &["three", "yes", "n"], &["y"])),
    ];
    File::new(graph(vec![value("x", FLOAT, &["N"])], nodes, &["y"], vec![truth, three]))
}

#[test]
fn constant_conditions_and_short_trip_counts_leave_one_region() {
    let (regions, result) = passed(&decided(), &x(&[1.0, -2.0]));
    assert_eq!(result, [-8.0, 16.0]);
    assert!(matches!(regions[..], [(_, None)]), "{regions:?}");
}

#[test]
fn the_pipeline_decides_how_long_a_loop_is_written_out() {
    let file = decided();
    let regions = |unroll: usize| {
        let mut options = options();
        let text = options.pipeline.source.text.replace("passes: [", &format!("unroll: {unroll}, passes: ["));
        options.pipeline = Pipeline::read(&options.registry.scope(), "native", &text).unwrap();
        let (regions, result) = passed_by(DynamicSession::open(&file.0, options).unwrap(), &x(&[1.0, -2.0]));
        assert_eq!(result, [-8.0, 16.0]);
        regions.len()
    };
    // Three iterations of two nodes, after the region of what stands before the loop.
    assert_eq!(regions(6), 1);
    assert_eq!(regions(5), 4);
}

#[test]
fn graphs_of_different_nodes_may_call_different_constants_by_one_name() {
    let branch = |value: f32, output: &str| {
        let float_data = vec![value];
        let w = TensorProto { name: "w".into(), data_type: FLOAT, float_data, ..TensorProto::default() };
        graph(vec![], vec![node("Add", &["x", "w"], &[output])], &[output], vec![w])
    };
    let choose = |then: f32, other: f32, condition: &str, output: &str| {
        let node = body("then_branch", branch(then, "a"), node("If", &[condition], &[output]));
        body("else_branch", branch(other, "b"), node)
    };
    let truth = |name: &str, value: i32| TensorProto {
        name: name.into(),
        data_type: BOOL,
        int32_data: vec![value],
        ..TensorProto::default()
    };
    let nodes = vec![
        choose(1.0, 2.0, "yes", "one"),
        choose(10.0, 20.0, "no", "twenty"),
        choose(100.0, 200.0, "yes", "hundred"),
        node("Add", &["one", "twenty"], &["sum"]),
        node("Add", &["sum", "hundred"], &["y"]),
    ];
    let constants = vec![truth("yes", 1), truth("no", 0)];
    let file = File::new(graph(vec![value("x", FLOAT, &["N"])], nodes, &["y"], constants));
    assert_eq!(passed(&file, &x(&[0.0])).1, [121.0]);
}

#[test]
fn a_short_scan_is_part_of_its_region_and_a_long_one_runs_by_one_plan() {
    let inner = graph(
        vec![value("sum", FLOAT, &[]), value("e", FLOAT, &[])],
        vec![node("Add", &["sum", "e"], &["next"]), node("Identity", &["next"], &["out"])],
        &["next", "out"],
        vec![],
    );
    let zero = TensorProto { dims: vec![], float_data: vec![0.0], ..floats("zero", &[1]) };
    let nodes =
        vec![body("body", inner, int("num_scan_inputs", 1, node("Scan", &["zero", "x"], &["last", "y"])))];
    let file = File::new(graph(vec![value("x", FLOAT, &["N"])], nodes, &["y"], vec![zero]));
    let (regions, result) = passed(&file, &x(&[1.0, 2.0, 4.0]));
    assert_eq!((regions.len(), result), (1, vec![1.0, 3.0, 7.0]));

    let mut session = file.open();
    let result = tensors(session.run(&x(&[1.0; 400])).unwrap());
    assert_eq!(result[0].elements::<f32>()[399], 400.0);
    assert!(session.plans() <= 4, "{}", session.plans());
}

#[test]
fn a_model_that_is_cut_says_where_and_what_it_read() {
    let then = graph(vec![], vec![node("Neg", &["x"], &["a"])], &["a"], vec![]);
    let other = graph(vec![], vec![node("Abs", &["x"], &["b"])], &["b"], vec![]);
    let nodes = vec![
        int("keepdims", 0, node("ReduceSum", &["x"], &["s"])),
        node("Less", &["s", "zero"], &["c"]),
        body("else_branch", other, body("then_branch", then, node("If", &["c"], &["y"]))),
    ];
    let zero = TensorProto { dims: vec![], float_data: vec![0.0], ..floats("zero", &[1]) };
    let file = File::new(graph(vec![value("x", FLOAT, &["N"])], nodes, &["y"], vec![zero]));
    let mut session = file.open();
    for (input, expected, chosen) in [([1.0, -2.0], [-1.0, 2.0], 1), ([1.0, 2.0], [1.0, 2.0], 0)] {
        let mut regions = Vec::new();
        let result =
            session.run_and_report(&x(&input), &mut |region, _| regions.push(region.clone())).unwrap();
        assert_eq!(tensors(result)[0].elements::<f32>(), expected);
        assert!(regions[0].why.as_ref().is_some_and(|why| why.contains("condition")), "{:?}", regions[0].why);
        assert_eq!(regions[1].key.asked, [format!("c = {chosen}")]);
    }
}

/// Rows that are multiplied by weights, normalised and passed on, with `after` at the end.
fn rows(after: Vec<NodeProto>) -> File {
    let mut nodes = vec![
        node("MatMul", &["x", "w"], &["p"]),
        node("Add", &["p", "bias"], &["q"]),
        int("axis", -1, node("Softmax", &["q"], &["n"])),
        node("Concat", &["n", "q"], &["c"]),
    ];
    nodes[3] = int("axis", 1, nodes[3].clone());
    nodes.extend(after);
    let weights = vec![floats("w", &[8, 4]), floats("bias", &[4])];
    File::new(graph(vec![value("x", FLOAT, &["rows", "8"])], nodes, &["y"], weights))
}

fn some_rows(count: usize) -> BTreeMap<String, Item<Tensor>> {
    #[allow(clippy::cast_precision_loss)]
    let elements: Vec<f32> = (0..count * 8).map(|at| (at * 3 % 13) as f32 / 5.0 - 1.0).collect();
    [("x".to_owned(), Item::Tensor(Tensor::from_elements([count, 8], &elements)))].into()
}

#[test]
fn buckets_share_a_plan_where_rows_stay_apart() {
    let file = rows(vec![node("Relu", &["c"], &["y"])]);
    let (mut session, mut exact) = (file.open(), file.open());
    session.bucket("rows", &[16, 4]).unwrap();
    for count in [1, 3, 4, 5, 16, 17] {
        let given = some_rows(count);
        let (result, expected) = (session.run(&given).unwrap(), exact.run(&given).unwrap());
        let (result, expected) = (tensors(result), tensors(expected));
        assert_eq!(result[0].ty(), expected[0].ty());
        let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-6;
        assert!(result[0].elements::<f32>().iter().zip(expected[0].elements::<f32>()).all(close), "{count}");
    }
    assert_eq!((session.made(), exact.made()), (3, 6));
}

#[test]
fn positions_of_largest_and_smallest_elements_are_found_in_buckets() {
    for op in ["ArgMax", "ArgMin"] {
        let file = rows(vec![int("axis", 1, node(op, &["c"], &["y"]))]);
        let (mut session, mut exact) = (file.open(), file.open());
        session.bucket("rows", &[8]).unwrap();
        for count in [1, 5, 8] {
            let given = some_rows(count);
            let [result, expected] = [&mut session, &mut exact].map(|one| tensors(one.run(&given).unwrap()));
            assert_eq!(result[0].elements::<i64>(), expected[0].elements::<i64>(), "{op}, {count} rows");
        }
        assert_eq!((session.made(), exact.made()), (1, 3));
    }
}

#[test]
fn ops_of_every_kind_run_in_buckets_by_what_they_declare() {
    let equation = |text: &str, mut node: NodeProto| {
        let r#type = AttributeType::String as i32;
        let s = text.as_bytes().to_vec().into();
        node.attribute.push(AttributeProto { name: "equation".into(), s, r#type, ..Default::default() });
        node
    };
    let scalar = |name: &str, data_type: i32, value: i64| {
        let mut node = node("Constant", &[], &[name]);
        #[allow(clippy::cast_precision_loss)]
        let t = match data_type {
            FLOAT => {
                TensorProto { data_type, float_data: vec![value as f32 / 8.0], ..TensorProto::default() }
            }
            _ => TensorProto { data_type, int64_data: vec![value], ..TensorProto::default() },
        };
        let r#type = AttributeType::Tensor as i32;
        node.attribute.push(AttributeProto {
            name: "value".into(),
            t: Some(t),
            r#type,
            ..Default::default()
        });
        node
    };
    let levels = vec![
        scalar("scale", FLOAT, 1),
        node("DynamicQuantizeLinear", &["bias"], &["none", "step", "zero"]),
        node("QuantizeLinear", &["c", "scale", "zero"], &["levels"]),
        node("DequantizeLinear", &["levels", "scale", "zero"], &["y"]),
    ];
    let products = vec![equation("ab,ab->a", node("Einsum", &["c", "c"], &["y"]))];
    let sums = vec![scalar("one", INT64, 1), node("CumSum", &["c", "one"], &["y"])];
    let spread = vec![equation("ab,cb->ac", node("Einsum", &["c", "c"], &["y"]))];
    for (after, op) in [(levels, "levels"), (products, "products"), (sums, "sums"), (spread, "spread")] {
        let file = rows(after);
        let (mut session, mut exact) = (file.open(), file.open());
        session.bucket("rows", &[8]).unwrap();
        let [result, expected] =
            [&mut session, &mut exact].map(|one| tensors(one.run(&some_rows(5)).unwrap()));
        assert_eq!(result[0].ty(), expected[0].ty(), "{op}");
        let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5;
        assert!(result[0].elements::<f32>().iter().zip(expected[0].elements::<f32>()).all(close), "{op}");
        assert_eq!(session.made(), 1, "{op}");
    }
    // A sum over the rows is refused, wherever its axis stands in the equation.
    let file = rows(vec![equation("ab,ac->bc", node("Einsum", &["c", "c"], &["y"]))]);
    let mut session = file.open();
    session.bucket("rows", &[8]).unwrap();
    let why = session.run(&some_rows(5)).unwrap_err().to_string();
    assert!(why.contains("einsum") && why.contains("mixes positions along axis 0 of operand 0"), "{why}");
}

#[test]
fn buckets_are_refused_where_an_operator_mixes_positions_or_reads_the_size() {
    let mean = vec![int("keepdims", 1, {
        let mut mean = node("ReduceMean", &["c"], &["y"]);
        let r#type = AttributeType::Ints as i32;
        mean.attribute.push(AttributeProto {
            name: "axes".into(),
            ints: vec![0],
            r#type,
            ..Default::default()
        });
        mean
    })];
    let size = vec![
        node("Shape", &["x"], &["shape"]),
        int("to", 1, node("Cast", &["shape"], &["float"])),
        int("axis", 0, node("Gather", &["float", "first"], &["rows"])),
        node("Div", &["c", "rows"], &["y"]),
    ];
    let last = vec![int("axis", 0, node("Gather", &["c", "last"], &["y"]))];
    let index = |name: &str, at: i64| {
        let mut node = node("Constant", &[], &[name]);
        let t = Some(TensorProto {
            data_type: INT64,
            dims: vec![1],
            int64_data: vec![at],
            ..TensorProto::default()
        });
        let r#type = AttributeType::Tensor as i32;
        node.attribute.push(AttributeProto { name: "value".into(), t, r#type, ..Default::default() });
        node
    };
    let with = |nodes: Vec<NodeProto>| [vec![index("first", 0), index("last", -1)], nodes].concat();
    for (after, expected) in
        [(mean, "reduce-mean"), (size, "has elements that change with the size"), (last, "last")]
    {
        let file = rows(with(after));
        let mut session = file.open();
        session.bucket("rows", &[8]).unwrap();
        let why = session.run(&some_rows(3)).unwrap_err().to_string();
        assert!(
            why.contains("cannot be rounded up to 8") && (why.contains(expected) || expected == "last"),
            "{why}"
        );
        // Sizes that are those of a bucket need no filling.
        session.run(&some_rows(8)).unwrap();
    }
}

/// Rows as two halves after one another, a product for all of them, and then what `last` says.
fn halves(last: Vec<NodeProto>) -> Vec<NodeProto> {
    let numbers = |name: &str, list: &[i64]| {
        let mut node = node("Constant", &[], &[name]);
        let t = Some(TensorProto {
            data_type: INT64,
            dims: vec![i64::try_from(list.len()).unwrap()],
            int64_data: list.to_vec(),
            ..TensorProto::default()
        });
        let r#type = AttributeType::Tensor as i32;
        node.attribute.push(AttributeProto { name: "value".into(), t, r#type, ..Default::default() });
        node
    };
    let turned = |input: &str, output: &str| {
        let mut node = node("Transpose", &[input], &[output]);
        let r#type = AttributeType::Ints as i32;
        node.attribute.push(AttributeProto {
            name: "perm".into(),
            ints: vec![1, 0, 2],
            r#type,
            ..Default::default()
        });
        node
    };
    let before = vec![
        numbers("parts", &[0, 2, -1]),
        numbers("joined", &[-1, 4]),
        numbers("apart", &[2, -1, 4]),
        numbers("rows", &[-1, 8]),
        numbers("zero", &[0]),
        numbers("five", &[5]),
        node("Reshape", &["c", "parts"], &["halves"]),
        turned("halves", "t"),
        node("Reshape", &["t", "joined"], &["j"]),
        node("Softmax", &["j"], &["s"]),
    ];
    let after = [node("Reshape", &["s", "apart"], &["u"]), turned("u", "v")];
    before.into_iter().chain(after).chain(last).collect()
}

#[test]
fn buckets_are_followed_through_axes_that_are_joined() {
    let file = rows(halves(vec![node("Reshape", &["v", "rows"], &["y"])]));
    let (mut session, mut exact) = (file.open(), file.open());
    session.bucket("rows", &[8]).unwrap();
    for count in [1, 3, 5, 8] {
        let given = some_rows(count);
        let [result, expected] = [&mut session, &mut exact].map(|one| tensors(one.run(&given).unwrap()));
        assert_eq!(result[0].ty(), expected[0].ty());
        let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-6;
        assert!(result[0].elements::<f32>().iter().zip(expected[0].elements::<f32>()).all(close), "{count}");
    }
    assert_eq!(session.made(), 1);
    // Part of a joined axis has other elements for other sizes, and a joined axis cannot be cut back.
    for (last, expected) in [
        (
            node("Slice", &["s", "zero", "five", "zero"], &["y"]),
            "in which the dimension is joined with others",
        ),
        (node("Identity", &["s"], &["y"]), "has the dimension joined with others"),
    ] {
        let file = rows(halves(vec![last]));
        let mut session = file.open();
        session.bucket("rows", &[8]).unwrap();
        let why = session.run(&some_rows(5)).unwrap_err().to_string();
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn rows_are_proved_to_be_independent_for_any_number_of_them() {
    let file = rows(vec![node("Relu", &["c"], &["y"])]);
    let session = file.open();
    session.separates("rows", 16, &some_rows(3)).unwrap();
    assert_eq!(session.made(), 0);
    let why = session.separates("columns", 16, &some_rows(3)).unwrap_err().to_string();
    assert!(why.contains("`columns`"), "{why}");
    // A softmax over rows is found also if the given inputs have one row.
    let file = rows(vec![int("axis", 0, node("Softmax", &["c"], &["y"]))]);
    let why = file.open().separates("rows", 16, &some_rows(1)).unwrap_err().to_string();
    assert!(why.contains("softmax"), "{why}");
}

#[test]
fn a_dimension_of_several_sizes_is_told_where_a_run_fails() {
    let inputs = vec![value("a", FLOAT, &["n", "3"]), value("b", FLOAT, &["n", "3"])];
    let file = File::new(graph(inputs, vec![node("Add", &["a", "b"], &["y"])], &["y"], Vec::new()));
    let given = |a: usize, b: usize| {
        let ones = |rows: usize| Item::Tensor(Tensor::from_elements([rows, 3], &vec![1.0_f32; rows * 3]));
        [("a".to_owned(), ones(a)), ("b".to_owned(), ones(b))].into()
    };
    let why = file.open().run(&given(2, 4)).unwrap_err().to_string();
    let start = "dimension `n` is 2 in `a` and 4 in `b`, and the model cannot run on such inputs:\n  Add ";
    assert!(why.starts_with(start), "{why}");
    // Operators may broadcast, so it is no mistake by itself.
    file.open().run(&given(1, 4)).unwrap();
}

#[test]
fn a_bucket_that_no_memory_holds_is_refused() {
    let file = rows(vec![node("Relu", &["c"], &["y"])]);
    for size in [1 << 50, usize::MAX] {
        let mut session = file.open();
        session.bucket("rows", &[size]).unwrap();
        let why = session.run(&some_rows(3)).unwrap_err().to_string();
        assert!(why.contains(&format!("cannot be rounded up to {size}")) && why.contains("GiB"), "{why}");
    }
}

#[test]
fn a_bucket_needs_a_dimension_without_a_size() {
    let file = rows(vec![node("Relu", &["c"], &["y"])]);
    let why = file.open().bucket("columns", &[8]).unwrap_err().to_string();
    assert!(why.contains("`columns`"), "{why}");
}

#[test]
fn reports_name_the_inputs_of_regions() {
    let mut session = DynamicSession::open(digits(), options()).unwrap();
    let report = session.prepare(&images(3)).unwrap();
    assert_eq!(report.key.to_string(), "inputs image f32[3,1,8,8]");
    assert!(matches!(report.found, Found::Compiled(_)));
    let plan = session.plan(&report.plan.unwrap()).unwrap();
    assert_eq!(plan.steps.len(), report.steps);
    let names: BTreeSet<&str> = session.model().inputs().map(|(name, _)| name).collect();
    assert_eq!(names, ["image"].into());
}
