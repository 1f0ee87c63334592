//! Tests NVIDIA's libraries, on a device or on the stand-ins for them: values, refusals and their reasons,
//! and choices.

use super::case::{Case, Random};
use super::device::{self, Kept};
use super::need::Place;
use super::standin::{self, ORDERS};
use super::{agrees, common};
use libtest_mimic::Failed;
use ovolo::attr::{Attr, Attrs, Step};
use ovolo::backend::Call;
use ovolo::graph::{Graph, Node};
use ovolo::op;
use ovolo::session::Session;
use ovolo::tensor::{DType, Device, Layout, NoLayout, Tensor, TensorType};
use std::process::Command;
use std::sync::Arc;

/// A test: its name, its function, where it runs, and the libraries that it uses.
pub type Test = (&'static str, fn() -> Result<(), Failed>, Place, &'static [&'static str]);

/// The tests.
pub const TESTS: &[Test] = &[
    ("products", products, Place::Driver, &["cublaslt"]),
    ("products_that_are_refused", products_that_are_refused, Place::Nowhere, &["cublaslt"]),
    ("convolutions", convolutions, Place::Driver, &["cudnn"]),
    ("convolutions_that_are_refused", convolutions_that_are_refused, Place::Nowhere, &["cudnn"]),
    ("the_driver_must_support_a_library", the_driver_must_support_a_library, Place::Standin, &["cublaslt"]),
    (
        "convolutions_are_fused_with_following_ops",
        convolutions_are_fused_with_following_ops,
        Place::Driver,
        &["cudnn"],
    ),
    (
        "products_are_fused_with_following_ops",
        products_are_fused_with_following_ops,
        Place::Driver,
        &["cublaslt"],
    ),
    ("errors_say_what_to_do", errors_say_what_to_do, Place::Standin, &["cublaslt"]),
    ("tf32_rounds_only_the_factors", tf32_rounds_only_the_factors, Place::Standin, &["cublaslt", "cudnn"]),
    (
        "results_have_the_precision_of_the_pipeline",
        results_have_the_precision_of_the_pipeline,
        Place::Standin,
        &["cublaslt", "cudnn"],
    ),
    ("plans_without_a_library_say_so", plans_without_a_library_say_so, Place::Nowhere, &[]),
];

/// Post chains by their steps.
pub fn post(steps: &[&'static str]) -> Attrs {
    let step = |op: &&'static str| Step { op: (*op).into(), parameters: Vec::new() };
    Attrs::new().with("post", Attr::Post(steps.iter().map(step).collect()))
}

/// A call of a library: the logical op with its operands, and further attributes of the lowered op.
pub struct One {
    pub case: Case,
    pub more: Attrs,
    /// The layout of images and weights.
    pub layout: Layout,
    /// The suffix of the lowered op's name after the logical one's.
    pub form: &'static str,
}

impl One {
    /// The operands in their layouts.
    pub fn operands(&self) -> Vec<Tensor> {
        let image = |one: &&Tensor| one.ty().shape.rank() == 4 && !self.layout.is_plain();
        let lay = |one: &Tensor| if image(&one) { one.to_layout(&self.layout) } else { one.clone() };
        self.case.operands.iter().map(lay).collect()
    }

    /// Checks a result as [`agrees`] does. On a device the libraries may be less exact: algorithms that transform tiles
    /// mix elements, and `gelu-tanh` is approximate. Then the relative error (L2) of the result is bounded.
    fn agrees(&self, result: &Tensor) -> Result<(), String> {
        let reference = self.case.reference();
        let exact = agrees(&self.case, result, &reference);
        let transforms =
            matches!(self.more.get("algorithm"), Some(Attr::Int(4..=7))) && self.case.op == "conv";
        let approximate = transforms || self.attrs().post().iter().any(|step| step.op.name() == "gelu-tanh");
        if exact.is_ok() || !approximate || !standin::on_device() {
            return exact;
        }
        let most = match self.case.ty.dtype {
            DType::F16 | DType::BF16 => 2e-2,
            DType::F64 => 1e-9,
            _ => 1e-3,
        };
        let error = common::relative_error(result, &reference);
        if error <= most { Ok(()) } else { Err(format!("relative error {error:e}, not {most:e}")) }
    }

    /// All attributes.
    pub fn attrs(&self) -> Attrs {
        self.more.iter().fold(self.case.attrs.clone(), |attrs, (name, value)| attrs.with(name, value.clone()))
    }
}

/// Products in every type, with batches, steps and algorithms.
fn product_cases() -> Vec<One> {
    let r = &mut Random::new(11);
    let shapes: &[(&[usize], &[usize])] = &[
        (&[5, 7], &[7, 3]),
        (&[1, 33], &[33, 17]),
        (&[64, 48], &[48, 40]),
        (&[16, 1], &[1, 1]),
        (&[2, 3, 5, 8], &[8, 6]),
        (&[4, 9, 5], &[4, 5, 7]),
        (&[9, 5], &[4, 5, 7]),
        (&[3, 4, 9, 5], &[1, 1, 5, 7]),
        (&[2, 3, 4, 5], &[2, 3, 5, 6]),
        (&[1, 4, 5], &[6, 5, 4]),
    ];
    let chains: &[&[&str]] = &[
        &[],
        &["relu"],
        &["gelu-tanh"],
        &["row"],
        &["row", "relu"],
        &["row", "gelu-tanh"],
        &["whole"],
        &["whole", "relu"],
        &["row", "whole", "relu"],
        &["whole", "row"],
    ];
    let mut list = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for (number, (a, b)) in shapes.iter().enumerate() {
            for (at, chain) in chains.iter().enumerate() {
                let epilogue = chain.iter().any(|step| *step != "whole");
                if dtype == DType::F64 && epilogue || (at + number) % 2 == 1 && dtype != DType::F32 {
                    continue;
                }
                let mut operands = vec![r.tensor(dtype, a), r.tensor(dtype, b)];
                let Some(plain) = Case::new("matmul", Attrs::new(), operands.clone()) else { unreachable!() };
                let columns = *b.last().unwrap();
                let steps: Vec<&'static str> = chain
                    .iter()
                    .map(|step| match *step {
                        "row" => {
                            operands.push(r.tensor(dtype, &[columns]));
                            "add"
                        }
                        "whole" => {
                            operands.push(r.tensor(dtype, &plain.ty.shape));
                            "add"
                        }
                        step => step,
                    })
                    .collect();
                let case = Case::new("matmul", post(&steps), operands).unwrap();
                let more = Attrs::new()
                    .int("algorithm", if standin::on_device() { 0 } else { ((at + number) % 2) as i64 })
                    .int("workspace", if at % 3 == 0 { 4 } else { 1 });
                list.push(One { case, more, layout: Layout::PLAIN, form: "" });
            }
        }
    }
    list
}

/// Convolutions in every type and layout, by every algorithm that supports them.
fn convolution_cases() -> Result<Vec<One>, String> {
    let r = &mut Random::new(12);
    // Input, weights, pads, strides, dilations, groups.
    type Shape = (&'static [usize], &'static [usize], i64, i64, i64, i64);
    let shapes: &[Shape] = &[
        (&[1, 3, 9, 8], &[4, 3, 3, 3], 1, 1, 1, 1),
        (&[2, 5, 7, 7], &[6, 5, 1, 1], 0, 1, 1, 1),
        (&[1, 4, 11, 10], &[3, 4, 5, 5], 2, 1, 1, 1),
        (&[1, 3, 12, 12], &[4, 3, 7, 7], 3, 2, 1, 1),
        (&[1, 2, 9, 9], &[4, 2, 3, 3], 2, 1, 2, 1),
        (&[1, 6, 8, 8], &[6, 1, 3, 3], 1, 1, 1, 6),
        (&[2, 4, 8, 8], &[8, 2, 3, 3], 1, 2, 1, 2),
    ];
    let chains: &[&[&'static str]] = &[&[], &["relu"], &["add"], &["add", "relu"]];
    let mut list = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for (x, w, pad, stride, dilation, groups) in shapes {
            for chain in chains {
                let bare = Attrs::new()
                    .ints("pads", &[*pad; 4])
                    .ints("strides", &[*stride; 2])
                    .ints("dilations", &[*dilation; 2])
                    .int("groups", *groups);
                let mut operands = vec![r.tensor(dtype, x), r.tensor(dtype, w), r.tensor(dtype, &w[..1])];
                let plain = Case::new("conv", bare.clone(), operands.clone()).ok_or("refused")?;
                if chain.contains(&"add") {
                    operands.push(r.tensor(dtype, &plain.ty.shape));
                }
                let steps = post(chain).get("post").cloned().ok_or("no steps")?;
                for layout in ["plain", "nhwc"] {
                    for algorithm in [0, 1, 2, 4, 5, 6, 7] {
                        let case =
                            Case::new("conv", bare.clone().with("post", steps.clone()), operands.clone());
                        let one = One {
                            case: case.ok_or("refused")?,
                            more: Attrs::new().int("algorithm", algorithm),
                            layout: layout.parse().map_err(|why: NoLayout| why.to_string())?,
                            form: "",
                        };
                        let types: Vec<TensorType> =
                            one.operands().iter().map(|one| one.ty().clone()).collect();
                        if contract("cudnn.conv", &one.attrs(), &types).is_ok() {
                            list.push(one);
                        }
                    }
                }
            }
        }
    }
    Ok(list)
}

/// Convolutions have the reference's values, in every type and layout, by every algorithm.
fn convolutions() -> Result<(), Failed> {
    let cases = convolution_cases()?;
    let count = |algorithm: i64, dtype: DType, layout: &str| {
        let is = |one: &&One| {
            one.more.expect_int("algorithm") == algorithm
                && one.case.ty.dtype == dtype
                && one.layout.to_string() == layout
        };
        cases.iter().filter(is).count()
    };
    for (algorithm, plain, nhwc) in
        [(0, 21, 21), (1, 24, 24), (2, 12, 0), (4, 9, 0), (5, 6, 0), (6, 3, 0), (7, 6, 0)]
    {
        let counted = (count(algorithm, DType::F32, "plain"), count(algorithm, DType::F32, "nhwc"));
        // A library for a device may lack an algorithm for some cases, but not the two that plans rely on.
        let enough = counted.0 > 0 || algorithm > 1;
        if if standin::on_device() { !enough } else { counted != (plain, nhwc) } {
            return Err(format!("algorithm {algorithm} has {counted:?} cases in f32").into());
        }
    }
    for dtype in [DType::F16, DType::BF16, DType::F64] {
        let counted = (count(1, dtype, "plain"), count(1, dtype, "nhwc"));
        let enough = counted.0 + counted.1 > 0;
        if if standin::on_device() { !enough } else { counted != (24, 24) } {
            return Err(format!("{dtype} has {counted:?} cases").into());
        }
    }
    if !standin::on_device() {
        return values("cudnn", &cases);
    }
    // The library may refuse an algorithm in its first run only. Each case runs alone, so that all of them are told.
    let (mut wrong, mut refused) = (Vec::new(), Vec::new());
    for one in &cases {
        let relied_on = one.more.expect_int("algorithm") <= 1 && one.case.ty.dtype != DType::F64;
        match values("cudnn", std::slice::from_ref(one)) {
            Ok(()) => {}
            Err(why) => {
                let why = why.message().unwrap_or_default().lines().next().unwrap_or_default().to_owned();
                let why = format!("{}{} in {}: {why}", one.case.name(), one.more, one.layout);
                let list =
                    if !relied_on && why.contains("NOT_SUPPORTED") { &mut refused } else { &mut wrong };
                list.push(why);
            }
        }
    }
    println!(
        "{} of {} cases are refused in their first run:\n{}",
        refused.len(),
        cases.len(),
        refused.join("\n")
    );
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("{} are wrong:\n{}", wrong.len(), wrong.join("\n")).into())
    }
}

/// Returns the cases as one graph: each operand is copied to the device, and the result back.
pub fn lowered(prefix: &str, cases: &[One]) -> Result<Graph, String> {
    let mut graph = Graph::new();
    let add = |graph: &mut Graph, op: &str, attrs: &Attrs, inputs: Vec<ovolo::graph::NodeId>, name: &str| {
        let def = common::ops().get(op).ok_or_else(|| format!("there is no op `{op}`"))?;
        let attrs = op::complete(def, attrs.clone());
        let types: Vec<TensorType> = inputs.iter().map(|input| graph[*input].ty.clone()).collect();
        let ty = def.result(&attrs, &types.iter().collect::<Vec<_>>()).map_err(|why| why.to_string())?;
        Ok::<_, String>(graph.add_node(Node {
            op: def,
            attrs: Arc::new(attrs),
            inputs,
            name: name.into(),
            ty,
        }))
    };
    let none = Attrs::new();
    for (number, one) in cases.iter().enumerate() {
        let mut operands = Vec::new();
        for (at, operand) in one.operands().iter().enumerate() {
            let name = format!("c{number}.x{at}");
            let input = graph.add_input(&name, operand.ty().clone());
            operands.push(add(&mut graph, "cuda.upload", &none, vec![input], &format!("{name}.upload"))?);
        }
        let result = add(
            &mut graph,
            &format!("{prefix}.{}{}", one.case.op, one.form),
            &one.attrs(),
            operands,
            &format!("c{number}.result"),
        )?;
        let output = add(&mut graph, "cuda.download", &none, vec![result], &format!("c{number}"))?;
        graph.add_output(&format!("c{number}"), output);
    }
    Ok(graph)
}

/// Checks that calls of a library have the reference's values.
pub fn values(prefix: &str, cases: &[One]) -> Result<(), Failed> {
    let graph = lowered(prefix, cases)?;
    let plan = device::planned(&graph)?;
    let inputs: Vec<Tensor> = cases.iter().flat_map(One::operands).collect();
    let near = |_: usize, outputs: &[Tensor]| {
        for (one, output) in cases.iter().zip(outputs) {
            let One { case, more, layout, .. } = one;
            if output.ty().layout != *layout {
                return Err(format!("{}{more}: the result is {}", case.name(), output.ty()));
            }
            one.agrees(&output.on(Device::Host).to_layout(&Layout::PLAIN))
                .map_err(|why| format!("{}{more} in {layout}: {why}", case.name()))?;
        }
        Ok(())
    };
    let runs = [inputs.clone(), inputs.clone(), inputs];
    device::ordered(prefix, &graph, &plan, &runs, &near, &ORDERS[..3])
}

fn products() -> Result<(), Failed> {
    values("cublaslt", &product_cases())
}

/// Asks something of the call of a lowered op on the device.
pub fn called<T>(
    name: &str,
    attrs: &Attrs,
    operands: &[TensorType],
    ask: impl FnOnce(&Call<'_>) -> Result<T, String>,
) -> Result<T, String> {
    let def = common::ops().get(name).ok_or("there is no such op")?;
    let attrs = op::complete(def, attrs.clone());
    let there =
        |ty: &TensorType| TensorType { device: Device::Accelerator(ovolo_cuda::FAMILY, 0), ..ty.clone() };
    let types: Vec<TensorType> = operands.iter().map(there).collect();
    let types: Vec<&TensorType> = types.iter().collect();
    let output = def.result(&attrs, &types).map_err(|why| why.to_string())?;
    ask(&Call { op: def, attrs: &attrs, inputs: &types, output: &output, threads: 1 })
}

/// The contract of a lowered op on the device.
pub fn contract(name: &str, attrs: &Attrs, operands: &[TensorType]) -> Result<op::Contract, String> {
    called(name, attrs, operands, |call| call.contract().map_err(|why| why.to_string()))
}

/// Refusals give the reason, and accepted calls have their scratch and their operands in place.
fn products_that_are_refused() -> Result<(), Failed> {
    const F: DType = DType::F32;
    let (m, k): (&[usize], &[usize]) = (&[4, 8], &[8, 6]);
    let whole: &[usize] = &[4, 6];
    let types = |operands: &[(DType, &[usize])]| -> Vec<TensorType> {
        operands.iter().map(|(dtype, shape)| TensorType::plain(*dtype, *shape)).collect()
    };
    type Operands<'a> = &'a [(DType, &'a [usize])];
    let refused: &[(&[&'static str], Operands<'_>, &str)] = &[
        (&["gelu"], &[(F, m), (F, k)], "does not support step `gelu`"),
        (&["relu", "add"], &[(F, m), (F, k), (F, &[6])], "step `add` at this position"),
        (&["add"], &[(F, m), (F, k), (F, &[4, 1])], "f32[4,1]"),
        (&["add", "add", "add"], &[(F, m), (F, k), (F, &[6]), (F, whole), (F, whole)], "one value"),
        (&["mul"], &[(F, m), (F, k), (F, &[6])], "does not support step `mul`"),
        (&["relu"], &[(DType::F64, m), (DType::F64, k)], "for f64"),
        (&["add"], &[(DType::F64, m), (DType::F64, k), (DType::F64, &[6])], "for f64"),
        (&[], &[(DType::I32, m), (DType::I32, k)], "f32, f16, bf16 and f64 are supported"),
        (&[], &[(F, &[0, 8]), (F, k)], "a dimension is 0"),
        (&[], &[(F, &[2, 1, 4, 8]), (F, &[2, 3, 8, 6])], "broadcasts only some of its batch dimensions"),
    ];
    for (steps, operands, words) in refused {
        match contract("cublaslt.matmul", &post(steps), &types(operands)) {
            Err(why) if why.contains(words) => {}
            other => return Err(format!("{steps:?} of {operands:?}: {other:?}, not `{words}`").into()),
        }
    }
    let attrs = post(&["add", "add", "relu"]).int("algorithm", 2).int("workspace", 3);
    let taken = contract("cublaslt.matmul", &attrs, &types(&[(F, m), (F, k), (F, whole), (F, &[6])]))?;
    // Scratch is aligned to 256 bytes wherever a plan's buffer starts.
    if (taken.implementation.as_str(), taken.scratch, &taken.in_place[..])
        != ("f32-algorithm-2", (3 << 20) + 192, &[2])
    {
        return Err(format!("{taken:?}").into());
    }
    let bare = contract("cublaslt.matmul", &Attrs::new().int("workspace", 0), &types(&[(F, m), (F, k)]))?;
    if bare.scratch != 0 || !bare.in_place.is_empty() {
        return Err(format!("{bare:?}").into());
    }
    if contract("cublaslt.matmul", &Attrs::new().int("algorithm", -1), &types(&[(F, m), (F, k)])).is_ok() {
        return Err("a negative algorithm is accepted".into());
    }
    Ok(())
}

/// Refusals give the reason, and accepted calls have as much scratch as the algorithm may need.
fn convolutions_that_are_refused() -> Result<(), Failed> {
    let of = |more: Attrs, dtype: DType, steps: &[&'static str], layouts: [&str; 2]| {
        let image = |shape: &[usize], layout: &str| {
            TensorType::plain(dtype, shape).with_layout(layout.parse().unwrap())
        };
        let mut types = vec![
            image(&[1, 4, 8, 8], layouts[0]),
            image(&[4, 4, 3, 3], layouts[1]),
            TensorType::plain(dtype, [4]),
        ];
        if steps.contains(&"add") {
            types.push(image(&[1, 4, 8, 8], layouts[0]));
        }
        let attrs = more.with("post", post(steps).get("post").cloned().unwrap());
        contract("cudnn.conv", &attrs, &types)
    };
    let same = || Attrs::new().ints("pads", &[1, 1, 1, 1]);
    let algorithm = |number: i64| same().int("algorithm", number);
    let (f, plain, nhwc) = (DType::F32, ["plain"; 2], ["nhwc"; 2]);
    let two = |attrs: Attrs, name: &'static str| attrs.ints(name, &[2, 2]);
    for (answer, words) in [
        (of(Attrs::new().ints("pads", &[0, 0, 1, 1]), f, &[], plain), "differs before and after"),
        (of(algorithm(3), f, &[], plain), "the library has 0, 1, 2, 4, 5, 6 and 7"),
        (of(same(), f, &["sigmoid"], plain), "step `sigmoid`"),
        (of(same(), f, &["relu", "add"], plain), "step `add` at this position"),
        (of(same(), f, &[], ["nhwc", "plain"]), "it takes plain, plain, plain; or nhwc, nhwc, plain"),
        (of(same(), DType::I32, &[], plain), "they must be of one floating-point type"),
        (of(algorithm(2), f, &[], nhwc), "gemm does not support nhwc"),
        (of(algorithm(0), f, &["add"], plain), "adds a value only if `relu` follows"),
        (of(algorithm(6), DType::BF16, &[], plain), "does not support bf16"),
        (of(algorithm(6), DType::F64, &[], plain), "does not support f64"),
        (of(two(Attrs::new(), "dilations").int("algorithm", 1), f, &[], plain), "does not support dilations"),
        (of(two(Attrs::new(), "strides").int("algorithm", 7), f, &[], plain), "does not support strides"),
    ] {
        match answer {
            Err(why) if why.contains(words) => {}
            other => return Err(format!("{other:?}, not `{words}`").into()),
        }
    }
    let names: Vec<String> = [0, 1, 2, 4, 5, 6, 7]
        .into_iter()
        .map(|number| of(algorithm(number), f, &["relu"], plain).map(|contract| contract.implementation))
        .collect::<Result<_, _>>()?;
    let wanted = [
        "implicit-gemm",
        "implicit-precomp-gemm",
        "gemm",
        "fft",
        "fft-tiling",
        "winograd",
        "winograd-nonfused",
    ];
    if names != wanted.map(|name| format!("f32-{name}")) {
        return Err(format!("{names:?}").into());
    }
    // With a device the library says how much scratch an algorithm needs. It is aligned to 256 bytes wherever a plan's
    // buffer starts.
    let scratch = |number: i64| of(algorithm(number), f, &["relu"], plain).map(|contract| contract.scratch);
    let moved = 4 * 2 * 4 * 8 * 8;
    for (number, wanted) in
        [(0, 0), (1, 1024 + 192), (2, 4 * 9 * 64 * 4 + 192), (4, moved + 192), (7, moved + 192)]
    {
        if scratch(number)? != wanted {
            return Err(format!(
                "algorithm {number} has {} bytes of scratch, not {wanted}",
                scratch(number)?
            )
            .into());
        }
    }
    // Without a device it is the most that an algorithm can need.
    let model = common::temporary().join("no_device.ovolo");
    let source = "graph {\nx: f32[1,16,14,14] = input\nw: f32[16,16,3,3] = const ~1\nb: f32[16] = const ~2\n\
        c = conv(x, w, b) {pads: [1,1,1,1]}\nd = relu(c)\nreturn d\n}";
    std::fs::write(&model, source).map_err(|error| error.to_string())?;
    let output = Command::new(env!("CARGO_BIN_EXE_ovolo"))
        .args([
            "dump",
            "--cost",
            "roofline",
            "--pipeline",
            "cuda",
            "--after",
            "plan",
            &model.to_string_lossy(),
        ])
        .env("OVOLO_STANDIN_DEVICES", "0")
        .env("LD_PRELOAD", std::env::var_os("OVOLO_CUDA_DRIVER").unwrap_or_default())
        .output()
        .map_err(|error| error.to_string())?;
    let plan = String::from_utf8_lossy(&output.stdout);
    let bytes = (16 * 14 * 14 * 2 + 16 * 16 * 9) * 4 + (16 << 20);
    if !plan.contains("cudnn.conv") || !plan.contains(&format!("{}", bytes + 192)) {
        return Err(format!("{plan}{}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(())
}

/// Convolutions include a bias, a residual and `relu`, and layers stay in `nhwc` if that is cheaper.
fn convolutions_are_fused_with_following_ops() -> Result<(), Failed> {
    let block = |dtype: &str| {
        format!(
            "x: {dtype}[1,16,14,14] = input\nw: {dtype}[16,16,3,3] = const ~1\nb: {dtype}[16] = const ~2\n\
            v: {dtype}[16,16,3,3] = const ~3\nc = conv(x, w, b) {{pads: [1,1,1,1]}}\nd = relu(c)\n\
            e = conv(d, v, b) {{pads: [1,1,1,1]}}\nf = add(e, x)\ng = relu(f)\nreturn g"
        )
    };
    device::graph("residual", "cuda", device::parsed(&block("f32"))?, 1)?;
    let convolutions = |source: &str| -> Result<Vec<String>, Failed> {
        let plan = chosen(source)?;
        Ok(plan.into_iter().filter(|step| step.contains("conv") || step.contains("pack")).collect())
    };
    let plan = convolutions(&block("f32"))?;
    if plan != ["cudnn.conv <relu>", "cudnn.conv <add,relu>"] {
        return Err(format!("{plan:?}").into());
    }
    let plan = convolutions(
        &block("bf16")
            .replace("[1,16,14,14]", "[8,256,28,28]")
            .replace("16,16", "256,256")
            .replace("[16]", "[256]"),
    )?;
    if plan != ["cuda.pack <>", "cudnn.conv <relu>", "cudnn.conv <add,relu>", "cuda.unpack <>"] {
        return Err(format!("{plan:?}").into());
    }
    Ok(())
}

/// The ops of a plan with their post chains.
pub fn chosen(source: &str) -> Result<Vec<String>, Failed> {
    let compilation = ovolo::compile::compile(device::parsed(source)?, &common::pipeline("cuda", 2))
        .map_err(|error| error.to_string())?;
    let step = |step: &ovolo::plan::Step| {
        let steps: Vec<&str> = step.attrs.post().iter().map(|step| step.op.name()).collect();
        format!("{} <{}>", step.op, steps.join(","))
    };
    Ok(compilation.plan.steps.iter().map(step).collect())
}

/// A product includes an addition and its activation; a step without an epilogue in the library is a separate
/// kernel.
fn products_are_fused_with_following_ops() -> Result<(), Failed> {
    let block = "x: f32[96,128] = input\nw: f32[128,128] = const ~1\nb: f32[128] = const ~2\nv: f32[128,128] = const ~3\n\
        h = matmul(x, w)\ni = add(h, b)\nj = relu(i)\nk = matmul(j, v)\nl = add(k, x0)\nx0: f32[96,128] = input\n\
        m = add(l, b)\nn = relu(m)\nreturn n";
    device::graph("block", "cuda", device::parsed(block)?, 1)?;
    let plan = chosen(block)?;
    let products: Vec<&String> = plan.iter().filter(|step| step.contains("matmul")).collect();
    if products != ["cublaslt.matmul <add,relu>", "cublaslt.matmul <add,add,relu>"] {
        return Err(format!("{plan:?}").into());
    }
    let other =
        "x: f32[512,1024] = input\nw: f32[1024,1024] = const ~1\nh = matmul(x, w)\ni = sigmoid(h)\nreturn i";
    let plan = chosen(other)?;
    if !plan.iter().any(|step| step == "cublaslt.matmul <>")
        || !plan.iter().any(|step| step == "cuda.map <sigmoid>")
    {
        return Err(format!("{plan:?}").into());
    }
    Ok(())
}

/// Rounds a tensor to TF32: ten bits of mantissa, halves to even.
fn tf32(tensor: &Tensor) -> Tensor {
    let round = |value: f64| {
        let bits = (value as f32).to_bits();
        f64::from(f32::from_bits((bits + 0xfff + (bits >> 13 & 1)) & !0x1fff))
    };
    let values: Vec<f64> = tensor.to_f64().into_iter().map(round).collect();
    Tensor::from_f64(DType::F32, tensor.ty().shape.clone(), &values)
}

/// If a call says so, the factors are rounded to TF32, but not the bias, the residual and the result.
fn tf32_rounds_only_the_factors() -> Result<(), Failed> {
    let r = &mut Random::new(13);
    let f32 = |r: &mut Random, shape: &[usize]| r.tensor(DType::F32, shape);
    let product = vec![f32(r, &[24, 40]), f32(r, &[40, 16]), f32(r, &[16]), f32(r, &[24, 16])];
    let image = vec![f32(r, &[1, 8, 9, 9]), f32(r, &[8, 8, 3, 3]), f32(r, &[8]), f32(r, &[1, 8, 9, 9])];
    let convolution = || Case::new("conv", post(&["add", "relu"]).ints("pads", &[1; 4]), image.clone());
    let cases = [
        ("cublaslt", Case::new("matmul", post(&["add", "add", "relu"]), product), Layout::PLAIN, ""),
        ("cudnn", convolution(), Layout::PLAIN, ""),
        ("cudnn", convolution(), "nhwc".parse()?, ""),
        ("cudnn", convolution(), Layout::PLAIN, "-graph"),
        ("cudnn", convolution(), "nhwc".parse()?, "-graph"),
    ];
    for (prefix, case, layout, form) in cases {
        let case = case.ok_or("refused")?;
        let mut rounded = case.operands.clone();
        rounded[..2].iter_mut().for_each(|one| *one = tf32(one));
        let rounded = Case { operands: rounded, op: case.op, attrs: case.attrs.clone(), ty: case.ty.clone() };
        let (expected, exact) = (rounded.reference(), case.reference());
        let one = One { case, more: Attrs::new().int("tf32", 1), layout, form };
        let graph = lowered(prefix, std::slice::from_ref(&one))?;
        let plan = device::planned(&graph)?;
        let step = plan.steps.iter().find(|step| step.op.name.starts_with(prefix)).ok_or("no call")?;
        if !step.implementation.starts_with("tf32-") {
            return Err(format!("it is called {}", step.implementation).into());
        }
        let near = |_: usize, outputs: &[Tensor]| {
            let output = outputs[0].on(Device::Host).to_layout(&Layout::PLAIN);
            let (near, far) =
                (common::relative_error(&output, &expected), common::relative_error(&output, &exact));
            // The reference of the lowered op gives the same.
            if near < 1e-6 && (1e-5..1e-2).contains(&far) {
                Ok(())
            } else {
                Err(format!("{near:e} from the rounded product, {far:e} from the exact one"))
            }
        };
        let inputs = one.operands();
        let evaluated = common::reference(&graph, &inputs);
        near(0, &evaluated)?;
        device::ordered(&format!("tf32_{prefix}"), &graph, &plan, &[inputs], &near, &ORDERS[..1])?;
    }
    Ok(())
}

/// For each precision of a pipeline, its calls have that precision, and its values are as close to the
/// reference's as it says, and no closer.
fn results_have_the_precision_of_the_pipeline() -> Result<(), Failed> {
    let layers = "x: f32[256,1024] = input\nw: f32[1024,512] = const ~1\nb: f32[512] = const ~2\nh = matmul(x, w)\n\
        i = add(h, b)\nj = relu(i)\nreturn j";
    let block = "x: f32[4,64,28,28] = input\nw: f32[64,64,3,3] = const ~1\nb: f32[64] = const ~2\n\
        v: f32[64,64,3,3] = const ~3\nc = conv(x, w, b) {pads: [1,1,1,1]}\nd = relu(c)\n\
        e = conv(d, v, b) {pads: [1,1,1,1]}\nf = add(e, x)\ng = relu(f)\nreturn g";
    for (name, source) in [("layers", layers), ("block", block)] {
        let graph = device::parsed(source)?;
        let inputs = common::inputs(&graph);
        let reference = common::reference(&graph, &inputs);
        for (pipeline, precision, range) in [
            ("cuda", "f32-", 0.0..1e-6),
            ("cuda-tf32", "tf32-", 1e-5..1e-3),
            ("cuda-f16", "f16-", 1e-5..3e-3),
            ("cuda-bf16", "bf16-", 1e-4..2e-2),
        ] {
            let compilation = ovolo::compile::compile(graph.clone(), &common::pipeline(pipeline, 2))
                .map_err(|error| error.to_string())?;
            let plan = &compilation.plan;
            let library = |step: &&ovolo::plan::Step| {
                step.op.name.starts_with("cu") && !step.op.name.starts_with("cuda.")
            };
            let calls: Vec<&str> =
                plan.steps.iter().filter(library).map(|step| step.implementation.as_str()).collect();
            if calls.is_empty() || calls.iter().any(|call| !call.starts_with(precision)) {
                return Err(format!("{name} by `{pipeline}` has {calls:?}:\n{plan}").into());
            }
            let near = |_: usize, outputs: &[Tensor]| {
                let error = common::relative_error(&outputs[0], &reference[0]);
                if range.contains(&error) {
                    Ok(())
                } else {
                    Err(format!("{name} by `{pipeline}`: error {error:e}"))
                }
            };
            let runs = [inputs.clone(), inputs.clone()];
            let title = format!("{name}_{}", precision.trim_end_matches('-'));
            device::ordered(&title, &compilation.program, plan, &runs, &near, &ORDERS[2..3])?;
        }
    }
    Ok(())
}

/// Errors of a library name the step, and contain its own words and advice; nothing is left allocated.
fn errors_say_what_to_do() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let r = &mut Random::new(3);
    let operands = vec![r.tensor(DType::F32, &[4, 8]), r.tensor(DType::F32, &[8, 4])];
    let one = |algorithm: i64| One {
        case: Case::new("matmul", Attrs::new(), operands.clone()).unwrap(),
        more: Attrs::new().int("algorithm", algorithm),
        layout: Layout::PLAIN,
        form: "",
    };
    let load = |algorithm: i64| -> Result<Session, String> {
        let graph = lowered("cublaslt", &[one(algorithm)])?;
        let plan = device::planned(&graph)?;
        Session::with(&graph, plan, common::registry().backends(), &Kept::default())
            .map_err(|error| error.to_string())
    };
    let inputs: Vec<&Tensor> = operands.iter().collect();
    let _turn = standin::turn();
    let says = |what: Result<String, String>, words: &[&str]| match what {
        Err(error) if words.iter().all(|word| error.contains(word)) => Ok(()),
        other => Err(format!("{other:?} does not say {words:?}")),
    };
    let made = |load: Result<Session, String>| load.map(|_| "a session".to_owned());
    says(made(load(7)), &["c0.result", "cuBLASLt has 3 algorithm(s)", "number 7", "ovolo tune"])?;
    // `fresh::handles_that_cannot_be_made` has the errors of `cublasLtCreate`, which a process calls once.
    let entry = "cublasLtMatmulAlgoGetHeuristic";
    standin.fail(entry, 0, 13);
    says(made(load(0)), &["cublaslt.matmul", entry, "CUBLAS_STATUS_EXECUTION_FAILED", "compute-sanitizer"])?;
    // An error code that no library documents, from a function and from a value that it writes.
    for entry in ["cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmulHeuristicResult_t"] {
        standin.fail(entry, 0, 31999);
        says(made(load(0)), &["cublaslt.matmul", "code 31999, which is unknown to the library", "doctor"])?;
    }
    let mut session = load(0)?;
    standin.fail("cublasLtMatmul", 0, 13);
    let run = session.run(&inputs).map(|_| "values".to_owned()).map_err(|error| error.to_string());
    says(run, &["c0.result", "cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED (13)"])?;
    session.run(&inputs).map_err(|error| error.to_string())?;
    drop(session);
    standin.faults()?;
    Ok(standin.nothing_left()?)
}

/// A library for a newer major version of CUDA than the driver supports is passed over, and the reason is given.
fn the_driver_must_support_a_library() -> Result<(), Failed> {
    let standin = standin::get().ok_or("there is no stand-in")?;
    let folder = common::temporary().join("two_majors");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    standin.version_at("cublaslt", &["-DVERSION=130100"], &folder.join("libcublasLt.so.13"));
    standin.version_at("cublaslt", &[], &folder.join("libcublasLt.so.12"));
    standin.version_at("cudnn", &["-DCUDA=13000"], &folder.join("libcudnn.so.9"));
    let doctor = |cuda: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_ovolo"))
            .args(["doctor", "--threads", "1"])
            .env("OVOLO_CUBLASLT", &folder)
            .env("OVOLO_CUDNN", &folder)
            .env("OVOLO_STANDIN_CUDA", cuda)
            .env("LD_PRELOAD", std::env::var_os("OVOLO_CUDA_DRIVER").unwrap_or_default())
            .output();
        output
            .map(|output| String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
            .map_err(|error| error.to_string())
    };
    let old = "at most: install one for CUDA 11, or a newer driver";
    for (cuda, lines) in [
        (
            "13000",
            &[("cuda cuBLASLt: 13.1.0", ""), ("cuda cuDNN: 9.21.0", ""), ("cuda NVRTC: NVRTC 1", "")][..],
        ),
        (
            "12090",
            &[
                ("cuda cuBLASLt: 12.9.4", ""),
                (
                    "cuda cuDNN: not found",
                    "cuDNN 9.21.0 is for CUDA 13, but the driver supports CUDA 12.9 at most",
                ),
            ],
        ),
        ("11080", &[("cuda cuBLASLt: not found", old), ("cuda NVRTC: not found", old)]),
    ] {
        let said = doctor(cuda)?;
        for (begin, words) in lines {
            if !said.lines().any(|line| line.starts_with(begin) && line.contains(words)) {
                return Err(format!("CUDA {cuda}: no line has `{begin}` and `{words}`:\n{said}").into());
            }
        }
    }
    Ok(())
}

/// Without a library, generated kernels compute products, and the compilation reports what is absent.
fn plans_without_a_library_say_so() -> Result<(), Failed> {
    let model = common::temporary().join("no_library.ovolo");
    let source = "graph {\nx: f32[64,64] = input\nw: f32[64,64] = const ~1\ny = matmul(x, w)\nreturn y\n}";
    std::fs::write(&model, source).map_err(|error| error.to_string())?;
    let run = |arguments: &[&str]| {
        Command::new(super::need::program())
            .args(arguments)
            .env("OVOLO_CUBLASLT", "/nowhere/libcublasLt.so")
            .env("OVOLO_CUDNN", "/nowhere/libcudnn.so")
            .output()
            .map(|output| String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
            .map_err(|error| error.to_string())
    };
    let path = model.to_string_lossy();
    let said = run(&["compile", "--no-cache", "--cost", "flops", "--pipeline", "cuda", &path])?;
    for words in [
        "backend cublaslt: not found (/nowhere/libcublasLt.so",
        "backend cudnn: not found (/nowhere/libcudnn.so",
        "set OVOLO_CUBLASLT",
        "set OVOLO_CUDNN",
    ] {
        if !said.contains(words) {
            return Err(format!("`{words}` is not in\n{said}").into());
        }
    }
    let plan = run(&["dump", "--cost", "flops", "--pipeline", "cuda", "--after", "plan", &path])?;
    if !plan.contains("cuda.matmul") || plan.contains("cublaslt.") || plan.contains("cudnn.") {
        return Err(plan.into());
    }
    let doctor = run(&["doctor", "--threads", "1"])?;
    let line =
        doctor.lines().find(|line| line.starts_with("cuda cuBLASLt: not found (/nowhere/libcublasLt.so"));
    match line {
        Some(line) if line.contains("set OVOLO_CUBLASLT") => Ok(()),
        _ => Err(doctor.into()),
    }
}
