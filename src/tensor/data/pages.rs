//! Memory in whole pages, and in large ones where the system has them.
//!
//! A processor keeps the places of some hundred pages. With pages of 4 KiB these are a few MiB, and its own requests for
//! the next lines end at each page. Weights that are read from memory once in a run are read up to half as fast again from
//! pages of 2 MiB.

use memmap2::MmapMut;
use std::io;

/// The bytes of a large page on most processors; `usize::MAX` where nobody can ask for one.
pub(crate) const LARGE: usize = if cfg!(target_os = "linux") { 2 << 20 } else { usize::MAX };

/// The part of its length by which memory may grow so that its last page is a large one as well.
const SPARE: usize = 8;

/// Bytes that are zero at first, and are returned to the system when they are dropped.
pub(super) struct Pages {
    map: MmapMut,
    start: usize,
    length: usize,
}

impl Pages {
    /// Allocates bytes. If there are enough of them for a large page, they begin where one may begin.
    ///
    /// # Errors
    /// The error of the system.
    pub fn zeroed(length: usize) -> io::Result<Self> {
        if length < LARGE {
            return Ok(Self { map: MmapMut::map_anon(length)?, start: 0, length });
        }
        let filled = length.next_multiple_of(LARGE);
        let whole = if filled - length <= length / SPARE { filled } else { length };
        // What lies before the first large page is never used, so no memory is behind it.
        let map = MmapMut::map_anon(whole + LARGE)?;
        let start = map.as_ptr().align_offset(LARGE);
        // It is only advice: without it, or where it fails, all is the same but slower.
        #[cfg(target_os = "linux")]
        let _ = map.advise_range(memmap2::Advice::HugePage, start, whole);
        Ok(Self { map, start, length })
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.map[self.start..][..self.length]
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.map[self.start..][..self.length]
    }
}
