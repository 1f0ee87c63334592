//! How each ONNX operator becomes ops.
//!
//! An operator is one line in the table of its family, or a row of a table of functions or bodies. Its importer reads the
//! operands and attributes of every opset, and returns the operator's results. It may leave out trailing results; a
//! model that reads one of these is refused.

mod arrange;
mod attend;
mod body;
mod constant;
mod crop;
mod einsum;
mod elementwise;
pub(super) mod flex;
pub(crate) mod function;
mod index;
mod integer;
mod learned;
mod linear;
mod loss;
mod normalize;
mod pool;
mod random;
mod recurrent;
mod reduce;
mod resample;
mod sample;
mod scatter;
mod select;
mod text;
mod train;
mod transposed;
mod volume;
mod window;

use super::Refusal;
use super::builder::ImportedValue;
use super::call::Call;
use crate::scalar::{self, Function};
use crate::table::Table;

/// The results of an operator, or why it is refused.
pub type Results = Result<Vec<ImportedValue>, Refusal>;

/// How one operator is imported.
#[derive(Clone, Copy, Debug)]
pub struct Operator {
    /// The operator's name in ONNX. One that is not ONNX's own has its domain in front: `com.example.Swirl`.
    pub name: &'static str,
    /// The least and the most operands.
    pub operands: (usize, usize),
    /// Makes the results. It must read every attribute that the model gives, or else the node is refused.
    pub import: fn(&mut Call<'_>) -> Results,
}

impl Operator {
    /// Makes the results, after checks of the operands. It is an error if an attribute was not read.
    pub(super) fn execute(&self, call: &mut Call<'_>) -> Results {
        let (least, most) = self.operands;
        if !(least..=most).contains(&call.input_count()) {
            let wanted = match (least, most) {
                (least, most) if least == most => least.to_string(),
                (least, usize::MAX) => format!("at least {least}"),
                (least, most) => format!("{least} to {most}"),
            };
            return Err(Refusal::other(format!(
                "it has {} operands, and needs {wanted}",
                call.input_count()
            )));
        }
        if let Some(at) = (0..least).find(|at| call.optional(*at).is_none()) {
            return Err(Refusal::Operand(at));
        }
        let results = (self.import)(call)?;
        match call.strangers() {
            strangers if strangers.is_empty() => Ok(results),
            strangers => Err(Refusal::Strangers(strangers.into_iter().map(ToOwned::to_owned).collect())),
        }
    }
}

/// The operators that are imported, by their names.
pub(crate) type Operators = Table<Operator>;

/// Makes a line of a table.
const fn entry(
    name: &'static str,
    least: usize,
    most: usize,
    import: fn(&mut Call<'_>) -> Results,
) -> Operator {
    Operator { name, operands: (least, most), import }
}

/// For operators that take any number of operands.
const ANY: usize = usize::MAX;

/// The families. A new operator is one line in one of them.
const FAMILIES: [&[Operator]; 25] = [
    arrange::TABLE,
    constant::TABLE,
    elementwise::TABLE,
    index::TABLE,
    integer::TABLE,
    linear::TABLE,
    normalize::TABLE,
    pool::TABLE,
    recurrent::TABLE,
    reduce::TABLE,
    resample::TABLE,
    scatter::TABLE,
    select::TABLE,
    attend::TABLE,
    loss::TABLE,
    sample::TABLE,
    einsum::TABLE,
    volume::TABLE,
    learned::forest::TABLE,
    learned::label::TABLE,
    learned::linear::TABLE,
    text::TABLE,
    random::TABLE,
    train::TABLE,
    transposed::TABLE,
];

/// Returns ONNX's own operators.
pub(crate) fn operators() -> Operators {
    let functions: Vec<Function> =
        scalar::built_in().iter().chain(scalar::built_in_of_two()).copied().collect();
    let functions = function::operators(&functions);
    let all = FAMILIES.iter().copied().flatten().copied().chain(functions).chain(body::operators());
    Table::from_entries("operator", all.map(|operator| (operator.name, operator)))
}
