//! `Einsum`: its equation in the form that the op `einsum` takes.

use super::{ANY, Call, ImportedValue, Operator, Results, entry};
use crate::attr::{Attr, Attrs};
use crate::onnx::Refusal;
use crate::onnx::call::signed;
use crate::tensor::Tensor;

pub(super) const TABLE: &[Operator] = &[entry("Einsum", 1, ANY, einsum)];

/// An operand with a label for each axis: a letter, or a digit for an axis of an ellipsis.
struct Term {
    value: ImportedValue,
    labels: Vec<char>,
}

fn einsum(call: &mut Call<'_>) -> Results {
    let equation: String = call.text("equation", "")?.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation.as_str(), None),
    };
    let written: Vec<&str> = left.split(',').collect();
    if written.len() != call.input_count() {
        let why = format!("names {} operands, and there are {}", written.len(), call.input_count());
        return Err(Refusal::attribute("equation", why));
    }
    let mut terms = Vec::with_capacity(written.len());
    for (at, text) in written.iter().enumerate() {
        terms.push(labelled(text, call.input(at)?)?);
    }
    let output = match right {
        Some(right) => {
            let dots = terms.iter().flat_map(|term| &term.labels).filter(|label| label.is_ascii_digit());
            let count = dots.map(|label| label.to_digit(10).map_or(0, |digit| digit as usize + 1)).max();
            expanded(right, count.unwrap_or(0))
        }
        None => implicit(&terms),
    };
    for (at, term) in terms.iter_mut().enumerate() {
        diagonal(call, at, term)?;
    }
    let terms = broadcast(call, terms)?;
    // A digit of the result is an axis of an ellipsis that an operand has.
    if let Some(label) = output.iter().find(|label| !terms.iter().any(|term| term.labels.contains(label))) {
        let why = format!("has `{label}` in the result and in no operand");
        return Err(Refusal::attribute("equation", why));
    }
    let attrs = Attrs::new().with("equation", Attr::Str(equation_of(&terms, &output).into()));
    let operands: Vec<&ImportedValue> = terms.iter().map(|term| &term.value).collect();
    Ok(vec![call.result("einsum", attrs, &operands)?])
}

/// Takes away axes of size 1 whose label has another size in another operand: they are broadcast, and so the operand
/// has one element for all places of that label.
fn broadcast(call: &mut Call<'_>, terms: Vec<Term>) -> Result<Vec<Term>, Refusal> {
    let mut sizes: Vec<(char, usize)> = Vec::new();
    for term in &terms {
        for (label, size) in term.labels.iter().zip(term.value.dims()) {
            match sizes.iter_mut().find(|(known, _)| known == label) {
                None => sizes.push((*label, *size)),
                Some((_, known)) if *known == 1 => *known = *size,
                Some((_, known)) if *known != *size && *size != 1 => {
                    let why = format!("gives `{label}` the sizes {known} and {size}");
                    return Err(Refusal::attribute("equation", why));
                }
                Some(_) => {}
            }
        }
    }
    let mut kept = Vec::with_capacity(terms.len());
    for (at, term) in terms.into_iter().enumerate() {
        let stays =
            |label: &char, size: usize| sizes.iter().any(|(known, most)| known == label && *most == size);
        let axes = term.labels.iter().zip(term.value.dims());
        let (labels, dims): (Vec<char>, Vec<usize>) =
            axes.filter(|(label, size)| stays(label, **size)).map(|(label, size)| (*label, *size)).unzip();
        let value = call.reshape(Some(&format!("operand-{at}-broadcast")), &term.value, &dims)?;
        kept.push(Term { value, labels });
    }
    Ok(kept)
}

/// Writes an equation. Axes of an ellipsis get letters that the model does not use.
fn equation_of(terms: &[Term], output: &[char]) -> String {
    let labels: Vec<char> = terms.iter().flat_map(|term| term.labels.iter().copied()).collect();
    let free = ('A'..=char::MAX).filter(|letter| letter.is_alphabetic() && !labels.contains(letter));
    let mut digits: Vec<char> = labels.iter().copied().filter(char::is_ascii_digit).collect();
    digits.sort_unstable_by(|a, b| b.cmp(a));
    digits.dedup();
    let letters: Vec<(char, char)> = digits.into_iter().zip(free).collect();
    let letter = |label: &char| {
        let found = letters.iter().find(|(digit, _)| digit == label);
        found.map_or(*label, |(_, letter)| *letter)
    };
    let word = |labels: &[char]| labels.iter().map(letter).collect::<String>();
    let operands: Vec<String> = terms.iter().map(|term| word(&term.labels)).collect();
    format!("{}->{}", operands.join(","), word(output))
}

/// Returns the labels of a text. An ellipsis stands for as many digits as the operand has further axes, which are
/// counted from the last one.
fn labelled(text: &str, value: ImportedValue) -> Result<Term, Refusal> {
    let letters = text.replace("...", "").chars().count();
    let further = value.rank().checked_sub(letters);
    let fits = further.is_some_and(|further| further == 0 || text.contains("..."));
    let labels = expanded(text, further.unwrap_or(0));
    if !fits || labels.len() != value.rank() || !text.replace("...", "").chars().all(char::is_alphabetic) {
        return Err(Refusal::attribute("equation", format!("has `{text}` for {}", value.ty)));
    }
    Ok(Term { value, labels })
}

/// Replaces an ellipsis by digits, the last axis being 0.
fn expanded(text: &str, further: usize) -> Vec<char> {
    let digits: String =
        (0..further).rev().filter_map(|at| char::from_digit(u32::try_from(at).ok()?, 10)).collect();
    text.replace("...", &digits).chars().collect()
}

/// Without a result, it has the axes of the ellipsis, and then those labels that occur once, in alphabetical order.
fn implicit(terms: &[Term]) -> Vec<char> {
    let all: Vec<char> = terms.iter().flat_map(|term| term.labels.iter().copied()).collect();
    let mut dots: Vec<char> = all.iter().copied().filter(char::is_ascii_digit).collect();
    let mut once: Vec<char> = all
        .iter()
        .copied()
        .filter(|label| label.is_alphabetic() && all.iter().filter(|other| *other == label).count() == 1)
        .collect();
    dots.sort_unstable_by(|a, b| b.cmp(a));
    dots.dedup();
    once.sort_unstable();
    [dots, once].concat()
}

/// Takes the diagonal of two axes with one label.
fn diagonal(call: &mut Call<'_>, at: usize, term: &mut Term) -> Result<(), Refusal> {
    for round in 0.. {
        let twice = (0..term.labels.len()).find_map(|first| {
            let second =
                (first + 1..term.labels.len()).find(|other| term.labels[*other] == term.labels[first])?;
            Some((first, second))
        });
        let Some((first, second)) = twice else { break };
        let size = term.value.dims()[first];
        if term.value.dims()[second] != size {
            return Err(Refusal::attribute(
                "equation",
                format!("names axes of other sizes of {}", term.value.ty),
            ));
        }
        // Both axes come last and become one, of which every element size + 1 steps after another is taken.
        let mut order: Vec<usize> =
            (0..term.labels.len()).filter(|at| *at != first && *at != second).collect();
        let labels: Vec<char> = order.iter().map(|at| term.labels[*at]).chain([term.labels[first]]).collect();
        let mut dims: Vec<usize> = order.iter().map(|at| term.value.dims()[*at]).collect();
        order.extend([first, second]);
        let name = format!("operand-{at}-diagonal-{round}");
        let attrs = Attrs::new().ints("perm", &signed(&order));
        let turned = call.helper(&format!("{name}-last"), "transpose", attrs, &[&term.value])?;
        dims.push(size * size);
        let flat = call.reshape(Some(&format!("{name}-flat")), &turned, &dims)?;
        let positions: Vec<i64> = signed(&(0..size).map(|index| index * (size + 1)).collect::<Vec<_>>());
        let positions =
            call.constant(&format!("{name}-positions"), Tensor::from_elements([size], &positions));
        let axis = signed(&[dims.len() - 1])[0];
        let value = call.helper(&name, "gather", Attrs::new().int("axis", axis), &[&flat, &positions])?;
        *term = Term { value, labels };
    }
    Ok(())
}
