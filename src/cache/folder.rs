//! The files of the cache, each of which is written completely or not at all.
//!
//! A file is written under another name and then renamed, so that a reader sees all of it or nothing, and a process
//! that is killed leaves no lock behind. Nothing waits until bytes are on the disk: if a loss of power truncates a
//! file, its checksum shows this, and the file is made again.

use crate::error::Error;
use crate::file::{self, PART, is_abandoned};
use memmap2::Mmap;
use std::fs::{self, File, FileTimes};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The kinds of files, each with a folder of its own.
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
    /// All kinds.
    pub(crate) const ALL: [Self; 3] = [Self::Plan, Self::Weight, Self::Artifact];

    fn folder(self) -> &'static str {
        match self {
            Self::Plan => "plans",
            Self::Weight => "weights",
            Self::Artifact => "artifacts",
        }
    }
}

/// A file that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name: hexadecimal digits.
    pub name: String,
    /// The length, in bytes.
    pub bytes: u64,
    /// When it was last used.
    pub used: SystemTime,
    /// Whether its writer was killed before the file was complete.
    pub(super) abandoned: bool,
}

/// The number of bytes that are read at one time for a comparison.
const PIECE: usize = 1 << 20;

impl Listed {
    /// Returns whether the file is being written, or was when its writer was killed.
    pub(super) fn is_part(&self) -> bool {
        self.name.ends_with(PART)
    }
}

/// A folder of plans and weights.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Returns the cache folder at this path, which need not exist yet.
    pub(crate) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn place(&self, kind: Kind, name: &str) -> PathBuf {
        self.0.join(kind.folder()).join(name)
    }

    /// Writes a file completely or not at all. If something else than a file has its path, that is removed.
    ///
    /// # Errors
    /// The error of the file system, with the path. Then the file is unchanged.
    pub(crate) fn write(&self, kind: Kind, name: &str, parts: &[&[u8]]) -> Result<(), Error> {
        let (folder, path) = (self.0.join(kind.folder()), self.place(kind, name));
        fs::create_dir_all(&folder).map_err(Error::io(folder))?;
        if fs::symlink_metadata(&path).is_ok_and(|there| !there.is_file()) {
            self.remove(kind, name)?;
        }
        file::replace(&path, parts).map_err(Error::io(path))
    }

    pub(super) fn open(&self, kind: Kind, name: &str) -> io::Result<Option<File>> {
        file::open(&self.place(kind, name))
    }

    /// Returns whether the path of a file is taken by something else than a file.
    pub(super) fn is_foreign(&self, kind: Kind, name: &str) -> bool {
        fs::metadata(self.place(kind, name)).is_ok_and(|there| !there.is_file())
    }

    /// Returns the content of a file; `None` if there is no such file.
    ///
    /// # Errors
    /// The error of the file system.
    pub(crate) fn read(&self, kind: Kind, name: &str) -> io::Result<Option<Vec<u8>>> {
        file::read(&self.place(kind, name))
    }

    /// Maps a file; `None` if there is none, or if it is empty.
    ///
    /// # Errors
    /// The error of the file system.
    pub(crate) fn map(&self, kind: Kind, name: &str) -> io::Result<Option<Mmap>> {
        let Some(file) = self.open(kind, name)? else { return Ok(None) };
        if file.metadata()?.len() == 0 {
            return Ok(None);
        }
        // SAFETY: files of the cache are replaced and removed, never written to, so that the bytes stay what they
        // are as long as they are mapped. If another program truncates one meanwhile, this process ends, as with
        // any mapped file; the help of the command line says so.
        unsafe { Mmap::map(&file) }.map(Some)
    }

    /// Returns whether a file exists and holds these bytes. It is read part by part, since mapping would keep it in
    /// memory beside them.
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

    /// Returns whether a file of this length exists.
    pub(super) fn has(&self, kind: Kind, name: &str, length: usize) -> bool {
        fs::metadata(self.place(kind, name))
            .is_ok_and(|there| there.is_file() && there.len() == length as u64)
    }

    /// Sets the time of last use of a file to now. If that fails, the file only looks older than it is.
    pub(crate) fn touch(&self, kind: Kind, name: &str) {
        let now = FileTimes::new().set_modified(SystemTime::now());
        // The owner of a file may set its times even if it is open for reading only.
        if let Ok(Some(file)) = self.open(kind, name) {
            let _ = file.set_times(now);
        }
    }

    /// Removes a file, or whatever else has its path, since these names belong to the cache. It is no error if the
    /// file is absent: another process may have removed it.
    ///
    /// # Errors
    /// The error of the file system, with the path.
    pub fn remove(&self, kind: Kind, name: &str) -> Result<(), Error> {
        let path = self.place(kind, name);
        let folder = fs::symlink_metadata(&path).is_ok_and(|there| there.is_dir());
        let removed = if folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        present(removed).map(|_| ()).map_err(Error::io(path))
    }

    /// Returns the files of a kind, sorted by name.
    pub fn list(&self, kind: Kind) -> Vec<Listed> {
        let mut found: Vec<Listed> = self
            .files(kind)
            .filter(|listed| listed.name.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }

    /// Iterates over the files of a kind in no particular order, including those that are being written and
    /// anything else that has the path of one. Files with other names do not belong to the cache, and are skipped.
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

    /// Iterates over incomplete files that killed writers of the measured tables have left.
    pub(super) fn abandoned_tables(&self) -> impl Iterator<Item = PathBuf> + use<> {
        fs::read_dir(&self.0).into_iter().flatten().flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let ours = TABLES.iter().any(|start| name.starts_with(start)) && name.ends_with(PART);
            (ours && entry.metadata().is_ok_and(|there| is_abandoned(&there))).then(|| entry.path())
        })
    }
}

/// The beginnings of the names of measured tables.
const TABLES: [&str; 4] = ["machine-", "placement-", "times-", "libraries"];

/// Returns whether a name is a digest, possibly with the ending of a file that is being written.
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
