//! Amounts of bytes as people write and read them, in one form for every option, variable and message.
//!
//! The units are kB, MB, GB and TB (powers of 1000), and KiB, MiB, GiB and TiB (powers of 1024); the B may be
//! omitted. Printed amounts use powers of 1024.

use bytesize::ByteSize;
use ovolo::tensor::{Device, NoDevice};
use std::time::Duration;

/// Parses a number of bytes such as `1000000`, `500MB` or `1.5GiB`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let size = text.trim().parse::<ByteSize>().ok().map(|size| size.as_u64());
    size.filter(|size| *size < u64::MAX).ok_or_else(|| {
        format!("`{text}` is not a number of bytes: give one such as 1000000, 500MB (powers of 1000) or 1.5GiB (powers of 1024)")
    })
}

/// Parses a number of bytes of this process's memory.
pub(super) fn memory(text: &str) -> Result<usize, String> {
    let size = usize::try_from(bytes(text)?).ok().filter(|size| *size < 1 << 60);
    size.ok_or_else(|| format!("`{text}` is more memory than a process can have"))
}

/// Parses bytes of a device's memory: the host's, or those of a named device as in `cuda:0=1GiB`.
pub(super) fn of_device(text: &str) -> Result<(Device, usize), String> {
    match text.split_once('=') {
        Some((device, bytes)) => {
            let device = device.trim().parse().map_err(|error: NoDevice| error.to_string())?;
            Ok((device, memory(bytes)?))
        }
        None => Ok((Device::Host, memory(text)?)),
    }
}

/// Parses a time such as `10s`, `500ms` or `2min`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a time: give one such as 10s, 500ms or 2min");
    let text = text.trim();
    let units = [("ms", 1e-3), ("min", 60.0), ("s", 1.0)];
    let (number, unit) =
        units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit))).ok_or_else(wrong)?;
    let seconds = number.trim_end().parse::<f64>().map_err(|_| wrong())? * unit;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    if duration.is_zero() { Err(wrong()) } else { Ok(duration) }
}

/// Formats bytes for people.
pub(super) fn size(bytes: u64) -> String {
    ByteSize(bytes).display().iec().to_string()
}

/// Makes a number printable: zero has no sign.
pub(super) fn positive(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value }
}

/// Formats a count with its noun.
pub(super) fn count(number: usize, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

/// Reads `NAME=N,N,…`: a dimension and some sizes.
pub(super) fn sizes(text: &str) -> Result<(String, Vec<usize>), String> {
    let wrong = || format!("`{text}` is not NAME=N,N,… with each N at least 1");
    let (name, list) = text.split_once('=').ok_or_else(wrong)?;
    let one = |size: &str| size.parse().ok().filter(|size: &usize| *size > 0).ok_or_else(wrong);
    Ok((name.to_owned(), list.split(',').map(one).collect::<Result<_, _>>()?))
}

/// Returns a number with what it counts, such as `1 rule` and `2 rules`.
pub(super) fn of(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
