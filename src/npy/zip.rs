//! The part of the zip format that `.npz` files need: members that are stored without compression.
//!
//! Follows PKWARE's APPNOTE 6.3: the central directory at the end says where the members are. Every
//! offset is checked against the file, every member against its checksum. Refuses compression,
//! encryption, archives in parts and the 64-bit extension (more than 4 GiB or 65535 members).

/// The signature of a local header, and its length without name and extra field.
pub(super) const LOCAL: (u32, usize) = (0x0403_4b50, 30);
/// The signature of a central header, and its length without name, extra field and comment.
pub(super) const CENTRAL: (u32, usize) = (0x0201_4b50, 46);
/// The signature of the end record, and its length without its comment.
const END: (u32, usize) = (0x0605_4b50, 22);
/// Version 2.0, the lowest one that supports stored members in folders.
const VERSION: u16 = 20;
/// The first of January 1980, which is the earliest day of the format. A fixed date makes equal arrays give equal
/// files.
const DATE: u16 = 1 << 5 | 1;
/// The flag that says that a name is in UTF-8.
const UTF8: u16 = 1 << 11;

/// Returns the names and contents of all members, in the order of the central directory.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<(String, &[u8])>, String> {
    let end = find_end(bytes).ok_or("not an `.npz` archive: it has no directory at its end")?;
    let count = u16_at(bytes, end + 10)?;
    let mut at = u32_at(bytes, end + 16)? as usize;
    if count == u16::MAX || at == u32::MAX as usize {
        return Err("archives of more than 4 GiB or 65535 arrays are not supported; save several".to_owned());
    }
    if u16_at(bytes, end + 4)? != 0 || u16_at(bytes, end + 8)? != count {
        return Err("archives in several parts are not supported".to_owned());
    }
    let mut members = Vec::new();
    for _ in 0..count {
        if u32_at(bytes, at)? != CENTRAL.0 {
            return Err("the archive's directory is damaged".to_owned());
        }
        let lengths =
            [u16_at(bytes, at + 28)?, u16_at(bytes, at + 30)?, u16_at(bytes, at + 32)?].map(usize::from);
        let name = part(bytes, at + CENTRAL.1, lengths[0])?;
        let name = String::from_utf8_lossy(name).into_owned();
        let content = member(bytes, at).map_err(|message| format!("member `{name}`: {message}"))?;
        members.push((name, content));
        at += CENTRAL.1 + lengths.iter().sum::<usize>();
    }
    Ok(members)
}

/// Returns the content of the member whose central header is at `at`.
fn member(bytes: &[u8], at: usize) -> Result<&[u8], String> {
    if u16_at(bytes, at + 8)? & 1 != 0 {
        return Err("it is encrypted".to_owned());
    }
    match u16_at(bytes, at + 10)? {
        0 => {}
        method => {
            return Err(format!(
                "it is compressed (method {method}), which is not supported; save it with `numpy.savez`, not \
                 `numpy.savez_compressed`"
            ));
        }
    }
    let (stored, size) = (u32_at(bytes, at + 20)?, u32_at(bytes, at + 24)?);
    let local = u32_at(bytes, at + 42)?;
    if [stored, size, local].contains(&u32::MAX) {
        return Err("it is larger than 4 GiB, which is not supported".to_owned());
    }
    let local = local as usize;
    if stored != size || u32_at(bytes, local)? != LOCAL.0 {
        return Err("its header is damaged".to_owned());
    }
    let skip = usize::from(u16_at(bytes, local + 26)?) + usize::from(u16_at(bytes, local + 28)?);
    let content = part(bytes, local + LOCAL.1 + skip, size as usize)?;
    if crc32(content) != u32_at(bytes, at + 16)? {
        return Err("its checksum is wrong: the file is damaged".to_owned());
    }
    Ok(content)
}

/// Returns where the end record begins: the last place at which its comment would end with the file.
fn find_end(bytes: &[u8]) -> Option<usize> {
    let last = bytes.len().checked_sub(END.1)?;
    let first = last.saturating_sub(usize::from(u16::MAX));
    (first..=last).rev().find(|&at| {
        u32_at(bytes, at) == Ok(END.0)
            && u16_at(bytes, at + 20).is_ok_and(|comment| at + END.1 + usize::from(comment) == bytes.len())
    })
}

fn part(bytes: &[u8], at: usize, length: usize) -> Result<&[u8], String> {
    at.checked_add(length)
        .and_then(|end| bytes.get(at..end))
        .ok_or_else(|| "the archive ends too early".to_owned())
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, String> {
    part(bytes, at, 2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, String> {
    part(bytes, at, 4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// Makes an archive with these members, without compression.
pub(super) fn write(members: &[(String, Vec<u8>)]) -> Result<Vec<u8>, String> {
    const TOO_LARGE: &str = "the arrays have more than 4 GiB or are more than 65534; write several archives";
    // The largest number of a field means that the 64-bit extension is used, so sizes must be below it.
    let narrow = |value: usize| u32::try_from(value).ok().filter(|&value| value != u32::MAX).ok_or(TOO_LARGE);
    let mut bytes = Vec::new();
    let mut directory = Vec::new();
    for (name, content) in members {
        let offset = narrow(bytes.len())?;
        let size = narrow(content.len())?;
        let name_length = u16::try_from(name.len()).map_err(|_| format!("the name `{name}` is too long"))?;
        let flags = if name.is_ascii() { 0 } else { UTF8 };
        // The local and the central header share these fields: version, flags, method, time, date, checksum, both
        // sizes, and the lengths of the name and of the extra field.
        let mut shared = Vec::new();
        for value in [VERSION, flags, 0, 0, DATE] {
            shared.extend_from_slice(&value.to_le_bytes());
        }
        for value in [crc32(content), size, size] {
            shared.extend_from_slice(&value.to_le_bytes());
        }
        for value in [name_length, 0] {
            shared.extend_from_slice(&value.to_le_bytes());
        }
        bytes.extend_from_slice(&LOCAL.0.to_le_bytes());
        bytes.extend_from_slice(&shared);
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(content);
        directory.extend_from_slice(&CENTRAL.0.to_le_bytes());
        directory.extend_from_slice(&VERSION.to_le_bytes());
        directory.extend_from_slice(&shared);
        directory.extend_from_slice(&[0; 10]); // comment, part, attributes
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
    }
    let (start, length) = (narrow(bytes.len())?, narrow(directory.len())?);
    let count = u16::try_from(members.len()).ok().filter(|&count| count != u16::MAX).ok_or(TOO_LARGE)?;
    bytes.extend_from_slice(&directory);
    bytes.extend_from_slice(&END.0.to_le_bytes());
    for value in [0, 0, count, count] {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    for value in [length, start] {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    bytes.extend_from_slice(&[0, 0]);
    Ok(bytes)
}

/// Computes the checksum of zip and PNG: CRC-32 with the reflected polynomial 0xedb88320.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        while index < 256 {
            let mut value = index as u32;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 1 == 1 { value >> 1 ^ 0xedb8_8320 } else { value >> 1 };
                bit += 1;
            }
            table[index] = value;
            index += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |crc, &byte| TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8)
}
