//! `einsum`: sums of products of elements, which an equation of letters says, such as `ab,bc->ac`.

use super::{Arity, AttrDef, Flags, OpDef, OpError, plain, shape};
use crate::attr::{AttrKind, Attrs};
use crate::tensor::{Tensor, TensorType};

pub(super) fn ops() -> Vec<OpDef> {
    let doc = "letters for the axes of each operand and, after the arrow, of the result; in each of them all letters \
               differ";
    vec![OpDef {
        name: "einsum",
        doc: "the product of elements of all operands, summed over the letters that the result lacks; axes with one \
              letter have one size",
        arity: Arity::AtLeast(1),
        attrs: vec![AttrDef::new("equation", AttrKind::Str, None, doc)],
        flags: Flags::independent(letters_of_result),
        infer,
        eval,
        flops,
        sample: None,
        lowered: None,
    }]
}

/// An axis is kept if the result has its letter.
fn letters_of_result(attrs: &Attrs, _: &[&TensorType], _: &TensorType) -> Vec<Vec<Option<usize>>> {
    let Ok(equation) = Equation::read(attrs.expect_str("equation")) else { return Vec::new() };
    let place = |letter: &char| equation.result.iter().position(|own| own == letter);
    equation.operands.iter().map(|term| term.iter().map(place).collect()).collect()
}

/// What is wrong with the text of an equation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EquationError {
    #[error("is `{0}`, which has no arrow `->` before the letters of the result")]
    Arrow(String),
    #[error("has `{0}`, which is no letter")]
    Letter(char),
    #[error("has `{0}` twice in one term")]
    Twice(char),
    #[error("has `{0}` in the result and in no operand")]
    Unknown(char),
}

/// An equation: letters for the axes of each operand and of the result. A term has no letter twice, and the result
/// has only letters that an operand has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Equation {
    /// The letters of each operand.
    pub operands: Vec<Vec<char>>,
    /// The letters of the result.
    pub result: Vec<char>,
}

impl Equation {
    /// Reads an equation without blanks.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn read(text: &str) -> Result<Self, EquationError> {
        let (left, right) = text.split_once("->").ok_or_else(|| EquationError::Arrow(text.to_owned()))?;
        let operands = left.split(',').map(letters).collect::<Result<Vec<_>, _>>()?;
        let result = letters(right)?;
        match result.iter().find(|letter| !operands.iter().any(|own| own.contains(letter))) {
            Some(letter) => Err(EquationError::Unknown(*letter)),
            None => Ok(Self { operands, result }),
        }
    }
}

impl std::fmt::Display for Equation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let terms: Vec<String> = self.operands.iter().map(|term| term.iter().collect()).collect();
        write!(f, "{}->{}", terms.join(","), self.result.iter().collect::<String>())
    }
}

fn letters(term: &str) -> Result<Vec<char>, EquationError> {
    let mut letters = Vec::new();
    for letter in term.chars() {
        if !letter.is_alphabetic() {
            return Err(EquationError::Letter(letter));
        }
        if letters.contains(&letter) {
            return Err(EquationError::Twice(letter));
        }
        letters.push(letter);
    }
    Ok(letters)
}

/// Returns the letters of several terms, each once, in order of their first place.
pub(crate) fn union<'a>(terms: impl IntoIterator<Item = &'a [char]>) -> Vec<char> {
    let mut letters = Vec::new();
    for letter in terms.into_iter().flatten() {
        if !letters.contains(letter) {
            letters.push(*letter);
        }
    }
    letters
}

fn infer(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    plain(types)?;
    let equation = Equation::read(attrs.expect_str("equation"))
        .map_err(|why| OpError::attribute("equation", why.to_string()))?;
    if equation.operands.len() != types.len() {
        let why = format!("has {} operands, and there are {}", equation.operands.len(), types.len());
        return Err(OpError::attribute("equation", why));
    }
    // Moving axes is all that is done with one operand whose letters the result has, whatever its elements are.
    let moves = types.len() == 1 && equation.operands[0].len() == equation.result.len();
    let mut sizes: Vec<(char, usize)> = Vec::new();
    for (at, (term, ty)) in equation.operands.iter().zip(types).enumerate() {
        if term.len() != ty.shape.rank() {
            let term: String = term.iter().collect();
            return Err(OpError::operand(at, ty, format!(", for which the equation has `{term}`")));
        }
        if ty.dtype != types[0].dtype {
            return Err(OpError::operand(at, ty, format!(", operand 0 {}", types[0])));
        }
        if !moves && !ty.dtype.is_number() {
            return Err(OpError::operand(at, ty, ", not a number"));
        }
        for (letter, size) in term.iter().zip(ty.shape.iter()) {
            match sizes.iter().find(|(known, _)| known == letter) {
                Some((_, known)) if known != size => {
                    let why = format!(", in which `{letter}` has size {size} and before {known}");
                    return Err(OpError::operand(at, ty, why));
                }
                Some(_) => {}
                None => sizes.push((*letter, *size)),
            }
        }
    }
    Ok(TensorType::plain(types[0].dtype, sizes_of(&equation.result, &sizes)))
}

/// Returns the sizes of letters. All of them are known.
fn sizes_of(letters: &[char], sizes: &[(char, usize)]) -> Vec<usize> {
    letters
        .iter()
        .filter_map(|letter| sizes.iter().find(|(known, _)| known == letter))
        .map(|(_, size)| *size)
        .collect()
}

/// A value while an equation is evaluated: its letters and its elements.
struct Term<T> {
    letters: Vec<char>,
    values: Vec<T>,
}

/// Multiplies the operands one after another. Letters that nothing else needs are summed as soon as possible.
fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let equation = Equation::read(attrs.expect_str("equation")).expect("infer accepted");
    if let ([operand], [term]) = (operands, &equation.operands[..])
        && term.len() == equation.result.len()
    {
        let axis = |letter: &char| term.iter().position(|own| own == letter).unwrap_or(0);
        let strides = operand.ty().shape.strides();
        let steps: Vec<isize> =
            equation.result.iter().map(|letter| strides[axis(letter)].cast_signed()).collect();
        return shape::copy_strided(operand, ty, 0, &steps);
    }
    let sizes: Vec<(char, usize)> = equation
        .operands
        .iter()
        .zip(operands)
        .flat_map(|(term, operand)| term.iter().copied().zip(operand.ty().shape.iter().copied()))
        .collect();
    let integers: Option<Vec<Vec<i128>>> = operands.iter().map(|operand| operand.to_i128()).collect();
    match integers {
        // Integers wrap as on the hardware.
        Some(values) => {
            let result =
                contract(&equation, values, &sizes, 1, |sum: i128, a, b| sum.wrapping_add(a.wrapping_mul(b)));
            Tensor::from_i128(ty.dtype, ty.shape.clone(), &result)
        }
        None => {
            let values = operands.iter().map(|operand| operand.to_f64()).collect();
            let result = contract(&equation, values, &sizes, 1.0, |sum: f64, a, b| sum + a * b);
            Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
        }
    }
}

/// `add(sum, a, b)` must return `sum + a * b`.
fn contract<T: Copy + Default>(
    equation: &Equation,
    values: Vec<Vec<T>>,
    sizes: &[(char, usize)],
    one: T,
    add: impl Fn(T, T, T) -> T,
) -> Vec<T> {
    let mut result = Term { letters: Vec::new(), values: vec![one] };
    for (at, values) in values.into_iter().enumerate() {
        let next = Term { letters: equation.operands[at].clone(), values };
        let rest = equation.operands[at + 1..].iter().map(Vec::as_slice);
        let later = union(rest.chain([&equation.result[..]]));
        let needed = union([&later[..], &result.letters]);
        let unit = Term { letters: Vec::new(), values: vec![one] };
        let next = multiply(&unit, &next, &kept(&next.letters, &needed), sizes, &add);
        let all = union([&result.letters[..], &next.letters]);
        result = multiply(&result, &next, &kept(&all, &later), sizes, &add);
    }
    let unit = Term { letters: Vec::new(), values: vec![one] };
    multiply(&unit, &result, &equation.result, sizes, &add).values
}

fn kept(letters: &[char], needed: &[char]) -> Vec<char> {
    letters.iter().copied().filter(|letter| needed.contains(letter)).collect()
}

/// Multiplies two terms and sums over the letters that the result lacks.
fn multiply<T: Copy + Default>(
    a: &Term<T>,
    b: &Term<T>,
    result: &[char],
    sizes: &[(char, usize)],
    add: impl Fn(T, T, T) -> T,
) -> Term<T> {
    let all = union([&a.letters[..], &b.letters]);
    let dims = sizes_of(&all, sizes);
    let steps = [&a.letters[..], &b.letters, result].map(|letters| steps(letters, &all, sizes));
    let mut values = vec![T::default(); sizes_of(result, sizes).iter().product()];
    let mut index = vec![0; all.len()];
    let mut at = [0_usize; 3];
    for _ in 0..dims.iter().product() {
        values[at[2]] = add(values[at[2]], a.values[at[0]], b.values[at[1]]);
        for axis in (0..all.len()).rev() {
            index[axis] += 1;
            at.iter_mut().zip(&steps).for_each(|(at, steps)| *at += steps[axis]);
            if index[axis] < dims[axis] {
                break;
            }
            index[axis] = 0;
            at.iter_mut().zip(&steps).for_each(|(at, steps)| *at -= steps[axis] * dims[axis]);
        }
    }
    Term { letters: result.to_vec(), values }
}

/// Returns the distance in a term for one step along each letter of `all`.
fn steps(letters: &[char], all: &[char], sizes: &[(char, usize)]) -> Vec<usize> {
    let dims = sizes_of(letters, sizes);
    let step = |letter: &char| {
        let at = letters.iter().position(|own| own == letter)?;
        Some(dims[at + 1..].iter().product())
    };
    all.iter().map(|letter| step(letter).unwrap_or(0)).collect()
}

/// The operations of [`eval`]: a multiplication and an addition for each element of a product before it is summed.
#[allow(clippy::cast_precision_loss)]
fn flops(attrs: &Attrs, types: &[&TensorType], _: &TensorType) -> f64 {
    let Ok(equation) = Equation::read(attrs.expect_str("equation")) else { return 0.0 };
    let size = |letter: &char| {
        let of = |(term, ty): (&Vec<char>, &&TensorType)| {
            Some(ty.shape[term.iter().position(|own| own == letter)?] as f64)
        };
        equation.operands.iter().zip(types).find_map(of).unwrap_or(1.0)
    };
    let mut letters: Vec<char> = Vec::new();
    let mut flops = 0.0;
    for at in 0..equation.operands.len() {
        let rest = equation.operands[at + 1..].iter().map(Vec::as_slice);
        let later = union(rest.chain([&equation.result[..]]));
        let needed = union([&later[..], &letters]);
        let next = &equation.operands[at];
        let all = union([&letters[..], &kept(next, &needed)]);
        flops += next.iter().map(size).product::<f64>();
        flops += if at == 0 { 0.0 } else { 2.0 * all.iter().map(size).product::<f64>() };
        letters = kept(&all, &later);
    }
    flops
}
