//! Tests of tiles of matrix products on every instruction set.

use crate::check::Random;
#[cfg(target_arch = "x86_64")]
use crate::gemm::x86;
use crate::gemm::{Micro, PORTABLE, Tile};
use crate::lanes::Isa;
use crate::prefetch::Prefetch;

/// Returns the engine for an instruction set.
fn engine(isa: Isa) -> Micro {
    let functions = match isa {
        Isa::Portable => PORTABLE,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => x86::AVX2,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => x86::AVX512,
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 | Isa::Avx512 => unreachable!("this architecture never runs {isa}"),
    };
    Micro { functions, name: isa.name() }
}

/// Compares tiles of products on one instruction set with sums of products.
pub fn agree_on(isa: Isa) {
    let mut random = Random::new(12);
    let micro = engine(isa);
    for (rows, columns, depth) in [(1, 32, 9), (3, 7, 4), (17, 32, 40), (30, 19, 33), (4, 30, 5)] {
        let (a, b) = (random.f32([rows, depth]), random.f32([depth, columns]));
        let (left, right) = (a.elements::<f32>(), b.elements::<f32>());
        let mut c = vec![1.0; rows * columns];
        let tile = Tile {
            a: left.as_ptr(),
            a_stride: depth,
            b: right.as_ptr(),
            b_stride: columns,
            c: c.as_mut_ptr(),
            c_stride: columns,
            depth,
            columns,
            accumulate: true,
            ahead: Prefetch::new(right.as_ptr(), right.len()),
        };
        // SAFETY: the matrices have the sizes of the tile.
        unsafe { micro.block(&tile, rows) };
        for (at, value) in c.iter().enumerate() {
            let (row, column) = (at / columns, at % columns);
            let product = |i: usize| left[row * depth + i] * right[i * columns + column];
            let want = 1.0 + (0..depth).map(product).sum::<f32>();
            assert!((value - want).abs() < 1e-4, "{} [{row},{column}]: {value}, not {want}", micro.name);
        }
    }
}
