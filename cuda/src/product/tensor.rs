//! The kernel for products on tensor cores, for architectures from 8.0 on.
//!
//! A block computes a tile of the result from pieces of both operands in shared memory, which are copied in the background
//! (`cp.async`) while the piece before is multiplied. Each warp multiplies matrices of 16 by 16 (f16, bf16) or 16 by 8
//! (TF32) with matrices of 8 columns by `mma.sync`, and adds in `f32`. The layouts of fragments are those of the PTX
//! ISA, section "Warp-level matrix instructions".

use super::{Product, product};
use crate::kernel::{KernelJob, Launch};
use crate::write::Writer;
use crate::{expr, tf32};
use ovolo::attr::Attrs;
use ovolo::op::{Call, OpError};
use ovolo::tensor::{DType, TensorType};

/// The bytes of an asynchronous copy, and of a vector in shared memory.
const VECTOR: usize = 16;
/// The bytes of a row of the left piece: 32 elements of 16 bits, or 16 of TF32.
const DEPTH: usize = 64;
/// The rows and columns of a multiplication.
const ROWS: usize = 16;
const COLUMNS: usize = 8;
/// The number of multiplications of a warp along rows and columns.
const EACH: usize = 4;
/// The number of large tiles that keeps the multiprocessors of a large device busy.
const BUSY: usize = 128;

/// How a block divides its tile among warps: their numbers along rows and columns.
#[derive(Clone, Copy)]
struct Tile {
    warps: [usize; 2],
}

impl Tile {
    /// A warp computes 64 rows and 32 columns.
    const LARGE: Self = Self { warps: [2, 4] };
    const SMALL: Self = Self { warps: [1, 2] };

    /// Returns the rows and columns of the tile.
    fn sides(self) -> [usize; 2] {
        [self.warps[0] * EACH * ROWS, self.warps[1] * EACH * COLUMNS]
    }

    fn threads(self) -> usize {
        32 * self.warps[0] * self.warps[1]
    }
}

/// Generates the job for `matmul`.
///
/// # Errors
/// If the types are not those of [`check`], a size exceeds the limits of a grid, or an op of the post chain has no text.
pub(in super::super) fn matmul(call: &Call<'_>) -> Result<KernelJob, String> {
    check(call.attrs, call.inputs, call.output).map_err(|error| error.to_string())?;
    let product = product(call)?;
    if call.output.shape.count() == 0 {
        return Ok(KernelJob::default());
    }
    let tile = if product.tiles(Tile::LARGE.sides()) >= BUSY { Tile::LARGE } else { Tile::SMALL };
    let launch = Launch::plane(product.tiles(tile.sides()), 1, [tile.threads(), 1])?;
    let mut w = Writer::new();
    Tensor::new(&product, tile).write(&mut w)?;
    Ok(product.kernel("tensor", w, launch))
}

/// Checks that tensor cores multiply elements of these types, and that vectors of both operands are aligned.
///
/// # Errors
/// The reason why not.
pub(in super::super) fn check(
    attrs: &Attrs,
    types: &[&TensorType],
    result: &TensorType,
) -> Result<(), OpError> {
    let dtype = result.dtype;
    tf32::check(attrs, dtype)?;
    let takes = match dtype {
        DType::F16 | DType::BF16 => true,
        DType::F32 => attrs.expect_int("tf32") == 1,
        _ => false,
    };
    if !takes {
        return Err(OpError::operand(
            0,
            types[0],
            ": f16, bf16, and f32 with `tf32` are supported".to_owned(),
        ));
    }
    let vector = VECTOR / dtype.size();
    for (at, ty) in types[..2].iter().enumerate() {
        let row = ty.shape.last().copied().unwrap_or(0);
        if row == 0 || row % vector != 0 {
            return Err(OpError::operand(at, ty, format!(": the last size must be a multiple of {vector}")));
        }
    }
    Ok(())
}

/// The text of a kernel.
struct Tensor<'a> {
    product: &'a Product<'a>,
    tile: Tile,
    /// The type of a vector in shared memory, and the number of its elements.
    vector: (&'static str, usize),
    /// Elements of a row of the left piece, and inner elements of a multiplication.
    depth: usize,
    inner: usize,
    /// The function that multiplies.
    multiply: &'static str,
    single: bool,
}

impl<'a> Tensor<'a> {
    fn new(product: &'a Product<'a>, tile: Tile) -> Self {
        let dtype = product.call.output.dtype;
        let (element, inner, multiply) = match dtype {
            DType::F16 => ("unsigned short", 16, "multiply_half"),
            DType::BF16 => ("unsigned short", 16, "multiply_brain"),
            _ => ("float", 8, "multiply_single"),
        };
        Self {
            product,
            tile,
            vector: (element, VECTOR / dtype.size()),
            depth: DEPTH / dtype.size(),
            inner,
            multiply,
            single: dtype == DType::F32,
        }
    }

    fn write(&self, w: &mut Writer) -> Result<(), String> {
        let (name, n) = (self.product.index.name(), |value: usize| self.product.index.number(value));
        let ([rows, columns], (element, width)) = (self.tile.sides(), self.vector);
        w.need(Some("pack"));
        w.need(Some("tensor"));
        // The extra vectors of each row spread the elements that a warp reads at once over all banks.
        let (left, right) = (self.depth / width + 1, (columns + 8) / width);
        w.line(&format!("__shared__ Pack<{element}, {width}> left[2][{rows}][{left}];"));
        w.line(&format!("__shared__ Pack<{element}, {width}> right[2][{}][{right}];", self.depth));
        self.product.place(w, [rows, columns]);
        w.line("const unsigned lane = threadIdx.x % 32u;");
        let along = self.tile.warps[1];
        w.line(&format!("const unsigned warp_row = threadIdx.x / 32u / {along}u * {}u;", EACH * ROWS));
        w.line(&format!("const unsigned warp_column = threadIdx.x / 32u % {along}u * {}u;", EACH * COLUMNS));
        w.line(&format!("float sums[{EACH}][{EACH}][4] = {{}};"));
        w.line("unsigned next = 0u;");
        // In the last round nothing is copied, and in the first one nothing is multiplied.
        let end = self.product.depth.next_multiple_of(self.depth) + self.depth;
        w.line("#pragma unroll 1");
        w.open(&format!("for ({name} from = 0; from < {}; from += {}u)", n(end), self.depth));
        self.copy(w);
        w.line("end_of_copies();");
        w.open("if (from > 0u)");
        w.line("wait_for_copies<1>();");
        w.line("__syncthreads();");
        self.multiply(w);
        w.line("__syncthreads();");
        w.close();
        w.line("next = 1u - next;");
        w.close();
        w.line("wait_for_copies<0>();");
        w.unrolled("i", EACH);
        w.unrolled("j", EACH);
        w.unrolled("c", 4);
        w.line(&format!("const {name} row = first_row + warp_row + i * {ROWS}u + lane / 4u + c / 2u * 8u;"));
        w.line(&format!(
            "const {name} column = first_column + warp_column + j * {COLUMNS}u + lane % 4u * 2u + c % 2u;"
        ));
        self.product.store_inside(w, "sums[i][j][c]")?;
        for _ in 0..3 {
            w.close();
        }
        Ok(())
    }

    /// Copies a thread's vectors of the pieces that begin at `from`; what is outside of the operands is zero.
    fn copy(&self, w: &mut Writer) {
        let (product, (_, width)) = (self.product, self.vector);
        let (name, n) = (product.index.name(), |value: usize| product.index.number(value));
        let ([rows, columns], threads) = (self.tile.sides(), self.tile.threads());
        let [a, b] = product.operands.map(expr::parameter);
        let (along, down) = (self.depth / width, columns / width);
        w.unrolled("e", rows * along / threads);
        w.line(&format!("const unsigned at = threadIdx.x + e * {threads}u;"));
        w.line(&format!("const {name} k = from + at % {along}u * {width}u;"));
        w.line(&format!("const {name} row = first_row + at / {along}u;"));
        w.line(&format!("const bool inside = k < {} && row < {};", n(product.depth), n(product.rows)));
        w.line(&format!("const {name} offset = inside ? {} : 0;", product.left));
        w.line(&format!("copy_vector(&left[next][at / {along}u][at % {along}u], &{a}[offset], inside);"));
        w.close();
        w.unrolled("e", self.depth * down / threads);
        w.line(&format!("const unsigned at = threadIdx.x + e * {threads}u;"));
        w.line(&format!("const {name} k = from + at / {down}u;"));
        w.line(&format!("const {name} column = first_column + at % {down}u * {width}u;"));
        w.line(&format!("const bool inside = k < {} && column < {};", n(product.depth), n(product.columns)));
        w.line(&format!("const {name} offset = inside ? {} : 0;", product.right.1));
        w.line(&format!("copy_vector(&right[next][at / {down}u][at % {down}u], &{b}[offset], inside);"));
        w.close();
    }

    /// Adds the products of the pieces that were copied in the round before.
    fn multiply(&self, w: &mut Writer) {
        let (_, width) = self.vector;
        w.unrolled("inner", self.depth / self.inner);
        w.line(&format!("unsigned a[{EACH}][4], b[{EACH}][2];"));
        w.line(&format!("const unsigned k = inner * {}u;", self.inner));
        if self.single {
            // Each lane rounds the elements that it passes on.
            let element = |operand: &str, row: &str, column: &str| {
                format!(
                    "to_tf32({operand}[1u - next][{row}][({column}) / {width}u].of[({column}) % {width}u])"
                )
            };
            w.unrolled("i", EACH);
            w.unrolled("r", 4);
            w.line(&format!("const unsigned row = warp_row + i * {ROWS}u + lane / 4u + r % 2u * 8u;"));
            w.line("const unsigned column = k + lane % 4u + r / 2u * 4u;");
            w.line(&format!("a[i][r] = {};", element("left", "row", "column")));
            w.close();
            w.close();
            w.unrolled("j", EACH);
            w.unrolled("r", 2);
            w.line("const unsigned row = k + lane % 4u + r * 4u;");
            w.line(&format!("const unsigned column = warp_column + j * {COLUMNS}u + lane / 4u;"));
            w.line(&format!("b[j][r] = {};", element("right", "row", "column")));
            w.close();
            w.close();
        } else {
            w.unrolled("i", EACH);
            w.line(&format!(
                "read_matrices(a[i], &left[1u - next][warp_row + i * {ROWS}u + lane % 16u][(k + lane / 16u * 8u) / {width}u]);"
            ));
            w.close();
            w.unrolled("j", EACH / 2);
            w.line("unsigned both[4];");
            w.line(&format!(
                "read_transposed(both, &right[1u - next][k + lane % 16u][(warp_column + j * 16u + lane / 16u * 8u) / {width}u]);"
            ));
            w.unrolled("r", 4);
            w.line("b[j * 2u + r / 2u][r % 2u] = both[r];");
            w.close();
            w.close();
        }
        w.unrolled("i", EACH);
        w.unrolled("j", EACH);
        w.line(&format!("{}(sums[i][j], a[i], b[j]);", self.multiply));
        for _ in 0..3 {
            w.close();
        }
    }
}
