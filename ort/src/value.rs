//! Values: what a model takes and gives.

use crate::argument::Handle;
use crate::dtype::element;
use crate::status::Failure;
use crate::tensor::Numbers;
use crate::texts::Texts;
use crate::type_info::{TensorInfo, TypeInfo};
use ort_sys::{ONNXTensorElementDataType as Element, OrtValue};
use ovolo::ValueType;
use ovolo::onnx::Item;
use ovolo::tensor::{Shape, Tensor};
use std::sync::Arc;

/// A value. Clones share the memory of tensors.
#[derive(Clone)]
pub enum Value {
    /// A tensor of numbers.
    Numbers(Arc<Numbers>),
    /// A tensor of strings.
    Texts(Arc<Texts>),
    /// A sequence of values of one type.
    Sequence(TypeInfo, Vec<Value>),
    /// A map: a tensor of keys, and a tensor with as many values.
    Map(Box<Value>, Box<Value>),
    /// An optional value that is absent. The type is that of a value that is there.
    Absent(TypeInfo),
}

impl Handle for Value {
    type Sys = OrtValue;
}

impl Value {
    /// Makes a value of a tensor of numbers.
    pub fn numbers(numbers: Numbers) -> Self {
        Self::Numbers(Arc::new(numbers))
    }

    /// Makes a value of what a run has computed. `ty` is the type that the model declares.
    pub fn computed(item: Item<Tensor>, ty: Option<&ValueType>) -> Result<Self, Failure> {
        match item {
            Item::Tensor(tensor) => Self::tensor(tensor),
            Item::Sequence(items) => {
                let inner = match ty {
                    Some(ValueType::Sequence(inner)) => Some(&**inner),
                    _ => None,
                };
                let values: Vec<Self> =
                    items.into_iter().map(|item| Self::computed(item, inner)).collect::<Result<_, _>>()?;
                Ok(Self::Sequence(element_info(inner, values.first()), values))
            }
            Item::Maps(keys, rows) => Self::maps(&keys, &rows),
            Item::Absent => {
                let inner = match ty {
                    Some(ValueType::Optional(inner)) => Some(&**inner),
                    other => other,
                };
                Ok(Self::Absent(element_info(inner, None)))
            }
        }
    }

    fn tensor(tensor: Tensor) -> Result<Self, Failure> {
        match tensor.to_texts() {
            Some(texts) => Ok(Self::Texts(Arc::new(Texts::new(tensor.ty().shape.clone(), texts)))),
            None => Numbers::computed(tensor).map(Self::numbers),
        }
    }

    /// Makes a sequence of maps that have the same keys: the rows of a matrix.
    fn maps(keys: &Tensor, rows: &Tensor) -> Result<Self, Failure> {
        let width = keys.ty().shape.count();
        let count = rows.ty().shape.count() / width.max(1);
        let keys = keys.reshaped(Shape::from([width]));
        let map = |row| {
            let values = Self::numbers(Numbers::row(rows, width, row));
            Ok(Self::Map(Box::new(Self::tensor(keys.clone())?), Box::new(values)))
        };
        let value = TypeInfo::Tensor(TensorInfo::new(element(rows.ty().dtype), Vec::new()));
        let info = TypeInfo::Map(element(keys.ty().dtype), Box::new(value));
        Ok(Self::Sequence(info, (0..count).map(map).collect::<Result<_, _>>()?))
    }

    /// Returns the value as a run takes it. `name` is that of the input.
    pub fn operand(&self, name: &str) -> Result<Item<Tensor>, Failure> {
        match self {
            Self::Numbers(numbers) => Ok(Item::Tensor(numbers.operand())),
            Self::Texts(texts) => Ok(Item::Tensor(texts.operand())),
            Self::Sequence(_, values) => {
                values.iter().map(|value| value.operand(name)).collect::<Result<_, _>>().map(Item::Sequence)
            }
            Self::Map(..) => Err(Failure::invalid(format!(
                "input `{name}` is a map: ovolo takes tensors, sequences and optional values"
            ))),
            Self::Absent(_) => Ok(Item::Absent),
        }
    }

    /// Describes the value.
    pub fn info(&self) -> TypeInfo {
        match self {
            Self::Numbers(numbers) => TypeInfo::Tensor(numbers.info()),
            Self::Texts(texts) => TypeInfo::Tensor(texts.info()),
            Self::Sequence(inner, _) => TypeInfo::Sequence(Box::new(inner.clone())),
            Self::Map(keys, values) => TypeInfo::Map(
                keys.element().unwrap_or(Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED),
                Box::new(values.info()),
            ),
            Self::Absent(inner) => TypeInfo::Optional(Box::new(inner.clone())),
        }
    }

    /// Returns the type of the elements of a tensor; `None` for other values.
    pub fn element(&self) -> Option<Element> {
        match self {
            Self::Numbers(numbers) => Some(element(numbers.ty().dtype)),
            Self::Texts(_) => Some(Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING),
            _ => None,
        }
    }

    /// Returns the sizes of a tensor; `None` for other values.
    pub fn dims(&self) -> Option<&[i64]> {
        match self {
            Self::Numbers(numbers) => Some(numbers.dims()),
            Self::Texts(texts) => Some(texts.dims()),
            _ => None,
        }
    }

    /// Returns a value of its own memory.
    pub fn copied(&self) -> Self {
        match self {
            Self::Numbers(numbers) => Self::numbers(Numbers::own(numbers.copied())),
            Self::Texts(texts) => Self::Texts(Arc::new((**texts).clone())),
            Self::Sequence(inner, values) => {
                Self::Sequence(inner.clone(), values.iter().map(Self::copied).collect())
            }
            Self::Map(keys, values) => Self::Map(Box::new(keys.copied()), Box::new(values.copied())),
            Self::Absent(inner) => Self::Absent(inner.clone()),
        }
    }

    /// Copies what a run has computed into this value, which the caller has made for it.
    pub fn receive(&self, computed: &Self) -> Result<(), Failure> {
        match (self, computed) {
            (Self::Numbers(own), Self::Numbers(computed)) => own.receive(computed),
            (Self::Texts(own), Self::Texts(computed)) => own.receive(computed),
            _ => Err(Failure::invalid("only a tensor of its type can be made for it before a run")),
        }
    }
}

/// Describes the elements of a sequence, or what an optional value would have.
fn element_info(declared: Option<&ValueType>, first: Option<&Value>) -> TypeInfo {
    let unshaped = |dtype| TensorInfo::new(element(dtype), Vec::new());
    match (declared, first) {
        (Some(ty), _) => TypeInfo::of(ty, &unshaped),
        (None, Some(value)) => value.info(),
        (None, None) => TypeInfo::Tensor(unshaped(ovolo::DType::F32)),
    }
}
