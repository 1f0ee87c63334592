//! Amounts as people write and read them.

/// Bytes from a text such as `500M`, `8G` or `1000000`; the letters stand for powers of 1024.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(format!("`{text}` is no number of bytes, such as `500M` or `8G`")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is no number of bytes, such as `8G`"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("`{text}` is more than there can be"))
}

/// Bytes for people.
pub(super) fn size(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss)]
    let number = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", number / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", number / 1e6),
        _ => format!("{:.1} GB", number / 1e9),
    }
}

/// So many of something, in words.
pub(super) fn count(number: usize, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}
