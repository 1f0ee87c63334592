//! Transposed convolution in the default layout.
//!
//! A task computes rows of the result, and each thread has its own buffer for a row. The elements of a row that are a
//! stride apart are contiguous in the buffer, so that an element of a window adds a whole row of the operand at once.

use super::args::{Buffers, part, tasks};
use super::lanes::{Lanes, widened};
use super::{ISAS, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::transposed::Axis;
use ovolo::op::{Lowering, OpError};
use ovolo::tensor::DType;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[Lowering {
    instruction_sets: ISAS,
    ..Lowering::new("native.conv-transpose", "conv-transpose", contract, kernel)
}];

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    if call.output.dtype != DType::F32 {
        return reference::contract(call);
    }
    let kernel = Transposed::new(call)?;
    Ok(Contract { scratch: kernel.parts * kernel.buffer() * size_of::<f32>(), ..plain_contract("rows") })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    if call.output.dtype != DType::F32 {
        return reference::kernel(call);
    }
    Ok(Box::new(Transposed::new(call)?))
}

struct Transposed {
    images: usize,
    /// The channels of the operand and of the result in a group.
    inputs: usize,
    outputs: usize,
    groups: usize,
    rows: Axis,
    columns: Axis,
    parts: usize,
}

impl Transposed {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let (x, w, y) = (call.inputs[0], call.inputs[1], call.output);
        let groups = usize::try_from(call.attrs.expect_int("groups")).unwrap_or(1).max(1);
        let axis = |axis: usize| Axis::new(call.attrs, axis, x.shape[2 + axis], w.shape[2 + axis]);
        let total = y.shape[0] * y.shape[1] * y.shape[2];
        let work = y.shape.count().saturating_mul(w.shape[0] / groups);
        Ok(Self {
            images: x.shape[0],
            inputs: x.shape[1] / groups,
            outputs: w.shape[1],
            groups,
            rows: axis(0)?,
            columns: axis(1)?,
            parts: tasks(work, total, call.threads),
        })
    }

    /// Returns the elements of one phase of a row: those that are a stride apart, including those that are cut off
    /// later.
    fn phase(&self) -> usize {
        let reach = (self.columns.kernel - 1) * self.columns.dilation;
        (self.columns.input + reach / self.columns.stride + 2).next_multiple_of(16)
    }

    fn buffer(&self) -> usize {
        self.phase() * self.columns.stride
    }
}

/// A row of the result.
struct Row<'a> {
    kernel: &'a Transposed,
    args: &'a Args<'a>,
    scratch: *mut f32,
    at: usize,
}

widened! {
    /// # Safety
    /// The buffers must be those of the call, and no other thread may use the scratch memory or the row.
    unsafe fn one_row(row: &Row<'_>) = row_on;
}

/// # Safety
/// As for [`one_row`]; the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn row_on<V: Lanes>(one: &Row<'_>) {
    let Row { kernel, args, scratch, at } = one;
    let Transposed { rows, columns, .. } = kernel;
    let channels = kernel.outputs * kernel.groups;
    let (plane, row) = (at / rows.output, at % rows.output);
    let (image, output) = (plane / channels, plane % channels);
    let group = output / kernel.outputs;
    let (phase, stride) = (kernel.phase(), columns.stride);
    let [x, w, bias] = [0, 1, 2].map(|operand| args.inputs[operand].cast::<f32>());
    // SAFETY: all indices are within the shapes, and the buffer has room for all phases of a row.
    unsafe {
        std::slice::from_raw_parts_mut(*scratch, kernel.buffer()).fill(*bias.add(output));
        for input in 0..kernel.inputs {
            let channel = group * kernel.inputs + input;
            let window =
                w.add((channel * kernel.outputs + output % kernel.outputs) * rows.kernel * columns.kernel);
            let plane = x.add((image * kernel.groups * kernel.inputs + channel) * rows.input * columns.input);
            for r in 0..rows.kernel {
                let Some(steps) = (row + rows.before).checked_sub(r * rows.dilation) else { continue };
                if !steps.is_multiple_of(rows.stride) || steps / rows.stride >= rows.input {
                    continue;
                }
                let from = plane.add(steps / rows.stride * columns.input);
                for s in 0..columns.kernel {
                    let shift = s * columns.dilation;
                    let to = scratch.add(shift % stride * phase + shift / stride);
                    add::<V>(from, columns.input, *window.add(r * columns.kernel + s), to);
                }
            }
        }
        let target = args.output.cast::<f32>().add(at * columns.output);
        for column in 0..columns.output {
            // The buffer includes the elements that are cut off before the row. Output padding after it has only the
            // bias.
            let place = column + columns.before;
            let (shift, of) = (place / stride, place % stride);
            *target.add(column) =
                if shift < phase { *scratch.add(of * phase + shift) } else { *bias.add(output) };
        }
    }
}

/// Adds `count` elements times a factor to the target.
///
/// # Safety
/// Both must be in bounds, and the processor must have the instruction set of `V`.
#[inline(always)]
unsafe fn add<V: Lanes>(from: *const f32, count: usize, factor: f32, to: *mut f32) {
    let mut at = 0;
    // SAFETY: as the caller promises.
    unsafe {
        let factor = V::splat(factor);
        while at + V::COUNT <= count {
            V::load(from.add(at)).mul_add(factor, V::load(to.add(at))).store(to.add(at));
            at += V::COUNT;
        }
        if at < count {
            let rest = count - at;
            let sum = V::load_first(from.add(at), rest).mul_add(factor, V::load_first(to.add(at), rest));
            sum.store_first(to.add(at), rest);
        }
    }
}

impl Kernel for Transposed {
    unsafe fn run(&self, args: &Args<'_>) {
        let total = self.images * self.outputs * self.groups * self.rows.output;
        let buffers = Buffers::new(args);
        args.team.run(self.parts, |index| {
            let args = buffers.args();
            let scratch = args.scratch.cast::<f32>().wrapping_add(index * self.buffer());
            for at in part(total, self.parts, index, 1) {
                let row = Row { kernel: self, args, scratch, at };
                // SAFETY: only this task uses its rows and its buffer.
                unsafe { one_row(&row) };
            }
        });
    }
}
