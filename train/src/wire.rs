//! Messages of Protocol Buffers in which some fields are replaced and all others kept, known or not.

use prost::bytes::Buf;
use prost::encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint};

/// Returns a message in which the content of each field of a number is what `change` returns for it, or stays where it
/// returns nothing. `None` if the bytes are no message.
pub(crate) fn replaced(
    message: &[u8],
    number: u32,
    change: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let mut rest = message;
    let mut result = Vec::with_capacity(message.len());
    while !rest.is_empty() {
        let before = rest;
        let (found, kind) = decode_key(&mut rest).ok()?;
        let length = match kind {
            WireType::Varint => {
                decode_varint(&mut rest).ok()?;
                0
            }
            WireType::SixtyFourBit => 8,
            WireType::ThirtyTwoBit => 4,
            WireType::LengthDelimited => usize::try_from(decode_varint(&mut rest).ok()?).ok()?,
            // ONNX has no groups.
            WireType::StartGroup | WireType::EndGroup => return None,
        };
        let content = rest.get(..length)?;
        rest.advance(length);
        let changed =
            if found == number && kind == WireType::LengthDelimited { change(content) } else { None };
        match changed {
            Some(content) => {
                encode_key(number, WireType::LengthDelimited, &mut result);
                encode_varint(content.len() as u64, &mut result);
                result.extend_from_slice(&content);
            }
            None => result.extend_from_slice(&before[..before.len() - rest.len()]),
        }
    }
    Some(result)
}
