//! Calls on `bf16` and `f16` that run `f32` kernels: the operands are converted first, and the result is rounded once
//! at the end.
//!
//! This is for calls for which a family has only the reference evaluation. The copies in `f32` are in scratch memory.
//! The kernel computes in `f32`, so intermediate values are not rounded to the narrow type.

use super::args::Shared;
use super::elements::Conversion;
use super::reference;
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{ALIGN, OpError};
use ovolo::tensor::{DType, TensorType};

/// The prefix of the implementation's name.
pub(super) const NAME: &str = ovolo::op::WIDENED;

/// The largest number of operands of a call.
const MAX_OPERANDS: usize = 16;

fn narrow(ty: &TensorType) -> bool {
    matches!(ty.dtype, DType::BF16 | DType::F16)
}

fn widened(ty: &TensorType) -> TensorType {
    if narrow(ty) { TensorType { dtype: DType::F32, ..ty.clone() } } else { ty.clone() }
}

/// The offsets in scratch memory, in bytes, of the copies of the operands, of the copy of the result, and of the
/// kernel's own scratch memory.
struct Places {
    inputs: Vec<Option<usize>>,
    output: Option<usize>,
    rest: usize,
}

impl Places {
    fn new(call: &Call<'_>) -> Self {
        let mut next = 0;
        let mut place = |ty: &TensorType| {
            narrow(ty).then(|| {
                let at = next;
                next += widened(ty).bytes().next_multiple_of(ALIGN);
                at
            })
        };
        let inputs = call.inputs.iter().map(|ty| place(ty)).collect();
        let output = place(call.output);
        Self { inputs, output, rest: next }
    }
}

/// Calls `ask` with the `f32` version of a call. Returns `None` if the call has no narrow type, or one in a
/// sparse layout.
fn wide<T>(call: &Call<'_>, ask: impl FnOnce(&Call<'_>) -> Result<T, OpError>) -> Option<Result<T, OpError>> {
    // The bytes of a sparse layout are not elements alone.
    let sparse = call.inputs.iter().any(|ty| ty.layout.stored().is_some());
    if !call.inputs.iter().any(|ty| narrow(ty)) || call.inputs.len() > MAX_OPERANDS || sparse {
        return None;
    }
    let inputs: Vec<TensorType> = call.inputs.iter().map(|ty| widened(ty)).collect();
    let inputs: Vec<&TensorType> = inputs.iter().collect();
    Some(ask(&Call { inputs: &inputs, output: &widened(call.output), ..*call }))
}

/// Returns the contract of a call that an `f32` kernel runs, unless that kernel is the reference evaluation.
pub(super) fn contract(
    call: &Call<'_>,
    ask: impl FnOnce(&Call<'_>) -> Result<Contract, OpError>,
) -> Option<Contract> {
    let inner = wide(call, ask)?.ok()?;
    if inner.implementation == reference::NAME || inner.view_of.is_some() || inner.alias.is_some() {
        return None;
    }
    Some(Contract {
        implementation: format!("{NAME}{}", inner.implementation),
        scratch: Places::new(call).rest + inner.scratch,
        ..Contract::default()
    })
}

/// Creates the kernel for such a contract.
pub(super) fn kernel(
    call: &Call<'_>,
    ask: impl FnOnce(&Call<'_>) -> Result<Box<dyn Kernel>, OpError>,
) -> Option<Result<Box<dyn Kernel>, OpError>> {
    let count = |ty: &TensorType| ty.layout.padded_count(&ty.shape);
    Some(wide(call, ask)?.map(|inner| {
        Box::new(Widened {
            inner,
            places: Places::new(call),
            inputs: call
                .inputs
                .iter()
                .map(|ty| (narrow(ty).then(|| Conversion::new(ty.dtype, DType::F32)), count(ty)))
                .collect(),
            output: (Conversion::new(DType::F32, call.output.dtype), count(call.output)),
        }) as Box<dyn Kernel>
    }))
}

struct Widened {
    inner: Box<dyn Kernel>,
    places: Places,
    /// The conversions, and the number of elements with padding.
    inputs: Vec<(Option<Conversion>, usize)>,
    output: (Conversion, usize),
}

impl Kernel for Widened {
    unsafe fn run(&self, args: &Args<'_>) {
        let scratch = |at: usize| args.scratch.wrapping_add(at);
        // Fixed-size arrays are used, because a run must not allocate memory.
        let mut inputs = [std::ptr::null::<u8>(); MAX_OPERANDS];
        for (at, place) in self.places.inputs.iter().enumerate() {
            inputs[at] = args.inputs[at];
            let (Some(place), (Some(conversion), count)) = (place, &self.inputs[at]) else { continue };
            inputs[at] = scratch(*place);
            let to = Shared::new(scratch(*place));
            // SAFETY: the operand and its place in the scratch memory have this number of elements.
            unsafe { conversion.run(Shared::input(args, at), to, *count, args.team) };
        }
        let output = self.places.output.map_or(args.output, scratch);
        let wide = Args {
            inputs: &inputs[..self.inputs.len()],
            output,
            scratch: scratch(self.places.rest),
            team: args.team,
        };
        // SAFETY: `places` gives each converted value and the inner kernel's scratch memory its own aligned bytes;
        // the other buffers are those of this call. The inner contract has no alias, and nothing is in place.
        unsafe { self.inner.run(&wide) };
        if self.places.output.is_some() {
            let (conversion, count) = &self.output;
            // SAFETY: the place in the scratch memory and the result have this number of elements.
            unsafe { conversion.run(Shared::new(output), Shared::output(args), *count, args.team) };
        }
    }
}
