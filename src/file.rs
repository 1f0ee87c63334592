//! Writes files completely or not at all.
//!
//! A file is first written in the same folder, under its own name with `.part` at the end, and then renamed. So a
//! reader sees the old file or the new one, never a part of one, and a map of the old file keeps its content.
//! Nothing else in this crate writes files.

mod overwrite;

pub use overwrite::spare;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The ending of the name of a file that is being written. A process that is killed meanwhile leaves such a file
/// behind.
pub(crate) const PART: &str = ".part";

/// A file that is being written, but has not changed for this long, is considered abandoned.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Writes a file, and removes incomplete copies that killed writers of it have left. If the path is that of
/// something else than a plain file, such as a pipe, the bytes are written to that. This does not wait until the
/// bytes are on the disk: after a loss of power, the reader must detect a truncated file.
///
/// # Errors
/// The error of the file system. Then a plain file is unchanged.
pub fn write(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        let mut file = OpenOptions::new().write(true).open(path)?;
        return parts.iter().try_for_each(|bytes| file.write_all(bytes));
    }
    put(path, parts)
}

/// Returns whether two paths lead to the same existing file, through any links.
pub fn same(one: &Path, other: &Path) -> bool {
    let (Ok(a), Ok(b)) = (fs::metadata(one), fs::metadata(other)) else { return false };
    #[cfg(unix)]
    {
        let identity = |meta: &fs::Metadata| {
            use std::os::unix::fs::MetadataExt;
            (meta.dev(), meta.ino())
        };
        identity(&a) == identity(&b)
    }
    #[cfg(not(unix))]
    {
        let place = |path: &Path| path.canonicalize().ok();
        a.len() == b.len() && place(one).is_some() && place(one) == place(other)
    }
}

/// A file that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// The error of the file system.
    pub source: io::Error,
}

impl FileError {
    /// Returns a function that adds the path to an error of the file system, for use in `map_err`.
    pub(crate) fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self { path, source }
    }
}

/// Appends bytes to a file, which need not exist yet. Bytes that are there do not change. After a loss of power the
/// last bytes may be incomplete, which the reader must detect.
///
/// # Errors
/// The error of the file system.
pub fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).open(path)?.write_all(bytes)
}

/// Opens a file for reading; `None` if there is none. Something else than a plain file, such as a pipe, is an error
/// at once, so that nothing waits for it.
pub(crate) fn open(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = match options.open(path) {
        Err(error) if is_absent(&error) => return Ok(None),
        opened => opened?,
    };
    if file.metadata()?.is_file() { Ok(Some(file)) } else { Err(io::Error::other("it is not a plain file")) }
}

/// Returns whether an error means that the file does not exist.
pub fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns the content of a file; `None` if there is none. Something else than a plain file, such as a pipe, is an
/// error at once, so that nothing waits for it.
///
/// # Errors
/// The error of the file system.
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let Some(mut file) = open(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Writes a plain file, and removes incomplete copies that killed writers of it have left.
///
/// # Errors
/// The error of the file system. Then the file is unchanged.
pub(crate) fn put(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    sweep(path);
    replace(path, parts)
}

/// Replaces the content of a file by one that follows from the present content, while no other process does the same with a
/// file of this folder. There is no present content if there is no plain file. Creates the folder if it does not exist yet.
/// The lock is that of the file `lock` in the folder; the system releases it if the process is killed.
///
/// # Errors
/// The error of the file system. Then the file is unchanged.
pub fn update(path: &Path, next: impl FnOnce(Option<Vec<u8>>) -> Vec<u8>) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
    fs::create_dir_all(folder)?;
    let lock = OpenOptions::new().create(true).append(true).open(folder.join("lock"))?;
    lock.lock()?;
    let other = fs::metadata(path).is_ok_and(|there| !there.is_file());
    put(path, &[&next(if other { None } else { read(path)? })])
}

/// Writes a plain file, without looking for incomplete copies.
///
/// # Errors
/// The error of the file system. Then the file is unchanged.
pub(crate) fn replace(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}-{}{PART}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    let part = PathBuf::from(part);
    File::create(&part)
        .and_then(|mut file| parts.iter().try_for_each(|bytes| file.write_all(bytes)))
        .and_then(|()| fs::rename(&part, path))
        .inspect_err(|_| {
            let _ = fs::remove_file(&part);
        })
}

/// Returns whether an incomplete file is so old that its writer must have ended.
pub(crate) fn is_abandoned(there: &fs::Metadata) -> bool {
    there.is_file() && there.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED))
}

/// Removes incomplete copies that killed writers of a file have left beside it, as far as possible.
fn sweep(path: &Path) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return;
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let left = entry.file_name().to_str().is_some_and(|other| is_part_of(other, name));
        if left && entry.metadata().is_ok_and(|there| is_abandoned(&there)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns whether a name is that of a file while it is written: the file's name, a process number and a counter.
fn is_part_of(other: &str, name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let middle = other.strip_prefix(name).and_then(|rest| rest.strip_prefix('.')?.strip_suffix(PART));
    middle.and_then(|middle| middle.split_once('-')).is_some_and(|(a, b)| number(a) && number(b))
}
