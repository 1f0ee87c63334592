//! The table of ONNX's operators: how each becomes ops of the registry.
//!
//! An operator is one line in the table of its family. Its importer reads operands and
//! attributes of every opset, and gives the operator's results, of which trailing ones may be
//! left out: reading one of those is then refused.

mod arrange;
mod constant;
mod elementwise;
mod index;
mod linear;
mod normalize;
mod pool;
mod reduce;
mod resample;

use super::call::{Call, Value};
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// The results of an operator, or why it is refused.
pub(super) type Results = Result<Vec<Value>, String>;

/// How one operator is imported.
pub(super) struct Importer {
    /// The operator's name in ONNX.
    pub name: &'static str,
    /// The least and the most operands.
    pub operands: (usize, usize),
    /// Makes the results.
    pub import: fn(&mut Call<'_>) -> Results,
}

/// A line of a table.
const fn entry(
    name: &'static str,
    least: usize,
    most: usize,
    import: fn(&mut Call<'_>) -> Results,
) -> Importer {
    Importer { name, operands: (least, most), import }
}

/// So many operands as the model likes.
const ANY: usize = usize::MAX;

/// The families. A new operator is one line in one of them.
const FAMILIES: [&[Importer]; 9] = [
    arrange::TABLE,
    constant::TABLE,
    elementwise::TABLE,
    index::TABLE,
    linear::TABLE,
    normalize::TABLE,
    pool::TABLE,
    reduce::TABLE,
    resample::TABLE,
];

static TABLE: LazyLock<FxHashMap<&'static str, &'static Importer>> =
    LazyLock::new(|| FAMILIES.iter().copied().flatten().map(|importer| (importer.name, importer)).collect());

/// The importer of one of ONNX's own operators.
pub(super) fn find(name: &str) -> Option<&'static Importer> {
    TABLE.get(name).copied()
}

/// The names of all operators that are imported.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().copied().flatten().map(|importer| importer.name)
}
