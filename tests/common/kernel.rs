//! Compares a kernel with its op's reference evaluation, for tests.

use ovolo::attr::Attrs;
use ovolo::backend::{Args, Call, Contract};
use ovolo::team::Team;
use ovolo::tensor::{DType, Shape, Tensor, TensorType};

/// A stream of random numbers that is the same in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % limit
    }

    /// Returns a tensor of values between -2 and 2, small integers, or booleans, depending on the type.
    pub(crate) fn tensor(&mut self, dtype: DType, shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        let values: Vec<f64> = (0..shape.count())
            .map(|_| match dtype {
                DType::Bool => self.below(2) as f64,
                DType::U8 | DType::U16 | DType::U32 | DType::U64 => self.below(100) as f64,
                _ if dtype.is_float() => self.below(4001) as f64 / 1000.0 - 2.0,
                _ => self.below(41) as f64 - 20.0,
            })
            .collect();
        Tensor::from_f64(dtype, shape, &values)
    }

    /// Returns a tensor of `f32` in the default layout.
    pub(crate) fn f32(&mut self, shape: impl Into<Shape>) -> Tensor {
        self.tensor(DType::F32, shape)
    }
}

/// Runs a kernel. `place` is the operand whose buffer the result takes over.
pub(crate) fn run(
    op: &'static str,
    attrs: &Attrs,
    inputs: &[&Tensor],
    output: &TensorType,
    threads: usize,
    place: Option<usize>,
) -> (Contract, Tensor) {
    let types: Vec<&TensorType> = inputs.iter().map(|input| input.ty()).collect();
    let op = super::fixture::ops().get(op).unwrap();
    let call = Call { op, attrs, inputs: &types, output, threads };
    let contract = call.contract().unwrap_or_else(|why| panic!("{op}{attrs}: {why}"));
    let mut result = Tensor::zeros(output.clone());
    if let Some(operand) = contract.view_of {
        let bytes = &inputs[operand].bytes()[contract.view_offset..][..output.bytes()];
        result.bytes_mut().copy_from_slice(bytes);
        return (contract, result);
    }
    let mut place_of_result = Guarded::new(output.bytes());
    if let Some(operand) = place.or(contract.alias) {
        place_of_result.inside().copy_from_slice(inputs[operand].bytes());
    }
    let output = place_of_result.inside().as_mut_ptr();
    let mut pointers: Vec<*const u8> = inputs.iter().map(|input| input.bytes().as_ptr()).collect();
    if let Some(operand) = place.or(contract.alias) {
        pointers[operand] = output;
    }
    let mut scratch = Guarded::new(contract.scratch);
    let kernel = call.kernel().unwrap_or_else(|why| panic!("{op}{attrs}: {why}"));
    let team = Team::new(threads);
    let inside = scratch.inside().as_mut_ptr();
    // SAFETY: kernel and contract are of this call, whose types are those of the buffers; the result takes the
    // place of an operand only where the contract allows that, and begins with its bytes.
    unsafe { kernel.run(&Args { inputs: &pointers, output, scratch: inside, team: &team }) };
    place_of_result.check(op.name);
    scratch.check(op.name);
    result.bytes_mut().copy_from_slice(place_of_result.inside());
    (contract, result)
}

/// Memory with zones around it that must not be written. All of it is NaN at first.
struct Guarded {
    memory: Tensor,
    size: usize,
}

/// Bytes of a zone. Under AddressSanitizer there are no zones: the buffer is the whole allocation, so reads
/// outside are found too.
const ZONE: usize = if cfg!(asan) { 0 } else { 256 };

impl Guarded {
    fn new(size: usize) -> Self {
        let mut memory = Tensor::zeros(TensorType::plain(DType::U8, [size + 2 * ZONE]));
        memory.bytes_mut().fill(0xff);
        Self { memory, size }
    }

    fn inside(&mut self) -> &mut [u8] {
        &mut self.memory.bytes_mut()[ZONE..][..self.size]
    }

    fn check(&self, op: &str) {
        let bytes = self.memory.bytes();
        let whole = bytes[..ZONE].iter().chain(&bytes[ZONE + self.size..]).all(|byte| *byte == 0xff);
        assert!(whole, "{op} writes outside its buffers");
    }
}

/// Asserts that two tensors of one type agree within a tolerance, which is relative for values above one.
pub(crate) fn assert_close(what: &str, got: &Tensor, want: &Tensor, tolerance: f64) {
    assert_eq!(got.ty(), want.ty(), "{what}");
    if let Some(at) = padding(got) {
        panic!("{what}: padding at {at} is not zero");
    }
    for (at, (got, want)) in got.to_f64().iter().zip(want.to_f64()).enumerate() {
        let same = *got == want || (got.is_nan() && want.is_nan());
        assert!(
            same || (got - want).abs() <= tolerance * want.abs().max(1.0),
            "{what}: element {at} is {got} instead of {want}"
        );
    }
}

/// Returns the first position where padding is not zero.
pub(crate) fn padding(tensor: &Tensor) -> Option<usize> {
    let again = tensor.to_layout(&ovolo::tensor::Layout::PLAIN).to_layout(&tensor.ty().layout);
    (0..tensor.bytes().len()).find(|&at| again.bytes()[at] == 0 && tensor.bytes()[at] != 0)
}

/// Asserts that a kernel's results equal the op's reference evaluation: with one thread, with two, and in
/// place of each operand that its contract allows.
pub(crate) fn verify(op: &'static str, attrs: &Attrs, inputs: &[&Tensor], tolerance: f64) -> Contract {
    let definition = super::fixture::ops().get(op).unwrap_or_else(|| panic!("`{op}` is not in the registry"));
    let types: Vec<&TensorType> = inputs.iter().map(|input| input.ty()).collect();
    let output = definition.result(attrs, &types).unwrap_or_else(|why| panic!("{op}{attrs}: {why}"));
    let want = definition.evaluate(attrs, inputs, &output);
    let listed: Vec<String> = types.iter().map(ToString::to_string).collect();
    let what = format!("{op}{attrs}({})", listed.join(", "));
    let (contract, one) = run(op, attrs, inputs, &output, 1, None);
    assert_close(&what, &one, &want, tolerance);
    let (_, two) = run(op, attrs, inputs, &output, 2, None);
    if op.starts_with("native.") {
        assert!(one.bytes() == two.bytes(), "{what}: the results of two threads and of one differ");
    } else {
        // A library may add in another order if its part is smaller.
        assert_close(&format!("{what} with two threads"), &two, &want, tolerance);
    }
    for &operand in &contract.in_place {
        let (_, placed) = run(op, attrs, inputs, &output, 2, Some(operand));
        assert!(two.bytes() == placed.bytes(), "{what}: the result in place of operand {operand} differs");
    }
    contract
}
