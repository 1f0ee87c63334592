//! Products by weights of 4, 8 and 16 bits, held to the reference evaluation.

use crate::check::{Random, verify};
use crate::integer::bytes;
use ovolo::attr::{Attr, Attrs, Step};
use ovolo::tensor::{DType, Tensor};
use ovolo_native::Isa;

/// The largest distance from the reference, which does not round sums.
const TOLERANCE: f64 = 1e-4;

/// Returns weights of so many rows, with `per_byte` of them in a byte, in panels.
fn weights(random: &mut Random, dtype: DType, per_byte: i64, [rows, columns]: [usize; 2]) -> Tensor {
    let shape = vec![if per_byte == 2 { rows.div_ceil(2) } else { rows }, columns];
    let layout = if per_byte == 2 { "BA32b4a" } else { "Ba32b" };
    let plain = match dtype {
        DType::F16 | DType::BF16 => {
            let values: Vec<f64> =
                (0..rows * columns).map(|_| random.below(513) as f64 / 256.0 - 1.0).collect();
            Tensor::from_f64(dtype, shape, &values)
        }
        _ => bytes(random, dtype, &shape),
    };
    plain.to_layout(&layout.parse().unwrap())
}

/// Returns floats from -0.01 to 0.01, so that sums of products by bytes are small.
fn floats(random: &mut Random, shape: &[usize]) -> Tensor {
    let values: Vec<f64> =
        (0..shape.iter().product()).map(|_| random.below(2001) as f64 / 1e5 - 0.01).collect();
    Tensor::from_f64(DType::F32, shape.to_vec(), &values)
}

fn step(op: &'static str) -> Step {
    Step { op: op.into(), parameters: Vec::new() }
}

#[test]
fn products_by_stored_weights_are_those_of_the_definition() {
    let mut random = Random::new(23);
    let kinds = [(DType::I8, 1), (DType::U8, 1), (DType::F16, 1), (DType::BF16, 1), (DType::U8, 2)];
    for (dtype, per_byte) in kinds {
        for rows in [1, 2, 3, 4, 5, 40] {
            // Depths that fill no block and no group of rows, and more rows than a panel of floats has; columns of a part of a
            // panel, of several panels that are read side by side, and of more than a task has.
            for (depth, columns, block) in
                [(1, 1, 0), (8, 33, 8), (37, 70, 16), (96, 130, 32), (100, 300, 0), (1100, 40, 64)]
            {
                let w = weights(&mut random, dtype, per_byte, [depth, columns]);
                let blocks = if block == 0 { 1 } else { depth.div_ceil(block) };
                let layout = "Ba32b".parse().unwrap();
                let one = [
                    Tensor::from_f64(DType::F32, vec![], &[0.01]),
                    Tensor::from_f64(DType::F32, vec![], &[3.0]),
                ];
                let each = [(); 2].map(|()| floats(&mut random, &[blocks, columns]).to_layout(&layout));
                let a = floats(&mut random, &[rows, depth]);
                let bias = floats(&mut random, &[columns]);
                let attrs = Attrs::new()
                    .with("rows-per-scale", Attr::Int(block as i64))
                    .with("per-byte", Attr::Int(per_byte));
                let chained = attrs.clone().with("post", Attr::Post(["add", "relu"].map(step).to_vec()));
                for (s, z) in [(&one[0], &one[1]), (&each[0], &one[1]), (&each[0], &each[1])] {
                    let expected =
                        format!("{}-{}", if rows <= 4 { "registers" } else { "panels" }, Isa::planned());
                    let op = "native.matmul-narrow-packed";
                    let contract = verify(op, &attrs, &[&a, &w, s, z], TOLERANCE);
                    assert_eq!(
                        contract.implementation, expected,
                        "{dtype} {per_byte} {rows} {depth} {columns} {block}"
                    );
                    verify(op, &chained, &[&a, &w, s, z, &bias], TOLERANCE);
                }
            }
        }
    }
}

#[test]
fn blocks_that_begin_within_a_group_of_rows_are_those_of_the_definition() {
    let mut random = Random::new(24);
    let w = weights(&mut random, DType::U8, 2, [20, 40]);
    let s = floats(&mut random, &[4, 40]).to_layout(&"Ba32b".parse().unwrap());
    let z = Tensor::from_f64(DType::F32, vec![], &[8.0]);
    let a = floats(&mut random, &[2, 20]);
    let attrs = Attrs::new().with("rows-per-scale", Attr::Int(5)).with("per-byte", Attr::Int(2));
    let contract = verify("native.matmul-narrow-packed", &attrs, &[&a, &w, &s, &z], TOLERANCE);
    assert_eq!(contract.implementation, "reference");
}
