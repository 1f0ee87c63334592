//! The window of a convolution or a pool in one or two dimensions.

use super::{Call, ImportedValue, Results};
use crate::attr::Attrs;
use crate::onnx::{Refusal, call::signed};

/// A window that moves over an image. It always has two dimensions: for a line of pixels, kernel, stride and so on
/// have a leading dimension of size 1.
pub(super) struct Window {
    pub kernel: Vec<i64>,
    pub strides: Vec<i64>,
    pub dilations: Vec<i64>,
    pub(super) begin: Vec<i64>,
    pub(super) end: Vec<i64>,
    /// Rows and columns beyond the padding that windows cover if sizes are rounded up.
    pub(super) extra: Vec<i64>,
}

impl Window {
    /// Reads the attributes of a window over `x`. For a convolution, the size of the window is that of its weights.
    pub(crate) fn read(
        call: &Call<'_>,
        x: &ImportedValue,
        weights: Option<&[usize]>,
    ) -> Result<Self, Refusal> {
        let spatial = spatial(x)?;
        let kernel = match weights.map(signed) {
            Some(kernel) => {
                same_kernel(call, &kernel)?;
                kernel
            }
            None if call.has("kernel_shape") => list(call, "kernel_shape", spatial, 1, 1)?,
            None => return Err(Refusal::attribute("kernel_shape", "is missing")),
        };
        let strides = list(call, "strides", spatial, 1, 1)?;
        let dilations = list(call, "dilations", spatial, 1, 1)?;
        let pads = list(call, "pads", 2 * spatial, 0, 0)?;
        let size = signed(&x.dims()[2..]);
        let reach: Vec<i64> =
            kernel.iter().zip(&dilations).map(|(kernel, dilation)| (kernel - 1) * dilation + 1).collect();
        let (begin, end) = padding(call, &size, &reach, &strides, &pads)?;
        let padded: Vec<i64> = (0..spatial).map(|axis| size[axis] + begin[axis] + end[axis]).collect();
        if let Some(axis) = (0..spatial).find(|&axis| padded[axis] < reach[axis]) {
            return Err(Refusal::other(format!(
                "its window spans {} in dimension {}, but the padded image has only {}",
                reach[axis],
                axis + 2,
                padded[axis]
            )));
        }
        let ceil = call.flag("ceil_mode", false)?;
        let extra = (0..spatial).map(|axis| {
            let mut steps = (padded[axis] - reach[axis] + strides[axis] - 1) / strides[axis];
            // ONNX leaves out a window that would start in the padding at the end.
            if steps * strides[axis] >= size[axis] + begin[axis] {
                steps -= 1;
            }
            if ceil { (steps * strides[axis] + reach[axis] - padded[axis]).max(0) } else { 0 }
        });
        let extra = extra.collect();
        let mut window = Self { kernel, strides, dilations, begin, end, extra };
        if spatial == 1 {
            for (list, first) in [
                (&mut window.kernel, 1),
                (&mut window.strides, 1),
                (&mut window.dilations, 1),
                (&mut window.begin, 0),
                (&mut window.end, 0),
                (&mut window.extra, 0),
            ] {
                list.insert(0, first);
            }
        }
        Ok(window)
    }

    /// Returns the padding in the order of ops: top, left, bottom, right.
    pub(crate) fn pads(&self) -> Vec<i64> {
        [&self.begin[..], &self.end[..]].concat()
    }

    /// Refuses `ceil_mode`, for operators whose sizes are not rounded up.
    pub(crate) fn no_ceil(&self) -> Result<(), Refusal> {
        if self.extra.iter().all(|&extra| extra == 0) {
            Ok(())
        } else {
            Err(Refusal::other("it cannot round up (`ceil_mode`)"))
        }
    }

    /// Returns a line of pixels as an image of one row.
    pub(crate) fn lift(
        &self,
        call: &mut Call<'_>,
        suffix: &str,
        x: &ImportedValue,
    ) -> Result<ImportedValue, Refusal> {
        let mut dims = x.dims().to_vec();
        dims.insert(2, 1);
        call.reshape(Some(suffix), x, &dims)
    }

    /// Applies the op that makes the result. For a line of pixels, removes the dimension of rows again.
    pub(crate) fn finish(
        &self,
        call: &mut Call<'_>,
        flat: bool,
        op: &str,
        attrs: Attrs,
        inputs: &[&ImportedValue],
    ) -> Results {
        if !flat {
            return Ok(vec![call.result(op, attrs, inputs)?]);
        }
        let image = call.helper("row", op, attrs, inputs)?;
        let mut dims = image.dims().to_vec();
        dims.remove(2);
        Ok(vec![call.reshape(None, &image, &dims)?])
    }
}

/// Returns the number of spatial dimensions of an image.
pub(super) fn spatial(x: &ImportedValue) -> Result<usize, Refusal> {
    match x.rank() {
        rank @ (3 | 4) => Ok(rank - 2),
        rank => Err(Refusal::other(format!(
            "it works on {} dimensions beside batch and channels, which ovolo does not do",
            rank.max(2) - 2
        ))),
    }
}

/// Reads a list of `length` numbers, each at least `least`. Without the attribute each is `default`.
pub(super) fn list(
    call: &Call<'_>,
    name: &'static str,
    length: usize,
    least: i64,
    default: i64,
) -> Result<Vec<i64>, Refusal> {
    let values = call.ints(name)?.map_or_else(|| vec![default; length], <[i64]>::to_vec);
    if values.len() != length {
        return Err(Refusal::attribute(name, format!("has {} numbers, and needs {length}", values.len())));
    }
    if values.iter().any(|&value| value < least || value > i64::from(i32::MAX)) {
        return Err(Refusal::attribute(
            name,
            format!("is {values:?}, and its numbers must be at least {least}"),
        ));
    }
    Ok(values)
}

/// Checks that the attribute `kernel_shape`, if it is given, agrees with the weights.
pub(super) fn same_kernel(call: &Call<'_>, kernel: &[i64]) -> Result<(), Refusal> {
    match call.ints("kernel_shape")?.filter(|given| *given != kernel) {
        Some(given) => {
            Err(Refusal::attribute("kernel_shape", format!("is {given:?}, but its weights have {kernel:?}")))
        }
        None => Ok(()),
    }
}

/// Returns the padding before and after each axis, after `auto_pad` is resolved.
fn padding(
    call: &Call<'_>,
    size: &[i64],
    reach: &[i64],
    strides: &[i64],
    pads: &[i64],
) -> Result<(Vec<i64>, Vec<i64>), Refusal> {
    let spatial = size.len();
    let total = |axis: usize| {
        let steps = (size[axis] + strides[axis] - 1) / strides[axis];
        ((steps - 1) * strides[axis] + reach[axis] - size[axis]).max(0)
    };
    let halves = || {
        let less: Vec<i64> = (0..spatial).map(|axis| total(axis) / 2).collect();
        let more = (0..spatial).map(|axis| total(axis) - total(axis) / 2).collect();
        (less, more)
    };
    match call.text("auto_pad", "NOTSET")? {
        "NOTSET" | "" => Ok((pads[..spatial].to_vec(), pads[spatial..].to_vec())),
        "VALID" => Ok((vec![0; spatial], vec![0; spatial])),
        "SAME_UPPER" => Ok(halves()),
        "SAME_LOWER" => {
            let (less, more) = halves();
            Ok((more, less))
        }
        other => Err(unknown_padding(other)),
    }
}

/// Refuses an unknown `auto_pad`.
pub(super) fn unknown_padding(other: &str) -> Refusal {
    Refusal::attribute("auto_pad", format!("is `{other}`, not NOTSET, VALID, SAME_UPPER or SAME_LOWER"))
}
