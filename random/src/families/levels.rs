//! Operators on quantised values: whole numbers with a scale and a zero point.

use crate::draft::{Draft, float, int, list};
use ovolo::tensor::{DType, Tensor};

fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(0)
}

/// A quantised value, or the type of one.
struct Level {
    name: String,
    scale: String,
    zero: String,
}

fn scale(draft: &mut Draft<'_>) -> String {
    let scale = draft.rng.pick(&[0.05, 0.1, 0.0371, 0.25]);
    draft.scalar(DType::F32, scale)
}

fn zero(draft: &mut Draft<'_>, dtype: DType) -> String {
    let zero = draft.rng.pick(&[0.0, 3.0, 100.0]);
    draft.scalar(dtype, zero)
}

fn level(draft: &mut Draft<'_>, dtype: DType, dims: &[usize]) -> Level {
    let (least, most) = if dtype == DType::U8 { (0, 255) } else { (-128, 127) };
    #[allow(clippy::cast_precision_loss)] // They fit in a byte.
    let values: Vec<f64> =
        (0..dims.iter().product()).map(|_| draft.rng.between(least, most) as f64).collect();
    let constant = draft.rng.percent(35);
    let name = draft.add(Tensor::from_f64(dtype, dims, &values), constant).name;
    draft.pool.pop();
    Level { name, scale: scale(draft), zero: zero(draft, dtype) }
}

fn byte(draft: &mut Draft<'_>) -> DType {
    draft.rng.pick(&[DType::U8, DType::I8])
}

fn some(draft: &mut Draft<'_>, count: usize) -> Vec<usize> {
    (0..count).map(|_| 1 + draft.rng.below(5)).collect()
}

/// Sums and products of two values with different scales.
pub(super) fn both(draft: &mut Draft<'_>) -> Option<()> {
    let dtype = byte(draft);
    let rank = 1 + draft.rng.below(3);
    let dims = some(draft, rank);
    let (a, b) = (level(draft, dtype, &dims), level(draft, dtype, &dims[draft.model.nodes.len() % rank..]));
    let (scale, zero) = (scale(draft), zero(draft, dtype));
    if draft.rng.percent(25) {
        let condition = draft.leaf(DType::Bool, &dims).name;
        let inputs = [&condition, &a.name, &a.scale, &a.zero, &b.name, &b.scale, &b.zero, &scale, &zero]
            .map(String::as_str);
        return draft.node("com.microsoft.QLinearWhere", &inputs, Vec::new(), &[dtype]);
    }
    let op = draft.rng.pick(&["com.microsoft.QLinearAdd", "com.microsoft.QLinearMul"]);
    let inputs = [&a.name, &a.scale, &a.zero, &b.name, &b.scale, &b.zero, &scale, &zero].map(String::as_str);
    draft.node(op, &inputs, Vec::new(), &[dtype])
}

/// Functions of one value.
pub(super) fn function(draft: &mut Draft<'_>) -> Option<()> {
    let dtype = byte(draft);
    let rank = 1 + draft.rng.below(3);
    let dims = some(draft, rank);
    let x = level(draft, dtype, &dims);
    let (scale, zero) = (scale(draft), zero(draft, dtype));
    let op = draft.rng.pick(&["QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", "QLinearReduceMean"]);
    let attributes = match op {
        "QLinearLeakyRelu" => vec![float("alpha", 0.2)],
        "QLinearSoftmax" => vec![int("axis", -1), int("opset", 13)],
        "QLinearReduceMean" => vec![list("axes", &[0]), int("keepdims", draft.rng.between(0, 1))],
        _ => Vec::new(),
    };
    let inputs = [&x.name, &x.scale, &x.zero, &scale, &zero].map(String::as_str);
    draft.node(&format!("com.microsoft.{op}"), &inputs, attributes, &[dtype])
}

/// Pools, with channels first or last.
pub(super) fn pool(draft: &mut Draft<'_>) -> Option<()> {
    let dtype = byte(draft);
    let [batch, channels] = [(); 2].map(|()| 1 + draft.rng.below(3));
    let [rows, columns] = [(); 2].map(|()| 3 + draft.rng.below(4));
    let op = draft.rng.pick(&["QLinearAveragePool", "QLinearGlobalAveragePool", "NhwcMaxPool"]);
    let last = op == "NhwcMaxPool" || draft.rng.percent(40);
    let dims = if last { [batch, rows, columns, channels] } else { [batch, channels, rows, columns] };
    let x = level(draft, dtype, &dims);
    let mut attributes = Vec::new();
    if op != "QLinearGlobalAveragePool" {
        let pad = draft.rng.between(0, 1);
        attributes.extend([
            list("kernel_shape", &[2, 3]),
            list("strides", &[draft.rng.between(1, 2), 1]),
            list("pads", &[pad, 0, pad, 1]),
        ]);
    }
    if op == "NhwcMaxPool" {
        return draft.node("com.microsoft.NhwcMaxPool", &[&x.name], attributes, &[dtype]);
    }
    if op == "QLinearAveragePool" {
        attributes.push(int("count_include_pad", draft.rng.between(0, 1)));
    }
    attributes.push(int("channels_last", i64::from(last)));
    let (scale, zero) = (scale(draft), zero(draft, dtype));
    let inputs = [&x.name, &x.scale, &x.zero, &scale, &zero].map(String::as_str);
    draft.node(&format!("com.microsoft.{op}"), &inputs, attributes, &[dtype])
}

pub(super) fn concat(draft: &mut Draft<'_>) -> Option<()> {
    let dtype = byte(draft);
    let mut dims = some(draft, 3);
    let at = draft.rng.below(3);
    let mut inputs = vec![scale(draft), zero(draft, dtype)];
    for _ in 0..1 + draft.rng.below(3) {
        dims[at] = 1 + draft.rng.below(4);
        let x = level(draft, dtype, &dims);
        inputs.extend([x.name, x.scale, x.zero]);
    }
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    draft.node("com.microsoft.QLinearConcat", &inputs, vec![int("axis", signed(at))], &[dtype])
}

/// Products whose result is quantised again.
pub(super) fn product(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 10 {
        return None;
    }
    let dtype = byte(draft);
    let [m, k, n] = [(); 3].map(|()| 1 + draft.rng.below(6));
    let (a, b) = (level(draft, dtype, &[m, k]), level(draft, dtype, &[k, n]));
    let (scale, zero) = (scale(draft), zero(draft, dtype));
    let mut inputs = vec![a.name, a.scale, a.zero, b.name, b.scale, b.zero];
    if draft.rng.percent(50) {
        inputs.extend([scale, zero]);
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        return draft.node("QLinearMatMul", &inputs, Vec::new(), &[dtype]);
    }
    let bias: Vec<i32> = (0..n).map(|_| i32::try_from(draft.rng.between(-300, 300)).unwrap_or(0)).collect();
    inputs.push(draft.hidden(Tensor::from_elements([n], &bias)));
    let mut result = DType::F32;
    if draft.rng.percent(60) {
        inputs.extend([scale, zero]);
        result = dtype;
    }
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let alpha = float("alpha", draft.rng.pick(&[1.0, 0.5]));
    draft.node("com.microsoft.QGemm", &inputs, vec![alpha], &[result])
}

/// Convolutions of whole numbers.
pub(super) fn convolution(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 10 {
        return None;
    }
    let dtype = byte(draft);
    let right = if dtype == DType::I8 { DType::I8 } else { byte(draft) };
    let [batch, channels, outputs, kernel] = [(); 4].map(|()| 1 + draft.rng.below(3));
    let size = [(); 2].map(|()| 2 + kernel + draft.rng.below(3));
    let x = level(draft, dtype, &[batch, channels, size[0], size[1]]);
    let w = level(draft, right, &[outputs, channels, kernel, kernel]);
    let pad = signed(draft.rng.below(kernel));
    let attributes = vec![list("pads", &[pad; 4]), list("strides", &[draft.rng.between(1, 2); 2])];
    if draft.rng.percent(40) {
        if dtype == DType::I8 {
            return None; // ONNX Runtime has it for unsigned images alone.
        }
        return draft.node("ConvInteger", &[&x.name, &w.name, &x.zero, &w.zero], attributes, &[DType::I32]);
    }
    let (scale, point) = (scale(draft), zero(draft, dtype));
    let bias = if draft.rng.percent(50) {
        let bias: Vec<i32> =
            (0..outputs).map(|_| i32::try_from(draft.rng.between(-300, 300)).unwrap_or(0)).collect();
        draft.hidden(Tensor::from_elements([outputs], &bias))
    } else {
        String::new()
    };
    let inputs =
        [&x.name, &x.scale, &x.zero, &w.name, &w.scale, &w.zero, &scale, &point, &bias].map(String::as_str);
    draft.node("QLinearConv", &inputs, attributes, &[dtype])
}

/// Products with a result of floats.
pub(super) fn to_float(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 11 {
        return None;
    }
    let [m, k, n] = [(); 3].map(|()| 1 + draft.rng.below(6));
    let right = byte(draft);
    let b = level(draft, right, &[k, n]);
    let bias = if draft.rng.percent(50) { draft.weights(DType::F32, &[n]).name } else { String::new() };
    if draft.rng.percent(50) {
        let a = draft.weights(DType::F32, &[m, k]).name;
        let inputs = [&a, &b.name, &b.scale, &b.zero, &bias].map(String::as_str);
        return draft.node("com.microsoft.DynamicQuantizeMatMul", &inputs, Vec::new(), &[DType::F32]);
    }
    let a = level(draft, DType::U8, &[m, k]);
    let inputs = [&a.name, &b.name, &a.scale, &b.scale, &a.zero, &b.zero, &bias].map(String::as_str);
    draft.node("com.microsoft.MatMulIntegerToFloat", &inputs, Vec::new(), &[DType::F32])
}

/// A product with weights of four bits, two in a byte, each block of which has a scale.
pub(super) fn four_bits(draft: &mut Draft<'_>) -> Option<()> {
    let [m, n, blocks] = [(); 3].map(|()| 1 + draft.rng.below(3));
    let block = 16;
    let k = block * (blocks - 1) + 1 + draft.rng.below(block);
    let a = draft.weights(DType::F32, &[m, k]).name;
    let mut bytes = |dims: &[usize]| {
        let values: Vec<u8> =
            (0..dims.iter().product()).map(|_| u8::try_from(draft.rng.below(256)).unwrap_or(0)).collect();
        draft.hidden(Tensor::from_elements(dims, &values))
    };
    let b = bytes(&[n, blocks, block / 2]);
    let zeros = bytes(&[n, blocks.div_ceil(2)]);
    let values: Vec<f64> = (0..n * blocks).map(|_| 0.05 + draft.rng.unit() / 4.0).collect();
    let scales = draft.hidden(Tensor::from_f64(DType::F32, [n, blocks], &values));
    let zeros = if draft.rng.percent(50) { zeros } else { String::new() };
    let attributes =
        vec![int("K", signed(k)), int("N", signed(n)), int("bits", 4), int("block_size", signed(block))];
    draft.node("com.microsoft.MatMulNBits", &[&a, &b, &scales, &zeros], attributes, &[DType::F32])
}

/// ONNX Runtime's own operators of quantising, which are as ONNX's.
pub(super) fn round_trip(draft: &mut Draft<'_>) -> Option<()> {
    let dims = some(draft, 2);
    let x = draft.weights(DType::F32, &dims).name;
    let dtype = byte(draft);
    let (scale, zero) = (scale(draft), zero(draft, dtype));
    draft.node("com.microsoft.QuantizeLinear", &[&x, &scale, &zero], Vec::new(), &[dtype])?;
    if draft.closed {
        return Some(());
    }
    let whole = draft.pool.last()?.name.clone();
    draft.node("com.microsoft.DequantizeLinear", &[&whole, &scale, &zero], Vec::new(), &[DType::F32])
}

/// A layer whose weights are whole numbers, for one sequence: ONNX Runtime rounds those of several together or not.
pub(super) fn recurrent(draft: &mut Draft<'_>) -> Option<()> {
    let [length, input, hidden] = [(); 3].map(|()| 1 + draft.rng.below(4));
    let x = draft.weights(DType::F32, &[length, 1, input]).name;
    let (w, r) =
        (level(draft, DType::I8, &[1, input, 4 * hidden]), level(draft, DType::I8, &[1, hidden, 4 * hidden]));
    let b = draft.weights(DType::F32, &[1, 8 * hidden]).name;
    let scales = [0.01, 0.02].map(|scale| draft.hidden(Tensor::from_f64(DType::F32, [1], &[scale])));
    let zeros = [0.0, 0.0].map(|zero| draft.hidden(Tensor::from_f64(DType::I8, [1], &[zero])));
    let inputs = [&x, &w.name, &r.name, &b, "", "", "", "", &scales[0], &zeros[0], &scales[1], &zeros[1]];
    let attributes = vec![int("hidden_size", signed(hidden))];
    draft.node("com.microsoft.DynamicQuantizeLSTM", &inputs, attributes, &[DType::F32, DType::F32])
}
