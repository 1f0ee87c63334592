//! Ops on layouts mean their logical ops, and padding is zero.

use super::random::{LAYOUTS, Random};
use super::{eval, f32_type, find, layout, step};
use ovolo::attr::{Attr, Attrs};
use ovolo::tensor::{DType, Layout, Tensor, TensorType};

/// Copies between layouts take elements that are adjacent in both at once.
#[test]
fn a_value_is_the_same_in_every_layout() {
    let mut random = Random(5);
    let shape = [5, 37, 3, 21];
    for dtype in [DType::I8, DType::F16, DType::F32, DType::F64] {
        let plain = random.tensor(&TensorType::plain(dtype, shape));
        for name in ["nChw16c", "nhwc", "OIhw16i16o", "Ohwi16o", "aBcd4b", "abcD8d", "dcba"] {
            let there = plain.to_layout(&layout(name));
            let offset = |index: &[usize]| there.ty().layout.offset(&there.ty().shape, index);
            let (size, mut index) = (dtype.size(), vec![0; 4]);
            for at in 0..shape.iter().product() {
                let mut rest = at;
                for axis in (0..4).rev() {
                    index[axis] = rest % shape[axis];
                    rest /= shape[axis];
                }
                let element = &there.bytes()[offset(&index) * size..][..size];
                assert_eq!(element, &plain.bytes()[at * size..][..size], "{dtype:?} {name} {index:?}");
            }
            assert!(there.to_layout(&Layout::PLAIN).bytes() == plain.bytes(), "{dtype:?} {name}");
        }
    }
}

#[test]
fn a_blocked_op_means_its_logical_op() {
    let mut random = Random(3);
    let window = || Attrs::new().ints("strides", &[2, 1]).ints("pads", &[1, 0, 1, 2]);
    let post = Attr::Post(vec![step("add", &[]), step("sigmoid", &[])]);
    let check = |name: &str, attrs: Attrs, plain: &[Tensor], layouts: &[&str], tolerance: f64| {
        let logical = eval(find(name).unwrap().meaning(), attrs.clone(), plain);
        let operands: Vec<Tensor> =
            plain.iter().zip(layouts).map(|(tensor, name)| tensor.to_layout(&layout(name))).collect();
        let blocked = eval(name, attrs, &operands);
        assert_eq!(blocked.ty().shape, logical.ty().shape, "{name}");
        for (a, b) in blocked.to_f64().iter().zip(logical.to_f64()) {
            assert!((a - b).abs() <= tolerance, "{name} {layouts:?}: {a} instead of {b}");
        }
        // Padding is zero, although sigmoid(0) is not.
        assert_eq!(
            blocked.to_layout(&Layout::PLAIN).to_layout(&blocked.ty().layout).bytes(),
            blocked.bytes()
        );
    };
    let mut f32 = |dims: &[usize]| random.tensor(&f32_type(dims));
    let (x, w, bias) = (f32(&[2, 5, 7, 6]), f32(&[19, 5, 3, 2]), f32(&[19]));
    let extra = f32(&[1, 19, 1, 1]);
    for (x_layout, w_layout) in [("nChw16c", "OIhw16i16o"), ("nChw8c", "OIhw8i8o")] {
        let attrs = window().with("post", post.clone());
        let operands = [x.clone(), w.clone(), bias.clone(), extra.clone()];
        check("native.conv-direct", attrs, &operands, &[x_layout, w_layout, "plain", x_layout], 0.0);
    }
    let (image, w) = (f32(&[1, 3, 7, 6]), f32(&[10, 3, 3, 3]));
    check("native.conv-first", window(), &[image, w, f32(&[10])], &["plain", "Ohwi16o", "plain"], 0.0);
    let attrs = window().int("groups", 5);
    check(
        "native.conv-depthwise",
        attrs,
        &[x.clone(), f32(&[5, 1, 3, 3]), f32(&[5])],
        &["nChw8c", "Oihw8o", "plain"],
        0.0,
    );
    check(
        "native.conv-depthwise-nhwc",
        window().int("groups", 5),
        &[x.clone(), f32(&[5, 1, 3, 3]), f32(&[5])],
        &["nhwc", "Oihw16o", "plain"],
        0.0,
    );
    let attrs = window().with("inner", Attr::Post(vec![step("sigmoid", &[])])).with("post", post);
    let (w, v) = (f32(&[19, 5, 1, 1]), f32(&[19, 1, 3, 2]));
    check(
        "native.pointwise-depthwise",
        attrs,
        &[x.clone(), w, bias, v, f32(&[19]), extra],
        &["nChw8c", "OIhw8i8o", "plain", "Oihw8o", "plain", "nChw8c"],
        0.0,
    );
    let gates = Attrs::new().with("inner", Attr::Post(vec![step("silu", &[])]));
    let gates = gates.with("gate", Attr::Post(vec![step("sigmoid", &[])]));
    check(
        "native.squeeze-excite",
        gates,
        &[x.clone(), f32(&[3, 5, 1, 1]), f32(&[3]), f32(&[5, 3, 1, 1]), f32(&[5])],
        &["nChw8c", "Oihw8o", "plain", "Oihw8o", "plain"],
        0.0,
    );
    let pool = || window().ints("kernel", &[3, 3]);
    for blocks in ["nChw16c", "nChw8c", "nhwc"] {
        check("native.max-pool", pool(), std::slice::from_ref(&x), &[blocks], 0.0);
        check("native.avg-pool", pool(), std::slice::from_ref(&x), &[blocks], 0.0);
        check(
            "native.reduce-mean",
            Attrs::new().ints("axes", &[2, 3]),
            std::slice::from_ref(&x),
            &[blocks],
            0.0,
        );
    }
    let (a, b) = (f32(&[1, 8, 2, 3]), f32(&[1, 16, 2, 3]));
    check("native.concat", Attrs::new().int("axis", 1), &[a, b], &["nChw8c", "nChw8c"], 0.0);
    check("native.matmul-packed", Attrs::new(), &[f32(&[2, 3, 4]), f32(&[4, 33])], &["plain", "Ba32b"], 0.0);
}

#[test]
fn layouts_round_trip_and_pad_with_zero() {
    let mut random = Random(5);
    for dtype in [DType::F32, DType::I64, DType::U8, DType::BF16] {
        let plain = random.tensor(&TensorType::plain(dtype, [3, 5, 2, 3]));
        let dense = |name: &&str| layout(name).rank() == Some(4) && layout(name).stored().is_none();
        for name in LAYOUTS.into_iter().filter(dense) {
            let packed = eval(
                "pack",
                Attrs::new().with("layout", Attr::Layout(layout(name))),
                std::slice::from_ref(&plain),
            );
            let mut index = vec![0; 4];
            let size = dtype.size();
            for element in plain.bytes().chunks_exact(size) {
                let at = layout(name).offset(&plain.ty().shape, &index) * size;
                assert_eq!(&packed.bytes()[at..at + size], element, "{name} {index:?}");
                ovolo::tensor::advance(&mut index, &plain.ty().shape);
            }
            let zeros = |bytes: &[u8]| bytes.chunks_exact(size).filter(|e| e.iter().all(|b| *b == 0)).count();
            let padding = (packed.bytes().len() - plain.bytes().len()) / size;
            assert_eq!(zeros(packed.bytes()), zeros(plain.bytes()) + padding, "{name}");
            assert_eq!(eval("unpack", Attrs::new(), &[packed]).bytes(), plain.bytes(), "{name}");
        }
    }
}
