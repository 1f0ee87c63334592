//! Kernels that compute each element of the result from a window of the operand: pools, local response normalisation,
//! and positions of extreme elements.

use super::kernel::{Argument, BLOCK, KernelJob, Launch, Parameter, kernel};
use super::scalar::{self, Scalar};
use super::space::Index;
use super::write::Writer;
use ovolo::op::Call;
use ovolo::tensor::DType;

/// The largest number of elements of a window for which its loops are unrolled.
const UNROLLED: usize = 64;

/// A window along rows or columns.
pub(super) struct Axis {
    pub size: usize,
    pub kernel: usize,
    pub stride: usize,
    pub dilation: usize,
    pub before: usize,
    pub after: usize,
}

impl Axis {
    /// Reads the attributes of a call for rows (0) or columns (1).
    pub(super) fn new(call: &Call<'_>, at: usize) -> Self {
        let value = |name: &str, at: usize, default: usize| match call.attrs.get(name) {
            Some(ovolo::attr::Attr::Ints(values)) => {
                values.get(at).and_then(|value| usize::try_from(*value).ok()).unwrap_or(default)
            }
            _ => default,
        };
        Self {
            size: call.inputs[0].shape[2 + at],
            kernel: value("kernel", at, 1),
            stride: value("strides", at, 1),
            dilation: value("dilations", at, 1),
            before: value("pads", at, 0),
            after: value("pads", at + 2, 0),
        }
    }

    /// Returns whether the windows of all results are within the operand.
    pub(super) fn inside(&self, results: usize) -> bool {
        self.before == 0
            && results.saturating_sub(1) * self.stride + (self.kernel - 1) * self.dilation < self.size
    }
}

fn begin(call: &Call<'_>) -> (Index, Writer) {
    let count = call.output.shape.count();
    let index = Index::for_count(count.max(call.inputs[0].shape.count()) + BLOCK);
    let mut w = Writer::new();
    let name = index.name();
    w.line(&format!("const {name} i = ({name})blockIdx.x * {} + threadIdx.x;", index.number(BLOCK)));
    w.open(&format!("if (i < {})", index.number(count)));
    (index, w)
}

fn finish(call: &Call<'_>, mut w: Writer) -> Result<KernelJob, String> {
    w.close();
    let dtype = call.output.dtype;
    let parameter = |name: &str, argument| Parameter { name: name.to_owned(), dtype, argument, apart: true };
    let parameters = [parameter("p0", Argument::Input(0)), parameter("out", Argument::Output)];
    let launch = Launch::line(call.output.shape.count().div_ceil(BLOCK))?;
    Ok(KernelJob { kernels: vec![kernel("window", &parameters, w, launch)], ..KernelJob::default() })
}

/// Writes lines that count the elements of a window in the operand or its padding, from the window's first position `y`
/// and `x`. Returns the count as a divisor of type `t`, at least 1.
pub(super) fn padded_count(w: &mut Writer, index: &Index, t: Scalar, [rows, columns]: &[Axis; 2]) -> String {
    let (name, n) = (index.name(), |value: usize| index.number(value));
    for (axis, at, counted) in [(rows, "y", "tall"), (columns, "x", "wide")] {
        let room = n(axis.size + axis.before + axis.after);
        let rest = format!("{at} < {room} ? {room} - {at} + {} : {}", n(axis.dilation - 1), n(0));
        w.line(&format!(
            "const {name} {counted} = smaller((int)(({rest}) / {}), {});",
            n(axis.dilation),
            axis.kernel
        ));
    }
    format!("({})larger((int)(tall * wide), 1)", t.name())
}

/// Generates the job for `max-pool` and `avg-pool` in the default layout.
pub(super) fn pool(call: &Call<'_>, most: bool) -> Result<KernelJob, String> {
    let (x, y) = (call.inputs[0], call.output);
    if !x.layout.is_plain() {
        return Err(format!("the operand is {x}: it must be in the default layout"));
    }
    if y.shape.count() == 0 {
        return Ok(KernelJob::default());
    }
    let axes = [Axis::new(call, 0), Axis::new(call, 1)];
    let [rows, columns] = &axes;
    let padded = !most && call.attrs.expect_int("count-include-pad") == 1;
    let all_inside = rows.inside(y.shape[2]) && columns.inside(y.shape[3]);
    let (index, mut w) = begin(call);
    let (name, n) = (index.name(), |value: usize| index.number(value));
    let t = Scalar::from_dtype(x.dtype);
    let (height, width) = (y.shape[2], y.shape[3]);
    w.need(Some("combine"));
    w.line(&format!("const {name} plane = i / {} * {};", n(height * width), n(rows.size * columns.size)));
    w.line(&format!("const {name} y = i / {} % {} * {};", n(width), n(height), n(rows.stride)));
    w.line(&format!("const {name} x = i % {} * {};", n(width), n(columns.stride)));
    let start = if most { f64::NEG_INFINITY } else { 0.0 };
    w.line(&format!("{} total = {};", t.name(), t.number(start)));
    let counts = !most && !all_inside && !padded;
    if counts {
        w.line("int count = 0;");
    }
    let unroll = rows.kernel * columns.kernel <= UNROLLED;
    for (axis, variable, at, position) in [(rows, "r", "y", "row"), (columns, "s", "x", "column")] {
        w.line(if unroll { "#pragma unroll" } else { "#pragma unroll 1" });
        w.open(&format!("for ({name} {variable} = 0; {variable} < {}; ++{variable})", n(axis.kernel)));
        w.line(&format!(
            "const {name} {position} = {at} + {variable} * {} - {};",
            n(axis.dilation),
            n(axis.before)
        ));
        // Positions are unsigned, so a position before the first element becomes a large number.
        let inside = if all_inside { "true".to_owned() } else { format!("{position} < {}", n(axis.size)) };
        w.open(&format!("if ({inside})"));
    }
    let read = scalar::widened(x.dtype, &format!("p0[plane + row * {} + column]", n(columns.size)));
    let op = if most { "Most" } else { "Sum" };
    w.line(&format!("total = {op}::of(total, {read});"));
    if counts {
        w.line("++count;");
    }
    for _ in 0..4 {
        w.close();
    }
    let result = if most {
        "total".to_owned()
    } else if all_inside {
        format!("total / {}", t.number((rows.kernel * columns.kernel) as f64))
    } else if padded {
        format!("total / {}", padded_count(&mut w, &index, t, &axes))
    } else {
        format!("total / ({})(count > 0 ? count : 1)", t.name())
    };
    w.line(&format!("out[i] = {};", scalar::narrowed(y.dtype, &format!("({result})"))));
    finish(call, w)
}

/// Generates the job for `lrn`.
pub(super) fn response(call: &Call<'_>) -> Result<KernelJob, String> {
    let x = call.inputs[0];
    if x.shape.count() == 0 {
        return Ok(KernelJob::default());
    }
    let size = usize::try_from(call.attrs.expect_int("size")).unwrap_or(1);
    let [alpha, beta, bias] = ["alpha", "beta", "bias"].map(|name| call.attrs.expect_float(name));
    let (channels, inner) = (x.shape[1], x.shape[2..].iter().product::<usize>());
    let (index, mut w) = begin(call);
    let (name, n) = (index.name(), |value: usize| index.number(value));
    let t = Scalar::from_dtype(x.dtype);
    let read = |at: &str| scalar::widened(x.dtype, &format!("p0[{at}]"));
    w.line(&format!("const {name} channel = i / {} % {};", n(inner), n(channels)));
    w.line(&format!("{} sum = {};", t.name(), t.number(0.0)));
    w.open(&format!("for ({name} k = 0; k < {}; ++k)", n(size)));
    w.line(&format!("const {name} other = channel + k - {};", n((size - 1) / 2)));
    w.open(&format!("if (other < {})", n(channels)));
    let at = format!("i + (other - channel) * {}", n(inner));
    w.line(&format!("const {} value = {};", t.name(), read(&at)));
    w.line("sum += value * value;");
    w.close();
    w.close();
    #[allow(clippy::cast_precision_loss)]
    let factor = t.number(alpha / size as f64);
    let pow = if t == Scalar::Float { "powf" } else { "pow" };
    let divisor = format!("{pow}({} + {factor} * sum, {})", t.number(bias), t.number(beta));
    w.line(&format!("out[i] = {};", scalar::narrowed(x.dtype, &format!("({} / {divisor})", read("i")))));
    finish(call, w)
}

/// Generates the job for `arg-max` and `arg-min`: a warp computes each line.
pub(super) fn argument(call: &Call<'_>, most: bool) -> Result<KernelJob, String> {
    const LANES: usize = 32;
    let x = call.inputs[0];
    let axis = usize::try_from(call.attrs.expect_int("axis")).unwrap_or(0);
    let (length, inner) = (x.shape[axis], x.shape[axis + 1..].iter().product::<usize>());
    let lines = call.output.shape.count();
    if lines == 0 {
        return Ok(KernelJob::default());
    }
    let index = Index::for_count(x.shape.count().max(lines) + BLOCK * LANES);
    let (name, n) = (index.name(), |value: usize| index.number(value));
    let t = Scalar::from_dtype(x.dtype);
    let better = if most { ">" } else { "<" };
    let last = call.attrs.expect_int("select-last") != 0;
    let first = if last { ">" } else { "<" };
    let mut w = Writer::new();
    w.need(scalar::prelude(x.dtype));
    w.line(&format!("const {name} o = ({name})blockIdx.x * {} + threadIdx.x / {LANES}u;", n(BLOCK / LANES)));
    w.open(&format!("if (o < {})", n(lines)));
    w.line(&format!("const {name} lane = threadIdx.x % {LANES}u;"));
    w.line(&format!("const {name} begin = o / {0} * {1} + o % {0};", n(inner.max(1)), n(inner * length)));
    w.line("long long best = -1;");
    w.line(&format!("{} value = {};", t.name(), t.number(0.0)));
    w.open(&format!("for ({name} j = lane; j < {}; j += {LANES}u)", n(length)));
    let read = scalar::widened(x.dtype, &format!("p0[begin + j * {}]", n(inner)));
    w.line(&format!("const {} one = {read};", t.name()));
    let equal = if last { " || one == value" } else { "" };
    w.open(&format!("if (best < 0 || one {better} value{equal})"));
    w.line("best = j;");
    w.line("value = one;");
    w.close();
    w.close();
    w.line("#pragma unroll");
    w.open("for (int lanes = 16; lanes > 0; lanes >>= 1)");
    w.line(&format!(
        "const {} one = __shfl_xor_sync(0xffffffffu, value, lanes);",
        if t == Scalar::Bool { "int" } else { t.name() }
    ));
    w.line("const long long at = __shfl_xor_sync(0xffffffffu, best, lanes);");
    w.open(&format!("if (at >= 0 && (best < 0 || one {better} value || one == value && at {first} best))"));
    w.line("best = at;");
    w.line("value = one;");
    w.close();
    w.close();
    w.open("if (lane == 0u)");
    w.line("out[o] = best < 0 ? 0 : best;");
    w.close();
    w.close();
    let parameters = [
        Parameter { name: "p0".into(), dtype: x.dtype, argument: Argument::Input(0), apart: true },
        Parameter { name: "out".into(), dtype: DType::I64, argument: Argument::Output, apart: true },
    ];
    let launch = Launch::line(lines.div_ceil(BLOCK / LANES))?;
    Ok(KernelJob { kernels: vec![kernel("argument", &parameters, w, launch)], ..KernelJob::default() })
}
