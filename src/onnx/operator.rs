//! ONNX's operators: how each becomes ops.
//!
//! An operator is one line in the table of its family, or a row of a table of functions. Its importer reads operands and
//! attributes of every opset, and gives the operator's results, of which trailing ones may be
//! left out: reading one of those is then refused.

mod arrange;
mod constant;
mod elementwise;
pub(crate) mod function;
mod index;
mod linear;
mod normalize;
mod pool;
mod reduce;
mod resample;

use super::Refusal;
use super::call::{Call, Value};
use crate::scalar;
use crate::table::Table;

/// The results of an operator, or why it is refused.
pub type Results = Result<Vec<Value>, Refusal>;

/// How one operator is imported.
#[derive(Clone, Copy, Debug)]
pub struct Operator {
    /// The operator's name in ONNX. One that is not ONNX's own has its domain in front: `com.example.Swirl`.
    pub name: &'static str,
    /// The least and the most operands.
    pub operands: (usize, usize),
    /// Makes the results. Every attribute that the model gives must be asked for.
    pub import: fn(&mut Call<'_>) -> Results,
}

/// The operators that are imported, by their names.
pub(crate) type Operators = Table<Operator>;

/// A line of a table.
const fn entry(
    name: &'static str,
    least: usize,
    most: usize,
    import: fn(&mut Call<'_>) -> Results,
) -> Operator {
    Operator { name, operands: (least, most), import }
}

/// So many operands as the model likes.
const ANY: usize = usize::MAX;

/// The families. A new operator is one line in one of them.
const FAMILIES: [&[Operator]; 9] = [
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

/// ONNX's own operators.
pub(crate) fn operators() -> Operators {
    let functions = function::operators(scalar::built_in());
    let all = FAMILIES.iter().copied().flatten().copied().chain(functions);
    Table::of("operator", all.map(|operator| (operator.name, operator)))
}
