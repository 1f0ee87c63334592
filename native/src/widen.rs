//! Calls on `bf16` and `f16` by kernels for `f32`: operands are widened first, and the result is rounded
//! last, once.
//!
//! Takes calls for which a family has only the reference evaluation. The copies in `f32` lie in scratch
//! memory; arithmetic is that of the kernel, so that nothing is rounded in between.

use super::args::{Shared, part, tasks};
use super::reference;
use super::scalar::{Scalar, with_scalar};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::ALIGN;
use ovolo::team::Team;
use ovolo::tensor::{DType, TensorType};

/// How an implementation's name begins.
pub(super) const NAME: &str = ovolo::op::WIDENED;

/// The most operands of a call.
const MOST: usize = 16;

fn narrow(ty: &TensorType) -> bool {
    matches!(ty.dtype, DType::BF16 | DType::F16)
}

fn widened(ty: &TensorType) -> TensorType {
    if narrow(ty) { TensorType { dtype: DType::F32, ..ty.clone() } } else { ty.clone() }
}

/// Where the copies lie in scratch memory, in bytes: of operands, of the result, and what the kernel has.
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

/// What the `f32` call of a narrow one gives, where there is any narrow type in it.
fn wide<T>(call: &Call<'_>, ask: impl FnOnce(&Call<'_>) -> Result<T, String>) -> Option<Result<T, String>> {
    if !call.inputs.iter().any(|ty| narrow(ty)) || call.inputs.len() > MOST {
        return None;
    }
    let inputs: Vec<TensorType> = call.inputs.iter().map(|ty| widened(ty)).collect();
    let inputs: Vec<&TensorType> = inputs.iter().collect();
    Some(ask(&Call { inputs: &inputs, output: &widened(call.output), ..*call }))
}

/// The contract of a call by a kernel for `f32`, where that is more than its reference evaluation.
pub(super) fn contract(
    call: &Call<'_>,
    ask: impl FnOnce(&Call<'_>) -> Result<Contract, String>,
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

/// The kernel for such a contract.
pub(super) fn kernel(
    call: &Call<'_>,
    ask: impl FnOnce(&Call<'_>) -> Result<Box<dyn Kernel>, String>,
) -> Option<Result<Box<dyn Kernel>, String>> {
    let count = |ty: &TensorType| ty.layout.padded_count(&ty.shape);
    Some(wide(call, ask)?.map(|inner| {
        Box::new(Widened {
            inner,
            places: Places::new(call),
            inputs: call.inputs.iter().map(|ty| (ty.dtype, count(ty))).collect(),
            output: (call.output.dtype, count(call.output)),
        }) as Box<dyn Kernel>
    }))
}

struct Widened {
    inner: Box<dyn Kernel>,
    places: Places,
    /// Element types, and elements with padding.
    inputs: Vec<(DType, usize)>,
    output: (DType, usize),
}

/// Converts elements, by the threads of a team.
fn convert<A: Scalar, B: Scalar>(from: Shared<A>, to: Shared<B>, count: usize, team: &Team) {
    let parts = tasks(count, count, team.threads());
    team.run(parts, |index| {
        for at in part(count, parts, index, 16) {
            // SAFETY: both have so many elements, and no other task writes these.
            unsafe { *to.at(at) = (*from.at(at)).cast::<B>() };
        }
    });
}

impl Kernel for Widened {
    unsafe fn run(&self, args: &Args<'_>) {
        let scratch = |at: usize| args.scratch.wrapping_add(at);
        // A run allocates nothing.
        let mut inputs = [std::ptr::null::<u8>(); MOST];
        for (at, place) in self.places.inputs.iter().enumerate() {
            inputs[at] = args.inputs[at];
            let Some(place) = place else { continue };
            let (dtype, count) = self.inputs[at];
            inputs[at] = scratch(*place);
            let to = Shared::<f32>::new(scratch(*place).cast());
            with_scalar!(dtype, A => convert(Shared::<A>::input(args, at), to, count, args.team));
        }
        let output = self.places.output.map_or(args.output, scratch);
        let wide = Args {
            inputs: &inputs[..self.inputs.len()],
            output,
            scratch: scratch(self.places.rest),
            team: args.team,
        };
        // SAFETY: `places` gives each widened value and the inner kernel's scratch aligned bytes of their own;
        // the other buffers are those of this call. The inner contract has no alias, and nothing is in place.
        unsafe { self.inner.run(&wide) };
        if self.places.output.is_some() {
            let (dtype, count) = self.output;
            let from = Shared::<f32>::new(output.cast());
            with_scalar!(dtype, B => convert(from, Shared::<B>::output(args), count, args.team));
        }
    }
}
