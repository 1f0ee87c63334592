//! Tests ops: none panics on any attributes, and values agree with ones computed by hand.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss)]

use crate::common;
use ovolo::attr::{Attr, AttrKind, Attrs};
use ovolo::attr::{Float, Step};
use ovolo::op::{Arity, Layouts, Op, OpError, complete, post};
use ovolo::scalar;
use ovolo::tensor::{DType, Device, Layout, Shape};
use ovolo::tensor::{Tensor, TensorType};
use std::sync::atomic::{AtomicUsize, Ordering};

fn find(name: &str) -> Option<Op> {
    common::ops().get(name)
}

fn all() -> Vec<Op> {
    common::ops().all()
}

fn attrs_of(name: &str, attrs: Attrs) -> Attrs {
    complete(find(name).unwrap(), attrs)
}

fn infer(name: &str, attrs: Attrs, types: &[TensorType]) -> Result<TensorType, OpError> {
    find(name).unwrap().result(&attrs_of(name, attrs), &types.iter().collect::<Vec<_>>())
}

fn refusal(name: &str, attrs: Attrs, types: &[TensorType]) -> String {
    infer(name, attrs, types).expect_err("the types do not fit").to_string()
}

fn eval(name: &str, attrs: Attrs, operands: &[Tensor]) -> Tensor {
    let attrs = attrs_of(name, attrs);
    let types: Vec<&TensorType> = operands.iter().map(Tensor::ty).collect();
    let def = find(name).unwrap();
    let ty = def.result(&attrs, &types).unwrap_or_else(|why| panic!("{name}{attrs}: {why}"));
    let result = def.evaluate(&attrs, &operands.iter().collect::<Vec<_>>(), &ty);
    assert_eq!(*result.ty(), ty, "{name}{attrs}");
    result
}

fn f32s(shape: impl Into<Shape>, values: &[f32]) -> Tensor {
    Tensor::from_elements(shape, values)
}

fn i64s(shape: impl Into<Shape>, values: &[i64]) -> Tensor {
    Tensor::from_elements(shape, values)
}

fn f32_type(shape: impl Into<Shape>) -> TensorType {
    TensorType::plain(DType::F32, shape)
}

fn layout(name: &str) -> Layout {
    name.parse().unwrap()
}

fn step(op: &'static str, parameters: &[f64]) -> Step {
    Step { op: op.into(), parameters: parameters.iter().map(|p| Float(*p)).collect() }
}

/// Random numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    fn values(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.below(9) as f64 - 4.0).collect()
    }

    fn tensor(&mut self, ty: &TensorType) -> Tensor {
        let values = self.values(ty.shape.count());
        Tensor::from_f64(ty.dtype, ty.shape.clone(), &values).to_layout(&ty.layout).on(ty.device)
    }

    fn int(&mut self) -> i64 {
        if self.below(12) == 0 {
            self.pick(&[i64::MIN, i64::MAX, i64::MAX - 1, -1, -2, 1 << 40])
        } else {
            i64::try_from(self.below(4)).unwrap()
        }
    }

    fn attr(&mut self, name: &str, kind: AttrKind, rank: usize) -> Attr {
        match kind {
            AttrKind::Int => Attr::Int(self.int()),
            AttrKind::Float => Attr::Float(Float(self.pick(&[0.0, 0.5, -1.0, f64::INFINITY, f64::NAN]))),
            AttrKind::Ints => {
                if name == "tile" && self.below(2) > 0 {
                    return Attr::Ints([0, 1].map(|_| self.pick(&[1, 2, 4, 4])).to_vec());
                }
                let natural = match name {
                    "pads" => self.pick(&[4, 2 * rank]),
                    "kernel" | "strides" | "dilations" | "ceil-extra" | "output-padding" => 2,
                    "sizes" => self.pick(&[2, rank]),
                    "axes" => self.below(rank + 1),
                    _ => rank,
                };
                let length = if self.below(10) == 0 { self.below(9) } else { natural };
                let ints: Vec<i64> = (0..length).map(|_| self.int()).collect();
                Attr::Ints(ints)
            }
            AttrKind::Str => {
                let known: &[&str] = match name {
                    "mode" => &["nearest", "linear", "cubic", "x"],
                    "coordinates" => {
                        &["half-pixel", "align-corners", "pytorch-half-pixel", "asymmetric", "x"]
                    }
                    "rounding" => &["prefer-ceil", "floor", "ceil", "x"],
                    _ => &["x"],
                };
                Attr::Str(self.pick(known).into())
            }
            AttrKind::DType => Attr::DType(self.pick(&DType::ALL)),
            AttrKind::Layout => Attr::Layout(self.pick(&LAYOUTS).parse().unwrap()),
            AttrKind::Post => {
                let steps =
                    [step("relu", &[]), step("clip", &[0.0, 1.0]), step("add", &[]), step("rdiv", &[])];
                Attr::Post((0..self.below(3)).map(|_| self.pick(&steps)).collect())
            }
        }
    }

    fn ty(&mut self, rank: usize, dtype: DType, layouts: &[&str]) -> TensorType {
        let ones = self.below(2) == 0;
        let dims: Vec<usize> =
            (0..rank).map(|_| if ones { 1 } else { self.pick(&[1, 1, 1, 2, 2, 3, 0]) }).collect();
        let layout = layout(self.pick(layouts));
        let ty = TensorType::plain(dtype, dims);
        if layout.rank().is_none_or(|r| r == rank) { ty.with_layout(layout) } else { ty }
    }
}

/// Where an operand of an op lies; those of device ops mostly lie on the device.
fn memory(op: &str, random: &mut Random) -> Device {
    let there = find(op).is_some_and(|op| op.device().is_some()) || op == "download";
    if there && random.below(50) > 0 { Device::Accelerator(ovolo_cuda::FAMILY, 0) } else { Device::Host }
}

const LAYOUTS: [&str; 10] =
    ["plain", "nChw16c", "nChw8c", "nhwc", "OIhw16i16o", "OIhw8i8o", "Ohwi16o", "Oihw16o", "Ba32b", "plain"];

impl Random {
    /// Draws attributes of an op for operands of a rank.
    fn attrs(&mut self, def: Op, rank: usize) -> Attrs {
        let mut attrs = Attrs::new();
        for declared in &def.attrs {
            if declared.default.is_none() || self.below(3) == 0 {
                attrs.set(declared.name, self.attr(declared.name, declared.kind, rank));
            }
        }
        if def.name == "native.conv-winograd" && self.below(4) > 0 {
            attrs.set("kernel", Attr::Ints(self.pick(&[vec![3, 3], vec![1, 7]])));
            attrs.set("tile", Attr::Ints(self.pick(&[vec![4, 4], vec![2, 2], vec![1, 4]])));
        }
        complete(def, attrs)
    }

    /// Draws the types of the operands of an op, the first of them of a rank.
    fn operands(&mut self, def: Op, attrs: &Attrs, rank: usize) -> Vec<TensorType> {
        let extras = post::extras(attrs.post());
        let count = match def.arity {
            Arity::Exactly(count) => count,
            Arity::Post(count) => count + extras,
            Arity::AtLeast(count) => count + self.below(2),
            Arity::Between(least, most) => least + self.below(most - least + 1),
        };
        let dtype = self.pick(&[DType::F32, DType::F32, DType::F32, DType::I64, DType::Bool, DType::F16]);
        let x = self.ty(rank, dtype, &LAYOUTS);
        let types: Vec<TensorType> = (0..count).map(|operand| self.operand(def, operand, &x)).collect();
        types.into_iter().map(|ty| TensorType { device: memory(def.name, self), ..ty }).collect()
    }

    /// Draws the type of an operand of an op whose first operand is `x`, mostly one that fits.
    fn operand(&mut self, def: Op, operand: usize, x: &TensorType) -> TensorType {
        let (rank, dtype) = (x.shape.rank(), x.dtype);
        let channels = x.shape.get(1).copied().unwrap_or(1);
        match (operand, self.below(4)) {
            (0, _) if def.name == "winograd-weights" => {
                TensorType::plain(dtype, [3, 2, self.pick(&[3, 5]), 3])
            }
            (0, _) if def.name == "strassen-weights" => TensorType::plain(dtype, [2, 4, 1, 1]),
            (0, _) => x.clone(),
            (1..5, _) if def.name.ends_with("pointwise-depthwise") => {
                let (dims, layouts) = match operand {
                    1 => (vec![2, channels, 1, 1], ["OIhw16i16o", "OIhw8i8o"]),
                    3 => (vec![2, 1, self.pick(&[1, 2]), 1], ["Oihw16o", "Oihw8o"]),
                    _ => (vec![2], ["plain"; 2]),
                };
                self.weights(def, dtype, dims, layouts)
            }
            (1..5, _) if def.name.ends_with("squeeze-excite") => {
                let (dims, layouts) = match operand {
                    1 => (vec![2, channels, 1, 1], ["Oihw16o", "Oihw8o"]),
                    2 => (vec![2], ["plain"; 2]),
                    3 => (vec![self.pick(&[channels, 2]), 2, 1, 1], ["Oihw16o", "Oihw8o"]),
                    _ => (vec![channels], ["plain"; 2]),
                };
                self.weights(def, dtype, dims, layouts)
            }
            (1, _) if def.name == "native.conv-winograd" => {
                let frequencies = self.pick(&[16, 36, 10]);
                TensorType::plain(dtype, [frequencies, channels, 2])
                    .with_layout(layout(self.pick(&["Cab16c", "Cab8c"])))
            }
            (1, _) if def.name.ends_with("-strassen") => {
                let axis = if def.name.contains("conv") { 1 } else { x.shape.rank().saturating_sub(1) };
                let depth = x.shape.get(axis).map_or(1, |depth| depth.div_ceil(2));
                TensorType::plain(dtype, [self.pick(&[7, 7, 6]), depth, 1])
                    .with_layout(layout(self.pick(&["Cab16c", "Cab8c"])))
            }
            (1, _) if def.name == "native.conv-narrow" => {
                let weights = TensorType::plain(dtype, [2, self.pick(&[2, 3]), 1, 2]);
                weights.with_layout(layout(self.pick(&["Ohwi16o", "Ohwi8o"])))
            }
            (1, _) if def.name == "native.conv-depthwise" => {
                self.weights(def, dtype, vec![channels, 1, 2, 1], ["Oihw16o", "Oihw8o"])
            }
            (1, _) if def.name == "native.conv-nhwc" => {
                self.ty(4, dtype, &["plain"]).with_layout(layout("Ohwi32o"))
            }
            (2, _)
                if ["native.conv-winograd", "native.conv-narrow", "native.conv-strassen"]
                    .contains(&def.name) =>
            {
                TensorType::plain(dtype, [2])
            }
            (_, 0) => x.clone(),
            (1.., _) if def.name.contains("batch-norm") => self.ty(1, dtype, &["plain"]),
            (1, _) if def.name.contains("native.conv-") => self.ty(4, dtype, &LAYOUTS),
            (2, _) if def.name.contains("conv") => self.ty(1, dtype, &["plain"]),
            (1, 1 | 2) if def.name.contains("gather") => self.ty(rank, DType::I64, &["plain"]),
            (_, 1) => self.ty(1, dtype, &["plain"]),
            (_, 2) => self.ty(rank, dtype, &LAYOUTS),
            _ => self.ty(rank, dtype, &["plain"]),
        }
    }

    /// Returns the type of weights; those of a lowered op are in one of two layouts.
    fn weights(&mut self, def: Op, dtype: DType, dims: Vec<usize>, layouts: [&str; 2]) -> TensorType {
        let layouts = if def.is_lowered() { layouts } else { ["plain"; 2] };
        TensorType::plain(dtype, dims).with_layout(layout(self.pick(&layouts)))
    }
}

/// Operands and attributes of ops that random ones seldom fit.
const FITTING: [(&str, &str, &str); 47] = [
    ("matmul-tensor", "f16[2,16], f16[16,8]", ""),
    ("cast-narrow", "f32[2,3]", "to: f8e4m3fn"),
    ("tree-ensemble", "f32[2,3], i32[3,4], f32[3], i32[1], i32[2], f32[2]", "columns: 1"),
    ("find", "i64[2,3], i64[4]", ""),
    ("count-grams", "i64[2,3], i64[4], i64[2], i64[3]", "shortest: 1, longest: 2, skips: 1, columns: 3"),
    ("string-concat", "string[2,3], string[3]", ""),
    ("string-case", "string[2]", r#"case: "lower""#),
    ("string-split-count", "string[2]", r#"delimiter: ",""#),
    ("string-split", "string[2]", r#"delimiter: ",", parts: 3"#),
    ("regex-full-match", "string[2]", r#"pattern: "a+""#),
    ("bitcast", "f32[2,3]", "to: i32"),
    ("scatter-elements", "f32[3,4], i64[2,4], f32[2,4]", "axis: 0"),
    ("scatter-nd", "f32[3,4], i64[2,1], f32[2,4]", ""),
    ("gather-nd", "f32[3,4], i64[2,1]", ""),
    ("top-k-index", "f32[2,5]", "axis: 1, k: 2"),
    ("grid-sample", "f32[1,2,3,3], f32[1,4,4,2]", ""),
    ("roi-align", "f32[1,2,6,6], f32[3,4], i64[3]", "output-size: [2,2], scale: 0.5"),
    (
        "deform-conv",
        "f32[1,2,4,4], f32[3,2,2,2], f32[1,8,3,3], f32[1,4,3,3]",
        "strides: [1,1], pads: [0,0,0,0], dilations: [1,1]",
    ),
    ("col2im", "f32[1,8,4]", "image: [3,3], block: [2,2], strides: [1,1], pads: [0,0,0,0], dilations: [1,1]"),
    ("dft", "f32[2,8,2]", "axis: 1"),
    ("det", "f32[2,3,3]", ""),
    ("non-max-suppression", "f32[1,5,4], f32[1,2,5]", "most: 3, overlap: 0.5, least: 0.0"),
    ("unique-position", "f32[5]", "sorted: 1"),
    ("unique-inverse", "f32[5]", "sorted: 1"),
    ("bit-and", "u8[2,3], u8[3]", ""),
    ("bit-or", "i64[2,3], i64[3]", ""),
    ("bit-xor", "i32[2,3], i32[3]", ""),
    ("bit-not", "u8[2,3]", ""),
    ("shift-left", "u8[2,3], u8[3]", ""),
    ("shift-right", "i64[2,3], i64[3]", ""),
    ("max-pool-index", "f32[1,2,4,4]", "kernel: [2,2], strides: [2,2], dilations: [1,1], pads: [0,0,0,0]"),
    ("matmul-integer", "u8[2,3], i8[3,4], u8[], i8[]", ""),
    ("einsum", "f32[2,3], f32[3,4]", r#"equation: "ab,bc->ca""#),
    ("conv-integer", "u8[1,2,3,3], i8[4,2,1,1], u8[], i8[]", ""),
    ("quantize", "f32[2,3], f32[2,1], u8[]", ""),
    ("dequantize", "i8[2,3], f32[3], i8[3]", ""),
    (
        "lstm-integer",
        "f32[3,2,1,8], i8[1,2,8], f32[1,1,8], f32[1,1,1], f32[1,2,2], f32[1,2,2]",
        r#"activations: "sigmoid 0 0, tanh 0 0, tanh 0 0""#,
    ),
    (
        "lstm",
        "f32[3,2,1,8], f32[1,8,2], f32[1,2,2], f32[1,2,2]",
        r#"activations: "sigmoid 0 0, tanh 0 0, tanh 0 0""#,
    ),
    ("gru", "f32[3,2,1,6], f32[1,6,2], f32[1,2,2]", r#"activations: "sigmoid 0 0, tanh 0 0""#),
    ("rnn", "f32[3,2,1,2], f32[1,2,2], f32[1,2,2]", r#"activations: "tanh 0 0""#),
    (
        "lstm-layer",
        "f32[3,2,5], f32[1,5,4,2], f32[1,2,4,2], f32[1,4,2], f32[1,2,2], f32[1,2,2]",
        "reverse: 1",
    ),
    ("rnn-layer", "f32[3,2,5], f32[2,5,1,2], f32[2,2,1,2], f32[2,1,2], f32[2,2,2]", ""),
    ("matmul-integer-packed", "u8[2,3], i8[3,4], u8[], i8[]", ""),
    ("conv-integer-packed", "u8[1,2,3,3], i8[4,2,1,1], u8[], i8[]", ""),
    (
        "lstm-packed",
        "f32[3,2,1,8], f32[1,8,2], f32[1,2,2], f32[1,2,2]",
        r#"activations: "sigmoid 0 0, tanh 0 0, tanh 0 0""#,
    ),
    ("gru-packed", "f32[3,2,1,6], f32[1,6,2], f32[1,2,2]", r#"activations: "sigmoid 0 0, tanh 0 0""#),
    ("rnn-packed", "f32[3,2,1,2], f32[1,2,2], f32[1,2,2]", r#"activations: "tanh 0 0""#),
    ("conv-depthwise", "f32[1,8,4,4], f32[8,1,3,3], f32[8]", "groups: 8"),
];

/// Returns types and attributes that fit an op by the table, after a random change of at most one of them.
fn fitting(def: Op, random: &mut Random) -> Option<(Attrs, Vec<TensorType>)> {
    let name = def.name.split('.').next_back().unwrap();
    let (_, types, attrs) = FITTING.iter().find(|(op, ..)| *op == name)?;
    let operands: Vec<String> = (0..types.split(", ").count()).map(|at| format!("x{at}")).collect();
    // A lowered op takes its operands in layouts of its own.
    let layouts = match def.lowered.as_ref().map(|lowered| lowered.declaration.layouts) {
        Some(Layouts::Forms([form, ..])) => form.operands,
        _ => &[],
    };
    let layout = |at: usize| match layouts.get(at) {
        Some(&name) if name != "plain" => format!("@{name}"),
        _ => String::new(),
    };
    let device = def.lowered.as_ref().and_then(|lowered| lowered.declaration.device);
    let device = device.map(|family| format!("#{}", Device::Accelerator(family, 0))).unwrap_or_default();
    let inputs = types
        .split(", ")
        .zip(&operands)
        .enumerate()
        .map(|(at, (ty, name))| format!("{name}: {ty}{}{device} = input\n", layout(at)));
    let inputs: String = inputs.collect();
    let text =
        format!("graph g {{\n{inputs}y = {}({}) {{{attrs}}}\nreturn y\n}}", def.name, operands.join(", "));
    let graph = ovolo::graph::text::parse(common::ops(), &text).unwrap_or_else(|why| panic!("{text}: {why}"));
    let mut types: Vec<TensorType> = graph.inputs().map(|(_, input)| input.ty.clone()).collect();
    let mut attrs = graph[graph.outputs().next().unwrap().1].attrs.as_ref().clone();
    match random.below(3) {
        0 => {}
        1 if !def.attrs.is_empty() => {
            let declared = &def.attrs[random.below(def.attrs.len())];
            attrs.set(declared.name, random.attr(declared.name, declared.kind, types[0].shape.rank()));
        }
        _ => {
            let at = random.below(types.len());
            let rank = random.pick(&[0, types[at].shape.rank(), types[at].shape.rank(), 2]);
            types[at] = random.ty(rank, types[at].dtype, &LAYOUTS);
        }
    }
    Some((attrs, types))
}

/// Tries an op on random attributes and types. Returns how often it accepted them; the error says what made it
/// panic.
fn try_often(def: Op, random: &mut Random) -> Result<usize, String> {
    let mut accepted = 0;
    for _ in 0..20_000 {
        let rank = random.pick(&[0, 1, 2, 3, 4, 4, 4, 4]);
        let attrs = random.attrs(def, rank);
        let types = random.operands(def, &attrs, rank);
        let (attrs, types) = match random.below(2) {
            0 => fitting(def, random).unwrap_or((attrs, types)),
            _ => (attrs, types),
        };
        let refs: Vec<&TensorType> = types.iter().collect();
        let outcome = std::panic::catch_unwind(|| def.result(&attrs, &refs));
        let Ok(inferred) = outcome else {
            return Err(format!("infer {}{attrs} {types:?}", def.name));
        };
        let Ok(ty) = inferred else { continue };
        accepted += 1;
        let small = ty.shape.iter().try_fold(1_usize, |n, d| n.checked_mul((*d).max(1)));
        if small.is_none_or(|count| count > 1 << 14) {
            continue;
        }
        let tensors: Vec<Tensor> = types.iter().map(|ty| random.tensor(ty)).collect();
        let outcome = std::panic::catch_unwind(|| {
            let result = def.evaluate(&attrs, &tensors.iter().collect::<Vec<_>>(), &ty);
            assert_eq!(*result.ty(), ty);
            // Padding must be zero.
            let result = result.on(Device::Host);
            assert_eq!(result.to_layout(&Layout::PLAIN).to_layout(&ty.layout).bytes(), result.bytes());
            assert!((def.flops)(&attrs, &refs, &ty) >= 0.0);
        });
        if outcome.is_err() {
            return Err(format!("eval {}{attrs} {refs:?} -> {ty}", def.name));
        }
    }
    Ok(accepted)
}

#[test]
fn no_attribute_and_no_shape_makes_an_op_panic() {
    let ops = all();
    let next = AtomicUsize::new(0);
    // Two threads, so that this test, the longest of all, does not end long after the others. Each op has draws of its own.
    let some = || {
        let (mut never, mut panicked) = (Vec::new(), Vec::new());
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(def) = ops.get(at) else { return (never, panicked) };
            match try_often(*def, &mut Random(7 + at as u64)) {
                Ok(0) => never.push(def.name),
                Ok(_) => {}
                Err(what) => panicked.push(what),
            }
        }
    };
    let parts = std::thread::scope(|scope| {
        let threads = [scope.spawn(some), scope.spawn(some)];
        threads.map(|thread| thread.join().unwrap())
    });
    let panicked: Vec<&String> = parts.iter().flat_map(|(_, panicked)| panicked).collect();
    assert!(panicked.is_empty(), "{panicked:#?}");
    let never: Vec<&&str> = parts.iter().flat_map(|(never, _)| never).collect();
    assert!(never.is_empty(), "never accepted, so not tested: {never:?}");
}

#[test]
fn a_blocked_op_means_its_logical_op() {
    let mut random = Random(3);
    let window = || Attrs::new().ints("strides", &[2, 1]).ints("pads", &[1, 0, 1, 2]);
    let post = Attr::Post(vec![step("add", &[]), step("sigmoid", &[])]);
    let check = |name: &str, attrs: Attrs, plain: &[Tensor], layouts: &[&str], tolerance: f64| {
        let logical = eval(find(name).unwrap().meaning(), attrs.clone(), plain);
        let operands: Vec<Tensor> =
            plain.iter().zip(layouts).map(|(tensor, name)| tensor.to_layout(&layout(name))).collect();
        let blocked = eval(name, attrs, &operands);
        assert_eq!(blocked.ty().shape, logical.ty().shape, "{name}");
        for (a, b) in blocked.to_f64().iter().zip(logical.to_f64()) {
            assert!((a - b).abs() <= tolerance, "{name} {layouts:?}: {a} instead of {b}");
        }
        // Padding is zero, although sigmoid(0) is not.
        assert_eq!(
            blocked.to_layout(&Layout::PLAIN).to_layout(&blocked.ty().layout).bytes(),
            blocked.bytes()
        );
    };
    let mut f32 = |dims: &[usize]| random.tensor(&f32_type(dims));
    let (x, w, bias) = (f32(&[2, 5, 7, 6]), f32(&[19, 5, 3, 2]), f32(&[19]));
    let extra = f32(&[1, 19, 1, 1]);
    for (x_layout, w_layout) in [("nChw16c", "OIhw16i16o"), ("nChw8c", "OIhw8i8o")] {
        let attrs = window().with("post", post.clone());
        let operands = [x.clone(), w.clone(), bias.clone(), extra.clone()];
        check("native.conv-direct", attrs, &operands, &[x_layout, w_layout, "plain", x_layout], 0.0);
    }
    let (image, w) = (f32(&[1, 3, 7, 6]), f32(&[10, 3, 3, 3]));
    check("native.conv-first", window(), &[image, w, f32(&[10])], &["plain", "Ohwi16o", "plain"], 0.0);
    let attrs = window().int("groups", 5);
    check(
        "native.conv-depthwise",
        attrs,
        &[x.clone(), f32(&[5, 1, 3, 3]), f32(&[5])],
        &["nChw8c", "Oihw8o", "plain"],
        0.0,
    );
    let attrs = window().with("inner", Attr::Post(vec![step("sigmoid", &[])])).with("post", post);
    let (w, v) = (f32(&[19, 5, 1, 1]), f32(&[19, 1, 3, 2]));
    check(
        "native.pointwise-depthwise",
        attrs,
        &[x.clone(), w, bias, v, f32(&[19]), extra],
        &["nChw8c", "OIhw8i8o", "plain", "Oihw8o", "plain", "nChw8c"],
        0.0,
    );
    let gates = Attrs::new().with("inner", Attr::Post(vec![step("silu", &[])]));
    let gates = gates.with("gate", Attr::Post(vec![step("sigmoid", &[])]));
    check(
        "native.squeeze-excite",
        gates,
        &[x.clone(), f32(&[3, 5, 1, 1]), f32(&[3]), f32(&[5, 3, 1, 1]), f32(&[5])],
        &["nChw8c", "Oihw8o", "plain", "Oihw8o", "plain"],
        0.0,
    );
    let pool = || window().ints("kernel", &[3, 3]);
    for blocks in ["nChw16c", "nChw8c", "nhwc"] {
        check("native.max-pool", pool(), std::slice::from_ref(&x), &[blocks], 0.0);
        check("native.avg-pool", pool(), std::slice::from_ref(&x), &[blocks], 0.0);
        check(
            "native.reduce-mean",
            Attrs::new().ints("axes", &[2, 3]),
            std::slice::from_ref(&x),
            &[blocks],
            0.0,
        );
    }
    let (a, b) = (f32(&[1, 8, 2, 3]), f32(&[1, 16, 2, 3]));
    check("native.concat", Attrs::new().int("axis", 1), &[a, b], &["nChw8c", "nChw8c"], 0.0);
    check("native.matmul-packed", Attrs::new(), &[f32(&[2, 3, 4]), f32(&[4, 33])], &["plain", "Ba32b"], 0.0);
}

#[test]
fn layouts_round_trip_and_pad_with_zero() {
    let mut random = Random(5);
    for dtype in [DType::F32, DType::I64, DType::U8, DType::BF16] {
        let plain = random.tensor(&TensorType::plain(dtype, [3, 5, 2, 3]));
        for name in LAYOUTS.into_iter().filter(|name| layout(name).rank() == Some(4)) {
            let packed = eval(
                "pack",
                Attrs::new().with("layout", Attr::Layout(layout(name))),
                std::slice::from_ref(&plain),
            );
            let mut index = vec![0; 4];
            let size = dtype.size();
            for element in plain.bytes().chunks_exact(size) {
                let at = layout(name).offset(&plain.ty().shape, &index) * size;
                assert_eq!(&packed.bytes()[at..at + size], element, "{name} {index:?}");
                ovolo::tensor::advance(&mut index, &plain.ty().shape);
            }
            let zeros = |bytes: &[u8]| bytes.chunks_exact(size).filter(|e| e.iter().all(|b| *b == 0)).count();
            let padding = (packed.bytes().len() - plain.bytes().len()) / size;
            assert_eq!(zeros(packed.bytes()), zeros(plain.bytes()) + padding, "{name}");
            assert_eq!(eval("unpack", Attrs::new(), &[packed]).bytes(), plain.bytes(), "{name}");
        }
    }
}

#[test]
fn convolution_by_hand() {
    let x = f32s([1, 1, 3, 3], &[1., 2., 3., 4., 5., 6., 7., 8., 9.]);
    let w = f32s([1, 1, 2, 2], &[1., 0., 0., -1.]);
    let conv = |attrs: Attrs| eval("conv", attrs, &[x.clone(), w.clone(), f32s([1], &[0.5])]);
    assert_eq!(conv(Attrs::new()).to_f64(), [-3.5, -3.5, -3.5, -3.5]);
    let padded = Attrs::new().ints("pads", &[1, 0, 0, 1]).ints("strides", &[2, 1]);
    assert_eq!(conv(padded).to_f64(), [-1.5, -2.5, 0.5, -3.5, -3.5, 6.5]);
    assert_eq!(conv(Attrs::new().ints("dilations", &[2, 2])).to_f64(), [-7.5]);
    // The second convolution pads the result of the first with zeros, not with the step's value of zero,
    // which is 0.5.
    let inner = Attr::Post(vec![step("sigmoid", &[])]);
    let pair = eval(
        "pointwise-depthwise",
        Attrs::new().with("inner", inner).ints("pads", &[1, 0, 0, 0]),
        &[
            f32s([1, 1, 1, 1], &[2.]),
            f32s([1, 1, 1, 1], &[3.]),
            f32s([1], &[-6.]),
            f32s([1, 1, 2, 1], &[100., 4.]),
            f32s([1], &[1.]),
        ],
    );
    assert_eq!(pair.to_f64(), [3.]);
    let grouped = eval(
        "conv",
        Attrs::new().int("groups", 2),
        &[
            f32s([1, 2, 1, 2], &[1., 2., 3., 4.]),
            f32s([4, 1, 1, 1], &[1., 10., 100., -1.]),
            f32s([4], &[0.; 4]),
        ],
    );
    assert_eq!(grouped.to_f64(), [1., 2., 10., 20., 300., 400., -3., -4.]);
}

#[test]
fn pools_by_hand() {
    let x = f32s([1, 1, 3, 3], &[-1., -2., -3., -4., -5., -6., -7., -8., -9.]);
    let attrs = || Attrs::new().ints("kernel", &[2, 2]).ints("strides", &[2, 2]).ints("pads", &[1, 1, 0, 0]);
    assert_eq!(eval("max-pool", attrs(), std::slice::from_ref(&x)).to_f64(), [-1., -2., -4., -5.]);
    assert_eq!(eval("avg-pool", attrs(), std::slice::from_ref(&x)).to_f64(), [-1., -2.5, -5.5, -7.]);
    let counted = attrs().int("count-include-pad", 1);
    assert_eq!(eval("avg-pool", counted, std::slice::from_ref(&x)).to_f64(), [-0.25, -1.25, -2.75, -7.]);
    let ceil = Attrs::new().ints("kernel", &[2, 2]).ints("strides", &[2, 2]).ints("ceil-extra", &[1, 1]);
    assert_eq!(eval("avg-pool", ceil.int("count-include-pad", 1), &[x]).to_f64(), [-3., -4.5, -7.5, -9.]);
}

#[test]
fn products_by_hand_and_exact_in_integers() {
    let a = f32s([2, 1, 2], &[1., 2., 3., 4.]);
    let b = f32s([2, 2], &[1., 10., 100., 1000.]);
    assert_eq!(eval("matmul", Attrs::new(), &[a, b]).to_f64(), [201., 2010., 403., 4030.]);
    let big = (1 << 53) + 1;
    let exact = eval("matmul", Attrs::new(), &[i64s([1, 2], &[big, 1]), i64s([2, 1], &[1, 1])]);
    assert_eq!(exact.to_i64().unwrap(), [big + 1]);
    let equation = |text: &str| Attrs::new().with("equation", Attr::Str(text.into()));
    let (a, b) = (f32s([2, 2], &[1., 2., 3., 4.]), f32s([2, 2], &[1., 10., 100., 1000.]));
    assert_eq!(
        eval("einsum", equation("ab,bc->ca"), &[a.clone(), b.clone()]).to_f64(),
        [201., 403., 2010., 4030.]
    );
    assert_eq!(eval("einsum", equation("ab,ab->b"), &[a.clone(), b.clone()]).to_f64(), [301., 4020.]);
    assert_eq!(eval("einsum", equation("ab,cd,->a"), &[a, b, f32s([], &[2.])]).to_f64(), [6666., 15554.]);
    let exact = eval("einsum", equation("ab,b->a"), &[i64s([1, 2], &[big, 1]), i64s([2], &[1, 1])]);
    assert_eq!(exact.to_i64().unwrap(), [big + 1]);
}

#[test]
fn integers_do_not_pass_through_floats() {
    let big = (1_i64 << 53) + 1;
    let x = || i64s([3], &[big, -big, big - 2]);
    for (op, want) in
        [("abs", [big, big, big - 2]), ("relu", [big, 0, big - 2]), ("floor", [big, -big, big - 2])]
    {
        assert_eq!(eval(op, Attrs::new(), &[x()]).to_i64().unwrap(), want, "{op}");
    }
    let clipped = eval("clip", Attrs::new().float("min", -3.0).float("max", f64::INFINITY), &[x()]);
    assert_eq!(clipped.to_i64().unwrap(), [big, -3, big - 2]);
    let close = i64s([2], &[big - 1, big]);
    assert_eq!(eval("arg-max", Attrs::new().int("axis", 0), &[close]).to_i64().unwrap(), [1]);
    let sum = eval("reduce-sum", Attrs::new().ints("axes", &[0]), &[i64s([2], &[i64::MAX, 1])]);
    assert_eq!(sum.to_i64().unwrap(), [i64::MIN]);
    let quotient = eval("div", Attrs::new(), &[i64s([3], &[-7, 7, 1]), i64s([3], &[2, -2, 0])]);
    assert_eq!(quotient.to_i64().unwrap(), [-3, -3, 0]);
    let remainder = |fmod| {
        let attrs = Attrs::new().int("fmod", fmod);
        eval("mod", attrs, &[i64s([2], &[-7, 7]), i64s([2], &[3, -3])]).to_i64().unwrap()
    };
    assert_eq!((remainder(0), remainder(1)), (vec![2, -2], vec![-1, 1]));
}

#[test]
fn a_remainder_of_floats_has_the_sign_of_its_divisor() {
    let infinity = f32::INFINITY;
    let pairs = [
        (0.0, -2.0, -0.0),
        (-0.0, 2.0, 0.0),
        (-3.0, infinity, infinity),
        (3.0, infinity, 3.0),
        (1.0, -infinity, -infinity),
        (-5.5, 2.0, 0.5),
        (5.5, -2.0, -0.5),
    ];
    for (a, b, want) in pairs {
        let got = eval("mod", Attrs::new(), &[f32s([1], &[a]), f32s([1], &[b])]).to_f64()[0];
        #[allow(clippy::cast_possible_truncation)]
        let got = got as f32;
        assert_eq!(got.to_bits(), f32::to_bits(want), "{a} mod {b} is {got}");
    }
    for (a, b) in [(infinity, 2.0), (-infinity, 2.0), (1.0, 0.0), (f32::NAN, 2.0), (1.0, f32::NAN)] {
        assert!(eval("mod", Attrs::new(), &[f32s([1], &[a]), f32s([1], &[b])]).to_f64()[0].is_nan());
    }
}

#[test]
fn operands_broadcast() {
    let column = f32s([2, 1], &[10., 20.]);
    let row = f32s([3], &[1., 2., 3.]);
    assert_eq!(
        eval("add", Attrs::new(), &[column.clone(), row.clone()]).to_f64(),
        [11., 12., 13., 21., 22., 23.]
    );
    assert_eq!(eval("sub", Attrs::new(), &[f32s([0; 0], &[1.]), row]).to_f64(), [0., -1., -2.]);
    let wide = eval("expand", Attrs::new().ints("shape", &[2, 2, 3]), &[column]);
    assert_eq!(wide.to_f64(), [10., 10., 10., 20., 20., 20.].repeat(2));
    let middle = eval("mul", Attrs::new(), &[f32s([2, 1, 2], &[1., 2., 3., 4.]), f32s([2, 1], &[1., -1.])]);
    assert_eq!(middle.to_f64(), [1., 2., -1., -2., 3., 4., -3., -4.]);
    assert_eq!(eval("add", Attrs::new(), &[f32s([0, 2], &[]), f32s([1, 1], &[1.])]).ty(), &f32_type([0, 2]));
}

#[test]
fn chains_run_step_by_step() {
    let chain =
        Attr::Post(vec![step("add", &[]), step("clip", &[0.0, 6.0]), step("rdiv", &[]), step("rsub", &[])]);
    let attrs = Attrs::new().with("post", chain);
    let x = f32s([2, 2], &[-5., 1., 3., 30.]);
    let extras = [f32s([2], &[1., 2.]), f32s([2, 1], &[12., 24.]), f32s([0; 0], &[1.])];
    let [a, b, c] = extras;
    let result = eval("map", attrs, &[x, a, b, c]).to_f64();
    assert_eq!(result, [f64::NEG_INFINITY, -3., -5., -3.]);
    let attrs = || Attrs::new().with("post", Attr::Post(vec![step("add", &[])]));
    let wide = refusal("map", attrs(), &[f32_type([1, 2]), f32_type([3, 2])]);
    assert!(wide.contains("`add`") && wide.contains("f32[3,2]") && wide.contains("f32[1,2]"), "{wide}");
    let lane = f32_type([1, 1, 4, 4]).with_layout(layout("nChw16c"));
    let blocked = f32_type([1, 3, 4, 4]).with_layout(layout("nChw16c"));
    assert!(infer("map", attrs(), &[blocked.clone(), lane]).is_err(), "it would broadcast over padding");
    assert!(infer("map", attrs(), &[blocked.clone(), f32_type([1])]).is_ok());
    assert!(infer("map", attrs(), &[blocked, f32_type([3, 1, 1])]).is_err(), "plain, and not one element");
}

#[test]
fn ops_that_move_elements_by_hand() {
    let x = || i64s([2, 3], &[0, 1, 2, 3, 4, 5]);
    let ints = |op, attrs, operands: &[Tensor]| eval(op, attrs, operands).to_i64().unwrap();
    assert_eq!(ints("transpose", Attrs::new().ints("perm", &[1, 0]), &[x()]), [0, 3, 1, 4, 2, 5]);
    let back = Attrs::new().ints("starts", &[1, 2]).ints("sizes", &[2, 2]).ints("steps", &[-1, -2]);
    assert_eq!(ints("slice", back, &[x()]), [5, 3, 2, 0]);
    assert_eq!(ints("gather", Attrs::new().int("axis", 1), &[x(), i64s([2], &[-1, 0])]), [2, 0, 5, 3]);
    assert_eq!(
        ints("gather-elements", Attrs::new().int("axis", 0), &[x(), i64s([1, 3], &[1, 0, -1])]),
        [3, 1, 5]
    );
    assert_eq!(
        ints("concat", Attrs::new().int("axis", 1), &[x(), i64s([2, 1], &[8, 9])]),
        [0, 1, 2, 8, 3, 4, 5, 9]
    );
    let pads = Attrs::new().ints("pads", &[1, 0, 0, 2]);
    assert_eq!(ints("pad", pads, &[x(), i64s([0; 0], &[7])]), [7, 7, 7, 7, 7, 0, 1, 2, 7, 7, 3, 4, 5, 7, 7]);
    let whole = x();
    let same = eval("reshape", Attrs::new().ints("shape", &[3, 2]), std::slice::from_ref(&whole));
    assert_eq!(same.bytes().as_ptr(), whole.bytes().as_ptr(), "a reshape shares the bytes");
}

#[test]
fn normalisations_by_hand() {
    let near = |got: Vec<f64>, want: &[f64]| {
        assert_eq!(got.len(), want.len());
        assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-6), "{got:?} instead of {want:?}");
    };
    let x = f32s([2, 2], &[0., 2_f32.ln(), 1000., 1000.]);
    near(
        eval("softmax", Attrs::new().int("axis", 1), std::slice::from_ref(&x)).to_f64(),
        &[1. / 3., 2. / 3., 0.5, 0.5],
    );
    near(
        eval("log-softmax", Attrs::new().int("axis", 1), &[x]).to_f64(),
        &[-(3_f64.ln()), 2_f64.ln() - 3_f64.ln(), -(2_f64.ln()), -(2_f64.ln())],
    );
    let x = || f32s([1, 2, 2], &[1., 3., 5., 9.]);
    let pair = |a, b| f32s([2], &[a, b]);
    let exact = || Attrs::new().float("epsilon", 0.0);
    near(
        eval("layer-norm", exact().int("axis", 2), &[x(), pair(1., 2.), pair(0., 1.)]).to_f64(),
        &[-1., 3., -1., 3.],
    );
    near(eval("instance-norm", exact(), &[x(), pair(1., 2.), pair(0., 1.)]).to_f64(), &[-1., 1., -1., 3.]);
    let batch = [x(), pair(2., 1.), pair(1., 0.), pair(1., 5.), pair(4., 16.)];
    near(eval("batch-norm", exact(), &batch).to_f64(), &[1., 3., 0., 1.]);
    let lrn = Attrs::new().int("size", 2).float("alpha", 2.0).float("beta", 1.0).float("bias", 1.0);
    near(eval("lrn", lrn, &[f32s([1, 2, 1], &[1., 2.])]).to_f64(), &[1. / 6., 2. / 5.]);
    // With equal scores, attention is the mean of the values that the mask allows.
    let [q, k] = [f32s([1, 1, 1, 1], &[0.]), f32s([1, 1, 3, 1], &[1., 2., 3.])];
    let [v, mask] = [f32s([1, 1, 3, 1], &[3., 5., 100.]), f32s([3], &[0., 0., f32::NEG_INFINITY])];
    near(eval("attention", Attrs::new().float("scale", 1.0), &[q, k, v, mask]).to_f64(), &[4.]);
}

#[test]
fn functions_have_their_values() {
    let cases = [
        ("erf", &[][..], 1.0, 0.842_700_792_949_714_9),
        ("erf", &[], -3.0, -0.999_977_909_503_001_4),
        ("gelu", &[], 1.0, 0.841_344_746_068_542_9),
        ("gelu-tanh", &[], 1.0, 0.841_191_990_607_476_4),
        ("round", &[], 2.5, 2.0),
        ("round", &[], -1.5, -2.0),
        ("sign", &[], -0.5, -1.0),
        ("softplus", &[], 1000.0, 1000.0),
        ("mish", &[], 1.0, 0.865_098_388_267_322_1),
        ("hard-swish", &[], 1.0, 2.0 / 3.0),
        ("hard-sigmoid", &[0.2, 0.5], 1.0, 0.7),
        ("elu", &[2.0], -1.0, -1.264_241_117_657_115_4),
        ("leaky-relu", &[0.1], -2.0, -0.2),
        ("silu", &[], 1.0, 0.731_058_578_630_004_9),
        ("clip", &[0.0, 6.0], 7.0, 6.0),
    ];
    for (op, parameters, x, want) in cases {
        let function = scalar::built_in().iter().find(|function| function.name() == op).unwrap();
        let got = function.evaluate(parameters, &[x]);
        assert!((got - want).abs() < 1e-12, "{op}({x}) is {got} instead of {want}");
    }
}

#[test]
fn refusals_name_the_operand_or_attribute_and_the_shapes() {
    let x = || f32_type([1, 3, 8, 8]);
    let einsum = |text: &str| {
        let equation = Attrs::new().with("equation", Attr::Str(text.into()));
        refusal("einsum", equation, &[f32_type([2, 3]), f32_type([4, 2])])
    };
    let conv = |attrs, w: [usize; 4], bias| refusal("conv", attrs, &[x(), f32_type(w), f32_type([bias])]);
    let cases = [
        (conv(Attrs::new(), [4, 2, 3, 3], 4), "weights f32[4,2,3,3]"),
        (conv(Attrs::new(), [4, 3, 3, 3], 5), "bias f32[5]"),
        (conv(Attrs::new(), [4, 3, 9, 9], 4), "window of 9"),
        (conv(Attrs::new().ints("strides", &[1]), [4, 3, 3, 3], 4), "`strides`"),
        (conv(Attrs::new().ints("pads", &[0, -1, 0, 0]), [4, 3, 3, 3], 4), "`pads`"),
        (conv(Attrs::new().int("groups", 0), [4, 3, 3, 3], 4), "`groups`"),
        (refusal("matmul", Attrs::new(), &[f32_type([2, 3]), f32_type([4, 2])]), "3 columns meet 4 rows"),
        (einsum("ab,bc"), "no arrow"),
        (einsum("ab,b?->a"), "`?`, which is no letter"),
        (einsum("ab,bb->a"), "`b` twice"),
        (einsum("ab,bc->d"), "`d` in the result and in no operand"),
        (einsum("ab->a"), "1 operands, and there are 2"),
        (einsum("ab,b->a"), "operand 1 is f32[4,2], for which the equation has `b`"),
        (einsum("ab,bc->a"), "operand 1 is f32[4,2], in which `b` has size 4 and before 3"),
        (refusal("add", Attrs::new(), &[f32_type([2]), f32_type([3])]), "operand 1 is f32[3]"),
        (
            refusal("add", Attrs::new(), &[f32_type([2]), TensorType::plain(DType::I64, [2])]),
            "operand 1 is i64[2]",
        ),
        (refusal("softmax", Attrs::new().int("axis", 4), &[x()]), "`axis` is 4"),
        (refusal("transpose", Attrs::new().ints("perm", &[0, 0]), &[f32_type([2, 2])]), "`perm`"),
        (refusal("reshape", Attrs::new().ints("shape", &[5]), &[x()]), "192 elements"),
        (refusal("reduce-sum", Attrs::new().ints("axes", &[1, 0]), &[x()]), "`axes`"),
        (refusal("gather", Attrs::new().int("axis", 0), &[x(), x()]), "operand 1 is f32[1,3,8,8]"),
        (refusal("pack", Attrs::new().with("layout", Attr::Layout(layout("Ba32b"))), &[x()]), "Ba32b"),
        (refusal("concat", Attrs::new().int("axis", 1), &[x(), f32_type([1, 3, 8, 7])]), "operand 1"),
    ];
    for (message, part) in cases {
        assert!(message.contains(part), "`{message}` does not contain `{part}`");
    }
}

#[test]
fn attributes_of_one_name_are_of_one_kind() {
    // `*rest` copies attributes from one op to another by name.
    let mut kinds = std::collections::BTreeMap::new();
    for def in all() {
        for attr in &def.attrs {
            let (kind, first) = kinds.entry(attr.name).or_insert((attr.kind, def.name));
            assert_eq!(*kind, attr.kind, "`{}` of `{first}` and of `{}`", attr.name, def.name);
        }
    }
}

#[test]
fn transposed_convolutions_by_hand() {
    let x = f32s([1, 1, 2, 2], &[1., 2., 3., 4.]);
    let w = f32s([1, 1, 2, 2], &[1., 10., 100., 1000.]);
    let run = |attrs: Attrs| eval("conv-transpose", attrs, &[x.clone(), w.clone(), f32s([1], &[0.5])]);
    let whole = [1.5, 12.5, 20.5, 103.5, 1234.5, 2040.5, 300.5, 3400.5, 4000.5];
    assert_eq!(run(Attrs::new()).to_f64(), whole);
    let cut = Attrs::new().ints("pads", &[1, 1, 0, 1]);
    assert_eq!(run(cut).to_f64(), [1234.5, 3400.5]);
    let apart = Attrs::new().ints("strides", &[1, 2]).ints("output-padding", &[0, 1]);
    let rows =
        [1.5, 10.5, 2.5, 20.5, 0.5, 103.5, 1030.5, 204.5, 2040.5, 0.5, 300.5, 3000.5, 400.5, 4000.5, 0.5];
    assert_eq!(run(apart).to_f64(), rows);
}
