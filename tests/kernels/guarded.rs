//! Buffers with guard zones, and runs of a single kernel between them.

use super::{coverage, types};
use ovolo::attr::Attrs;
use ovolo::backend::{Args, Call};
use ovolo::team::Team;
use ovolo::tensor::{DType, Layout, Tensor, TensorType};

/// The byte that fills unwritten memory: NaN in every floating-point type, -1 in integers.
pub const POISON: u8 = 0xff;
/// Bytes of poison on both sides of a buffer; a multiple of every alignment. Under AddressSanitizer there is
/// none: the buffer is the whole allocation, so reads outside are found too.
pub const GUARD: usize = if cfg!(asan) { 0 } else { 256 };
/// The largest relative error (L2) of a kernel.
const TOLERANCE: f64 = 1e-4;
/// The same for a result in `bf16`, whose rounding may differ from the reference's by one step.
const TOLERANCE_BF16: f64 = 1.0 / 256.0;
/// The same for a result in `f16`.
const TOLERANCE_F16: f64 = 1.0 / 1024.0;

/// A buffer surrounded by poison.
pub struct Guarded {
    bytes: Tensor,
    length: usize,
}

impl Guarded {
    /// Returns a buffer of unwritten bytes.
    pub fn poisoned(length: usize) -> Self {
        let mut bytes = Tensor::zeros(TensorType::plain(DType::U8, [length + 2 * GUARD]));
        bytes.bytes_mut().fill(POISON);
        Self { bytes, length }
    }

    /// Returns a buffer with a copy of these bytes.
    pub fn holding(bytes: &[u8]) -> Self {
        let mut guarded = Self::poisoned(bytes.len());
        guarded.all_mut()[GUARD..][..bytes.len()].copy_from_slice(bytes);
        guarded
    }

    /// The bytes, including the poison around them.
    pub fn all_mut(&mut self) -> &mut [u8] {
        self.bytes.bytes_mut()
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes.bytes()[GUARD..][..self.length]
    }

    /// A pointer to the first byte, for writing.
    pub fn pointer(&mut self) -> *mut u8 {
        self.all_mut()[GUARD..].as_mut_ptr()
    }

    /// Whether the poison around the bytes is untouched.
    pub fn is_intact(&self) -> bool {
        let all = self.bytes.bytes();
        all[..GUARD].iter().chain(&all[GUARD + self.length..]).all(|byte| *byte == POISON)
    }
}

/// Runs a kernel with one thread and more, separately and in place of each operand that its contract allows,
/// and compares the result with the op's reference evaluation.
pub fn step(op: ovolo::op::Op, attrs: &Attrs, operands: &[&Tensor], want: &Tensor) -> Result<(), String> {
    for threads in [1, 2, 3] {
        let types = types(operands);
        let call = Call { op, attrs, inputs: &types, output: want.ty(), threads };
        let contract = call.contract().map_err(|why| why.to_string())?;
        if let Some(operand) = contract.view_of {
            let view = operands[operand].bytes().get(contract.view_offset..).unwrap_or_default();
            let same = view.get(..want.ty().bytes()) == Some(want.bytes());
            coverage::note(op, &contract.implementation);
            return if same { Ok(()) } else { Err("the bytes of the view differ".into()) };
        }
        let kernel = call.kernel().map_err(|why| why.to_string())?;
        let team = Team::new(threads);
        let apart = if contract.alias.is_some() { None } else { Some(None) };
        let places = contract.in_place.iter().copied().chain(contract.alias).map(Some);
        for place in apart.into_iter().chain(places) {
            let mut inputs: Vec<Guarded> =
                operands.iter().map(|operand| Guarded::holding(operand.bytes())).collect();
            let mut output = Guarded::poisoned(want.ty().bytes());
            let mut scratch = Guarded::poisoned(contract.scratch);
            let mut pointers: Vec<*mut u8> = inputs.iter_mut().map(Guarded::pointer).collect();
            let target = match place {
                Some(operand) => pointers[operand],
                None => output.pointer(),
            };
            let readable: Vec<*const u8> = pointers.drain(..).map(<*mut u8>::cast_const).collect();
            let scratch_pointer = scratch.pointer();
            let args = Args { inputs: &readable, output: target, scratch: scratch_pointer, team: &team };
            // SAFETY: kernel and contract are of this call, whose types are those of the buffers; the result
            // takes the place of an operand only where the contract allows that.
            unsafe { kernel.run(&args) };
            let what = format!("{} on {threads} thread(s), in place of {place:?}", contract.implementation);
            for (at, (input, operand)) in inputs.iter().zip(operands).enumerate() {
                if !input.is_intact() || place != Some(at) && input.bytes() != operand.bytes() {
                    return Err(format!("{what}: operand {at} or memory around it was written"));
                }
            }
            if !output.is_intact() || !scratch.is_intact() {
                return Err(format!("{what}: memory around the result or the scratch was written"));
            }
            let bytes = place.map_or(output.bytes(), |operand| &inputs[operand].bytes()[..want.ty().bytes()]);
            agrees(&tensor(want.ty(), bytes), want).map_err(|why| format!("{what}: {why}"))?;
        }
        coverage::note(op, &contract.implementation);
    }
    Ok(())
}

/// Returns a tensor with these bytes.
pub fn tensor(ty: &TensorType, bytes: &[u8]) -> Tensor {
    let mut tensor = Tensor::zeros(ty.clone());
    tensor.bytes_mut().copy_from_slice(bytes);
    tensor
}

/// Checks that a result is close to the reference's, with zero in its padding.
pub fn agrees(got: &Tensor, want: &Tensor) -> Result<(), String> {
    if got.ty() != want.ty() {
        return Err(format!("the result is {} instead of {}", got.ty(), want.ty()));
    }
    let again = got.to_layout(&Layout::PLAIN).to_layout(&got.ty().layout);
    let zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let size = got.ty().dtype.size();
    let elements = got.bytes().chunks(size).zip(again.bytes().chunks(size));
    if elements
        .clone()
        .any(|(got, again)| zero(again) && !zero(got) && got[..size - 1].iter().any(|b| *b != 0))
    {
        return Err("the padding is not zero".into());
    }
    let (mut difference, mut scale) = (0.0, 0.0);
    for (at, (got, want)) in got.to_f64().into_iter().zip(want.to_f64()).enumerate() {
        if got.is_nan() != want.is_nan() {
            return Err(format!("element {at} is {got} instead of {want}"));
        }
        if got != want && !got.is_nan() {
            difference += (got - want) * (got - want);
        }
        scale += if want.is_finite() { want * want } else { 0.0 };
    }
    let error = (difference / f64::max(scale, 1e-30)).sqrt();
    let tolerance = match got.ty().dtype {
        DType::BF16 => TOLERANCE_BF16,
        DType::F16 => TOLERANCE_F16,
        _ => TOLERANCE,
    };
    if error <= tolerance { Ok(()) } else { Err(format!("relative error {error:.1e}")) }
}
