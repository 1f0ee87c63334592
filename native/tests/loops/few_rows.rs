//! Tests of products of a few rows on every instruction set.

use crate::check::Random;
use crate::few::{Few, PANELS};
use crate::gemm::{Function, PANEL, Tile};
use crate::lanes::Isa;
use crate::prefetch::Prefetch;

/// A product of some rows, whose right operand is plain or in panels.
struct Product {
    left: Vec<f32>,
    right: Vec<f32>,
    depth: usize,
    columns: usize,
    packed: bool,
}

impl Product {
    fn new(random: &mut Random, [rows, columns, depth]: [usize; 3], packed: bool) -> Self {
        let stored = if packed { columns.next_multiple_of(PANEL) } else { columns };
        let [left, right] =
            [[rows, depth], [depth, stored]].map(|shape| random.f32(shape).elements().to_vec());
        Self { left, right, depth, columns, packed }
    }

    /// Computes the columns from `first` on, and adds them to what is there if there is anything.
    fn run(&self, function: Function, first: usize, columns: usize, before: Option<f32>) -> Vec<f32> {
        let rows = self.left.len() / self.depth;
        let mut c = vec![before.unwrap_or(f32::NAN); rows * columns];
        let (from, b_stride) = if self.packed { (first * self.depth, PANEL) } else { (first, self.columns) };
        let tile = Tile {
            a: self.left.as_ptr(),
            a_stride: self.depth,
            b: self.right[from..].as_ptr(),
            b_stride,
            c: c.as_mut_ptr(),
            c_stride: columns,
            depth: self.depth,
            columns,
            accumulate: before.is_some(),
            ahead: Prefetch::NONE,
        };
        // SAFETY: the matrices have the sizes of the tile.
        unsafe { function(&tile) };
        c
    }

    fn want(&self, row: usize, column: usize) -> f32 {
        let at = |i: usize| match self.packed {
            true => column / PANEL * PANEL * self.depth + i * PANEL + column % PANEL,
            false => i * self.columns + column,
        };
        (0..self.depth).map(|i| self.left[row * self.depth + i] * self.right[at(i)]).sum()
    }
}

/// Compares products of a few rows on one instruction set with sums of products, and their columns with those of narrower
/// tiles: the numbers do not depend on how columns are divided among threads.
pub fn agree_on(isa: Isa) {
    let mut random = Random::new(12);
    let Few { plain, packed } = Few::of(isa);
    for (functions, is_packed) in [(plain, false), (packed, true)] {
        for (at, &function) in functions.iter().enumerate() {
            for (columns, depth) in [(300, 11), (PANELS * PANEL, 4), (70, 3), (7, 1), (100, 9)] {
                let (rows, columns) = (at + 1, if is_packed { columns.min(PANELS * PANEL) } else { columns });
                let product = Product::new(&mut random, [rows, columns, depth], is_packed);
                for before in [None, Some(1.0)] {
                    let all = product.run(function, 0, columns, before);
                    for (at, value) in all.iter().enumerate() {
                        let (row, column) = (at / columns, at % columns);
                        let want = before.unwrap_or(0.0) + product.want(row, column);
                        let place = format!("{isa}, packed: {is_packed} [{row},{column}] of {rows} rows");
                        assert!((value - want).abs() < 1e-4, "{place}: {value}, not {want}");
                    }
                    for first in (0..columns).step_by(PANEL) {
                        let part = PANEL.min(columns - first);
                        let alone = product.run(function, first, part, before);
                        for row in 0..rows {
                            let same = &all[row * columns + first..][..part];
                            assert_eq!(&alone[row * part..][..part], same, "{isa}, columns from {first} on");
                        }
                    }
                }
            }
        }
    }
}
