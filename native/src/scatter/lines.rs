//! Slices at positions along the first axes: `scatter-nd` and `gather-nd`.

use super::super::args::{PARALLEL, Shared, part, tasks};
use super::super::{plain_contract, reference};
use super::combine::{Typed, typed};
use super::{RUN, start, takes};
use ovolo::backend::{Args, Call, Contract, Kernel};
use ovolo::op::{KernelChoice, OpError};
use ovolo::tensor::DType;
use std::marker::PhantomData;

pub(super) fn contract(call: &Call<'_>) -> Result<Contract, OpError> {
    if Places::new(call).is_none() {
        return reference::contract(call);
    }
    let in_place = if call.op == "native.scatter-nd" { vec![0] } else { Vec::new() };
    Ok(Contract { in_place, ..plain_contract("lines") })
}

/// How threads divide the updates: by sizes and threads alone.
pub(super) fn choices(call: &Call<'_>) -> Vec<KernelChoice> {
    let Some(places) = Places::new(call) else { return Vec::new() };
    let told = |parts: usize| match parts {
        1 => "all in one task".to_owned(),
        parts => format!("divided into {parts} tasks"),
    };
    let Parts { columns, owners } = places.parts(call.threads);
    vec![
        KernelChoice::new("columns of updates", told(columns)),
        KernelChoice::new("places of updates", told(owners)),
    ]
}

/// How threads divide updates.
#[derive(Clone, Copy)]
struct Parts {
    /// The parts of the columns.
    columns: usize,
    /// The owners of places.
    owners: usize,
}

/// The slices that groups of positions name.
struct Places {
    wide: bool,
    /// The size and the stride of each axis that has a position.
    axes: Vec<(i64, usize)>,
    groups: usize,
    /// The groups of one element of the batch, and the distance between those.
    each: usize,
    outer: usize,
    /// The elements of a slice.
    line: usize,
}

impl Places {
    fn new(call: &Call<'_>) -> Option<Self> {
        let (x, positions) = (call.inputs[0], call.inputs[1]);
        let batch = match call.attrs.get("batch-dims") {
            Some(_) => call.attrs.expect_int("batch-dims") as usize,
            None => 0,
        };
        let depth = positions.shape.last().copied().filter(|depth| *depth > 0)?;
        let known = if call.inputs.len() == 3 { takes(call) } else { integers(call) };
        if !known {
            return None;
        }
        let strides = x.shape.strides();
        let axes = (batch..batch + depth).map(|dim| (x.shape[dim] as i64, strides[dim])).collect();
        let groups = positions.shape.count() / depth;
        Some(Self {
            wide: positions.dtype == DType::I64,
            axes,
            groups,
            each: (groups / x.shape[..batch].iter().product::<usize>().max(1)).max(1),
            outer: x.shape[batch..].iter().product(),
            line: x.shape[batch + depth..].iter().product(),
        })
    }

    /// Returns the first element of a slice. Positions out of range are clamped.
    ///
    /// # Safety
    /// The group must be in bounds of the positions, and no axis may be empty.
    #[inline(always)]
    unsafe fn of(&self, positions: Shared<u8>, group: usize) -> usize {
        let mut place = group / self.each * self.outer;
        for (at, &(size, stride)) in self.axes.iter().enumerate() {
            let at = group * self.axes.len() + at;
            // SAFETY: as the caller promises.
            let position = unsafe {
                if self.wide {
                    positions.at(at * 8).cast::<i64>().read_unaligned()
                } else {
                    i64::from(positions.at(at * 4).cast::<i32>().read_unaligned())
                }
            };
            let position = if position < 0 { position + size } else { position };
            place += position.clamp(0, size - 1) as usize * stride;
        }
        place
    }

    /// Returns how a scatter is divided. Slices may meet, so tasks divide the columns, and the places where there are
    /// few columns.
    fn parts(&self, threads: usize) -> Parts {
        if self.groups * self.line < PARALLEL {
            return Parts { columns: 1, owners: 1 };
        }
        let columns = (self.line / RUN).max(1).min(threads);
        Parts { columns, owners: threads.max(1).div_ceil(columns) }
    }

    fn is_empty(&self) -> bool {
        self.groups * self.line == 0 || self.axes.iter().any(|(size, _)| *size == 0)
    }
}

/// Returns the task, of `owners`, that has all updates of a place. Each task looks at all positions, which takes less
/// time than to sort them.
#[inline(always)]
pub(super) fn owner(place: usize, owners: usize) -> usize {
    // The upper half of a product with a large odd number is spread evenly (Knuth, TAOCP 3, 6.4). Its product with
    // the number of owners ends in 32 bits below the owner.
    let spread = (place as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    ((spread * owners as u64) >> 32) as usize
}

/// Returns whether the positions and the elements have sizes for which there is code.
fn integers(call: &Call<'_>) -> bool {
    matches!(call.inputs[1].dtype, DType::I64 | DType::I32)
        && matches!(call.output.dtype.size(), 1 | 2 | 4 | 8)
}

pub(super) fn scatter(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let Some(places) = Places::new(call) else { return reference::kernel(call) };
    // Without a batch, all groups belong to one element of it.
    let places = Places { each: places.groups.max(1), ..places };
    Ok(Box::new(Scatter { places, bytes: call.output.bytes(), typed: typed(call) }))
}

struct Scatter {
    places: Places,
    bytes: usize,
    typed: Typed,
}

impl Kernel for Scatter {
    unsafe fn run(&self, args: &Args<'_>) {
        let places = &self.places;
        // SAFETY: operand 0 and the result have this number of bytes.
        unsafe { start(args, self.bytes) };
        if places.is_empty() {
            return;
        }
        let (positions, updates) = (Shared::<u8>::input(args, 1), Shared::<u8>::input(args, 2));
        let (output, size) = (Shared::<u8>::output(args), self.typed.size);
        let parts = places.parts(args.team.threads());
        args.team.run(parts.columns * parts.owners, |index| {
            let columns = part(places.line, parts.columns, index % parts.columns, 16);
            for group in 0..places.groups {
                // SAFETY: groups are within the positions and the updates, and their places within the result. No
                // other task has these columns of these places.
                unsafe {
                    let place = places.of(positions, group);
                    if owner(place, parts.owners) != index / parts.columns {
                        continue;
                    }
                    let to = output.at((place + columns.start) * size);
                    let from = updates.at((group * places.line + columns.start) * size);
                    (self.typed.line)(to, from, columns.len());
                }
            }
        });
    }
}

pub(super) fn gather(call: &Call<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let Some(places) = Places::new(call) else { return reference::kernel(call) };
    Ok(match call.output.dtype.size() {
        1 => Box::new(Gather::<u8> { places, element: PhantomData }),
        2 => Box::new(Gather::<u16> { places, element: PhantomData }),
        4 => Box::new(Gather::<u32> { places, element: PhantomData }),
        _ => Box::new(Gather::<u64> { places, element: PhantomData }),
    })
}

struct Gather<T> {
    places: Places,
    element: PhantomData<T>,
}

impl<T: bytemuck::Pod + Send + Sync> Kernel for Gather<T> {
    unsafe fn run(&self, args: &Args<'_>) {
        let places = &self.places;
        if places.is_empty() {
            return;
        }
        let (data, positions) = (Shared::<T>::input(args, 0), Shared::<u8>::input(args, 1));
        let output = Shared::<T>::output(args);
        let parts = tasks(places.groups * places.line, places.groups, args.team.threads());
        args.team.run(parts, |index| {
            for group in part(places.groups, parts, index, 1) {
                // SAFETY: groups are within the positions and the result, and their places within the data.
                unsafe {
                    let (from, to) = (data.at(places.of(positions, group)), output.at(group * places.line));
                    if places.line == 1 {
                        *to = *from;
                    } else {
                        std::ptr::copy_nonoverlapping(from, to, places.line);
                    }
                }
            }
        });
    }
}
