//! Tests of `src/error.rs`.

use ovolo::Error;
use ovolo::file::FileError;

#[test]
fn errors_of_files_name_the_file() {
    let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
    let error = Error::io("a/b.npy")(missing);
    assert!(error.to_string().starts_with("a/b.npy: "));
    assert!(matches!(error, Error::File(FileError { path, .. }) if path == std::path::Path::new("a/b.npy")));
}
