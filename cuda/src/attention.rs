//! Attention. Operands are read by strides, in whatever order of axes they are stored.
//!
//! A block computes some rows of one head. It reads keys and values in tiles, keeps the scores of one tile in shared
//! memory, and corrects the sums whenever a tile has a larger score than those before it (Milakov and Gimelshein,
//! "Online normalizer calculation for softmax", 2018). Where sizes do not suit vectors of four elements, or elements
//! are `f64`, a block computes one row from all of its scores.

use super::expr::parameter;
use super::kernel::{Argument, BLOCK, KernelJob, Launch, Parameter, kernel};
use super::product::{broadcast, index, plain};
use super::reduce::combined;
use super::scalar::{self, Scalar};
use super::space::Index;
use super::write::Writer;
use ovolo::op::Call;
use ovolo::op::attention::AxisOrder;
use ovolo::tensor::{DType, Shape};

/// The elements of a vector.
const VECTOR: usize = 4;
/// The threads along the keys of a tile, and along its rows.
const SIDE: usize = 16;
/// The numbers of rows and of keys in a tile, best first.
const TILES: &[(usize, usize)] = &[(64, 32), (32, 32), (16, 32), (16, 16)];
/// The most columns of values: each thread keeps a sixteenth of them for each of its rows.
const WIDEST: usize = 256;
/// The number of blocks that keep a large device busy.
const BUSY: usize = 132;

/// Generates the job for `attention`.
///
/// # Errors
/// If an operand is not in the default layout, or if a row of scores does not fit into shared memory.
pub(super) fn attention(call: &Call<'_>) -> Result<KernelJob, String> {
    plain(call)?;
    if call.attrs.expect_int("nan_as_zero") == 1 {
        return Err("weights that are NaN are not replaced by 0".to_owned());
    }
    let order = AxisOrder::new(call.attrs).map_err(|why| why.to_string())?;
    if call.output.shape.count() == 0 {
        return Ok(KernelJob::default());
    }
    match Tiles::new(call, order) {
        Some(tiles) => tiles.job(),
        None => rows(call, order),
    }
}

/// A kernel that computes attention in tiles.
struct Tiles<'a> {
    call: &'a Call<'a>,
    order: AxisOrder,
    index: Index,
    batch: usize,
    heads: usize,
    rows: usize,
    length: usize,
    /// The vectors of a row of queries and keys, and of values.
    depth: usize,
    width: usize,
    /// The rows and the keys of a tile.
    tile: (usize, usize),
}

impl<'a> Tiles<'a> {
    /// Returns the kernel for a call; `None` if its sizes do not suit it.
    fn new(call: &'a Call<'a>, order: AxisOrder) -> Option<Self> {
        let [q, k, v] = [0, 1, 2].map(|operand| order.sizes(&call.inputs[operand].shape));
        let vectors = |size: usize| size > 0 && size.is_multiple_of(VECTOR);
        if combined(call.output.dtype) != DType::F32
            || !vectors(q[3])
            || !vectors(v[3])
            || v[3] > WIDEST
            || k[2] == 0
        {
            return None;
        }
        let mut it = Self {
            call,
            order,
            index: index(call),
            batch: q[0],
            heads: q[1],
            rows: q[2],
            length: k[2],
            depth: q[3] / VECTOR,
            width: v[3] / VECTOR,
            tile: TILES[0],
        };
        let fitting: Vec<(usize, usize)> = TILES
            .iter()
            .copied()
            .filter(|tile| Self { tile: *tile, ..it }.shared() * VECTOR * size_of::<f32>() <= SHARED)
            .collect();
        let busy = |tile: &&(usize, usize)| it.batch * it.heads * it.rows.div_ceil(tile.0) >= BUSY;
        it.tile = *fitting.iter().find(busy).or(fitting.iter().min_by_key(|tile| tile.0))?;
        Some(it)
    }

    /// The vectors from one row to the next in shared memory: an odd number, so that rows begin in different banks.
    fn depth_step(&self) -> usize {
        self.depth | 1
    }

    fn width_step(&self) -> usize {
        self.width.next_multiple_of(SIDE)
    }

    fn weight_step(&self) -> usize {
        (self.tile.1 / VECTOR) | 1
    }

    /// The vectors in shared memory.
    fn shared(&self) -> usize {
        let (rows, keys) = self.tile;
        (rows + keys) * self.depth_step() + keys * self.width_step() + rows * self.weight_step()
    }

    fn job(&self) -> Result<KernelJob, String> {
        let (name, n) = (self.index.name(), |value: usize| self.index.number(value));
        let (rows, keys) = self.tile;
        let (each_rows, each_keys, each_width) = (rows / SIDE, keys / SIDE, self.width_step() / SIDE);
        let tiles = self.rows.div_ceil(rows);
        let mut w = Writer::new();
        for part in ["combine", "across", "pack"] {
            w.need(Some(part));
        }
        w.need(scalar::prelude(self.call.output.dtype));
        for (array, count) in [
            ("queries", rows * self.depth_step()),
            ("keys", keys * self.depth_step()),
            ("values", keys * self.width_step()),
            ("weights", rows * self.weight_step()),
        ] {
            w.line(&format!("__shared__ Pack<float, {VECTOR}> {array}[{count}];"));
        }
        w.line(&format!("const {name} first = blockIdx.x % {} * {};", n(tiles), n(rows)));
        w.line(&format!("const {name} head = blockIdx.x / {} % {};", n(tiles), n(self.heads)));
        w.line(&format!("const {name} batch = blockIdx.x / {};", n(tiles * self.heads)));
        w.line(&format!("const unsigned tx = threadIdx.x % {SIDE}u;"));
        w.line(&format!("const unsigned ty = threadIdx.x / {SIDE}u;"));
        self.read(
            &mut w,
            0,
            "queries",
            rows,
            ("first", self.rows),
            [self.depth, self.depth, self.depth_step()],
        );
        w.line(&format!("float sums[{each_rows}][{}] = {{}};", each_width * VECTOR));
        w.line(&format!("float most[{each_rows}], total[{each_rows}];"));
        w.unrolled("i", each_rows);
        let lowest = Scalar::Float.number(f64::NEG_INFINITY);
        w.line(&format!("most[i] = {lowest};"));
        w.line("total[i] = 0.0f;");
        w.close();
        w.line("#pragma unroll 1");
        w.open(&format!("for ({name} from = 0; from < {}; from += {})", n(self.length), n(keys)));
        w.line("__syncthreads();");
        let depth = [self.depth, self.depth, self.depth_step()];
        self.read(&mut w, 1, "keys", keys, ("from", self.length), depth);
        let width = [self.width, self.width_step(), self.width_step()];
        self.read(&mut w, 2, "values", keys, ("from", self.length), width);
        w.line("__syncthreads();");
        self.scores(&mut w, each_rows, each_keys);
        w.unrolled("i", each_rows);
        self.softmax(&mut w, each_keys, each_width);
        w.close();
        w.line("__syncthreads();");
        self.product(&mut w, each_rows, each_width);
        w.close();
        self.store(&mut w, each_rows, each_width);
        let launch = Launch::line(self.batch * self.heads * tiles)?;
        Ok(KernelJob {
            kernels: vec![kernel("attention", &parameters(self.call), w, launch)],
            ..KernelJob::default()
        })
    }

    /// Reads some rows of an operand into shared memory. Rows past the end and vectors past the last one are zero.
    /// `vectors` are those of a row in memory, those of a row that are written, and the step between rows.
    fn read(
        &self,
        w: &mut Writer,
        operand: usize,
        array: &str,
        rows: usize,
        (first, end): (&str, usize),
        [vectors, written, step]: [usize; 3],
    ) {
        let n = |value: usize| self.index.number(value);
        let dtype = self.call.inputs[operand].dtype;
        w.open(&format!("for (unsigned at = threadIdx.x; at < {}u; at += {BLOCK}u)", rows * written));
        w.line(&format!("const unsigned row = at / {written}u;"));
        w.line(&format!("const unsigned column = at % {written}u;"));
        w.line(&format!("Pack<float, {VECTOR}> vector = {{}};"));
        let inside = if written > vectors { format!(" && column < {vectors}u") } else { String::new() };
        w.open(&format!("if ({first} + row < {}{inside})", n(end)));
        let from = self.line(operand, &format!("({first} + row)"));
        let ty = scalar::memory(dtype);
        w.line(&format!(
            "const Pack<{ty}, {VECTOR}> part = load<{VECTOR}>({} + ({from} + column * {VECTOR}u));",
            parameter(operand)
        ));
        w.unrolled("e", VECTOR);
        w.line(&format!("vector.of[e] = {};", scalar::widened(dtype, "part.of[e]")));
        w.close();
        w.close();
        w.line(&format!("{array}[row * {step}u + column] = vector;"));
        w.close();
    }

    /// Returns the offset of a row of an operand, or of the result, whose number follows those of the operands.
    fn line(&self, operand: usize, row: &str) -> String {
        let shape = self.call.inputs.get(operand).map_or(&self.call.output.shape, |ty| &ty.shape);
        line(self.order, shape, self.index, row)
    }

    /// Generates the products of the thread's rows and keys.
    fn scores(&self, w: &mut Writer, each_rows: usize, each_keys: usize) {
        let step = self.depth_step();
        w.line(&format!("float scores[{each_rows}][{each_keys}] = {{}};"));
        w.line("#pragma unroll 4");
        w.open(&format!("for (unsigned d = 0u; d < {}u; ++d)", self.depth));
        w.line(&format!("Pack<float, {VECTOR}> k[{each_keys}];"));
        w.unrolled("j", each_keys);
        w.line(&format!("k[j] = keys[(tx + j * {SIDE}u) * {step}u + d];"));
        w.close();
        w.unrolled("i", each_rows);
        w.line(&format!("const Pack<float, {VECTOR}> q = queries[(ty + i * {SIDE}u) * {step}u + d];"));
        w.unrolled("j", each_keys);
        w.unrolled("e", VECTOR);
        w.line("scores[i][j] += q.of[e] * k[j].of[e];");
        for _ in 0..4 {
            w.close();
        }
    }

    /// Generates the weights of row `i` from its scores, and the correction of its sums.
    fn softmax(&self, w: &mut Writer, each_keys: usize, each_width: usize) {
        let (name, n) = (self.index.name(), |value: usize| self.index.number(value));
        let lowest = Scalar::Float.number(f64::NEG_INFINITY);
        w.line(&format!("float next = {lowest};"));
        w.unrolled("j", each_keys);
        w.line(&format!("const {name} key = from + tx + j * {SIDE}u;"));
        w.line(&format!("float score = {lowest};"));
        let row = format!("first + ty + i * {SIDE}u");
        w.open(&format!("if (key < {})", n(self.length)));
        let scale = Scalar::Float.number(self.call.attrs.expect_float("scale"));
        w.line(&format!("score = scores[i][j] * {scale};"));
        if let Some(mask) = self.call.inputs.get(3) {
            // Rows past the end read the last row's mask.
            w.line(&format!("const {name} row = {row} < {0} ? {row} : {1};", n(self.rows), n(self.rows - 1)));
            w.line(&format!(
                "const {name} o = ((batch * {} + head) * {} + row) * {} + key;",
                n(self.heads),
                n(self.rows),
                n(self.length)
            ));
            let sizes = [self.batch, self.heads, self.rows, self.length];
            let at = broadcast(&mask.shape, &sizes, "o", self.index);
            let read = scalar::widened(mask.dtype, &format!("{}[{at}]", parameter(3)));
            w.line(&format!("score += {read};"));
        }
        w.close();
        w.line("scores[i][j] = score;");
        w.line("next = larger(next, score);");
        w.close();
        w.line("#pragma unroll");
        w.line(&format!(
            "for (int lanes = {}; lanes > 0; lanes >>= 1) next = larger(next, __shfl_xor_sync(0xffffffffu, next, lanes));",
            SIDE / 2
        ));
        w.line("next = larger(next, most[i]);");
        // A row that is wholly masked so far has no largest score to subtract.
        w.line(&format!("const float shift = next == {lowest} ? 0.0f : next;"));
        w.line("const float factor = expf(most[i] - shift);");
        w.line("most[i] = next;");
        w.line("total[i] *= factor;");
        w.unrolled("c", each_width * VECTOR);
        w.line("sums[i][c] *= factor;");
        w.close();
        w.unrolled("j", each_keys);
        w.line("const float weight = expf(scores[i][j] - shift);");
        w.line("total[i] += weight;");
        w.line(&format!("const unsigned key = tx + j * {SIDE}u;"));
        w.line(&format!(
            "weights[(ty + i * {SIDE}u) * {}u + key / {VECTOR}u].of[key % {VECTOR}u] = weight;",
            self.weight_step()
        ));
        w.close();
    }

    /// Generates the product of the weights and the values.
    fn product(&self, w: &mut Writer, each_rows: usize, each_width: usize) {
        w.line("#pragma unroll 2");
        w.open(&format!("for (unsigned j = 0u; j < {}u; ++j)", self.tile.1 / VECTOR));
        w.line(&format!("Pack<float, {VECTOR}> p[{each_rows}];"));
        w.unrolled("i", each_rows);
        w.line(&format!("p[i] = weights[(ty + i * {SIDE}u) * {}u + j];", self.weight_step()));
        w.close();
        w.unrolled("e", VECTOR);
        w.unrolled("c", each_width);
        w.line(&format!(
            "const Pack<float, {VECTOR}> v = values[(j * {VECTOR}u + e) * {}u + c * {SIDE}u + tx];",
            self.width_step()
        ));
        w.unrolled("i", each_rows);
        w.unrolled("f", VECTOR);
        w.line(&format!("sums[i][c * {VECTOR}u + f] += p[i].of[e] * v.of[f];"));
        for _ in 0..5 {
            w.close();
        }
    }

    /// Generates the stores of the thread's rows.
    fn store(&self, w: &mut Writer, each_rows: usize, each_width: usize) {
        let (name, n) = (self.index.name(), |value: usize| self.index.number(value));
        let dtype = self.call.output.dtype;
        w.unrolled("i", each_rows);
        w.line("float all = total[i];");
        w.line("#pragma unroll");
        w.line(&format!(
            "for (int lanes = {}; lanes > 0; lanes >>= 1) all += __shfl_xor_sync(0xffffffffu, all, lanes);",
            SIDE / 2
        ));
        w.line(&format!("const {name} row = first + ty + i * {SIDE}u;"));
        w.unrolled("c", each_width);
        w.line(&format!("const unsigned column = c * {SIDE}u + tx;"));
        w.open(&format!("if (row < {} && column < {}u)", n(self.rows), self.width));
        w.line(&format!("Pack<{}, {VECTOR}> result;", scalar::memory(dtype)));
        w.unrolled("f", VECTOR);
        let value = scalar::narrowed(dtype, &format!("(sums[i][c * {VECTOR}u + f] / all)"));
        w.line(&format!("result.of[f] = {value};"));
        w.close();
        let at = self.line(usize::MAX, "row");
        w.line(&format!("store(out + ({at} + column * {VECTOR}u), result);"));
        for _ in 0..3 {
            w.close();
        }
    }
}

/// Returns the offset of a row of a stored operand, as a text in `batch`, `head` and the row's number.
fn line(order: AxisOrder, shape: &Shape, index: Index, row: &str) -> String {
    let [batch, head, line, _] = order.strides(shape).map(|stride| index.number(stride));
    format!("batch * {batch} + head * {head} + {row} * {line}")
}

/// The shared memory per block on every device, in bytes.
const SHARED: usize = 48 << 10;

/// Generates a kernel in which a block computes a row of the result, with its scores in shared memory.
fn rows(call: &Call<'_>, order: AxisOrder) -> Result<KernelJob, String> {
    let [q, k, v] = [0, 1, 2].map(|operand| order.sizes(&call.inputs[operand].shape));
    let dtype = call.output.dtype;
    let (length, depth, width) = (k[2], q[3], v[3]);
    let ty = Scalar::from_dtype(combined(dtype));
    let bytes = combined(dtype).size();
    if (length + BLOCK) * bytes > SHARED {
        return Err(format!(
            "a row of {length} scores does not fit into the {SHARED} bytes of shared memory of a block"
        ));
    }
    let index = index(call);
    let (name, n) = (index.name(), |value: usize| index.number(value));
    let sum = ty.name();
    let mut w = Writer::new();
    w.need(Some("combine"));
    w.need(Some("across"));
    w.need(scalar::prelude(dtype));
    let read = |operand: usize, at: &str| {
        let text = format!("{}[{at}]", parameter(operand));
        format!("({sum})({})", scalar::widened(dtype, &text))
    };
    w.line(&format!("__shared__ {sum} scores[{}];", length.max(1)));
    w.line(&format!("__shared__ {sum} shared[{}];", BLOCK / 32));
    // Blocks are numbered by batch, head and row.
    w.line(&format!("const {name} row = blockIdx.x % {};", n(q[2])));
    w.line(&format!("const {name} head = blockIdx.x / {} % {};", n(q[2]), n(q[1])));
    w.line(&format!("const {name} batch = blockIdx.x / {};", n(q[2] * q[1])));
    let line = |shape: &Shape, row: &str| line(order, shape, index, row);
    w.line(&format!("{sum} most = {};", ty.number(f64::NEG_INFINITY)));
    w.open(&format!("for ({name} j = threadIdx.x; j < {}; j += {BLOCK}u)", n(length)));
    w.line(&format!("{sum} score = 0;"));
    w.open(&format!("for ({name} d = 0; d < {}; ++d)", n(depth)));
    let (a, b) = (
        read(0, &format!("{} + d", line(&call.inputs[0].shape, "row"))),
        read(1, &format!("{} + d", line(&call.inputs[1].shape, "j"))),
    );
    w.line(&format!("score += {a} * {b};"));
    w.close();
    w.line(&format!("score *= {};", ty.number(call.attrs.expect_float("scale"))));
    if let Some(mask) = call.inputs.get(3) {
        w.line(&format!("const {name} o = blockIdx.x * {} + j;", n(length)));
        let at = broadcast(&mask.shape, &[q[0], q[1], q[2], length], "o", index);
        w.line(&format!("score += {};", read(3, &at)));
    }
    w.line("scores[j] = score;");
    w.line("most = larger(most, score);");
    w.close();
    let warps = BLOCK / 32;
    w.line(&format!("most = across_block<Most, {warps}>(most, shared);"));
    w.line(&format!("{sum} total = 0;"));
    w.open(&format!("for ({name} j = threadIdx.x; j < {}; j += {BLOCK}u)", n(length)));
    let exp = if ty == Scalar::Float { "expf" } else { "exp" };
    w.line(&format!("scores[j] = {exp}(scores[j] - most);"));
    w.line("total += scores[j];");
    w.close();
    w.line(&format!("total = across_block<Sum, {warps}>(total, shared);"));
    w.open(&format!("for ({name} e = threadIdx.x; e < {}; e += {BLOCK}u)", n(width)));
    w.line(&format!("{sum} sum = 0;"));
    w.open(&format!("for ({name} j = 0; j < {}; ++j)", n(length)));
    let value = read(2, &format!("{} + e", line(&call.inputs[2].shape, "j")));
    w.line(&format!("sum += scores[j] * {value};"));
    w.close();
    let result = if length == 0 { "sum" } else { "(sum / total)" };
    let at = line(&call.output.shape, "row");
    w.line(&format!("out[{at} + e] = {};", scalar::narrowed(dtype, result)));
    w.close();
    let launch = Launch::line(q[0] * q[1] * q[2])?;
    Ok(KernelJob { kernels: vec![kernel("attention", &parameters(call), w, launch)], ..KernelJob::default() })
}

fn parameters(call: &Call<'_>) -> Vec<Parameter> {
    let dtype = call.output.dtype;
    let input = |operand: usize| Parameter {
        name: parameter(operand),
        dtype,
        argument: Argument::Input(operand),
        apart: true,
    };
    let output = Parameter { name: "out".into(), dtype, argument: Argument::Output, apart: true };
    (0..call.inputs.len()).map(input).chain([output]).collect()
}
