//! The files of the cache: written whole or not at all, read as they are.
//!
//! A file is renamed into its place, so that a reader sees all of it or none of it, and no lock is left
//! behind by a process that was killed. Nothing waits for the disk: what a loss of power cuts short is
//! found by its checksum, and built again.

use crate::error::Error;
use crate::file::{self, PART};
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
    /// The machine code of generated kernels.
    Cubin,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Plan, Self::Weight, Self::Cubin];

    fn folder(self) -> &'static str {
        match self {
            Self::Plan => "plans",
            Self::Weight => "weights",
            Self::Cubin => "cubins",
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
        fs::create_dir_all(self.0.join(kind.folder()))?;
        file::write(&self.place(kind, name), parts)
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

    /// Whether a file is there and holds these bytes. It is read piece by piece: mapped, it would be in memory
    /// beside them.
    pub fn holds(&self, kind: Kind, name: &str, bytes: &[u8]) -> bool {
        let same = || {
            let mut file = File::open(self.place(kind, name))?;
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
    pub fn touch(&self, kind: Kind, name: &str) {
        let now = FileTimes::new().set_modified(SystemTime::now());
        // Times may be set by the owner of a file that is open for reading.
        let _ = File::open(self.place(kind, name)).and_then(|file| file.set_times(now));
    }

    /// Removes a file. One that is not there is no error: another process was faster.
    ///
    /// # Errors
    /// What the system says, with the file.
    pub fn remove(&self, kind: Kind, name: &str) -> Result<(), Error> {
        let path = self.place(kind, name);
        present(fs::remove_file(&path)).map(|_| ()).map_err(Error::io(path))
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
