//! Checks whether a kernel's result is right.
//!
//! Small calls are compared with the reference evaluation. Larger ones are compared with a kernel of the logical op in
//! the default layout that its backend calls trusted ([`Backend::is_trusted`](ovolo::backend::Backend::is_trusted)).
//! Results are filled with poison before the run, and padding must be zero afterwards.

use crate::operand::{bound, is_on_device, operand};
use ovolo::attr::{Attr, Attrs};
use ovolo::backend::{Args, Kernel};
use ovolo::egraph::KernelCall;
use ovolo::op;
use ovolo::op::{Call, Contract, Op};
use ovolo::registry::Registry;
use ovolo::team::Team;
use ovolo::tensor::{DType, Device, Layout, Tensor, TensorType};
use rustc_hash::FxHashMap;

/// The largest relative error (L2) of a result in 32 bits or more; it allows for Winograd's algorithm.
const TOLERANCE: f64 = 1e-4;
/// The same if a type of 16 bits or TF32 takes part.
const TOLERANCE_HALF: f64 = 2e-2;

/// Factors of operands, the largest first. Where the expected result itself moves when operands change by their
/// rounding, as that of a recurrent layer of many steps with large weights does, smaller operands are taken.
const SCALES: [f64; 3] = [1.0, 1.0 / 8.0, 1.0 / 64.0];
/// The relative change of operands that shows whether a result moves: a last bit of an `f32`.
const CHANGE: f64 = 1.2e-7;

/// Compares the results of kernels with the expected ones.
pub(super) struct Checker<'a> {
    team: &'a Team,
    /// The backends and ops among which the trusted kernels are.
    registry: &'a Registry,
    values: FxHashMap<(usize, TensorType, usize, usize), Tensor>,
    /// Operands by what they were made of, and by their own types.
    made: FxHashMap<(TensorType, TensorType, String), Tensor>,
    expected: FxHashMap<String, Option<Vec<f64>>>,
}

impl<'a> Checker<'a> {
    pub fn new(team: &'a Team, registry: &'a Registry) -> Self {
        Self {
            team,
            registry,
            values: FxHashMap::default(),
            made: FxHashMap::default(),
            expected: FxHashMap::default(),
        }
    }

    /// Drops cached operands and results, which are large.
    pub fn forget(&mut self) {
        self.values.clear();
        self.made.clear();
        self.expected.clear();
    }

    /// Returns the relative error of a kernel's result, and whether the result is right. The error is
    /// infinite if padding is not zero, and `None` if there is nothing to compare with.
    ///
    /// # Safety
    /// A backend made the kernel for this call on as many threads as the checker's team has, and the contract is
    /// what the same backend gave for it.
    pub unsafe fn check(
        &mut self,
        call: &KernelCall,
        contract: &Contract,
        kernel: &dyn Kernel,
    ) -> (Option<f64>, bool) {
        let mut scale = 0;
        loop {
            let (logical, given) = self.operands(call, scale);
            let Some(expected) = self.expected(call, &logical, scale) else { return (None, true) };
            // SAFETY: the caller's promise; the operands have the types of the call.
            let (error, tolerance) = unsafe { self.error(call, contract, kernel, &given, &expected) };
            let right = error <= tolerance;
            let last = scale + 1 == SCALES.len();
            if right || last || !self.moves(call, &logical, &expected, tolerance) {
                return (Some(error), right);
            }
            scale += 1;
        }
    }

    /// Returns the relative error of a kernel's result for these operands, and the largest error of a right result.
    ///
    /// # Safety
    /// As for [`Self::check`]; the operands have the types of the call.
    unsafe fn error(
        &self,
        call: &KernelCall,
        contract: &Contract,
        kernel: &dyn Kernel,
        given: &[Tensor],
        expected: &[f64],
    ) -> (f64, f64) {
        let scratch = if is_on_device(call) { 0 } else { contract.scratch };
        let contract = &Contract { scratch, ..contract.clone() };
        // SAFETY: the caller's promise; a kernel of a device has scratch memory of its own.
        let result = unsafe { run(kernel, contract, given, &call.output, self.team) };
        let plain = result.to_layout(&Layout::PLAIN);
        let padded = plain.to_layout(&call.output.layout).bytes() == result.bytes();
        let error = if padded { relative_error(&plain.to_f64(), expected) } else { f64::MAX };
        let half = |ty: &TensorType| matches!(ty.dtype, DType::F16 | DType::BF16);
        let rounds = matches!(call.attrs.get("tf32"), Some(Attr::Int(1)));
        let tolerance = if rounds || call.inputs.iter().chain([&call.output]).any(half) {
            TOLERANCE_HALF
        } else {
            TOLERANCE
        };
        (error, tolerance)
    }

    /// Returns whether the expected result moves by more than the tolerance when its operands change by their rounding, so
    /// that no kernel could have it.
    fn moves(&self, call: &KernelCall, logical: &[Tensor], expected: &[f64], tolerance: f64) -> bool {
        let changed: Vec<Tensor> = logical
            .iter()
            .map(|value| multiplied(value, |at| 1.0 + if at % 2 == 0 { CHANGE } else { -CHANGE }))
            .collect();
        let moved = if call.converts() { None } else { self.evaluate(call, &changed) };
        moved.is_some_and(|moved| relative_error(&moved.to_f64(), expected) > tolerance)
    }

    /// Returns the operands as the logical op takes them, and as the kernel takes them.
    fn operands(&mut self, call: &KernelCall, scale: usize) -> (Vec<Tensor>, Vec<Tensor>) {
        let below = bound(call);
        let (mut logical, mut given) = (Vec::new(), Vec::new());
        for (at, ty) in call.inputs.iter().enumerate() {
            let plain = on_host(ty);
            let made = call.op.lowered.as_ref().and_then(|lowered| lowered.made(at));
            let made = made.and_then(|(made, maker)| Some((maker, (made.source)(&call.attrs, &plain)?)));
            if let Some((maker, (source, attrs))) = made {
                let source = self.value(at, &source, below, scale);
                let attrs = maker.complete(attrs);
                let value = self
                    .made
                    .entry((source.ty().clone(), plain.clone(), format!("{at}{attrs} {scale}")))
                    .or_insert_with(|| maker.evaluate(&attrs, &[&source], &plain));
                given.push(value.to_layout(&ty.layout));
                logical.push(source);
            } else {
                let value = self.value(at, &plain, below, scale);
                given.push(value.to_layout(&ty.layout));
                logical.push(value);
            }
        }
        (logical, given)
    }

    fn value(&mut self, at: usize, ty: &TensorType, below: usize, scale: usize) -> Tensor {
        let make = || match SCALES[scale] {
            1.0 => operand(ty, at, below),
            factor => multiplied(&operand(ty, at, below), |_| factor),
        };
        self.values.entry((at, ty.clone(), below, scale)).or_insert_with(make).clone()
    }

    fn expected(&mut self, call: &KernelCall, logical: &[Tensor], scale: usize) -> Option<Vec<f64>> {
        if call.converts() {
            return Some(logical[0].to_f64());
        }
        let types: Vec<String> = logical.iter().map(|value| value.ty().to_string()).collect();
        let name = call.op.lowered.as_ref()?.logical.name;
        // The trusted kernel is not compared with itself.
        let itself = if self.is_trusted(call, logical) { call.op.name } else { "" };
        let key = format!("{name}{}({}) {itself} {scale}", call.attrs, types.join(", "));
        if let Some(known) = self.expected.get(&key) {
            return known.clone();
        }
        let value = self.evaluate(call, logical).map(|value| value.to_f64());
        self.expected.insert(key, value.clone());
        value
    }

    #[allow(clippy::cast_precision_loss)]
    fn evaluate(&self, call: &KernelCall, operands: &[Tensor]) -> Option<Tensor> {
        let values: Vec<&Tensor> = operands.iter().collect();
        let types: Vec<&TensorType> = operands.iter().map(Tensor::ty).collect();
        let lowered = call.op.lowered.as_ref()?;
        let (logical, attrs) = (lowered.logical, lowered.logical_attrs(&call.attrs));
        let output = logical.result(&attrs, &types).ok()?;
        if output != on_host(&call.output) {
            return None;
        }
        let work = logical.work(&attrs, &types, &output);
        let reference = || Some(logical.evaluate(&attrs, &values, &output));
        if work.flops <= 2e6 && work.bytes <= 1e6 {
            return reference();
        }
        self.trusted(logical)
            .filter(|op| *op != call.op || !self.is_trusted(call, operands))
            .find_map(|op| self.result(op, &attrs, operands, &output))
            .or_else(|| if work.flops <= 6e7 && work.bytes <= 2.5e7 { reference() } else { None })
    }

    /// The ops that compute a logical op and whose kernels are trusted.
    fn trusted(&self, logical: Op) -> impl Iterator<Item = Op> {
        let computes = move |op: &Op| op.lowered.is_some() && op.logical() == logical;
        let all = self.registry.ops().all().into_iter();
        all.filter(move |op| computes(op) && self.backend_trusts(*op))
    }

    fn backend_trusts(&self, op: Op) -> bool {
        let backend = op.backend().and_then(|name| self.registry.backends().get(name));
        backend.is_some_and(|backend| backend.is_trusted(op))
    }

    /// Whether a call is that of a trusted kernel in the default layout.
    fn is_trusted(&self, call: &KernelCall, operands: &[Tensor]) -> bool {
        self.backend_trusts(call.op) && call.inputs.iter().eq(operands.iter().map(Tensor::ty))
    }

    /// Returns the result of a trusted kernel in the default layout, unless it is the reference evaluation, which is
    /// slow.
    fn result(&self, op: Op, attrs: &Attrs, operands: &[Tensor], output: &TensorType) -> Option<Tensor> {
        let types: Vec<&TensorType> = operands.iter().map(Tensor::ty).collect();
        // Some ops do not accept the default layout, and then the op has no contract for the call.
        if op.result(attrs, &types).as_ref() != Ok(output) {
            return None;
        }
        let trusted = Call { op, attrs, inputs: &types, output, threads: self.team.threads() };
        let contract = trusted.contract().ok()?;
        if contract.implementation == op::REFERENCE {
            return None;
        }
        if let Some(operand) = contract.view_of {
            return (contract.view_offset == 0
                && operands[operand].ty().shape.count() == output.shape.count())
            .then(|| operands[operand].reshaped(output.shape.clone()));
        }
        let kernel = trusted.kernel().ok()?;
        // SAFETY: kernel and contract are of the op's backend for this call, whose types are the operands'.
        Some(unsafe { run(&*kernel, &contract, operands, output, self.team) })
    }
}

/// The same type in the default layout on the host, where results are compared.
pub(super) fn on_host(ty: &TensorType) -> TensorType {
    TensorType { device: Device::Host, ..ty.with_layout(Layout::PLAIN) }
}

/// Runs a kernel once; its result is filled with poison before.
///
/// # Safety
/// A backend made the kernel for a call on operands of these types, with this type of result and as many threads as
/// the team has; the contract is what the same backend gave for that call.
unsafe fn run(
    kernel: &dyn Kernel,
    contract: &Contract,
    operands: &[Tensor],
    output: &TensorType,
    team: &Team,
) -> Tensor {
    let mut result = Tensor::zeros(output.clone());
    match contract.alias {
        Some(operand) => result.bytes_mut().copy_from_slice(operands[operand].bytes()),
        None => result.bytes_mut().fill(0xff),
    }
    let mut scratch = Tensor::zeros(TensorType::plain(DType::U8, [contract.scratch.max(1)]));
    scratch.bytes_mut().fill(0xff);
    let target = result.bytes_mut().as_mut_ptr();
    let mut inputs: Vec<*const u8> = operands.iter().map(|operand| operand.bytes().as_ptr()).collect();
    if let Some(operand) = contract.alias {
        inputs[operand] = target.cast_const();
    }
    let scratch = scratch.bytes_mut().as_mut_ptr();
    // SAFETY: the buffers have the bytes of the call's types and of the contract's scratch, each in a tensor of its
    // own, but for the operand that must be the result's buffer.
    unsafe { kernel.run(&Args { inputs: &inputs, output: target, scratch, team }) };
    result
}

/// Returns a value with each element multiplied by a factor for its index, if its elements are floats.
fn multiplied(value: &Tensor, factor: impl Fn(usize) -> f64) -> Tensor {
    if !value.ty().dtype.is_float() {
        return value.clone();
    }
    let elements: Vec<f64> =
        value.to_f64().iter().enumerate().map(|(at, element)| element * factor(at)).collect();
    Tensor::from_f64(value.ty().dtype, value.ty().shape.clone(), &elements)
}

fn relative_error(value: &[f64], expected: &[f64]) -> f64 {
    let (mut difference, mut scale) = (0.0, 0.0);
    for (value, expected) in value.iter().zip(expected) {
        if value == expected || (value.is_nan() && expected.is_nan()) {
            scale += if expected.is_finite() { expected * expected } else { 0.0 };
            continue;
        }
        difference += (value - expected).powi(2);
        scale += expected.powi(2);
    }
    let error = (difference / scale.max(1e-60)).sqrt();
    if error.is_nan() { f64::MAX } else { error.min(f64::MAX) }
}
