//! The header of a `.npy` array.
//!
//! It is a Python dictionary with three keys, after a signature, a version and its length, as the page of NumPy's module
//! `numpy.lib.format` says.

use crate::tensor::DType;

const SIGNATURE: &[u8] = b"\x93NUMPY";

/// The header of a plain array has a few hundred bytes; a longer one is damaged, or describes an unsupported array.
const LONGEST: usize = 4096;

/// The elements begin at a multiple of this number of bytes.
const ALIGNMENT: usize = 64;

/// What a header says.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) element: Element,
    /// Whether the first index varies fastest.
    pub(super) fortran: bool,
    pub(super) shape: Vec<usize>,
}

/// What the elements of an array are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    /// Numbers of a type.
    Number(DType),
    /// Strings with this number of characters of four bytes.
    Text(usize),
}

impl Element {
    /// Returns the bytes of an element; `None` if they overflow.
    fn size(self) -> Option<usize> {
        match self {
            Self::Number(dtype) => Some(dtype.size()),
            Self::Text(length) => length.checked_mul(4),
        }
    }

    /// Reads the name that NumPy has for an element type: its byte order, a letter, and its size.
    fn read(name: &str) -> Result<Self, String> {
        let unsupported = || {
            format!(
                "element type `{name}` is not supported; the supported types are booleans, integers, floats, complex \
                 numbers and strings"
            )
        };
        let (order, rest) = name.split_at_checked(1).ok_or_else(unsupported)?;
        let (letter, size) = rest.split_at_checked(1).ok_or_else(unsupported)?;
        if !["<", ">", "|", "="].contains(&order) {
            return Err(unsupported());
        }
        if letter == "O" {
            return Err("it holds pickled Python objects, which are not supported".to_owned());
        }
        let size: usize = size.parse().map_err(|_| unsupported())?;
        if order == ">" && size > 1 {
            return Err(format!(
                "element type `{name}` is big-endian; save it as `array.astype(array.dtype.newbyteorder(\"<\"))`"
            ));
        }
        Ok(Self::Number(match (letter, size) {
            ("U", length) if length > 0 => return Ok(Self::Text(length)),
            ("b", 1) => DType::Bool,
            ("u", 1) => DType::U8,
            ("u", 2) => DType::U16,
            ("u", 4) => DType::U32,
            ("u", 8) => DType::U64,
            ("i", 1) => DType::I8,
            ("i", 2) => DType::I16,
            ("i", 4) => DType::I32,
            ("i", 8) => DType::I64,
            ("f", 1) => DType::F8E5M2,
            ("f", 2) => DType::F16,
            ("f", 4) => DType::F32,
            ("f", 8) => DType::F64,
            ("c", 8) => DType::C64,
            ("c", 16) => DType::C128,
            ("V", 1) => DType::F8E4M3FN,
            ("V", 2) => DType::BF16,
            _ => return Err(unsupported()),
        }))
    }

    /// Returns NumPy's name of the type.
    fn name(self) -> String {
        let name = match self {
            Self::Text(length) => return format!("<U{length}"),
            Self::Number(DType::Bool) => "|b1",
            Self::Number(DType::U8) => "|u1",
            Self::Number(DType::U16) => "<u2",
            Self::Number(DType::U32) => "<u4",
            Self::Number(DType::U64) => "<u8",
            Self::Number(DType::I8) => "|i1",
            Self::Number(DType::I16) => "<i2",
            Self::Number(DType::I32) => "<i4",
            Self::Number(DType::I64) => "<i8",
            Self::Number(DType::F16) => "<f2",
            Self::Number(DType::F32) => "<f4",
            Self::Number(DType::F64) => "<f8",
            Self::Number(DType::C64) => "<c8",
            Self::Number(DType::C128) => "<c16",
            Self::Number(DType::BF16) => "<V2",
            Self::Number(DType::F8E5M2) => "<f1",
            Self::Number(_) => "<V1",
        };
        name.to_owned()
    }
}

impl Header {
    /// Splits the bytes of a file into its header and its elements.
    pub(super) fn read(bytes: &[u8]) -> Result<(Self, &[u8]), String> {
        if !bytes.starts_with(SIGNATURE) || bytes.len() < 12 {
            let what = if bytes.starts_with(b"PK") { "; it is an archive, as `.npz` files are" } else { "" };
            return Err(format!("not a `.npy` array: it does not begin like one{what}"));
        }
        let (start, length) = match bytes[6] {
            1 => (10, usize::from(u16::from_le_bytes([bytes[8], bytes[9]]))),
            2 | 3 => (12, u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize),
            version => {
                return Err(format!("version {version} of the format is not supported; versions 1 to 3 are"));
            }
        };
        if length > LONGEST {
            return Err(format!("its header has {length} bytes, more than any plain array needs"));
        }
        let header = bytes.get(start..start + length).ok_or("it ends within its header")?;
        let header = std::str::from_utf8(header).map_err(|_| "its header is not text")?;
        let header = Parser { rest: header.trim_ascii() }.header()?;
        Ok((header, &bytes[start + length..]))
    }

    /// Returns the bytes of a header, which end where elements may begin.
    pub(super) fn write(&self) -> Vec<u8> {
        let order = if self.fortran { "True" } else { "False" };
        let mut shape: String = self.shape.iter().map(|size| format!("{size}, ")).collect();
        // Python's tuple of one element has a comma.
        shape.truncate(shape.len().saturating_sub(if self.shape.len() == 1 { 1 } else { 2 }));
        let name = self.element.name();
        let mut header = format!("{{'descr': '{name}', 'fortran_order': {order}, 'shape': ({shape}), }}");
        // One byte of the last line is its end.
        let used = SIGNATURE.len() + 4 + header.len() + 1;
        header.push_str(&" ".repeat(used.next_multiple_of(ALIGNMENT) - used));
        header.push('\n');
        let mut bytes = SIGNATURE.to_vec();
        bytes.extend([1, 0]);
        let length = u16::try_from(header.len()).expect("a tensor has fewer than thousands of dimensions");
        bytes.extend(length.to_le_bytes());
        bytes.extend(header.into_bytes());
        bytes
    }

    /// Checks that the size of the shape does not overflow; empty dimensions are left out of the product.
    fn checked(self) -> Result<Self, String> {
        let size = self.element.size().and_then(|element| {
            self.shape.iter().try_fold(element.max(8), |size, &dim| size.checked_mul(dim.max(1)))
        });
        match size {
            Some(size) if size < 1 << 56 => Ok(self),
            _ => Err("the shape is too large for any machine".to_owned()),
        }
    }
}

/// A reader of the dictionary.
struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn header(mut self) -> Result<Header, String> {
        let (mut element, mut fortran, mut shape) = (None, None, None);
        self.expect('{')?;
        while !self.takes('}') {
            let key = self.text()?;
            self.expect(':')?;
            match key {
                "descr" if self.rest.starts_with('[') => {
                    return Err("it is a structured array; save its fields one by one".to_owned());
                }
                "descr" => element = Some(Element::read(self.text()?)?),
                "fortran_order" => fortran = Some(self.truth()?),
                "shape" => shape = Some(self.shape()?),
                _ => return Err(format!("its header has the key `{key}`, which the format does not have")),
            }
            if !self.takes(',') {
                self.expect('}')?;
                break;
            }
        }
        if !self.rest.is_empty() {
            return Err(self.wrong("nothing more"));
        }
        let lacks = |key: &str| format!("its header lacks `{key}`");
        let element = element.ok_or_else(|| lacks("descr"))?;
        let fortran = fortran.ok_or_else(|| lacks("fortran_order"))?;
        Header { element, fortran, shape: shape.ok_or_else(|| lacks("shape"))? }.checked()
    }

    fn wrong(&self, expected: &str) -> String {
        let found: String = self.rest.chars().take(12).collect();
        format!("its header is damaged: expected {expected}, found `{}`", found.escape_debug())
    }

    /// Skips a character and what is blank after it, if it is next.
    fn takes(&mut self, character: char) -> bool {
        let Some(rest) = self.rest.strip_prefix(character) else { return false };
        self.rest = rest.trim_ascii_start();
        true
    }

    fn expect(&mut self, character: char) -> Result<(), String> {
        if self.takes(character) { Ok(()) } else { Err(self.wrong(&format!("`{character}`"))) }
    }

    /// Reads a string between quotes.
    fn text(&mut self) -> Result<&'a str, String> {
        let parts = ['\'', '"'].iter().find_map(|quote| self.rest.strip_prefix(*quote)?.split_once(*quote));
        let (text, rest) = parts.ok_or_else(|| self.wrong("a text"))?;
        self.rest = rest.trim_ascii_start();
        Ok(text)
    }

    fn truth(&mut self) -> Result<bool, String> {
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest.trim_ascii_start();
                return Ok(value);
            }
        }
        Err(self.wrong("`True` or `False`"))
    }

    fn shape(&mut self) -> Result<Vec<usize>, String> {
        self.expect('(')?;
        let mut shape = Vec::new();
        while !self.takes(')') {
            let digits = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
            if digits == 0 {
                return Err(self.wrong("a size"));
            }
            let (number, rest) = self.rest.split_at(digits);
            shape.push(number.parse().map_err(|_| "the shape is too large for this machine")?);
            // Python 2 wrote an `L` after long numbers.
            self.rest = rest.strip_prefix('L').unwrap_or(rest).trim_ascii_start();
            if !self.takes(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(shape)
    }
}
