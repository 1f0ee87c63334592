//! Embeddings: rows of a table, what is added to them, and the layer norm of the sums, as in J. Devlin et al., "BERT:
//! Pre-training of Deep Bidirectional Transformers for Language Understanding" (NAACL 2019).

use super::broadcast::Broadcast;
use super::independence::{aligned, none};
use super::normalize::{epsilon, standardise};
use super::{Arity, Draw, Elements, Flags, OpDef, OpError, Sample, Values, count, plain, rank};
use crate::attr::Attrs;
use crate::tensor::{DType, Tensor, TensorType};

/// The operands before those that are added.
const FIXED: usize = 4;

pub(super) fn ops() -> Vec<OpDef> {
    vec![OpDef {
        name: "embed",
        doc: "the layer norm over D of rows of table[V,D], taken at positions of any shape S (negative ones count from the end), plus further operands that broadcast to [S,D]: (sum - mean) / sqrt(variance + epsilon) * scale[D] + bias[D]; the operands are table, positions, scale, bias, and the further ones",
        arity: Arity::AtLeast(FIXED),
        attrs: vec![epsilon()],
        flags: Flags { demands: Some(rows), ..Flags::independent(positions) },
        infer,
        eval,
        flops: |_, types, output| (8 + types.len() - FIXED) as f64 * count(output),
        sample: Some(draw),
        lowered: None,
    }]
}

/// The positions are rows of the table.
fn rows(_: &Attrs, types: &[&TensorType]) -> Option<(usize, Elements)> {
    Some((1, Elements::along_axis(Some(0), types[0])?))
}

/// The axes of the positions are kept; every row of the result needs a whole row of the table.
fn positions(_: &Attrs, types: &[&TensorType], result: &TensorType) -> Vec<Vec<Option<usize>>> {
    let last = result.shape.rank() - 1;
    let own = |(operand, ty): (usize, &&TensorType)| match operand {
        1 => (0..last).map(Some).collect(),
        0 | 2 | 3 => none(ty),
        _ => aligned(ty, result).into_iter().map(|axis| axis.filter(|axis| *axis != last)).collect(),
    };
    types.iter().enumerate().map(own).collect()
}

fn infer(_: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    plain(types)?;
    rank(types, 0, 2)?;
    let (table, positions) = (types[0], types[1]);
    if !table.dtype.is_float() {
        return Err(OpError::operand(0, table, ", not a table of floats"));
    }
    if !matches!(positions.dtype, DType::I32 | DType::I64) {
        return Err(OpError::operand(1, positions, ", not positions in i32 or i64"));
    }
    let length = table.shape[1];
    for (operand, what) in [(2, "scale"), (3, "bias")] {
        if types[operand].shape[..] != [length] || types[operand].dtype != table.dtype {
            return Err(OpError::operands(format!(
                "the {what} is {}, and the table {table}",
                types[operand]
            )));
        }
    }
    let mut dims = positions.shape.to_vec();
    dims.push(length);
    let result = TensorType::plain(table.dtype, dims);
    for (operand, ty) in types.iter().enumerate().skip(FIXED) {
        if ty.dtype != result.dtype || ty.shape.broadcast(&result.shape).as_ref() != Some(&result.shape) {
            return Err(OpError::operand(
                operand,
                ty,
                format!(", which cannot be added to rows of {result}"),
            ));
        }
    }
    Ok(result)
}

fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let [table, scale, bias] = [0, 2, 3].map(|operand| operands[operand].to_f64());
    let [rows, length] = [0, 1].map(|axis| operands[0].ty().shape[axis]);
    let added: Vec<_> = operands[FIXED..]
        .iter()
        .map(|operand| (operand.to_f64(), Broadcast::new(&operand.ty().shape, &ty.shape)))
        .collect();
    let mut result = Vec::with_capacity(ty.shape.count());
    for position in operands[1].to_i128().expect("infer accepted integers") {
        // As `gather` does: negative positions count from the end, and those out of range are clamped.
        let whole = rows as i128;
        let row = (if position < 0 { position + whole } else { position }).clamp(0, (whole - 1).max(0));
        let from = usize::try_from(row).unwrap_or(0) * length;
        let first = result.len();
        result.extend(table.get(from..from + length).map_or_else(|| vec![0.0; length], <[f64]>::to_vec));
        let line = &mut result[first..];
        for (at, value) in line.iter_mut().enumerate() {
            *value += added.iter().map(|(values, index)| values[index.at(first + at)]).sum::<f64>();
        }
        standardise(line, attrs.expect_float("epsilon"));
        for ((value, scale), bias) in line.iter_mut().zip(&scale).zip(&bias) {
            *value = *value * scale + bias;
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}

/// Draws a table and positions that give the wanted result, and operands to add.
fn draw(draw: &mut dyn Draw) -> Option<Sample> {
    let wanted = draw.wanted().clone();
    let (outer, length) = match &wanted.shape[..] {
        [outer @ .., length] => (outer.to_vec(), *length),
        [] => return None,
    };
    let known = draw.known(0).and_then(|table| table.shape.first().copied());
    let rows = known.unwrap_or_else(|| draw.size());
    let row = TensorType::plain(wanted.dtype, vec![length]);
    let mut types =
        vec![TensorType::plain(wanted.dtype, vec![rows, length]), draw.positions(outer), row.clone(), row];
    let limits = draw.operands();
    let most = (*limits.end()).clamp(FIXED, FIXED + 3);
    let least = (*limits.start()).clamp(FIXED, most);
    for _ in FIXED..least + draw.below(most - least + 1) {
        let mut shape = wanted.shape.to_vec();
        for size in &mut shape {
            if draw.percent(20) {
                *size = 1;
            }
        }
        let skip = if draw.percent(30) { draw.below(shape.len()) } else { 0 };
        types.push(TensorType::plain(wanted.dtype, shape[skip..].to_vec()));
    }
    let epsilon = draw.float("epsilon");
    Some(Sample::new(Attrs::new().float("epsilon", epsilon), types).with(1, Values::Below(rows)))
}
