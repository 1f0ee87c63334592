//! The kernel for products by the usual arithmetic.
//!
//! A block of 256 threads computes a tile of the result, from pieces of both operands that it keeps in shared memory
//! twice: while the threads multiply one piece, they read the next, as vectors of 4 elements where rows of `f32` are whole
//! vectors. Each thread computes groups of 4 by 4 elements, and reads what it multiplies as vectors of 4 elements. With two
//! by two such groups it multiplies 64 times for 4 reads of shared memory, as in V. Volkov and J. Demmel, "Benchmarking GPUs to tune dense linear algebra" (2008).

use super::Product;
use crate::expr;
use crate::kernel::{KernelJob, Launch};
use crate::reduce::combined;
use crate::write::Writer;
use ovolo::tensor::DType;

/// The inner elements of a piece.
const DEPTH: usize = 8;
/// The number of threads along a side.
const THREADS: usize = 16;
/// The number of adjacent elements that a thread reads at once, and the side of a group.
const WIDTH: usize = 4;
/// The side of the square of one group of each thread.
const GROUP: usize = THREADS * WIDTH;
/// The number of large tiles that keeps the multiprocessors of a large device busy.
const BUSY: usize = 128;

/// Generates the job.
///
/// # Errors
/// If a size exceeds the limits of a grid, or an op of the post chain has no text.
pub(super) fn job(product: &Product<'_>) -> Result<KernelJob, String> {
    let groups = groups(product);
    let launch = Launch::plane(product.tiles(groups.map(|one| one * GROUP)), 1, [THREADS * THREADS, 1])?;
    let mut w = Writer::new();
    tile(product, &mut w, groups)?;
    Ok(product.kernel("product", w, launch))
}

/// Returns the number of groups of a thread along rows and columns.
fn groups(product: &Product<'_>) -> [usize; 2] {
    // The places of windows take as many registers as the sums of a second group along columns.
    let large = if product.right.0.is_empty() { [2, 2] } else { [2, 1] };
    let sides = large.map(|one| one * GROUP);
    let padded = |sides: [usize; 2]| product.tiles(sides) * sides[0] * sides[1];
    // Sums of 8 bytes would fill the registers of a thread.
    let narrow = combined(product.call.output.dtype).size() <= 4;
    let busy = product.tiles(sides) >= BUSY;
    if narrow && busy && 8 * padded(sides) <= 9 * padded([GROUP; 2]) { large } else { [1, 1] }
}

fn tile(product: &Product<'_>, w: &mut Writer, groups: [usize; 2]) -> Result<(), String> {
    let (name, n) = (product.index.name(), |value: usize| product.index.number(value));
    let (sum, sides, each) = (product.sum(), groups.map(|one| one * GROUP), groups.map(|one| one * WIDTH));
    let elements = sides.map(|side| side * DEPTH / (THREADS * THREADS));
    let vectors = vectors(product, elements);
    w.need(Some("pack"));
    // The extra vector of each row spreads the elements of a column over all banks.
    w.line(&format!("__shared__ Pack<{sum}, {WIDTH}> left[2][{DEPTH}][{}];", sides[0] / WIDTH + 1));
    w.line(&format!("__shared__ Pack<{sum}, {WIDTH}> right[2][{DEPTH}][{}];", sides[1] / WIDTH));
    product.place(w, sides);
    w.line(&format!("const unsigned tx = threadIdx.x % {THREADS}u;"));
    w.line(&format!("const unsigned ty = threadIdx.x / {THREADS}u;"));
    w.line(&format!("{sum} sums[{}][{}] = {{}};", each[0], each[1]));
    w.line("unsigned next = 0u;");
    // In the last round nothing is read, and in the first one nothing is multiplied.
    let end = product.depth.next_multiple_of(DEPTH) + DEPTH;
    w.line("#pragma unroll 1");
    w.open(&format!("for ({name} from = 0; from < {}; from += {DEPTH}u)", n(end)));
    for (name, elements, vectors) in [("a", elements[0], vectors[0]), ("b", elements[1], vectors[1])] {
        w.line(&match vectors {
            true => format!("Pack<{sum}, {WIDTH}> {name}_next[{}];", elements / WIDTH),
            false => format!("{sum} {name}_next[{elements}];"),
        });
    }
    read_left(product, w, elements[0], vectors[0]);
    read_right(product, w, sides[1], elements[1], vectors[1]);
    w.open("if (from > 0u)");
    multiply(w, sum, groups);
    w.close();
    keep_left(w, elements[0], vectors[0]);
    keep_right(w, sides[1], elements[1], vectors[1]);
    w.line("__syncthreads();");
    w.line("next = 1u - next;");
    w.close();
    w.unrolled("i", each[0]);
    w.unrolled("j", each[1]);
    let at = |from: &str, thread: &str, number: &str| {
        format!("{from} + {number} / {WIDTH}u * {GROUP}u + {thread} * {WIDTH}u + {number} % {WIDTH}u")
    };
    w.line(&format!("const {name} row = {};", at("first_row", "ty", "i")));
    w.line(&format!("const {name} column = {};", at("first_column", "tx", "j")));
    product.store_inside(w, "sums[i][j]")?;
    w.close();
    w.close();
    Ok(())
}

/// Whether each thread reads whole vectors of the left and of the right operand. Elements of windows lie apart. Where the
/// rows of the left operand are not whole vectors, those of the right one are read element by element as well: with both ways
/// in one kernel, there are too few registers on `sm_120`.
fn vectors(product: &Product<'_>, elements: [usize; 2]) -> [bool; 2] {
    let single = |at: usize| product.call.inputs[product.operands[at]].dtype == DType::F32;
    let whole =
        |at: usize, row: usize| single(at) && row.is_multiple_of(WIDTH) && elements[at].is_multiple_of(WIDTH);
    let left = whole(0, product.depth);
    [left, left && product.right.0.is_empty() && whole(1, product.columns)]
}

/// Opens the loop over what a thread reads of a piece, and says where it is: the number of the element or vector.
fn each(w: &mut Writer, count: usize) {
    w.unrolled("e", count);
    w.line(&format!("const unsigned at = threadIdx.x + e * {}u;", THREADS * THREADS));
}

/// Reads a thread's part of the left piece that begins at `from`; what is outside of the operand is zero.
fn read_left(product: &Product<'_>, w: &mut Writer, elements: usize, vectors: bool) {
    let (name, n, sum) = (product.index.name(), |value: usize| product.index.number(value), product.sum());
    let inside = format!("k < {} && row < {}", n(product.depth), n(product.rows));
    if vectors {
        each(w, elements / WIDTH);
        w.line(&format!("const {name} k = from + at % {}u * {WIDTH}u;", DEPTH / WIDTH));
        w.line(&format!("const {name} row = first_row + at / {}u;", DEPTH / WIDTH));
        w.line(&format!("Pack<{sum}, {WIDTH}> value = {{}};"));
        let operand = expr::parameter(product.operands[0]);
        w.line(&format!("if ({inside}) value = load<{WIDTH}>(&{operand}[{}]);", product.left));
    } else {
        each(w, elements);
        w.line(&format!("const {name} k = from + at % {DEPTH}u;"));
        w.line(&format!("const {name} row = first_row + at / {DEPTH}u;"));
        w.line(&format!("{sum} value = 0;"));
        let left = product.read(w, product.operands[0], &product.left);
        w.line(&format!("if ({inside}) value = {left};"));
    }
    w.line("a_next[e] = value;");
    w.close();
}

/// Does the same for the right piece.
fn read_right(product: &Product<'_>, w: &mut Writer, side: usize, elements: usize, vectors: bool) {
    let (name, n, sum) = (product.index.name(), |value: usize| product.index.number(value), product.sum());
    let inside = format!("k < {} && column < {}", n(product.depth), n(product.columns));
    let (lines, offset, exists) = &product.right;
    if vectors {
        let along = side / WIDTH;
        each(w, elements / WIDTH);
        w.line(&format!("const {name} k = from + at / {along}u;"));
        w.line(&format!("const {name} column = first_column + at % {along}u * {WIDTH}u;"));
        w.line(&format!("Pack<{sum}, {WIDTH}> value = {{}};"));
        let operand = expr::parameter(product.operands[1]);
        w.line(&format!("if ({inside}) value = load<{WIDTH}>(&{operand}[{offset}]);"));
    } else {
        each(w, elements);
        w.line(&format!("const {name} k = from + at / {side}u;"));
        w.line(&format!("const {name} column = first_column + at % {side}u;"));
        w.line(&format!("{sum} value = 0;"));
        w.open(&format!("if ({inside})"));
        lines.iter().for_each(|line| w.line(line));
        let right = product.read(w, product.operands[1], offset);
        let exists = exists.as_ref().map(|exists| format!("if ({exists}) ")).unwrap_or_default();
        w.line(&format!("{exists}value = {right};"));
        w.close();
    }
    w.line("b_next[e] = value;");
    w.close();
}

/// Stores what a thread has read of the left piece. A vector lies along the depth, and the rows of a piece are adjacent in
/// shared memory.
fn keep_left(w: &mut Writer, elements: usize, vectors: bool) {
    let place = |k: &str, row: &str| format!("left[next][{k}][{row} / {WIDTH}u].of[{row} % {WIDTH}u]");
    if vectors {
        let along = DEPTH / WIDTH;
        each(w, elements / WIDTH);
        w.line(&format!("const unsigned row = at / {along}u;"));
        w.unrolled("i", WIDTH);
        let place = place(&format!("at % {along}u * {WIDTH}u + i"), "row");
        w.line(&format!("{place} = a_next[e].of[i];"));
        w.close();
    } else {
        each(w, elements);
        w.line(&format!("const unsigned row = at / {DEPTH}u;"));
        w.line(&format!("{} = a_next[e];", place(&format!("at % {DEPTH}u"), "row")));
    }
    w.close();
}

/// Stores what a thread has read of the right piece.
fn keep_right(w: &mut Writer, side: usize, elements: usize, vectors: bool) {
    if vectors {
        let along = side / WIDTH;
        each(w, elements / WIDTH);
        w.line(&format!("right[next][at / {along}u][at % {along}u] = b_next[e];"));
    } else {
        each(w, elements);
        w.line(&format!("const unsigned column = at % {side}u;"));
        w.line(&format!("right[next][at / {side}u][column / {WIDTH}u].of[column % {WIDTH}u] = b_next[e];"));
    }
    w.close();
}

/// Adds the products of the piece that was stored in the round before.
fn multiply(w: &mut Writer, sum: &str, groups: [usize; 2]) {
    let each = groups.map(|one| one * WIDTH);
    w.unrolled("k", DEPTH);
    w.line(&format!("{sum} a[{}], b[{}];", each[0], each[1]));
    for (to, operand, thread, groups) in [("a", "left", "ty", groups[0]), ("b", "right", "tx", groups[1])] {
        w.unrolled("v", groups);
        w.line(&format!(
            "const Pack<{sum}, {WIDTH}> vector = {operand}[1u - next][k][v * {THREADS}u + {thread}];"
        ));
        w.unrolled("i", WIDTH);
        w.line(&format!("{to}[v * {WIDTH}u + i] = vector.of[i];"));
        w.close();
        w.close();
    }
    w.unrolled("i", each[0]);
    w.unrolled("j", each[1]);
    w.line("sums[i][j] += a[i] * b[j];");
    w.close();
    w.close();
    w.close();
}
