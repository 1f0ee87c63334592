//! Tests of scattered and gathered slices against the reference evaluations.

use crate::check::{Random, verify};
use ovolo::attr::{Attr, Attrs};
use ovolo::tensor::{DType, Tensor};

fn attrs() -> Attrs {
    Attrs::new()
}

#[test]
fn scattered_and_gathered_slices_agree_with_the_reference() {
    let mut random = Random::new(31);
    let text = |text: &str| Attr::Str(text.into());
    let types = [DType::F32, DType::I64, DType::U8, DType::F16, DType::F64];
    for (dtype, reduction) in
        types.into_iter().flat_map(|ty| ["none", "add", "mul", "max", "min"].map(|r| (ty, r)))
    {
        let close = match dtype {
            DType::F16 => 2e-2,
            DType::F32 => 1e-5,
            _ => 1e-12,
        };
        for (shape, dims, axis) in [
            ([4, 5, 300], [4, 5, 300], 1),
            ([4, 5, 300], [3, 9, 270], 1),
            ([7, 3, 6], [20, 2, 6], 0),
            ([3, 4, 5], [2, 4, 31], 2),
        ] {
            let x = random.tensor(dtype, shape);
            let updates = random.tensor(dtype, dims);
            let count = dims.iter().product::<usize>();
            // Rows of equal positions, and rows that differ; some positions count from the end.
            for spread in [1, dims[2]] {
                let at = |index: usize| (index / spread * 7 % (2 * shape[axis])) as i64 - shape[axis] as i64;
                let positions = Tensor::from_elements(dims, &(0..count).map(at).collect::<Vec<_>>());
                let attributes = attrs().int("axis", axis as i64).with("reduction", text(reduction));
                verify("native.scatter-elements", &attributes, &[&x, &positions, &updates], close);
            }
        }
        let x = random.tensor(dtype, [5, 6, 700]);
        let positions = Tensor::from_elements([4, 2], &[0_i32, 5, -1, 2, 0, 5, 4, 2]);
        let updates = random.tensor(dtype, [4, 700]);
        let attributes = attrs().with("reduction", text(reduction));
        verify("native.scatter-nd", &attributes, &[&x, &positions, &updates], close);
    }
    for dtype in types {
        let x = random.tensor(dtype, [3, 4, 5]);
        for (dims, batch) in [([2, 2], 0), ([3, 1], 1), ([3, 2], 1), ([2, 3], 0)] {
            let count = dims[0] * dims[1];
            let positions =
                Tensor::from_elements(dims, &(0..count as i64).map(|at| at % 5 - 3).collect::<Vec<_>>());
            verify("native.gather-nd", &attrs().int("batch-dims", batch), &[&x, &positions], 0.0);
        }
    }
}

/// Rows of a few columns are divided by their places, and those of many by their columns.
#[test]
fn rows_of_equal_positions_are_added_in_order() {
    let mut random = Random::new(32);
    for (dtype, close) in [(DType::F32, 1e-5), (DType::F64, 1e-12), (DType::I64, 0.0), (DType::F16, 2e-2)] {
        for (rows, line, size) in [(1, 1, 1), (7, 3, 2), (900, 40, 50), (900, 40, 5000), (70, 600, 9)] {
            let positions: Vec<i64> =
                (0..rows as i64).map(|row| row * row * 7 % (2 * size) - size).collect::<Vec<_>>();
            let positions = Tensor::from_elements([rows, 1], &positions);
            let updates = random.tensor(dtype, [rows, line]);
            verify("native.sum-equal-rows", &attrs().int("size", size), &[&positions, &updates], close);
            let x = random.tensor(dtype, [size as usize, line]);
            for reduction in ["add", "none"] {
                let attributes = attrs().with("reduction", Attr::Str(reduction.into()));
                verify("native.scatter-nd", &attributes, &[&x, &positions, &updates], close);
            }
        }
    }
}
