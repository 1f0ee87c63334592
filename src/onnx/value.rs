//! Values as ONNX's own files hold them: one `TensorProto`, `SequenceProto`, `OptionalProto` or `MapProto` a file.
//!
//! A file does not say which of these messages it is; the type that a model declares does.

use super::element::{self, STRING, element_type};
use super::initializer::Initializer;
use super::proto::{
    DimensionProto, ElementKind, MapProto, OptionalProto, SequenceProto, TensorProto, TypeProto,
    ValueInfoProto,
};
use super::{OnnxError, Refusal, weight};
use crate::tensor::Tensor;
use crate::value::{Keys, Map, Value, ValueType};
use prost::Message;
use prost::bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The types of a model's inputs and outputs, as the model declares them. What has no type is left out.
#[derive(Clone, Debug, Default)]
pub struct Interface {
    /// The inputs by their names, initializers included.
    pub inputs: Vec<(String, ValueType)>,
    /// The outputs by their names.
    pub outputs: Vec<(String, ValueType)>,
    /// The shapes of those tensors among them that have one, by their names.
    pub shapes: BTreeMap<String, Vec<Size>>,
    /// The names of the inputs that are initializers, and so need not be given.
    pub defaults: BTreeSet<String>,
    /// What the model says of itself.
    pub about: About,
}

/// The size of a dimension, as a model declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Size {
    /// A number.
    Fixed(usize),
    /// A name, which stands for one size in the whole model.
    Named(String),
    /// Neither.
    Unknown,
}

/// What a model says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The program that wrote it.
    pub producer: String,
    /// The name of its graph.
    pub graph: String,
    /// The domain of the model.
    pub domain: String,
    /// Its documentation.
    pub description: String,
    /// Its version.
    pub version: i64,
    /// Further names with values.
    pub metadata: BTreeMap<String, String>,
}

impl Interface {
    /// Reads the declarations in a model's file.
    ///
    /// # Errors
    /// If the file cannot be read, or is no model.
    pub fn read(path: &Path) -> Result<Self, OnnxError> {
        let name = path.display().to_string();
        let read = |why: std::io::Error| OnnxError::Read { path: name.clone(), why: why.to_string() };
        let Some(map) = weight::map(path).map_err(read)? else {
            return Err(OnnxError::Empty { model: name });
        };
        let model = super::decode(Bytes::from_owner(map), &name)?;
        let graph = model.graph.unwrap_or_default();
        let metadata = model.metadata_props.into_iter().map(|entry| (entry.key, entry.value)).collect();
        let about = About {
            producer: model.producer_name,
            graph: graph.name,
            domain: model.domain,
            description: model.doc_string,
            version: model.model_version,
            metadata,
        };
        let shape = |info: &ValueInfoProto| {
            let shape = info.r#type.as_ref()?.tensor_type.as_ref()?.shape.as_ref()?;
            Some((info.name.clone(), shape.dim.iter().map(size).collect()))
        };
        let shapes = graph.input.iter().chain(&graph.output).filter_map(shape).collect();
        let weights: BTreeSet<&str> =
            Initializer::of(&graph.initializer, &graph.sparse_initializer).map(Initializer::name).collect();
        let names = graph.input.iter().map(|input| input.name.clone());
        let defaults = names.filter(|name| weights.contains(name.as_str())).collect();
        let types = |list: &[ValueInfoProto]| {
            let known =
                |info: &ValueInfoProto| Some((info.name.clone(), value_type(info.r#type.as_ref()?).ok()?));
            list.iter().filter_map(known).collect()
        };
        Ok(Self { inputs: types(&graph.input), outputs: types(&graph.output), shapes, defaults, about })
    }

    /// Returns the type of an input.
    pub fn input(&self, name: &str) -> Option<&ValueType> {
        self.inputs.iter().find(|(known, _)| known == name).map(|(_, ty)| ty)
    }

    /// Returns the type of an output.
    pub fn output(&self, name: &str) -> Option<&ValueType> {
        self.outputs.iter().find(|(known, _)| known == name).map(|(_, ty)| ty)
    }
}

fn size(dim: &DimensionProto) -> Size {
    match (dim.dim_value.and_then(|size| usize::try_from(size).ok()), &dim.dim_param) {
        (Some(size), _) => Size::Fixed(size),
        (None, Some(name)) if !name.is_empty() => Size::Named(name.clone()),
        _ => Size::Unknown,
    }
}

/// Returns the type that a message describes.
pub(crate) fn value_type(proto: &TypeProto) -> Result<ValueType, Refusal> {
    let part = |inner: Option<&TypeProto>| {
        let inner = inner.ok_or_else(|| Refusal::other("the type of its elements is not given"))?;
        value_type(inner).map(Box::new)
    };
    if let Some(tensor) = &proto.tensor_type {
        return Ok(ValueType::Tensor(element_type(tensor.elem_type)?));
    }
    if let Some(sequence) = &proto.sequence_type {
        return Ok(ValueType::Sequence(part(sequence.elem_type.as_deref())?));
    }
    if let Some(optional) = &proto.optional_type {
        return Ok(ValueType::Optional(part(optional.elem_type.as_deref())?));
    }
    if let Some(map) = &proto.map_type {
        let key = if map.key_type == STRING { None } else { Some(element_type(map.key_type)?) };
        return Ok(ValueType::Map(key, part(map.value_type.as_deref())?));
    }
    Err(Refusal::other("it has no type, or is a sparse tensor"))
}

/// Reads a value of this type from the bytes of a file.
///
/// # Errors
/// If the bytes are no such value.
pub fn decode_value(bytes: &[u8], ty: &ValueType) -> Result<Value, Refusal> {
    fn message<T: Message + Default>(bytes: &[u8]) -> Result<T, Refusal> {
        T::decode(bytes).map_err(|why| Refusal::other(format!("its bytes are no value of ONNX: {why}")))
    }
    match ty {
        ValueType::Tensor(_) => from_tensor(&message(bytes)?),
        ValueType::Sequence(_) => from_sequence(&message(bytes)?),
        ValueType::Optional(_) => from_optional(&message(bytes)?),
        ValueType::Map(..) => from_map(&message(bytes)?),
    }
}

/// Returns the bytes of a file that holds a value. The type says what a sequence without elements is made of; without
/// a type, its elements are tensors.
///
/// # Errors
/// If the value is not of the type.
pub fn encode_value(name: &str, value: &Value, ty: Option<&ValueType>) -> Result<Vec<u8>, Refusal> {
    match (ty, value) {
        // An optional value that is present is written as such, even if it is given plainly.
        (Some(ValueType::Optional(inner)), Value::Optional(_)) => {
            Ok(to_optional(name, value, Some(inner)).encode_to_vec())
        }
        (Some(ValueType::Optional(inner)), plain) => {
            let present = Value::Optional(Some(Box::new(plain.clone())));
            Ok(to_optional(name, &present, Some(inner)).encode_to_vec())
        }
        (_, Value::Optional(_)) => Ok(to_optional(name, value, None).encode_to_vec()),
        (Some(ValueType::Sequence(inner)), Value::Sequence(list)) => {
            Ok(to_sequence(name, list, Some(inner)).encode_to_vec())
        }
        (None, Value::Sequence(list)) => Ok(to_sequence(name, list, None).encode_to_vec()),
        (None | Some(ValueType::Map(..)), Value::Map(map)) => Ok(to_map(name, map).encode_to_vec()),
        (None | Some(ValueType::Tensor(_)), Value::Tensor(tensor)) => {
            Ok(to_tensor(name, tensor).encode_to_vec())
        }
        (Some(ty), value) => Err(Refusal::other(format!("it is declared as {ty}, but is {}", value.kind()))),
    }
}

fn text(bytes: &Bytes) -> Result<String, Refusal> {
    let text = std::str::from_utf8(bytes);
    text.map(str::to_owned).map_err(|_| Refusal::other("it has a string that is not UTF-8"))
}

pub(crate) fn from_tensor(proto: &TensorProto) -> Result<Value, Refusal> {
    let ty = element::tensor_type(proto)?;
    Ok(Value::Tensor(
        if proto.raw_data.is_empty() && (element::holds_typed(proto) || ty.shape.count() == 0) {
            element::typed(proto, ty)?
        } else {
            element::raw(&proto.raw_data, ty)?
        },
    ))
}

fn from_sequence(proto: &SequenceProto) -> Result<Value, Refusal> {
    let tensors = proto.tensor_values.iter().map(from_tensor);
    let sequences = proto.sequence_values.iter().map(from_sequence);
    let maps = proto.map_values.iter().map(from_map);
    let optionals = proto.optional_values.iter().map(from_optional);
    tensors.chain(sequences).chain(maps).chain(optionals).collect::<Result<_, _>>().map(Value::Sequence)
}

fn from_optional(proto: &OptionalProto) -> Result<Value, Refusal> {
    let value = match proto.elem_type() {
        ElementKind::Tensor => proto.tensor_value.as_ref().map(from_tensor),
        ElementKind::Sequence => proto.sequence_value.as_ref().map(from_sequence),
        ElementKind::Map => proto.map_value.as_ref().map(from_map),
        ElementKind::Optional => proto.optional_value.as_deref().map(from_optional),
        ElementKind::Undefined | ElementKind::SparseTensor => None,
    };
    Ok(Value::Optional(value.transpose()?.map(Box::new)))
}

fn from_map(proto: &MapProto) -> Result<Value, Refusal> {
    let keys = if proto.key_type == STRING {
        Keys::Strings(proto.string_keys.iter().map(text).collect::<Result<_, _>>()?)
    } else {
        Keys::Integers(element_type(proto.key_type)?, proto.keys.clone())
    };
    let Value::Sequence(values) = from_sequence(&proto.values.clone().unwrap_or_default())? else {
        return Err(Refusal::other("its values are no sequence"));
    };
    let count = match &keys {
        Keys::Integers(_, keys) => keys.len(),
        Keys::Strings(keys) => keys.len(),
    };
    if values.len() == count {
        return Ok(Value::Map(Map { keys, values }));
    }
    // Some writers put all values into one tensor.
    let all = match values.as_slice() {
        [Value::Tensor(all)] if all.ty().shape.count() == count && all.ty().layout.is_plain() => all,
        _ => return Err(Refusal::other(format!("it has {count} keys, and {} values", values.len()))),
    };
    let size = all.ty().dtype.size();
    let one = |bytes: &[u8]| {
        let mut tensor = Tensor::zeros(crate::tensor::TensorType::plain(all.ty().dtype, [0_usize; 0]));
        tensor.bytes_mut().copy_from_slice(bytes);
        Value::Tensor(tensor)
    };
    Ok(Value::Map(Map { keys, values: all.bytes().chunks_exact(size).map(one).collect() }))
}

fn to_tensor(name: &str, tensor: &Tensor) -> TensorProto {
    let dims = tensor.ty().shape.iter().map(|&size| i64::try_from(size).unwrap_or(i64::MAX)).collect();
    let texts = tensor.to_texts();
    TensorProto {
        name: name.to_owned(),
        dims,
        data_type: tensor.ty().dtype.onnx_number(),
        raw_data: if texts.is_none() { element::stored(tensor).into() } else { Bytes::new() },
        string_data: texts.iter().flatten().map(|text| Bytes::from(text.to_string())).collect(),
        ..TensorProto::default()
    }
}

/// Returns what values of a type, or else a value, are called as elements.
fn kind(ty: Option<&ValueType>, value: Option<&Value>) -> ElementKind {
    match (value, ty) {
        (Some(Value::Tensor(_)), _) => ElementKind::Tensor,
        (Some(Value::Sequence(_)), _) | (None, Some(ValueType::Sequence(_))) => ElementKind::Sequence,
        (Some(Value::Optional(_)), _) | (None, Some(ValueType::Optional(_))) => ElementKind::Optional,
        (Some(Value::Map(_)), _) | (None, Some(ValueType::Map(..))) => ElementKind::Map,
        (None, _) => ElementKind::Tensor,
    }
}

fn to_sequence(name: &str, list: &[Value], inner: Option<&ValueType>) -> SequenceProto {
    let mut proto = SequenceProto {
        name: name.to_owned(),
        elem_type: kind(inner, list.first()).into(),
        ..SequenceProto::default()
    };
    let within = match inner {
        Some(ValueType::Sequence(within) | ValueType::Optional(within)) => Some(&**within),
        _ => None,
    };
    for value in list {
        match value {
            Value::Tensor(tensor) => proto.tensor_values.push(to_tensor("", tensor)),
            Value::Sequence(list) => proto.sequence_values.push(to_sequence("", list, within)),
            Value::Optional(_) => proto.optional_values.push(to_optional("", value, within)),
            Value::Map(map) => proto.map_values.push(to_map("", map)),
        }
    }
    proto
}

fn to_optional(name: &str, value: &Value, inner: Option<&ValueType>) -> OptionalProto {
    let present = match value {
        Value::Optional(present) => present.as_deref(),
        plain => Some(plain),
    };
    let mut proto = OptionalProto { name: name.to_owned(), ..OptionalProto::default() };
    let Some(present) = present else { return proto };
    proto.elem_type = kind(inner, Some(present)).into();
    let within = match inner {
        Some(ValueType::Sequence(within) | ValueType::Optional(within)) => Some(&**within),
        _ => None,
    };
    match present {
        Value::Tensor(tensor) => proto.tensor_value = Some(to_tensor("", tensor)),
        Value::Sequence(list) => proto.sequence_value = Some(to_sequence("", list, within)),
        Value::Optional(_) => proto.optional_value = Some(Box::new(to_optional("", present, within))),
        Value::Map(map) => proto.map_value = Some(to_map("", map)),
    }
    proto
}

fn to_map(name: &str, map: &Map) -> MapProto {
    let mut proto = MapProto {
        name: name.to_owned(),
        values: Some(to_sequence("", &map.values, None)),
        ..MapProto::default()
    };
    match &map.keys {
        Keys::Integers(dtype, keys) => {
            proto.key_type = dtype.onnx_number();
            proto.keys.clone_from(keys);
        }
        Keys::Strings(keys) => {
            proto.key_type = STRING;
            proto.string_keys = keys.iter().map(|key| Bytes::from(key.clone())).collect();
        }
    }
    proto
}
