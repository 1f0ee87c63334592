//! The files of the cache: written whole or not at all, read as they are.
//!
//! A file is written beside its place and renamed into it, so that a reader sees all of it or none of
//! it, and no lock is left behind by a process that was killed. Nothing waits for the disk: what a loss
//! of power cuts short is found by its checksum, and built again.

use memmap2::Mmap;
use std::fs::{self, File, FileTimes};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

/// What a file is for, and the folder that it lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The plan of a model.
    Plan,
    /// The bytes of one constant.
    Weight,
}

impl Kind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Plan, Self::Weight];

    fn folder(self) -> &'static str {
        match self {
            Self::Plan => "plans",
            Self::Weight => "weights",
        }
    }
}

/// A file that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name: hexadecimal digits.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// When it was last used.
    pub used: SystemTime,
}

/// After so long a file that was being written will never be finished.
const ABANDONED: Duration = Duration::from_secs(3600);
/// The ending of a file that is being written.
const PART: &str = ".part";

/// A folder of plans and weights.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// The cache in this folder, which need not be there yet.
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn place(&self, kind: Kind, name: &str) -> PathBuf {
        self.0.join(kind.folder()).join(name)
    }

    /// Writes a file, whole or not at all.
    ///
    /// # Errors
    /// What the system says; the file is then as it was.
    pub fn write(&self, kind: Kind, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        write(&self.place(kind, name), parts)
    }

    /// The content of a file; `None` where there is none.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(&self, kind: Kind, name: &str) -> io::Result<Option<Vec<u8>>> {
        let path = self.place(kind, name);
        if !path.is_file() {
            return Ok(None);
        }
        present(fs::read(path))
    }

    /// Maps a file; `None` where there is none, or an empty one.
    ///
    /// # Errors
    /// What the system says.
    pub fn map(&self, kind: Kind, name: &str) -> io::Result<Option<Mmap>> {
        let path = self.place(kind, name);
        if !path.is_file() {
            return Ok(None);
        }
        let Some(file) = present(File::open(path))? else { return Ok(None) };
        if file.metadata()?.len() == 0 {
            return Ok(None);
        }
        // SAFETY: files of the cache are replaced and removed, never written to, so that the bytes stay
        // what they are as long as they are mapped. Another program that cuts one short meanwhile ends
        // this process, as with any mapped file.
        unsafe { Mmap::map(&file) }.map(Some)
    }

    /// Bytes of a file, if it is there.
    pub fn bytes(&self, kind: Kind, name: &str) -> Option<u64> {
        fs::metadata(self.place(kind, name)).ok().filter(fs::Metadata::is_file).map(|meta| meta.len())
    }

    /// Notes that a file was used now. Where that cannot be noted, it only looks older than it is.
    pub fn touch(&self, kind: Kind, name: &str) {
        let now = FileTimes::new().set_modified(SystemTime::now());
        // Times may be set by the owner of a file that is open for reading.
        let _ = File::open(self.place(kind, name)).and_then(|file| file.set_times(now));
    }

    /// Removes a file. One that is not there is no error: another process was faster.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove(&self, kind: Kind, name: &str) -> io::Result<()> {
        present(fs::remove_file(self.place(kind, name))).map(|_| ())
    }

    /// The files of a kind, by name.
    pub fn list(&self, kind: Kind) -> Vec<Listed> {
        let mut found: Vec<Listed> = self
            .files(kind)
            .filter(|listed| listed.name.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }

    /// Removes what killed processes were writing; says how many files.
    pub fn sweep(&self) -> usize {
        let mut removed = 0;
        for kind in Kind::ALL {
            for listed in self.files(kind).filter(|listed| listed.name.ends_with(PART)) {
                let old = listed.used.elapsed().is_ok_and(|age| age > ABANDONED);
                removed += usize::from(old && self.remove(kind, &listed.name).is_ok());
            }
        }
        removed
    }

    /// The files of a kind, those that are being written among them, in no order. Files of other names are
    /// somebody else's.
    pub(super) fn files(&self, kind: Kind) -> impl Iterator<Item = Listed> + use<> {
        fs::read_dir(self.0.join(kind.folder())).into_iter().flatten().flatten().filter_map(|entry| {
            let meta = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let name = entry.file_name().into_string().ok().filter(|name| is_ours(name))?;
            Some(Listed { name, bytes: meta.len(), used })
        })
    }
}

/// Whether a file is named by a digest, and what follows it while it is being written.
fn is_ours(name: &str) -> bool {
    let digits = name.bytes().take_while(u8::is_ascii_hexdigit).count();
    digits == 64 && (name.len() == 64 || name.ends_with(PART))
}

fn present<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file beside its place and renames it into it.
///
/// # Errors
/// What the system says; nothing is left behind.
pub(super) fn write(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}-{count}{PART}", std::process::id()));
    let part = PathBuf::from(part);
    let written = File::create(&part)
        .and_then(|mut file| parts.iter().try_for_each(|bytes| file.write_all(bytes)))
        .and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}
