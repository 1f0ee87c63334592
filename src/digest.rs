//! A digest of many bytes, computed by several threads.
//!
//! Blocks are hashed on their own (BLAKE3), so that threads share them; the digest is the hash of the
//! length and the blocks' hashes, and so does not depend on how many threads there were.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a block: enough to keep a thread busy, few enough to share a model's weights evenly.
pub(super) const BLOCK: usize = 1 << 20;

/// Identifies content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Computes the digest of some bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self::all(&[bytes], 1)[0]
    }

    /// Returns the digest of a list of texts. Moving characters from one text to the next changes it.
    pub fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for text in texts {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// Returns the digests of several byte slices, computed by `threads` threads.
    pub(crate) fn all(parts: &[&[u8]], threads: usize) -> Vec<Self> {
        let blocks: Vec<(usize, &[u8])> = parts
            .iter()
            .enumerate()
            .flat_map(|(part, bytes)| bytes.chunks(BLOCK).map(move |block| (part, block)))
            .collect();
        let next = AtomicUsize::new(0);
        let done = Mutex::new(vec![[0; 32]; blocks.len()]);
        by_threads(threads.min(blocks.len()), || {
            while let Some((at, (_, block))) = take(&next, &blocks) {
                let hash = *blake3::hash(block).as_bytes();
                done.lock().unwrap_or_else(PoisonError::into_inner)[at] = hash;
            }
        });
        let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut hashers: Vec<blake3::Hasher> = parts.iter().map(|_| blake3::Hasher::new()).collect();
        for (hasher, bytes) in hashers.iter_mut().zip(parts) {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
        }
        for ((part, _), hash) in blocks.iter().zip(&done) {
            hashers[*part].update(hash);
        }
        hashers.iter().map(|hasher| Self(*hasher.finalize().as_bytes())).collect()
    }

    /// Returns the digest of a file's bytes. They are read block by block, since mapping would keep all of them in
    /// memory.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn read_file(path: &Path, threads: usize) -> io::Result<Self> {
        let meta = std::fs::metadata(path)?;
        if meta.is_dir() {
            return Err(io::Error::other("it is a folder"));
        }
        let length = meta.len();
        let starts: Vec<u64> = (0..length).step_by(BLOCK).collect();
        let next = AtomicUsize::new(0);
        let done = Mutex::new(vec![Ok([0; 32]); starts.len()]);
        by_threads(threads.min(starts.len()), || {
            let mut open = None;
            let mut block = vec![0; BLOCK];
            while let Some((at, start)) = take(&next, &starts) {
                let mut hash = || {
                    let file = match &mut open {
                        Some(file) => file,
                        None => open.insert(File::open(path)?),
                    };
                    file.seek(SeekFrom::Start(*start))?;
                    let bytes = usize::try_from(length - start).map_or(BLOCK, |left| left.min(BLOCK));
                    file.read_exact(&mut block[..bytes])?;
                    Ok(*blake3::hash(&block[..bytes]).as_bytes())
                };
                let hash = hash().map_err(|error: io::Error| error.kind());
                done.lock().unwrap_or_else(PoisonError::into_inner)[at] = hash;
            }
        });
        let mut hasher = blake3::Hasher::new();
        hasher.update(&length.to_le_bytes());
        for hash in done.into_inner().unwrap_or_else(PoisonError::into_inner) {
            hasher.update(&hash?);
        }
        Ok(Self(*hasher.finalize().as_bytes()))
    }

    /// Returns the bytes of the digest.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the first seven digits, by which messages name an entry.
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(7);
        text
    }
}

/// Runs the same function on `threads` threads, which share the work among themselves.
pub(crate) fn by_threads(threads: usize, work: impl Fn() + Sync) {
    match threads {
        0 | 1 => work(),
        threads => std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(&work);
            }
        }),
    }
}

fn take<'a, T>(next: &AtomicUsize, list: &'a [T]) -> Option<(usize, &'a T)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    list.get(at).map(|item| (at, item))
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A text that is not a digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a digest")]
pub struct NoDigest(pub String);

impl FromStr for Digest {
    type Err = NoDigest;
    fn from_str(text: &str) -> Result<Self, NoDigest> {
        let wrong = || NoDigest(text.to_owned());
        let mut bytes = [0; 32];
        if text.len() != 2 * bytes.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}
