//! Tests of graphs with the library itself, if it is found. The library makes plans for a described device, so no
//! device is needed. The test runs in a subprocess, because the library needs a stand-in for the driver's library,
//! with the same name.

mod device;
mod scratch;
mod survey;

use super::descriptor::Library;
use super::engine::{Engines, Target};
use super::plan::Plan;
use crate::cudnn;
use ovolo::attr::{Attr, Attrs, Float, Step};
use ovolo::op::Call;
use ovolo::op::attention::AxisOrder;
use ovolo::tensor::{DType, Device, Layout, TensorType};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The variable that marks the subprocess which asks the library.
const SUBPROCESS: &str = "OVOLO_TEST_ASKS_CUDNN";
#[test]
#[ignore = "it needs cuDNN 9.8 with NVRTC and cuBLASLt (`cargo xtask cuda-libraries`), and a C++ compiler"]
fn the_library_creates_plans_for_graphs() {
    in_subprocess("cudnn::graph::test::the_library_creates_plans_for_graphs", ask_library);
}

/// Runs a test's work in a subprocess of its own, which is this program with the name of the test.
fn in_subprocess(test: &str, work: fn()) {
    if std::env::var_os(SUBPROCESS).is_some() {
        return work();
    }
    let program = std::env::current_exe().expect("the path of the test is known");
    let mut child = Command::new(program)
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads", "1"])
        .env(SUBPROCESS, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the test can start itself");
    // What the subprocess prints is shown at once, since it may work for an hour.
    let lines = BufReader::new(child.stdout.take().expect("the output is a pipe")).lines();
    let mut passed = false;
    for line in lines.map_while(Result::ok) {
        passed |= line.contains("1 passed");
        println!("{line}");
    }
    let status = child.wait().expect("the subprocess ends");
    assert!(status.success() && passed, "the subprocess failed, or has no test `{test}`");
}

fn chain(steps: &[(&'static str, &[f64])]) -> Attr {
    let one = |(op, parameters): &(&'static str, &[f64])| Step {
        op: (*op).into(),
        parameters: parameters.iter().map(|parameter| Float(*parameter)).collect(),
    };
    Attr::Post(steps.iter().map(one).collect())
}

/// A question to the library: the op, its attributes and its operands.
struct Question(&'static str, Attrs, Vec<TensorType>);

fn convolution(
    dtype: DType,
    layout: &str,
    groups: usize,
    tf32: bool,
    steps: &[(&'static str, &[f64])],
) -> Question {
    let layout: Layout = layout.parse().expect("the layout is valid");
    let image = |shape: [usize; 4]| TensorType::plain(dtype, shape).with_layout(layout.clone());
    let mut operands =
        vec![image([8, 64, 28, 28]), image([64, 64 / groups, 3, 3]), TensorType::plain(dtype, [64])];
    let binary = steps.iter().filter(|step| ["add", "mul"].contains(&step.0));
    operands.extend(binary.map(|_| image([8, 64, 28, 28])));
    let attrs = Attrs::new()
        .ints("pads", &[1; 4])
        .int("groups", groups as i64)
        .int("tf32", i64::from(tf32))
        .with("post", chain(steps));
    Question("cudnn.conv-graph", attrs, operands)
}

fn attention(
    dtype: DType,
    [length, depth, width]: [usize; 3],
    order: [i64; 4],
    mask: Option<&[usize]>,
) -> Question {
    let attrs = Attrs::new().float("scale", 0.125).ints("order", &order);
    let stored = AxisOrder::new(&attrs).expect("the order is valid");
    let mut operands: Vec<TensorType> = [[2, 12, 77, depth], [2, 12, length, depth], [2, 12, length, width]]
        .map(|sizes| TensorType::plain(dtype, stored.stored(sizes)))
        .to_vec();
    operands.extend(mask.map(|mask| TensorType::plain(dtype, mask)));
    Question("cudnn.attention", attrs, operands)
}

/// Asks for the engines of the graphs, and prepares the first engine of each.
fn ask_library() {
    let with = device::library();
    let device = device::H100.descriptor(with).map_err(|failure| failure.text);
    let device = device.expect("the library accepts the description");
    let target = Target::Described(&device);
    let (h, b, f) = (DType::F16, DType::BF16, DType::F32);
    let mut asked = Vec::new();
    for dtype in [h, b, f] {
        for layout in ["plain", "nhwc"] {
            for groups in [1, 4, 64] {
                asked.push(convolution(dtype, layout, groups, false, &[]));
                asked.push(convolution(dtype, layout, groups, false, &[("add", &[]), ("relu", &[])]));
            }
        }
        asked.push(convolution(dtype, "nhwc", 1, dtype == f, &[("silu", &[])]));
    }
    asked.push(convolution(f, "nhwc", 1, false, &[("silu", &[])]));
    asked.push(convolution(f, "plain", 1, true, &[("relu", &[])]));
    for steps in [
        &[("clip", &[0.0, 6.0][..])][..],
        &[("hard-swish", &[])],
        &[("mish", &[])],
        &[("sigmoid", &[]), ("mul", &[])],
        &[("leaky-relu", &[0.1]), ("hard-sigmoid", &[0.2, 0.4])],
        &[("gelu", &[])],
        &[("gelu-tanh", &[])],
        &[("tanh", &[])],
        &[("elu", &[1.0])],
        &[("softplus", &[])],
        &[("add", &[]), ("relu", &[]), ("add", &[])],
    ] {
        asked.push(convolution(h, "nhwc", 1, false, steps));
    }
    asked.push(convolution(h, "nhwc", 64, false, &[("silu", &[])]));
    let usual = [0, 1, 2, 3];
    for dtype in [h, b] {
        asked.push(attention(dtype, [77, 64, 64], usual, None));
    }
    // Heads side by side in each row, and rows before batches.
    for order in [usual, [0, 2, 1, 3], [1, 2, 0, 3]] {
        for mask in [&[77, 50][..], &[2, 1, 1, 50], &[2, 12, 77, 50], &[]] {
            asked.push(attention(h, [50, 64, 64], order, Some(mask)));
        }
        for sizes in [[50, 8, 8], [33, 128, 128], [64, 256, 256], [64, 64, 32]] {
            asked.push(attention(h, sizes, order, None));
        }
    }
    let mut wrong = Vec::new();
    for one in &asked {
        match check_question(with, target, one) {
            Ok(answer) => println!("{answer}"),
            Err(why) => wrong.push(why),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), asked.len(), wrong.join("\n"));
}

/// Returns the number of engines. The first engine must be ready with the scratch memory that it reports.
fn check_question(
    with: Library,
    target: Target<'_>,
    Question(name, attrs, operands): &Question,
) -> Result<String, String> {
    let def = crate::fixture::ops().get(name).ok_or("there is no such op")?;
    let attrs = def.complete(attrs.clone());
    let there = |ty: &TensorType| TensorType { device: Device::Accelerator(crate::FAMILY, 0), ..ty.clone() };
    let types: Vec<TensorType> = operands.iter().map(there).collect();
    let types: Vec<&TensorType> = types.iter().collect();
    let output = def.result(&attrs, &types).map_err(|why| why.to_string())?;
    let call = Call { op: def, attrs: &attrs, inputs: &types, output: &output, threads: 1 };
    let title = format!("{name}{attrs} of {}", operands[0]);
    let failed = |why: String| format!("{title}: {why}");
    let version = cudnn::opened().map_err(|why| failed(why.clone()))?.calls.version();
    let graph = super::graph(&call, version).map_err(failed)?;
    let engines = Engines::new(target, with, &graph).map_err(|failure| failed(failure.text))?;
    if engines.list.is_empty() {
        return Err(failed("there is no engine".to_owned()));
    }
    let start = Instant::now();
    let plan = Plan::of_engine(target, with, &engines, 0).map_err(|failure| failed(failure.text))?;
    let wanted = plan.workspace;
    let text = plan.text(with).map_err(|failure| failed(failure.text))?;
    let finalised = start.elapsed().as_millis();
    let start = Instant::now();
    let again = Plan::of_text(target, with, &text).map_err(|failure| failed(failure.text))?;
    let read = start.elapsed().as_millis();
    if again.workspace != wanted {
        return Err(failed(format!("the plan of its text needs {} bytes, not {wanted}", again.workspace)));
    }
    let named = engines.list[0].workspace;
    if named.is_some_and(|named| named < wanted) || wanted > super::max_scratch(&call) {
        return Err(failed(format!(
            "it needs {wanted} bytes, but reported {named:?}, and the limit is {}",
            super::max_scratch(&call)
        )));
    }
    Ok(format!(
        "{title}: {} engine(s), {wanted} bytes, finalised in {finalised} ms, made from {} bytes of text in {read} ms",
        engines.list.len(),
        text.len()
    ))
}
