//! `native.lstm-integer`: all steps of an LSTM whose weights are 8-bit integers, packed into panels of columns.
//!
//! Before each step the state is rounded to 256 levels, so its products with the weights are those of integers. A step
//! reads a quarter of the bytes that weights in `f32` have. The units of one direction are divided among threads, and
//! each thread computes all gates of its units; several directions run in parallel.

use super::level::dynamic_levels;
use super::quad::{COLUMNS, Facts, Panel, QUAD, Quads, ROWS, add_four, prepare};
use crate::args::{Buffers, Shared, part};
use crate::lanes::{Lanes, widened};
use crate::{ISAS, math, plain_contract, reference};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::recurrent::{Kind, Layer};
use ovolo::op::{Form, Layouts, Lowering, OpError};
use ovolo::tensor::DType;

/// The op.
pub(super) const OP: Lowering = Lowering {
    layouts: Layouts::Forms(&[Form::new(
        &["plain", "aCB16c4b", "plain", "plain", "plain", "plain"],
        "plain",
    )]),
    instruction_sets: ISAS,
    ..Lowering::new("native.lstm-integer", "lstm-integer", contract, kernel)
};

/// The multiply-adds of a step from which on its units are divided among threads.
const DIVIDED: usize = 64 * 1024;

struct Lstm {
    layer: Layer,
    /// Whether the zero points, and the scales, are those of columns.
    by_column: [bool; 2],
    signed: bool,
    parts: usize,
}

impl Lstm {
    /// Returns `None` where the layer is none of the usual kind.
    fn new(call: &Call<'_>) -> Option<Self> {
        let [x, w, zero, scale, ..] = call.inputs else { return None };
        let layer = Layer::of_integers(call.attrs, call.inputs).ok()?;
        let usual = [Kind::Sigmoid, Kind::Tanh, Kind::Tanh];
        let known = layer
            .activations
            .iter()
            .map(|one| one.kind)
            .eq(usual.into_iter().cycle().take(3 * layer.directions));
        let plain =
            layer.clip.is_none() && layer.extra.is_none() && layer.lengths.is_none() && !layer.coupled;
        let fits = w.layout.blocks() == [(2, COLUMNS), (1, 4)] && w.layout.order(3) == [0, 2, 1];
        if !(known
            && plain
            && fits
            && x.dtype == DType::F32
            && layer.hidden > 0
            && layer.hidden % COLUMNS == 0)
        {
            return None;
        }
        let work = 4 * layer.hidden * layer.hidden * layer.batch;
        let divides = layer.directions == 1 && work >= DIVIDED;
        let parts = if divides { call.threads.clamp(1, layer.hidden / COLUMNS) } else { 1 };
        let by_column = [zero, scale].map(|ty| ty.shape[2] != 1);
        Some(Self { by_column, signed: w.dtype == DType::I8, parts, layer })
    }

    fn plane(&self) -> usize {
        self.layer.batch * self.layer.hidden
    }

    /// Returns the panels of a direction.
    fn panels(&self) -> usize {
        4 * self.layer.hidden / COLUMNS
    }

    /// Returns the size of the scratch memory of a direction, in elements of 32 bits: two states, the memory, the
    /// prepared panels with the facts about them, and for each part the levels of the state.
    fn buffer(&self) -> usize {
        3 * self.plane() + self.panels() * self.panel() / 4 + self.parts * self.levels()
    }

    /// Returns the bytes of a prepared panel and the facts about it.
    fn panel(&self) -> usize {
        size_of::<Facts>() + self.layer.hidden / 4 * (Panel::WEIGHTS + Panel::RESTS)
    }

    /// Returns the size of the levels of a state, in elements of 32 bits.
    fn levels(&self) -> usize {
        self.plane().div_ceil(4)
    }
}

fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    let Some(lstm) = Lstm::new(call) else { return reference::contract(call) };
    let scratch = lstm.layer.directions * lstm.buffer() * size_of::<f32>();
    Ok(Contract { scratch, ..plain_contract("panels") })
}

fn kernel(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    match Lstm::new(call) {
        Some(lstm) => Ok(Box::new(lstm)),
        None => reference::kernel(call),
    }
}

impl Kernel for Lstm {
    unsafe fn run(&self, args: &Args<'_>) {
        let buffers = Buffers::new(args);
        if self.parts > 1 {
            let one = Direction { lstm: self, args: buffers.args(), index: 0 };
            // SAFETY: steps follow each other, and the parts of a step write different units.
            unsafe {
                args.team.run(self.parts, |part| {
                    Direction { lstm: self, args: buffers.args(), index: 0 }.prepare(part);
                });
                one.start();
                for step in 0..self.layer.steps {
                    args.team.run(self.parts, |part| {
                        Direction { lstm: self, args: buffers.args(), index: 0 }.step(step, part);
                    });
                }
                one.finish();
            }
            return;
        }
        args.team.run(self.layer.directions, |index| {
            let one = Direction { lstm: self, args: buffers.args(), index };
            // SAFETY: directions write different parts of the result and of the scratch memory.
            unsafe {
                one.prepare(0);
                one.start();
                for step in 0..self.layer.steps {
                    one.step(step, 0);
                }
                one.finish();
            }
        });
    }
}

/// One direction of a layer during a run.
struct Direction<'a> {
    lstm: &'a Lstm,
    args: &'a Args<'a>,
    index: usize,
}

impl Direction<'_> {
    /// Returns the address of one of the states before and after a step, or of the memory.
    fn buffer(&self, which: usize) -> *mut f32 {
        Shared::<f32>::scratch(self.args).at(self.index * self.lstm.buffer() + which * self.lstm.plane())
    }

    /// Returns the place in the result of a row of states.
    fn place(&self, time: usize, row: usize) -> *mut f32 {
        let Layer { batch, directions, hidden, .. } = self.lstm.layer;
        Shared::<f32>::output(self.args).at(((time * directions + self.index) * batch + row) * hidden)
    }

    /// Prepares the weights for a part of the units, by the thread that mostly uses them in the steps.
    unsafe fn prepare(&self, index: usize) {
        let hidden = self.lstm.layer.hidden;
        for unit in part(hidden, self.lstm.parts, index, COLUMNS).step_by(COLUMNS) {
            for gate in 0..4 {
                // SAFETY: the panel is within the weights, and has a place in the scratch memory that only this part
                // writes.
                unsafe {
                    let (facts, prepared) = self.prepared(gate, unit);
                    *facts = prepare(self.weights(gate, unit), hidden, self.shift(), prepared);
                }
            }
        }
    }

    /// Copies the initial states.
    unsafe fn start(&self) {
        let plane = self.lstm.plane();
        for (operand, which) in [(4, 0), (5, 2)] {
            let from = Shared::<f32>::input(self.args, operand).at(self.index * plane);
            // SAFETY: both have this number of elements.
            unsafe { std::ptr::copy_nonoverlapping(from, self.buffer(which), plane) };
        }
    }

    /// Copies the final states to the result.
    unsafe fn finish(&self) {
        let steps = self.lstm.layer.steps;
        for (at, which) in [steps % 2, 2].into_iter().enumerate() {
            // SAFETY: both have this number of elements.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    self.buffer(which),
                    self.place(steps + at, 0),
                    self.lstm.plane(),
                );
            }
        }
    }

    /// Computes a step for a part of the units.
    unsafe fn step(&self, step: usize, index: usize) {
        let Layer { batch, hidden, steps, .. } = self.lstm.layer;
        let plane = self.lstm.plane();
        let buffer = self.buffer(3).wrapping_add(self.lstm.panels() * self.lstm.panel() / 4);
        let own = Shared::<u8>::new(buffer.wrapping_add(index * self.lstm.levels()).cast());
        // SAFETY: the states of before the step are complete, and only this part uses the levels.
        let (scale, point, seen) = unsafe {
            let state = std::slice::from_raw_parts(self.buffer(step % 2), plane);
            let seen = std::slice::from_raw_parts_mut(own.at(0), plane);
            let (scale, point) = dynamic_levels(state, seen);
            (scale, point, &*seen)
        };
        let time = if self.lstm.layer.is_reversed(self.index) { steps - 1 - step } else { step };
        for row in (0..batch).step_by(ROWS) {
            let rows = ROWS.min(batch - row);
            let seen = &seen[row * hidden..(row + rows) * hidden];
            // The sums of the levels, less that of zero.
            let mut centred = [0; ROWS];
            for (sum, seen) in centred.iter_mut().zip(seen.chunks_exact(hidden)) {
                let levels = seen.iter().fold(0_i32, |sum, one| sum.wrapping_add(i32::from(*one)));
                *sum = levels.wrapping_sub(point.wrapping_mul(hidden as i32));
            }
            let units = part(hidden, self.lstm.parts, index, COLUMNS);
            let count = units.len() / COLUMNS;
            for at in 0..count {
                // Weights that do not all fit into a cache are read back and forth, so that a step begins with those
                // that the step before it read last.
                let unit = units.start + COLUMNS * if step.is_multiple_of(2) { at } else { count - 1 - at };
                let mut sums = [[[0; COLUMNS]; ROWS]; 4];
                let gates = [0, 1, 2, 3].map(|gate| {
                    let (facts, prepared) = self.prepared(gate, unit);
                    // SAFETY: the gate and its units are within the weights, which were prepared.
                    let facts = unsafe { &*facts };
                    (self.product(prepared.or_given(facts, self.weights(gate, unit)), seen), facts)
                });
                // SAFETY: as above.
                unsafe { add_four(&gates, &mut sums) };
                for (sums, (_, facts)) in sums.iter_mut().zip(&gates) {
                    for (sums, centred) in sums[..rows].iter_mut().zip(centred) {
                        for (sum, total) in sums.iter_mut().zip(&facts.totals) {
                            *sum = *sum - point * total + i32::from(self.shift()) * centred;
                        }
                    }
                }
                for at in 0..rows {
                    let place = (row + at) * hidden + unit;
                    let sums = [0, 1, 2, 3].map(|gate: usize| sums[gate][at]);
                    // SAFETY: the units are within the operands, the states and the result, and only this part writes
                    // them.
                    unsafe {
                        let total = centred[at] as f32;
                        let gates = self.gates(unit, time * batch + row + at, total, scale);
                        let new = self.buffer(1 - step % 2).add(place);
                        cell(&gates, &sums, self.buffer(2).add(place), new);
                        std::ptr::copy_nonoverlapping(new, self.place(time, row + at).add(unit), COLUMNS);
                    }
                }
            }
        }
    }

    /// Returns what is subtracted from weights without a sign.
    fn shift(&self) -> u8 {
        if self.lstm.signed { 0 } else { 128 }
    }

    /// Returns the places of the facts about the panel of a gate and some units, and of the prepared panel.
    fn prepared(&self, gate: usize, unit: usize) -> (*mut Facts, Panel) {
        let (panels, quads) = (self.lstm.panels(), self.lstm.layer.hidden / 4);
        // The gates of a few units follow each other, in the order in which a step reads them.
        let index = unit / COLUMNS * 4 + gate;
        let weights = self.buffer(3).cast::<u8>();
        let rests = weights.wrapping_add(panels * quads * Panel::WEIGHTS);
        let facts = rests.wrapping_add(panels * quads * Panel::RESTS).cast::<Facts>();
        let panel = Panel {
            weights: weights.wrapping_add(index * quads * Panel::WEIGHTS).cast(),
            rests: rests.wrapping_add(index * quads * Panel::RESTS).cast(),
        };
        (facts.wrapping_add(index), panel)
    }

    /// Returns the place of the panel of a gate and some units among the weights.
    fn weights(&self, gate: usize, unit: usize) -> *const u8 {
        let hidden = self.lstm.layer.hidden;
        let panel = (gate * hidden + unit) / COLUMNS;
        let before = self.index * 4 * hidden * hidden + panel * (hidden / 4) * QUAD;
        Shared::<u8>::input(self.args, 1).at(before)
    }

    /// Returns the product of rows of levels of the state with a prepared panel.
    fn product(&self, panel: Panel, seen: &[u8]) -> Quads {
        let hidden = self.lstm.layer.hidden;
        Quads { a: seen.as_ptr(), stride: hidden, rows: seen.len() / hidden, b: panel, quads: hidden / 4 }
    }

    /// Returns what the sums of the gates need, for the units of a panel.
    fn gates(&self, unit: usize, place: usize, total: f32, scale: f32) -> Gates {
        let Layer { hidden, directions, .. } = self.lstm.layer;
        let x = (place * directions + self.index) * 4 * hidden + unit;
        let operand = |at: usize, by_column: bool| {
            let own = if by_column { self.index * 4 * hidden + unit } else { self.index };
            Shared::<f32>::input(self.args, at).at(own).cast_const()
        };
        Gates {
            x: Shared::<f32>::input(self.args, 0).at(x),
            zeros: operand(2, self.lstm.by_column[0]),
            scales: operand(3, self.lstm.by_column[1]),
            by_column: self.lstm.by_column,
            hidden,
            total,
            scale,
        }
    }
}

/// What the sums of the gates of some units need beside the products of integers.
struct Gates {
    /// The sums of the inputs.
    x: *const f32,
    /// The zero points and the scales of the weights, for each column or one for all of them.
    zeros: *const f32,
    scales: *const f32,
    by_column: [bool; 2],
    /// The distance between gates.
    hidden: usize,
    /// The sum of the steps of the state, and their scale.
    total: f32,
    scale: f32,
}

impl Gates {
    /// Returns the sums of a gate.
    ///
    /// # Safety
    /// The columns of the gate must be in bounds.
    #[inline(always)]
    unsafe fn sums(&self, gate: usize, products: &[i32; COLUMNS]) -> [f32; COLUMNS] {
        // SAFETY: as the caller promises.
        unsafe {
            let row = |from: *const f32| from.add(gate * self.hidden).cast::<[f32; COLUMNS]>().read();
            let x = row(self.x);
            let zeros = if self.by_column[0] { row(self.zeros) } else { [*self.zeros; COLUMNS] };
            let scales = if self.by_column[1] { row(self.scales) } else { [*self.scales; COLUMNS] };
            let mut sums = [0.0; COLUMNS];
            for (lane, sum) in sums.iter_mut().enumerate() {
                let product = products[lane] as f32 - zeros[lane] * self.total;
                *sum = x[lane] + product * (self.scale * scales[lane]);
            }
            sums
        }
    }
}

widened! {
    /// Computes the memory and the state of the units of a panel from the sums of their gates.
    unsafe fn cell(gates: &Gates, products: &[[i32; COLUMNS]; 4], memory: *mut f32, state: *mut f32) = cell_body;
}

#[inline(always)]
unsafe fn cell_body<V: Lanes>(
    gates: &Gates,
    products: &[[i32; COLUMNS]; 4],
    memory: *mut f32,
    state: *mut f32,
) {
    // SAFETY: as the caller of the outer function promises.
    let [input, output, forget, new] = unsafe {
        [
            gates.sums(0, &products[0]),
            gates.sums(1, &products[1]),
            gates.sums(2, &products[2]),
            gates.sums(3, &products[3]),
        ]
    };
    for at in (0..COLUMNS).step_by(V::COUNT) {
        // SAFETY: as the caller of the outer function promises; 16 is a multiple of the lanes.
        unsafe {
            let kept = math::sigmoid(V::load(forget.as_ptr().add(at))).mul(V::load(memory.add(at)));
            let added =
                math::sigmoid(V::load(input.as_ptr().add(at))).mul(math::tanh(V::load(new.as_ptr().add(at))));
            let next = kept.add(added);
            next.store(memory.add(at));
            math::sigmoid(V::load(output.as_ptr().add(at))).mul(math::tanh(next)).store(state.add(at));
        }
    }
}
