//! The files of the cache: written whole or not at all, read as they are.
//!
//! A file is renamed into its place, so that a reader sees all of it or none of it, and no lock is left
//! behind by a process that was killed. Nothing waits for the disk: what a loss of power cuts short is
//! found by its checksum, and built again.

use crate::error::Error;
use crate::file::{self, PART, is_abandoned};
use memmap2::Mmap;
use std::fs::{self, File, FileTimes};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What a file is for, and the folder that it lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The plan of a model.
    Plan,
    /// The bytes of one constant.
    Weight,
    /// What a backend compiled for a device.
    Artifact,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Plan, Self::Weight, Self::Artifact];

    fn folder(self) -> &'static str {
        match self {
            Self::Plan => "plans",
            Self::Weight => "weights",
            Self::Artifact => "artifacts",
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
    /// Whether it was being written by a process that is gone.
    pub(super) abandoned: bool,
}

/// Bytes that are read at once to be compared.
const PIECE: usize = 1 << 20;

impl Listed {
    /// Whether it is being written, or was when its writer was killed.
    pub(super) fn is_part(&self) -> bool {
        self.name.ends_with(PART)
    }
}

/// A folder of plans and weights.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// The cache in this folder, which need not be there yet.
    pub(crate) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn place(&self, kind: Kind, name: &str) -> PathBuf {
        self.0.join(kind.folder()).join(name)
    }

    /// Writes a file, whole or not at all. What lies in its place and is no file gives way.
    ///
    /// # Errors
    /// What the system says, with the place; the file is then as it was.
    pub(crate) fn write(&self, kind: Kind, name: &str, parts: &[&[u8]]) -> Result<(), Error> {
        let (folder, path) = (self.0.join(kind.folder()), self.place(kind, name));
        fs::create_dir_all(&folder).map_err(Error::io(folder))?;
        if fs::symlink_metadata(&path).is_ok_and(|there| !there.is_file()) {
            self.remove(kind, name)?;
        }
        file::replace(&path, parts).map_err(Error::io(path))
    }

    fn open(&self, kind: Kind, name: &str) -> io::Result<Option<File>> {
        file::open(&self.place(kind, name))
    }

    /// Whether something is there that is no file.
    pub(super) fn is_foreign(&self, kind: Kind, name: &str) -> bool {
        fs::metadata(self.place(kind, name)).is_ok_and(|there| !there.is_file())
    }

    /// The content of a file; `None` where there is none.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn read(&self, kind: Kind, name: &str) -> io::Result<Option<Vec<u8>>> {
        file::read(&self.place(kind, name))
    }

    /// Maps a file; `None` where there is none, or an empty one.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn map(&self, kind: Kind, name: &str) -> io::Result<Option<Mmap>> {
        let Some(file) = self.open(kind, name)? else { return Ok(None) };
        if file.metadata()?.len() == 0 {
            return Ok(None);
        }
        // SAFETY: files of the cache are replaced and removed, never written to, so that the bytes stay
        // what they are as long as they are mapped. Another program that cuts one short meanwhile ends
        // this process, as with any mapped file; the command line says so.
        unsafe { Mmap::map(&file) }.map(Some)
    }

    /// Whether a file is there and holds these bytes. It is read piece by piece: mapped, it would be in memory
    /// beside them.
    pub(crate) fn holds(&self, kind: Kind, name: &str, bytes: &[u8]) -> bool {
        let same = || {
            let Some(mut file) = self.open(kind, name)? else { return Ok(false) };
            if file.metadata()?.len() != bytes.len() as u64 {
                return Ok(false);
            }
            let mut read = vec![0; PIECE.min(bytes.len())];
            for piece in bytes.chunks(PIECE) {
                file.read_exact(&mut read[..piece.len()])?;
                if read[..piece.len()] != *piece {
                    return Ok(false);
                }
            }
            Ok::<_, io::Error>(true)
        };
        same().unwrap_or(false)
    }

    /// Notes that a file was used now. Where that cannot be noted, it only looks older than it is.
    pub(crate) fn touch(&self, kind: Kind, name: &str) {
        let now = FileTimes::new().set_modified(SystemTime::now());
        // Times may be set by the owner of a file that is open for reading.
        if let Ok(Some(file)) = self.open(kind, name) {
            let _ = file.set_times(now);
        }
    }

    /// Removes a file, or what lies in its place: the names are the cache's own. One that is not there is no
    /// error: another process was faster.
    ///
    /// # Errors
    /// What the system says, with the file.
    pub fn remove(&self, kind: Kind, name: &str) -> Result<(), Error> {
        let path = self.place(kind, name);
        let folder = fs::symlink_metadata(&path).is_ok_and(|there| there.is_dir());
        let removed = if folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        present(removed).map(|_| ()).map_err(Error::io(path))
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

    /// The files of a kind, those that are being written among them, in no order, and what lies in the place of
    /// one. Files of other names are somebody else's.
    pub(super) fn files(&self, kind: Kind) -> impl Iterator<Item = Listed> + use<> {
        fs::read_dir(self.0.join(kind.folder())).into_iter().flatten().flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok().filter(|name| is_ours(name))?;
            let meta = entry.metadata().ok()?;
            let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let bytes = if meta.is_file() { meta.len() } else { 0 };
            let abandoned = name.ends_with(PART) && is_abandoned(&meta);
            Some(Listed { name, bytes, used, abandoned })
        })
    }

    /// What killed writers of the tables beside plans and weights have left.
    pub(super) fn abandoned_tables(&self) -> impl Iterator<Item = PathBuf> + use<> {
        fs::read_dir(&self.0).into_iter().flatten().flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let ours = TABLES.iter().any(|start| name.starts_with(start)) && name.ends_with(PART);
            (ours && entry.metadata().is_ok_and(|there| is_abandoned(&there))).then(|| entry.path())
        })
    }
}

/// How the names of tables of what was measured begin.
const TABLES: [&str; 4] = ["machine-", "seating-", "times-", "libraries"];

/// Whether a file is named by a digest, and what follows it while it is being written.
fn is_ours(name: &str) -> bool {
    let digits = name.bytes().take_while(u8::is_ascii_hexdigit).count();
    digits == 64 && (name.len() == 64 || name.ends_with(PART))
}

fn present<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if file::is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
