//! Products by a matrix that is stored in few bits: of floats of 16 bits, or of levels of 4 or 8 bits with scales.

use super::independence::{aligned, none};
use super::{Arity, AttrDef, Draw, Flags, OpDef, OpError, Sample, count, matmul, plain, post};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{DType, Layout, Shape, Tensor, TensorType};

pub(super) fn ops() -> Vec<OpDef> {
    vec![
        OpDef {
            name: "matmul-narrow",
            doc: "a (w - z) s in f32, for a[..,M,K] of f32 and w[K,N] of 4, 8 or 16 bits; s and z are f32, and each has one element or is [B,N], with a row for each block of rows of w; then a post chain",
            arity: Arity::Post(4),
            attrs: vec![
                AttrDef::new(
                    "rows-per-scale",
                    AttrKind::Int,
                    Some(Attr::Int(0)),
                    "the rows of w that share a row of s and z, the last ones maybe fewer; 0 for all",
                ),
                AttrDef::new(
                    "per-byte",
                    AttrKind::Int,
                    Some(Attr::Int(1)),
                    "1, or 2 if w is as `join-levels` gives it",
                ),
                AttrDef::post(),
            ],
            flags: Flags::independent(factors),
            infer,
            eval,
            flops: matmul::flops,
            sample: Some(draw),
            lowered: None,
        },
        OpDef {
            name: "join-levels",
            doc: "levels w[K,N] of 4 bits, two in a byte: byte k of a column has row 2k in its low bits and row 2k + 1 in its high bits; signed levels are stored plus 8, and what follows an odd last row is 0",
            arity: Arity::Exactly(1),
            attrs: Vec::new(),
            flags: Flags::independent(|_, types, _| {
                vec![vec![None; types[0].shape.rank() - 1].into_iter().chain([Some(1)]).collect()]
            }),
            infer: |_, types| {
                plain(types)?;
                let w = types[0];
                match (w.dtype, &w.shape[..]) {
                    (DType::U4 | DType::I4, [rows, columns]) => {
                        Ok(TensorType::plain(DType::U8, vec![rows.div_ceil(2), *columns]))
                    }
                    _ => Err(OpError::operand(0, w, ", not a matrix of 4-bit integers")),
                }
            },
            eval: |_, operands, ty| {
                let w = operands[0].to_layout(&Layout::PLAIN);
                let columns = ty.shape[1];
                let flip = if w.ty().dtype == DType::I4 { 8 } else { 0 };
                let level = |at: usize| w.bytes().get(at).map_or(0, |byte| (byte & 15) ^ flip);
                let mut result = Tensor::zeros(ty.clone());
                for (row, bytes) in result.bytes_mut().chunks_exact_mut(columns.max(1)).enumerate() {
                    for (column, byte) in bytes.iter_mut().enumerate() {
                        let first = 2 * row * columns + column;
                        *byte = level(first) | level(first + columns) << 4;
                    }
                }
                result
            },
            flops: |_, _, output| count(output),
            sample: Some(|draw| {
                let (dtype, shape) = (draw.pick(&[DType::U4, DType::I4]), draw.shape(2));
                Some(Sample::new(Attrs::new(), [TensorType::plain(dtype, shape)]))
            }),
            lowered: None,
        },
    ]
}

/// The rows of a, the columns of w and the axes of the batch are kept.
fn factors(_: &Attrs, types: &[&TensorType], result: &TensorType) -> Vec<Vec<Option<usize>>> {
    let own = |(operand, ty): (usize, &&TensorType)| {
        let mut axes = aligned(ty, result);
        match operand {
            0 => *axes.last_mut().expect("a matrix") = None,
            1..4 if ty.shape.rank() == 2 => axes[0] = None,
            1..4 => axes = none(ty),
            _ => {}
        }
        axes
    };
    types.iter().enumerate().map(own).collect()
}

/// Returns the rows of a block of `rows` rows that have a scale of their own.
fn block(attrs: &Attrs, rows: usize) -> usize {
    match attrs.expect_int("rows-per-scale") {
        0 => rows.max(1),
        block => usize::try_from(block).unwrap_or(0),
    }
}

fn infer(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    plain(types)?;
    let (a, w) = (types[0], types[1]);
    if a.dtype != DType::F32 || a.shape.rank() < 2 {
        return Err(OpError::operand(0, a, ", not f32 of at least two dimensions"));
    }
    let rows = a.shape[a.shape.rank() - 1];
    let (stored, narrow) = match attrs.expect_int("per-byte") {
        1 => (
            rows,
            matches!(w.dtype, DType::I8 | DType::U8 | DType::I4 | DType::U4 | DType::F16 | DType::BF16),
        ),
        2 => (rows.div_ceil(2), w.dtype == DType::U8),
        other => return Err(OpError::operands(format!("`per-byte` is {other}, neither 1 nor 2"))),
    };
    if !narrow || w.shape.rank() != 2 || w.shape[0] != stored {
        return Err(OpError::operand(1, w, format!(", not a narrow matrix of {stored} rows")));
    }
    let size = block(attrs, rows);
    if size == 0 {
        return Err(OpError::operands("`rows-per-scale` is negative"));
    }
    let blocks = [rows.div_ceil(size), w.shape[1]];
    for operand in [2, 3] {
        let ty = types[operand];
        if ty.dtype != DType::F32 || ty.shape.count() != 1 && ty.shape[..] != blocks {
            return Err(OpError::operand(
                operand,
                ty,
                format!(", neither one element nor {}", Shape::from(&blocks[..])),
            ));
        }
    }
    let mut dims = a.shape.to_vec();
    *dims.last_mut().expect("a matrix") = w.shape[1];
    let result = TensorType::plain(DType::F32, dims);
    post::check(attrs.post(), &types[4..], &result)?;
    Ok(result)
}

/// Multiplies by `(w - z) s`, which is rounded to f32 as `dequantize` rounds it.
#[allow(clippy::cast_possible_truncation)]
fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let [a, w, s, z] = [0, 1, 2, 3].map(|at| operands[at].to_layout(&Layout::PLAIN));
    let rows = a.ty().shape.last().copied().unwrap_or(0);
    let columns = w.ty().shape[1];
    let stored = w.to_f64();
    let level = |row: usize, column: usize| match attrs.expect_int("per-byte") {
        1 => stored[row * columns + column],
        _ => f64::from(stored[row / 2 * columns + column] as u8 >> (row % 2 * 4) & 15),
    };
    let (scales, points) = (s.to_f64(), z.to_f64());
    let size = block(attrs, rows);
    let of_block = |values: &[f64], row: usize, column: usize| {
        values[if values.len() == 1 { 0 } else { row / size * columns + column }] as f32
    };
    let mut wide = Vec::with_capacity(rows * columns);
    for row in 0..rows {
        for column in 0..columns {
            let level = level(row, column) as f32;
            let value = (level - of_block(&points, row, column)) * of_block(&scales, row, column);
            wide.push(f64::from(value));
        }
    }
    let wide = Tensor::from_f64(DType::F32, vec![rows, columns], &wide);
    let product = Attrs::new().with("post", Attr::Post(attrs.post().to_vec()));
    matmul::eval(&product, &[&[&a, &wide][..], &operands[4..]].concat(), ty)
}

/// Draws products with one scale, with a scale for each column, and with scales for blocks of rows.
fn draw(draw: &mut dyn Draw) -> Option<Sample> {
    let per_byte = match draw.fixed("per-byte") {
        Some(Attr::Int(fixed)) => *fixed,
        _ => 1 + i64::from(draw.percent(25)),
    };
    let narrow = [DType::I8, DType::U8, DType::I4, DType::U4, DType::F16, DType::BF16];
    let dtype = if per_byte == 2 {
        DType::U8
    } else {
        draw.known(1).map(|ty| ty.dtype).unwrap_or_else(|| draw.pick(&narrow))
    };
    let (columns, rows) = (draw.size(), draw.size());
    let block = match draw.fixed("rows-per-scale") {
        Some(Attr::Int(fixed)) => *fixed,
        _ => draw.pick(&[0, 0, 1, 2, 3]),
    };
    let size = if block > 0 { usize::try_from(block).ok()? } else { rows };
    let scales = |draw: &mut dyn Draw| {
        if draw.percent(40) { vec![] } else { vec![rows.div_ceil(size), columns] }
    };
    let shapes = [scales(draw), scales(draw)];
    let rank = draw.below(2);
    let dims = [draw.shape(rank), vec![draw.small(), rows]].concat();
    let result = TensorType::plain(DType::F32, [&dims[..dims.len() - 1], &[columns][..]].concat());
    let stored = if per_byte == 2 { rows.div_ceil(2) } else { rows };
    let chain = draw.post(4, &result)?;
    let [s, z] = shapes.map(|shape| TensorType::plain(DType::F32, shape));
    let operands =
        [TensorType::plain(DType::F32, dims), TensorType::plain(dtype, vec![stored, columns]), s, z];
    let attrs = Attrs::new().with("rows-per-scale", Attr::Int(block)).with("per-byte", Attr::Int(per_byte));
    Some(Sample::new(attrs, operands).then(chain))
}
