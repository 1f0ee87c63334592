//! Memory in whole pages, and in large ones where the system has them.
//!
//! A processor remembers the addresses of some hundreds of pages. With pages of 4 KiB, that covers a few MiB, and the
//! processor stops prefetching at the end of each page. Reading weights from pages of 2 MiB is up to 1.5 times as fast.

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
        let too_many = || io::Error::from(io::ErrorKind::OutOfMemory);
        let filled = length.checked_next_multiple_of(LARGE).ok_or_else(too_many)?;
        let whole = if filled - length <= length / SPARE { filled } else { length };
        // What lies before the first large page is never used, so no memory is behind it.
        let map = MmapMut::map_anon(whole.checked_add(LARGE).ok_or_else(too_many)?)?;
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
