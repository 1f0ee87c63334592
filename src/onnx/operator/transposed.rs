//! Transposed convolution over one, two or three axes.

use super::window::{list, same_kernel, unknown_padding};
use super::{Call, ImportedValue, Operator, Results, entry};
use crate::attr::Attrs;
use crate::onnx::Refusal;
use crate::onnx::call::signed;
use crate::tensor::{Tensor, TensorType};

pub(super) const TABLE: &[Operator] = &[entry("ConvTranspose", 2, 3, conv_transpose)];

/// The attributes of the op along one axis, after `auto_pad` and `output_shape` are resolved.
struct Transposed {
    kernel: i64,
    stride: i64,
    dilation: i64,
    before: i64,
    after: i64,
    added: i64,
}

impl Transposed {
    /// Adjusts what is cut off and added so that the result has the wanted size.
    fn sized(mut self, natural: i64, wanted: i64, upper: bool) -> Result<Self, Refusal> {
        let total = natural + self.added - wanted;
        let half = total.div_euclid(2);
        (self.before, self.after) = if upper { (half, total - half) } else { (total - half, half) };
        if self.before < 0 {
            return Err(Refusal::other(format!(
                "its result is to have {wanted} of {natural} elements of an axis, which lack"
            )));
        }
        // Elements beyond the last window are added at the end.
        self.added += (-self.after).max(0);
        self.after = self.after.max(0);
        Ok(self)
    }
}

/// Transposed convolutions have one to three dimensions. One dimension becomes two, of which the first has size 1.
fn conv_transpose(call: &mut Call<'_>) -> Results {
    let (x, w) = (call.input(0)?, call.input(1)?);
    let axes = transposed(call, &x, &w)?;
    let group = call.int("group", 1)?;
    let outputs = usize::try_from(group).ok().and_then(|groups| w.dims()[1].checked_mul(groups));
    let outputs = outputs.filter(|_| group > 0);
    let outputs =
        outputs.ok_or_else(|| Refusal::attribute("group", format!("is {group}, and must be at least 1")))?;
    let bias = match call.optional(2) {
        Some(bias) => bias,
        None => call.constant("bias", Tensor::zeros(TensorType::plain(w.ty.dtype, [outputs]))),
    };
    if axes.len() == 3 {
        return volume(call, &x, &w, &bias, &axes, group);
    }
    let flat = axes.len() == 1;
    let (x, w) = if flat { (lifted(call, "image", &x)?, lifted(call, "weights", &w)?) } else { (x, w) };
    let pair = |of: fn(&Transposed) -> i64, first: i64| {
        let mut list: Vec<i64> = axes.iter().map(of).collect();
        if flat {
            list.insert(0, first);
        }
        list
    };
    let attrs = Attrs::new()
        .ints("strides", &pair(|axis| axis.stride, 1))
        .ints("pads", &[pair(|axis| axis.before, 0), pair(|axis| axis.after, 0)].concat())
        .ints("dilations", &pair(|axis| axis.dilation, 1))
        .ints("output-padding", &pair(|axis| axis.added, 0))
        .int("groups", group);
    if !flat {
        return Ok(vec![call.result("conv-transpose", attrs, &[&x, &w, &bias])?]);
    }
    let image = call.helper("row", "conv-transpose", attrs, &[&x, &w, &bias])?;
    let mut dims = image.dims().to_vec();
    dims.remove(2);
    Ok(vec![call.reshape(None, &image, &dims)?])
}

/// Reads what a transposed convolution does along each axis of its image.
fn transposed(call: &Call<'_>, x: &ImportedValue, w: &ImportedValue) -> Result<Vec<Transposed>, Refusal> {
    let spatial = x.rank().saturating_sub(2);
    if !(1..=3).contains(&spatial) {
        return Err(Refusal::other(format!(
            "it works on {spatial} axes of an image; ovolo does one to three"
        )));
    }
    if w.rank() != x.rank() {
        return Err(Refusal::other(format!(
            "its image has {} dimensions, and its weights {}",
            x.rank(),
            w.rank()
        )));
    }
    let kernel = signed(&w.dims()[2..]);
    same_kernel(call, &kernel)?;
    let strides = list(call, "strides", spatial, 1, 1)?;
    let dilations = list(call, "dilations", spatial, 1, 1)?;
    let pads = list(call, "pads", 2 * spatial, 0, 0)?;
    let added = list(call, "output_padding", spatial, 0, 0)?;
    let wanted = call.ints("output_shape")?;
    if let Some(wanted) = wanted.filter(|wanted| wanted.len() != spatial) {
        return Err(Refusal::attribute(
            "output_shape",
            format!("is {wanted:?}, and needs {spatial} numbers"),
        ));
    }
    let padding = call.text("auto_pad", "NOTSET")?;
    let size = signed(&x.dims()[2..]);
    let axis = |at: usize| {
        let natural = (size[at] - 1) * strides[at] + (kernel[at] - 1) * dilations[at] + 1;
        let (before, after) = (pads[at], pads[spatial + at]);
        let one = Transposed {
            kernel: kernel[at],
            stride: strides[at],
            dilation: dilations[at],
            before,
            after,
            added: added[at],
        };
        match (padding, wanted.map(|wanted| wanted[at])) {
            ("NOTSET" | "", None) => Ok(one),
            ("VALID", None) => Ok(Transposed { before: 0, after: 0, ..one }),
            ("NOTSET" | "" | "VALID" | "SAME_LOWER", Some(wanted)) => one.sized(natural, wanted, false),
            ("SAME_UPPER", Some(wanted)) => one.sized(natural, wanted, true),
            ("SAME_UPPER" | "SAME_LOWER", None) => {
                one.sized(natural, size[at] * strides[at], padding == "SAME_UPPER")
            }
            (other, _) => Err(unknown_padding(other)),
        }
    };
    (0..spatial).map(axis).collect()
}

/// A transposed convolution over three axes. One over the last two makes an image for each tap of the first axis: the
/// taps are among its channels, and each step along the first axis is an image of its own. Each tap's images are then
/// spread along the first axis, and all are added.
fn volume(
    call: &mut Call<'_>,
    x: &ImportedValue,
    w: &ImportedValue,
    bias: &ImportedValue,
    axes: &[Transposed],
    group: i64,
) -> Results {
    let (&[batch, channels, steps, high, wide], &[depth, outputs, taps, rows, columns]) =
        (x.dims(), w.dims())
    else {
        return Err(Refusal::Operand(0));
    };
    let [deep, row, column] = axes else { return Err(Refusal::Operand(0)) };
    let filters = bias.ty.shape.count();
    let apart = Attrs::new().ints("perm", &[0, 2, 1, 3, 4]);
    let images = call.helper("images", "transpose", apart, &[x])?;
    let images = call.reshape(Some("batch"), &images, &[batch * steps, channels, high, wide])?;
    let kernel = call.reshape(Some("taps"), w, &[depth, outputs * taps, rows, columns])?;
    let none = call.constant("no-bias", Tensor::zeros(TensorType::plain(w.ty.dtype, [filters * taps])));
    let attrs = Attrs::new()
        .ints("strides", &[row.stride, column.stride])
        .ints("pads", &[row.before, column.before, row.after, column.after])
        .ints("dilations", &[row.dilation, column.dilation])
        .ints("output-padding", &[row.added, column.added])
        .int("groups", group);
    let all = call.helper("all-taps", "conv-transpose", attrs, &[&images, &kernel, &none])?;
    let (high, wide) = (all.dims()[2], all.dims()[3]);
    let all = call.reshape(Some("each-tap"), &all, &[batch, steps, filters, taps, high * wide])?;

    let zero = call.scalar("zero", x.ty.dtype, 0.0);
    // Each tap lies between zeros, such that the sum has this many steps.
    let length = signed(&[steps])[0] * deep.stride + (deep.kernel - 1) * deep.dilation;
    let wanted = (signed(&[steps])[0] - 1) * deep.stride + (deep.kernel - 1) * deep.dilation + 1 + deep.added
        - deep.before
        - deep.after;
    let lacking = (deep.before + wanted - length).max(0);
    let mut sum: Option<ImportedValue> = None;
    for tap in 0..taps {
        let name = |what: &str| format!("{what}-{tap}");
        let at = signed(&[tap])[0];
        let attrs = Attrs::new()
            .ints("starts", &[0, 0, 0, at, 0])
            .ints("sizes", &signed(&[batch, steps, filters, 1, high * wide]))
            .ints("steps", &[1; 5]);
        let part = call.helper(&name("slice"), "slice", attrs, &[&all])?;
        let turn = Attrs::new().ints("perm", &[0, 2, 1, 3, 4]);
        let mut part = call.helper(&name("volume"), "transpose", turn, &[&part])?;
        if deep.stride > 1 {
            let pads = Attrs::new().ints("pads", &[0, 0, 0, 0, 0, 0, 0, 0, deep.stride - 1, 0]);
            part = call.helper(&name("between"), "pad", pads, &[&part, &zero])?;
        }
        let spread = [batch, filters, part.dims()[2] * part.dims()[3], high * wide];
        part = call.reshape(Some(&name("spread")), &part, &spread)?;
        let (begin, end) = (at * deep.dilation, (deep.kernel - 1 - at) * deep.dilation + lacking);
        if begin + end > 0 {
            let pads = Attrs::new().ints("pads", &[0, 0, begin, 0, 0, 0, end, 0]);
            part = call.helper(&name("placed"), "pad", pads, &[&part, &zero])?;
        }
        sum = Some(match sum {
            None => part,
            Some(sum) => call.helper(&name("sum"), "add", Attrs::new(), &[&sum, &part])?,
        });
    }
    let sum = sum.ok_or_else(|| Refusal::other("its weights have no taps"))?;
    let count = usize::try_from(wanted).ok().filter(|count| *count > 0);
    let count =
        count.ok_or_else(|| Refusal::other(format!("its result would have {wanted} steps of an axis")))?;
    let attrs = Attrs::new()
        .ints("starts", &[0, 0, deep.before, 0])
        .ints("sizes", &signed(&[batch, filters, count, high * wide]))
        .ints("steps", &[1; 4]);
    let kept = call.helper("kept", "slice", attrs, &[&sum])?;
    let kept = call.reshape(Some("kept-volume"), &kept, &[batch, filters, count, high, wide])?;
    let bias = call.reshape(Some("each-bias"), bias, &[1, filters, 1, 1, 1])?;
    Ok(vec![call.result("add", Attrs::new(), &[&kept, &bias])?])
}

/// Returns a line of pixels as an image of one row.
fn lifted(call: &mut Call<'_>, suffix: &str, x: &ImportedValue) -> Result<ImportedValue, Refusal> {
    let mut dims = x.dims().to_vec();
    dims.insert(2, 1);
    call.reshape(Some(suffix), x, &dims)
}
