//! Pools and convolutions over three axes, pools with dilated windows, and `LpPool`: said in those over two axes.

use super::window::{list, same_kernel};
use super::{Call, ImportedValue, Operator, Results, entry};
use crate::attr::Attrs;
use crate::onnx::Refusal;
use crate::onnx::call::signed;
use crate::tensor::{Tensor, TensorType};

pub(super) const TABLE: &[Operator] =
    &[entry("LpPool", 1, 1, lp_pool), entry("GlobalLpPool", 1, 1, global_lp_pool)];

/// A window along one axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    kernel: i64,
    stride: i64,
    dilation: i64,
    begin: i64,
    end: i64,
    /// Elements beyond the padding that windows cover if sizes are rounded up.
    extra: i64,
}

impl Axis {
    /// Returns whether the window leaves the axis as it is.
    fn is_idle(&self) -> bool {
        (self.kernel, self.stride, self.begin, self.end) == (1, 1, 0, 0)
    }
}

/// Reads the windows along all axes of an image.
pub(super) fn axes(
    call: &Call<'_>,
    x: &ImportedValue,
    weights: Option<&[usize]>,
) -> Result<Vec<Axis>, Refusal> {
    let spatial = x.rank().saturating_sub(2);
    let kernel = match weights.map(signed) {
        Some(kernel) => {
            same_kernel(call, &kernel)?;
            kernel
        }
        None if call.has("kernel_shape") => list(call, "kernel_shape", spatial, 1, 1)?,
        None => return Err(Refusal::attribute("kernel_shape", "is missing")),
    };
    let (strides, dilations) =
        (list(call, "strides", spatial, 1, 1)?, list(call, "dilations", spatial, 1, 1)?);
    let pads = list(call, "pads", 2 * spatial, 0, 0)?;
    let ceil = call.flag("ceil_mode", false)?;
    let auto = call.text("auto_pad", "NOTSET")?.to_owned();
    let size = signed(&x.dims()[2..]);
    (0..spatial)
        .map(|at| {
            let (stride, dilation) = (strides[at], dilations[at]);
            let reach = (kernel[at] - 1) * dilation + 1;
            let total = (((size[at] + stride - 1) / stride - 1) * stride + reach - size[at]).max(0);
            let (begin, end) = match auto.as_str() {
                "NOTSET" | "" => (pads[at], pads[spatial + at]),
                "VALID" => (0, 0),
                "SAME_UPPER" => (total / 2, total - total / 2),
                "SAME_LOWER" => (total - total / 2, total / 2),
                other => return Err(super::window::unknown_padding(other)),
            };
            let rest = size[at] + begin + end - reach;
            if rest < 0 {
                let why =
                    format!("its window spans {reach} in dimension {}, more than the padded image", at + 2);
                return Err(Refusal::other(why));
            }
            let mut steps = (rest + stride - 1) / stride;
            if steps * stride >= size[at] + begin {
                steps -= 1; // A window that would start in the padding at the end is left out.
            }
            let extra = if ceil { (steps * stride - rest).max(0) } else { 0 };
            Ok(Axis { kernel: kernel[at], stride, dilation, begin, end, extra })
        })
        .collect()
}

/// What a window computes of its elements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pool {
    Max,
    Sum,
    /// The mean of the elements, and of the padding if that counts.
    Mean {
        padding: bool,
    },
}

/// Pools over one, two or three axes: over the last two together, then over the first of three.
pub(super) fn pool(call: &mut Call<'_>, x: &ImportedValue, axes: &[Axis], pool: Pool) -> Results {
    let dims = x.dims().to_vec();
    let planes = dims[0] * dims[1];
    let idle = Axis { kernel: 1, stride: 1, dilation: 1, begin: 0, end: 0, extra: 0 };
    let (depth, rows, columns) = match *axes {
        [column] => (idle, idle, column),
        [row, column] => (idle, row, column),
        [depth, row, column] => (depth, row, column),
        _ => {
            return Err(Refusal::other(format!(
                "it works on {} axes of an image; ovolo does up to three",
                axes.len()
            )));
        }
    };
    let size = |at: usize| dims[2..].iter().rev().nth(at).copied().unwrap_or(1);
    let image = call.reshape(Some("planes"), x, &[planes, size(2), size(1), size(0)])?;
    let flat = windows(call, "flat", &image, rows, columns, pool)?;
    let (high, wide) = (flat.dims()[2], flat.dims()[3]);
    let mut deep = flat;
    let mut count = size(2);
    if !depth.is_idle() {
        let column = call.reshape(Some("columns"), &deep, &[planes, 1, count, high * wide])?;
        deep = windows(call, "deep", &column, depth, idle, pool)?;
        count = deep.dims()[2];
    }
    let all = [count, high, wide];
    let result = [&dims[..2], &all[3 - axes.len()..]].concat();
    Ok(vec![call.reshape(None, &deep, &result)?])
}

/// Pools each plane of an image of four axes.
fn windows(
    call: &mut Call<'_>,
    name: &str,
    x: &ImportedValue,
    row: Axis,
    column: Axis,
    pool: Pool,
) -> Result<ImportedValue, Refusal> {
    let both = |of: fn(&Axis) -> i64| vec![of(&row), of(&column)];
    let kernel = both(|axis| axis.kernel);
    let attrs = Attrs::new().ints("strides", &both(|axis| axis.stride));
    let end = both(|axis| axis.end + axis.extra);
    let dilated = row.dilation != 1 || column.dilation != 1;
    match pool {
        Pool::Max => {
            let pads = [both(|axis| axis.begin), end].concat();
            let attrs = attrs
                .ints("kernel", &kernel)
                .ints("pads", &pads)
                .ints("dilations", &both(|axis| axis.dilation));
            call.helper(name, "max-pool", attrs, &[x])
        }
        Pool::Mean { padding } if !dilated => {
            let pads = [both(|axis| axis.begin), both(|axis| axis.end)].concat();
            let attrs = attrs
                .ints("kernel", &kernel)
                .ints("pads", &pads)
                .int("count-include-pad", i64::from(padding))
                .ints("ceil-extra", &both(|axis| axis.extra));
            call.helper(name, "avg-pool", attrs, &[x])
        }
        Pool::Sum => sums(call, name, x, row, column),
        Pool::Mean { padding } => {
            let sum = sums(call, &format!("{name}-sum"), x, row, column)?;
            // The number of elements of each window: a sum over ones, with the padding that counts around them.
            let [_, _, high, wide] = *x.dims() else { return Err(Refusal::Operand(0)) };
            let around = |axis: Axis, size: usize| match padding {
                true => (
                    Axis { begin: 0, end: 0, ..axis },
                    size + usize::try_from(axis.begin + axis.end).unwrap_or(0),
                ),
                false => (axis, size),
            };
            let ((row, high), (column, wide)) = (around(row, high), around(column, wide));
            let ones = Tensor::from_f64(x.ty.dtype, [1, 1, high, wide], &vec![1.0; high * wide]);
            let ones = call.constant(&format!("{name}-ones"), ones);
            let count = sums(call, &format!("{name}-count"), &ones, row, column)?;
            call.helper(name, "div", Attrs::new(), &[&sum, &count])
        }
    }
}

/// Sums each window by a convolution of each plane with ones.
fn sums(
    call: &mut Call<'_>,
    name: &str,
    x: &ImportedValue,
    row: Axis,
    column: Axis,
) -> Result<ImportedValue, Refusal> {
    let &[batch, channels, high, wide] = x.dims() else { return Err(Refusal::Operand(0)) };
    let image = call.reshape(Some(&format!("{name}-planes")), x, &[batch * channels, 1, high, wide])?;
    let area = [row.kernel, column.kernel].map(|size| usize::try_from(size).unwrap_or(1));
    let ones = Tensor::from_f64(x.ty.dtype, [1, 1, area[0], area[1]], &vec![1.0; area[0] * area[1]]);
    let ones = call.constant(&format!("{name}-kernel"), ones);
    let bias = Tensor::zeros(TensorType::plain(x.ty.dtype, [1_usize]));
    let bias = call.constant(&format!("{name}-bias"), bias);
    let attrs = Attrs::new()
        .ints("strides", &[row.stride, column.stride])
        .ints("pads", &[row.begin, column.begin, row.end + row.extra, column.end + column.extra])
        .ints("dilations", &[row.dilation, column.dilation])
        .int("groups", 1);
    let sums = call.helper(&format!("{name}-sums"), "conv", attrs, &[&image, &ones, &bias])?;
    let (high, wide) = (sums.dims()[2], sums.dims()[3]);
    call.reshape(Some(name), &sums, &[batch, channels, high, wide])
}

/// The root of the sum of powers of each window.
fn lp_pool(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let axes = axes(call, &x, None)?;
    let p = if call.opset < 2 {
        call.float("p", 2.0)?
    } else {
        f64::from(i32::try_from(call.int("p", 2)?).unwrap_or(2))
    };
    let powers = powers(call, &x, p)?;
    let sums = pool_named(call, &powers, &axes)?;
    let root = call.scalar("root", x.ty.dtype, 1.0 / p);
    Ok(vec![call.result("pow", Attrs::new(), &[&sums, &root])?])
}

fn powers(call: &mut Call<'_>, x: &ImportedValue, p: f64) -> Result<ImportedValue, Refusal> {
    let size = call.helper("sizes", "abs", Attrs::new(), &[x])?;
    let exponent = call.scalar("exponent", x.ty.dtype, p);
    call.helper("powers", "pow", Attrs::new(), &[&size, &exponent])
}

/// Sums over windows as an intermediate value.
fn pool_named(call: &mut Call<'_>, x: &ImportedValue, axes: &[Axis]) -> Result<ImportedValue, Refusal> {
    let sums = pool(call, x, axes, Pool::Sum)?;
    sums.into_iter().next().ok_or(Refusal::Operand(0))
}

fn global_lp_pool(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let p = if call.opset < 2 {
        call.float("p", 2.0)?
    } else {
        f64::from(i32::try_from(call.int("p", 2)?).unwrap_or(2))
    };
    let powers = powers(call, &x, p)?;
    let axes = signed(&(2..x.rank()).collect::<Vec<_>>());
    let attrs = Attrs::new().ints("axes", &axes).int("keepdims", 1);
    let sums = call.helper("sums", "reduce-sum", attrs, &[&powers])?;
    let root = call.scalar("root", x.ty.dtype, 1.0 / p);
    Ok(vec![call.result("pow", Attrs::new(), &[&sums, &root])?])
}

/// A convolution over three axes: the sum, over the taps along the first axis, of convolutions over the other two, for
/// which each step along the first axis is an image of its own.
pub(super) fn conv(call: &mut Call<'_>, x: &ImportedValue, w: &ImportedValue, group: i64) -> Results {
    let axes = axes(call, x, Some(&w.dims()[2..]))?;
    let (&[batch, channels, _, high, wide], &[filters, depth, taps, rows, columns]) = (x.dims(), w.dims())
    else {
        return Err(Refusal::other(format!(
            "it convolves {} and {}; ovolo does up to three axes",
            x.ty, w.ty
        )));
    };
    let [deep, row, column] = [axes[0], axes[1], axes[2]];
    let mut padded = x.clone();
    if deep.begin > 0 || deep.end > 0 {
        let mut pads = [0; 10];
        (pads[2], pads[7]) = (deep.begin, deep.end);
        let zero = call.scalar("zero", x.ty.dtype, 0.0);
        padded = call.helper("deeper", "pad", Attrs::new().ints("pads", &pads), &[x, &zero])?;
    }
    let reach = (deep.kernel - 1) * deep.dilation + 1;
    let steps = (signed(padded.dims())[2] - reach) / deep.stride + 1;
    let count = usize::try_from(steps).unwrap_or(0);
    let zeros = call.constant("no-bias", Tensor::zeros(TensorType::plain(w.ty.dtype, [filters])));
    let mut bias = call.optional(2).unwrap_or_else(|| zeros.clone());
    let mut sum: Option<ImportedValue> = None;
    for tap in 0..taps {
        let name = |what: &str| format!("{what}-{tap}");
        let mut sizes = signed(padded.dims());
        sizes[2] = steps;
        let start = signed(&[tap])[0] * deep.dilation;
        let attrs = Attrs::new()
            .ints("starts", &[0, 0, start, 0, 0])
            .ints("sizes", &sizes)
            .ints("steps", &[1, 1, deep.stride, 1, 1]);
        let part = call.helper(&name("slices"), "slice", attrs, &[&padded])?;
        let perm = Attrs::new().ints("perm", &[0, 2, 1, 3, 4]);
        let part = call.helper(&name("images"), "transpose", perm, &[&part])?;
        let part = call.reshape(Some(&name("batch")), &part, &[batch * count, channels, high, wide])?;
        let attrs = Attrs::new()
            .ints("starts", &signed(&[0, 0, tap, 0, 0]))
            .ints("sizes", &signed(&[filters, depth, 1, rows, columns]))
            .ints("steps", &[1; 5]);
        let filter = call.helper(&name("filter-slice"), "slice", attrs, &[w])?;
        let filter = call.reshape(Some(&name("filter")), &filter, &[filters, depth, rows, columns])?;
        let attrs = Attrs::new()
            .ints("strides", &[row.stride, column.stride])
            .ints("pads", &[row.begin, column.begin, row.end, column.end])
            .ints("dilations", &[row.dilation, column.dilation])
            .int("groups", group);
        let product = call.helper(&name("product"), "conv", attrs, &[&part, &filter, &bias])?;
        bias = zeros.clone();
        sum = Some(match sum {
            None => product,
            Some(sum) => call.helper(&name("sum"), "add", Attrs::new(), &[&sum, &product])?,
        });
    }
    let sum = sum.ok_or_else(|| Refusal::other("its weights have no taps"))?;
    let (high, wide) = (sum.dims()[2], sum.dims()[3]);
    let apart = call.reshape(Some("apart"), &sum, &[batch, count, filters, high, wide])?;
    Ok(vec![call.result("transpose", Attrs::new().ints("perm", &[0, 2, 1, 3, 4]), &[&apart])?])
}

/// The positions of the largest elements of all windows.
pub(super) fn max_positions(call: &mut Call<'_>, x: &ImportedValue) -> Result<ImportedValue, Refusal> {
    let axes = axes(call, x, None)?;
    let all = |of: fn(&Axis) -> i64| axes.iter().map(of).collect::<Vec<i64>>();
    let attrs = Attrs::new()
        .ints("kernel", &all(|axis| axis.kernel))
        .ints("strides", &all(|axis| axis.stride))
        .ints("dilations", &all(|axis| axis.dilation))
        .ints("pads", &[all(|axis| axis.begin), all(|axis| axis.end + axis.extra)].concat())
        .int("column-major", call.int("storage_order", 0)?);
    call.result_at(1, "max-pool-index", attrs, &[x])
}
