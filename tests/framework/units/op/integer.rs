//! Tests of `src/op/integer.rs`.

use ovolo::attr::Attrs;
use ovolo::op::Ops;
use ovolo::tensor::Tensor;

#[test]
fn zero_points_are_subtracted_and_padding_is_zero() {
    let ops = Ops::new();
    let a = Tensor::from_elements([2, 2], &[1_u8, 255, 3, 4]);
    let b = Tensor::from_elements([2, 1], &[-128_i8, 127]);
    let (p, q) = (Tensor::from_elements([2, 1], &[1_u8, 0]), Tensor::from_elements([1], &[-1_i8]));
    let op = ops.get("matmul-integer").unwrap();
    let ty = op.result(&Attrs::new(), &[a.ty(), b.ty(), p.ty(), q.ty()]).unwrap();
    let product = op.evaluate(&Attrs::new(), &[&a, &b, &p, &q], &ty);
    assert_eq!(product.to_i64().unwrap(), [254 * 128, 3 * -127 + 4 * 128]);

    let x = Tensor::from_elements([1, 1, 1, 2], &[7_u8, 9]);
    let w = Tensor::from_elements([1, 1, 1, 3], &[1_u8, 2, 3]);
    let (p, q) = (Tensor::scalar(5_u8), Tensor::scalar(1_u8));
    let attrs = ops.get("conv-integer").unwrap().complete(Attrs::new().ints("pads", &[0, 1, 0, 1]));
    let op = ops.get("conv-integer").unwrap();
    let ty = op.result(&attrs, &[x.ty(), w.ty(), p.ty(), q.ty()]).unwrap();
    assert_eq!(op.evaluate(&attrs, &[&x, &w, &p, &q], &ty).to_i64().unwrap(), [2 + 8, 4]);
}
