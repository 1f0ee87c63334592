//! Matrix products, and convolutions as products of weights and windows, with a column for each pixel.
//!
//! If the result is narrow, each thread computes one element and reads the operands directly. Otherwise a block computes
//! a tile of the result from pieces of both operands in shared memory: by the usual arithmetic, or on tensor cores. The
//! post chain runs when the result is stored.

mod square;
mod tensor;

pub(super) use tensor::{check as check_tensor, matmul as tensor};

use super::expr::{Expr, Leaf};
use super::kernel::{Argument, BLOCK, KernelJob, Launch, Parameter, kernel};
use super::reduce::combined;
use super::scalar::{self, Scalar};
use super::space::{Access, Index};
use super::write::Writer;
use ovolo::attr::Attr;
use ovolo::op::Call;
use ovolo::tensor::{Shape, TensorType};

/// A result with fewer rows or columns is narrow.
const MIN_SIDE: usize = 16;

/// A batch of products: for each `g`, a matrix of `row` by `k` times a matrix of `k` by `column`.
struct Product<'a> {
    call: &'a Call<'a>,
    /// The numbers of the left and the right operand.
    operands: [usize; 2],
    batch: usize,
    rows: usize,
    columns: usize,
    depth: usize,
    index: Index,
    /// The offset of the left operand's element, as a text in `g`, `row` and `k`.
    left: String,
    /// For the right operand: statements in `g`, `k` and `column` that come first, the offset of the element, and the
    /// condition under which the element exists (it is zero otherwise).
    right: (Vec<String>, String, Option<String>),
    /// The offset of the bias, as a text in `g` and `row`.
    bias: Option<String>,
    /// The first operand of the post chain.
    extras: usize,
}

/// Generates the job for `matmul`.
pub(super) fn matmul(call: &Call<'_>) -> Result<KernelJob, String> {
    product(call)?.job()
}

/// Returns the products of `matmul`.
fn product<'a>(call: &'a Call<'a>) -> Result<Product<'a>, String> {
    plain(call)?;
    let (a, b, y) = (&call.inputs[0].shape, &call.inputs[1].shape, &call.output.shape);
    let rank = y.rank();
    let (rows, columns, depth) = (y[rank - 2], y[rank - 1], a[a.rank() - 1]);
    let index = index(call);
    let n = |value: usize| index.number(value);
    let matrix = |shape: &Shape| {
        let batch = Shape::from(&shape[..shape.rank() - 2]);
        let inner = shape[shape.rank() - 2] * shape[shape.rank() - 1];
        let text = broadcast(&batch, &y[..rank - 2], "g", index);
        format!("({text}) * {}", n(inner))
    };
    Ok(Product {
        call,
        operands: [0, 1],
        batch: y[..rank - 2].iter().product(),
        rows,
        columns,
        depth,
        index,
        left: format!("{} + row * {} + k", matrix(a), n(depth)),
        right: (Vec::new(), format!("{} + k * {} + column", matrix(b), n(columns)), None),
        bias: None,
        extras: 2,
    })
}

/// Generates the job for `conv`: for each image and group, the product of weights and windows.
pub(super) fn conv(call: &Call<'_>) -> Result<KernelJob, String> {
    plain(call)?;
    let (x, w, y) = (&call.inputs[0].shape, &call.inputs[1].shape, &call.output.shape);
    let ints = |name: &str| match call.attrs.get(name) {
        Some(Attr::Ints(values)) => values.iter().map(|value| usize::try_from(*value).unwrap_or(0)).collect(),
        _ => Vec::new(),
    };
    let (strides, dilations, pads): (Vec<usize>, Vec<usize>, Vec<usize>) =
        (ints("strides"), ints("dilations"), ints("pads"));
    let groups = usize::try_from(call.attrs.expect_int("groups")).unwrap_or(1);
    let (outputs, inputs, [tall, wide]) = (w[0] / groups, w[1], [w[2], w[3]]);
    let index = index(call);
    let n = |value: usize| index.number(value);
    let name = index.name();
    let depth = inputs * tall * wide;
    let image = format!("(g / {} * {} + g % {} * {})", n(groups), n(x[1]), n(groups), n(inputs));
    let mut lines = vec![format!("const {name} channel = {image} + k / {};", n(tall * wide))];
    let mut inside = Vec::new();
    for (axis, place, element, position) in [
        (0, format!("column / {}", n(y[3])), format!("k / {} % {}", n(wide), n(tall)), "y"),
        (1, format!("column % {}", n(y[3])), format!("k % {}", n(wide)), "x"),
    ] {
        let (stride, dilation, before) = (n(strides[axis]), n(dilations[axis]), n(pads[axis]));
        // Positions are unsigned, so a position before the first element becomes a large number.
        lines.push(format!(
            "const {name} {position} = {place} * {stride} + {element} * {dilation} - {before};"
        ));
        let reach = (y[2 + axis].max(1) - 1) * strides[axis] + (w[2 + axis] - 1) * dilations[axis];
        if pads[axis] > 0 || reach >= x[2 + axis] {
            inside.push(format!("{position} < {}", n(x[2 + axis])));
        }
    }
    let at = format!("(channel * {} + y) * {} + x", n(x[2]), n(x[3]));
    Product {
        call,
        operands: [1, 0],
        batch: y[0] * groups,
        rows: outputs,
        columns: y[2] * y[3],
        depth,
        index,
        left: format!("(g % {} * {} + row) * {} + k", n(groups), n(outputs), n(depth)),
        right: (lines, at, (!inside.is_empty()).then(|| inside.join(" && "))),
        bias: Some(format!("g % {} * {} + row", n(groups), n(outputs))),
        extras: 3,
    }
    .job()
}

/// Returns an error unless all operands are in the default layout.
pub(super) fn plain(call: &Call<'_>) -> Result<(), String> {
    match call.inputs.iter().find(|ty| !ty.layout.is_plain()) {
        Some(ty) => Err(format!("an operand is {ty}: it must be in the default layout")),
        None => Ok(()),
    }
}

/// Returns the type of positions in the operands and in the result.
pub(super) fn index(call: &Call<'_>) -> Index {
    let largest = call.inputs.iter().chain([&call.output]).map(|ty| ty.shape.count()).max().unwrap_or(0);
    // Threads past the edges also compute positions, but read nothing.
    Index::for_count(largest.saturating_mul(2).saturating_add(1 << 20))
}

/// Returns the offset in an operand that broadcasts to a shape, at a position in that shape.
pub(super) fn broadcast(operand: &Shape, shape: &[usize], position: &str, index: Index) -> String {
    let (mut inner, mut stride) = (1, 1);
    let mut terms = Vec::new();
    for dim in (0..shape.len()).rev() {
        let Some(own) = (dim + operand.rank()).checked_sub(shape.len()) else { break };
        if operand[own] > 1 {
            let n = |value: usize| index.number(value);
            terms.push(format!("{position} / {} % {} * {}", n(inner), n(shape[dim]), n(stride)));
        }
        stride *= operand[own];
        inner *= shape[dim];
    }
    if terms.is_empty() { index.number(0) } else { terms.join(" + ") }
}

impl Product<'_> {
    fn job(&self) -> Result<KernelJob, String> {
        if self.call.output.shape.count() == 0 {
            return Ok(KernelJob::default());
        }
        if self.rows < MIN_SIDE || self.columns < MIN_SIDE {
            let count = self.batch * self.rows * self.columns;
            let mut w = Writer::new();
            self.direct(&mut w, count)?;
            return Ok(self.kernel("row", w, Launch::line(count.div_ceil(BLOCK))?));
        }
        square::job(self)
    }

    /// Returns a job of one kernel with all operands and the result as its parameters.
    fn kernel(&self, kind: &str, writer: Writer, launch: Launch) -> KernelJob {
        let types = self.call.inputs.iter().enumerate();
        let input = |(operand, ty): (usize, &&TensorType)| Parameter {
            name: super::expr::parameter(operand),
            dtype: ty.dtype,
            argument: Argument::Input(operand),
            apart: true,
        };
        let mut parameters: Vec<Parameter> = types.map(input).collect();
        let dtype = self.call.output.dtype;
        parameters.push(Parameter { name: "out".into(), dtype, argument: Argument::Output, apart: true });
        KernelJob { kernels: vec![kernel(kind, &parameters, writer, launch)], ..KernelJob::default() }
    }

    /// Declares the tile of a block: its first row and column, and the number `g` of its product.
    fn place(&self, w: &mut Writer, [rows, columns]: [usize; 2]) {
        let (name, n) = (self.index.name(), |value: usize| self.index.number(value));
        let (along, down) = (self.columns.div_ceil(columns), self.rows.div_ceil(rows));
        w.line(&format!("const {name} first_column = blockIdx.x % {} * {};", n(along), n(columns)));
        w.line(&format!("const {name} first_row = blockIdx.x / {} % {} * {};", n(along), n(down), n(rows)));
        w.line(&format!("const {name} g = blockIdx.x / {};", n(along * down)));
    }

    /// Returns the number of tiles of all products.
    fn tiles(&self, [rows, columns]: [usize; 2]) -> usize {
        self.batch * self.rows.div_ceil(rows) * self.columns.div_ceil(columns)
    }

    /// Stores the element of `row` and `column`, which are declared, if they are inside the result.
    fn store_inside(&self, w: &mut Writer, sum: &str) -> Result<(), String> {
        let (name, n) = (self.index.name(), |value: usize| self.index.number(value));
        w.open(&format!("if (row < {} && column < {})", n(self.rows), n(self.columns)));
        w.line(&format!("const {name} o = (g * {} + row) * {} + column;", n(self.rows), n(self.columns)));
        self.store(w, sum)?;
        w.close();
        Ok(())
    }

    /// Returns the type of the sums.
    fn sum(&self) -> &'static str {
        Scalar::from_dtype(combined(self.call.output.dtype)).name()
    }

    fn read(&self, w: &mut Writer, operand: usize, at: &str) -> String {
        let dtype = self.call.inputs[operand].dtype;
        w.need(scalar::prelude(dtype));
        let read = scalar::widened(dtype, &format!("{}[{at}]", super::expr::parameter(operand)));
        format!("({})({read})", self.sum())
    }

    /// Generates a kernel in which each thread computes one element.
    fn direct(&self, w: &mut Writer, count: usize) -> Result<(), String> {
        let (name, n) = (self.index.name(), |value: usize| self.index.number(value));
        w.line(&format!("const {name} o = ({name})blockIdx.x * {} + threadIdx.x;", n(BLOCK)));
        w.open(&format!("if (o < {})", n(count)));
        w.line(&format!("const {name} column = o % {};", n(self.columns)));
        w.line(&format!("const {name} row = o / {} % {};", n(self.columns), n(self.rows)));
        w.line(&format!("const {name} g = o / {};", n(self.columns * self.rows)));
        w.line(&format!("{} sum = 0;", self.sum()));
        // Without this limit the compiler unrolls more than fits into registers.
        w.line("#pragma unroll 4");
        w.open(&format!("for ({name} k = 0; k < {}; ++k)", n(self.depth)));
        let (lines, at, inside) = &self.right;
        lines.iter().for_each(|line| w.line(line));
        if let Some(inside) = inside {
            w.open(&format!("if ({inside})"));
        }
        let (left, right) = (self.read(w, self.operands[0], &self.left), self.read(w, self.operands[1], at));
        w.line(&format!("sum += {left} * {right};"));
        if inside.is_some() {
            w.close();
        }
        w.close();
        self.store(w, "sum")?;
        w.close();
        Ok(())
    }

    /// Stores element `o`, which belongs to `g`, `row` and `column`.
    fn store(&self, w: &mut Writer, sum: &str) -> Result<(), String> {
        let (inputs, y) = (self.call.inputs, self.call.output);
        let given = match &self.bias {
            Some(at) => {
                let bias = self.read(w, 2, at);
                format!("({sum} + {bias})")
            }
            None => sum.to_owned(),
        };
        let nowhere = || Access { offset: 0, parts: Vec::new() };
        let leaves: Vec<Leaf> = inputs[self.extras..]
            .iter()
            .zip(self.extras..)
            .map(|(ty, operand)| Leaf::new(operand, ty.dtype, nowhere()))
            .collect();
        let mut operands = vec![Expr::given(combined(y.dtype)).cast(y.dtype)];
        operands.extend((0..leaves.len()).map(|leaf| Expr::load(&leaves, leaf)));
        let expr = super::chain::chain(self.call.attrs.post(), &operands)?;
        let mut load = |w: &mut Writer, leaf: usize| {
            let ty = inputs[self.extras + leaf];
            let at = broadcast(&ty.shape, &y.shape, "o", self.index);
            w.need(scalar::prelude(ty.dtype));
            let text = format!("{}[{at}]", super::expr::parameter(leaves[leaf].operand));
            let read = scalar::widened(ty.dtype, &text);
            w.value(Scalar::from_dtype(ty.dtype).name(), &read)
        };
        let mut inside = |_: &mut Writer, _: usize| "true".to_owned();
        let value = w.expression(&expr, &mut load, &mut inside, &given)?;
        w.line(&format!("out[o] = {};", scalar::narrowed(y.dtype, &value)));
        Ok(())
    }
}
