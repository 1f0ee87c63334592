//! Files, written whole or not at all.
//!
//! A file is written beside its place, under its own name with [`PART`] at the end, and renamed into it: a
//! reader sees the old one or the new one, never half of one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The ending of a file that is being written. A process that is killed meanwhile leaves it behind.
pub const PART: &str = ".part";

/// Writes a file. What is there and is no plain file, such as a pipe, is written to. Nothing waits for the
/// disk: what a loss of power cuts short is for its reader to find out.
///
/// # Errors
/// What the system says; a plain file is then as it was.
pub fn write(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        let mut file = OpenOptions::new().write(true).open(path)?;
        return parts.iter().try_for_each(|bytes| file.write_all(bytes));
    }
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
}
