//! The model by which the crate `ort` copies a tensor: one node, which gives back what it is given.
//!
//! `ort` runs it for `Tensor::clone`, `Tensor::to` and `Tensor::copy_into`. The model is in ONNX Runtime's own format, a
//! FlatBuffer. Of that format, this reads as much as it takes to be sure that the model is such a copy; other models in
//! it are refused.

use crate::dtype::numbered;
use crate::port::{Port, Ports};
use crate::status::Failure;
use crate::type_info::{TensorInfo, TypeInfo};
use ort_sys::{ONNXTensorElementDataType as Element, OrtErrorCode};
use ovolo::{DType, ValueType};

/// A model that copies its input.
pub struct Identity {
    element: Element,
}

impl Identity {
    /// Reads a model; `None` if it is not in ONNX Runtime's own format.
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, Failure> {
        if bytes.get(4..8) != Some(b"ORTM") {
            return Ok(None);
        }
        match Self::element(bytes) {
            Some(element) => Ok(Some(Self { element })),
            None => Err(Failure::new(
                OrtErrorCode::ORT_NOT_IMPLEMENTED,
                "the model is in ONNX Runtime's own format (.ort), which ovolo cannot read: open the .onnx file that it \
                 was made from",
            )),
        }
    }

    /// Returns the type of the elements, if the model has one node, `Identity`, from `input` to `output`.
    fn element(bytes: &[u8]) -> Option<Element> {
        let graph = Table::root(bytes)?.table(1)?.table(7)?;
        let (nodes, inputs, outputs) = (graph.list(2)?, graph.list(5)?, graph.list(6)?);
        let node = nodes.only()?;
        let copies = node.text(5)? == b"Identity"
            && inputs.only()?.whole() == b"input"
            && outputs.only()?.whole() == b"output"
            && node.list(8)?.only()?.whole() == b"input"
            && node.list(9)?.only()?.whole() == b"output";
        let tensor = graph.list(1)?.first()?.table(2)?.table(2)?;
        if copies { numbered(tensor.number(0)?) } else { None }
    }

    /// Returns its input and its output.
    pub fn ports(&self) -> Ports {
        let port = |name: &str| Port {
            name: name.to_owned(),
            // The run does not look at the type, which only describes.
            ty: ValueType::Tensor(DType::F32),
            info: TypeInfo::Tensor(TensorInfo::new(self.element, Vec::new())),
        };
        Ports { inputs: vec![port("input")], outputs: vec![port("output")] }
    }
}

/// A place in a FlatBuffer. Nothing outside the bytes is ever read.
#[derive(Clone, Copy)]
struct Table<'b> {
    bytes: &'b [u8],
    at: usize,
}

/// A list of tables or texts in a FlatBuffer.
struct Tables<'b> {
    bytes: &'b [u8],
    at: usize,
    count: usize,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?)))
}

/// Follows a reference, which counts from its own place.
fn follow(bytes: &[u8], at: usize) -> Option<usize> {
    at.checked_add(usize::try_from(word(bytes, at)?).ok()?)
}

impl<'b> Table<'b> {
    fn root(bytes: &'b [u8]) -> Option<Self> {
        Some(Self { bytes, at: follow(bytes, 0)? })
    }

    /// Returns the place of a field, which the table of places before the fields knows by its number.
    fn field(&self, number: usize) -> Option<usize> {
        let back = word(self.bytes, self.at)?.cast_signed();
        let places = usize::try_from(i64::try_from(self.at).ok()? - i64::from(back)).ok()?;
        let entry = 4 + 2 * number;
        if entry >= half(self.bytes, places)? {
            return None;
        }
        match half(self.bytes, places.checked_add(entry)?)? {
            0 => None,
            offset => self.at.checked_add(offset),
        }
    }

    fn table(&self, number: usize) -> Option<Self> {
        Some(Self { bytes: self.bytes, at: follow(self.bytes, self.field(number)?)? })
    }

    fn number(&self, number: usize) -> Option<i32> {
        Some(word(self.bytes, self.field(number)?)?.cast_signed())
    }

    fn text(&self, number: usize) -> Option<&'b [u8]> {
        Some(self.table(number)?.whole())
    }

    fn list(&self, number: usize) -> Option<Tables<'b>> {
        let at = follow(self.bytes, self.field(number)?)?;
        Some(Tables {
            bytes: self.bytes,
            at: at.checked_add(4)?,
            count: usize::try_from(word(self.bytes, at)?).ok()?,
        })
    }

    /// Returns the bytes of a text; none if it is damaged.
    fn whole(&self) -> &'b [u8] {
        let text = word(self.bytes, self.at).and_then(|length| {
            let start = self.at.checked_add(4)?;
            self.bytes.get(start..start.checked_add(usize::try_from(length).ok()?)?)
        });
        text.unwrap_or_default()
    }
}

impl<'b> Tables<'b> {
    fn first(&self) -> Option<Table<'b>> {
        if self.count == 0 {
            None
        } else {
            Some(Table { bytes: self.bytes, at: follow(self.bytes, self.at)? })
        }
    }

    fn only(&self) -> Option<Table<'b>> {
        if self.count == 1 { self.first() } else { None }
    }
}
