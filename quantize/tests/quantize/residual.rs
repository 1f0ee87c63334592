//! Residual sums and pools between layers of integers.

use crate::fixture::{batches, engine, model, node, noise, weights};
use ovolo::onnx::ImportOptions;
use ovolo::onnx::proto::{AttributeProto, NodeProto};
use ovolo::plan::Step;
use ovolo::tensor::{DType, Tensor};
use ovolo_native::Isa;
use ovolo_quantize::{Calibration, Document, Metric, Objective, Ranges, Search, calibrate};
use prost::Message;

const SIZE: i64 = 20;
const CHANNELS: i64 = 32;

fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto { name: name.into(), ints: ints.to_vec(), r#type: 7, ..Default::default() }
}

fn conv(input: &str, weights: &str, output: &str) -> NodeProto {
    let mut conv = node("Conv", &[input, weights], output);
    conv.attribute.push(ints("pads", &[1, 1, 1, 1]));
    conv
}

/// Two convolutions of 3x3, whose result is added to their input, then a pool and a further convolution.
fn residual() -> Vec<u8> {
    let mut pool = node("MaxPool", &["top"], "pooled");
    pool.attribute.push(ints("kernel_shape", &[2, 2]));
    pool.attribute.push(ints("strides", &[2, 2]));
    let nodes = vec![
        conv("x", "u", "first"),
        node("Relu", &["first"], "begin"),
        conv("begin", "v", "second"),
        node("Relu", &["second"], "between"),
        conv("between", "w", "third"),
        node("Add", &["third", "begin"], "sum"),
        node("Relu", &["sum"], "top"),
        pool,
        conv("pooled", "t", "y"),
    ];
    let shape = [CHANNELS, CHANNELS, 3, 3];
    let count = usize::try_from(shape.iter().product::<i64>()).unwrap();
    let constant = |(seed, name): (u64, &str)| {
        let values: Vec<f32> = noise(count, seed + 1).iter().map(|value| value * 0.1).collect();
        weights(name, &shape, &values)
    };
    let constants = (0..).zip(["u", "v", "w", "t"]).map(constant).collect();
    let image = [1, CHANNELS, SIZE, SIZE];
    model(nodes, constants, &image, &[1, CHANNELS, SIZE / 2, SIZE / 2]).encode_to_vec()
}

fn image() -> Tensor {
    let shape = [1, CHANNELS, SIZE, SIZE].map(|size| usize::try_from(size).unwrap());
    let values = noise(shape.iter().product(), 9).into_iter().map(f64::from).collect::<Vec<_>>();
    Tensor::from_f64(DType::F32, shape, &values)
}

/// Calls a function with the model, its ranges and a search among its layers by time.
fn with_search(call: impl FnOnce(&Document, &Ranges, &Search<'_>)) {
    let document = Document::new("residual", residual()).unwrap();
    let import = ImportOptions::default();
    let engine = engine(&import);
    let batches = batches(document.bytes(), &[image()]).unwrap();
    let ranges = calibrate(&document, &engine, &batches, Calibration::MinMax).unwrap();
    let search =
        Search::new(&document, &engine, &batches, &ranges, Objective::Time, Metric::Outputs).unwrap();
    call(&document, &ranges, &search);
}

#[test]
fn a_residual_block_computes_from_levels_to_levels() {
    with_search(|document, ranges, _| {
        let names: Vec<&str> = document.layers().iter().map(|layer| &*layer.name).collect();
        assert_eq!(names, ["first", "second", "third", "sum", "pooled", "y"]);
        let bytes = document.quantised(&[true; 6], ranges).unwrap();
        let import = ImportOptions::default();
        let model = engine(&import).compile(&bytes).unwrap();
        let steps = &model.plan().steps;
        let listing: Vec<String> =
            steps.iter().map(|step| format!("{} {} {}", step.name, step.op, step.output_type)).collect();
        let is_levels = |step: &&Step| step.output_type.dtype == DType::U8;
        let block: Vec<&str> = steps.iter().take_while(is_levels).map(|step| step.op.name).collect();
        let count = |op: &str| block.iter().filter(|name| **name == op).count();
        // Everything up to the pool computes levels: the convolutions, the sum with its rectifier, and the pool.
        assert_eq!(count("native.conv-requantize"), 3, "{listing:#?}");
        assert_eq!(count("native.requantize"), 1, "{listing:#?}");
        assert_eq!(count("native.max-pool"), 1, "{listing:#?}");
    });
}

/// Whether the processor has `vpdpbusd` in the instruction set that kernels use.
#[cfg(target_arch = "x86_64")]
fn has_vnni() -> bool {
    match Isa::running() {
        Isa::Avx512 => std::is_x86_feature_detected!("avx512vnni"),
        Isa::Avx2 => std::is_x86_feature_detected!("avxvnni"),
        _ => false,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn has_vnni() -> bool {
    false
}

#[test]
fn layers_that_pay_together_are_found_where_none_pays_alone() {
    with_search(|_, _, search| {
        assert!(search.gains.iter().all(|gain| gain.cost > 0.0), "{:?}", search.gains);
        let point = search.within(0.1).unwrap();
        if !has_vnni() {
            // Without `vpdpbusd`, Winograd's algorithm for floats takes less time than all layers of integers together.
            assert_eq!(point, search.float);
            return;
        }
        assert!(point.seconds < search.float.seconds, "{point:?}");
        // The plan computes the last convolution in float32 in any case, so it is taken out again.
        assert_eq!(point.chosen, [true, true, true, true, true, false]);
        // All layers together lose more than this, and those with the least error lose less.
        let close = search.within(0.01).unwrap();
        assert!(close.loss <= 0.01 && close.seconds < search.float.seconds, "{close:?}");
        // Where too few layers are within the bound, none pays.
        assert_eq!(search.within(0.006).unwrap(), search.float);
    });
}
