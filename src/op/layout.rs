//! Conversions between layouts. Logical values do not change, except that a value with more blocks than a sparse layout
//! stores loses the last ones; padding is zero.

use super::{Arity, AttrDef, Flags, OpDef, OpError, plain};
use crate::attr::{AttrKind, Attrs};
use crate::tensor::{Layout, TensorType};

pub(super) fn ops() -> Vec<OpDef> {
    vec![
        def("pack", "converts x from the default layout to another", vec![layout_attr()], |attrs, types| {
            plain(types)?;
            to_layout(types[0], attrs.expect_layout("layout"))
        }),
        OpDef {
            // Padding holds zero, so a value has only one form in each layout.
            flags: Flags { injective: true, sparse: true, ..Flags::default() },
            ..def("unpack", "converts x from another layout to the default one", Vec::new(), |_, types| {
                if types[0].layout.is_plain() {
                    return Err(OpError::operand(0, types[0], ", in the default layout already"));
                }
                Ok(types[0].with_layout(Layout::PLAIN))
            })
        },
        def(
            "reorder",
            "converts x from a layout that is not the default to another",
            vec![layout_attr()],
            |attrs, types| {
                if types[0].layout.is_plain() || types[0].layout == *attrs.expect_layout("layout") {
                    return Err(OpError::operand(0, types[0], ""));
                }
                to_layout(types[0], attrs.expect_layout("layout"))
            },
        ),
    ]
}

fn layout_attr() -> AttrDef {
    AttrDef::new("layout", AttrKind::Layout, None, "the layout of the result")
}

fn to_layout(ty: &TensorType, layout: &Layout) -> Result<TensorType, OpError> {
    if layout.is_plain() {
        return Err(OpError::attribute("layout", "is the default layout: that is `unpack`"));
    }
    if layout.rank() != Some(ty.shape.rank()) {
        return Err(OpError::operands(format!("layout {layout} does not fit {ty}")));
    }
    let result = ty.with_layout(layout.clone());
    match crate::tensor::type_error(&result) {
        Some(error) => Err(OpError::operands(error)),
        None => Ok(result),
    }
}

fn def(
    name: &'static str,
    doc: &'static str,
    attrs: Vec<AttrDef>,
    infer: fn(&Attrs, &[&TensorType]) -> Result<TensorType, OpError>,
) -> OpDef {
    OpDef {
        name,
        doc,
        arity: Arity::Exactly(1),
        attrs,
        flags: Flags { sparse: true, ..Flags::default() },
        infer,
        eval: |_, operands, ty| operands[0].to_layout(&ty.layout),
        flops: |_, _, _| 0.0,
        sample: None,
        lowered: None,
    }
}
