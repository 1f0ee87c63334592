//! What backends compile for a device. The key holds everything that an artifact depends on, so an artifact is
//! compiled again if and only if one of these texts has changed.

use super::folder::{Folder, Kind};
use super::{Digest, Miss};
use crate::backend::Artifacts;

/// The artifacts that a folder of the cache keeps.
pub struct KeptArtifacts<'a> {
    folder: &'a Folder,
}

/// Bytes of the digest that a file begins with.
const DIGEST: usize = 64;

impl<'a> KeptArtifacts<'a> {
    /// Makes the store in a folder of the cache.
    pub fn new(folder: &'a Folder) -> Self {
        Self { folder }
    }
}

impl Artifacts for KeptArtifacts<'_> {
    fn load(&self, key: &[&str]) -> Option<Vec<u8>> {
        let name = name(key);
        let file = self.folder.read(Kind::Artifact, &name).ok().flatten()?;
        let bytes = decode(&file)?.to_vec();
        self.folder.touch(Kind::Artifact, &name);
        Some(bytes)
    }

    fn store(&self, key: &[&str], bytes: &[u8]) {
        let digest = Digest::new(bytes).to_string();
        // Without a writable cache, the artifact is compiled again next time.
        let _ = self.folder.write(Kind::Artifact, &name(key), &[digest.as_bytes(), bytes]);
    }
}

fn name(key: &[&str]) -> String {
    Digest::texts(key.iter().copied()).to_string()
}

/// Checks every bit of an artifact.
///
/// # Errors
/// Why not, or why it cannot be read.
pub(super) fn check(folder: &Folder, name: &str) -> Result<(), Miss> {
    let bytes = folder.read(Kind::Artifact, name).map_err(|error| Miss::Unreadable(error.to_string()))?;
    match bytes.as_deref().and_then(decode) {
        Some(_) => Ok(()),
        None => Err(Miss::Damaged { why: "its checksum is wrong".to_owned(), weights: Vec::new() }),
    }
}

/// Returns the bytes that were stored, if their digest is right.
fn decode(file: &[u8]) -> Option<&[u8]> {
    let (digest, body) = file.split_at_checked(DIGEST)?;
    (Digest::new(body).to_string().as_bytes() == digest).then_some(body)
}
