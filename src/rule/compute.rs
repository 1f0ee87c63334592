//! Computed attributes. If an attribute cannot be computed, the error says why.

use super::Kind::{self, Chain, Float as Real, Integer, List, Number, Operand, Rest, Same, Size, Step, Text};
use super::expr::Eval;
use super::expr::argument::{attr, float, int, ints, operand, post, rest, text};
use super::part::{Part, before_reshape};
use super::signature::LARGEST;
use super::{No, Value, Word, literal};
use crate::attr::{Attr, Float};
use crate::op::recurrent::Activation;

/// All computed attributes. A new one needs only an entry here.
pub(super) const COMPUTED: &[Word] = &[
    function(
        "dim",
        "the size of an axis; a negative one counts from the end",
        &[Operand, Integer],
        Integer,
        |v| {
            let shape = &operand(v, 0)?.ty.shape;
            let axis = int(v, 1)?;
            let from_end = if axis < 0 { axis + whole(shape.rank())? } else { axis };
            let size = usize::try_from(from_end).ok().and_then(|axis| shape.get(axis));
            Ok(number(whole(*size.ok_or_else(|| {
                format!("{} has no axis {axis}", operand(v, 0).map(|f| f.ty.to_string()).unwrap_or_default())
            })?)?))
        },
    ),
    function("rank-of", "the number of dimensions", &[Operand], Integer, |v| {
        Ok(number(whole(operand(v, 0)?.ty.shape.rank())?))
    }),
    function("shape-of", "the shape", &[Operand], List, |v| {
        Ok(list(operand(v, 0)?.ty.shape.iter().map(|size| whole(*size)).collect::<Result<_, _>>()?))
    }),
    function("layout-of", "the layout", &[Operand], Kind::Layout, |v| {
        Ok(Value::Attr(Attr::Layout(operand(v, 0)?.ty.layout.clone())))
    }),
    function(
        "stored-layout",
        "the sparse layout that stores those blocks of a layout in which the constant has anything but zeros, which are at most half of all",
        &[Operand, Kind::Layout],
        Kind::Layout,
        |v| {
            let fact = operand(v, 0)?;
            let Attr::Layout(layout) = attr(v, 1)? else {
                return Err(format!("{} is no layout", v.show(1)).into());
            };
            let value = fact.leaf.or(fact.value);
            let value = value.ok_or_else(|| format!("the value of {} is not known", v.show(0)))?;
            if layout.rank() != Some(fact.ty.shape.rank()) {
                return Err(format!("layout {layout} does not fit {}", fact.ty).into());
            }
            let stored = value.blocks_in_use(layout).and_then(|stored| layout.sparse(stored));
            let full = || format!("{} has anything but zeros in more than half of its blocks", v.show(0));
            Ok(Value::Attr(Attr::Layout(stored.ok_or_else(full)?)))
        },
    ),
    function("count", "how many operands a rest has", &[Rest], Integer, |v| {
        Ok(number(whole(rest(v, 0)?.len())?))
    }),
    function("size-along", "the sum of the sizes of operands along an axis", &[Rest, Size], Integer, |v| {
        let axis = size(int(v, 1)?)?;
        let mut sum = 0_i64;
        for fact in rest(v, 0)? {
            let size = fact.ty.shape.get(axis).ok_or_else(|| format!("{} has no axis {axis}", fact.ty))?;
            sum = sum.checked_add(whole(*size)?).ok_or("the sum is too large".to_owned())?;
        }
        Ok(number(sum))
    }),
    function("scalar-of", "the value of a constant of one element", &[Operand], Real, |v| {
        let fact = operand(v, 0)?;
        let value = fact
            .value
            .and_then(|value| value.to_f64().first().copied())
            .filter(|_| fact.ty.shape.count() == 1);
        Ok(Value::Attr(Attr::Float(Float(value.ok_or_else(|| format!("{} is no known scalar", fact.ty))?))))
    }),
    function("integer-of", "the value of an integer constant of one element", &[Operand], Integer, |v| {
        let fact = operand(v, 0)?;
        let value = fact.value.filter(|_| fact.ty.shape.count() == 1).and_then(|value| value.to_i64()?.pop());
        value.map(number).ok_or_else(|| format!("{} is no known integer", fact.ty).into())
    }),
    function("add", "the sum", &[Number, Number], Number, |v| arithmetic(v, i64::checked_add, |a, b| a + b)),
    function("sub", "the difference", &[Number, Number], Number, |v| {
        arithmetic(v, i64::checked_sub, |a, b| a - b)
    }),
    function("mul", "the product", &[Number, Number], Number, |v| {
        arithmetic(v, i64::checked_mul, |a, b| a * b)
    }),
    function("div", "the quotient; integers truncate", &[Number, Number], Number, |v| {
        arithmetic(v, i64::checked_div, |a, b| a / b)
    }),
    open(
        function("list", "a list of integers", &[], List, |v| {
            Ok(list((0..v.len()).map(|at| int(v, at)).collect::<Result<_, _>>()?))
        }),
        Integer,
    ),
    function("at", "an entry of a list", &[List, Size], Integer, |v| {
        let (entries, at) = (ints(v, 0)?, int(v, 1)?);
        let entry = usize::try_from(at).ok().and_then(|at| entries.get(at));
        entry.map(|entry| number(*entry)).ok_or_else(|| format!("{entries:?} has no entry {at}").into())
    }),
    function("length", "how many entries a list has", &[List], Integer, |v| {
        Ok(number(whole(ints(v, 0)?.len())?))
    }),
    function("product", "the product of a list", &[List], Integer, |v| {
        let entries = ints(v, 0)?;
        let product = entries.iter().try_fold(1_i64, |product, entry| product.checked_mul(*entry));
        product.map(number).ok_or_else(|| format!("the product of {entries:?} is too large").into())
    }),
    function("zeros", "a list of this number of zeros", &[Size], List, |v| {
        Ok(list(vec![0; size(int(v, 0)?)?]))
    }),
    function("ones", "a list of this number of ones", &[Size], List, |v| {
        Ok(list(vec![1; size(int(v, 0)?)?]))
    }),
    function(
        "after-ones",
        "the list after so many ones that it has this number of entries, as the shape of an operand that is broadcast",
        &[List, Size],
        List,
        |v| {
            let (entries, wanted) = (ints(v, 0)?, size(int(v, 1)?)?);
            let missing = wanted.checked_sub(entries.len());
            let missing = missing.ok_or_else(|| format!("{entries:?} has more than {wanted} entries"))?;
            Ok(list([vec![1; missing], entries.to_vec()].concat()))
        },
    ),
    function("with-at", "the list with another entry at a position", &[List, Size, Integer], List, |v| {
        let mut entries = ints(v, 0)?.to_vec();
        let at = size(int(v, 1)?)?;
        *entries.get_mut(at).ok_or_else(|| format!("there is no entry {at}"))? = int(v, 2)?;
        Ok(list(entries))
    }),
    function("without", "the list without an entry", &[List, Size], List, |v| {
        let (mut entries, at) = (ints(v, 0)?.to_vec(), size(int(v, 1)?)?);
        if at >= entries.len() {
            return Err(format!("{entries:?} has no entry {at}").into());
        }
        entries.remove(at);
        Ok(list(entries))
    }),
    function("permute", "the list in another order: entry i is entry order[i]", &[List, List], List, |v| {
        permute(ints(v, 0)?, ints(v, 1)?)
    }),
    function(
        "perm-compose",
        "the order of transposing by the first, then by the second",
        &[List, List],
        List,
        |v| permute(ints(v, 0)?, ints(v, 1)?),
    ),
    function("inverse-of", "the inverse of an order of axes", &[List], List, |v| {
        let order = ints(v, 0)?;
        let places = 0..whole(order.len())?;
        let inverse = places.map(|axis| order.iter().position(|entry| *entry == axis).map(whole)?.ok());
        inverse
            .collect::<Option<_>>()
            .map(list)
            .ok_or_else(|| format!("{order:?} is not an order of axes").into())
    }),
    function(
        "perm-without",
        "the order of the axes that remain where the axis at a position of the result is removed, and so is the operand's axis that it comes from",
        &[List, Size],
        List,
        |v| {
            let (order, at) = (ints(v, 0)?, size(int(v, 1)?)?);
            let removed = *order.get(at).ok_or_else(|| format!("{order:?} has no entry {at}"))?;
            let others = order.iter().filter(|axis| **axis != removed);
            Ok(list(others.map(|axis| axis - i64::from(*axis > removed)).collect()))
        },
    ),
    function(
        "reshaped-starts",
        "where the part of a reshape's operand begins that makes up a part of its result; arguments: starts and sizes of the part of the result, the result's shape, the operand's shape",
        &[List, List, List, List],
        List,
        |v| Ok(list(reshaped(v)?.0)),
    ),
    function(
        "reshaped-sizes",
        "the sizes of that part of the operand; the same arguments",
        &[List, List, List, List],
        List,
        |v| Ok(list(reshaped(v)?.1)),
    ),
    open(
        function("then", "the chain with one more step, with these parameters", &[Chain, Step], Chain, |v| {
            let mut steps = post(v, 0)?.to_vec();
            let parameters = (2..v.len()).map(|at| float(v, at).map(Float)).collect::<Result<_, _>>()?;
            steps.push(literal::step(post(v, 1)?[0].op, parameters)?);
            Ok(Value::Attr(Attr::Post(steps)))
        }),
        Number,
    ),
    function("then-all", "the first chain, then the second one", &[Chain, Chain], Chain, |v| {
        Ok(Value::Attr(Attr::Post([post(v, 0)?, post(v, 1)?].concat())))
    }),
    function("times", "the chain, this number of times in succession", &[Chain, Size], Chain, |v| {
        Ok(Value::Attr(Attr::Post(vec![post(v, 0)?; size(int(v, 1)?)?].concat())))
    }),
    function(
        "items",
        "a part of a text whose items are separated by commas: from a position on, so many items",
        &[Text, Size, Size],
        Text,
        |v| {
            let (items, from, count) = (text(v, 0)?, size(int(v, 1)?)?, size(int(v, 2)?)?);
            let part: Vec<&str> = items.split(',').map(str::trim).skip(from).take(count).collect();
            if part.len() < count {
                return Err(format!("`{items}` has no {count} item(s) from {from} on").into());
            }
            Ok(Value::Attr(Attr::Str(part.join(",").into())))
        },
    ),
    function(
        "activation",
        "the steps of an activation of a recurrent layer: of its `activations`, the one at this position, whose operand has at most the magnitude `clip`; 0 for no limit",
        &[Text, Size, Real],
        Chain,
        |v| {
            let (list, at, clip) = (text(v, 0)?, size(int(v, 1)?)?, float(v, 2)?);
            let activations =
                Activation::list(list).ok_or_else(|| format!("`{list}` names no activations"))?;
            let one = activations.get(at).ok_or_else(|| format!("`{list}` has no item {at}"))?;
            Ok(Value::Attr(Attr::Post(one.steps(clip))))
        },
    ),
    function("steps", "how many steps a chain has", &[Chain], Integer, |v| {
        Ok(number(whole(post(v, 0)?.len())?))
    }),
    function("max-of", "the larger number", &[Number, Same], Number, |v| {
        Ok(Value::Attr(if float(v, 0)? >= float(v, 1)? { attr(v, 0)? } else { attr(v, 1)? }.clone()))
    }),
];

const fn function(
    name: &'static str,
    doc: &'static str,
    takes: &'static [Kind],
    gives: Kind,
    eval: Eval,
) -> Word {
    Word { name, doc, takes, more: None, gives, eval }
}

/// Returns a function that accepts any number of further arguments.
const fn open(function: Word, more: Kind) -> Word {
    Word { more: Some(more), ..function }
}

const fn number(value: i64) -> Value<'static> {
    Value::Attr(Attr::Int(value))
}

const fn list(values: Vec<i64>) -> Value<'static> {
    Value::Attr(Attr::Ints(values))
}

fn whole(value: usize) -> Result<i64, String> {
    i64::try_from(value).map_err(|_| format!("{value} is too large"))
}

fn size(value: i64) -> Result<usize, String> {
    let size = usize::try_from(value).map_err(|_| format!("{value} is negative"))?;
    if value > LARGEST {
        return Err(format!("{value} is more than any list has: {LARGEST} at most"));
    }
    Ok(size)
}

fn arithmetic(
    values: &[Value<'_>],
    whole: fn(i64, i64) -> Option<i64>,
    real: fn(f64, f64) -> f64,
) -> Result<Value<'static>, No> {
    if let (Ok(a), Ok(b)) = (int(values, 0), int(values, 1)) {
        return whole(a, b).map(number).ok_or_else(|| format!("{a} and {b} have no such result").into());
    }
    Ok(Value::Attr(Attr::Float(Float(real(float(values, 0)?, float(values, 1)?)))))
}

/// Returns the part of a reshape's operand that becomes the given part of its result.
fn reshaped(values: &[Value<'_>]) -> Result<Part, No> {
    Ok(before_reshape((ints(values, 0)?, ints(values, 1)?), ints(values, 2)?, ints(values, 3)?)?)
}

fn permute(entries: &[i64], order: &[i64]) -> Result<Value<'static>, No> {
    let pick = |axis: &i64| usize::try_from(*axis).ok().and_then(|axis| entries.get(axis)).copied();
    order
        .iter()
        .map(pick)
        .collect::<Option<_>>()
        .map(list)
        .ok_or_else(|| format!("{order:?} is not an order of {entries:?}").into())
}
