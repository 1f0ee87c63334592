//! `Einsum`: operands are multiplied one after another, as matrix products of what they share.

use super::{ANY, Call, ImportedValue, Operator, Results, entry};
use crate::attr::Attrs;
use crate::onnx::Refusal;
use crate::onnx::call::signed;
use crate::tensor::Tensor;

pub(super) const TABLE: &[Operator] = &[entry("Einsum", 1, ANY, einsum)];

/// An operand with a label for each axis.
struct Term {
    value: ImportedValue,
    labels: Vec<char>,
}

impl Term {
    fn size(&self, label: char) -> Option<usize> {
        let at = self.labels.iter().position(|own| *own == label)?;
        Some(self.value.dims()[at])
    }

    /// Brings the axes into an order. Axes that the operand lacks get the size 1.
    fn ordered(&self, call: &mut Call<'_>, name: &str, order: &[char]) -> Result<ImportedValue, Refusal> {
        let own: Vec<char> = order.iter().copied().filter(|label| self.labels.contains(label)).collect();
        let find = |label: &char| self.labels.iter().position(|known| known == label).unwrap_or(0);
        let perm: Vec<usize> = own.iter().map(find).collect();
        let mut value = self.value.clone();
        if !perm.iter().copied().eq(0..perm.len()) {
            value = call.helper(name, "transpose", Attrs::new().ints("perm", &signed(&perm)), &[&value])?;
        }
        let dims: Vec<usize> = order.iter().map(|label| self.size(*label).unwrap_or(1)).collect();
        call.reshape(Some(&format!("{name}-axes")), &value, &dims)
    }

    /// Sums over the axes whose labels nothing else needs.
    fn summed(mut self, call: &mut Call<'_>, name: &str, needed: &[char]) -> Result<Self, Refusal> {
        let gone: Vec<usize> =
            (0..self.labels.len()).filter(|at| !needed.contains(&self.labels[*at])).collect();
        if !gone.is_empty() {
            let attrs = Attrs::new().ints("axes", &signed(&gone)).int("keepdims", 0);
            self.value = call.helper(name, "reduce-sum", attrs, &[&self.value])?;
            self.labels.retain(|label| needed.contains(label));
        }
        Ok(self)
    }
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
        let value = call.input(at)?;
        terms.push(diagonal(call, at, labelled(text, value)?)?);
    }
    let output = match right {
        Some(right) => {
            let dots = terms.iter().flat_map(|term| &term.labels).filter(|label| label.is_ascii_digit());
            let count = dots.map(|label| label.to_digit(10).map_or(0, |digit| digit as usize + 1)).max();
            expanded(right, count.unwrap_or(0))
        }
        None => implicit(&terms),
    };
    let mut terms = terms.into_iter();
    let first = terms.next().ok_or(Refusal::Operand(0))?;
    let mut rest: Vec<Term> = terms.collect();
    let needed = |rest: &[Term]| -> Vec<char> {
        rest.iter().flat_map(|term| term.labels.iter().copied()).chain(output.iter().copied()).collect()
    };
    let mut product = first.summed(call, "operand-0-sum", &needed(&rest))?;
    for step in 1..=rest.len() {
        let next = rest.remove(0);
        let mut wanted = needed(&rest);
        wanted.extend(&product.labels);
        let next = next.summed(call, &format!("operand-{step}-sum"), &wanted)?;
        product = multiplied(call, step, &product, &next, &needed(&rest))?;
        product = product.summed(call, &format!("product-{step}-sum"), &needed(&rest))?;
    }
    let result = product.ordered(call, "ordered", &output)?;
    Ok(vec![call.result("expand", Attrs::new().ints("shape", &signed(result.dims())), &[&result])?])
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
fn diagonal(call: &mut Call<'_>, at: usize, mut term: Term) -> Result<Term, Refusal> {
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
        term = Term { value, labels };
    }
    Ok(term)
}

/// Multiplies two operands: labels that both have and that are needed are batches, others that both have are summed.
fn multiplied(
    call: &mut Call<'_>,
    step: usize,
    a: &Term,
    b: &Term,
    needed: &[char],
) -> Result<Term, Refusal> {
    for label in a.labels.iter().filter(|label| b.labels.contains(label)) {
        let (have, other) = (a.size(*label).unwrap_or(1), b.size(*label).unwrap_or(1));
        if have != other && have != 1 && other != 1 {
            let why = format!("gives `{label}` the sizes {have} and {other}");
            return Err(Refusal::attribute("equation", why));
        }
    }
    let both = |label: &char| b.labels.contains(label);
    // A label with the size 1 on one side only cannot be summed by a matrix product.
    let equal = |label: &char| a.size(*label) == b.size(*label);
    let shared: Vec<char> = a.labels.iter().copied().filter(both).collect();
    let (batch, inner): (Vec<char>, Vec<char>) =
        shared.iter().copied().partition(|label| needed.contains(label) || !equal(label));
    let rows: Vec<char> = a.labels.iter().copied().filter(|label| !both(label)).collect();
    let columns: Vec<char> = b.labels.iter().copied().filter(|label| !a.labels.contains(label)).collect();
    let left = a.ordered(call, &format!("left-{step}"), &[&batch[..], &rows, &inner].concat())?;
    let right = b.ordered(call, &format!("right-{step}"), &[&batch[..], &inner, &columns].concat())?;
    let sizes = |term: &Term, labels: &[char]| -> Vec<usize> {
        labels.iter().map(|label| term.size(*label).unwrap_or(1)).collect()
    };
    let product = |list: &[usize]| list.iter().product::<usize>();
    let (m, k, n) = (product(&sizes(a, &rows)), product(&sizes(a, &inner)), product(&sizes(b, &columns)));
    let left = call.reshape(
        Some(&format!("left-{step}-matrix")),
        &left,
        &[&sizes(a, &batch)[..], &[m, k]].concat(),
    )?;
    let right = call.reshape(
        Some(&format!("right-{step}-matrix")),
        &right,
        &[&sizes(b, &batch)[..], &[k, n]].concat(),
    )?;
    let joined = call.helper(&format!("product-{step}"), "matmul", Attrs::new(), &[&left, &right])?;
    let outer: Vec<usize> = joined.dims()[..batch.len()].to_vec();
    let dims = [&outer[..], &sizes(a, &rows), &sizes(b, &columns)].concat();
    let value = call.reshape(Some(&format!("product-{step}-axes")), &joined, &dims)?;
    Ok(Term { value, labels: [batch, rows, columns].concat() })
}
