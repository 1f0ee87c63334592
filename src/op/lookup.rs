//! Ops that look elements up in lists: `find` and `count-grams`.

use super::independence::none;
use super::{Arity, AttrDef, Draw, Flags, OpDef, OpError, Sample, count, plain, rank};
use crate::attr::{AttrKind, Attrs};
use crate::tensor::{DType, Tensor, TensorType, Text};
use rustc_hash::FxHashMap;

pub(super) fn ops() -> Vec<OpDef> {
    vec![find(), count_grams()]
}

/// Every element of the first operand is looked up alone.
fn each_key(_: &Attrs, types: &[&TensorType], _: &TensorType) -> Vec<Vec<Option<usize>>> {
    vec![(0..types[0].shape.rank()).map(Some).collect(), none(types[1])]
}

/// Rows are kept: all axes of the first operand but the last one.
fn rows(_: &Attrs, types: &[&TensorType], result: &TensorType) -> Vec<Vec<Option<usize>>> {
    let last = result.shape.rank() - 1;
    let first = (0..types[0].shape.rank()).map(|axis| (axis < last).then_some(axis)).collect();
    [first].into_iter().chain(types.iter().skip(1).map(|ty| none(ty))).collect()
}

fn find() -> OpDef {
    OpDef {
        name: "find",
        doc: "for each element of x: the position of the first key (operand 1) that is equal, or the number of keys; \
              NaN is equal to NaN",
        arity: Arity::Exactly(2),
        attrs: Vec::new(),
        flags: Flags::independent(each_key),
        infer: |_, types| {
            plain(types)?;
            rank(types, 1, 1)?;
            alike(types, 1)?;
            Ok(TensorType::plain(DType::I64, types[0].shape.clone()))
        },
        eval: |_, operands, ty| {
            let mut first = FxHashMap::default();
            let keys = keys(operands[1]);
            for (at, key) in keys.iter().enumerate() {
                first.entry(*key).or_insert(at);
            }
            let place = |key: &i128| first.get(key).copied().unwrap_or(keys.len());
            let places: Vec<i64> = self::keys(operands[0])
                .iter()
                .map(|key| i64::try_from(place(key)).unwrap_or(i64::MAX))
                .collect();
            Tensor::from_elements(ty.shape.clone(), &places)
        },
        flops: |_, types, _| (count(types[0]) + count(types[1])) * 8.0,
        sample: Some(draw_find),
        lowered: None,
    }
}

fn count_grams() -> OpDef {
    let int = |name, doc| AttrDef::new(name, AttrKind::Int, None, doc);
    OpDef {
        name: "count-grams",
        doc: "how often sequences of elements (n-grams) occur in the rows of x: operand 1 has all n-grams, the short \
              ones first; operand 2 says where those of each length begin, from 1 on; operand 3 gives their columns",
        arity: Arity::Exactly(4),
        attrs: vec![
            int("shortest", "the length of the shortest n-grams that count"),
            int("longest", "the length of the longest n-grams that count"),
            int("skips", "at most this many elements are left out between two of an n-gram, always as many"),
            int("columns", "the number of columns of the result"),
        ],
        flags: Flags::independent(rows),
        infer: |attrs, types| {
            plain(types)?;
            (1..4).try_for_each(|operand| rank(types, operand, 1))?;
            alike(types, 1)?;
            for operand in [2, 3] {
                if types[operand].dtype != DType::I64 {
                    return Err(OpError::operand(operand, types[operand], ", not i64"));
                }
            }
            let columns = usize::try_from(attrs.expect_int("columns")).unwrap_or(0);
            let [outer @ .., _] = &types[0].shape[..] else {
                return Err(OpError::operand(0, types[0], ", which has no rows"));
            };
            if columns == 0 || attrs.expect_int("shortest") < 1 {
                return Err(OpError::operands("`shortest` and `columns` are at least 1"));
            }
            Ok(TensorType::plain(DType::F32, [outer, &[columns]].concat()))
        },
        eval: eval_grams,
        flops: |_, types, _| count(types[0]) * 32.0,
        sample: Some(draw_grams),
        lowered: None,
    }
}

fn alike(types: &[&TensorType], operand: usize) -> Result<(), OpError> {
    let dtype = types[0].dtype;
    if dtype.is_complex() || dtype.is_narrow() {
        return Err(OpError::operand(0, types[0], ", neither numbers nor strings"));
    }
    match types[operand].dtype == dtype {
        true => Ok(()),
        false => Err(OpError::operand(operand, types[operand], format!(", not {dtype} like operand 0"))),
    }
}

/// Returns numbers that are equal for equal elements.
fn keys(tensor: &Tensor) -> Vec<i128> {
    if tensor.ty().dtype == DType::Text {
        let handle = |text: &Text| i128::from(bytemuck::cast::<Text, u64>(*text));
        return tensor.elements::<Text>().iter().map(handle).collect();
    }
    tensor.to_i128().unwrap_or_else(|| {
        let bits = |value: &f64| if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() };
        tensor.to_f64().iter().map(|value| i128::from(bits(value))).collect()
    })
}

fn eval_grams(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let (elements, pool) = (keys(operands[0]), keys(operands[1]));
    let places = |at: usize| {
        let list = operands[at].to_i64().unwrap_or_default();
        list.into_iter().map(|place| usize::try_from(place).unwrap_or(usize::MAX)).collect::<Vec<_>>()
    };
    let (starts, of) = (places(2), places(3));
    let int = |name| usize::try_from(attrs.expect_int(name)).unwrap_or(0);
    let (least, most, skips) = (int("shortest"), int("longest"), int("skips"));
    let columns = ty.shape.last().copied().unwrap_or(1);
    let mut grams: FxHashMap<&[i128], usize> = FxHashMap::default();
    let mut number = 0;
    for (at, start) in starts.iter().enumerate() {
        let end = starts.get(at + 1).copied().unwrap_or(pool.len()).min(pool.len());
        for gram in pool.get(*start..end).unwrap_or_default().chunks_exact(at + 1) {
            let column = of.get(number).copied().filter(|column| *column < columns);
            if let Some(column) = column.filter(|_| (least..=most).contains(&gram.len())) {
                grams.entry(gram).or_insert(column);
            }
            number += 1;
        }
    }
    let length = operands[0].ty().shape.last().copied().unwrap_or(0);
    let mut result = vec![0.0; ty.shape.count()];
    for (row, counts) in result.chunks_exact_mut(columns).enumerate() {
        let row = &elements[row * length..(row + 1) * length];
        for size in least..=most.min(starts.len()) {
            // An n-gram of one element has nothing between its elements.
            let widest = if size == 1 { 1 } else { skips.saturating_add(1).min(length / (size - 1)) };
            for step in 1..=widest {
                let span = (size - 1).saturating_mul(step);
                for start in 0..length.saturating_sub(span) {
                    let gram: Vec<i128> = (0..size).map(|at| row[start + at * step]).collect();
                    if let Some(column) = grams.get(gram.as_slice()) {
                        counts[*column] += 1.0;
                    }
                }
            }
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}

/// Draws elements and keys.
fn draw_find(draw: &mut dyn Draw) -> Option<Sample> {
    let dtype = draw.pick(&[DType::I64, DType::F32, DType::Text]);
    let (rank, keys) = (draw.below(3), draw.small());
    let shape = draw.shape(rank);
    Some(Sample::new(
        Attrs::new(),
        vec![TensorType::plain(dtype, shape), TensorType::plain(dtype, vec![keys])],
    ))
}

/// Draws rows and n-grams.
fn draw_grams(draw: &mut dyn Draw) -> Option<Sample> {
    let dtype = draw.pick(&[DType::I64, DType::Text]);
    let [rows, length, pool, starts] = [0; 4].map(|_| draw.small());
    let attrs = Attrs::new().int("shortest", 1).size("longest", draw.small()).size("skips", draw.below(3));
    let whole = |dims: Vec<usize>| TensorType::plain(DType::I64, dims);
    Some(Sample::new(
        attrs.size("columns", draw.small()),
        vec![
            TensorType::plain(dtype, vec![rows, length]),
            TensorType::plain(dtype, vec![pool]),
            whole(vec![starts]),
            whole(vec![pool]),
        ],
    ))
}
