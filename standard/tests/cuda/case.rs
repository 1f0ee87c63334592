//! Calls of every op that has generated kernels, with many shapes and types.

#[path = "case/elementwise.rs"]
mod elementwise;
#[path = "case/formula.rs"]
mod formula;
#[path = "case/gradient.rs"]
mod gradient;
#[path = "case/movement.rs"]
mod movement;
#[path = "case/product.rs"]
mod product;
#[path = "case/reduction.rs"]
mod reduction;

use elementwise::{binary, cast, chain, tree, unary};
use formula::{TABLE, formulas};
use gradient::gradient;
use movement::{layout, moved};
use ovolo::attr::{Attr, Attrs, Float, Step};
use ovolo::backend::Call;
use ovolo::op::{OpError, Ops};
use ovolo::registry::Registry;
use ovolo::scalar::Function;
use ovolo::tensor::{DType, Device, Tensor, TensorType};
use ovolo_cuda::{FAMILY, KernelJob};
use reduction::{channels, lines, pool, reduce};
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
        let attrs = def.complete(attrs);
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

/// Ovolo's ops, and those of [`TABLE`].
pub fn ops() -> &'static Ops {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
        let mut registry = Registry::clone(crate::common::registry());
        registry.add_functions("ops/test.ron", TABLE).unwrap();
        registry
    });
    REGISTRY.ops()
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

fn step(op: &'static str, parameters: &[f64]) -> Step {
    Step { op: op.into(), parameters: parameters.iter().map(|p| Float(*p)).collect() }
}

fn post(steps: Vec<Step>) -> Attrs {
    Attrs::new().with("post", Attr::Post(steps))
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

/// Returns the cases of a family that the ops take. Drawn attributes may be impossible, but not most of them.
pub fn family(number: usize) -> Vec<Case> {
    let (name, cases) = FAMILIES[number];
    let drawn = cases(&mut Random::new(number as u64 + 1));
    let all = drawn.len();
    let taken: Vec<Case> = drawn.into_iter().flatten().collect();
    assert!(2 * taken.len() > all, "`{name}`: the ops take {} of {all} cases", taken.len());
    taken
}
