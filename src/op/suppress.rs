//! `non-max-suppression`.

use super::{Arity, AttrDef, Draw, Flags, OpDef, OpError, Sample, count, plain};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{DType, Tensor, TensorType};

pub(super) fn ops() -> Vec<OpDef> {
    vec![OpDef {
        name: "non-max-suppression",
        doc: "rows of image, class and box for the boxes (operand 0) with the best scores (operand 1) that overlap no \
              better one of their class too much; rows that are left over hold -1",
        arity: Arity::Exactly(2),
        attrs: vec![
            AttrDef::new("most", AttrKind::Int, None, "the most boxes of a class in an image"),
            AttrDef::new(
                "overlap",
                AttrKind::Float,
                None,
                "the largest share of two boxes' union that both cover",
            ),
            AttrDef::new("least", AttrKind::Float, None, "boxes need a higher score"),
            AttrDef::new(
                "center",
                AttrKind::Int,
                Some(Attr::Int(0)),
                "1: boxes are centre and size, x first; 0: two corners, y first",
            ),
        ],
        flags: Flags::default(),
        infer: |attrs, types| {
            plain(types)?;
            let (boxes, scores) = (&types[0].shape, &types[1].shape);
            let most = usize::try_from(attrs.expect_int("most")).unwrap_or(0);
            let most = most.min(boxes.get(1).copied().unwrap_or(0)); // A box is chosen once.
            let fits = boxes.rank() == 3
                && scores.rank() == 3
                && boxes[2] == 4
                && boxes[0] == scores[0]
                && boxes[1] == scores[2];
            if !fits {
                return Err(OpError::operands(format!("scores {} do not fit boxes {}", types[1], types[0])));
            }
            Ok(TensorType::plain(DType::I64, [scores[0] * scores[1] * most, 3]))
        },
        eval,
        flops: |_, types, _| count(types[1]) * 16.0,
        sample: Some(draw_boxes),
        lowered: None,
    }]
}

fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let (boxes, scores) = (operands[0].to_f64(), operands[1].to_f64());
    let shape = &operands[1].ty().shape;
    let (classes, number) = (shape[1], shape[2]);
    let most = usize::try_from(attrs.expect_int("most")).unwrap_or(0).min(number);
    let (overlap, least) = (attrs.expect_float("overlap"), attrs.expect_float("least"));
    let center = attrs.expect_int("center") != 0;
    let corners = |at: usize| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|k| boxes[at * 4 + k]);
        match center {
            true => [b - d / 2.0, a - c / 2.0, b + d / 2.0, a + c / 2.0],
            false => [a.min(c), b.min(d), a.max(c), b.max(d)],
        }
    };
    let area = |of: [f64; 4]| (of[2] - of[0]) * (of[3] - of[1]);
    let shared = |a: [f64; 4], b: [f64; 4]| {
        let height = (a[2].min(b[2]) - a[0].max(b[0])).max(0.0);
        let width = (a[3].min(b[3]) - a[1].max(b[1])).max(0.0);
        let both = height * width;
        let either = area(a) + area(b) - both;
        if either > 0.0 { both / either } else { 0.0 }
    };
    let signed = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
    let mut rows = Vec::with_capacity(ty.shape.count());
    for line in 0..shape[0] * classes {
        let (image, class) = (line / classes, line % classes);
        let score = |at: usize| scores[line * number + at];
        let mut order: Vec<usize> = (0..number).filter(|at| score(*at) > least).collect();
        order.sort_by(|a, b| score(*b).total_cmp(&score(*a)));
        let mut kept: Vec<usize> = Vec::new();
        for at in order {
            if kept.len() == most {
                break;
            }
            let own = corners(image * number + at);
            if kept.iter().all(|other| shared(own, corners(image * number + other)) <= overlap) {
                kept.push(at);
                rows.extend([signed(image), signed(class), signed(at)]);
            }
        }
    }
    rows.resize(ty.shape.count(), -1);
    Tensor::from_elements(ty.shape.clone(), &rows)
}

/// Draws boxes with scores.
fn draw_boxes(draw: &mut dyn Draw) -> Option<Sample> {
    let (images, classes, boxes) = (draw.small(), draw.small(), draw.small() + 2);
    let attrs = Attrs::new().size("most", draw.small()).float("overlap", 0.5).float("least", 0.0);
    let attrs = attrs.size("center", draw.below(2));
    let operands = [vec![images, boxes, 4], vec![images, classes, boxes]];
    Some(Sample::new(attrs, operands.map(|shape| TensorType::plain(DType::F32, shape)).to_vec()))
}
