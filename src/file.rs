//! Files, written whole or not at all.
//!
//! A file is written beside its place, under its own name with [`PART`] at the end, and renamed into it: a
//! reader sees the old one or the new one, never half of one, and what is mapped stays what it was. Nothing
//! else in this crate writes files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The ending of a file that is being written. A process that is killed meanwhile leaves it behind.
pub const PART: &str = ".part";

/// After so long without a change a file that was being written will never be finished.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Writes a file, and removes what writers of it that were killed have left. What is there and is no plain
/// file, such as a pipe, is written to. Nothing waits for the disk: what a loss of power cuts short is for its
/// reader to find out.
///
/// # Errors
/// What the system says; a plain file is then as it was.
pub fn write(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        let mut file = OpenOptions::new().write(true).open(path)?;
        return parts.iter().try_for_each(|bytes| file.write_all(bytes));
    }
    put(path, parts)
}

/// Whether two paths lead to one file that is there, by whatever links.
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
    /// What the system says.
    pub source: io::Error,
}

impl FileError {
    /// Wraps an error of the file system with the path that it is about; made for `map_err`.
    pub(crate) fn of(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self { path, source }
    }
}

/// A file that is to be written is one of those that are read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it would overwrite {}, which is read", input.display())]
pub struct Overwrites {
    /// The file that is read.
    pub input: PathBuf,
}

/// Refuses a file to be written that is one of those that were read.
///
/// # Errors
/// Which of them it is.
pub fn spare<'a>(file: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> Result<(), Overwrites> {
    match inputs.into_iter().find(|input| same(file, input)) {
        Some(input) => Err(Overwrites { input: input.to_owned() }),
        None => Ok(()),
    }
}

/// Adds to the end of a file, which need not be there: bytes that are there stay what they are. A loss of power
/// may leave the last of them in part, which their reader finds out.
///
/// # Errors
/// What the system says.
pub fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).open(path)?.write_all(bytes)
}

/// Opens a file for reading; `None` where there is none. What is there and is no plain file, such as a pipe, is
/// an error, and is not waited for.
pub(crate) fn open(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file = match options.open(path) {
        Err(error) if is_absent(&error) => return Ok(None),
        opened => opened?,
    };
    if file.metadata()?.is_file() { Ok(Some(file)) } else { Err(io::Error::other("it is no plain file")) }
}

/// Whether an error says that there is no such file.
pub fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The content of a file; `None` where there is none. What is there and is no plain file, such as a pipe, is an error,
/// and is not waited for.
///
/// # Errors
/// What the system says.
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let Some(mut file) = open(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Writes a plain file, and removes what killed writers of it have left.
///
/// # Errors
/// What the system says; the file is then as it was.
pub(crate) fn put(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    sweep(path);
    replace(path, parts)
}

/// Writes a plain file, and the folder that it lies in where that does not exist yet.
///
/// # Errors
/// What the system says; the file is then as it was.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
    fs::create_dir_all(folder)?;
    put(path, &[bytes])
}

/// Writes a plain file, and looks at nothing beside it.
///
/// # Errors
/// What the system says; the file is then as it was.
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

/// Whether a file that was being written was left behind by a writer that is gone.
pub(crate) fn is_abandoned(there: &fs::Metadata) -> bool {
    there.is_file() && there.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED))
}

/// Removes what killed writers of a file have left beside it. What cannot be removed stays.
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

/// Whether a name is that of a file while it is being written: its own, a process, a number.
fn is_part_of(other: &str, name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let middle = other.strip_prefix(name).and_then(|rest| rest.strip_prefix('.')?.strip_suffix(PART));
    middle.and_then(|middle| middle.split_once('-')).is_some_and(|(a, b)| number(a) && number(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let folder = std::env::temp_dir().join(format!("ovolo-file-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("one");
        write(&path, &[b"old"]).expect("it is written");
        write(&path, &[b"n", b"", b"ew"]).expect("it is replaced");
        assert_eq!(fs::read(&path).expect("it is read"), b"new");
        assert!(write(&folder.join("no/such/folder"), &[b"x"]).is_err());
        assert!(write(&folder, &[b"x"]).is_err(), "a folder is no file");
        assert_eq!(fs::read_dir(&folder).expect("it is listed").count(), 1);
        fs::remove_dir_all(&folder).expect("it is removed");
    }

    #[test]
    #[cfg(unix)]
    fn a_file_is_the_same_by_any_link() {
        let folder = std::env::temp_dir().join(format!("ovolo-same-{}", std::process::id()));
        fs::create_dir_all(folder.join("in")).expect("a folder");
        let at = |name: &str| folder.join(name);
        fs::write(at("one"), "text").expect("it is written");
        fs::write(at("two"), "text").expect("it is written");
        fs::hard_link(at("one"), at("hard")).expect("it is linked");
        std::os::unix::fs::symlink(at("one"), at("soft")).expect("it is linked");
        for name in ["one", "hard", "soft", "in/../one"] {
            assert!(same(&at("one"), &at(name)), "{name}");
            assert!(spare(&at(name), [at("two").as_path(), at("one").as_path()]).is_err(), "{name}");
        }
        assert!(!same(&at("one"), &at("two")) && !same(&at("three"), &at("three")));
        assert_eq!(spare(&at("two"), [at("one").as_path()]), Ok(()));
        fs::remove_dir_all(&folder).expect("it is removed");
    }

    #[test]
    fn what_killed_writers_left_is_swept_once_it_is_old() {
        let folder = std::env::temp_dir().join(format!("ovolo-sweep-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let old = std::time::SystemTime::now() - 2 * ABANDONED;
        let names = ["one.12-0.part", "one.12-x.part", "one.1-2.3.part", "two.12-0.part", "one.13-0.part"];
        for name in names {
            let file = File::create(folder.join(name)).expect("it is made");
            if name != "one.13-0.part" {
                file.set_modified(old).expect("it looks old");
            }
        }
        write(&folder.join("one"), &[b"new"]).expect("it is written");
        let left = |name: &str| folder.join(name).exists();
        assert_eq!(names.map(left), [false, true, true, true, true]);
        fs::remove_dir_all(&folder).expect("it is removed");
    }
}
