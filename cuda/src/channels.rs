//! Kernels for images whose channels are innermost: pools and depthwise convolutions. A thread computes neighbouring
//! channels of one pixel, and reads and writes them as vectors of 16 bytes where their number allows it.

use super::expr::{Expr, Leaf, parameter};
use super::kernel::{Argument, BLOCK, KernelJob, Launch, Parameter, kernel};
use super::map::WIDEST;
use super::place::Walk;
use super::reduce::combined;
use super::scalar::{self, Scalar};
use super::space::Index;
use super::window::{Axis, padded_count};
use super::write::Writer;
use ovolo::op::Call;
use ovolo::tensor::TensorType;

/// The largest number of elements of a window for which its loops are unrolled.
const UNROLLED: usize = 49;
/// The number of channels whose weights are side by side: the block of the layout `Oihw8o`.
const BLOCKED: usize = 8;

/// A window of an image with its channels innermost.
struct Window<'a> {
    call: &'a Call<'a>,
    axes: [Axis; 2],
    channels: usize,
    /// The number of channels that a thread computes.
    width: usize,
    index: Index,
}

/// Returns whether a value has its channels innermost, without blocks.
pub(super) fn innermost(ty: &TensorType) -> bool {
    let rank = ty.shape.rank();
    rank == 4 && ty.layout.blocks().is_empty() && ty.layout.order(rank)[..] == [0, 2, 3, 1]
}

impl<'a> Window<'a> {
    fn new(call: &'a Call<'a>, kernel: [usize; 2]) -> Self {
        let channels = call.output.shape[1];
        let widest = call.inputs.iter().map(|ty| ty.dtype.size()).max().unwrap_or(WIDEST);
        let mut width = (WIDEST / widest).min(BLOCKED);
        while !channels.is_multiple_of(width) {
            width /= 2;
        }
        let count = |ty: &TensorType| ty.shape.count();
        let largest = call.inputs.iter().copied().chain([call.output]).map(count).max().unwrap_or(0);
        // A position before the first element wraps around, and threads past the end also compute positions.
        let index = Index::for_count(largest.saturating_mul(2).saturating_add(BLOCK * WIDEST));
        Self {
            axes: [0, 1].map(|at| Axis { kernel: kernel[at], ..Axis::new(call, at) }),
            call,
            channels,
            width,
            index,
        }
    }

    fn number(&self, value: usize) -> String {
        self.index.number(value)
    }

    /// Opens the kernel: `i` is the first element that the thread computes, `channel` its channel, `y` and `x` the
    /// position of the window's first element, without padding, and `image` the offset of the image.
    fn open(&self, w: &mut Writer) {
        let (name, n) = (self.index.name(), |value: usize| self.number(value));
        let y = self.call.output;
        let [rows, columns] = &self.axes;
        w.need(Some("pack"));
        w.line(&format!("const {name} at = ({name})blockIdx.x * {} + threadIdx.x;", n(BLOCK)));
        w.open(&format!("if (at < {})", n(y.shape.count() / self.width)));
        w.line(&format!("const {name} i = at * {};", n(self.width)));
        let (channels, height, width) = (self.channels, y.shape[2], y.shape[3]);
        w.line(&format!("const {name} channel = i % {};", n(channels)));
        w.line(&format!("const {name} x = i / {} % {} * {};", n(channels), n(width), n(columns.stride)));
        w.line(&format!(
            "const {name} y = i / {} % {} * {};",
            n(channels * width),
            n(height),
            n(rows.stride)
        ));
        w.line(&format!(
            "const {name} image = i / {} * {} + channel;",
            n(channels * width * height),
            n(channels * rows.size * columns.size)
        ));
    }

    /// Generates the loops over the elements of a window within the operand, and in them what `act` writes: `r` and
    /// `s` are the element's row and column in the window, and `part` are its channels.
    fn each(&self, w: &mut Writer, act: impl FnOnce(&mut Writer)) {
        let (name, n) = (self.index.name(), |value: usize| self.number(value));
        let [rows, columns] = &self.axes;
        let unroll = rows.kernel * columns.kernel <= UNROLLED;
        let results = &self.call.output.shape;
        let loops = [(rows, "r", "y", "row", results[2]), (columns, "s", "x", "column", results[3])];
        let mut open = 0;
        for (axis, variable, at, position, results) in loops {
            w.line(if unroll { "#pragma unroll" } else { "#pragma unroll 1" });
            w.open(&format!("for ({name} {variable} = 0; {variable} < {}; ++{variable})", n(axis.kernel)));
            w.line(&format!(
                "const {name} {position} = {at} + {variable} * {} - {};",
                n(axis.dilation),
                n(axis.before)
            ));
            open += 1;
            if !axis.inside(results) {
                // Positions are unsigned, so a position before the first element becomes a large number.
                w.open(&format!("if ({position} < {})", n(axis.size)));
                open += 1;
            }
        }
        let from = format!("image + (row * {} + column) * {}", n(columns.size), n(self.channels));
        w.need(scalar::prelude(self.call.inputs[0].dtype));
        let ty = scalar::memory(self.call.inputs[0].dtype);
        w.line(&format!("const Pack<{ty}, {0}> part = load<{0}>(p0 + ({from}));", self.width));
        act(w);
        for _ in 0..open {
            w.close();
        }
    }

    /// Ends the kernel: stores what `value` generates for channel `e` of the thread.
    fn finish(
        &self,
        mut w: Writer,
        kind: &str,
        value: impl FnOnce(&mut Writer) -> Result<String, String>,
    ) -> Result<KernelJob, String> {
        let (call, y) = (self.call, self.call.output);
        w.need(scalar::prelude(y.dtype));
        w.line(&format!("Pack<{}, {}> result;", scalar::memory(y.dtype), self.width));
        w.unrolled("e", self.width);
        let value = value(&mut w)?;
        w.line(&format!("result.of[e] = {};", scalar::narrowed(y.dtype, &value)));
        w.close();
        w.line("store(out + i, result);");
        w.close();
        let mut parameters: Vec<Parameter> = (0..call.inputs.len())
            .map(|operand| Parameter {
                name: parameter(operand),
                dtype: call.inputs[operand].dtype,
                argument: Argument::Input(operand),
                apart: true,
            })
            .collect();
        parameters.push(Parameter {
            name: "out".into(),
            dtype: y.dtype,
            argument: Argument::Output,
            apart: true,
        });
        let launch = Launch::line((y.shape.count() / self.width).div_ceil(BLOCK))?;
        Ok(KernelJob { kernels: vec![kernel(kind, &parameters, w, launch)], ..KernelJob::default() })
    }
}

/// Generates the job for `max-pool` and `avg-pool`.
///
/// # Errors
/// If a size exceeds the limits of a grid.
pub(super) fn pool(call: &Call<'_>, most: bool) -> Result<KernelJob, String> {
    let y = call.output;
    if y.shape.count() == 0 {
        return Ok(KernelJob::default());
    }
    let kernel = [0, 1].map(|at| Axis::new(call, at).kernel);
    let it = Window::new(call, kernel);
    let dtype = call.inputs[0].dtype;
    let t = Scalar::from_dtype(dtype);
    let padded = !most && call.attrs.expect_int("count-include-pad") == 1;
    let [rows, columns] = &it.axes;
    let inside = rows.inside(y.shape[2]) && columns.inside(y.shape[3]);
    let counts = !most && !inside && !padded;
    let mut w = Writer::new();
    w.need(Some("combine"));
    it.open(&mut w);
    let start = if most { f64::NEG_INFINITY } else { 0.0 };
    w.line(&format!("{} total[{}];", t.name(), it.width));
    w.unrolled("e", it.width);
    w.line(&format!("total[e] = {};", t.number(start)));
    w.close();
    if counts {
        w.line("int count = 0;");
    }
    let op = if most { "Most" } else { "Sum" };
    it.each(&mut w, |w| {
        w.unrolled("e", it.width);
        w.line(&format!("total[e] = {op}::of(total[e], {});", scalar::widened(dtype, "part.of[e]")));
        w.close();
        if counts {
            w.line("++count;");
        }
    });
    let divisor = if most {
        None
    } else if inside {
        Some(t.number((rows.kernel * columns.kernel) as f64))
    } else if padded {
        Some(padded_count(&mut w, &it.index, t, &it.axes))
    } else {
        Some(format!("({})(count > 0 ? count : 1)", t.name()))
    };
    it.finish(w, "pool", |_| {
        Ok(match divisor {
            Some(divisor) => format!("(total[e] / {divisor})"),
            None => "total[e]".to_owned(),
        })
    })
}

/// Generates the job for a convolution in which each channel has its own filter: images with their channels innermost,
/// and weights in blocks of 8 channels.
///
/// # Errors
/// If the convolution is another one, or if a size exceeds the limits of a grid.
pub(super) fn depthwise(call: &Call<'_>) -> Result<KernelJob, String> {
    let (x, weights, y) = (call.inputs[0], call.inputs[1], call.output);
    let groups = usize::try_from(call.attrs.expect_int("groups")).unwrap_or(0);
    if groups != x.shape[1] || groups != y.shape[1] {
        return Err(format!(
            "{groups} group(s) of {} channels: each channel must have one filter",
            x.shape[1]
        ));
    }
    if y.shape.count() == 0 {
        return Ok(KernelJob::default());
    }
    let it = Window::new(call, [weights.shape[2], weights.shape[3]]);
    let sum = Scalar::from_dtype(combined(y.dtype));
    let n = |value: usize| it.number(value);
    let mut w = Writer::new();
    it.open(&mut w);
    w.line(&format!("{} sums[{}];", sum.name(), it.width));
    w.unrolled("e", it.width);
    w.line(&format!("sums[e] = {};", sum.number(0.0)));
    w.close();
    let taps = weights.shape[2] * weights.shape[3];
    // The weights of a block of channels, from this thread's channel on.
    w.line(&format!(
        "const {} filter = channel / {BLOCKED}u * {} + channel % {BLOCKED}u;",
        it.index.name(),
        n(taps * BLOCKED)
    ));
    it.each(&mut w, |w| {
        let ty = scalar::memory(weights.dtype);
        let at = format!("filter + (r * {} + s) * {BLOCKED}u", n(weights.shape[3]));
        w.line(&format!("const Pack<{ty}, {0}> taps = load<{0}>(p1 + ({at}));", it.width));
        w.unrolled("e", it.width);
        let (value, factor) =
            (scalar::widened(x.dtype, "part.of[e]"), scalar::widened(weights.dtype, "taps.of[e]"));
        w.line(&format!("sums[e] += {value} * {factor};"));
        w.close();
    });
    // The bias and the operands of the post chain are read element by element.
    let walk = Walk::new(y);
    let leaf = |operand: usize| {
        Ok(Leaf::new(operand, call.inputs[operand].dtype, walk.access(call.inputs[operand])?))
    };
    let leaves: Vec<Leaf> = (3..call.inputs.len()).map(leaf).collect::<Result<_, String>>()?;
    let mut operands = vec![Expr::given(combined(y.dtype)).cast(y.dtype)];
    operands.extend((0..leaves.len()).map(|leaf| Expr::load(&leaves, leaf)));
    let expr = super::chain::chain(call.attrs.post(), &operands)?;
    let space = super::space::Space::whole(&walk.sizes);
    it.finish(w, "depthwise", |w| {
        w.line(&format!("const {} k = i + e;", it.index.name()));
        let bias = scalar::widened(call.inputs[2].dtype, "p2[channel + e]");
        let given = w.value(sum.name(), &format!("sums[e] + {bias}"));
        let reader =
            super::write::Reader { leaves: &leaves, space: &space, index: it.index, group: 0, width: 1 };
        let mut load = |w: &mut Writer, leaf: usize| reader.element(w, leaf, &["k"]);
        let mut inside = |w: &mut Writer, leaf: usize| reader.inside(w, leaf, &["k"]);
        w.expression(&expr, &mut load, &mut inside, &given)
    })
}
