//! Computed attributes and guards over the equation of an `einsum`: parts of it, and the matrix product that two
//! operands are.
//!
//! Of two operands, a letter is one of four kinds. `batch` letters are in both operands and in the result, `inner`
//! ones in both operands alone, `left` and `right` ones in one operand and the result. As a matrix product, the first
//! operand has the axes batch, left, inner, the second one batch, inner, right, and the result batch, left, right.

use super::Kind::{List, Size, Text};
use super::expr::argument::{int, ints, text};
use super::{No, Value, Word};
use crate::attr::Attr;
use crate::op::einsum::{Equation, union};

/// The computed attributes and guards over equations. A new one needs only an entry here.
pub(super) const EQUATIONS: &[Word] = &[
    Word::guard(
        "einsum-has-matrices",
        "two operands are more than multiplied element by element: a letter of both is summed, or each has letters \
         that the other one lacks",
        &[Text],
        |v| {
            let equation = equation(v)?;
            let product = Product::new(&equation, RESULT)?;
            if product.inner.is_empty() && (product.left.is_empty() || product.right.is_empty()) {
                return Err(format!("{} multiplies element by element", v.show(0)).into());
            }
            Ok(Value::yes())
        },
    ),
    Word::computed(
        "einsum-alone",
        "the axes whose letters the operand at a position alone has; no operand before it may have such letters",
        &[Text, Size],
        List,
        |v| {
            let (equation, at) = (equation(v)?, place(v, 1)?);
            positions(term(&equation, at)?, &first_alone(&equation, at)?)
        },
    ),
    Word::computed(
        "einsum-summed",
        "the equation without the letters that the operand at a position alone has; no operand before it may have such \
         letters",
        &[Text, Size],
        Text,
        |v| {
            let (mut equation, at) = (equation(v)?, place(v, 1)?);
            let gone = first_alone(&equation, at)?;
            equation.operands[at].retain(|letter| !gone.contains(letter));
            Ok(written(&equation))
        },
    ),
    Word::computed(
        "einsum-order",
        "the order of axes by which a transpose of the only operand is the result",
        &[Text],
        List,
        |v| {
            let equation = equation(v)?;
            match &equation.operands[..] {
                [term] if term.len() == equation.result.len() => positions(term, &equation.result),
                _ => Err(format!("`{equation}` does more than move the axes of one operand").into()),
            }
        },
    ),
    Word::computed("einsum-turned", "the equation with its two operands exchanged", &[Text], Text, |v| {
        let mut equation = equation(v)?;
        pair(&equation)?;
        equation.operands.reverse();
        Ok(written(&equation))
    }),
    Word::computed(
        "einsum-axes",
        "the order in which the axes of the first (0) or the second (1) of two operands are those of a stack of \
         matrices: batches, rows, columns; those of one kind stand as in the \"operands\" or as in the \"result\"",
        &[Text, Size, Text],
        List,
        |v| {
            let (equation, at) = (equation(v)?, place(v, 1)?);
            let product = Product::new(&equation, text(v, 2)?)?;
            positions(term(&equation, at)?, &product.factor(at).concat())
        },
    ),
    Word::computed(
        "einsum-matrices",
        "the shape of a stack of matrices, from the sizes of the axes of operand 0 or 1 in the order of `einsum-axes`",
        &[Text, Size, List],
        List,
        |v| {
            let (equation, at, sizes) = (equation(v)?, place(v, 1)?, ints(v, 2)?);
            let [batch, rows, columns] = Product::new(&equation, RESULT)?.factor(at).map(|kind| kind.len());
            if sizes.len() != batch + rows + columns {
                return Err(lengths(&equation));
            }
            let (batch, matrix) = sizes.split_at(batch);
            let (rows, columns) = matrix.split_at(rows);
            Ok(list([batch, &[size(rows)?, size(columns)?]].concat()))
        },
    ),
    Word::computed(
        "einsum-product",
        "the sizes of batches, rows and columns of the product of two stacks of matrices, from the sizes of the axes \
         of both operands in the order of `einsum-axes`",
        &[Text, List, List],
        List,
        |v| {
            let (equation, left, right) = (equation(v)?, ints(v, 1)?, ints(v, 2)?);
            let product = Product::new(&equation, RESULT)?;
            let rows = left.get(..product.batch.len() + product.left.len());
            let columns = right.get(product.batch.len() + product.inner.len()..);
            let sizes = rows.zip(columns).map(|(rows, columns)| [rows, columns].concat());
            sizes.map(list).ok_or_else(|| lengths(&equation))
        },
    ),
    Word::computed(
        "einsum-result",
        "the order by which a transpose of the product of two stacks of matrices is the result; \"operands\" or \
         \"result\" as for `einsum-axes`",
        &[Text, Text],
        List,
        |v| {
            let equation = equation(v)?;
            let product = Product::new(&equation, text(v, 1)?)?;
            positions(&[product.batch, product.left, product.right].concat(), &equation.result)
        },
    ),
    Word::computed(
        "einsum-sorted",
        "the order in which the axes of the operand at a position stand in the result, which must have all of them",
        &[Text, Size],
        List,
        |v| {
            let (equation, at) = (equation(v)?, place(v, 1)?);
            let term = term(&equation, at)?;
            if let Some(letter) = term.iter().find(|letter| !equation.result.contains(letter)) {
                return Err(format!("`{equation}` sums over `{letter}`").into());
            }
            positions(term, &kept(&equation.result, term))
        },
    ),
    Word::computed(
        "einsum-spread",
        "the shape of the operand at a position with all axes of the result, from the sizes of its axes in the order \
         of `einsum-sorted`; axes that it lacks have size 1",
        &[Text, Size, List],
        List,
        |v| {
            let (equation, at) = (equation(v)?, place(v, 1)?);
            let (term, mut sizes) = (term(&equation, at)?, ints(v, 2)?.iter());
            let own = |letter: &char| if term.contains(letter) { sizes.next().copied() } else { Some(1) };
            let spread: Option<Vec<i64>> = equation.result.iter().map(own).collect();
            spread.map(list).ok_or_else(|| lengths(&equation))
        },
    ),
    Word::computed(
        "einsum-of",
        "the equation of the operands at these positions alone: its result has all letters that are needed elsewhere",
        &[Text, List],
        Text,
        |v| {
            let parts = Parts::new(v)?;
            Ok(written(&Equation { operands: parts.taken, result: parts.taken_result }))
        },
    ),
    Word::computed(
        "einsum-but",
        "the equation of the operands that are not at these positions: its result has all letters that are needed \
         elsewhere",
        &[Text, List],
        Text,
        |v| {
            let parts = Parts::new(v)?;
            Ok(written(&Equation { operands: parts.others, result: parts.others_result }))
        },
    ),
    Word::computed(
        "einsum-joined",
        "the equation of two operands, the results of `einsum-but` and of `einsum-of`, that gives the result",
        &[Text, List],
        Text,
        |v| {
            let parts = Parts::new(v)?;
            let operands = vec![parts.others_result, parts.taken_result];
            Ok(written(&Equation { operands, result: parts.result }))
        },
    ),
];

/// Letters of one kind stand as in the result.
const RESULT: &str = "result";
/// Letters of one kind stand as in the operand, those of both operands as in the first one.
const OPERANDS: &str = "operands";

fn equation(values: &[Value<'_>]) -> Result<Equation, No> {
    Equation::read(text(values, 0)?).map_err(|why| No::from(format!("the equation {why}")))
}

fn place(values: &[Value<'_>], at: usize) -> Result<usize, No> {
    let place = int(values, at)?;
    usize::try_from(place).map_err(|_| format!("{place} is no position").into())
}

fn term(equation: &Equation, at: usize) -> Result<&[char], No> {
    equation
        .operands
        .get(at)
        .map(Vec::as_slice)
        .ok_or_else(|| format!("`{equation}` has no operand {at}").into())
}

fn pair(equation: &Equation) -> Result<[&[char]; 2], No> {
    match &equation.operands[..] {
        [left, right] => Ok([left, right]),
        operands => Err(format!("`{equation}` has {} operand(s), not two", operands.len()).into()),
    }
}

fn written(equation: &Equation) -> Value<'static> {
    Value::Attr(Attr::Str(equation.to_string().into()))
}

const fn list(values: Vec<i64>) -> Value<'static> {
    Value::Attr(Attr::Ints(values))
}

fn lengths(equation: &Equation) -> No {
    format!("the sizes are not those of `{equation}`").into()
}

fn size(sizes: &[i64]) -> Result<i64, No> {
    let product = sizes.iter().try_fold(1_i64, |product, size| product.checked_mul(*size));
    product.ok_or_else(|| format!("the product of {sizes:?} is too large").into())
}

/// Returns where in a term letters stand.
fn positions(term: &[char], letters: &[char]) -> Result<Value<'static>, No> {
    let find = |letter: &char| i64::try_from(term.iter().position(|own| own == letter)?).ok();
    let found: Option<Vec<i64>> = letters.iter().map(find).collect();
    found.map(list).ok_or_else(|| {
        let [term, letters] = [term, letters].map(|letters| letters.iter().collect::<String>());
        format!("`{term}` has not all letters of `{letters}`").into()
    })
}

fn kept(letters: &[char], by: &[char]) -> Vec<char> {
    letters.iter().copied().filter(|letter| by.contains(letter)).collect()
}

/// Returns the letters that neither another operand nor the result has.
fn alone(equation: &Equation, at: usize) -> Vec<char> {
    let others = equation.operands.iter().enumerate().filter(|(other, _)| *other != at);
    let others = union(others.map(|(_, term)| term.as_slice()).chain([equation.result.as_slice()]));
    let term = equation.operands.get(at).into_iter().flatten();
    term.copied().filter(|letter| !others.contains(letter)).collect()
}

/// Returns the letters that the operand at a position alone has. It must be the first one that has such letters, so
/// that several such operands are taken in one order.
fn first_alone(equation: &Equation, at: usize) -> Result<Vec<char>, No> {
    match (0..equation.operands.len()).find(|at| !alone(equation, *at).is_empty()) {
        Some(first) if first == at => Ok(alone(equation, at)),
        _ => Err(format!("operand {at} of `{equation}` is not the first one that alone has letters").into()),
    }
}

/// The letters of two operands, by their kinds.
struct Product {
    batch: Vec<char>,
    left: Vec<char>,
    right: Vec<char>,
    inner: Vec<char>,
}

impl Product {
    fn new(equation: &Equation, order: &str) -> Result<Self, No> {
        let [first, second] = pair(equation)?;
        if let Some(at) = (0..2).find(|at| !alone(equation, *at).is_empty()) {
            return Err(
                format!("operand {at} of `{equation}` alone has letters, which are summed first").into()
            );
        }
        let result = &equation.result[..];
        let (left, right) = match order {
            RESULT => (result, result),
            OPERANDS => (first, second),
            other => return Err(format!("\"{other}\" is neither \"operands\" nor \"result\"").into()),
        };
        let lacks = |letters: Vec<char>, by: &[char]| -> Vec<char> {
            letters.into_iter().filter(|letter| !by.contains(letter)).collect()
        };
        Ok(Self {
            batch: kept(&kept(&kept(left, first), second), result),
            left: lacks(kept(left, first), second)
                .into_iter()
                .filter(|letter| result.contains(letter))
                .collect(),
            right: lacks(kept(right, second), first)
                .into_iter()
                .filter(|letter| result.contains(letter))
                .collect(),
            inner: lacks(kept(first, second), result),
        })
    }

    /// Returns the letters of batches, rows and columns of the first or the second factor.
    fn factor(&self, at: usize) -> [Vec<char>; 3] {
        let batch = self.batch.clone();
        match at {
            0 => [batch, self.left.clone(), self.inner.clone()],
            _ => [batch, self.inner.clone(), self.right.clone()],
        }
    }
}

/// The operands of an equation in two parts. Each part gives those letters that the other one or the result has, in
/// the order of their first place: so a set of operands has one equation, whichever way leads to it.
struct Parts {
    taken: Vec<Vec<char>>,
    taken_result: Vec<char>,
    others: Vec<Vec<char>>,
    others_result: Vec<char>,
    result: Vec<char>,
}

impl Parts {
    fn new(values: &[Value<'_>]) -> Result<Self, No> {
        let (equation, places) = (equation(values)?, ints(values, 1)?);
        if let Some(at) = (0..equation.operands.len()).find(|at| !alone(&equation, *at).is_empty()) {
            return Err(
                format!("operand {at} of `{equation}` alone has letters, which are summed first").into()
            );
        }
        let (mut taken, mut others) = (Vec::new(), Vec::new());
        for (at, term) in equation.operands.iter().enumerate() {
            let part = if places.iter().any(|place| usize::try_from(*place) == Ok(at)) {
                &mut taken
            } else {
                &mut others
            };
            part.push(term.clone());
        }
        if taken.len() != places.len() || taken.is_empty() || others.is_empty() {
            return Err(format!("{places:?} are no part of the operands of `{equation}`").into());
        }
        let gives = |part: &[Vec<char>], other: &[Vec<char>]| {
            let needed = union(other.iter().map(Vec::as_slice).chain([equation.result.as_slice()]));
            kept(&union(part.iter().map(Vec::as_slice)), &needed)
        };
        let (taken_result, others_result) = (gives(&taken, &others), gives(&others, &taken));
        Ok(Self { taken, taken_result, others, others_result, result: equation.result })
    }
}
