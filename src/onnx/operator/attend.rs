//! Attention, and rotary embeddings.

use super::{Call, ImportedValue, Operator, Results, entry};
use crate::attr::{Attr, Attrs};
use crate::onnx::Refusal;
use crate::onnx::call::signed;
use crate::tensor::{DType, Tensor, TensorType};

pub(super) const TABLE: &[Operator] = &[
    entry("Attention", 3, 7, attention),
    entry("RotaryEmbedding", 3, 4, rotary),
    entry("SwiGLU", 2, 2, swiglu),
    entry("CausalConvWithState", 2, 4, causal_conv),
    entry("LinearAttention", 3, 6, linear_attention),
];

fn to(dtype: DType) -> Attrs {
    Attrs::new().with("to", Attr::DType(dtype))
}

pub(super) fn transpose(
    call: &mut Call<'_>,
    name: &str,
    x: &ImportedValue,
    perm: &[i64],
) -> Result<ImportedValue, Refusal> {
    call.helper(name, "transpose", Attrs::new().ints("perm", perm), &[x])
}

/// Returns an operand as batch, heads, sequence and head size.
fn heads(call: &mut Call<'_>, name: &str, x: &ImportedValue, count: usize) -> Result<ImportedValue, Refusal> {
    match x.dims() {
        [_, _, _, _] => Ok(x.clone()),
        &[batch, sequence, hidden] if count > 0 && hidden % count == 0 => {
            let split =
                call.reshape(Some(&format!("{name}-split")), x, &[batch, sequence, count, hidden / count])?;
            transpose(call, name, &split, &[0, 2, 1, 3])
        }
        _ => Err(Refusal::other(format!("its operand {} cannot be split into {count} heads", x.ty))),
    }
}

/// What attention adds to its scores, and the number of keys before the first query.
struct Bias {
    sum: Option<ImportedValue>,
    number: usize,
    dtype: DType,
}

impl Bias {
    fn add(&mut self, call: &mut Call<'_>, part: ImportedValue) -> Result<(), Refusal> {
        self.number += 1;
        let name = format!("bias-{}", self.number);
        self.sum = Some(match self.sum.take() {
            None => part,
            Some(sum) => call.helper(&name, "add", Attrs::new(), &[&sum, &part])?,
        });
        Ok(())
    }

    /// Adds minus infinity where a condition does not hold.
    fn allow(&mut self, call: &mut Call<'_>, name: &str, allowed: &ImportedValue) -> Result<(), Refusal> {
        let (zero, never) =
            (call.scalar("nothing", self.dtype, 0.0), call.scalar("never", self.dtype, f64::NEG_INFINITY));
        let part = call.helper(name, "where", Attrs::new(), &[allowed, &zero, &never])?;
        self.add(call, part)
    }
}

/// Makes a constant of numbers from 0 on along one axis of four.
fn counter(call: &mut Call<'_>, name: &str, count: usize, axis: usize) -> ImportedValue {
    let mut dims = vec![1; 4];
    dims[axis] = count;
    call.constant(name, Tensor::from_elements(dims, &signed(&(0..count).collect::<Vec<_>>())))
}

/// Softmax of scaled products of queries and keys, times values. Past keys and values come first. A row in which no
/// key is allowed is zero.
fn attention(call: &mut Call<'_>) -> Results {
    let (q, k, v) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let flat = q.rank() == 3;
    let count = |value: i64| usize::try_from(value).unwrap_or(0);
    let (q_heads, kv_heads) = (count(call.int("q_num_heads", 0)?), count(call.int("kv_num_heads", 0)?));
    let mut q = heads(call, "q", &q, q_heads)?;
    let mut k = heads(call, "k", &k, kv_heads)?;
    let mut v = heads(call, "v", &v, kv_heads)?;
    let dtype = q.ty.dtype;
    let scale = match call.float_if("scale")? {
        Some(scale) => scale,
        #[allow(clippy::cast_precision_loss)]
        None => 1.0 / (q.dims()[3] as f64).sqrt(),
    };
    let past = call.optional(4);
    let before = past.as_ref().map_or(0, |past| past.dims()[2]);
    let join = Attrs::new().int("axis", 2);
    if let Some(past) = &past {
        k = call.result_at(1, "concat", join.clone(), &[past, &k])?;
    }
    if let Some(past) = call.optional(5) {
        v = call.result_at(2, "concat", join, &[&past, &v])?;
    }
    let (present_k, present_v) = (k.clone(), v.clone());
    let mut bias = Bias { sum: None, number: 0, dtype };
    let valid = call.optional(6);
    mask(call, &mut bias, &q, &k, before, valid.as_ref())?;

    let (all, some) = (q.dims()[1], k.dims()[1]);
    if all != some {
        if some == 0 || all % some != 0 {
            return Err(Refusal::other(format!(
                "its {all} heads of queries are no multiple of {some} heads of keys"
            )));
        }
        k = repeated(call, "k-heads", &k, all / some)?;
        v = repeated(call, "v-heads", &v, all / some)?;
    }
    let root = call.scalar("scale", dtype, scale.sqrt());
    q = call.helper("scaled-q", "mul", Attrs::new(), &[&q, &root])?;
    let turned = transpose(call, "turned-k", &k, &[0, 1, 3, 2])?;
    let turned = call.helper("scaled-k", "mul", Attrs::new(), &[&turned, &root])?;
    let mut scores = call.helper("scores", "matmul", Attrs::new(), &[&q, &turned])?;
    let mode = call.int("qk_matmul_output_mode", 0)?;
    let mut shown = scores.clone();
    let cap = call.float("softcap", 0.0)?;
    if cap > 0.0 {
        let cap = call.scalar("softcap", dtype, cap);
        let small = call.helper("small", "div", Attrs::new(), &[&scores, &cap])?;
        let bent = call.helper("bent", "tanh", Attrs::new(), &[&small])?;
        scores = call.helper("capped", "mul", Attrs::new(), &[&bent, &cap])?;
    }
    if mode == 1 {
        shown = scores.clone();
    }
    if let Some(bias) = &bias.sum {
        scores = call.helper("biased", "add", Attrs::new(), &[&scores, bias])?;
    }
    if mode == 2 {
        shown = scores.clone();
    }
    let weights = weigh(call, &scores, bias.sum.as_ref(), dtype)?;
    if mode == 3 {
        shown = weights.clone();
    }
    let presents = [present_k, present_v, shown];
    let y = if flat {
        let y = call.helper("product", "matmul", Attrs::new(), &[&weights, &v])?;
        let joined = transpose(call, "joined", &y, &[0, 2, 1, 3])?;
        let &[batch, sequence, count, size] = joined.dims() else {
            return Err(Refusal::other(format!("its product is {}", joined.ty)));
        };
        call.reshape(None, &joined, &[batch, sequence, count * size])?
    } else {
        call.result("matmul", Attrs::new(), &[&weights, &v])?
    };
    Ok([y].into_iter().chain(presents).collect())
}

/// Returns the weights of the keys: the softmax of the scores, or zero in rows in which no key is allowed.
fn weigh(
    call: &mut Call<'_>,
    scores: &ImportedValue,
    bias: Option<&ImportedValue>,
    dtype: DType,
) -> Result<ImportedValue, Refusal> {
    let mut scores = scores.clone();
    let precision = call.int("softmax_precision", 0)?;
    let wide = match i32::try_from(precision).ok().filter(|number| *number > 0) {
        Some(number) => crate::onnx::element::element_type(number)?,
        None => dtype,
    };
    if wide != dtype {
        scores = call.helper("wide-scores", "cast", to(wide), &[&scores])?;
    }
    let mut weights = call.helper("weights", "softmax", Attrs::new().int("axis", 3), &[&scores])?;
    if wide != dtype {
        weights = call.helper("narrow-weights", "cast", to(dtype), &[&weights])?;
    }
    if let Some(bias) = bias {
        let rank = i64::try_from(bias.rank()).unwrap_or(1);
        let last = Attrs::new().ints("axes", &[rank - 1]).int("keepdims", 1);
        let most = call.helper("most", "reduce-max", last, &[bias])?;
        let never = call.scalar("never", dtype, f64::NEG_INFINITY);
        let none = call.helper("none-allowed", "equal", Attrs::new(), &[&most, &never])?;
        let zero = call.scalar("zero-weight", dtype, 0.0);
        weights = call.helper("kept-weights", "where", Attrs::new(), &[&none, &zero, &weights])?;
    }
    Ok(weights)
}

/// Adds the mask, the causal order, the window and the padding of keys.
fn mask(
    call: &mut Call<'_>,
    bias: &mut Bias,
    q: &ImportedValue,
    k: &ImportedValue,
    before: usize,
    valid: Option<&ImportedValue>,
) -> Result<(), Refusal> {
    let (queries, keys) = (q.dims()[2], k.dims()[2]);
    if let Some(mask) = call.optional(3) {
        let mask = padded(call, &mask, keys)?;
        if mask.ty.dtype == DType::Bool {
            bias.allow(call, "mask-bias", &mask)?;
        } else {
            bias.add(call, mask)?;
        }
    }
    let causal = call.flag("is_causal", false)?;
    let (left, right) = (call.int("left_window_size", -1)?, call.int("right_window_size", -1)?);
    let per_batch = match valid {
        Some(valid) => {
            let wide = match valid.ty.dtype {
                DType::I64 => valid.clone(),
                _ => call.helper("valid-keys", "cast", to(DType::I64), &[valid])?,
            };
            Some(call.reshape(Some("valid"), &wide, &[valid.ty.shape.count(), 1, 1, 1])?)
        }
        None => None,
    };
    if causal || left >= 0 || right >= 0 {
        let (row, column) = (counter(call, "query", queries, 2), counter(call, "key", keys, 3));
        // The position of a query is its number and the number of keys before the first one.
        #[allow(clippy::cast_precision_loss)]
        let offset = match (&per_batch, before) {
            (Some(valid), 0) => {
                let count = call.scalar("queries", DType::I64, queries as f64);
                call.helper("offset", "sub", Attrs::new(), &[valid, &count])?
            }
            _ => call.scalar("offset", DType::I64, before as f64),
        };
        let position = call.helper("position", "add", Attrs::new(), &[&row, &offset])?;
        let distance = call.helper("distance", "sub", Attrs::new(), &[&position, &column])?;
        #[allow(clippy::cast_precision_loss)]
        let mut bound = |call: &mut Call<'_>, name: &str, op: &str, limit: i64| {
            let limit = call.scalar(&format!("{name}-limit"), DType::I64, limit as f64);
            let allowed = call.helper(&format!("{name}-allowed"), op, Attrs::new(), &[&distance, &limit])?;
            bias.allow(call, name, &allowed)
        };
        if causal {
            bound(call, "causal", "greater-equal", 0)?;
        }
        if left >= 0 {
            bound(call, "left", "less-equal", left)?;
        }
        if right >= 0 {
            bound(call, "right", "greater-equal", -right)?;
        }
    }
    if let Some(valid) = &per_batch {
        let column = counter(call, "valid-key", keys, 3);
        let allowed = call.helper("within", "less", Attrs::new(), &[&column, valid])?;
        bias.allow(call, "padding", &allowed)?;
    }
    Ok(())
}

/// Extends a mask to all keys. The added ones are not allowed.
fn padded(call: &mut Call<'_>, mask: &ImportedValue, keys: usize) -> Result<ImportedValue, Refusal> {
    let length = mask.dims().last().copied().unwrap_or(keys);
    if length >= keys || length == 1 && keys == 1 {
        return Ok(mask.clone());
    }
    let mut pads = vec![0; 2 * mask.rank()];
    pads[2 * mask.rank() - 1] = keys - length;
    let value = if mask.ty.dtype == DType::Bool { 0.0 } else { f64::NEG_INFINITY };
    let value = call.scalar("not-allowed", mask.ty.dtype, value);
    call.helper("padded-mask", "pad", Attrs::new().ints("pads", &signed(&pads)), &[mask, &value])
}

/// Repeats each head.
pub(super) fn repeated(
    call: &mut Call<'_>,
    name: &str,
    x: &ImportedValue,
    times: usize,
) -> Result<ImportedValue, Refusal> {
    let &[batch, heads, sequence, size] = x.dims() else { return Err(Refusal::Operand(1)) };
    let one = call.reshape(Some(&format!("{name}-one")), x, &[batch, heads, 1, sequence, size])?;
    let shape = Attrs::new().ints("shape", &signed(&[batch, heads, times, sequence, size]));
    let many = call.helper(&format!("{name}-many"), "expand", shape, &[&one])?;
    call.reshape(Some(name), &many, &[batch, heads * times, sequence, size])
}

/// Rotates pairs of features by angles whose cosines and sines are given, by position if there are positions.
fn rotary(call: &mut Call<'_>) -> Results {
    let (x, cos, sin) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let heads = usize::try_from(call.int("num_heads", 0)?).unwrap_or(0);
    let interleaved = call.flag("interleaved", false)?;
    let (batch, sequence, count, size) = match *x.dims() {
        [batch, count, sequence, size] => (batch, sequence, count, size),
        [batch, sequence, hidden] if heads > 0 && hidden % heads == 0 => {
            (batch, sequence, heads, hidden / heads)
        }
        _ => return Err(Refusal::other(format!("its operand {} has no heads", x.ty))),
    };
    let wide = if x.rank() == 4 {
        transpose(call, "by-position", &x, &[0, 2, 1, 3])?
    } else {
        call.reshape(Some("by-position"), &x, &[batch, sequence, count, size])?
    };
    let turned =
        usize::try_from(call.int("rotary_embedding_dim", 0)?).ok().filter(|dim| *dim > 0).unwrap_or(size);
    let half = turned / 2;
    let angle = |call: &mut Call<'_>, table: &ImportedValue, name: &str| {
        let table = match call.optional(3) {
            Some(positions) => {
                call.helper(name, "gather", Attrs::new().int("axis", 0), &[table, &positions])?
            }
            None => table.clone(),
        };
        call.reshape(Some(&format!("{name}-heads")), &table, &[batch, sequence, 1, half])
    };
    let (cos, sin) = (angle(call, &cos, "cos")?, angle(call, &sin, "sin")?);
    let part =
        |call: &mut Call<'_>, name: &str, from: &ImportedValue, start: usize, size: usize, step: i64| {
            let (mut starts, mut sizes) = (vec![0; from.rank()], from.dims().to_vec());
            let mut steps = vec![1; from.rank()];
            let last = from.rank() - 1;
            (starts[last], sizes[last], steps[last]) = (start, size, step);
            let attrs = Attrs::new()
                .ints("starts", &signed(&starts))
                .ints("sizes", &signed(&sizes))
                .ints("steps", &steps);
            call.helper(name, "slice", attrs, &[from])
        };
    let (first, second) = match interleaved {
        true => (part(call, "even", &wide, 0, half, 2)?, part(call, "odd", &wide, 1, half, 2)?),
        false => (part(call, "first", &wide, 0, half, 1)?, part(call, "second", &wide, half, half, 1)?),
    };
    let product = |call: &mut Call<'_>, name: &str, a: &ImportedValue, b: &ImportedValue| {
        call.helper(name, "mul", Attrs::new(), &[a, b])
    };
    let (fc, ss) = (product(call, "first-cos", &first, &cos)?, product(call, "second-sin", &second, &sin)?);
    let (fs, sc) = (product(call, "first-sin", &first, &sin)?, product(call, "second-cos", &second, &cos)?);
    let real = call.helper("real", "sub", Attrs::new(), &[&fc, &ss])?;
    let imaginary = call.helper("imaginary", "add", Attrs::new(), &[&fs, &sc])?;
    let join = |axis: i64| Attrs::new().int("axis", axis);
    let mut result = if interleaved {
        let pair = |call: &mut Call<'_>, name: &str, x: &ImportedValue| {
            call.reshape(Some(name), x, &[batch, sequence, count, half, 1])
        };
        let (real, imaginary) = (pair(call, "reals", &real)?, pair(call, "imaginaries", &imaginary)?);
        let pairs = call.helper("pairs", "concat", join(4), &[&real, &imaginary])?;
        call.reshape(Some("rotated"), &pairs, &[batch, sequence, count, turned])?
    } else {
        call.helper("rotated", "concat", join(3), &[&real, &imaginary])?
    };
    if turned < size {
        let rest = part(call, "rest", &wide, turned, size - turned, 1)?;
        result = call.helper("whole", "concat", join(3), &[&result, &rest])?;
    }
    if x.rank() == 4 {
        return Ok(vec![call.result("transpose", Attrs::new().ints("perm", &[0, 2, 1, 3]), &[&result])?]);
    }
    Ok(vec![call.reshape(None, &result, x.dims())?])
}

/// `a * sigmoid(alpha * a) * b`.
fn swiglu(call: &mut Call<'_>) -> Results {
    let (a, b) = (call.input(0)?, call.input(1)?);
    if a.ty != b.ty {
        return Err(Refusal::other(format!("its operands are {} and {}, which must be equal", a.ty, b.ty)));
    }
    let attrs = Attrs::new().float("alpha", call.float("alpha", 1.0)?);
    let gate = call.helper("gate", "swish", attrs, &[&a])?;
    Ok(vec![call.result("mul", Attrs::new(), &[&gate, &b])?])
}

/// A depthwise convolution along a sequence, which begins with the end of the previous one.
fn causal_conv(call: &mut Call<'_>) -> Results {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let (&[batch, channels, _], &[filters, 1, kernel]) = (x.dims(), w.dims()) else {
        return Err(Refusal::other(format!("its operands are {} and {}", x.ty, w.ty)));
    };
    let dtype = x.ty.dtype;
    let past = match call.optional(3) {
        Some(past) => past,
        None => {
            let zeros = Tensor::zeros(TensorType::plain(dtype, [batch, channels, kernel - 1]));
            call.constant("past", zeros)
        }
    };
    let whole = match kernel {
        1 => x.clone(),
        _ => call.helper("whole", "concat", Attrs::new().int("axis", 2), &[&past, &x])?,
    };
    let bias = match call.optional(2) {
        Some(bias) => bias,
        None => call.constant("bias", Tensor::zeros(TensorType::plain(dtype, [filters]))),
    };
    let length = whole.dims()[2];
    let image = call.reshape(Some("image"), &whole, &[batch, channels, 1, length])?;
    let filter = call.reshape(Some("filter"), &w, &[filters, 1, 1, kernel])?;
    let attrs = Attrs::new()
        .ints("strides", &[1, 1])
        .ints("pads", &[0; 4])
        .ints("dilations", &[1, 1])
        .int("groups", signed(&[channels])[0]);
    let row = call.helper("row", "conv", attrs, &[&image, &filter, &bias])?;
    let dims = [batch, filters, length + 1 - kernel];
    let y = match call.text("activation", "none")? {
        "none" => call.reshape(None, &row, &dims)?,
        "silu" | "swish" => {
            let line = call.reshape(Some("line"), &row, &dims)?;
            call.result("silu", Attrs::new(), &[&line])?
        }
        other => {
            return Err(Refusal::attribute("activation", format!("is `{other}`, not none, silu or swish")));
        }
    };
    let present = part(call, 1, &whole, 2, length + 1 - kernel, kernel - 1)?;
    Ok(vec![y, present])
}

/// Returns a part of a value along an axis, as a result of the operator.
fn part(
    call: &mut Call<'_>,
    at: usize,
    x: &ImportedValue,
    axis: usize,
    start: usize,
    size: usize,
) -> Result<ImportedValue, Refusal> {
    let (mut starts, mut sizes) = (vec![0; x.rank()], x.dims().to_vec());
    (starts[axis], sizes[axis]) = (start, size);
    let attrs = Attrs::new()
        .ints("starts", &signed(&starts))
        .ints("sizes", &signed(&sizes))
        .ints("steps", &vec![1; x.rank()]);
    call.result_at(at, "slice", attrs, &[x])
}

/// The operands of linear attention.
struct Linear {
    q: ImportedValue,
    k: ImportedValue,
    v: ImportedValue,
    decay: Option<ImportedValue>,
    beta: Option<ImportedValue>,
    batch: usize,
    /// The heads of queries, and those of keys and values.
    heads: [usize; 2],
    /// The sizes of a key and of a value.
    sizes: [usize; 2],
}

impl Linear {
    /// Returns the state after a step, and the row of the result.
    fn step(
        &self,
        call: &mut Call<'_>,
        step: usize,
        state: &ImportedValue,
    ) -> Result<(ImportedValue, ImportedValue), Refusal> {
        let Self { batch, heads: [q_heads, heads], sizes: [key, size], .. } = *self;
        let at = |call: &mut Call<'_>, name: &str, x: &ImportedValue, dims: &[usize]| {
            let last = x.dims()[2];
            let attrs = Attrs::new()
                .ints("starts", &signed(&[0, step, 0]))
                .ints("sizes", &signed(&[batch, 1, last]))
                .ints("steps", &[1; 3]);
            let line = call.helper(&format!("{name}-{step}"), "slice", attrs, &[x])?;
            call.reshape(Some(&format!("{name}-{step}-heads")), &line, dims)
        };
        let new = |name: &str| format!("{name}-{step}");
        let key_column = at(call, "k", &self.k, &[batch, heads, key, 1])?;
        let mut value = at(call, "v", &self.v, &[batch, heads, 1, size])?;
        let query = at(call, "q", &self.q, &[batch, q_heads, 1, key])?;
        let mut state = state.clone();
        if let Some(decay) = &self.decay {
            let each = decay.dims()[2] / heads;
            let gate = at(call, "decay", decay, &[batch, heads, each, 1])?;
            let gate = call.helper(&new("gate"), "exp", Attrs::new(), &[&gate])?;
            state = call.helper(&new("decayed"), "mul", Attrs::new(), &[&state, &gate])?;
        }
        if let Some(beta) = &self.beta {
            let width = beta.dims()[2];
            let beta = at(call, "beta", beta, &[batch, width, 1, 1])?;
            let row = transpose(call, &new("k-row"), &key_column, &[0, 1, 3, 2])?;
            let known = call.helper(&new("known"), "matmul", Attrs::new(), &[&row, &state])?;
            let news = call.helper(&new("news"), "sub", Attrs::new(), &[&value, &known])?;
            value = call.helper(&new("corrected"), "mul", Attrs::new(), &[&news, &beta])?;
        }
        let outer = call.helper(&new("outer"), "mul", Attrs::new(), &[&key_column, &value])?;
        state = call.helper(&new("state"), "add", Attrs::new(), &[&state, &outer])?;
        let read = match q_heads / heads {
            1 => state.clone(),
            times => repeated(call, &new("read"), &state, times)?,
        };
        let row = call.helper(&new("row"), "matmul", Attrs::new(), &[&query, &read])?;
        let row = call.reshape(Some(&new("line")), &row, &[batch, 1, q_heads * size])?;
        Ok((state, row))
    }
}

/// Attention by a state that each step of the sequence changes, in float32.
fn linear_attention(call: &mut Call<'_>) -> Results {
    let (q, k, v) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let count = |value: i64| usize::try_from(value).unwrap_or(0);
    let (q_heads, heads) = (count(call.int("q_num_heads", 0)?), count(call.int("kv_num_heads", 0)?));
    let rule = call.text("update_rule", "gated_delta")?;
    call.ignore(&["chunk_size"]);
    let (gating, delta) = (rule.starts_with("gated"), rule.ends_with("delta"));
    let (&[batch, steps, q_size], &[_, _, v_size]) = (q.dims(), v.dims()) else {
        return Err(Refusal::other(format!("its operands are {} and {}", q.ty, v.ty)));
    };
    if q_heads == 0 || heads == 0 || q_heads % heads != 0 || q_size % q_heads != 0 || v_size % heads != 0 {
        return Err(Refusal::other(format!(
            "{q_heads} and {heads} heads do not divide {} and {}",
            q.ty, v.ty
        )));
    }
    let (key, size) = (q_size / q_heads, v_size / heads);
    let (dtype, wide) = (q.ty.dtype, DType::F32);
    let widened = |call: &mut Call<'_>, name: &str, x: &ImportedValue| {
        if x.ty.dtype == wide { Ok(x.clone()) } else { call.helper(name, "cast", to(wide), &[x]) }
    };
    let (q, k, v) =
        (widened(call, "wide-q", &q)?, widened(call, "wide-k", &k)?, widened(call, "wide-v", &v)?);
    let past = call.optional(3);
    let state_type = past.as_ref().map_or(dtype, |past| past.ty.dtype);
    let mut state = match &past {
        Some(past) => widened(call, "wide-past", past)?,
        None => call.constant("past", Tensor::zeros(TensorType::plain(wide, [batch, heads, key, size]))),
    };
    let decay = call.optional(4).filter(|_| gating);
    let decay = decay.map(|decay| widened(call, "wide-decay", &decay)).transpose()?;
    let beta = call.optional(5).filter(|_| delta);
    let beta = beta.map(|beta| widened(call, "wide-beta", &beta)).transpose()?;
    if gating && decay.is_none() || delta && beta.is_none() {
        return Err(Refusal::other(format!(
            "its update rule `{rule}` needs decay or beta, which is left out"
        )));
    }
    #[allow(clippy::cast_precision_loss)]
    let scale = match call.float("scale", 0.0)? {
        0.0 => 1.0 / (key as f64).sqrt(),
        scale => scale,
    };
    let scale = call.scalar("scale", wide, scale);
    let linear = Linear { q, k, v, decay, beta, batch, heads: [q_heads, heads], sizes: [key, size] };
    let mut rows = Vec::with_capacity(steps);
    for step in 0..steps {
        let (next, row) = linear.step(call, step, &state)?;
        state = next;
        rows.push(row);
    }
    let rows: Vec<&ImportedValue> = rows.iter().collect();
    let joined = call.helper("rows", "concat", Attrs::new().int("axis", 1), &rows)?;
    let y = match dtype == wide {
        true => call.result("mul", Attrs::new(), &[&joined, &scale])?,
        false => {
            let scaled = call.helper("scaled", "mul", Attrs::new(), &[&joined, &scale])?;
            call.result("cast", to(dtype), &[&scaled])?
        }
    };
    let present = match state_type == wide {
        true => state,
        false => call.result_at(1, "cast", to(state_type), &[&state])?,
    };
    Ok(vec![y, present])
}
