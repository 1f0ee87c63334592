//! Functions without their own loop: their formulas are computed instruction by instruction, over areas that stay in
//! the cache.

use super::lanes::{Lanes, widened};
use super::math;
use ovolo::scalar::{Binary, Compare, Instruction, Operand, Program, Unary};
use std::mem::MaybeUninit;

/// The number of elements of all buffers together: half of a first-level cache of 32 KiB.
const ELEMENTS: usize = 4096;
/// The shortest buffer: a few vectors, so that the work of an instruction exceeds its overhead.
const LEAST: usize = 64;

/// A place that an instruction reads or writes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// The first operand of the function.
    X,
    /// The second operand of the function.
    Y,
    /// A constant.
    Number(f32),
    /// A buffer, by its number.
    Buffer(usize),
    /// The target.
    Result,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Copy,
    Unary(Unary),
    Binary(Binary),
    If(Compare),
}

#[derive(Clone, Copy, Debug)]
struct Step {
    kind: Kind,
    from: [Place; 4],
    to: Place,
}

/// A program whose intermediate results are in as few buffers as possible.
#[derive(Debug)]
pub struct Formula {
    steps: Vec<Step>,
    /// The number of buffers. If there is a second operand, its elements may be gathered in the last one.
    buffers: usize,
}

/// The second operand of a function. Its elements are `step` apart; with 0, there is one for all.
#[derive(Clone, Copy, Debug)]
pub struct Second {
    /// The first element.
    pub from: *const f32,
    /// The distance between elements, in elements.
    pub step: usize,
}

impl Second {
    /// For functions of one number.
    pub const NONE: Self = Self { from: std::ptr::null(), step: 0 };
}

impl Formula {
    /// Returns the formula of a program; `None` if it has too many live results for the cache.
    pub fn new(program: &Program) -> Option<Self> {
        let count = program.instructions.len();
        let mut last = vec![0; count];
        for (at, instruction) in program.instructions.iter().enumerate() {
            for operand in instruction.operands() {
                if let Operand::Result(read) = operand {
                    last[*read] = at;
                }
            }
        }
        if let Operand::Result(at) = program.result {
            last[at] = count;
        }
        let mut places: Vec<Place> = Vec::with_capacity(count);
        let (mut free, mut buffers) = (Vec::new(), 0);
        let place = |operand: &Operand, places: &[Place]| match operand {
            Operand::X => Place::X,
            Operand::Y => Place::Y,
            #[allow(clippy::cast_possible_truncation)]
            Operand::Number(number) => Place::Number(*number as f32),
            Operand::Result(at) => places[*at],
        };
        let mut steps = Vec::with_capacity(count + 1);
        for (at, instruction) in program.instructions.iter().enumerate() {
            let mut from = [Place::X; 4];
            for (from, operand) in from.iter_mut().zip(instruction.operands()) {
                *from = place(operand, &places);
            }
            // Each lane is read before it is written, so the result may take a buffer that is read here for the last
            // time.
            for read in 0..at {
                if let (true, Place::Buffer(buffer)) = (last[read] == at, places[read]) {
                    free.push(buffer);
                }
            }
            let to = if program.result == Operand::Result(at) {
                Place::Result
            } else {
                Place::Buffer(free.pop().unwrap_or_else(|| {
                    buffers += 1;
                    buffers - 1
                }))
            };
            places.push(to);
            let kind = match instruction {
                Instruction::Unary(kind, _) => Kind::Unary(*kind),
                Instruction::Binary(kind, _) => Kind::Binary(*kind),
                Instruction::If(compare, _) => Kind::If(*compare),
            };
            steps.push(Step { kind, from, to });
        }
        if steps.is_empty() {
            let from = place(&program.result, &places);
            steps.push(Step { kind: Kind::Copy, from: [from; 4], to: Place::Result });
        }
        buffers += usize::from(steps.iter().any(|step| step.from.contains(&Place::Y)));
        (buffers * LEAST <= ELEMENTS).then_some(Self { steps, buffers })
    }

    /// Returns the number of elements that all instructions handle at a time.
    fn chunk(&self) -> usize {
        ELEMENTS / self.buffers.max(1) / LEAST * LEAST
    }
}

widened! {
    /// Evaluates a formula for `count` numbers. Each operand and the target must be the same or not overlap. The
    /// function is not inlined, so that its buffers do not enlarge the stack frames of other loops.
    ///
    /// # Safety
    /// Source and target must be in bounds, and the second operand too if the formula has one.
    #[inline(never)]
    pub unsafe fn evaluate(
        formula: &Formula,
        source: *const f32,
        second: Second,
        target: *mut f32,
        count: usize,
    ) = evaluate_on;
}

/// # Safety
/// As for [`evaluate`]; the processor must have the instruction set of `V`.
#[inline(always)]
pub unsafe fn evaluate_on<V: Lanes>(
    formula: &Formula,
    source: *const f32,
    second: Second,
    target: *mut f32,
    count: usize,
) {
    let mut buffers = [MaybeUninit::<f32>::uninit(); ELEMENTS];
    let buffers = buffers.as_mut_ptr().cast::<f32>();
    let chunk = formula.chunk();
    let mut start = 0;
    while start < count {
        let length = chunk.min(count - start);
        // SAFETY: the last buffer is for the second operand, whose elements are in bounds.
        let y =
            unsafe { chunk_of(second, start, length, buffers.add(formula.buffers.max(1) * chunk - chunk)) };
        for step in &formula.steps {
            // SAFETY: each chunk is in bounds, and each buffer has this length.
            unsafe {
                let area =
                    Area { x: source.add(start), y, buffers, chunk, result: target.add(start), length };
                area.run::<V>(step);
            }
        }
        start += length;
    }
}

/// Returns the second operand of a chunk. Elements that are not contiguous are gathered in the buffer.
///
/// # Safety
/// The elements must be in bounds, and the buffer must have the length of a chunk.
#[inline(always)]
unsafe fn chunk_of(second: Second, start: usize, length: usize, buffer: *mut f32) -> Source {
    let elements = |from: *const f32| Source { from, number: 0.0 };
    // SAFETY: as the caller promises.
    unsafe {
        match second.step {
            0 if second.from.is_null() => Source { from: second.from, number: f32::NAN },
            0 => Source { from: std::ptr::null(), number: *second.from },
            1 => elements(second.from.add(start)),
            step => {
                (0..length).for_each(|at| *buffer.add(at) = *second.from.add((start + at) * step));
                elements(buffer)
            }
        }
    }
}

struct Area {
    x: *const f32,
    y: Source,
    buffers: *mut f32,
    chunk: usize,
    result: *mut f32,
    length: usize,
}

/// An operand: contiguous elements, or one constant.
#[derive(Clone, Copy)]
struct Source {
    from: *const f32,
    number: f32,
}

impl Source {
    /// # Safety
    /// The processor must have the instruction set of `V`, and the `rest` lanes from `at` on must be in bounds.
    #[inline(always)]
    unsafe fn load<V: Lanes>(self, at: usize, rest: usize) -> V {
        // SAFETY: as the caller promises.
        unsafe {
            if self.from.is_null() {
                V::splat(self.number)
            } else if rest >= V::COUNT {
                V::load(self.from.add(at))
            } else {
                V::load_first(self.from.add(at), rest)
            }
        }
    }
}

impl Area {
    /// # Safety
    /// The place must belong to the formula.
    #[inline(always)]
    unsafe fn source(&self, place: Place) -> Source {
        let from = match place {
            Place::X => self.x,
            Place::Y => return self.y,
            Place::Number(number) => return Source { from: std::ptr::null(), number },
            // SAFETY: buffers follow one another, and each has the length of a chunk.
            Place::Buffer(at) => unsafe { self.buffers.add(at * self.chunk) },
            Place::Result => self.result,
        };
        Source { from, number: 0.0 }
    }

    /// Runs the vector loop of an instruction.
    ///
    /// # Safety
    /// The processor must have the instruction set of `V`.
    #[inline(always)]
    unsafe fn run<V: Lanes>(&self, step: &Step) {
        // SAFETY: the places of the step belong to the formula.
        let [a, b, c, d] = unsafe { step.from.map(|place| self.source(place)) };
        let to = match step.to {
            // SAFETY: as above.
            Place::Buffer(at) => unsafe { self.buffers.add(at * self.chunk) },
            _ => self.result,
        };
        // This is a macro, so that each body is inlined only once.
        macro_rules! each {
            ($at:ident, $rest:ident => $value:expr) => {{
                let mut $at = 0;
                while $at < self.length {
                    let $rest = self.length - $at;
                    let value: V = $value;
                    if $rest >= V::COUNT {
                        value.store(to.add($at));
                    } else {
                        value.store_first(to.add($at), $rest);
                    }
                    $at += V::COUNT;
                }
            }};
        }
        macro_rules! one {
            ($x:ident => $value:expr) => {
                each!(at, rest => { let $x: V = a.load(at, rest); $value })
            };
        }
        macro_rules! two {
            ($x:ident, $y:ident => $value:expr) => {
                each!(at, rest => { let ($x, $y): (V, V) = (a.load(at, rest), b.load(at, rest)); $value })
            };
        }
        macro_rules! choose {
            ($x:ident, $y:ident, $then:ident, $otherwise:ident => $value:expr) => {
                each!(at, rest => {
                    let ($x, $y): (V, V) = (a.load(at, rest), b.load(at, rest));
                    let ($then, $otherwise): (V, V) = (c.load(at, rest), d.load(at, rest));
                    $value
                })
            };
        }
        // SAFETY: all loads and stores are within the length, as the caller promises.
        unsafe {
            match step.kind {
                Kind::Copy => one!(x => x),
                Kind::Unary(kind) => match kind {
                    Unary::Neg => one!(x => x.mul(V::splat(-1.0))),
                    Unary::Abs => one!(x => x.abs()),
                    Unary::Sign => one!(x => math::sign(x)),
                    Unary::Floor => one!(x => x.floor()),
                    Unary::Ceil => one!(x => x.ceil()),
                    Unary::Round => one!(x => x.round_even()),
                    Unary::Sqrt => one!(x => x.sqrt()),
                    Unary::Exp => one!(x => math::exp(x)),
                    Unary::Expm1 => one!(x => math::expm1(x)),
                    Unary::Log => one!(x => math::log(x)),
                    Unary::Log1p => one!(x => math::log1p(x)),
                    Unary::Sin => one!(x => x.each(f32::sin)),
                    Unary::Cos => one!(x => x.each(f32::cos)),
                    Unary::Atan => one!(x => x.each(f32::atan)),
                    Unary::Tanh => one!(x => math::tanh(x)),
                    Unary::Erf => one!(x => math::erf(x)),
                },
                Kind::Binary(kind) => match kind {
                    Binary::Add => two!(x, y => x.add(y)),
                    Binary::Sub => two!(x, y => x.sub(y)),
                    Binary::Mul => two!(x, y => x.mul(y)),
                    Binary::Div => two!(x, y => x.div(y)),
                    // If either operand is NaN, so is the result.
                    Binary::Min => two!(x, y => V::select(x.equal(x), x.min(y), x)),
                    Binary::Max => two!(x, y => V::select(x.equal(x), x.max(y), x)),
                    Binary::Pow => two!(x, y => math::power(x, y)),
                    // Remainders, truth values and bits are computed number by number.
                    kind => two!(x, y => math::pairs(x, y, |x, y| {
                        #[allow(clippy::cast_possible_truncation)]
                        let value = kind.evaluate(f64::from(x), f64::from(y)) as f32;
                        value
                    })),
                },
                Kind::If(compare) => match compare {
                    Compare::Less => choose!(x, y, then, no => V::select(x.less(y), then, no)),
                    Compare::Greater => choose!(x, y, then, no => V::select(y.less(x), then, no)),
                    Compare::Equal => choose!(x, y, then, no => V::select(x.equal(y), then, no)),
                    Compare::LessEqual => choose!(x, y, then, no => {
                        V::select(x.less(y), then, V::select(x.equal(y), then, no))
                    }),
                    Compare::GreaterEqual => choose!(x, y, then, no => {
                        V::select(y.less(x), then, V::select(x.equal(y), then, no))
                    }),
                },
            }
        }
    }
}
