//! The file of a model. A model in memory gets a file of its own: plans in the cache go by files, and weights are read
//! from a mapped file only when they are needed.

use crate::status::Failure;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The file of a model.
pub struct ModelFile {
    path: PathBuf,
    /// The folder that was made for the file, and is removed with this value.
    own: Option<PathBuf>,
}

impl ModelFile {
    /// Names a file of the caller.
    pub fn at(path: PathBuf) -> Self {
        Self { path, own: None }
    }

    /// Writes a model to a file in a folder that only this user can read.
    pub fn of(bytes: &[u8]) -> Result<Self, Failure> {
        let folder = folder().map_err(refused)?;
        let file = Self { path: folder.join("model.onnx"), own: Some(folder) };
        ovolo::file::write(&file.path, &[bytes]).map_err(refused)?;
        Ok(file)
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a failure without the path of a file that the caller does not know.
    pub fn named(&self, failure: Failure) -> Failure {
        match &self.own {
            None => failure,
            Some(_) => failure.reworded(&self.path.display().to_string(), "model in memory"),
        }
    }
}

impl Drop for ModelFile {
    fn drop(&mut self) {
        if let Some(folder) = &self.own {
            // What cannot be removed is left to the system, which empties its folder for such files.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

fn refused(why: std::io::Error) -> Failure {
    let folder = std::env::temp_dir();
    Failure::other(format!(
        "the model in memory cannot be written to a file in `{}`: {why}; name another folder in the environment \
         variable TMPDIR, or open the model from a file",
        folder.display()
    ))
}

/// Makes a folder with a new name.
fn folder() -> std::io::Result<PathBuf> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ovolo-ort-{}-{number}", std::process::id()));
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        match builder.create(&path) {
            // A process with the same number may have left it.
            Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path),
        }
    }
}
