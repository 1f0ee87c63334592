//! What the tables of derivatives and of losses have beside the ops and words of a registry: the ops of their left sides,
//! the op `label`, and computed attributes about shapes.

use ovolo::attr::{Attr, AttrKind};
use ovolo::op::{Arity, AttrDef, Flags, OpDef, OpError};
use ovolo::registry::{Registry, RegistryError};
use ovolo::rule::{Arguments, Kind, No, Value, Word};
use ovolo::tensor::{Tensor, TensorType};

/// The op on the left sides of the table of derivatives.
pub(crate) const GRADIENT: &str = "gradient";
/// The op on the left sides of the table of losses.
pub(crate) const LOSS: &str = "loss";
/// The op that stands for an input with labels.
pub(crate) const LABEL: &str = "label";

/// Adds the op and the computed attributes to a registry, which is then only good for reading the table.
pub(crate) fn add_to(registry: &mut Registry) -> Result<(), RegistryError> {
    for op in [gradient(), loss(), label()] {
        registry.add_op(op)?;
    }
    words().into_iter().try_for_each(|word| registry.add_word(word))
}

/// The form of left sides: it names an operand, the op with that operand, and the gradient of the op's result. It stands
/// in the table alone and never in a graph, since its value depends on how its second operand is computed.
fn gradient() -> OpDef {
    OpDef {
        name: GRADIENT,
        doc: "the gradient with respect to operand 0 of a number whose gradient with respect to operand 1, an op of operand 0, is operand 2",
        arity: Arity::Exactly(3),
        attrs: Vec::new(),
        flags: Flags::default(),
        infer: |_, types| {
            if types[1] == types[2] {
                Ok(types[0].clone())
            } else {
                Err(OpError::operands(format!("the gradient of {} is {}", types[1], types[2])))
            }
        },
        eval: |_, _, ty| Tensor::zeros(ty.clone()),
        flops: |_, _, _| 0.0,
        sample: None,
        lowered: None,
    }
}

/// The form of left sides of losses: a number that is computed from the model's output.
fn loss() -> OpDef {
    OpDef {
        name: LOSS,
        doc: "a loss of an output of the model",
        arity: Arity::Exactly(1),
        infer: |_, types| Ok(TensorType::plain(types[0].dtype, Vec::new())),
        ..gradient()
    }
}

fn label() -> OpDef {
    OpDef {
        name: LABEL,
        doc: "labels, which are an input of the step",
        arity: Arity::Exactly(0),
        attrs: vec![
            AttrDef::new("to", AttrKind::DType, None, "the element type"),
            AttrDef::new("shape", AttrKind::Ints, None, "the shape"),
        ],
        infer: |attrs, _| {
            let sizes = attrs.expect_ints("shape").iter().map(|size| usize::try_from(*size).ok());
            let sizes: Option<Vec<usize>> = sizes.collect();
            let sizes = sizes.ok_or_else(|| OpError::attribute("shape", "has a negative size"))?;
            Ok(TensorType::plain(attrs.expect_dtype("to"), sizes))
        },
        ..gradient()
    }
}

fn words() -> [Word; 6] {
    [
        Word::computed(
            "spread-axes",
            "the axes of the second operand along which the first one is repeated when it is broadcast to it, without \
             so many last axes",
            &[Kind::Operand, Kind::Operand, Kind::Size],
            Kind::List,
            spread_axes,
        ),
        Word::computed(
            "kept-shape",
            "the shape with 1 in place of the sizes of these axes",
            &[Kind::List, Kind::List],
            Kind::List,
            |v| {
                let mut shape = v.ints(0)?.to_vec();
                for axis in v.ints(1)? {
                    let size = usize::try_from(*axis).ok().and_then(|axis| shape.get_mut(axis));
                    *size.ok_or_else(|| format!("{} has no axis {axis}", v.show(0)))? = 1;
                }
                Ok(list(shape))
            },
        ),
        Word::computed(
            "range",
            "the integers from the first number up to the second, which is left out",
            &[Kind::Size, Kind::Size],
            Kind::List,
            |v| Ok(list((v.int(0)?..v.int(1)?).collect())),
        ),
        Word::computed(
            "matrices-turned",
            "the order of the axes of a stack of matrices that transposes each matrix",
            &[Kind::Operand],
            Kind::List,
            |v| {
                let rank = whole(v.operand(0)?.ty.shape.rank())?;
                if rank < 2 {
                    return Err(format!("{} has no rows and columns", v.show(0)).into());
                }
                Ok(list((0..rank - 2).chain([rank - 1, rank - 2]).collect()))
            },
        ),
        Word::computed(
            "einsum-exchanged",
            "the equation in which the operand at a position and the result change places",
            &[Kind::Text, Kind::Size],
            Kind::Text,
            |v| exchanged(v.text(0)?, v.int(1)?),
        ),
        Word::computed(
            "around",
            "how many elements lie before and after a part of a shape, as `pad` takes them; arguments: starts and sizes of \
             the part, the shape",
            &[Kind::List, Kind::List, Kind::List],
            Kind::List,
            |v| {
                let (starts, sizes, shape) = (v.ints(0)?, v.ints(1)?, v.ints(2)?);
                if starts.len() != shape.len() || sizes.len() != shape.len() {
                    return Err("the lists have different lengths".to_owned().into());
                }
                let after =
                    shape.iter().zip(starts.iter().zip(sizes)).map(|(all, (start, size))| all - start - size);
                Ok(list(starts.iter().copied().chain(after).collect()))
            },
        ),
    ]
}

fn spread_axes<'a>(v: &Arguments<'_, 'a>) -> Result<Value<'a>, No> {
    let (small, large) = (&v.operand(0)?.ty.shape, &v.operand(1)?.ty.shape);
    let missing = large
        .rank()
        .checked_sub(small.rank())
        .ok_or_else(|| format!("{small} has more dimensions than {large}"))?;
    let last = usize::try_from(v.int(2)?).unwrap_or(usize::MAX);
    let axes = (0..large.rank().saturating_sub(last))
        .filter(|axis| *axis < missing || small[axis - missing] == 1 && large[*axis] != 1);
    Ok(list(axes.map(whole).collect::<Result<_, _>>()?))
}

fn exchanged<'a>(equation: &str, at: i64) -> Result<Value<'a>, No> {
    let (operands, result) =
        equation.split_once("->").ok_or_else(|| format!("`{equation}` has no result"))?;
    let mut operands: Vec<&str> = operands.split(',').collect();
    let place = usize::try_from(at).ok().filter(|at| *at < operands.len());
    let place = place.ok_or_else(|| format!("`{equation}` has no operand {at}"))?;
    let own = std::mem::replace(&mut operands[place], result);
    if let Some(alone) = own.chars().find(|letter| !operands.iter().any(|term| term.contains(*letter))) {
        return Err(format!("operand {at} of `{equation}` alone has `{alone}`").into());
    }
    Ok(Value::Attr(Attr::Str(format!("{}->{own}", operands.join(",")).into())))
}

fn list<'a>(values: Vec<i64>) -> Value<'a> {
    Value::Attr(Attr::Ints(values))
}

fn whole(size: usize) -> Result<i64, No> {
    i64::try_from(size).map_err(|_| format!("{size} is too large").into())
}
