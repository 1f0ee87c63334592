//! Machine code of generated kernels, under the text, the options, the architecture and the compiler's
//! version: what any of them changes is compiled anew, and nothing else is.

use super::folder::{Folder, Kind};
use super::{Digest, Miss};
use crate::backend::cuda::nvrtc::{self, Architecture, Compiler, Cubin, OPTIONS, Source};

/// The cubins of a folder.
pub struct Cubins<'a> {
    folder: &'a Folder,
}

/// A cubin that is there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The machine code.
    pub cubin: Cubin,
    /// Whether it was compiled just now.
    pub fresh: bool,
}

/// Bytes of the digest that a file begins with.
const DIGEST: usize = 64;

impl<'a> Cubins<'a> {
    /// In a folder of the cache.
    pub fn new(folder: &'a Folder) -> Self {
        Self { folder }
    }

    /// The name under which a module is kept.
    pub fn name(version: &str, source: &str, architecture: Architecture) -> String {
        let architecture = architecture.to_string();
        let texts = [version, architecture.as_str()].into_iter().chain(OPTIONS.iter().copied());
        Digest::texts(texts.chain([source])).to_string()
    }

    /// The machine code of a module: from the cache, or compiled and kept. A file that is damaged is made
    /// again; a cache that cannot be written to is as good as none.
    ///
    /// # Errors
    /// What the compiler says.
    pub fn get(&self, compiler: &Compiler, source: &str, architecture: Architecture) -> Result<Made, String> {
        let name = Self::name(&compiler.version(), source, architecture);
        let kept = self.folder.read(Kind::Cubin, &name).ok().flatten();
        if let Some(cubin) = kept.and_then(|bytes| decode(&bytes)) {
            self.folder.touch(Kind::Cubin, &name);
            return Ok(Made { cubin, fresh: false });
        }
        let cubin = compiler.compile(source, architecture)?;
        let body = body(&cubin);
        let digest = Digest::of(&body).to_string();
        let _ = self.folder.write(Kind::Cubin, &name, &[digest.as_bytes(), &body]);
        Ok(Made { cubin, fresh: true })
    }
}

impl Source for Cubins<'_> {
    fn get(&self, source: &str, architecture: Architecture) -> Result<Cubin, String> {
        Ok(Cubins::get(self, nvrtc::found()?, source, architecture)?.cubin)
    }
}

/// Whether a module is what was written, to the last bit.
///
/// # Errors
/// Why not, or why it cannot be read.
pub(super) fn check(folder: &Folder, name: &str) -> Result<(), Miss> {
    let bytes = folder.read(Kind::Cubin, name).map_err(|error| Miss::Unreadable(error.to_string()))?;
    match bytes.and_then(|bytes| decode(&bytes)) {
        Some(_) => Ok(()),
        None => Err(Miss::Damaged { why: "its checksum is wrong".to_owned(), weights: Vec::new() }),
    }
}

/// The length of the log, the log and the code.
fn body(cubin: &Cubin) -> Vec<u8> {
    let mut body = (cubin.log.len() as u64).to_le_bytes().to_vec();
    body.extend(cubin.log.as_bytes());
    body.extend(&cubin.code);
    body
}

/// What was kept, if each bit of it is as it was.
fn decode(bytes: &[u8]) -> Option<Cubin> {
    let (digest, body) = bytes.split_at_checked(DIGEST)?;
    if Digest::of(body).to_string().as_bytes() != digest {
        return None;
    }
    let (length, rest) = body.split_at_checked(8)?;
    let length = usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?;
    let (log, code) = rest.split_at_checked(length)?;
    Some(Cubin { log: std::str::from_utf8(log).ok()?.to_owned(), code: code.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_depends_on_each_part_and_what_is_damaged_is_not_read() {
        let name = |version, source, architecture| Cubins::name(version, source, architecture);
        let one = name("12.9", "k", Architecture(9, 0));
        assert_eq!(one, name("12.9", "k", Architecture(9, 0)));
        assert_eq!(one.len(), DIGEST);
        for other in [
            name("12.8", "k", Architecture(9, 0)),
            name("12.9", "l", Architecture(9, 0)),
            name("12.9", "k", Architecture(8, 0)),
        ] {
            assert_ne!(one, other);
        }
        let cubin = Cubin { code: vec![1, 2, 3], log: "said".into() };
        let body = body(&cubin);
        let mut bytes = Digest::of(&body).to_string().into_bytes();
        bytes.extend(&body);
        assert_eq!(decode(&bytes), Some(cubin));
        for at in [0, DIGEST, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged), None, "byte {at}");
        }
        assert_eq!(decode(&bytes[..10]), None);
    }
}
