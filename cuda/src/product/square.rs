//! The kernel for products by the usual arithmetic.
//!
//! A block of 256 threads computes a tile of the result, from pieces of both operands that it keeps in shared memory
//! twice: while the threads multiply one piece, they read the next. Each thread computes groups of 4 by 4 elements, and
//! reads what it multiplies as vectors of 4 elements. With two by two such groups it multiplies 64 times for 4 reads of
//! shared memory, as in V. Volkov and J. Demmel, "Benchmarking GPUs to tune dense linear algebra" (2008).

use super::Product;
use crate::kernel::{KernelJob, Launch};
use crate::reduce::combined;
use crate::write::Writer;

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
    w.line(&format!("{sum} a_next[{}], b_next[{}];", elements[0], elements[1]));
    read(product, w, sides[1], elements);
    w.open("if (from > 0u)");
    multiply(w, sum, groups);
    w.close();
    for (operand, from, elements) in [("left", "a", elements[0]), ("right", "b", elements[1])] {
        w.unrolled("e", elements);
        w.line(&format!("const unsigned at = threadIdx.x + e * {}u;", THREADS * THREADS));
        let (k, place) = match operand {
            "left" => (format!("at % {DEPTH}u"), format!("at / {DEPTH}u")),
            _ => (format!("at / {}u", sides[1]), format!("at % {}u", sides[1])),
        };
        w.line(&format!("{operand}[next][{k}][{place} / {WIDTH}u].of[{place} % {WIDTH}u] = {from}_next[e];"));
        w.close();
    }
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

/// Reads a thread's elements of the pieces that begin at `from`; what is outside of the operands is zero.
fn read(product: &Product<'_>, w: &mut Writer, side: usize, elements: [usize; 2]) {
    let (name, n, sum) = (product.index.name(), |value: usize| product.index.number(value), product.sum());
    w.unrolled("e", elements[0]);
    w.line(&format!("const unsigned at = threadIdx.x + e * {}u;", THREADS * THREADS));
    w.line(&format!("const {name} k = from + at % {DEPTH}u;"));
    w.line(&format!("const {name} row = first_row + at / {DEPTH}u;"));
    w.line(&format!("{sum} value = 0;"));
    let left = product.read(w, product.operands[0], &product.left);
    w.line(&format!("if (k < {} && row < {}) value = {left};", n(product.depth), n(product.rows)));
    w.line("a_next[e] = value;");
    w.close();
    w.unrolled("e", elements[1]);
    w.line(&format!("const unsigned at = threadIdx.x + e * {}u;", THREADS * THREADS));
    w.line(&format!("const {name} k = from + at / {side}u;"));
    w.line(&format!("const {name} column = first_column + at % {side}u;"));
    w.line(&format!("{sum} value = 0;"));
    w.open(&format!("if (k < {} && column < {})", n(product.depth), n(product.columns)));
    let (lines, at, inside) = &product.right;
    lines.iter().for_each(|line| w.line(line));
    let right = product.read(w, product.operands[1], at);
    let inside = inside.as_ref().map(|inside| format!("if ({inside}) ")).unwrap_or_default();
    w.line(&format!("{inside}value = {right};"));
    w.close();
    w.line("b_next[e] = value;");
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
