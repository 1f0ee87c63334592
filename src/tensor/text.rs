//! Strings as elements of tensors.
//!
//! An element is a handle of 8 bytes, and a table that lives as long as the process has the text of each handle. Equal
//! texts have equal handles, so that ops that only move or compare elements need not know about texts. The order of
//! handles means nothing: whatever sorts, prints or computes does so by the text.
//!
//! A handle is a hash of its text, so that graphs and reports of two processes agree. A handle alone does not say what
//! the text is, so files never hold handles: they hold texts, or refuse strings. Texts are never removed from the
//! table, so a process that meets ever new texts needs ever more memory.

use super::DType;
use crate::random;
use rustc_hash::FxHashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

/// An element of a tensor of strings. The handle 0, of which new tensors are full, is the empty text.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Text(pub(super) u64);

/// The texts by their handles. The empty one is not in it.
pub(super) static TEXTS: LazyLock<RwLock<FxHashMap<u64, Arc<str>>>> = LazyLock::new(RwLock::default);

impl Text {
    /// Returns the handle of a text.
    pub fn new(text: &str) -> Self {
        if text.is_empty() {
            return Self(0);
        }
        let first = hash(text);
        let known = TEXTS.read().unwrap_or_else(PoisonError::into_inner);
        if known.get(&first).is_some_and(|known| **known == *text) {
            return Self(first);
        }
        drop(known);
        let mut texts = TEXTS.write().unwrap_or_else(PoisonError::into_inner);
        let mut handle = first;
        loop {
            match texts.get(&handle) {
                Some(known) if **known == *text => return Self(handle),
                // Another text has this hash.
                Some(_) => handle = handle.wrapping_add(1).max(1),
                None => {
                    texts.insert(handle, text.into());
                    return Self(handle);
                }
            }
        }
    }

    /// Returns the text. Bytes that are no handle read as the empty text.
    pub fn get(self) -> Arc<str> {
        let texts = TEXTS.read().unwrap_or_else(PoisonError::into_inner);
        texts.get(&self.0).cloned().unwrap_or_default()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.get(), f)
    }
}

/// Returns a hash that is the same on every machine, and is not 0: FNV-1a, followed by the output function of
/// SplitMix64.
pub(super) fn hash(text: &str) -> u64 {
    random::mix(random::hash(random::EMPTY, text)).max(1)
}

/// Returns the number that a text says in decimal form, also `inf`, `-inf` and `nan`; NaN if it says none.
pub fn number(text: &str) -> f64 {
    text.trim().parse().unwrap_or(f64::NAN)
}

/// Returns the text of a number with the fewest digits that tell it from other numbers of its type. As in ONNX Runtime,
/// `1` stands for 1.0, and numbers that are very large or small have an exponent.
pub fn shown(dtype: DType, value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "INF" } else { "-INF" }.to_owned();
    }
    #[allow(clippy::cast_possible_truncation)]
    let scientific = match dtype {
        DType::F64 => format!("{value:e}"),
        _ => format!("{:e}", value as f32),
    };
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..if dtype == DType::F64 { 17 } else { 8 }).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        #[allow(clippy::cast_possible_truncation)]
        _ => match dtype {
            DType::F64 => format!("{value}"),
            _ => format!("{}", value as f32),
        },
    }
}
