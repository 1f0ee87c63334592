//! Products with weights in sparse layouts, held to the reference evaluation.

use crate::check::{Random, run, verify};
use ovolo::attr::{Attr, Attrs, Step};
use ovolo::tensor::{DType, Layout, Tensor};

const TOLERANCE: f64 = 1e-5;

/// Returns weights in a sparse layout that stores as many of these blocks as hold anything: about `share` percent.
fn weights(random: &mut Random, shape: &[usize], blocks: &str, share: usize) -> Tensor {
    let dense: Layout = blocks.parse().unwrap();
    let values = random.f32(shape.to_vec()).to_layout(&dense);
    let block: usize = dense.blocks().iter().map(|block| block.1).product();
    let mut kept = values.clone();
    let mut stored = 0;
    for block in kept.elements_mut::<f32>().chunks_exact_mut(block) {
        if random.below(100) >= share {
            block.fill(0.0);
        }
        stored += usize::from(block.iter().any(|value| *value != 0.0));
    }
    kept.to_layout(&Layout::PLAIN).to_layout(&format!("{blocks}.{stored}").parse().unwrap())
}

fn chain(steps: &[&'static str]) -> Attr {
    Attr::Post(steps.iter().map(|op| Step { op: (*op).into(), parameters: Vec::new() }).collect())
}

#[test]
fn products_with_sparse_weights_equal_the_reference() {
    let mut random = Random::new(53);
    for (rows, depth, columns) in
        [(1, 1, 1), (3, 7, 5), (32, 40, 48), (33, 20, 100), (70, 65, 130), (128, 96, 64)]
    {
        for (blocks, share) in [("Ba4b", 10), ("Ba4b", 100), ("Ba16b", 25), ("ba", 10), ("ba", 0)] {
            let x = random.f32([2, rows, depth]);
            let w = weights(&mut random, &[depth, columns], blocks, share);
            let (bias, residual) = (random.f32([columns]), random.f32([2, rows, columns]));
            for (steps, extras) in
                [(&[][..], vec![]), (&["add", "relu"], vec![&bias]), (&["add", "sigmoid"], vec![&residual])]
            {
                let operands: Vec<&Tensor> = [&x, &w].into_iter().chain(extras).collect();
                let attrs = Attrs::new().with("post", chain(steps));
                let contract = verify("native.matmul-sparse", &attrs, &operands, TOLERANCE);
                assert!(contract.implementation.starts_with("blocks"), "{}", contract.implementation);
            }
        }
    }
}

#[test]
fn convolutions_with_sparse_weights_equal_the_reference() {
    let mut random = Random::new(59);
    // Images; outputs, rows and columns of a window; strides, dilations and pads.
    type Case = ([usize; 4], [usize; 3], [i64; 2], [i64; 2], [i64; 4]);
    let cases: [Case; 8] = [
        ([1, 1, 1, 1], [1, 1, 1], [1, 1], [1, 1], [0, 0, 0, 0]),
        ([2, 20, 8, 12], [33, 1, 1], [1, 1], [1, 1], [0, 0, 0, 0]),
        ([1, 40, 7, 7], [64, 1, 1], [1, 1], [1, 1], [0, 0, 0, 0]),
        ([1, 9, 17, 19], [20, 1, 1], [2, 3], [1, 1], [1, 0, 0, 1]),
        ([2, 6, 11, 9], [18, 3, 3], [1, 1], [1, 1], [1, 1, 1, 1]),
        ([1, 5, 12, 13], [16, 3, 2], [1, 2], [2, 1], [2, 0, 1, 1]),
        ([2, 6, 9, 8], [32, 1, 1], [1, 1], [1, 1], [0, 0, 0, 0]),
        ([1, 16, 10, 11], [128, 3, 3], [2, 1], [1, 1], [1, 1, 1, 1]),
    ];
    let groups = [1, 1, 1, 1, 1, 1, 2, 8];
    for ((image, [outputs, rows, columns], strides, dilations, pads), groups) in cases.iter().zip(groups) {
        for (blocks, share) in [("Abcd4a", 15), ("Abcd16a", 40), ("abcd", 10), ("Abcd4a", 0)] {
            let x = random.f32(image.to_vec());
            let w = weights(&mut random, &[*outputs, image[1] / groups, *rows, *columns], blocks, share);
            let (bias, scale) = (random.f32([*outputs]), random.f32([1, *outputs, 1, 1]));
            let attrs = Attrs::new()
                .with("strides", Attr::Ints(strides.to_vec()))
                .with("dilations", Attr::Ints(dilations.to_vec()))
                .with("pads", Attr::Ints(pads.to_vec()))
                .with("groups", Attr::Int(groups as i64));
            for (steps, extras) in [(&[][..], vec![]), (&["mul", "relu"], vec![&scale])] {
                let operands: Vec<&Tensor> = [&x, &w, &bias].into_iter().chain(extras).collect();
                let attrs = attrs.clone().with("post", chain(steps));
                let contract = verify("native.conv-sparse", &attrs, &operands, TOLERANCE);
                assert!(contract.implementation.starts_with("blocks"), "{}", contract.implementation);
            }
        }
    }
}

#[test]
fn bytes_that_name_no_place_are_kept_in_bounds() {
    let mut random = Random::new(67);
    let x = random.f32([40, 24]);
    let mut w = weights(&mut random, &[24, 32], "Ba4b", 50);
    let numbers = w.ty().elements_at();
    w.bytes_mut()[4..numbers].fill(0xff);
    let attrs = Attrs::new().with("post", chain(&[]));
    let ty = ovolo::tensor::TensorType::plain(DType::F32, [40, 32]);
    // The runner checks that nothing is written around the result.
    let (_, result) = run("native.matmul-sparse", &attrs, &[&x, &w], &ty, 2, None);
    assert!(result.elements::<f32>().iter().all(|value| value.is_finite()));
}

#[test]
fn weights_of_other_types_are_computed_by_the_reference() {
    let mut random = Random::new(61);
    let x = random.tensor(DType::F64, [3, 8]);
    let w = random.tensor(DType::F64, [8, 8]).to_layout(&"Ba4b.16".parse().unwrap());
    let attrs = Attrs::new().with("post", chain(&[]));
    let contract = verify("native.matmul-sparse", &attrs, &[&x, &w], TOLERANCE);
    assert!(!contract.implementation.starts_with("blocks"), "{}", contract.implementation);
}
