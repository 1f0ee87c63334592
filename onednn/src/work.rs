//! Work that is divided between threads, and its execution.

use onednn_sys::{Arg, Primitive, PrimitiveDesc};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{KernelChoice, OpError};
use std::sync::Mutex;

/// The place of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgPlace {
    /// In an operand: its number, and the offset in bytes.
    Input(usize, usize),
    /// In the result: the offset in bytes.
    Output(usize),
    /// In the thread's part of the scratch memory.
    Scratch,
}

/// An implementation with its arguments in order.
pub(super) struct Variant {
    desc: PrimitiveDesc,
    args: Vec<Arg>,
}

/// One run of a variant, with the places of its arguments in order.
struct Run {
    variant: usize,
    places: Vec<ArgPlace>,
}

/// The runs of each thread.
pub(super) struct Work {
    variants: Vec<Variant>,
    slots: Vec<Vec<Run>>,
    /// The operands whose buffer the result may take.
    pub in_place: Vec<usize>,
    /// The operand whose buffer the result must take.
    pub alias: Option<usize>,
}

/// The alignment of each thread's scratch memory, in bytes.
const ALIGN: usize = 64;

impl Work {
    /// Returns work without runs for `threads` threads.
    pub(super) fn new(threads: usize) -> Self {
        let slots = (0..threads.max(1)).map(|_| Vec::new()).collect();
        Self { variants: Vec::new(), slots, in_place: Vec::new(), alias: None }
    }

    /// Adds an implementation and returns its number.
    pub(super) fn variant(&mut self, desc: PrimitiveDesc, args: Vec<Arg>) -> usize {
        self.variants.push(Variant { desc, args });
        self.variants.len() - 1
    }

    /// Adds a run to the list of a thread.
    pub(super) fn run(&mut self, slot: usize, variant: usize, places: Vec<ArgPlace>) {
        let slots = self.slots.len();
        self.slots[slot % slots].push(Run { variant, places });
    }

    /// Returns the name of the implementation of the first variant. The others have the same one if possible.
    fn name(&self) -> String {
        self.variants.first().map(|variant| variant.desc.name()).unwrap_or_default()
    }

    /// Returns the scratch bytes of one thread.
    fn scratch(&self) -> usize {
        let largest = self.variants.iter().map(|variant| variant.desc.scratch()).max().unwrap_or(0);
        largest.next_multiple_of(ALIGN)
    }

    /// Returns the contract of the kernel.
    pub(super) fn contract(&self) -> Contract {
        Contract {
            implementation: self.name(),
            in_place: self.in_place.clone(),
            alias: self.alias,
            scratch: self.scratch() * self.slots.iter().filter(|runs| !runs.is_empty()).count(),
            ..Contract::default()
        }
    }

    /// Returns what is decided here: how threads divide the work, and which of the library's implementations is
    /// taken where no attribute says it.
    pub(super) fn choices(&self, call: &Call<'_>) -> Vec<KernelChoice> {
        let busy = self.slots.iter().filter(|runs| !runs.is_empty()).count();
        let runs: usize = self.slots.iter().map(Vec::len).sum();
        let division = format!("{busy} of {} have a part, in {runs} calls of the library", call.threads);
        let mut choices = vec![KernelChoice::new("threads", division)];
        if call.op.attr("implementation").is_none() {
            choices.push(KernelChoice::new(
                "implementation",
                "the first that the library offers and that is no reference",
            ));
        }
        choices
    }

    /// Creates the kernel, in which each thread has its own primitives.
    pub(super) fn kernel(self) -> Result<Divided, OpError> {
        let scratch = self.scratch();
        let mut slots = Vec::new();
        for runs in self.slots.into_iter().filter(|runs| !runs.is_empty()) {
            let mut primitives: Vec<(usize, Primitive)> = Vec::new();
            let mut list = Vec::new();
            for run in runs {
                let known = primitives.iter().position(|(variant, _)| *variant == run.variant);
                let at = match known {
                    Some(at) => at,
                    None => {
                        let Variant { desc, args } = &self.variants[run.variant];
                        let made = Primitive::new(desc, args).map_err(OpError::backend)?;
                        primitives.push((run.variant, made));
                        primitives.len() - 1
                    }
                };
                list.push((at, run.places));
            }
            let places = Vec::with_capacity(list.iter().map(|(_, places)| places.len()).max().unwrap_or(0));
            let primitives = primitives.into_iter().map(|(_, primitive)| primitive).collect();
            slots.push(Mutex::new(Slot { primitives, runs: list, places }));
        }
        Ok(Divided { slots, scratch })
    }
}

/// The runs of one thread, with their primitives.
struct Slot {
    primitives: Vec<Primitive>,
    runs: Vec<(usize, Vec<ArgPlace>)>,
    /// The addresses for the current run. The vector is kept, so that a run allocates nothing.
    places: Vec<*mut u8>,
}

// SAFETY: each run writes `places` before it reads it.
unsafe impl Send for Slot {}

/// A kernel that is divided between threads.
pub(super) struct Divided {
    slots: Vec<Mutex<Slot>>,
    scratch: usize,
}

/// The buffers of a step, shared by its threads.
#[derive(Clone, Copy)]
pub(super) struct Buffers<'a>(pub(super) &'a Args<'a>);

// SAFETY: the pointers are only addresses; each access to the memory has its own justification.
unsafe impl Send for Buffers<'_> {}
// SAFETY: as above.
unsafe impl Sync for Buffers<'_> {}

impl<'a> Buffers<'a> {
    /// Returns the buffers of the step.
    pub(super) fn args(self) -> &'a Args<'a> {
        self.0
    }

    fn at(&self, place: ArgPlace, slot: usize, scratch: usize) -> *mut u8 {
        match place {
            ArgPlace::Input(operand, offset) => self.0.inputs[operand].wrapping_add(offset).cast_mut(),
            ArgPlace::Output(offset) => self.0.output.wrapping_add(offset),
            ArgPlace::Scratch => self.0.scratch.wrapping_add(slot * scratch),
        }
    }
}

impl Kernel for Divided {
    unsafe fn run(&self, args: &Args<'_>) {
        let buffers = Buffers(args);
        let failed = Mutex::new(None);
        args.team.run(self.slots.len(), |index| {
            let mut slot = self.slots[index].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let Slot { primitives, runs, places } = &mut *slot;
            for (primitive, at) in runs {
                places.clear();
                places.extend(at.iter().map(|place| buffers.at(*place, index, self.scratch)));
                // SAFETY: the places are parts of the step's buffers and have the sizes of the descriptors that the
                // primitive was made with. Threads write disjoint parts of the result and use their own scratch
                // memory.
                if let Err(error) = unsafe { primitives[*primitive].run(places) } {
                    *failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(error);
                }
            }
        });
        if let Some(error) = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
            panic!("oneDNN cannot run a primitive that it has created: {error}");
        }
    }
}

/// Moves on to implementation `index` among those that are not the reference. The error says that there is none.
pub(super) fn choose(desc: PrimitiveDesc, index: usize) -> Result<PrimitiveDesc, OpError> {
    match choose_among(desc, index, |name| !name.contains("ref")) {
        Ok(chosen) => Ok(chosen),
        Err(0) => Err(OpError::kernel("oneDNN has only its reference implementation for this")),
        Err(count) => Err(OpError::kernel(format!("oneDNN has {count} implementation(s) for this"))),
    }
}

/// Moves on to implementation `index` among those whose names fit. Otherwise returns how many there are.
pub(super) fn choose_among(
    mut desc: PrimitiveDesc,
    index: usize,
    fits: impl Fn(&str) -> bool,
) -> Result<PrimitiveDesc, usize> {
    let mut seen = 0;
    loop {
        if fits(&desc.name()) {
            if seen == index {
                return Ok(desc);
            }
            seen += 1;
        }
        if !desc.advance() {
            return Err(seen);
        }
    }
}

/// The number of operations for which another thread is worth its wake-up. Tests divide much smaller work.
const MIN_OPERATIONS: usize = if cfg!(test) { 1 } else { 64 * 1024 };

/// Returns the number of threads for so many operations.
pub(super) fn threads(call: &Call<'_>, operations: usize) -> usize {
    call.threads.min(operations / MIN_OPERATIONS).max(1)
}

/// Returns part `index` of `parts` nearly equal parts of `0..count`, cut at multiples of `unit`.
pub(super) fn part(count: usize, parts: usize, index: usize, unit: usize) -> std::ops::Range<usize> {
    let units = count.div_ceil(unit);
    let cut = |index: usize| (units * index / parts * unit).min(count);
    cut(index)..cut(index + 1)
}
