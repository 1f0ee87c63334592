//! The library's view of a convolution, derived from the types of a call: which algorithms support it, and how much
//! scratch memory they can need.

use ovolo::op::Call;
use ovolo::op::post;
use ovolo::tensor::{DType, Shape};

/// The library's forward algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    ImplicitProduct,
    ImplicitProductWithIndices,
    Product,
    Fourier,
    FourierOfTiles,
    Winograd,
    WinogradInSteps,
}

impl Algorithm {
    fn from_number(number: i64) -> Result<Self, String> {
        Ok(match number {
            0 => Self::ImplicitProduct,
            1 => Self::ImplicitProductWithIndices,
            2 => Self::Product,
            4 => Self::Fourier,
            5 => Self::FourierOfTiles,
            6 => Self::Winograd,
            7 => Self::WinogradInSteps,
            other => return Err(format!("the library has no algorithm with number {other}")),
        })
    }

    /// Returns the name in plans.
    fn name(self) -> &'static str {
        match self {
            Self::ImplicitProduct => "implicit-gemm",
            Self::ImplicitProductWithIndices => "implicit-precomp-gemm",
            Self::Product => "gemm",
            Self::Fourier => "fft",
            Self::FourierOfTiles => "fft-tiling",
            Self::Winograd => "winograd",
            Self::WinogradInSteps => "winograd-nonfused",
        }
    }
}

/// The scratch bytes that a kernel may need independently of the sizes.
const KERNEL_SCRATCH: usize = 16 << 20;

/// A convolution.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub dtype: DType,
    /// Whether channels are innermost.
    pub nhwc: bool,
    /// The images, channels, rows and columns of the input.
    pub x: [usize; 4],
    /// The output channels, the input channels of a group, and the rows and columns of the weights.
    pub w: [usize; 4],
    pub y: [usize; 4],
    pub pads: [usize; 2],
    pub strides: [usize; 2],
    pub dilations: [usize; 2],
    pub groups: usize,
    /// The operand that is added elementwise.
    pub residual: Option<usize>,
    pub relu: bool,
    /// Whether operands are rounded to TF32.
    pub tf32: bool,
    pub algorithm: Algorithm,
}

impl Problem {
    /// Returns the convolution that a call computes.
    ///
    /// # Errors
    /// If the library does not support the call.
    pub(crate) fn new(call: &Call<'_>) -> Result<Self, String> {
        let sizes = |shape: &Shape| {
            <[usize; 4]>::try_from(&shape[..]).map_err(|_| "the shape is not that of an image".to_owned())
        };
        let (x, w, y) =
            (sizes(&call.inputs[0].shape)?, sizes(&call.inputs[1].shape)?, sizes(&call.output.shape)?);
        for size in x.iter().chain(&w).chain(&y) {
            if *size == 0 {
                return Err("a dimension is 0".to_owned());
            }
        }
        // The library counts elements in 32 bits.
        for ty in call.inputs.iter().chain([&call.output]) {
            i32::try_from(ty.shape.count())
                .map_err(|_| format!("{ty} has more elements than the library supports"))?;
        }
        let ints = |name: &str| -> Vec<usize> {
            call.attrs.expect_ints(name).iter().map(|value| usize::try_from(*value).unwrap_or(0)).collect()
        };
        let pads = ints("pads");
        let [top, left, bottom, right] = pads[..] else { return Err("no pads".to_owned()) };
        if (top, left) != (bottom, right) {
            return Err(format!(
                "the padding {pads:?} differs before and after: the library supports only equal padding"
            ));
        }
        let two = |name: &str| {
            let values = ints(name);
            [values[0], values[1]]
        };
        let mut problem = Self {
            dtype: call.output.dtype,
            nhwc: !call.output.layout.is_plain(),
            x,
            w,
            y,
            pads: [top, left],
            strides: two("strides"),
            dilations: two("dilations"),
            groups: usize::try_from(call.attrs.expect_int("groups")).unwrap_or(1),
            residual: None,
            relu: false,
            tf32: call.attrs.expect_int("tf32") == 1,
            algorithm: Algorithm::from_number(call.attrs.expect_int("algorithm"))?,
        };
        problem.add_steps(call)?;
        problem.has_kernel()?;
        Ok(problem)
    }

    /// Adds the steps of the post chain.
    fn add_steps(&mut self, call: &Call<'_>) -> Result<(), String> {
        let mut operand = 3;
        for step in call.attrs.post() {
            match step.op.name() {
                "add" if !self.relu && self.residual.is_none() => {
                    let ty = call.inputs[operand];
                    if ty.shape != call.output.shape {
                        return Err(format!("cuDNN adds only a value of the result's shape, not {ty}"));
                    }
                    self.residual = Some(operand);
                }
                "relu" if !self.relu => self.relu = true,
                other => {
                    return Err(format!(
                        "cuDNN does not support step `{other}` at this position: only an `add` and then a `relu`"
                    ));
                }
            }
            operand += usize::from(post::is_binary(step));
        }
        Ok(())
    }

    /// Returns an error unless the library's documentation lists the algorithm for these sizes, types and steps.
    fn has_kernel(&self) -> Result<(), String> {
        use Algorithm as A;
        let none = |why: &str| Err(format!("algorithm {} {why}", self.algorithm.name()));
        let window = [self.w[2], self.w[3]];
        let products = matches!(self.algorithm, A::ImplicitProduct | A::ImplicitProductWithIndices);
        if self.nhwc && !products {
            return none("does not support nhwc");
        }
        if self.dilations != [1, 1] && self.algorithm != A::ImplicitProduct {
            return none("does not support dilations");
        }
        if self.dtype == DType::BF16 && !products {
            return none("does not support bf16");
        }
        if self.groups > 1 && !products {
            return none("supports only one group");
        }
        if self.residual.is_some() && !self.relu && self.algorithm != A::ImplicitProductWithIndices {
            return none("adds a value only if `relu` follows");
        }
        let transforms =
            matches!(self.algorithm, A::Fourier | A::FourierOfTiles | A::Winograd | A::WinogradInSteps);
        if transforms && self.strides != [1, 1] {
            return none("does not support strides");
        }
        if transforms && self.dtype == DType::F64 && self.algorithm != A::FourierOfTiles {
            return none("does not support f64");
        }
        match self.algorithm {
            A::Fourier if (0..2).any(|axis| self.x[2 + axis] + 2 * self.pads[axis] > 256) => {
                none("supports up to 256 rows and columns, including padding")
            }
            A::Fourier | A::FourierOfTiles if (0..2).any(|axis| window[axis] <= self.pads[axis]) => {
                none("needs padding that is smaller than the window")
            }
            A::FourierOfTiles if window.iter().any(|size| *size > 32) => {
                none("supports windows of up to 32 rows and columns")
            }
            A::FourierOfTiles if window.contains(&1) => {
                none("needs windows with at least 2 rows and columns")
            }
            A::Winograd if window != [3, 3] => none("supports only windows of 3x3"),
            A::WinogradInSteps if window != [3, 3] && window != [5, 5] => {
                none("supports only windows of 3x3 and 5x5")
            }
            _ => Ok(()),
        }
    }

    /// Returns the largest number of scratch bytes that the algorithm can need. The library tells the exact number
    /// when a plan is loaded, and the plan is refused if it has less.
    pub fn workspace(&self) -> usize {
        let count = |sizes: &[usize; 4]| sizes.iter().product::<usize>();
        let [images, channels, rows, columns] = self.x;
        let outputs = self.y[1];
        let wide = self.dtype.size().max(4);
        // Copies of the operands in another order, or padded to the block size of a kernel.
        let copies = (count(&self.x) + count(&self.w) + count(&self.y)) * wide;
        let tiles = |side: usize| images * self.y[2].div_ceil(side) * self.y[3].div_ceil(side);
        // The transforms of each tile of the images, of the weights, and of each tile of the results.
        let transformed =
            |tiles: usize, elements: usize| (tiles * (channels + outputs) + channels * outputs) * elements;
        let more = match self.algorithm {
            Algorithm::ImplicitProduct => return 0,
            Algorithm::ImplicitProductWithIndices | Algorithm::Winograd => 0,
            Algorithm::Product => {
                images * self.w[1] * self.groups * self.w[2] * self.w[3] * self.y[2] * self.y[3] * wide
            }
            Algorithm::Fourier => {
                // Sizes with fast transforms are up to twice as large; half of the columns are enough for real data.
                let side = |axis: usize| ([rows, columns][axis] + 2 * self.pads[axis]).next_power_of_two();
                2 * transformed(images, side(0) * (side(1) / 2 + 1)) * 2 * wide
            }
            Algorithm::FourierOfTiles => {
                let step = (33 - self.w[2].max(self.w[3])).max(1);
                2 * transformed(tiles(step), 32 * 17) * 2 * wide
            }
            Algorithm::WinogradInSteps => 2 * transformed(tiles(4), 64) * wide,
        };
        (copies + more + KERNEL_SCRATCH).next_multiple_of(ovolo::op::ALIGN)
    }

    /// Returns the implementation's name.
    pub fn name(&self) -> String {
        let precision = if self.tf32 { "tf32".to_owned() } else { self.dtype.to_string() };
        format!("{precision}-{}", self.algorithm.name())
    }
}
