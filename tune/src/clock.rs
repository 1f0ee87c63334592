//! Times one run of a kernel in the state in which a plan would run it.
//!
//! The result of the step before is warm, so all threads write the operands just before the run. Weights lie
//! in a ring as large as all constants of the model, and each run uses the next part of it: then as many
//! other weights were read since as in the plan, and no eviction must be timed or waited for. Results and
//! scratch are in one arena, as in a plan.

use crate::calibrate;
use crate::check::on_host;
use crate::operand::{bound, is_on_device, operand};
use crate::placement::Placement;
use ovolo::backend::{Args, Kernel};
use ovolo::egraph::KernelCall;
use ovolo::op::{Contract, OpError};
use ovolo::team::Team;
use ovolo::tensor::{DType, Tensor, TensorType};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

const ALIGN: usize = 64;
/// Bytes of noise from which operands are written; few enough to stay in the first cache levels.
const NOISE: usize = 16 << 10;
/// The pause between a disturbed run and the next try, because disturbances come close together.
const PAUSE: Duration = Duration::from_millis(2);
/// The longest single wait for a good placement of the threads.
const WAIT: Duration = Duration::from_millis(400);

/// Where an operand is.
enum Source {
    /// In the arena: offset and bytes.
    Arena(usize, usize),
    /// In the ring of weights: bytes.
    Ring(usize),
    /// In a tensor of its own, because its elements are not arbitrary numbers but, for instance, indices. Kernels of
    /// one batch share it.
    Own(Rc<Tensor>),
    /// In a tensor of its own, into which the kernel writes.
    Written(Tensor),
}

/// A kernel that is ready to be timed.
pub(super) struct Runnable {
    kernel: Box<dyn Kernel>,
    sources: Vec<Source>,
    output: usize,
    scratch: usize,
    alias: Option<usize>,
    pub samples: Vec<f64>,
    /// The number of disturbed samples.
    pub rough: usize,
}

/// The memory in which kernels are timed.
pub(super) struct Clock<'a> {
    team: &'a Team,
    ring: Tensor,
    at: usize,
    noise: Tensor,
    arena: Tensor,
    /// The bytes of the model's constants.
    constants: usize,
    /// The operands in tensors of their own, by seed, type and bound.
    operands: FxHashMap<(usize, TensorType, usize), Rc<Tensor>>,
    placement: Placement,
    /// How long it may still wait for a good placement of the threads.
    patience: Duration,
}

impl<'a> Clock<'a> {
    /// Returns a clock for a model with `constants` bytes of constants, which waits at most `patience` in all
    /// for a good placement.
    pub fn new(team: &'a Team, constants: usize, patience: Duration) -> Self {
        let bytes = |bytes: usize| Tensor::zeros(TensorType::plain(DType::U8, [bytes]));
        let mut noise = bytes(NOISE);
        for (at, value) in noise.bytes_mut().chunks_exact_mut(4).enumerate() {
            #[allow(clippy::cast_precision_loss)]
            let sample = (at.wrapping_mul(2_654_435_761) >> 7 & 0xffff) as f32 / 65536.0 - 0.4;
            value.copy_from_slice(&sample.to_le_bytes());
        }
        let placement = calibrate::placement(team);
        let mut clock = Self {
            team,
            ring: bytes(0),
            at: 0,
            noise,
            arena: bytes(0),
            constants,
            operands: FxHashMap::default(),
            placement,
            patience,
        };
        clock.grow_ring(constants.max(1 << 20));
        clock
    }

    fn grow_ring(&mut self, bytes: usize) {
        if self.ring.bytes().len() < bytes {
            let mut ring = Tensor::zeros(TensorType::plain(DType::U8, [bytes.next_multiple_of(ALIGN)]));
            let start = ring.bytes_mut().as_mut_ptr();
            self.write(start, bytes.next_multiple_of(ALIGN));
            (self.ring, self.at) = (ring, 0);
        }
    }

    /// Lets all threads write noise, each to its own part.
    fn write(&self, to: *mut u8, bytes: usize) {
        let parts = self.team.threads();
        let (address, noise) = (to as usize, self.noise.bytes());
        self.team.run(parts, |part| {
            let cut = |part: usize| (bytes.div_ceil(ALIGN) * part / parts * ALIGN).min(bytes);
            let mut at = cut(part);
            while at < cut(part + 1) {
                let length = NOISE.min(cut(part + 1) - at);
                // SAFETY: parts are disjoint, and within the bytes that the caller owns.
                unsafe {
                    std::ptr::copy_nonoverlapping(noise.as_ptr(), (address as *mut u8).add(at), length);
                }
                at += length;
            }
        });
    }

    /// Drops the operands of the kernels so far, which are large.
    pub fn forget(&mut self) {
        self.operands.clear();
    }

    /// Makes room for a kernel's operands.
    ///
    /// # Errors
    /// [`OpError::Memory`] if a device has not enough memory, or what else it reports.
    ///
    /// # Safety
    /// A backend made the kernel for this call on as many threads as the clock's team has, and the contract is what
    /// the same backend gave for it. No other clock takes samples of the result.
    pub unsafe fn prepare(
        &mut self,
        call: &KernelCall,
        contract: &Contract,
        kernel: Box<dyn Kernel>,
    ) -> Result<Runnable, OpError> {
        kernel.prepare_timing(&call.constant, self.constants)?;
        let mut end = 0;
        let mut take = |bytes: usize| {
            let at = end;
            end += bytes.next_multiple_of(ALIGN);
            at
        };
        let mut sources = Vec::new();
        let mut ring = 0;
        let below = bound(call);
        for (at, (ty, constant)) in call.inputs.iter().zip(&call.constant).enumerate() {
            sources.push(match (ty.dtype, constant) {
                (DType::F32, true) => {
                    ring += ty.bytes().next_multiple_of(ALIGN);
                    Source::Ring(ty.bytes())
                }
                (DType::F32, false) => Source::Arena(take(ty.bytes()), ty.bytes()),
                _ => {
                    let key = (at, ty.clone(), below);
                    let make = || Rc::new(operand(&on_host(ty), at, below).to_layout(&ty.layout));
                    let own = self.operands.entry(key).or_insert_with(make);
                    if contract.alias == Some(at) {
                        Source::Written(Tensor::clone(own))
                    } else {
                        Source::Own(Rc::clone(own))
                    }
                }
            });
        }
        let output = take(call.output.bytes());
        let scratch = take(if is_on_device(call) { 0 } else { contract.scratch });
        if self.arena.bytes().len() < end {
            self.arena = Tensor::zeros(TensorType::plain(DType::U8, [end]));
        }
        self.grow_ring(ring);
        let alias = contract.alias;
        Ok(Runnable { kernel, sources, output, scratch, alias, samples: Vec::new(), rough: 0 })
    }

    /// Keeps what was learned about the placement.
    pub fn keep(&self) {
        calibrate::keep_placement(self.team, &self.placement);
    }

    /// Waits a little after a disturbed run. Returns whether another try is worth it.
    pub fn rest(&mut self) -> bool {
        std::thread::sleep(PAUSE.min(self.patience));
        let (holds, waited) = self.placement.wait(self.team, WAIT.min(self.patience));
        self.patience = self.patience.saturating_sub(waited);
        holds
    }

    /// Returns the seconds of one run, and whether it was disturbed: another process took a processor, or the
    /// placement of the threads is bad.
    pub fn sample(&mut self, runnable: &mut Runnable) -> (f64, bool) {
        let arena = self.arena.bytes_mut().as_mut_ptr();
        let mut inputs: Vec<*const u8> = Vec::with_capacity(runnable.sources.len());
        let mut output = arena.wrapping_add(runnable.output);
        for (operand, source) in runnable.sources.iter_mut().enumerate() {
            let start = match source {
                Source::Arena(offset, bytes) => {
                    let start = arena.wrapping_add(*offset);
                    self.write(start, *bytes);
                    start
                }
                Source::Ring(bytes) => {
                    let bytes = bytes.next_multiple_of(ALIGN);
                    if self.at + bytes > self.ring.bytes().len() {
                        self.at = 0;
                    }
                    self.at += bytes;
                    self.ring.bytes_mut().as_mut_ptr().wrapping_add(self.at - bytes)
                }
                Source::Own(tensor) => tensor.bytes().as_ptr().cast_mut(),
                Source::Written(tensor) => tensor.bytes_mut().as_mut_ptr(),
            };
            if runnable.alias == Some(operand) {
                output = start;
            }
            inputs.push(start.cast_const());
        }
        let args =
            Args { inputs: &inputs, output, scratch: arena.wrapping_add(runnable.scratch), team: self.team };
        let before = switches();
        let start = Instant::now();
        // SAFETY: `prepare` was promised that kernel and contract belong to the call, and has made room for each of
        // its buffers: apart in the arena, apart in the ring, or in a tensor of its own. Neither shrinks.
        unsafe { runnable.kernel.run(&args) };
        let elapsed = start.elapsed().as_secs_f64();
        if let Some(seconds) = runnable.kernel.seconds() {
            // Work on the host's processors does not disturb a device.
            return (seconds, false);
        }
        (elapsed, switches() != before || !self.placement.holds(self.team))
    }
}

/// How often a thread of this process has lost its processor so far, if the system reports it.
#[cfg(not(unix))]
fn switches() -> i64 {
    0
}

/// How often a thread of this process has lost its processor so far, if the system reports it.
#[cfg(unix)]
fn switches() -> i64 {
    // SAFETY: a plain structure of numbers, for which zeros are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is this function's own.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } != 0 {
        return 0;
    }
    usage.ru_nivcsw
}

/// The value below which a quarter of the samples lie.
pub(super) fn lower_quartile(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 4).copied().unwrap_or(f64::INFINITY)
}

/// The smallest sample that three quarters of them do not exceed.
pub(super) fn upper_quartile(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get((3 * sorted.len()).div_ceil(4).saturating_sub(1)).copied().unwrap_or(f64::INFINITY)
}

/// The median, and half the distance between the quartiles as a share of it.
pub(super) fn median(samples: &[f64]) -> (f64, f64) {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: usize| sorted.get((sorted.len() * share / 4).min(sorted.len().saturating_sub(1)));
    let middle = at(2).copied().unwrap_or(f64::INFINITY);
    let distance = at(3).copied().unwrap_or(0.0) - at(1).copied().unwrap_or(0.0);
    (middle, distance / 2.0 / middle.max(1e-12))
}
