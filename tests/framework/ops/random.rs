//! Random attributes and operands: none makes an op panic.

use super::{all, find, layout, step};
use crate::common;
use ovolo::attr::{Attr, AttrKind, Attrs, Float};
use ovolo::op::{Arity, Draw, Layouts, Op, Sample, post};
use ovolo::tensor::{DType, Device, Layout, Tensor, TensorType};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) const LAYOUTS: [&str; 12] = [
    "plain",
    "nChw16c",
    "nChw8c",
    "nhwc",
    "OIhw16i16o",
    "OIhw8i8o",
    "Ohwi16o",
    "Oihw16o",
    "Ba32b",
    "plain",
    "Ba4b.1",
    "abcd.2",
];

/// Random numbers that are the same in every run.
pub(super) struct Random(pub u64);

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

    pub(super) fn tensor(&mut self, ty: &TensorType) -> Tensor {
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
        def.complete(attrs)
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
            (1, _) if def.name == "native.conv-depthwise-nhwc" => {
                self.weights(def, dtype, vec![channels, 1, 2, 1], ["Oihw16o"; 2])
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

/// What an op draws its samples from.
struct Draws<'a> {
    random: &'a mut Random,
    op: Op,
    wanted: TensorType,
}

impl Draw for Draws<'_> {
    fn below(&mut self, limit: usize) -> usize {
        self.random.below(limit)
    }

    fn size(&mut self) -> usize {
        self.random.pick(&[1, 2, 3, 8])
    }

    fn usual(&mut self) -> bool {
        self.random.below(2) == 0
    }

    fn wanted(&self) -> &TensorType {
        &self.wanted
    }

    fn known(&self, _: usize) -> Option<&TensorType> {
        None
    }

    fn fixed(&self, _: &str) -> Option<&Attr> {
        None
    }

    fn operands(&self) -> RangeInclusive<usize> {
        match self.op.arity {
            Arity::Exactly(count) => count..=count,
            Arity::Post(count) | Arity::AtLeast(count) => count..=count + 1,
            Arity::Between(least, most) => least..=most,
        }
    }

    fn float(&mut self, name: &str) -> f64 {
        match self.op.attr(name).and_then(|def| def.default.clone()) {
            Some(Attr::Float(Float(default))) if self.usual() => default,
            _ => 0.5,
        }
    }

    fn post(&mut self, _: usize, result: &TensorType) -> Option<Sample> {
        let (steps, operands) = match self.below(2) {
            0 => (vec![step("relu", &[])], vec![]),
            _ => (vec![step("mul", &[])], vec![result.clone()]),
        };
        Some(Sample::new(Attrs::new().with("post", Attr::Post(steps)), operands))
    }
}

/// Draws a sample of an op by the sampler that its logical op brings. A lowered op takes its operands in layouts of its
/// own.
fn sampled(def: Op, random: &mut Random) -> Option<(Attrs, Vec<TensorType>)> {
    let sample = def.logical().sample?;
    let rank = random.below(4);
    let wanted = random.ty(rank, DType::F32, &["plain"]);
    let sample = sample(&mut Draws { random, op: def.logical(), wanted })?;
    let known = sample.attrs.iter().filter(|(name, _)| def.attr(name).is_some());
    let attrs = known.fold(Attrs::new(), |attrs, (name, value)| attrs.with(name, value.clone()));
    let form = match def.lowered.as_ref().map(|lowered| lowered.declaration.layouts) {
        Some(Layouts::Forms(forms) | Layouts::Typed { samples: forms, .. }) if !forms.is_empty() => {
            Some(random.pick(forms))
        }
        _ => None,
    };
    let placed = sample.operands.into_iter().enumerate().map(|(at, (ty, _))| {
        let layout = form.map(|form| layout(form.operand(at)));
        let layout = layout.filter(|layout| layout.rank().is_none_or(|rank| rank == ty.shape.rank()));
        let ty = TensorType { device: memory(def.name, random), ..ty };
        layout.map_or_else(|| ty.clone(), |layout| ty.with_layout(layout))
    });
    let types = placed.collect();
    Some((def.complete(attrs), types))
}

/// Operands and attributes of ops that random ones seldom fit, and that bring no sampler.
const FITTING: [(&str, &str, &str); 11] = [
    ("matmul-tensor", "f16[2,16], f16[16,8]", ""),
    ("matmul-sparse", "f32[2,16], f32[16,8]", ""),
    ("conv-sparse", "f32[1,8,4,4], f32[8,8,1,1], f32[8]", ""),
    ("einsum", "f32[2,3], f32[3,4]", r#"equation: "ab,bc->ca""#),
    ("conv-depthwise", "f32[1,8,4,4], f32[8,1,3,3], f32[8]", "groups: 8"),
    ("conv-depthwise-nhwc", "f32[1,8,4,4], f32[8,1,3,3], f32[8]", "groups: 8"),
    ("transpose-view", "f32[1,2,3,4]", "perm: [0,3,1,2]"),
    ("conv-transpose-direct", "f32[1,8,4,4], f32[8,8,3,3], f32[8]", ""),
    ("conv-transpose-depthwise", "f32[1,8,4,4], f32[8,1,3,3], f32[8]", "groups: 8"),
    ("channel-sums", "f32[1,8,4,4]", "axes: [0,2,3], keepdims: 0"),
    ("conv-requantize-coupled", "u8[1,4,3,3]@nhwc, u8[1,148], u8[], i8[], f32[], u8[]", "kernel: [1,1]"),
];

/// Returns types and attributes that fit an op by the table.
fn table_entry(def: Op) -> Option<(Attrs, Vec<TensorType>)> {
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
    let types = graph.inputs().map(|(_, input)| input.ty.clone()).collect();
    Some((graph[graph.outputs().next().unwrap().1].attrs.as_ref().clone(), types))
}

/// Returns fitting types and attributes after a random change of at most one of them.
fn changed(def: Op, fitting: (Attrs, Vec<TensorType>), random: &mut Random) -> (Attrs, Vec<TensorType>) {
    let (mut attrs, mut types) = fitting;
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
    (attrs, types)
}

/// How often each op is tried, and how often where `OVOLO_SLOW_TESTS` is set or where no try was accepted before.
const TRIES: usize = 5_000;
const MOST_TRIES: usize = 20_000;

/// Tries an op on random attributes and types. Returns how often it accepted them; the error says what made it
/// panic.
fn try_often(def: Op, tries: usize, random: &mut Random) -> Result<usize, String> {
    let entry = table_entry(def);
    let mut accepted = 0;
    for number in 0..MOST_TRIES {
        if number >= tries && accepted > 0 {
            break;
        }
        let rank = random.pick(&[0, 1, 2, 3, 4, 4, 4, 4]);
        let attrs = random.attrs(def, rank);
        let types = random.operands(def, &attrs, rank);
        let fitting = match random.below(2) {
            0 => entry.clone().or_else(|| sampled(def, random)),
            _ => None,
        };
        let (attrs, types) = fitting.map_or((attrs, types), |fitting| changed(def, fitting, random));
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
    let tries = common::draws(MOST_TRIES, TRIES);
    let next = AtomicUsize::new(0);
    // Two threads, so that this test, the longest of all, does not end long after the others. Each op has draws of its own.
    let some = || {
        let (mut never, mut panicked) = (Vec::new(), Vec::new());
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(def) = ops.get(at) else { return (never, panicked) };
            match try_often(*def, tries, &mut Random(7 + at as u64)) {
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
