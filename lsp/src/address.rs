//! Addresses of files: the protocol writes `file:///a%20b.ron` for the path `/a b.ron`.

use lsp_types::Uri;
use std::path::{Path, PathBuf};

/// Returns the path of a file's address; `None` for other addresses, such as that of a text without a file.
pub fn path(uri: &Uri) -> Option<PathBuf> {
    let encoded = uri.as_str().strip_prefix("file://")?;
    // A host may stand before the path.
    let encoded = &encoded[encoded.find('/')?..];
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = match (first, tail) {
            (b'%', [high, low, ..]) => digit(*high).zip(digit(*low)).map(|(high, low)| high * 16 + low),
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    let text = String::from_utf8(bytes).ok()?;
    // `/c:/folder` is the path `c:/folder`.
    let drive = text.as_bytes().get(2) == Some(&b':') && cfg!(windows);
    Some(PathBuf::from(if drive { &text[1..] } else { &text }))
}

/// Returns the address of a file; `None` if its path is not absolute or not text.
pub fn uri(path: &Path) -> Option<Uri> {
    let text = path.to_str().filter(|_| path.is_absolute())?.replace('\\', "/");
    let mut encoded = String::from(if text.starts_with('/') { "file://" } else { "file:///" });
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded.parse().ok()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
