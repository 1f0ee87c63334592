//! Tests of `native.col2im` against the reference evaluation.

use crate::check::{Random, verify};
use ovolo::attr::Attrs;
use ovolo::tensor::DType;

/// Blocks of an image: for each axis the image's size, the block's, the stride, both pads and the dilation.
fn attributes(axes: &[[usize; 6]]) -> Attrs {
    let list = |at: usize| axes.iter().map(|axis| axis[at]).collect::<Vec<_>>();
    Attrs::new()
        .sizes("image", &list(0))
        .sizes("block", &list(1))
        .sizes("strides", &list(2))
        .sizes("pads", &[list(3), list(4)].concat())
        .sizes("dilations", &list(5))
}

#[test]
fn blocks_of_an_image_agree_with_the_reference() {
    let mut random = Random::new(67);
    for axes in [
        vec![[7, 3, 1, 0, 0, 1]],
        vec![[9, 2, 4, 1, 3, 3]],
        vec![[5, 5, 1, 0, 0, 1], [5, 5, 1, 0, 0, 1]],
        vec![[6, 3, 1, 1, 1, 1], [8, 3, 1, 1, 1, 1]],
        vec![[6, 2, 3, 0, 1, 2], [8, 3, 2, 2, 0, 2]],
        // Blocks that lie apart, so that some pixels are in none, and blocks that lie outside the image.
        vec![[11, 2, 5, 0, 0, 1], [7, 1, 3, 0, 2, 1]],
        vec![[2, 2, 1, 3, 3, 1], [3, 3, 2, 4, 1, 1]],
        vec![[3, 2, 1, 1, 0, 1], [4, 2, 2, 0, 0, 1], [5, 3, 1, 1, 1, 2]],
        // Large enough for several tasks, which cut images into bands.
        vec![[64, 3, 1, 1, 1, 1], [80, 3, 1, 1, 1, 1]],
        vec![[65, 4, 2, 1, 1, 1], [79, 3, 2, 1, 1, 1]],
    ] {
        let area: usize = axes.iter().map(|axis| axis[1]).product();
        let count =
            |axis: &[usize; 6]| (axis[0] + axis[3] + axis[4] - (axis[1] - 1) * axis[5] - 1) / axis[2] + 1;
        let blocks: usize = axes.iter().map(count).product();
        for (images, channels) in [(1, 1), (2, 3), (0, 2)] {
            for dtype in [DType::F32, DType::F64] {
                let x = random.tensor(dtype, vec![images, channels * area, blocks]);
                let contract = verify("native.col2im", &attributes(&axes), &[&x], 2e-6);
                assert_eq!(contract.implementation, "bands");
            }
        }
    }
}

#[test]
fn images_without_axes_are_left_to_the_reference() {
    let x = Random::new(71).tensor(DType::F32, vec![2, 3, 1]);
    let contract = verify("native.col2im", &attributes(&[]), &[&x], 0.0);
    assert_eq!(contract.implementation, ovolo::op::REFERENCE);
}
