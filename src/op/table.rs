//! `table`: a function of one byte, given by its results.

use super::independence::none;
use super::{Arity, Draw, Flags, OpDef, OpError, Sample, count};
use crate::attr::Attrs;
use crate::tensor::{DType, Layout, Tensor, TensorType};

/// The different bytes.
const BYTES: usize = 256;

pub(super) fn ops() -> Vec<OpDef> {
    vec![OpDef {
        name: "table",
        doc: "t[x] for every byte of x, where t[256] has 8-bit integers; a byte of i8 stands for its bits, so that -1 takes the last element",
        arity: Arity::Exactly(2),
        attrs: Vec::new(),
        flags: Flags::independent(each_byte),
        infer,
        eval,
        flops: |_, _, output| count(output),
        sample: Some(draw),
        lowered: None,
    }]
}

/// Every byte is looked up alone.
fn each_byte(_: &Attrs, types: &[&TensorType], _: &TensorType) -> Vec<Vec<Option<usize>>> {
    vec![(0..types[0].shape.rank()).map(Some).collect(), none(types[1])]
}

fn infer(_: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    let (x, table) = (types[0], types[1]);
    for (operand, ty) in types.iter().enumerate() {
        if !matches!(ty.dtype, DType::I8 | DType::U8) {
            return Err(OpError::operand(operand, ty, ", neither i8 nor u8"));
        }
    }
    if table.shape[..] != [BYTES] || !table.layout.is_plain() {
        return Err(OpError::operand(1, table, format!(", not a list of {BYTES} results")));
    }
    if x.layout.pads(&x.shape) {
        return Err(OpError::operand(0, x, ", whose padding would not stay zero"));
    }
    Ok(TensorType { dtype: table.dtype, ..x.clone() })
}

fn eval(_: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let table = operands[1].to_layout(&Layout::PLAIN);
    let mut result = Tensor::zeros(ty.clone());
    for (result, byte) in result.bytes_mut().iter_mut().zip(operands[0].bytes()) {
        *result = table.bytes()[usize::from(*byte)];
    }
    result
}

/// Draws bytes and a table.
fn draw(draw: &mut dyn Draw) -> Option<Sample> {
    let [from, to] = [(); 2].map(|()| draw.pick(&[DType::U8, DType::I8]));
    let x = draw.known(0).cloned().unwrap_or_else(|| {
        let shape = draw.wanted().shape.clone();
        TensorType::plain(from, shape)
    });
    Some(Sample::new(Attrs::new(), [x, TensorType::plain(to, vec![BYTES])]))
}
