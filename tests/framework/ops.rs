//! Tests ops: their declarations, what they refuse, and their values.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss)]

mod layout;
mod random;
mod text;
mod value;

use crate::common;
use ovolo::attr::{Attr, Attrs, Float, Step};
use ovolo::op::{Op, OpError};
use ovolo::tensor::{DType, Layout, Shape, Tensor, TensorType};

fn find(name: &str) -> Option<Op> {
    common::ops().get(name)
}

fn all() -> Vec<Op> {
    common::ops().all()
}

fn attrs_of(name: &str, attrs: Attrs) -> Attrs {
    find(name).unwrap().complete(attrs)
}

fn infer(name: &str, attrs: Attrs, types: &[TensorType]) -> Result<TensorType, OpError> {
    find(name).unwrap().result(&attrs_of(name, attrs), &types.iter().collect::<Vec<_>>())
}

fn refusal(name: &str, attrs: Attrs, types: &[TensorType]) -> String {
    infer(name, attrs, types).expect_err("the types do not fit").to_string()
}

fn eval(name: &str, attrs: Attrs, operands: &[Tensor]) -> Tensor {
    let attrs = attrs_of(name, attrs);
    let types: Vec<&TensorType> = operands.iter().map(Tensor::ty).collect();
    let def = find(name).unwrap();
    let ty = def.result(&attrs, &types).unwrap_or_else(|why| panic!("{name}{attrs}: {why}"));
    let result = def.evaluate(&attrs, &operands.iter().collect::<Vec<_>>(), &ty);
    assert_eq!(*result.ty(), ty, "{name}{attrs}");
    result
}

fn f32s(shape: impl Into<Shape>, values: &[f32]) -> Tensor {
    Tensor::from_elements(shape, values)
}

fn i64s(shape: impl Into<Shape>, values: &[i64]) -> Tensor {
    Tensor::from_elements(shape, values)
}

fn f32_type(shape: impl Into<Shape>) -> TensorType {
    TensorType::plain(DType::F32, shape)
}

fn layout(name: &str) -> Layout {
    name.parse().unwrap()
}

fn step(op: &'static str, parameters: &[f64]) -> Step {
    Step { op: op.into(), parameters: parameters.iter().map(|p| Float(*p)).collect() }
}

#[test]
fn refusals_name_the_operand_or_attribute_and_the_shapes() {
    let x = || f32_type([1, 3, 8, 8]);
    let einsum = |text: &str| {
        let equation = Attrs::new().with("equation", Attr::Str(text.into()));
        refusal("einsum", equation, &[f32_type([2, 3]), f32_type([4, 2])])
    };
    let conv = |attrs, w: [usize; 4], bias| refusal("conv", attrs, &[x(), f32_type(w), f32_type([bias])]);
    let cases = [
        (conv(Attrs::new(), [4, 2, 3, 3], 4), "weights f32[4,2,3,3]"),
        (conv(Attrs::new(), [4, 3, 3, 3], 5), "bias f32[5]"),
        (conv(Attrs::new(), [4, 3, 9, 9], 4), "window of 9"),
        (conv(Attrs::new().ints("strides", &[1]), [4, 3, 3, 3], 4), "`strides`"),
        (conv(Attrs::new().ints("pads", &[0, -1, 0, 0]), [4, 3, 3, 3], 4), "`pads`"),
        (conv(Attrs::new().int("groups", 0), [4, 3, 3, 3], 4), "`groups`"),
        (refusal("matmul", Attrs::new(), &[f32_type([2, 3]), f32_type([4, 2])]), "3 columns meet 4 rows"),
        (einsum("ab,bc"), "no arrow"),
        (einsum("ab,b?->a"), "`?`, which is no letter"),
        (einsum("ab,bb->a"), "`b` twice"),
        (einsum("ab,bc->d"), "`d` in the result and in no operand"),
        (einsum("ab->a"), "1 operands, and there are 2"),
        (einsum("ab,b->a"), "operand 1 is f32[4,2], for which the equation has `b`"),
        (einsum("ab,bc->a"), "operand 1 is f32[4,2], in which `b` has size 4 and before 3"),
        (refusal("add", Attrs::new(), &[f32_type([2]), f32_type([3])]), "operand 1 is f32[3]"),
        (
            refusal("add", Attrs::new(), &[f32_type([2]), TensorType::plain(DType::I64, [2])]),
            "operand 1 is i64[2]",
        ),
        (refusal("softmax", Attrs::new().int("axis", 4), &[x()]), "`axis` is 4"),
        (refusal("transpose", Attrs::new().ints("perm", &[0, 0]), &[f32_type([2, 2])]), "`perm`"),
        (refusal("reshape", Attrs::new().ints("shape", &[5]), &[x()]), "192 elements"),
        (refusal("reduce-sum", Attrs::new().ints("axes", &[1, 0]), &[x()]), "`axes`"),
        (refusal("gather", Attrs::new().int("axis", 0), &[x(), x()]), "operand 1 is f32[1,3,8,8]"),
        (refusal("pack", Attrs::new().with("layout", Attr::Layout(layout("Ba32b"))), &[x()]), "Ba32b"),
        (refusal("concat", Attrs::new().int("axis", 1), &[x(), f32_type([1, 3, 8, 7])]), "operand 1"),
    ];
    for (message, part) in cases {
        assert!(message.contains(part), "`{message}` does not contain `{part}`");
    }
}

#[test]
fn attributes_of_one_name_are_of_one_kind() {
    // `*rest` copies attributes from one op to another by name.
    let mut kinds = std::collections::BTreeMap::new();
    for def in all() {
        for attr in &def.attrs {
            let (kind, first) = kinds.entry(attr.name).or_insert((attr.kind, def.name));
            assert_eq!(*kind, attr.kind, "`{}` of `{first}` and of `{}`", attr.name, def.name);
        }
    }
}
