//! A chain of steps on numbers, whose results become levels of 8 bits.
//!
//! Common steps are applied to vectors that stay in registers from the first step to the levels. If a chain has
//! another step, its steps are applied one after another to a buffer in the first-level cache.

use super::added::{Added, Term};
use super::affine::{Bytes, Sums};
use super::formula::{Formula, Key};
use super::levels::Levels;
use super::rounding::Rounding;
use crate::chain::{Action, Area, Simple, apply};
use crate::lanes::widened;
use ovolo::backend::Args;
use ovolo::op::Call;
use ovolo::tensor::{DType, TensorType};
use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

/// The most extra operands of a chain.
pub(super) const EXTRAS: usize = 7;
/// The elements of the buffer.
pub(super) const AREA: usize = 1024;
/// The fewest results of a kernel for which a formula is looked for when it first runs: this takes as long as a few of its
/// runs.
const FORMULA: usize = 16 * 1024;
/// If a row has at least this number of vectors, those of one row are in registers together; otherwise those of several
/// rows are.
const GROUP: usize = 4;

/// An extra operand of a step.
#[derive(Clone, Copy)]
pub(super) struct Extra {
    /// The position among the operands of the call.
    pub operand: usize,
    /// Its type. The next two operands are the scale and the zero point of levels.
    kind: Kind,
    /// The number of its elements.
    count: usize,
}

/// The type of numbers that a chain reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    F32,
    I32,
    U8,
    I8,
}

impl Kind {
    fn new(dtype: DType) -> Option<Self> {
        Some(match dtype {
            DType::F32 => Self::F32,
            DType::I32 => Self::I32,
            DType::U8 => Self::U8,
            DType::I8 => Self::I8,
            _ => return None,
        })
    }

    fn size(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::U8 | Self::I8 => 1,
        }
    }
}

/// A chain with its extra operands.
pub(super) struct Chain {
    /// The steps, each with the number of its extra operand.
    steps: Vec<(Action, usize)>,
    /// The same steps, if all of them can be applied in registers.
    simple: Option<Vec<(Simple, usize)>>,
    pub extras: Vec<Extra>,
    source: Kind,
    signed: bool,
    /// The position of the scale of the results, which their zero point follows.
    scale: usize,
    /// The number of results of a run.
    results: usize,
    /// The formula of the last run that added levels to levels or multiplied them, if there is one for its operands.
    formula: Mutex<Option<(Key, Option<Formula>)>>,
}

impl Chain {
    /// Returns the chain of a call whose scale is operand number `scale`, and which reads numbers of this type. `None`
    /// if there are more extra operands than it takes, or several scales.
    pub(super) fn new(call: &Call<'_>, scale: usize, source: DType) -> Option<Self> {
        let signed = match call.output.dtype {
            DType::U8 => false,
            DType::I8 => true,
            _ => return None,
        };
        if [0, 1].iter().any(|at| call.inputs[scale + at].shape.count() != 1) {
            return None;
        }
        let mut extras = Vec::new();
        let mut operand = scale + 2;
        while let Some(ty) = call.inputs.get(operand) {
            let kind = Kind::new(ty.dtype)?;
            extras.push(Extra { operand, kind, count: ty.shape.count() });
            operand += if kind == Kind::F32 { 1 } else { 3 };
        }
        if extras.len() > EXTRAS {
            return None;
        }
        let mut next = 0;
        let steps: Vec<(Action, usize)> = Action::chain(call.attrs.post())
            .ok()?
            .into_iter()
            .map(|action| {
                next += usize::from(action.binary);
                (action, next.saturating_sub(1))
            })
            .collect();
        let simple = steps.iter().map(|(action, extra)| Some((action.simple()?, *extra))).collect();
        Some(Self {
            steps,
            simple,
            extras,
            source: Kind::new(source)?,
            signed,
            scale,
            results: call.output.shape.count(),
            formula: Mutex::new(None),
        })
    }

    /// Leaves no steps in registers, for operands whose columns are far from each other.
    pub(super) fn only_in_buffer(&mut self) {
        self.simple = None;
    }

    /// Returns the types of the extra operands of a call.
    pub(super) fn types<'a>(&self, call: &Call<'a>) -> Vec<&'a TensorType> {
        self.extras.iter().map(|extra| call.inputs[extra.operand]).collect()
    }

    /// Reads the scales and zero points of a run.
    ///
    /// # Safety
    /// The operands must be those of the call.
    pub(super) unsafe fn start(&self, args: &Args<'_>) -> Started<'_> {
        // SAFETY: scales and zero points have one element.
        unsafe {
            let scale = |at: usize| *args.inputs[at].cast::<f32>();
            let zero = |at: usize, signed: bool| match signed {
                true => f32::from(*args.inputs[at].cast::<i8>()),
                false => f32::from(*args.inputs[at].cast::<u8>()),
            };
            let mut extras = [Operand::NONE; EXTRAS];
            for (to, extra) in extras.iter_mut().zip(&self.extras) {
                *to = Operand { from: args.inputs[extra.operand].cast(), kind: extra.kind, ..Operand::NONE };
                if extra.kind != Kind::F32 {
                    to.scale = scale(extra.operand + 1);
                    to.zero = zero(extra.operand + 2, extra.kind == Kind::I8);
                }
            }
            let (scale, zero) = (scale(self.scale), zero(self.scale + 1, self.signed));
            let mut rounding = Rounding::new(scale, zero, self.signed);
            let mut steps = self.simple.as_deref();
            while let Some([first @ .., (last, _)]) = steps
                && rounding.take(*last)
            {
                steps = Some(first);
            }
            let affine = steps.and_then(|steps| self.affine(args, steps, &rounding));
            let combined = steps.and_then(|steps| self.combined(args, steps, &extras, &rounding));
            Started { chain: self, steps, affine, combined, extras, rounding }
        }
    }
}

impl Chain {
    /// Returns how sums become bytes, and the numbers of the extra operands, if the steps are a product, or a product and a
    /// sum, with numbers that let a result fit into 32 bits.
    ///
    /// # Safety
    /// The operands must be those of the call.
    unsafe fn affine(
        &self,
        args: &Args<'_>,
        steps: &[(Simple, usize)],
        rounding: &Rounding,
    ) -> Option<(Bytes, Affine)> {
        let (factor, term) = match steps {
            [(Simple::Mul, factor)] => (*factor, None),
            [(Simple::Mul, factor), (Simple::Add, term)] => (*factor, Some(*term)),
            _ => return None,
        };
        let inverse = rounding.inverse?;
        let fits = |at: usize, most: f32| {
            // SAFETY: as the caller promises.
            let numbers = || unsafe { self.numbers(args, at) };
            self.extras[at].kind == Kind::F32
                && !numbers().iter().any(|number| (number * inverse).abs() > most)
        };
        let bounded = fits(factor, Bytes::FACTOR) && term.is_none_or(|term| fits(term, Bytes::TERM));
        if self.source != Kind::I32 || !bounded {
            return None;
        }
        // SAFETY: as the caller promises.
        let terms = term.map_or(&[][..], |term| unsafe { self.numbers(args, term) });
        let largest = terms.iter().fold(0.0_f32, |most, number| most.max((number * inverse).abs()));
        let bytes = Bytes { near: Bytes::near(largest), ..Self::bytes(rounding, inverse) };
        Some((bytes, (factor, term)))
    }

    /// Returns the numbers of an extra operand of floats.
    ///
    /// # Safety
    /// The operands must be those of the call.
    unsafe fn numbers<'a>(&self, args: &Args<'a>, at: usize) -> &'a [f32] {
        let Extra { operand, count, .. } = self.extras[at];
        // SAFETY: the operand has this many elements.
        unsafe { std::slice::from_raw_parts(args.inputs[operand].cast(), count) }
    }

    /// Returns how numbers become bytes.
    fn bytes(rounding: &Rounding, inverse: f32) -> Bytes {
        let Rounding { scale, zero, least, most, flip, .. } = *rounding;
        let zero = (zero + i32::from(flip)) as f32;
        let bounds = [least, most].map(|byte| (byte + zero) as u8);
        Bytes { scale, inverse, zero, least, most, bounds, flip, near: f32::INFINITY }
    }

    /// Returns the terms of a sum or a product, if the steps add levels to levels or multiply them, and how the result becomes
    /// bytes.
    ///
    /// # Safety
    /// The operands must be those of the call.
    unsafe fn combined(
        &self,
        args: &Args<'_>,
        steps: &[(Simple, usize)],
        extras: &[Operand; EXTRAS],
        rounding: &Rounding,
    ) -> Option<Combined> {
        let (point, scale, other, multiplied) = match steps {
            [(Simple::Sub, point), (Simple::Mul, scale), (Simple::Add, other)] => {
                (point, scale, other, false)
            }
            [(Simple::Sub, point), (Simple::Mul, scale), (Simple::Mul, other)] => (point, scale, other, true),
            _ => return None,
        };
        let inverse = rounding.inverse?;
        let number = |at: usize| {
            let Extra { operand, kind, count } = self.extras[at];
            // SAFETY: the operand has one element.
            (kind == Kind::F32 && count == 1).then(|| unsafe { *args.inputs[operand].cast::<f32>() })
        };
        let (point, scale, other_levels) = (number(*point)?, number(*scale)?, &extras[*other]);
        // Levels minus zero points have magnitudes below 512.
        let fits = |scale: f32| (scale * inverse).abs() <= Bytes::TERM / 1024.0;
        let fit = match multiplied {
            true => fits(512.0 * scale * other_levels.scale),
            false => fits(scale) && fits(other_levels.scale),
        };
        let term = |from: *const u8, kind: Kind, zero: f32, scale: f32| {
            let flip = match kind {
                Kind::U8 => 0,
                Kind::I8 => 128,
                Kind::F32 | Kind::I32 => return None,
            };
            // Levels minus an integer are the same integer in both kinds of arithmetic.
            let exact = zero.fract() == 0.0 && zero.abs() <= 255.0;
            let zero = zero as i32 + i32::from(flip);
            exact.then_some(Term { from, row: 0, flip, zero, scale })
        };
        let own = term(std::ptr::null(), self.source, point, scale)?;
        let other_term = term(other_levels.from, other_levels.kind, other_levels.zero, other_levels.scale)?;
        let (terms, rounding) = ([own, other_term], Self::bytes(rounding, inverse));
        (fit && Added::is_supported()).then(|| Combined {
            terms,
            multiplied,
            formula: self.formula(&terms, multiplied, &rounding),
            rounding,
            other: *other,
        })
    }

    /// Returns a formula for the levels of two terms, which is looked for in the first run.
    fn formula(&self, terms: &[Term; 2], multiplied: bool, rounding: &Bytes) -> Option<Formula> {
        if self.results < FORMULA {
            return None;
        }
        let key = Formula::key(terms, multiplied, rounding);
        let mut last = self.formula.lock().unwrap_or_else(PoisonError::into_inner);
        match *last {
            Some((known, formula)) if known == key => formula,
            _ => {
                let formula = Formula::find(terms, multiplied, rounding);
                *last = Some((key, formula));
                formula
            }
        }
    }
}

/// A sum or a product of levels.
#[derive(Clone, Copy)]
struct Combined {
    terms: [Term; 2],
    multiplied: bool,
    formula: Option<Formula>,
    rounding: Bytes,
    /// The number of the second operand.
    other: usize,
}

/// An extra operand of a run.
#[derive(Clone, Copy)]
struct Operand {
    from: *const u8,
    kind: Kind,
    scale: f32,
    zero: f32,
}

impl Operand {
    const NONE: Self = Self { from: std::ptr::null(), kind: Kind::F32, scale: 1.0, zero: 0.0 };

    /// Loads the floats of some vectors, each `step` elements after the one before, or with the same float in all lanes if
    /// `one` is set.
    ///
    /// # Safety
    /// The elements must be in bounds.
    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    unsafe fn load<V: Levels, const N: usize>(&self, first: usize, step: usize, one: bool, to: &mut [V; N]) {
        macro_rules! all {
            ($from:ident: $type:ty => $value:expr) => {
                if step == 0 {
                    let $from = self.from.cast::<$type>().add(first);
                    let value = $value;
                    for n in 0..N {
                        to[n] = value;
                    }
                } else {
                    for n in 0..N {
                        let $from = self.from.cast::<$type>().add(first + n * step);
                        to[n] = $value;
                    }
                }
            };
        }
        // SAFETY: as the caller promises.
        unsafe {
            match (self.kind, one) {
                (Kind::F32, true) => return all!(from: f32 => V::splat(*from)),
                (Kind::F32, false) => return all!(from: f32 => V::load(from)),
                (Kind::U8, true) => all!(from: u8 => V::splat(f32::from(*from))),
                (Kind::U8, false) => all!(from: u8 => V::of_u8(from)),
                (Kind::I8, true) => all!(from: i8 => V::splat(f32::from(*from))),
                (Kind::I8, false) => all!(from: i8 => V::of_i8(from)),
                (Kind::I32, true) => all!(from: i32 => V::splat(*from as f32)),
                (Kind::I32, false) => all!(from: i32 => V::of_i32(from)),
            }
            let (zero, scale) = (V::splat(self.zero), V::splat(self.scale));
            for n in 0..N {
                to[n] = to[n].sub(zero).mul(scale);
            }
        }
    }
}

/// The numbers of the extra operands of a product and a sum. Where nothing is added, there is no second one.
type Affine = (usize, Option<usize>);

/// A chain that is ready for a run.
pub(super) struct Started<'a> {
    chain: &'a Chain,
    /// The steps that are applied in registers, without those that only bound the levels.
    steps: Option<&'a [(Simple, usize)]>,
    /// Set if the steps are a product, or a product and a sum: how bytes are made, and the numbers of the extra operands.
    affine: Option<(Bytes, Affine)>,
    /// Set if the steps add levels to levels, or multiply them.
    combined: Option<Combined>,
    extras: [Operand; EXTRAS],
    rounding: Rounding,
}

// SAFETY: the pointers are only addresses; each access to the memory has its own justification.
unsafe impl Send for Started<'_> {}
// SAFETY: as above.
unsafe impl Sync for Started<'_> {}

/// Where an extra operand of an area begins, and the distances between its rows and its columns, in elements. The
/// distance between columns is zero or one if the chain has only common steps.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    pub first: usize,
    pub row: usize,
    pub column: usize,
}

/// Rows of numbers, and where their levels go.
pub(super) struct Rows {
    pub source: *const u8,
    /// The distance between rows, in elements.
    pub source_row: usize,
    pub target: *mut u8,
    pub target_row: usize,
    pub rows: usize,
    pub columns: usize,
    pub places: [Place; EXTRAS],
}

impl Rows {
    /// Returns the columns from `column` on; numbers of the source have this size in bytes.
    fn from(&self, column: usize, size: usize) -> Self {
        let mut rows = Self {
            source: self.source.wrapping_add(column * size),
            target: self.target.wrapping_add(column),
            columns: self.columns - column,
            ..*self
        };
        for place in &mut rows.places {
            place.first += column * place.column;
        }
        rows
    }
}

impl Started<'_> {
    /// Writes the levels of rows. Without a common chain, there may be at most [`AREA`] elements.
    ///
    /// # Safety
    /// All elements must be in bounds.
    pub(super) unsafe fn run(&self, rows: &Rows) {
        // SAFETY: as the caller promises.
        unsafe {
            match self.steps {
                Some(_) => {
                    match self.two_levels(rows) {
                        Some((added, Some(formula))) => return formula.write(&added),
                        Some((added, None)) => return added.write(),
                        None => {}
                    }
                    let done = self.bytes(rows).map_or(0, |sums| sums.write(rows.columns));
                    self.finish(rows, done);
                }
                None => in_buffer(self, rows),
            }
        }
    }

    /// Writes the levels of the columns that [`Sums::write`] has left, those from `done` on.
    ///
    /// # Safety
    /// As for [`Started::run`]; the chain must be a common one.
    pub(super) unsafe fn finish(&self, rows: &Rows, done: usize) {
        if let Some(steps) = self.steps
            && done < rows.columns
        {
            // SAFETY: as the caller promises.
            unsafe { in_registers(self, steps, &rows.from(done, self.chain.source.size())) };
        }
    }

    /// Returns the sum or the product of levels that rows are, if they are one, and both operands lie along the rows; and a
    /// formula that gives the same levels in less time, if one is known.
    fn two_levels(&self, rows: &Rows) -> Option<(Added, Option<Formula>)> {
        let Combined { terms, multiplied, formula, rounding, other } = self.combined?;
        let place = rows.places[other];
        let terms = [
            Term { from: rows.source, row: rows.source_row, ..terms[0] },
            Term { from: terms[1].from.wrapping_add(place.first), row: place.row, ..terms[1] },
        ];
        let Rows { target, target_row, rows, columns, .. } = *rows;
        let added = Added { terms, multiplied, target, target_row, rows, columns, rounding };
        (place.column == 1).then_some((added, formula))
    }

    /// Returns how the sums of rows become bytes, if the chain is a product and a sum by column; then these sums may be in
    /// registers in place of memory.
    pub(super) fn bytes(&self, rows: &Rows) -> Option<Sums> {
        self.affine.and_then(|(bytes, operands)| self.sums(bytes, operands, rows))
    }

    /// Returns the sums of rows that are multiplied and added to by column; `None` if the factors or the terms differ by row.
    fn sums(&self, rounding: Bytes, (factor, term): Affine, rows: &Rows) -> Option<Sums> {
        static NOTHING: f32 = 0.0;
        let operand = |at: usize| {
            let place = rows.places[at];
            let from = self.extras[at].from.cast::<f32>().wrapping_add(place.first);
            (place.row == 0).then_some((from, place.column))
        };
        let term = term.map_or(Some((&raw const NOTHING, 0)), operand)?;
        let operands = [operand(factor)?, term];
        Some(Sums {
            source: rows.source.cast(),
            source_row: rows.source_row,
            target: rows.target,
            target_row: rows.target_row,
            rows: rows.rows,
            operands,
            rounding,
        })
    }

    #[inline(always)]
    unsafe fn source<V: Levels>(&self, from: *const u8) -> V {
        // SAFETY: as the caller promises.
        unsafe {
            match self.chain.source {
                Kind::I32 => V::of_i32(from.cast()),
                Kind::U8 => V::of_u8(from),
                Kind::I8 => V::of_i8(from.cast()),
                Kind::F32 => V::load(from.cast()),
            }
        }
    }

    /// Writes the levels of some vectors: that at a row and a column, and the next ones below it or after it.
    ///
    /// # Safety
    /// All elements must be in bounds.
    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    unsafe fn group<V: Levels, const N: usize>(
        &self,
        steps: &[(Simple, usize)],
        rows: &Rows,
        (row, column): (usize, usize),
        below: bool,
    ) {
        let size = self.chain.source.size();
        let step = |row: usize, column: usize| if below { row } else { V::COUNT * column };
        // SAFETY: as the caller promises.
        unsafe {
            let mut x = [V::splat(0.0); N];
            let from = rows.source.add((row * rows.source_row + column) * size);
            let apart = step(rows.source_row, 1) * size;
            for n in 0..N {
                x[n] = self.source::<V>(from.add(n * apart));
            }
            for (simple, extra) in steps {
                macro_rules! each {
                    ($x:ident => $value:expr) => {
                        for n in 0..N {
                            let $x = x[n];
                            x[n] = $value;
                        }
                    };
                }
                macro_rules! both {
                    ($x:ident, $y:ident => $value:expr) => {{
                        let (operand, place) = (&self.extras[*extra], &rows.places[*extra]);
                        let mut y = [V::splat(0.0); N];
                        let first = place.first + row * place.row + column * place.column;
                        operand.load(first, step(place.row, place.column), place.column == 0, &mut y);
                        for n in 0..N {
                            let ($x, $y) = (x[n], y[n]);
                            x[n] = $value;
                        }
                    }};
                }
                match *simple {
                    Simple::Add => both!(x, y => x.add(y)),
                    Simple::Sub => both!(x, y => x.sub(y)),
                    Simple::Mul => both!(x, y => x.mul(y)),
                    Simple::Div => both!(x, y => x.div(y)),
                    Simple::ReversedSub => both!(x, y => y.sub(x)),
                    Simple::Relu => each!(x => V::splat(0.0).max(x)),
                    Simple::Clip(least, most) => each!(x => V::splat(most).min(V::splat(least).max(x))),
                }
            }
            let levels = self.rounding.levels(x);
            let to = rows.target.add(row * rows.target_row + column);
            let apart = step(rows.target_row, 1);
            for n in 0..N {
                levels[n].store_levels(self.rounding.zero, to.add(n * apart));
            }
        }
    }

    /// Copies the last elements of a row, which are no whole vector, into buffers, and writes their levels from there.
    ///
    /// # Safety
    /// All elements must be in bounds.
    #[inline(always)]
    unsafe fn tail<V: Levels>(&self, steps: &[(Simple, usize)], rows: &Rows, row: usize, column: usize) {
        const ROOM: usize = 64;
        let count = rows.columns - column;
        let mut buffers = [[0_u8; ROOM]; EXTRAS + 1];
        let mut own = Started { chain: self.chain, ..*self };
        let mut places = rows.places;
        let mut levels = [0_u8; 16];
        let size = self.chain.source.size();
        // SAFETY: as the caller promises; a vector has at most 16 elements of 4 bytes.
        unsafe {
            let (source, buffers) = buffers.split_first_mut().expect("there is a buffer for the source");
            let from = rows.source.add((row * rows.source_row + column) * size);
            std::ptr::copy_nonoverlapping(from, source.as_mut_ptr(), count * size);
            let extras = own.extras.iter_mut().zip(&mut places).zip(buffers);
            for ((operand, place), buffer) in extras.take(self.chain.extras.len()) {
                let first = place.first + row * place.row + column * place.column;
                if place.column == 1 {
                    let size = operand.kind.size();
                    std::ptr::copy_nonoverlapping(
                        operand.from.add(first * size),
                        buffer.as_mut_ptr(),
                        count * size,
                    );
                    (operand.from, place.first) = (buffer.as_ptr(), 0);
                } else {
                    place.first = first;
                }
            }
            let one = Rows { source: source.as_ptr(), target: levels.as_mut_ptr(), places, rows: 1, ..*rows };
            own.group::<V, 1>(steps, &one, (0, 0), true);
            let to = rows.target.add(row * rows.target_row + column);
            std::ptr::copy_nonoverlapping(levels.as_ptr(), to, count);
        }
    }

    /// # Safety
    /// As for [`Started::run`].
    #[inline(always)]
    unsafe fn registers<V: Levels>(&self, steps: &[(Simple, usize)], rows: &Rows) {
        let whole = rows.columns - rows.columns % V::COUNT;
        // Vectors below each other often have the same extra operand, which is then loaded once.
        let below = rows.rows > 1 && whole < GROUP * V::COUNT;
        let (lines, vectors) =
            if below { (whole / V::COUNT, rows.rows) } else { (rows.rows, whole / V::COUNT) };
        // SAFETY: as the caller promises.
        unsafe {
            for line in 0..lines {
                let mut at = 0;
                macro_rules! groups {
                    ($count:literal) => {
                        while vectors - at >= $count {
                            let first = if below { (at, line * V::COUNT) } else { (line, at * V::COUNT) };
                            self.group::<V, $count>(steps, rows, first, below);
                            at += $count;
                        }
                    };
                }
                // With 32 registers, eight vectors and eight operands fit.
                if V::COUNT == 16 {
                    groups!(8);
                }
                groups!(4);
                groups!(2);
                groups!(1);
            }
            if whole < rows.columns {
                (0..rows.rows).for_each(|row| self.tail::<V>(steps, rows, row, whole));
            }
        }
    }

    /// # Safety
    /// As for [`Started::run`].
    #[inline(always)]
    unsafe fn buffered<V: Levels>(&self, rows: &Rows) {
        let mut buffers = [[MaybeUninit::<f32>::uninit(); AREA]; 2];
        let [x, y] = buffers.each_mut().map(|buffer| buffer.as_mut_ptr().cast::<f32>());
        let size = self.chain.source.size();
        // SAFETY: the buffers have room for all elements.
        unsafe {
            for row in 0..rows.rows {
                let from = rows.source.add(row * rows.source_row * size);
                let to = x.add(row * rows.columns);
                each_vector::<V>(rows.columns, from, size, |from| self.source::<V>(from), to);
            }
            let mut area = Area {
                source: x,
                source_row: rows.columns,
                target: x,
                target_row: rows.columns,
                rows: rows.rows,
                columns: rows.columns,
                ..Area::NONE
            };
            for (action, extra) in &self.chain.steps {
                if action.binary {
                    let (operand, place) = (&self.extras[*extra], &rows.places[*extra]);
                    area.extra_row = place.row;
                    area.extra_column = if rows.columns == 1 { 0 } else { place.column };
                    area.extra = match operand.kind {
                        Kind::F32 => operand.from.cast::<f32>().add(place.first),
                        _ => {
                            self.floats::<V>(operand, place, rows, y);
                            (area.extra_row, area.extra_column) = (rows.columns, 1);
                            y
                        }
                    };
                }
                apply(action, &area);
            }
            for row in 0..rows.rows {
                let from = x.add(row * rows.columns);
                for column in (0..rows.columns).step_by(V::COUNT) {
                    let rest = rows.columns - column;
                    let levels = self.rounding.levels([V::load_first(from.add(column), rest)]);
                    let mut bytes = [0; 16];
                    levels[0].store_levels(self.rounding.zero, bytes.as_mut_ptr());
                    let to = rows.target.add(row * rows.target_row + column);
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, rest.min(V::COUNT));
                }
            }
        }
    }

    /// Writes the floats of an operand's levels.
    ///
    /// # Safety
    /// All elements must be in bounds.
    #[inline(always)]
    unsafe fn floats<V: Levels>(&self, operand: &Operand, place: &Place, rows: &Rows, to: *mut f32) {
        for row in 0..rows.rows {
            for column in 0..rows.columns {
                // SAFETY: as the caller promises.
                unsafe {
                    let from = operand.from.add(place.first + row * place.row + column * place.column);
                    let level = match operand.kind {
                        Kind::I8 => f32::from(*from.cast::<i8>()),
                        _ => f32::from(*from),
                    };
                    *to.add(row * rows.columns + column) = (level - operand.zero) * operand.scale;
                }
            }
        }
    }
}

/// Writes the vectors that a function makes of a row of elements of this size.
///
/// # Safety
/// All elements must be in bounds.
#[inline(always)]
unsafe fn each_vector<V: Levels>(
    count: usize,
    from: *const u8,
    size: usize,
    load: impl Fn(*const u8) -> V,
    to: *mut f32,
) {
    // SAFETY: as the caller promises; a vector has at most 16 elements of 4 bytes.
    unsafe {
        let mut at = 0;
        while at + V::COUNT <= count {
            load(from.add(at * size)).store(to.add(at));
            at += V::COUNT;
        }
        if at < count {
            let mut rest = [0_u8; 64];
            std::ptr::copy_nonoverlapping(from.add(at * size), rest.as_mut_ptr(), (count - at) * size);
            load(rest.as_ptr()).store_first(to.add(at), count - at);
        }
    }
}

widened! {
    /// # Safety
    /// As for [`Started::run`].
    unsafe fn in_registers(started: &Started<'_>, steps: &[(Simple, usize)], rows: &Rows) = registers_on;
}
widened! {
    /// # Safety
    /// As for [`Started::run`].
    unsafe fn in_buffer(started: &Started<'_>, rows: &Rows) = buffer_on;
}

#[inline(always)]
unsafe fn registers_on<V: Levels>(started: &Started<'_>, steps: &[(Simple, usize)], rows: &Rows) {
    // SAFETY: as the caller promises.
    unsafe { started.registers::<V>(steps, rows) }
}

#[inline(always)]
unsafe fn buffer_on<V: Levels>(started: &Started<'_>, rows: &Rows) {
    // SAFETY: as the caller promises.
    unsafe { started.buffered::<V>(rows) }
}
