//! `native.lstm`, `native.gru` and `native.rnn`: all steps of a recurrent layer, in one pass for each direction.
//!
//! Directions run in parallel. A layer with one direction and much work for a step divides the units of each step, so
//! that each thread keeps its part of the weights in the cache of its core. `native.lstm-packed` and its kind take the
//! weights in panels.

mod products;

use self::products::{PACKED, PANEL, Product};
use super::args::{Buffers, Shared, part};
use super::lanes::{Lanes, widened};
use super::{ISAS, math, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::KernelChoice;
use ovolo::op::recurrent::{Activation, Cell, Kind, Layer};
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::{DType, Layout, TensorType};
use std::ops::Range;

/// The ops of this family.
pub(super) const OPS: &[Lowering] = &[
    Lowering { choices, instruction_sets: ISAS, ..Lowering::new("native.lstm", "lstm", contract, kernel) },
    Lowering { choices, instruction_sets: ISAS, ..Lowering::new("native.gru", "gru", contract, kernel) },
    Lowering { choices, instruction_sets: ISAS, ..Lowering::new("native.rnn", "rnn", contract, kernel) },
    packed("native.lstm-packed", "lstm"),
    packed("native.gru-packed", "gru"),
    packed("native.rnn-packed", "rnn"),
    Lowering::new("native.round-to-levels", "round-to-levels", reference::contract, reference::kernel),
];

/// The layouts of an op that takes the weights in panels.
const PANELS: Layouts = Layouts::Forms(&[Form::new(&["plain", PACKED], "plain")]);

/// Declares an op that takes the weights in panels.
const fn packed(name: &'static str, of: &'static str) -> Lowering {
    Lowering { layouts: PANELS, choices, instruction_sets: ISAS, ..Lowering::new(name, of, contract, kernel) }
}

/// The multiply-adds of a step from which on its units are divided among threads.
const DIVIDED: usize = 96 * 1024;
/// The units in a task are a multiple of this, so that tasks write different cache lines.
const UNITS: usize = 16;

/// A layer, and whether its weights are in panels.
struct Plan {
    layer: Layer,
    packed: bool,
}

fn plan(call: &Call<'_>) -> Option<Plan> {
    let cell = Cell::of(call.op.meaning())?;
    let plain: Vec<TensorType> = call.inputs.iter().map(|ty| ty.with_layout(Layout::PLAIN)).collect();
    let layer = Layer::new(cell, call.attrs, &plain.iter().collect::<Vec<_>>()).ok()?;
    let packed = !call.inputs[1].layout.is_plain();
    (call.output.dtype == DType::F32 && layer.hidden > 0).then_some(Plan { layer, packed })
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let Some(Plan { layer, packed }) = plan(call) else { return reference::contract(call) };
    let scratch = layer.directions * Buffer::new(&layer).total * size_of::<f32>();
    Ok(Contract { scratch, ..plain_contract(if packed { "panels" } else { "rows" }) })
}

/// Returns among how many threads the units of a step are divided; 1 if a thread has all units of a direction.
fn divided_among(layer: &Layer, threads: usize) -> usize {
    let work = layer.cell.gates() * layer.hidden * layer.hidden * layer.batch;
    if layer.directions == 1 && work >= DIVIDED { threads.min(layer.hidden.div_ceil(UNITS)) } else { 1 }
}

/// How threads share the units of a step: by sizes and threads alone.
fn choices(call: &Call<'_>) -> Vec<KernelChoice> {
    let Some(Plan { layer, .. }) = plan(call) else { return Vec::new() };
    let units = match divided_among(&layer, call.threads) {
        1 => "a thread has whole directions".to_owned(),
        parts => format!("divided among {parts} threads"),
    };
    vec![KernelChoice::new("units of a step", units)]
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(match plan(call) {
        Some(Plan { layer, packed }) => Box::new(Recurrent { layer, packed }),
        None => return reference::kernel(call),
    })
}

/// The places of values in the scratch memory of a direction, in elements.
#[derive(Clone, Copy)]
struct Buffer {
    /// The state before the step, and the one after it: they change places after each step.
    states: [usize; 2],
    /// The state as products read it, if that differs.
    seen: usize,
    /// The memory of an LSTM.
    memory: usize,
    /// The sums of the gates.
    gates: usize,
    total: usize,
}

impl Buffer {
    fn new(layer: &Layer) -> Self {
        let plane = (layer.batch * layer.hidden).next_multiple_of(UNITS);
        let gates = layer.cell.gates();
        Self {
            states: [0, plane],
            seen: 2 * plane,
            memory: 3 * plane,
            gates: 4 * plane,
            total: (4 + gates) * plane,
        }
    }
}

struct Recurrent {
    layer: Layer,
    packed: bool,
}

impl Kernel for Recurrent {
    unsafe fn run(&self, args: &Args<'_>) {
        let layer = &self.layer;
        let buffers = Buffers::new(args);
        let parts = divided_among(layer, args.team.threads());
        if parts > 1 {
            let one = Direction::new(self, buffers.args(), 0);
            // SAFETY: phases follow each other, and the parts of a phase write different units.
            unsafe {
                one.start();
                for step in 0..layer.steps {
                    one.before(step);
                    for phase in 0..one.phases() {
                        args.team.run(parts, |index| {
                            let one = Direction::new(self, buffers.args(), 0);
                            let units = part(layer.hidden, parts, index, UNITS);
                            step_of(&one, step, phase, units.start, units.end);
                        });
                    }
                }
                one.finish();
            }
            return;
        }
        args.team.run(layer.directions, |direction| {
            let one = Direction::new(self, buffers.args(), direction);
            // SAFETY: directions write different parts of the result and of the scratch memory.
            unsafe {
                one.start();
                for step in 0..layer.steps {
                    one.before(step);
                    for phase in 0..one.phases() {
                        step_of(&one, step, phase, 0, layer.hidden);
                    }
                }
                one.finish();
            }
        });
    }
}

/// One direction of a layer during a run.
struct Direction<'a> {
    layer: &'a Layer,
    packed: bool,
    args: &'a Args<'a>,
    index: usize,
    scratch: Shared<f32>,
    buffer: Buffer,
}

impl<'a> Direction<'a> {
    fn new(kernel: &'a Recurrent, args: &'a Args<'a>, index: usize) -> Self {
        let Recurrent { layer, packed } = kernel;
        let buffer = Buffer::new(layer);
        let scratch = Shared::new(Shared::<f32>::scratch(args).at(index * buffer.total));
        Self { layer, packed: *packed, args, index, scratch, buffer }
    }

    /// Returns the number of parts of a step that follow each other.
    fn phases(&self) -> usize {
        if self.layer.cell == Cell::Gru && !self.layer.linear { 2 } else { 1 }
    }

    fn plane(&self) -> usize {
        self.layer.batch * self.layer.hidden
    }

    /// Returns the place in the result of a row of states.
    fn place(&self, time: usize, row: usize) -> *mut f32 {
        let Layer { batch, directions, hidden, .. } = *self.layer;
        Shared::<f32>::output(self.args).at(((time * directions + self.index) * batch + row) * hidden)
    }

    /// Returns the number of steps of a sequence.
    fn length(&self, row: usize) -> usize {
        match self.layer.lengths {
            // SAFETY: the operand has one length for each sequence.
            Some(at) => usize::try_from(unsafe { *Shared::<i32>::input(self.args, at).at(row) })
                .unwrap_or(0)
                .min(self.layer.steps),
            None => self.layer.steps,
        }
    }

    /// Copies the initial states.
    unsafe fn start(&self) {
        let plane = self.plane();
        for (operand, to) in [(2, self.buffer.states[0]), (3, self.buffer.memory)] {
            if operand < 2 + self.layer.cell.finals() {
                let from = Shared::<f32>::input(self.args, operand).at(self.index * plane);
                // SAFETY: both have this number of elements.
                unsafe { std::ptr::copy_nonoverlapping(from, self.scratch.at(to), plane) };
            }
        }
    }

    /// Rounds the state for the products of a step, if the layer does that.
    unsafe fn before(&self, step: usize) {
        if !self.layer.rounded {
            return;
        }
        let state = self.scratch.at(self.buffer.states[step % 2]);
        // SAFETY: only this thread uses the scratch memory now.
        let (state, seen) = unsafe {
            (
                std::slice::from_raw_parts(state, self.plane()),
                std::slice::from_raw_parts_mut(self.scratch.at(self.buffer.seen), self.plane()),
            )
        };
        seen.copy_from_slice(state);
        levels(seen);
    }

    /// Copies the final states to the result.
    unsafe fn finish(&self) {
        let steps = self.layer.steps;
        let sources = [self.buffer.states[steps % 2], self.buffer.memory];
        for (at, from) in sources.into_iter().take(self.layer.cell.finals()).enumerate() {
            // SAFETY: both have this number of elements.
            unsafe {
                std::ptr::copy_nonoverlapping(self.scratch.at(from), self.place(steps + at, 0), self.plane());
            }
        }
    }
}

/// Rounds values to 256 levels, in the arithmetic of binary32.
fn levels(values: &mut [f32]) {
    let least = values.iter().copied().fold(0.0, f32::min);
    let most = values.iter().copied().fold(0.0, f32::max);
    let scale = if most > least { (most - least) / 255.0 } else { 1.0 };
    let zero = (-least / scale).clamp(0.0, 255.0).round_ties_even();
    for value in values {
        let level = ((*value / scale).round_ties_even() + zero).clamp(0.0, 255.0);
        *value = (level - zero) * scale;
    }
}

widened! {
    /// Computes a phase of a step for some units.
    unsafe fn step_of(one: &Direction<'_>, step: usize, phase: usize, first: usize, end: usize) = step_body;
}

#[inline(always)]
unsafe fn step_body<V: Lanes>(one: &Direction<'_>, step: usize, phase: usize, first: usize, end: usize) {
    let Layer { cell, batch, directions, hidden, .. } = *one.layer;
    let width = cell.gates() * hidden;
    let (old, new) = (one.buffer.states[step % 2], one.buffer.states[1 - step % 2]);
    let seen = if one.layer.rounded { one.buffer.seen } else { old };
    let rows = if one.packed { width.next_multiple_of(PANEL) } else { width };
    let mut product = Product {
        weights: Shared::<f32>::input(one.args, 1).at(one.index * rows * hidden).cast_const(),
        packed: one.packed,
        depth: hidden,
        batch,
        states: std::ptr::null(),
        sums: one.scratch.at(one.buffer.gates),
        width,
    };
    // SAFETY: rows, units and gates are within the operands, the result and the scratch memory, and no other thread
    // writes these units.
    unsafe {
        // The products of gates with the state; the last gate of a GRU needs the reset state of all units.
        let (gates, from) = match (cell, one.layer.linear, phase) {
            (Cell::Gru, false, 0) => (0..2, seen),
            (Cell::Gru, false, _) => (2..3, one.buffer.seen),
            _ => (0..cell.gates(), seen),
        };
        product.states = one.scratch.at(from).cast_const();
        if first == 0 && end == hidden {
            product.rows::<V>(gates.start * hidden..gates.end * hidden);
        } else {
            for gate in gates {
                product.rows::<V>(gate * hidden + first..gate * hidden + end);
            }
        }
        for row in 0..batch {
            let length = one.length(row);
            let keep = |from: usize, to: *mut f32| {
                std::ptr::copy_nonoverlapping(one.scratch.at(from + row * hidden + first), to, end - first);
            };
            if step >= length {
                if phase + 1 == one.phases() {
                    keep(old, one.scratch.at(new + row * hidden + first));
                    std::slice::from_raw_parts_mut(one.place(step, row).add(first), end - first).fill(0.0);
                }
                continue;
            }
            let time = if one.layer.is_reversed(one.index) { length - 1 - step } else { step };
            let x = (time * batch + row) * directions + one.index;
            let unit = Unit {
                x: Shared::<f32>::input(one.args, 0).at(x * width).cast_const(),
                gates: one.scratch.at(one.buffer.gates + row * width),
                old: one.scratch.at(old + row * hidden).cast_const(),
                seen: one.scratch.at(seen + row * hidden).cast_const(),
                reset: one.scratch.at(one.buffer.seen + row * hidden),
                memory: one.scratch.at(one.buffer.memory + row * hidden),
                new: one.scratch.at(new + row * hidden),
                extra: one.layer.extra.map(|at| {
                    let count = if cell == Cell::Lstm { 3 * hidden } else { hidden };
                    Shared::<f32>::input(one.args, at).at(one.index * count).cast_const()
                }),
            };
            unit.compute::<V>(one, phase, first..end);
            if phase + 1 == one.phases() {
                keep(new, one.place(time, row).add(first));
            }
        }
    }
}

/// The values of one sequence in a step.
struct Unit {
    x: *const f32,
    gates: *mut f32,
    old: *const f32,
    seen: *const f32,
    reset: *mut f32,
    memory: *mut f32,
    new: *mut f32,
    extra: Option<*const f32>,
}

impl Unit {
    /// # Safety
    /// The units must be in bounds.
    #[inline(always)]
    unsafe fn compute<V: Lanes>(&self, one: &Direction<'_>, phase: usize, units: Range<usize>) {
        let Layer { cell, hidden, linear, coupled, clip, .. } = *one.layer;
        let functions = one.layer.activations(one.index);
        let gate = |gate: usize| self.gates.wrapping_add(gate * hidden);
        // These are no closures, because a closure is compiled for no instruction set unless it is inlined.
        macro_rules! each {
            (|$at:ident| $($to:expr => $value:expr;)+) => {
                let mut $at = units.start;
                while $at < units.end {
                    let count = (units.end - $at).min(V::COUNT);
                    $(put($value, $to.wrapping_add($at), count);)+
                    $at += V::COUNT;
                }
            };
        }
        macro_rules! load {
            ($from:expr, $at:ident) => {
                get::<V>($from.wrapping_add($at).cast_const(), (units.end - $at).min(V::COUNT))
            };
        }
        macro_rules! input {
            ($gate:expr, $at:ident) => {
                load!(self.x.cast_mut().wrapping_add($gate * hidden), $at)
            };
        }
        macro_rules! sum {
            ($gate:expr, $at:ident) => {
                input!($gate, $at).add(load!(gate($gate), $at))
            };
        }
        // The sum of a gate that looks at the memory.
        macro_rules! look {
            ($which:expr, $gate:expr, $memory:expr, $at:ident) => {
                match self.extra {
                    Some(p) => load!(p.cast_mut().wrapping_add($which * hidden), $at)
                        .mul_add($memory, sum!($gate, $at)),
                    None => sum!($gate, $at),
                }
            };
        }
        macro_rules! activate {
            ($which:expr, $clip:expr, $values:expr) => {
                activate(functions[$which], $clip, $values.wrapping_add(units.start), units.len())
            };
        }
        // SAFETY: as the caller promises.
        unsafe {
            match (cell, phase) {
                (Cell::Lstm, _) => {
                    each!(|at| gate(0) => look!(0, 0, load!(self.memory, at), at); gate(3) => sum!(3, at););
                    activate!(0, clip, gate(0));
                    activate!(1, clip, gate(3));
                    if coupled {
                        each!(|at| gate(2) => V::splat(1.0).sub(load!(gate(0), at)););
                    } else {
                        each!(|at| gate(2) => look!(2, 2, load!(self.memory, at), at););
                        activate!(0, clip, gate(2));
                    }
                    each!(|at|
                        self.new => load!(gate(2), at)
                            .mul(load!(self.memory, at))
                            .add(load!(gate(0), at).mul(load!(gate(3), at)));
                        self.memory => load!(self.new, at);
                        gate(1) => look!(1, 1, load!(self.memory, at), at);
                    );
                    activate!(0, clip, gate(1));
                    activate!(2, None, self.new);
                    each!(|at| self.new => load!(gate(1), at).mul(load!(self.new, at)););
                }
                (Cell::Gru, 0) if !linear => {
                    // The update gate replaces its products.
                    each!(|at| gate(0) => sum!(0, at); gate(1) => sum!(1, at););
                    activate!(0, clip, gate(0));
                    activate!(0, clip, gate(1));
                    each!(|at| self.reset => load!(gate(1), at).mul(load!(self.seen.cast_mut(), at)););
                }
                (Cell::Gru, _) => {
                    if linear {
                        each!(|at| gate(0) => sum!(0, at); gate(1) => sum!(1, at););
                        activate!(0, clip, gate(0));
                        activate!(0, clip, gate(1));
                        each!(|at|
                            gate(2) => load!(gate(1), at).mul(load!(gate(2), at).add(match self.extra {
                                Some(bias) => load!(bias.cast_mut(), at),
                                None => V::splat(0.0),
                            }));
                        );
                    }
                    each!(|at| gate(2) => sum!(2, at););
                    activate!(1, clip, gate(2));
                    each!(|at|
                        self.new => V::splat(1.0)
                            .sub(load!(gate(0), at))
                            .mul(load!(gate(2), at))
                            .add(load!(gate(0), at).mul(load!(self.old.cast_mut(), at)));
                    );
                }
                (Cell::Rnn, _) => {
                    each!(|at| self.new => sum!(0, at););
                    activate!(0, clip, self.new);
                }
            }
        }
    }
}

/// Loads the first lanes of a vector.
///
/// # Safety
/// They must be in bounds.
#[inline(always)]
unsafe fn get<V: Lanes>(from: *const f32, count: usize) -> V {
    // SAFETY: as the caller promises.
    unsafe { if count == V::COUNT { V::load(from) } else { V::load_first(from, count) } }
}

/// Stores the first lanes of a vector.
///
/// # Safety
/// They must be in bounds.
#[inline(always)]
unsafe fn put<V: Lanes>(value: V, to: *mut f32, count: usize) {
    // SAFETY: as the caller promises.
    unsafe { if count == V::COUNT { value.store(to) } else { value.store_first(to, count) } }
}

widened! {
    /// Applies a function in place, to numbers that are limited first.
    ///
    /// This is a function of its own, and not a part of each step that needs it, since it is long and compiled for each
    /// instruction set.
    ///
    /// # Safety
    /// The numbers must be in bounds.
    unsafe fn activate(activation: Activation, clip: Option<f64>, values: *mut f32, count: usize) = activate_body;
}

#[inline(always)]
unsafe fn activate_body<V: Lanes>(activation: Activation, clip: Option<f64>, values: *mut f32, count: usize) {
    macro_rules! each {
        ($value:ident => $result:expr) => {
            for at in (0..count).step_by(V::COUNT) {
                let lanes = (count - at).min(V::COUNT);
                let $value = limited(clip, get::<V>(values.add(at), lanes));
                put($result, values.add(at), lanes);
            }
        };
    }
    // SAFETY: as the caller promises.
    unsafe {
        match activation.kind {
            Kind::Sigmoid => each!(value => math::sigmoid(value)),
            Kind::Tanh => each!(value => math::tanh(value)),
            _ => each!(value => value.each(|lane| one(activation, lane))),
        }
    }
}

/// Limits what a function is given.
#[inline(always)]
unsafe fn limited<V: Lanes>(clip: Option<f64>, value: V) -> V {
    // SAFETY: the caller is compiled for the processor.
    unsafe {
        match clip {
            #[allow(clippy::cast_possible_truncation)]
            Some(clip) => V::splat(clip as f32).min(V::splat(-clip as f32).max(value)),
            None => value,
        }
    }
}

/// Applies a rare function to a number. This is not inlined, because it has no vectors, and its callers are compiled for each
/// instruction set with many calls each.
#[inline(never)]
#[allow(clippy::cast_possible_truncation)]
fn one(activation: Activation, x: f32) -> f32 {
    activation.apply(f64::from(x)) as f32
}
