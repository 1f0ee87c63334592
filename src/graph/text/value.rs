//! Constants in the text form: printing, reading, seeded values and content hashes.

use super::syntax::{Literal, Spanned};
use crate::diagnostic::Span;
use crate::random::{Random, STEP, mix};
use crate::tensor::{DType, Layout, Tensor, TensorType};

/// Constants with at most this many elements are printed with their values. This is enough for shapes and scalars,
/// and keeps lines short.
const INLINE_ELEMENTS: usize = 16;

/// Returns a 64-bit hash of a tensor's bytes, which is the same on every machine. It identifies constants in texts,
/// and does not protect against deliberate collisions.
pub(crate) fn content_hash(tensor: &Tensor) -> u64 {
    let bytes = tensor.bytes();
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let mut hash = mix(bytes.len() as u64);
    for word in words.iter().chain([&last]) {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(STEP).rotate_left(29);
    }
    mix(hash)
}

/// Returns the hash of a tensor as the text form writes it, without the `#`.
pub(super) fn hashed(tensor: &Tensor) -> String {
    format!("{:016x}", content_hash(tensor))
}

/// Returns seeded values, which are the same on every machine. Floats are approximately normal with mean 0 and
/// variance 1 (the sum of twelve uniform numbers, so between -6 and 6), integers are 0 to 7, and booleans are
/// either value.
pub fn random(ty: &TensorType, seed: u64) -> Tensor {
    let mut stream = Random(mix(seed.wrapping_add(0x5851_f42d_4c95_7f2d)));
    let mut draw = || stream.word();
    let values: Vec<f64> = (0..ty.shape.count())
        .map(|_| match ty.dtype {
            dtype if dtype.is_float() => {
                let sum: u32 = (0..3)
                    .map(|_| {
                        let word = draw();
                        (0..4).map(|part| u32::from((word >> (16 * part)) as u16)).sum::<u32>()
                    })
                    .sum();
                (f64::from(sum) - 12.0 * 32767.5) / 65536.0
            }
            DType::Bool | DType::U2 | DType::I2 => f64::from((draw() >> 63) as u8),
            _ => f64::from((draw() >> 61) as u8),
        })
        .collect();
    place(&Tensor::from_f64(ty.dtype, ty.shape.clone(), &values), ty)
}

/// Converts a host tensor in the default layout to this type, which has the same element type and shape.
fn place(plain: &Tensor, ty: &TensorType) -> Tensor {
    let mut tensor = Tensor::zeros(TensorType { layout: Layout::PLAIN, ..ty.clone() });
    tensor.bytes_mut().copy_from_slice(plain.bytes());
    tensor.to_layout(&ty.layout)
}

/// Up to this many equal elements are printed one by one.
const FEW_ELEMENTS: usize = 4;

/// Returns the text after `const`: a list or `splat` if that parses back to the same bytes, the hash otherwise.
pub(super) fn print(tensor: &Tensor) -> String {
    print_values(tensor, INLINE_ELEMENTS).unwrap_or_else(|| format!("#{}", hashed(tensor)))
}

/// Returns the values as the text form has them, however many there are; `None` if they do not parse back.
pub(super) fn print_in_full(tensor: &Tensor) -> Option<String> {
    print_values(tensor, usize::MAX)
}

/// Returns a list of at most `most` elements, or `splat`; `None` if neither parses back to the same bytes.
fn print_values(tensor: &Tensor, most: usize) -> Option<String> {
    let splat = if tensor.ty().shape.count() > FEW_ELEMENTS { print_splat(tensor) } else { None };
    if splat.is_some() || tensor.ty().shape.count() > most {
        return splat;
    }
    let plain = tensor.to_layout(&Layout::PLAIN);
    let elements: Vec<String> = plain
        .bytes()
        .chunks(tensor.ty().dtype.size())
        .map(|bytes| element_text(tensor.ty().dtype, bytes))
        .collect();
    let written: Vec<_> = elements.iter().map(|text| spanned(text)).collect();
    reads_back(tensor, &Literal::List(written)).then(|| format!("[{}]", elements.join(", ")))
}

fn print_splat(tensor: &Tensor) -> Option<String> {
    let size = tensor.ty().dtype.size();
    let first = tensor.bytes().get(..size)?;
    let text = element_text(tensor.ty().dtype, first);
    let same = if tensor.ty().layout.is_plain() {
        let mut read = Vec::new();
        read_element(tensor.ty().dtype, &text, &mut read).ok()?;
        read == first && tensor.bytes().chunks(size).all(|element| element == first)
    } else {
        reads_back(tensor, &Literal::Splat(spanned(&text)))
    };
    same.then(|| format!("splat {text}"))
}

fn spanned(text: &str) -> Spanned<String> {
    Spanned { value: text.to_owned(), span: Span::default() }
}

fn reads_back(tensor: &Tensor, literal: &Literal) -> bool {
    read(literal, tensor.ty()).is_ok_and(|read| read.is_some_and(|read| read.bytes() == tensor.bytes()))
}

fn element_text(dtype: DType, bytes: &[u8]) -> String {
    match dtype {
        DType::Bool if bytes[0] <= 1 => (bytes[0] == 1).to_string(),
        DType::Bool | DType::U8 => bytes[0].to_string(),
        DType::U16 => bytemuck::pod_read_unaligned::<u16>(bytes).to_string(),
        DType::U32 => bytemuck::pod_read_unaligned::<u32>(bytes).to_string(),
        DType::U64 => bytemuck::pod_read_unaligned::<u64>(bytes).to_string(),
        DType::I8 => bytemuck::pod_read_unaligned::<i8>(bytes).to_string(),
        DType::I16 => bytemuck::pod_read_unaligned::<i16>(bytes).to_string(),
        DType::I32 => bytemuck::pod_read_unaligned::<i32>(bytes).to_string(),
        DType::I64 => bytemuck::pod_read_unaligned::<i64>(bytes).to_string(),
        DType::F16 => format!("{:?}", bytemuck::pod_read_unaligned::<half::f16>(bytes).to_f32()),
        DType::BF16 => format!("{:?}", bytemuck::pod_read_unaligned::<half::bf16>(bytes).to_f32()),
        DType::F32 => format!("{:?}", bytemuck::pod_read_unaligned::<f32>(bytes)),
        DType::F64 => format!("{:?}", bytemuck::pod_read_unaligned::<f64>(bytes)),
        narrow if narrow.is_narrow() => {
            let mut one = Tensor::zeros(TensorType::plain(narrow, [1_usize]));
            one.bytes_mut().copy_from_slice(bytes);
            match one.to_i64() {
                Some(values) => values[0].to_string(),
                None => format!("{:?}", one.to_f64()[0]),
            }
        }
        // Lists have no form for complex numbers and strings, so that such constants are written as a hash.
        _ => "other".to_owned(),
    }
}

/// Appends the bytes of one element, or returns why the text is not an element.
fn read_element(dtype: DType, text: &str, bytes: &mut Vec<u8>) -> Result<(), String> {
    macro_rules! push {
        ($value:expr) => {{
            let value = $value.ok_or_else(|| format!("`{text}` is not a value of type {dtype}"))?;
            bytes.extend_from_slice(bytemuck::bytes_of(&value));
        }};
    }
    let finite = |value: f64| value.is_finite() || !text.contains(|c: char| c.is_ascii_digit());
    match dtype {
        DType::Bool => push!(match text {
            "true" | "1" => Some(1_u8),
            "false" | "0" => Some(0_u8),
            _ => None,
        }),
        DType::U8 => push!(text.parse::<u8>().ok()),
        DType::U16 => push!(text.parse::<u16>().ok()),
        DType::U32 => push!(text.parse::<u32>().ok()),
        DType::U64 => push!(text.parse::<u64>().ok()),
        DType::I8 => push!(text.parse::<i8>().ok()),
        DType::I16 => push!(text.parse::<i16>().ok()),
        DType::I32 => push!(text.parse::<i32>().ok()),
        DType::I64 => push!(text.parse::<i64>().ok()),
        DType::F16 => {
            push!(text.parse::<f32>().ok().map(half::f16::from_f32).filter(|value| finite(value.to_f64())));
        }
        DType::BF16 => {
            push!(text.parse::<f32>().ok().map(half::bf16::from_f32).filter(|value| finite(value.to_f64())));
        }
        DType::F32 => push!(text.parse::<f32>().ok().filter(|&value| finite(f64::from(value)))),
        DType::F64 => push!(text.parse::<f64>().ok().filter(|&value| finite(value))),
        DType::C64 | DType::C128 | DType::Text => push!(None::<u8>),
        _ => push!(narrow(dtype, text)),
    }
    Ok(())
}

/// Returns the byte of a number of 2, 4 or 8 bits; `None` if the text is no number in its range.
fn narrow(dtype: DType, text: &str) -> Option<u8> {
    let tensor = match dtype.integer_range() {
        Some((least, most)) => {
            let value = text.parse::<i128>().ok().filter(|value| (least..=most).contains(value))?;
            Tensor::from_i128(dtype, [1_usize], &[value])
        }
        None => Tensor::from_f64(dtype, [1_usize], &[text.parse::<f64>().ok()?]),
    };
    tensor.bytes().first().copied()
}

/// Returns the tensor of a literal; `None` for a hash.
///
/// The errors are the places and messages of all wrong elements.
pub(super) fn read(literal: &Literal, ty: &TensorType) -> Result<Option<Tensor>, Vec<(Span, String)>> {
    let count = ty.shape.count();
    let mut errors = Vec::new();
    let mut bytes = Vec::new();
    match literal {
        Literal::Hash(_) => return Ok(None),
        Literal::Seed(seed) => return Ok(Some(random(ty, *seed))),
        Literal::Splat(element) => {
            if let Err(message) = read_element(ty.dtype, &element.value, &mut bytes) {
                return Err(vec![(element.span, message)]);
            }
            bytes = bytes.repeat(count);
        }
        Literal::List(elements) => {
            for element in elements {
                if let Err(message) = read_element(ty.dtype, &element.value, &mut bytes) {
                    errors.push((element.span, message));
                }
            }
            if errors.is_empty() && elements.len() != count {
                let span = elements.iter().map(|element| element.span).reduce(Span::to).unwrap_or_default();
                let message = format!("{ty} has {count} elements, {} are given", elements.len());
                errors.push((span, message));
            }
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut plain = Tensor::zeros(TensorType::plain(ty.dtype, ty.shape.clone()));
    plain.bytes_mut().copy_from_slice(&bytes);
    Ok(Some(place(&plain, ty)))
}
