//! Products of rows of bytes with panels by AMX, whose registers are matrices: one instruction (`tdpbusd`) multiplies up to 16
//! rows of 64 unsigned bytes by 64 rows of 16 signed ones.
//!
//! A panel has the order that the instruction wants: 64 bytes for each four steps of the inner dimension. Two matrices of rows
//! and two of weights are multiplied into four of sums, so that each of them is loaded once for two products. The inner
//! dimension is divided into equal pieces, as few as possible, so that all matrices of a product have the same sizes.
//!
//! The instructions are those of Intel's "Intel 64 and IA-32 Architectures Software Developer's Manual", volume 1, chapter 18.

use super::pair::PairSums;
use super::quad::{COLUMNS, QUAD, has_vnni};
use crate::lanes::prefetch;
use std::ops::Range;
use std::sync::OnceLock;

/// The most rows of a matrix.
pub(super) const ROWS: usize = 16;
/// The most rows that are multiplied at once.
pub(super) const GRID_ROWS: usize = 2 * ROWS;
/// The most quads of the inner dimension that a matrix has.
const QUADS: usize = 16;
/// The fewest rows and quads of a product. For smaller ones, loading and storing the sums takes longer than `vpdpbusd` does for
/// all.
const FEWEST: [usize; 2] = [8, 16];
/// The fewest quads of a piece. An instruction takes as long for four quads as for eight.
const FEWEST_OF_PIECE: usize = 8;

/// The sums of the rows that are multiplied at once.
pub(super) type Grid = [PairSums; GRID_ROWS];

/// Returns whether the processor has the instructions, and the system lets this process use them.
pub(super) fn is_supported() -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    // What stands around the products needs `vpdpbusd`.
    *SUPPORTED.get_or_init(|| has_vnni() && has_instructions() && is_permitted())
}

#[cfg(target_arch = "x86_64")]
fn has_instructions() -> bool {
    const TILE_AND_INT8: u32 = 1 << 24 | 1 << 25;
    let [leaves, features] = [std::arch::x86_64::__cpuid(0).eax, std::arch::x86_64::__cpuid(7).edx];
    leaves >= 7 && features & TILE_AND_INT8 == TILE_AND_INT8
}

#[cfg(not(target_arch = "x86_64"))]
fn has_instructions() -> bool {
    false
}

/// Asks the system for the right to use matrices, which it gives to the whole process. See "Using XSTATE features in user
/// space applications" in the documentation of the Linux kernel.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn is_permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    // SAFETY: the call changes no memory of this process.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn is_permitted() -> bool {
    false
}

/// How rows and the inner dimension of a product are divided among matrices.
#[derive(Clone, Copy)]
pub(super) struct Matrices {
    count: usize,
    /// The rows of each matrix. The last matrix has some rows of the one before, if they do not fill it.
    rows: usize,
    /// The quads of a piece of the inner dimension, and the number of the pieces of a run.
    quads: usize,
    pieces: usize,
}

impl Matrices {
    /// Returns the division of this many rows and quads; `None` if the processor has no matrices, or if they would be small.
    pub(super) fn new(rows: usize, quads: usize) -> Option<Self> {
        if rows < FEWEST[0] || quads < FEWEST[1] || !is_supported() {
            return None;
        }
        Self::of_pieces(rows, quads)
    }

    /// Returns the division of the rows of one matrix, whose inner dimension is runs of this many quads; `None` if the
    /// processor has no matrices, or if runs are short.
    pub(super) fn of_runs(rows: usize, quads: usize) -> Option<Self> {
        if is_supported() { Self::of_pieces(rows, quads) } else { None }
    }

    fn of_pieces(rows: usize, quads: usize) -> Option<Self> {
        let pieces = (quads.div_ceil(QUADS)..=quads).find(|pieces| quads.is_multiple_of(*pieces))?;
        let of_piece = quads / pieces;
        (of_piece >= FEWEST_OF_PIECE).then(|| Self {
            count: rows,
            rows: rows.div_ceil(rows.div_ceil(ROWS)),
            quads: of_piece,
            pieces,
        })
    }

    /// Returns the number of pieces of a run.
    pub(super) fn pieces(&self) -> usize {
        self.pieces
    }

    /// Returns the quads by which an inner dimension is filled up, so that it has as few pieces as possible, and these are equal.
    /// A product takes as long for a piece with few quads as for one with many. Weights that are filled up have to be copied,
    /// so that some more pieces are better.
    pub(super) fn filling(rows: usize, quads: usize) -> usize {
        if rows < FEWEST[0] || quads < FEWEST[1] || !is_supported() {
            return 0;
        }
        let fewest = quads.div_ceil(QUADS);
        match Self::new(rows, quads) {
            Some(equal) if 3 * equal.pieces < 4 * fewest => 0,
            _ => quads.next_multiple_of(fewest) - quads,
        }
    }

    /// Returns the rows that are multiplied at once, from the first to the last ones. Some may be multiplied twice.
    pub(super) fn parts(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let Self { count, rows, .. } = *self;
        (0..count).step_by(2 * rows).map(move |first| first.min(count - rows)..(first + 2 * rows).min(count))
    }

    /// Prepares the processor for the products of this thread. They end with the value that is returned.
    pub(super) fn begin(self) -> Begun {
        /// The configuration of the registers, as the manual describes it.
        #[repr(C, align(64))]
        struct Configuration {
            palette: u8,
            first_row: u8,
            reserved: [u8; 14],
            bytes: [u16; 16],
            rows: [u8; 16],
        }
        let mut configuration =
            Configuration { palette: 1, first_row: 0, reserved: [0; 14], bytes: [0; 16], rows: [0; 16] };
        // The sums, the rows and the weights; see `Begun::products`.
        for register in 0..8 {
            let (rows, quads) = match register {
                0..4 => (self.rows, COLUMNS),
                4..6 => (self.rows, self.quads),
                _ => (self.quads, COLUMNS),
            };
            configuration.bytes[register] = 4 * quads as u16;
            configuration.rows[register] = rows as u8;
        }
        // SAFETY: matrices are supported if there is a division, and no code of the compiler uses these registers.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!(
                "ldtilecfg [{}]", in(reg) &raw const configuration, options(nostack, readonly, preserves_flags)
            );
        }
        Begun { matrices: self, not_send: std::marker::PhantomData }
    }
}

/// The right of a thread to multiply matrices of these sizes.
pub(super) struct Begun {
    matrices: Matrices,
    /// The registers belong to one thread.
    not_send: std::marker::PhantomData<*const ()>,
}

/// The panels of a product: one or two, each with what is added to the sums of its columns.
pub(super) struct Panels<'a> {
    pub weights: [*const i8; 2],
    pub constants: [&'a [i32; COLUMNS]; 2],
    /// Whether there is a second one.
    pub both: bool,
    /// The weights of the panels that come next, if they are to be requested.
    pub ahead: Option<Ahead>,
}

/// Weights that are requested while others are multiplied, to be in the second-level cache when it is their turn. A matrix
/// is loaded row by row, and no such load is early enough for weights that come from memory.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    /// Where the rest of each panel begins.
    pub panels: [*const i8; 2],
    /// Of so many quads, each product requests one.
    pub share: usize,
}

impl Ahead {
    /// Returns the weights that a product requests: of each group of `share` quads, the one with this number.
    pub(super) fn new(panels: [*const i8; 2], number: usize, share: usize) -> Self {
        Self { panels: panels.map(|panel| panel.wrapping_add(number * QUAD)), share }
    }

    /// Requests the weights of some quads.
    fn request(&mut self, quads: usize) {
        for panel in &mut self.panels {
            for quad in (0..quads).step_by(self.share) {
                prefetch(panel.wrapping_add(quad * QUAD));
            }
            *panel = panel.wrapping_add(quads * QUAD);
        }
    }
}

impl Panels<'_> {
    /// Returns whether all constants are zero, as they are where images have no zero point. The sums need not be loaded then.
    fn add_nothing(&self) -> bool {
        self.constants.iter().all(|constants| **constants == [0; COLUMNS])
    }
}

/// Sets the matrices of sums to zero.
///
/// # Safety
/// The processor must be prepared for products; see [`Matrices::begin`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn clear() {
    // SAFETY: as the caller promises; no code of the compiler uses these registers.
    unsafe {
        std::arch::asm!(
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            options(nomem, nostack, preserves_flags)
        );
    }
}

/// Rows that are multiplied at once: those of one matrix or of two.
pub(super) struct Windows<'a> {
    /// The first row of the first matrix.
    pub first: *const u8,
    /// The first row of the second matrix, and the row of sums that it has.
    pub second: Option<(*const u8, usize)>,
    /// The distance between the rows of a matrix in bytes.
    pub stride: usize,
    /// Where the runs of each row begin: the distances in bytes from its first element.
    pub runs: &'a [usize],
}

impl Begun {
    /// Returns the rows that are multiplied at once; see [`Matrices::parts`].
    pub(super) fn parts(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        self.matrices.parts()
    }

    /// Returns rows that are one of the parts, and lie `stride` bytes apart from `first` on.
    pub(super) fn rows(&self, first: *const u8, stride: usize, rows: usize) -> Windows<'static> {
        // The rows of the second matrix end with the last row.
        let second = rows.checked_sub(self.matrices.rows).filter(|below| *below > 0);
        let second = second.map(|below| (first.wrapping_add(below * stride), below));
        Windows { first, second, stride, runs: &[0] }
    }

    /// Writes the products of rows.
    ///
    /// # Safety
    /// All elements must be in bounds.
    #[cfg(target_arch = "x86_64")]
    pub(super) unsafe fn products(&self, windows: &Windows<'_>, panels: &Panels<'_>, sums: *mut PairSums) {
        let Matrices { quads, pieces, .. } = self.matrices;
        let Windows { first, second, stride, runs } = *windows;
        let (under, below) = second.unwrap_or((first, 0));
        let below_to = sums.wrapping_add(below);
        let [mut weights, mut beside] = panels.weights;
        let [constants, more] = panels.constants.map(|constants| constants.as_ptr());
        let mut ahead = panels.ahead;
        /// Multiplies all pieces by a way to load and multiply them, and stores the sums. The compiler uses none of the
        /// registers, so that they keep their values from one part to the next.
        macro_rules! multiply {
            ($start:literal, $step:literal, $end:literal) => {{
                if panels.add_nothing() {
                    clear();
                } else {
                    // At a stride of zero, all rows of sums begin with the constants. Operands that some of the ways do not
                    // use stand in comments, because each operand must occur.
                    std::arch::asm!(
                        $start,
                        "/* {d} */",
                        c = in(reg) constants, d = in(reg) more, zero = in(reg) 0_usize,
                        options(nostack, readonly, preserves_flags)
                    );
                }
                for run in runs {
                    let (mut a, mut b) = (first.wrapping_add(*run), under.wrapping_add(*run));
                    for _ in 0..pieces {
                        std::arch::asm!(
                            $step,
                            "/* {b} {v} */",
                            a = in(reg) a,
                            b = in(reg) b,
                            w = in(reg) weights,
                            v = in(reg) beside,
                            stride = in(reg) stride,
                            apart = in(reg) QUAD,
                            options(nostack, readonly, preserves_flags)
                        );
                        (a, b) = (a.wrapping_add(4 * quads), b.wrapping_add(4 * quads));
                        (weights, beside) =
                            (weights.wrapping_add(QUAD * quads), beside.wrapping_add(QUAD * quads));
                        ahead.iter_mut().for_each(|ahead| ahead.request(quads));
                    }
                }
                std::arch::asm!(
                    $end,
                    "/* {below} */",
                    to = in(reg) sums,
                    below = in(reg) below_to,
                    // The distance between the rows of the sums.
                    apart = in(reg) 2 * QUAD,
                    options(nostack, preserves_flags)
                );
            }};
        }
        // SAFETY: as the caller promises; the sizes are those of the configuration.
        unsafe {
            match (second.is_some(), panels.both) {
                (true, true) => multiply!(
                    "tileloadd tmm0, [{c} + {zero}]
                     tileloadd tmm1, [{d} + {zero}]
                     tileloadd tmm2, [{c} + {zero}]
                     tileloadd tmm3, [{d} + {zero}]",
                    "tileloadd tmm6, [{w} + {apart}]
                     tileloadd tmm4, [{a} + {stride}]
                     tileloadd tmm7, [{v} + {apart}]
                     tileloadd tmm5, [{b} + {stride}]
                     tdpbusd tmm0, tmm4, tmm6
                     tdpbusd tmm1, tmm4, tmm7
                     tdpbusd tmm2, tmm5, tmm6
                     tdpbusd tmm3, tmm5, tmm7",
                    "tilestored [{to} + {apart}], tmm0
                     tilestored [{to} + {apart} + 64], tmm1
                     tilestored [{below} + {apart}], tmm2
                     tilestored [{below} + {apart} + 64], tmm3"
                ),
                (true, false) => multiply!(
                    "tileloadd tmm0, [{c} + {zero}]
                     tileloadd tmm2, [{c} + {zero}]",
                    "tileloadd tmm6, [{w} + {apart}]
                     tileloadd tmm4, [{a} + {stride}]
                     tileloadd tmm5, [{b} + {stride}]
                     tdpbusd tmm0, tmm4, tmm6
                     tdpbusd tmm2, tmm5, tmm6",
                    "tilestored [{to} + {apart}], tmm0
                     tilestored [{below} + {apart}], tmm2"
                ),
                (false, true) => multiply!(
                    "tileloadd tmm0, [{c} + {zero}]
                     tileloadd tmm1, [{d} + {zero}]",
                    "tileloadd tmm6, [{w} + {apart}]
                     tileloadd tmm4, [{a} + {stride}]
                     tileloadd tmm7, [{v} + {apart}]
                     tdpbusd tmm0, tmm4, tmm6
                     tdpbusd tmm1, tmm4, tmm7",
                    "tilestored [{to} + {apart}], tmm0
                     tilestored [{to} + {apart} + 64], tmm1"
                ),
                (false, false) => multiply!(
                    "tileloadd tmm0, [{c} + {zero}]",
                    "tileloadd tmm6, [{w} + {apart}]
                     tileloadd tmm4, [{a} + {stride}]
                     tdpbusd tmm0, tmm4, tmm6",
                    "tilestored [{to} + {apart}], tmm0"
                ),
            }
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(super) unsafe fn products(&self, _: &Windows<'_>, _: &Panels<'_>, _: *mut PairSums) {
        unreachable!("matrices are not supported")
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        // SAFETY: the registers are no longer used. Without them, the system need not save them.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!("tilerelease", options(nomem, nostack, preserves_flags));
        }
    }
}
