//! Tests of sparse layouts.

use crate::units::fixture::ops;
use ovolo::attr::{Attr, Attrs};
use ovolo::tensor::{DType, Layout, Tensor, TensorType};

fn layout(text: &str) -> Layout {
    text.parse().unwrap()
}

/// A matrix of 3 rows and 5 columns with few numbers that are not zero, one of them a NaN and one a negative zero.
fn matrix() -> Tensor {
    let mut values = [0.0; 15];
    (values[1], values[4], values[12], values[7]) = (2.5, -1.0, f32::NAN, -0.0);
    Tensor::from_elements([3, 5], &values)
}

fn same(left: &Tensor, right: &Tensor) -> bool {
    let equal = |(a, b): (&f32, &f32)| a == b || a.is_nan() && b.is_nan();
    left.ty() == right.ty() && left.elements::<f32>().iter().zip(right.elements::<f32>()).all(equal)
}

#[test]
fn the_blocks_that_hold_anything_are_stored_and_come_back() {
    let matrix = matrix();
    for text in ["ab.3", "ba.3", "Ba4b.3", "Ab2a.3", "AB2a2b.3", "Ba16b.2", "ab.15", "BA4b2a.4"] {
        let sparse = matrix.to_layout(&layout(text));
        assert_eq!(sparse.bytes().len(), sparse.ty().bytes(), "{text}");
        assert!(same(&sparse.to_layout(&Layout::PLAIN), &matrix), "{text}");
        // From one sparse layout to another one.
        let other = sparse.to_layout(&layout("ba.5"));
        assert!(same(&other.to_layout(&Layout::PLAIN), &matrix), "{text}");
    }
}

#[test]
fn the_bytes_are_rows_then_columns_then_elements() {
    let sparse = matrix().to_layout(&layout("ab.3"));
    let numbers: &[u32] = bytemuck::cast_slice(&sparse.bytes()[..28]);
    assert_eq!(numbers, [0, 2, 2, 3, 1, 4, 2], "where each row begins, the end, and the columns");
    assert_eq!(sparse.ty().elements_at(), 64);
    let elements: &[f32] = bytemuck::cast_slice(&sparse.bytes()[64..]);
    assert_eq!(elements[..2], [2.5, -1.0]);
    assert!(elements[2].is_nan() && elements.len() == 3);
}

#[test]
fn a_value_with_more_blocks_than_are_stored_loses_the_last_ones() {
    let dense = matrix().to_layout(&layout("ab.2")).to_layout(&Layout::PLAIN);
    let mut first = [0.0; 15];
    (first[1], first[4]) = (2.5, -1.0);
    assert_eq!(dense.elements::<f32>(), first);
}

#[test]
fn a_value_of_zeros_or_without_elements_has_no_blocks() {
    for shape in [vec![3, 5], vec![0, 5], vec![3, 0]] {
        let zeros = Tensor::zeros(TensorType::plain(DType::F16, shape));
        let sparse = zeros.to_layout(&layout("Ba4b.0"));
        assert_eq!(sparse.to_layout(&Layout::PLAIN).bytes(), zeros.bytes());
    }
}

#[test]
fn bytes_that_name_no_place_are_left_out() {
    let mut sparse = matrix().to_layout(&layout("ab.3"));
    sparse.bytes_mut()[16..28].fill(0xff);
    let dense = sparse.to_layout(&Layout::PLAIN);
    assert!(dense.elements::<f32>().iter().all(|value| *value == 0.0));
}

#[test]
fn texts_that_are_no_sparse_layout_say_why() {
    for text in ["ab.", "ab.x", "ab.-1", "ab.+1", "ab.01", "ab.1.2"] {
        let error = text.parse::<Layout>().unwrap_err().to_string();
        assert!(
            error.contains("a dot is followed by the number of blocks that are stored"),
            "{text}: {error}"
        );
    }
    let text = "Ba4b.96";
    assert_eq!((layout(text).to_string().as_str(), layout(text).stored()), (text, Some(96)));
    assert_ne!(layout(text), layout("Ba4b"));
}

#[test]
fn ops_refuse_operands_in_sparse_layouts_unless_they_convert_them() {
    let ty = matrix().to_layout(&layout("ab.3")).ty().clone();
    let infer = |op: &str, attrs: Attrs, types: &[&TensorType]| {
        let def = ops().get(op).unwrap();
        def.result(&def.complete(attrs), types).map(|ty| ty.to_string()).map_err(|error| error.to_string())
    };
    assert_eq!(infer("unpack", Attrs::new(), &[&ty]).unwrap(), "f32[3,5]");
    for (op, count) in [("relu", 1), ("add", 2), ("matmul", 2), ("concat", 1)] {
        let attrs = if op == "concat" { Attrs::new().with("axis", Attr::Int(0)) } else { Attrs::new() };
        let error = infer(op, attrs, &vec![&ty; count]).unwrap_err();
        assert!(error.contains("in a sparse layout: `unpack` makes it dense"), "{op}: {error}");
    }
    let pack = |text: &str| {
        let plain = TensorType::plain(DType::F32, [3, 5]);
        infer("pack", Attrs::new().with("layout", Attr::Layout(layout(text))), &[&plain])
    };
    assert_eq!(pack("Ab2a.7").unwrap(), "f32[3,5]@Ab2a.7");
    assert_eq!(
        pack("Ab2a.11").unwrap_err(),
        "layout `Ab2a.11` stores 11 blocks, and f32[3,5]@Ab2a.11 has 10"
    );
}
