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
use std::ops::Range;
use std::sync::OnceLock;

/// The most rows of a matrix.
const ROWS: usize = 16;
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
    /// The quads of a piece of the inner dimension, and the number of the pieces.
    quads: usize,
    pieces: usize,
}

impl Matrices {
    /// Returns the division of this many rows and quads; `None` if the processor has no matrices, or if they would be small.
    pub(super) fn new(rows: usize, quads: usize) -> Option<Self> {
        if rows < FEWEST[0] || quads < FEWEST[1] || !is_supported() {
            return None;
        }
        let pieces = (quads.div_ceil(QUADS)..=quads).find(|pieces| quads.is_multiple_of(*pieces))?;
        let of_piece = quads / pieces;
        (of_piece >= FEWEST_OF_PIECE).then(|| Self {
            count: rows,
            rows: rows.div_ceil(rows.div_ceil(ROWS)),
            quads: of_piece,
            pieces,
        })
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
}

impl Begun {
    /// Returns the rows that are multiplied at once; see [`Matrices::parts`].
    pub(super) fn parts(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        self.matrices.parts()
    }

    /// Writes the products of rows, which are one of the parts, and lie `stride` bytes apart from `a` on.
    ///
    /// # Safety
    /// All elements must be in bounds.
    #[cfg(target_arch = "x86_64")]
    pub(super) unsafe fn products(
        &self,
        a: *const u8,
        stride: usize,
        rows: usize,
        panels: &Panels<'_>,
        sums: *mut PairSums,
    ) {
        let Matrices { rows: of_matrix, quads, pieces, .. } = self.matrices;
        // The rows of the second matrix end with the last row.
        let second = (rows > of_matrix).then(|| rows - of_matrix);
        let below = second.unwrap_or(0);
        let below_to = sums.wrapping_add(below);
        let [weights, beside] = panels.weights;
        let [constants, more] = panels.constants.map(|constants| constants.as_ptr());
        /// Multiplies all pieces by a way to load and multiply them, and stores the sums.
        macro_rules! multiply {
            ($start:literal, $step:literal, $end:literal $(, $name:ident = $value:expr)*) => {
                std::arch::asm!(
                    $start,
                    "2:",
                    $step,
                    "add {a}, {piece}",
                    "add {b}, {piece}",
                    "add {w}, {block}",
                    "add {v}, {block}",
                    "dec {count}",
                    "jnz 2b",
                    $end,
                    a = inout(reg) a => _,
                    b = inout(reg) a.wrapping_add(below * stride) => _,
                    w = inout(reg) weights => _,
                    v = inout(reg) beside => _,
                    count = inout(reg) pieces => _,
                    stride = in(reg) stride,
                    // The distance between the rows of weights, and twice as much between those of sums.
                    apart = in(reg) QUAD,
                    piece = in(reg) 4 * quads,
                    block = in(reg) QUAD * quads,
                    c = in(reg) constants,
                    to = in(reg) sums,
                    zero = in(reg) 0_usize,
                    $($name = in(reg) $value,)*
                    options(nostack)
                )
            };
        }
        // SAFETY: as the caller promises; the sizes are those of the configuration. At a stride of zero, all rows of sums
        // begin with the constants.
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
                    "tilestored [{to} + 2*{apart}], tmm0
                     tilestored [{to} + 2*{apart} + 64], tmm1
                     tilestored [{below} + 2*{apart}], tmm2
                     tilestored [{below} + 2*{apart} + 64], tmm3",
                    d = more,
                    below = below_to
                ),
                (true, false) => multiply!(
                    "tileloadd tmm0, [{c} + {zero}]
                     tileloadd tmm2, [{c} + {zero}]",
                    "tileloadd tmm6, [{w} + {apart}]
                     tileloadd tmm4, [{a} + {stride}]
                     tileloadd tmm5, [{b} + {stride}]
                     tdpbusd tmm0, tmm4, tmm6
                     tdpbusd tmm2, tmm5, tmm6",
                    "tilestored [{to} + 2*{apart}], tmm0
                     tilestored [{below} + 2*{apart}], tmm2",
                    below = below_to
                ),
                (false, true) => multiply!(
                    "tileloadd tmm0, [{c} + {zero}]
                     tileloadd tmm1, [{d} + {zero}]",
                    "tileloadd tmm6, [{w} + {apart}]
                     tileloadd tmm4, [{a} + {stride}]
                     tileloadd tmm7, [{v} + {apart}]
                     tdpbusd tmm0, tmm4, tmm6
                     tdpbusd tmm1, tmm4, tmm7",
                    "tilestored [{to} + 2*{apart}], tmm0
                     tilestored [{to} + 2*{apart} + 64], tmm1",
                    d = more
                ),
                (false, false) => multiply!(
                    "tileloadd tmm0, [{c} + {zero}]",
                    "tileloadd tmm6, [{w} + {apart}]
                     tileloadd tmm4, [{a} + {stride}]
                     tdpbusd tmm0, tmm4, tmm6",
                    "tilestored [{to} + 2*{apart}], tmm0"
                ),
            }
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(super) unsafe fn products(&self, _: *const u8, _: usize, _: usize, _: &Panels<'_>, _: *mut PairSums) {
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
