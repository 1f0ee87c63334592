//! `native.conv-sparse`: a convolution with weights in a sparse layout, on images in the default layout.
//!
//! A task copies the inputs that a panel of pixels reads, as `native.conv` does, and multiplies the stored blocks of some
//! outputs by the panel. A convolution of single pixels reads them where they lie.

use super::plain::Steps;
use super::{Geometry, contract as named};
use crate::args::{Buffers, Shared, part};
use crate::gemm::PANEL;
use crate::sparse::{Product, Weights};
use crate::{ISAS, reference};
use ovolo::attr::Attrs;
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{Form, Layouts, Lowering, OpError, Reference, post};
use ovolo::tensor::{Tensor, TensorType};

/// The declaration of the op.
pub(super) const OP: Lowering = Lowering {
    layouts: Layouts::Forms(&[
        Form::new(&["plain", "Abcd4a.1", "plain"], "plain"),
        Form::new(&["plain", "Abcd16a.1", "plain"], "plain"),
        Form::new(&["plain", "abcd.1", "plain"], "plain"),
    ]),
    instruction_sets: ISAS,
    reference: Reference::Own(eval),
    flops: Some(|_, types, output| {
        let pixels = output.shape.count() / output.shape.get(1).copied().unwrap_or(1).max(1);
        2.0 * types[1].layout.padded_count(&types[1].shape) as f64 * pixels as f64
    }),
    ..Lowering::new("native.conv-sparse", "conv", contract, kernel)
};

/// Evaluates the op for reference: weights that are zero are left out, also where an input is infinite or NaN.
fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let (x, w) = (operands[0], operands[1]);
    let [images, whole, height, width] = [0, 1, 2, 3].map(|dim| x.ty().shape[dim]);
    let [outputs, channels, rows, columns] = [0, 1, 2, 3].map(|dim| w.ty().shape[dim]);
    let groups = usize::try_from(attrs.expect_int("groups")).unwrap_or(1);
    let ints = |name: &str| attrs.expect_ints(name).to_vec();
    let (strides, pads, dilations) = (ints("strides"), ints("pads"), ints("dilations"));
    let (x, w, bias) = (x.to_f64(), w.to_f64(), operands[2].to_f64());
    let place = |at: usize, step: usize, axis: usize, size: usize| {
        let place = at as i64 * strides[axis] + step as i64 * dilations[axis] - pads[axis];
        usize::try_from(place).ok().filter(|place| *place < size)
    };
    let mut result = Vec::with_capacity(ty.shape.count());
    for (image, output) in (0..images).flat_map(|image| (0..outputs).map(move |output| (image, output))) {
        for (row, column) in
            (0..ty.shape[2]).flat_map(|row| (0..ty.shape[3]).map(move |column| (row, column)))
        {
            let mut sum = bias[output];
            for tap in 0..channels * rows * columns {
                let weight = w[output * channels * rows * columns + tap];
                let (down, right) = (tap / columns % rows, tap % columns);
                let channel = output / (outputs / groups) * channels + tap / (rows * columns);
                if let (true, Some(y), Some(x_at)) =
                    (weight != 0.0, place(row, down, 0, height), place(column, right, 1, width))
                {
                    sum += weight * x[((image * whole + channel) * height + y) * width + x_at];
                }
            }
            result.push(sum);
        }
    }
    let sums = Tensor::from_f64(operands[0].ty().dtype, ty.shape.clone(), &result);
    post::apply(attrs.post(), &operands[3..], sums)
}

/// The number of tasks per thread.
const TASKS: usize = 4;

struct Sparse {
    geometry: Geometry,
    weights: Weights,
    steps: Steps,
    threads: usize,
}

impl Sparse {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let geometry = Geometry::new(call)?;
        let weights = Weights::new(call.inputs[1], 0)
            .ok_or_else(|| OpError::kernel(format!("the weights are {}", call.inputs[1])))?;
        if geometry.groups > 1 && !(geometry.outputs / geometry.groups).is_multiple_of(weights.height) {
            return Err(OpError::kernel("blocks have outputs of several groups"));
        }
        Ok(Self { geometry, weights, steps: Steps::new(call)?, threads: call.threads.max(1) })
    }

    /// Returns whether pixels are read where they lie: those of a whole panel are adjacent in each channel.
    fn in_place(&self) -> bool {
        let Geometry { kernel, strides, pads, pads_after, .. } = self.geometry;
        kernel == [1, 1] && strides == [1, 1] && pads == [0, 0] && pads_after == [0, 0]
    }

    /// Returns the elements of a panel.
    fn panel(&self) -> usize {
        self.weights.depth * PANEL
    }
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    match Sparse::new(call) {
        Ok(sparse) => Ok(named("blocks", sparse.threads * sparse.panel() * size_of::<f32>())),
        Err(_) => reference::contract(call),
    }
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Sparse::new(call) {
        Ok(sparse) => Ok(Box::new(sparse)),
        Err(_) => reference::kernel(call),
    }
}

impl Kernel for Sparse {
    unsafe fn run(&self, args: &Args<'_>) {
        let Geometry { batch, channels, groups, input, output, .. } = self.geometry;
        let plane = output[0] * output[1];
        let (images, read) = (batch * groups, channels / groups * input[0] * input[1]);
        let (panels, of_group) = (plane.div_ceil(PANEL), self.weights.rows / groups);
        // Where there are few panels, the outputs of a group are divided as well.
        let parts = (TASKS * self.threads).div_ceil((images * panels).max(1)).clamp(1, of_group.max(1));
        let buffers = Buffers::new(args);
        let space = Shared::<f32>::scratch(args);
        args.team.share(self.threads, images * panels * parts, |slot, task| {
            let (rest, index) = (task / parts, task % parts);
            let (place, first) = (rest / panels, rest % panels * PANEL);
            let (image, group) = (place / groups, place % groups);
            let pixels = first..(first + PANEL).min(plane);
            let own = part(of_group, parts, index, 1);
            let rows = group * of_group + own.start..group * of_group + own.end;
            let outputs = self.weights.outputs(&rows);
            let args = buffers.args();
            let images = Shared::<f32>::input(args, 0).at(place * read);
            // SAFETY: no other task has these outputs of these pixels, and no other thread has this panel.
            unsafe {
                let (panel, line) = match self.in_place() && pixels.len() == PANEL {
                    true => (images.add(first).cast_const(), plane),
                    false => {
                        let panel = space.at(slot * self.panel());
                        if pixels.len() < PANEL {
                            std::slice::from_raw_parts_mut(panel, self.panel()).fill(0.0);
                        }
                        self.geometry.fill(images, panel, 0..self.weights.depth, pixels.clone());
                        (panel.cast_const(), PANEL)
                    }
                };
                let product = Product {
                    weights: &self.weights,
                    bytes: Shared::<u8>::input(args, 1).at(0),
                    panel,
                    line,
                    columns: pixels.len(),
                    bias: Shared::<f32>::input(args, 2).at(0),
                    results: Shared::<f32>::output(args)
                        .at((image * self.weights.outputs + outputs.start) * plane + first),
                    stride: plane,
                };
                product.run(rows);
                self.steps.apply(args, image, outputs, pixels, &self.geometry);
            }
        });
    }
}
