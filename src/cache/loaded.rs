//! Weights of the cache in memory.
//!
//! A file is mapped, so that processes share its bytes. A large one is read into large pages if the system has them.
//! Products with few rows wait for their weights, and reading these from large pages is up to 1.5 times as fast.

use super::folder::{Folder, Kind};
use crate::digest::by_threads;
use crate::tensor::{DType, LARGE_PAGE, Tensor, TensorType};
use memmap2::Mmap;
use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};

/// The bytes that a thread reads at one time.
const PIECE: usize = 4 << 20;

/// The bytes of a file.
pub(super) enum Loaded {
    /// As the system has them.
    Mapped(Mmap),
    /// In memory of this process.
    Read(Tensor),
}

impl AsRef<[u8]> for Loaded {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Read(tensor) => tensor.bytes(),
        }
    }
}

/// Loads the weights with these names, by `threads` threads. For each `None` if there is no such file, or if it is empty.
pub(super) fn load(folder: &Folder, names: &[String], threads: usize) -> Vec<io::Result<Option<Loaded>>> {
    let large = has_large_pages();
    let mut files: Vec<io::Result<Option<Source>>> =
        names.iter().map(|name| Source::open(folder, name, large)).collect();
    let mut pieces = Vec::new();
    for (at, file) in files.iter_mut().enumerate() {
        if let Ok(Some(Source::Reading(file, tensor))) = file {
            let parts = tensor.bytes_mut().chunks_mut(PIECE).enumerate();
            pieces.extend(parts.map(|(part, bytes)| (at, &*file, part * PIECE, bytes)));
        }
    }
    pieces.reverse(); // They are taken from the end.
    let threads = threads.min(pieces.len());
    let (pieces, failed) = (Mutex::new(pieces), Mutex::new(Vec::new()));
    let take = || pieces.lock().unwrap_or_else(PoisonError::into_inner).pop();
    by_threads(threads, || {
        while let Some((at, file, offset, bytes)) = take() {
            if let Err(error) = read_at(file, bytes, offset as u64) {
                failed.lock().unwrap_or_else(PoisonError::into_inner).push((at, error));
            }
        }
    });
    drop(pieces);
    for (at, error) in failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        files[at] = Err(error);
    }
    let loaded = |source| match source {
        Source::Mapped(map) => Loaded::Mapped(map),
        Source::Reading(_, tensor) => Loaded::Read(tensor),
    };
    files.into_iter().map(|file| file.map(|source| source.map(loaded))).collect()
}

/// A file that is mapped, or is to be read into a tensor of its length.
enum Source {
    Mapped(Mmap),
    Reading(File, Tensor),
}

impl Source {
    fn open(folder: &Folder, name: &str, large: bool) -> io::Result<Option<Self>> {
        if !large {
            return Self::map(folder, name);
        }
        let Some(file) = folder.open(Kind::Weight, name)? else { return Ok(None) };
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let room = || Tensor::try_zeros(TensorType::plain(DType::U8, [length]));
        match (length >= LARGE_PAGE).then(room).flatten() {
            Some(tensor) => Ok(Some(Self::Reading(file, tensor))),
            None => Self::map(folder, name),
        }
    }

    fn map(folder: &Folder, name: &str) -> io::Result<Option<Self>> {
        Ok(folder.map(Kind::Weight, name)?.map(Self::Mapped))
    }
}

/// Returns whether the system gives large pages to memory that asks for them.
fn has_large_pages() -> bool {
    let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    enabled.is_ok_and(|enabled| !enabled.contains("[never]"))
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

/// On other systems all files are mapped, so this is never called.
#[cfg(not(unix))]
fn read_at(_: &File, _: &mut [u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
