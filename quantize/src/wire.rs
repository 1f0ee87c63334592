//! Messages of Protocol Buffers as lists of fields, so that a change of a model keeps every field that it does not
//! change, known or not.

use prost::bytes::Buf;
use prost::encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint};

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    /// Its number.
    pub number: u32,
    /// Its bytes with the key, as they are in the message.
    pub whole: &'a [u8],
    /// What is in it, if it has a length of its own: a message, a text, or bytes.
    pub content: Option<&'a [u8]>,
}

/// Returns the fields of a message in their order; `None` if the bytes are no message.
pub(crate) fn fields(message: &[u8]) -> Option<Vec<Field<'_>>> {
    let mut rest = message;
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let before = rest;
        let (number, kind) = decode_key(&mut rest).ok()?;
        let (length, delimited) = match kind {
            WireType::Varint => {
                decode_varint(&mut rest).ok()?;
                (0, false)
            }
            WireType::SixtyFourBit => (8, false),
            WireType::ThirtyTwoBit => (4, false),
            WireType::LengthDelimited => (usize::try_from(decode_varint(&mut rest).ok()?).ok()?, true),
            // ONNX has no groups.
            WireType::StartGroup | WireType::EndGroup => return None,
        };
        let content = rest.get(..length)?;
        rest.advance(length);
        let whole = &before[..before.len() - rest.len()];
        fields.push(Field { number, whole, content: delimited.then_some(content) });
    }
    Some(fields)
}

/// Appends a field with a length to a message.
pub(crate) fn push(message: &mut Vec<u8>, number: u32, content: &[u8]) {
    encode_key(number, WireType::LengthDelimited, message);
    encode_varint(content.len() as u64, message);
    message.extend_from_slice(content);
}
