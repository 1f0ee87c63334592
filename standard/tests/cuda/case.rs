//! Calls of every op that has generated kernels, with many shapes and types.

#[path = "case/product.rs"]
mod product;

use ovolo::attr::{Attr, Attrs, Float, Step};
use ovolo::backend::Call;
use ovolo::op::{self, OpError, Ops};
use ovolo::registry::Registry;
use ovolo::scalar::{self, Function};
use ovolo::tensor::{DType, Device, Layout, Tensor, TensorType};
use ovolo_cuda::{FAMILY, KernelJob};
use std::sync::LazyLock;

/// The types of the kernels.
pub const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];
pub const INTEGERS: [DType; 4] = [DType::I32, DType::I64, DType::I8, DType::U8];

/// One call with its operands.
pub struct Case {
    pub op: &'static str,
    pub attrs: Attrs,
    pub operands: Vec<Tensor>,
    pub ty: TensorType,
}

impl Case {
    /// Returns a call of an op; `None` if the op refuses it.
    pub fn new(op: &'static str, attrs: Attrs, operands: Vec<Tensor>) -> Option<Self> {
        let def = ops().get(op).unwrap();
        let attrs = op::complete(def, attrs);
        // An op of the device takes operands that lie there. The values of a case are on the host.
        let device = if def.device().is_some() { Device::Accelerator(FAMILY, 0) } else { Device::Host };
        let there = |operand: &Tensor| TensorType { device, ..operand.ty().clone() };
        let types: Vec<TensorType> = operands.iter().map(there).collect();
        let ty = def.result(&attrs, &types.iter().collect::<Vec<_>>()).ok()?;
        Some(Self { op, attrs, operands, ty: TensorType { device: Device::Host, ..ty } })
    }

    /// Returns the name of the op of the backend that computes the call.
    pub fn lowered(&self) -> String {
        if self.op.starts_with("cuda.") { self.op.to_owned() } else { format!("cuda.{}", self.op) }
    }

    /// The kernels of the call.
    pub fn job(&self) -> Result<KernelJob, OpError> {
        let op = ops().get(self.op).unwrap();
        let types: Vec<&TensorType> = self.operands.iter().map(Tensor::ty).collect();
        ovolo_cuda::job(&Call { op, attrs: &self.attrs, inputs: &types, output: &self.ty, threads: 1 })
    }

    /// The result of the reference evaluation.
    pub fn reference(&self) -> Tensor {
        let operands: Vec<&Tensor> = self.operands.iter().collect();
        ops().get(self.op).unwrap().evaluate(&self.attrs, &operands, &self.ty)
    }

    /// Describes the call in one line.
    pub fn name(&self) -> String {
        let types: Vec<String> = self.operands.iter().map(|operand| operand.ty().to_string()).collect();
        format!("{}({}){} -> {}", self.op, types.join(", "), self.attrs, self.ty)
    }
}

/// Functions of two numbers that only their formulas define.
const TABLE: &str = r#"[
    Function(name: "hypot", doc: "", formula: "sqrt(x * x + y * y)", commutative: true),
    Function(
        name: "huber",
        doc: "",
        parameters: [Parameter(name: "delta", default: 1.0, doc: "where it becomes a line")],
        formula: "if(abs(x - y) < delta, 0.5 * (x - y) * (x - y), delta * (abs(x - y) - 0.5 * delta))",
    ),
    Function(name: "rests", doc: "", formula: "if(x == y, 0, remainder(x, 3) - modulo(y, 2) + pow(abs(y), 2))"),
    Function(name: "truths", doc: "", formula: "equal(x, y) + 2 * less(x, y) + 4 * greater-equal(x, y) + 32 * and(x, y)
        + 64 * or(x, 0) + 128 * xor(x, y) + max(x, y) - min(x, y)"),
    Function(name: "bits", doc: "", formula: "bit-and(x, y) + bit-or(x, y) - bit-xor(x, y) + shift-left(x, 2)
        - shift-right(x, y)"),
    Function(name: "bounded", doc: "", formula: "-max(min(x, y), 2)"),
]"#;

/// Ovolo's ops, and those of [`TABLE`].
pub fn ops() -> &'static Ops {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
        let mut registry = Registry::clone(crate::common::registry());
        registry.add_functions("ops/test.ron", TABLE).unwrap();
        registry
    });
    REGISTRY.ops()
}

/// Functions of two numbers by their formulas, as ops, as steps, and their gradients.
pub fn formulas(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    for name in ["hypot", "huber", "rests", "truths", "bits", "bounded"] {
        let function = ops().get(name).unwrap().function().unwrap();
        for dtype in FLOATS.into_iter().chain(INTEGERS) {
            let (a, b) = r.pair();
            // Jumps are where rounding decides.
            let whole = matches!(name, "rests" | "truths" | "bits");
            let kind = if whole { DType::I8 } else { dtype };
            let operands =
                [a, b].map(|shape| Tensor::from_f64(dtype, &shape[..], &r.tensor(kind, &shape).to_f64()));
            let (a, b) = (operands[0].ty().shape.clone(), operands[1].ty().shape.clone());
            let unsigned = dtype == DType::U8 && whole;
            if !unsigned {
                cases.push(Case::new(name, Attrs::new(), operands.to_vec()));
            }
            if dtype.is_float() && !whole {
                let above = r.tensor(dtype, &a.broadcast(&b).unwrap());
                let step = Step { op: function.into(), ..step_of(function) };
                for operand in 0..2 {
                    let attrs =
                        Attrs::new().with("of", Attr::Post(vec![step.clone()])).int("operand", operand);
                    let operands = vec![operands[0].clone(), operands[1].clone(), above.clone()];
                    cases.push(Case::new("grad", attrs, operands));
                }
            }
        }
    }
    let step = |name: &str, parameters: &[f64]| {
        let parameters = parameters.iter().map(|one| Float(*one)).collect();
        Step { op: ops().step(name).unwrap(), parameters }
    };
    let shape = [3, 33];
    let mut operand = || r.positive(DType::F32, &shape);
    let chain = vec![step("hypot", &[]), step("huber", &[0.5]), step("rhuber", &[0.75]), step("tanh", &[])];
    cases.push(Case::new("map", post(chain), vec![operand(), operand(), operand(), operand()]));
    let tree = vec![step("neg", &[]), step("push", &[]), step("exp", &[]), step("pop-huber", &[0.5])];
    cases.push(Case::new("tree", post(tree), vec![operand(), operand()]));
    cases
}

/// Seeded random numbers.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n.max(1) as u64).unwrap()
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Returns a size: one, an odd one, or one that fills vectors.
    pub fn size(&mut self) -> usize {
        self.pick(&[1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 32, 33])
    }

    /// Returns a shape of this rank with at most `most` elements, sometimes an empty one.
    pub fn shape(&mut self, rank: usize, most: usize) -> Vec<usize> {
        let mut shape: Vec<usize> = (0..rank).map(|_| self.size()).collect();
        while shape.iter().product::<usize>() > most {
            let at = self.below(rank);
            shape[at] = self.pick(&[1, 2, 3, 4]);
        }
        if rank > 0 && self.below(40) == 0 {
            shape[rank - 1] = 0;
        }
        shape
    }

    /// Returns values around zero, or small integers of both signs.
    pub fn tensor(&mut self, dtype: DType, shape: &[usize]) -> Tensor {
        let count = shape.iter().product::<usize>();
        let values: Vec<f64> = (0..count)
            .map(|_| {
                let unit = self.next() as f64 / (1_u64 << 53) as f64;
                match dtype {
                    DType::Bool => f64::from(u8::from(unit < 0.5)),
                    DType::U8 => (unit * 9.0).floor(),
                    _ if dtype.is_float() => unit * 5.0 - 2.5,
                    _ => (unit * 19.0).floor() - 9.0,
                }
            })
            .collect();
        Tensor::from_f64(dtype, shape, &values)
    }

    /// Returns positive values.
    pub fn positive(&mut self, dtype: DType, shape: &[usize]) -> Tensor {
        let values: Vec<f64> =
            self.tensor(DType::F64, shape).to_f64().iter().map(|v| v.abs() + 0.25).collect();
        Tensor::from_f64(dtype, shape, &values)
    }

    /// Returns a shape that broadcasts to another.
    pub fn narrower(&mut self, shape: &[usize]) -> Vec<usize> {
        let skip = if self.below(3) == 0 { self.below(shape.len() + 1) } else { 0 };
        shape[skip..].iter().map(|size| if self.below(3) == 0 { 1 } else { *size }).collect()
    }

    /// Returns two shapes that broadcast with each other.
    pub fn pair(&mut self) -> (Vec<usize>, Vec<usize>) {
        let rank = self.below(7);
        let shape = self.shape(rank, 3000);
        match self.below(4) {
            0 => (shape.clone(), shape),
            1 => (shape.clone(), self.narrower(&shape)),
            2 => (self.narrower(&shape), shape),
            _ => (self.narrower(&shape), self.narrower(&shape)),
        }
    }

    fn order(&mut self, rank: usize) -> Vec<i64> {
        let mut order: Vec<i64> = (0..rank as i64).collect();
        for at in (1..rank).rev() {
            order.swap(at, self.below(at + 1));
        }
        order
    }
}

/// Attributes of a function, none of them special, which every floating-point type holds.
fn attributes(function: Function) -> Attrs {
    let value = |name: &str| match name {
        "min" => -1.0,
        "max" => 1.5,
        "beta" => 0.375,
        _ => 0.25,
    };
    function.parameters().iter().fold(Attrs::new(), |attrs, one| attrs.float(one.name, value(one.name)))
}

/// The same as a step.
fn step_of(function: Function) -> Step {
    let attrs = attributes(function);
    let parameters = function.parameters().iter().map(|one| Float(attrs.expect_float(one.name)));
    Step { op: function.into(), parameters: parameters.collect() }
}

/// Whether a function of numbers that tests draw, or of the positive ones, has values that are not too large.
fn tame(function: Function, mut numbers: impl Iterator<Item = f64>, most: f64) -> bool {
    let parameters: Vec<f64> = step_of(function).parameters.iter().map(|one| one.0).collect();
    numbers.all(|x| function.evaluate(&parameters, &[x]).abs() <= most)
}

fn step(op: &'static str, parameters: &[f64]) -> Step {
    Step { op: op.into(), parameters: parameters.iter().map(|p| Float(*p)).collect() }
}

fn post(steps: Vec<Step>) -> Attrs {
    Attrs::new().with("post", Attr::Post(steps))
}

/// Elementwise ops with one operand.
pub fn unary(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    let clip = ("clip", Attrs::new().float("max", 1.5));
    let all = scalar::built_in().iter().map(|one| (*one, attributes(*one)));
    for (function, attrs) in all {
        let positive = !tame(function, (-10..=10).map(|x| f64::from(x) / 4.0), 100.0);
        for dtype in FLOATS.into_iter().chain(INTEGERS) {
            let rank = r.below(7);
            let shape = r.shape(rank, 2000);
            let x = if positive { r.positive(dtype, &shape) } else { r.tensor(dtype, &shape) };
            // Conversions out of an integer's range differ between machines, so they are not compared.
            if dtype.is_float() || tame(function, (-9..=9).map(f64::from), 100.0) {
                cases.push(Case::new(function.name(), attrs.clone(), vec![x]));
            }
        }
    }
    let x = r.tensor(DType::F32, &[5, 7]);
    cases.push(Case::new(clip.0, clip.1, vec![x]));
    for dtype in FLOATS {
        let x = r.tensor(dtype, &[5, 7]);
        cases.push(Case::new("isnan", Attrs::new(), vec![x]));
    }
    let shape = r.shape(3, 500);
    cases.push(Case::new("not", Attrs::new(), vec![r.tensor(DType::Bool, &shape)]));
    // Enough elements for several vectors in each thread, with a remainder.
    let x = r.tensor(DType::F32, &[1024 * 4 * 1024 + 3]);
    cases.push(Case::new("relu", Attrs::new(), vec![x]));
    let x = r.tensor(DType::F16, &[1024 * 8 * 1024, 1]);
    cases.push(Case::new("abs", Attrs::new(), vec![x]));
    cases
}

/// Elementwise ops with two and three operands, with broadcasting.
pub fn binary(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    let numbers = ["add", "sub", "mul", "div", "pow", "min", "max", "mod"];
    let compare = ["equal", "greater", "less", "greater-equal", "less-equal"];
    for op in numbers.into_iter().chain(compare) {
        for dtype in FLOATS.into_iter().chain(INTEGERS) {
            for _ in 0..2 {
                let (a, b) = r.pair();
                let a =
                    if op == "pow" && dtype.is_float() { r.positive(dtype, &a) } else { r.tensor(dtype, &a) };
                let b = r.tensor(dtype, &b);
                cases.push(Case::new(op, Attrs::new(), vec![a, b]));
            }
        }
    }
    for dtype in FLOATS.into_iter().chain(INTEGERS) {
        let (a, b) = r.pair();
        let operands = vec![r.tensor(dtype, &a), r.tensor(dtype, &b)];
        cases.push(Case::new("mod", Attrs::new().int("fmod", 1), operands));
    }
    for op in ["bit-and", "bit-or", "bit-xor", "shift-left", "shift-right"] {
        for dtype in INTEGERS {
            let (a, b) = r.pair();
            cases.push(Case::new(op, Attrs::new(), vec![r.tensor(dtype, &a), r.tensor(dtype, &b)]));
        }
    }
    for op in ["and", "or", "xor"] {
        let (a, b) = r.pair();
        cases.push(Case::new(op, Attrs::new(), vec![r.tensor(DType::Bool, &a), r.tensor(DType::Bool, &b)]));
    }
    for dtype in FLOATS.into_iter().chain(INTEGERS).chain([DType::Bool]) {
        let (a, b) = r.pair();
        let whole =
            ovolo::tensor::Shape::new(a.clone()).broadcast(&ovolo::tensor::Shape::new(b.clone())).unwrap();
        let c = r.narrower(&whole);
        let operands = vec![r.tensor(DType::Bool, &c), r.tensor(dtype, &a), r.tensor(dtype, &b)];
        cases.push(Case::new("where", Attrs::new(), operands));
    }
    let operands = vec![r.tensor(DType::F32, &[1024, 1030, 4]), r.tensor(DType::F32, &[1030, 4])];
    cases.push(Case::new("add", Attrs::new(), operands));
    cases
}

/// Returns whether the device computes with a type.
fn supported(dtype: DType) -> bool {
    dtype.is_float() || matches!(dtype, DType::Bool | DType::U8 | DType::I8 | DType::I32 | DType::I64)
}

/// Casts between all types.
pub fn cast(r: &mut Random) -> Vec<Option<Case>> {
    let types = DType::ALL.into_iter().filter(|&dtype| supported(dtype));
    let mut cases = Vec::new();
    for from in types.clone() {
        for to in types.clone() {
            let shape = r.shape(2, 300);
            let x = r.tensor(from, &shape);
            cases.push(Case::new("cast", Attrs::new().with("to", Attr::DType(to)), vec![x]));
        }
    }
    cases
}

/// Chains of elementwise steps.
pub fn chain(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    for _ in 0..40 {
        let rank = r.below(6);
        let shape = r.shape(rank, 3000);
        let mut operands = vec![r.positive(DType::F32, &shape)];
        let mut steps = Vec::new();
        for _ in 0..1 + r.below(6) {
            if r.below(2) == 0 {
                steps.push(step(r.pick(&["add", "sub", "rsub", "mul", "div", "rdiv", "min", "max"]), &[]));
                let narrower = r.narrower(&shape);
                operands.push(r.positive(DType::F32, &narrower));
            } else {
                let unary =
                    r.pick(&["relu", "sigmoid", "tanh", "silu", "gelu", "abs", "softplus", "hard-swish"]);
                steps.push(step(unary, &[]));
            }
        }
        steps.push(step("clip", &[-3.0, 6.0]));
        cases.push(Case::new("map", post(steps), operands));
    }
    cases
}

/// Trees of elementwise steps: chains that meet, at any depth.
pub fn tree(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F32, DType::F16, DType::BF16] {
        for _ in 0..12 {
            let rank = r.below(5);
            let shape = r.shape(rank, 3000);
            let (mut operands, mut steps) = (vec![r.positive(dtype, &shape)], Vec::new());
            grow(r, dtype, &shape, 2, &mut operands, &mut steps);
            steps.push(step("clip", &[-3.0, 6.0]));
            cases.push(Case::new("tree", post(steps), operands));
        }
    }
    // A gate with enough elements for several vectors in each thread, and a remainder.
    let wide = [1024 * 4 * 1024 + 3];
    let operands = vec![r.tensor(DType::F32, &wide), r.tensor(DType::F32, &wide)];
    let gate = ["sigmoid", "push", "tanh", "pop-mul"].map(|op| step(op, &[])).to_vec();
    cases.push(Case::new("tree", post(gate), operands));
    cases
}

/// Adds steps to a value; some of their operands are values with steps of their own.
fn grow(
    r: &mut Random,
    dtype: DType,
    shape: &[usize],
    depth: usize,
    operands: &mut Vec<Tensor>,
    steps: &mut Vec<Step>,
) {
    for _ in 0..1 + r.below(3) {
        let narrower = r.narrower(shape);
        match r.below(3) {
            0 => steps.push(step(r.pick(&["sigmoid", "tanh", "abs", "softplus"]), &[])),
            1 => {
                steps.push(step(r.pick(&["add", "sub", "rsub", "mul", "div", "min", "max"]), &[]));
                operands.push(r.positive(dtype, &narrower));
            }
            _ if depth > 0 => {
                steps.push(step("push", &[]));
                operands.push(r.positive(dtype, &narrower));
                grow(r, dtype, shape, depth - 1, operands, steps);
                steps.push(step(r.pick(&["pop-add", "pop-sub", "pop-mul", "pop-min", "pop-max"]), &[]));
            }
            _ => {}
        }
    }
}

fn axes(r: &mut Random, rank: usize) -> Vec<i64> {
    (0..rank as i64).filter(|_| r.below(2) == 0).collect()
}

/// Reductions over any axes, small and large.
pub fn reduce(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    let kinds = ["reduce-sum", "reduce-mean", "reduce-max", "reduce-min", "reduce-prod"];
    for kind in kinds {
        for dtype in FLOATS.into_iter().chain([DType::I32, DType::I64]) {
            for _ in 0..3 {
                let rank = r.below(6);
                let most = if kind == "reduce-prod" { 200 } else { 4000 };
                let shape = r.shape(rank, most);
                let attrs = Attrs::new().ints("axes", &axes(r, rank)).int("keepdims", r.below(2) as i64);
                let x =
                    if kind == "reduce-prod" { r.positive(dtype, &shape) } else { r.tensor(dtype, &shape) };
                cases.push(Case::new(kind, attrs, vec![x]));
            }
        }
    }
    // Rows for a thread, a warp, a block and many blocks; columns for one block and for many.
    let shapes: [(&[usize], &[i64]); 11] = [
        (&[1000, 7], &[1]),
        (&[33, 1536], &[1]),
        (&[33, 1537], &[1]),
        (&[5, 3000], &[1]),
        (&[2, 70_000], &[1]),
        (&[300_001], &[0]),
        (&[700, 48], &[0]),
        (&[3000, 20], &[0]),
        (&[5000, 3], &[0]),
        (&[4, 257, 3, 64], &[0, 2]),
        (&[3, 50, 4, 1000], &[1, 3]),
    ];
    for (shape, axes) in shapes {
        for (kind, dtype) in [
            ("reduce-sum", DType::F32),
            ("reduce-mean", DType::F16),
            ("reduce-max", DType::I32),
            ("reduce-min", DType::F64),
        ] {
            let attrs = Attrs::new().ints("axes", axes).int("keepdims", 1);
            cases.push(Case::new(kind, attrs, vec![r.tensor(dtype, shape)]));
        }
    }
    for op in ["arg-max", "arg-min"] {
        for dtype in [DType::F32, DType::F16, DType::I32, DType::I64] {
            for last in 0..2 {
                let rank = 1 + r.below(4);
                let mut shape = r.shape(rank, 2000);
                let axis = r.below(rank);
                shape[axis] = shape[axis].max(1);
                let attrs = Attrs::new().int("axis", axis as i64).int("select-last", last).int("keepdims", 0);
                cases.push(Case::new(op, attrs, vec![r.tensor(dtype, &shape)]));
            }
        }
    }
    cases
}

/// Softmax and norms.
pub fn lines(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    for op in ["softmax", "log-softmax"] {
        for dtype in FLOATS {
            for _ in 0..4 {
                let rank = 1 + r.below(4);
                let shape = r.shape(rank, 3000);
                let axis = r.below(rank) as i64;
                cases.push(Case::new(op, Attrs::new().int("axis", axis), vec![r.tensor(dtype, &shape)]));
            }
            for shape in [&[3_usize, 1000][..], &[2, 1025], &[2, 9000], &[2, 40, 5], &[2, 100, 33]] {
                cases.push(Case::new(op, Attrs::new().int("axis", 1), vec![r.tensor(dtype, shape)]));
            }
        }
    }
    for dtype in FLOATS {
        let shapes: [(&[usize], usize); 8] = [
            (&[4, 768], 1),
            (&[3, 5, 7], 1),
            (&[2, 3, 1030], 2),
            (&[2, 8200], 1),
            (&[9001], 0),
            (&[50, 3], 1),
            (&[2, 4, 6, 8], 2),
            (&[6, 1], 1),
        ];
        for (shape, axis) in shapes {
            let inner = &shape[axis..];
            let operands = vec![r.tensor(dtype, shape), r.tensor(dtype, inner), r.tensor(dtype, inner)];
            cases.push(Case::new("layer-norm", Attrs::new().int("axis", axis as i64), operands));
        }
        for shape in [&[2_usize, 3, 5, 7][..], &[1, 4, 40, 40], &[2, 3, 8]] {
            let channels = &shape[1..2];
            let operands = vec![r.tensor(dtype, shape), r.tensor(dtype, channels), r.tensor(dtype, channels)];
            cases.push(Case::new("instance-norm", Attrs::new().float("epsilon", 1e-3), operands));
            let operands = vec![
                r.tensor(dtype, shape),
                r.tensor(dtype, channels),
                r.tensor(dtype, channels),
                r.tensor(dtype, channels),
                r.positive(dtype, channels),
            ];
            cases.push(Case::new("batch-norm", Attrs::new().float("epsilon", 1e-3), operands));
        }
        for size in [1, 3, 4, 5] {
            let attrs = Attrs::new().int("size", size).float("alpha", 0.2);
            cases.push(Case::new("lrn", attrs, vec![r.tensor(dtype, &[2, 7, 3, 5])]));
        }
    }
    cases
}

/// Pools.
pub fn pool(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    for dtype in FLOATS {
        for _ in 0..8 {
            let shape = [1 + r.below(3), r.size(), 3 + r.size(), 3 + r.size()];
            let kernel = [1 + r.below(3) as i64, 1 + r.below(3) as i64];
            let pads: Vec<i64> = (0..4).map(|at| r.below(kernel[at % 2] as usize) as i64).collect();
            let attrs = Attrs::new()
                .ints("kernel", &kernel)
                .ints("strides", &[1 + r.below(3) as i64, 1 + r.below(3) as i64])
                .ints("pads", &pads);
            let x = r.tensor(dtype, &shape);
            let dilated = attrs.clone().ints("dilations", &[1 + r.below(2) as i64, 1]);
            cases.push(Case::new("max-pool", dilated, vec![x.clone()]));
            let counted = attrs.int("count-include-pad", r.below(2) as i64);
            let extra = counted.ints("ceil-extra", &[r.below(2) as i64, 0]);
            cases.push(Case::new("avg-pool", extra, vec![x]));
        }
    }
    cases
}

/// Ops on images with their channels innermost: pools, means of pixels, concatenations, depthwise convolutions.
pub fn channels(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    let parse = |name: &str| name.parse::<Layout>().unwrap();
    let (nhwc, blocked) = (parse("nhwc"), parse("Oihw8o"));
    for dtype in FLOATS {
        for channels in [1, 6, 8, 20, 32, 33] {
            let shape = [1 + r.below(2), channels, 3 + r.size(), 3 + r.size()];
            let x = r.tensor(dtype, &shape).to_layout(&nhwc);
            let kernel = [1 + r.below(3) as i64, 1 + r.below(3) as i64];
            let pads: Vec<i64> = (0..4).map(|at| r.below(kernel[at % 2] as usize) as i64).collect();
            let strides = [1 + r.below(3) as i64, 1 + r.below(3) as i64];
            let window = Attrs::new().ints("strides", &strides).ints("pads", &pads);
            let attrs = window.clone().ints("kernel", &kernel);
            let dilated = attrs.clone().ints("dilations", &[1 + r.below(2) as i64, 1]);
            cases.push(Case::new("cuda.max-pool", dilated, vec![x.clone()]));
            for counted in [0, 1] {
                let extra = [r.below(2) as i64, 0];
                let attrs = attrs.clone().int("count-include-pad", counted).ints("ceil-extra", &extra);
                cases.push(Case::new("cuda.avg-pool", attrs, vec![x.clone()]));
            }
            let pixels = Attrs::new().ints("axes", &[2, 3]);
            cases.push(Case::new("cuda.reduce-mean", pixels, vec![x.clone()]));
            let mut other = shape;
            other[1] = r.size();
            let parts = vec![x.clone(), r.tensor(dtype, &other).to_layout(&nhwc), x.clone()];
            cases.push(Case::new("cuda.concat", Attrs::new().int("axis", 1), parts));
            let weights = [channels, 1, kernel[0] as usize, kernel[1] as usize];
            for fused in [false, true] {
                let steps = if fused { vec![step("mul", &[]), step("silu", &[])] } else { Vec::new() };
                let attrs = window.clone().int("groups", channels as i64).with("post", Attr::Post(steps));
                let filter = r.tensor(dtype, &weights).to_layout(&blocked);
                let mut operands = vec![x.clone(), filter, r.tensor(dtype, &[channels])];
                operands.extend(fused.then(|| r.tensor(dtype, &[1, channels, 1, 1]).to_layout(&nhwc)));
                cases.push(Case::new("cuda.conv-depthwise", attrs, operands));
            }
        }
        let large = r.tensor(dtype, &[1, 96, 40, 40]).to_layout(&nhwc);
        cases.push(Case::new("cuda.reduce-mean", Attrs::new().ints("axes", &[2, 3]), vec![large]));
    }
    cases
}

/// Ops that copy: transposes, slices, pads, expansions, concatenations, gathers.
pub fn moved(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    let types = [DType::F32, DType::F16, DType::I64, DType::Bool, DType::I8, DType::BF16];
    for round in 0..60 {
        let dtype = types[round % types.len()];
        let rank = r.below(7);
        let shape = r.shape(rank, 6000);
        let order = r.order(rank);
        cases.push(Case::new("transpose", Attrs::new().ints("perm", &order), vec![r.tensor(dtype, &shape)]));

        let steps: Vec<i64> = shape.iter().map(|_| r.pick(&[1, 1, 2, 3, -1, -2])).collect();
        let (mut starts, mut sizes) = (Vec::new(), Vec::new());
        for (size, step) in shape.iter().zip(&steps) {
            let size = *size as i64;
            let count =
                if size == 0 { 0 } else { 1 + r.below(((size - 1) / step.abs() + 1) as usize) as i64 };
            let reach = (count - 1).max(0) * step.abs();
            let room = r.below((size - reach).max(1) as usize) as i64;
            starts.push(if *step > 0 { room } else { room + reach });
            sizes.push(count);
        }
        let attrs = Attrs::new().ints("starts", &starts).ints("sizes", &sizes).ints("steps", &steps);
        cases.push(Case::new("slice", attrs, vec![r.tensor(dtype, &shape)]));

        let pads: Vec<i64> = (0..2 * rank).map(|_| r.pick(&[0, 0, 1, 2, 4])).collect();
        let operands = vec![r.tensor(dtype, &shape), r.tensor(dtype, &[])];
        cases.push(Case::new("pad", Attrs::new().ints("pads", &pads), operands));

        let narrower = r.narrower(&shape);
        let wanted: Vec<i64> = shape.iter().map(|size| *size as i64).collect();
        cases.push(Case::new(
            "expand",
            Attrs::new().ints("shape", &wanted),
            vec![r.tensor(dtype, &narrower)],
        ));
        if rank == 0 {
            continue;
        }
        let axis = r.below(rank);
        let operands: Vec<Tensor> = (0..1 + r.below(4))
            .map(|_| {
                let mut part = shape.clone();
                part[axis] = r.below(9);
                r.tensor(dtype, &part)
            })
            .collect();
        cases.push(Case::new("concat", Attrs::new().int("axis", axis as i64), operands));

        let rank_of_positions = r.below(3);
        let positions = r.shape(rank_of_positions, 40);
        let size = shape[axis] as i64;
        let values: Vec<f64> = (0..positions.iter().product::<usize>())
            .map(|_| (r.below((2 * size).max(1) as usize) as i64 - size) as f64)
            .collect();
        let whole = r.pick(&[DType::I32, DType::I64]);
        let at = Tensor::from_f64(whole, positions, &values);
        let attrs = Attrs::new().int("axis", axis as i64);
        cases.push(Case::new("gather", attrs.clone(), vec![r.tensor(dtype, &shape), at]));
        let mut positions: Vec<usize> = shape.iter().map(|size| size.min(&5)).copied().collect();
        positions[axis] = r.below(6);
        let values: Vec<f64> = (0..positions.iter().product::<usize>())
            .map(|_| (r.below((2 * size).max(1) as usize) as i64 - size) as f64)
            .collect();
        let at = Tensor::from_f64(whole, positions, &values);
        cases.push(Case::new("gather-elements", attrs, vec![r.tensor(dtype, &shape), at]));
    }
    for (shape, perm) in [
        (&[40_usize, 70][..], &[1_i64, 0][..]),
        (&[3, 40, 4, 33], &[0, 2, 3, 1]),
        (&[2, 33, 9, 9], &[0, 3, 2, 1]),
    ] {
        for dtype in types {
            cases.push(Case::new("transpose", Attrs::new().ints("perm", perm), vec![r.tensor(dtype, shape)]));
        }
    }
    cases
}

/// Conversions between layouts, and ops on layouts other than the default.
pub fn layout(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    let parse = |name: &str| name.parse::<Layout>().unwrap();
    for name in ["nChw16c", "nChw8c", "nhwc", "OIhw16i16o", "Ohwi32o"] {
        for channels in [1, 3, 16, 17, 32, 48] {
            for dtype in [DType::F32, DType::F16] {
                let layout = parse(name);
                let plain = r.tensor(dtype, &[2, channels, 5, 9]);
                let attrs = Attrs::new().with("layout", Attr::Layout(layout.clone()));
                cases.push(Case::new("pack", attrs, vec![plain.clone()]));
                let packed = plain.to_layout(&layout);
                cases.push(Case::new("unpack", Attrs::new(), vec![packed.clone()]));
                cases.push(Case::new("exp", Attrs::new(), vec![packed.clone()]));
                let other = r.tensor(dtype, &[2, channels, 1, 1]).to_layout(&layout);
                cases.push(Case::new("add", Attrs::new(), vec![packed.clone(), other]));
                let scalar = r.tensor(dtype, &[]);
                cases.push(Case::new("sub", Attrs::new(), vec![scalar, packed.clone()]));
                if name == "nhwc" {
                    let to = Attrs::new().with("layout", Attr::Layout(parse("nChw16c")));
                    cases.push(Case::new("reorder", to, vec![packed]));
                } else if name == "nChw16c" {
                    let to = Attrs::new().with("layout", Attr::Layout(parse("nhwc")));
                    cases.push(Case::new("reorder", to, vec![packed]));
                }
            }
        }
    }
    let matrix = r.tensor(DType::F32, &[37, 70]);
    let panels = Attrs::new().with("layout", Attr::Layout(parse("Ba32b")));
    cases.push(Case::new("pack", panels, vec![matrix.clone()]));
    cases.push(Case::new("unpack", Attrs::new(), vec![matrix.to_layout(&parse("Ba32b"))]));
    cases
}

/// Gradients of elementwise ops, including the sums over broadcast axes.
pub fn gradient(r: &mut Random) -> Vec<Option<Case>> {
    let mut cases = Vec::new();
    for of in scalar::built_in().iter().map(|function| step_of(*function)) {
        for dtype in [DType::F32, DType::F16, DType::F64] {
            let rank = r.below(5);
            let shape = r.shape(rank, 1000);
            let positive = matches!(of.op.name(), "log" | "sqrt" | "reciprocal");
            let x = if positive { r.positive(dtype, &shape) } else { r.tensor(dtype, &shape) };
            let attrs = Attrs::new().with("of", Attr::Post(vec![of.clone()]));
            cases.push(Case::new("grad", attrs, vec![x, r.tensor(dtype, &shape)]));
        }
    }
    for op in ["add", "sub", "mul", "div", "pow", "min", "max"] {
        for dtype in [DType::F32, DType::BF16] {
            for operand in 0..2 {
                for _ in 0..3 {
                    let (a, b) = r.pair();
                    let whole =
                        ovolo::tensor::Shape::new(a.clone()).broadcast(&ovolo::tensor::Shape::new(b.clone()));
                    let attrs =
                        Attrs::new().with("of", Attr::Post(vec![step(op, &[])])).int("operand", operand);
                    let operands =
                        vec![r.positive(dtype, &a), r.positive(dtype, &b), r.tensor(dtype, &whole.unwrap())];
                    cases.push(Case::new("grad", attrs, operands));
                }
            }
        }
    }
    // A bias along a middle axis, and a scalar: many elements are added for each.
    for (narrow, operand) in [(&[8_usize, 1, 1][..], 1), (&[], 1), (&[33], 1)] {
        let wide = [16, 8, 31, 33];
        let attrs = Attrs::new().with("of", Attr::Post(vec![step("mul", &[])])).int("operand", operand);
        let operands =
            vec![r.tensor(DType::F32, &wide), r.tensor(DType::F32, narrow), r.tensor(DType::F32, &wide)];
        cases.push(Case::new("grad", attrs, operands));
    }
    cases
}

/// A family: its name, and a function that draws its cases.
pub type Family = (&'static str, fn(&mut Random) -> Vec<Option<Case>>);

/// All families.
pub const FAMILIES: &[Family] = &[
    ("unary", unary),
    ("binary", binary),
    ("cast", cast),
    ("chain", chain),
    ("tree", tree),
    ("reduce", reduce),
    ("lines", lines),
    ("pool", pool),
    ("channels", channels),
    ("moved", moved),
    ("layout", layout),
    ("gradient", gradient),
    ("product", product::product),
    ("tensor", product::tensor),
    ("formulas", formulas),
];
