//! Operators that draw random numbers.
//!
//! A model is a function of its inputs: the numbers are drawn when the model is imported, and each run has the same
//! ones. The generator is SplitMix64, seeded by the attribute `seed` and by the name of the node's first result, so
//! that two nodes differ. Without the attribute, the name alone decides. Other runtimes draw other numbers from a seed,
//! since ONNX does not define the generator.

use super::{Call, ImportedValue, Operator, Results, entry};
use crate::attr::{Attr, Attrs};
use crate::onnx::Refusal;
use crate::onnx::element::{checked_type, element_type};
use crate::random::{self, Random};
use crate::tensor::{DType, Tensor};

pub(super) const TABLE: &[Operator] = &[
    entry("RandomNormal", 0, 0, |call| without_operand(call, Draw::Normal)),
    entry("RandomUniform", 0, 0, |call| without_operand(call, Draw::Uniform)),
    entry("RandomNormalLike", 1, 1, |call| like(call, Draw::Normal)),
    entry("RandomUniformLike", 1, 1, |call| like(call, Draw::Uniform)),
    entry("Bernoulli", 1, 1, bernoulli),
    entry("Multinomial", 1, 1, multinomial),
];

/// How numbers are distributed.
#[derive(Clone, Copy)]
enum Draw {
    Normal,
    Uniform,
}

/// A generator of random numbers.
pub(super) struct Generator(Random);

impl Generator {
    /// Makes the generator of a node.
    pub fn new(call: &mut Call<'_>) -> Result<Self, Refusal> {
        #[allow(clippy::cast_precision_loss)]
        let seed = match call.node.op_type.as_str() {
            "Dropout" => call.has("seed").then(|| call.int("seed", 0)).transpose()?.map(|seed| seed as f64),
            _ => call.float_if("seed")?,
        };
        let name = call.output_name(0);
        let start = seed.map_or(0x5851_f42d_4c95_7f2d, f64::to_bits);
        Ok(Self(Random(random::hash(start ^ random::EMPTY, &name))))
    }

    /// Returns a number between 0, which is possible, and 1, which is not.
    pub fn uniform(&mut self) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let number = (self.0.word() >> 11) as f64;
        number / (1_u64 << 53) as f64
    }

    /// Returns a number of the normal distribution, by the Box-Muller transform.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

fn drawn(call: &mut Call<'_>, draw: Draw, dtype: DType, dims: &[usize]) -> Results {
    if !dtype.is_float() {
        return Err(Refusal::attribute("dtype", format!("is {dtype}, not a float")));
    }
    let ty = checked_type(dtype, dims.to_vec())?;
    let (start, width) = match draw {
        Draw::Normal => (call.float("mean", 0.0)?, call.float("scale", 1.0)?),
        Draw::Uniform => {
            let low = call.float("low", 0.0)?;
            (low, call.float("high", 1.0)? - low)
        }
    };
    let mut generator = Generator::new(call)?;
    let mut one = || match draw {
        Draw::Normal => generator.normal(),
        Draw::Uniform => generator.uniform(),
    };
    let numbers: Vec<f64> = (0..ty.shape.count()).map(|_| start + width * one()).collect();
    Ok(vec![call.constant_result(Tensor::from_f64(dtype, ty.shape, &numbers))])
}

/// Returns the element type that the attribute `dtype` names, or another one.
fn named(call: &Call<'_>, default: DType) -> Result<DType, Refusal> {
    let number = call.int("dtype", i64::from(default.onnx_number()))?;
    element_type(i32::try_from(number).unwrap_or(0))
}

fn without_operand(call: &mut Call<'_>, draw: Draw) -> Results {
    let dtype = named(call, DType::F32)?;
    let dims = call.ints("shape")?.unwrap_or_default();
    let sizes = dims.iter().map(|size| usize::try_from(*size).ok()).collect::<Option<Vec<_>>>();
    let sizes = sizes.ok_or_else(|| Refusal::attribute("shape", format!("is {dims:?}")))?;
    drawn(call, draw, dtype, &sizes)
}

fn like(call: &mut Call<'_>, draw: Draw) -> Results {
    let x = call.input(0)?;
    let dtype = named(call, x.ty.dtype)?;
    let dims = x.dims().to_vec();
    drawn(call, draw, dtype, &dims)
}

/// Makes numbers from 0 to 1.
pub(super) fn uniform(call: &mut Call<'_>, dtype: DType, dims: Vec<usize>) -> Result<ImportedValue, Refusal> {
    let ty = checked_type(dtype, dims)?;
    let mut generator = Generator::new(call)?;
    let numbers: Vec<f64> = (0..ty.shape.count()).map(|_| generator.uniform()).collect();
    Ok(call.constant("drawn", Tensor::from_f64(dtype, ty.shape, &numbers)))
}

/// An element is 1 with the probability that the operand says.
fn bernoulli(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let to = named(call, x.ty.dtype)?;
    let drawn = uniform(call, x.ty.dtype, x.dims().to_vec())?;
    let set = call.helper("set", "less", Attrs::new(), &[&drawn, &x])?;
    Ok(vec![call.result("cast", Attrs::new().with("to", Attr::DType(to)), &[&set])?])
}

/// Draws classes by their logarithmic weights: the class whose weight plus a number of the Gumbel distribution is the
/// largest one has the right probability.
fn multinomial(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let &[rows, classes] = x.dims() else {
        return Err(Refusal::other(format!("its operand is {}, not rows of weights", x.ty)));
    };
    let samples = usize::try_from(call.int("sample_size", 1)?).unwrap_or(0);
    let number = call.int("dtype", 6)?;
    let to = element_type(i32::try_from(number).unwrap_or(0))?;
    let ty = checked_type(x.ty.dtype, vec![rows, samples, classes])?;
    let mut generator = Generator::new(call)?;
    let mut gumbel = || -(-(1.0 - generator.uniform()).ln()).ln();
    let numbers: Vec<f64> = (0..ty.shape.count()).map(|_| gumbel()).collect();
    let drawn = call.constant("drawn", Tensor::from_f64(x.ty.dtype, ty.shape, &numbers));
    let weights = call.reshape(Some("weights"), &x, &[rows, 1, classes])?;
    let sum = call.helper("sum", "add", Attrs::new(), &[&weights, &drawn])?;
    let attrs = Attrs::new().int("axis", 2).int("keepdims", 0).int("select-last", 0);
    let best = call.helper("best", "arg-max", attrs, &[&sum])?;
    Ok(vec![call.result("cast", Attrs::new().with("to", Attr::DType(to)), &[&best])?])
}
