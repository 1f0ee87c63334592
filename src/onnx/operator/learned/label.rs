//! Operators that replace elements by others, or make features of them.

use super::{cast, dims_of};
use crate::attr::Attrs;
use crate::onnx::Refusal;
use crate::onnx::operator::{Call, ImportedValue, Operator, Results, entry};
use crate::tensor::{DType, Tensor};

pub(in crate::onnx::operator) const TABLE: &[Operator] = &[
    entry("ai.onnx.ml.LabelEncoder", 1, 1, label_encoder),
    entry("ai.onnx.ml.CategoryMapper", 1, 1, category_mapper),
    entry("ai.onnx.ml.OneHotEncoder", 1, 1, one_hot),
    entry("ai.onnx.ml.FeatureVectorizer", 1, super::super::ANY, vectorizer),
];

/// Returns the values of keys, and the default for elements that are no key.
fn replaced(
    call: &mut Call<'_>,
    x: &ImportedValue,
    keys: Tensor,
    values: &Tensor,
    default: &Tensor,
) -> Results {
    if keys.ty().dtype != x.ty.dtype {
        let why = format!("its keys are {}, but its operand is {}", keys.ty().dtype, x.ty.dtype);
        return Err(Refusal::other(why));
    }
    if keys.ty().shape.count() != values.ty().shape.count() {
        return Err(Refusal::other(format!("it has keys {} and values {}", keys.ty(), values.ty())));
    }
    let count = values.ty().shape.count();
    let keys = call.constant("keys", keys);
    let values = call.constant("values", values.clone());
    let default = call.constant("default", default.reshaped([1_usize].into()));
    let table = call.helper("table", "concat", Attrs::new().int("axis", 0), &[&values, &default])?;
    debug_assert_eq!(table.dims(), [count + 1]);
    let at = call.helper("places", "find", Attrs::new(), &[x, &keys])?;
    Ok(vec![call.result("gather", Attrs::new().int("axis", 0), &[&table, &at])?])
}

/// Returns keys or values that are given in one of several forms.
fn list(
    call: &mut Call<'_>,
    tensor: &'static str,
    strings: &'static str,
    ints: &'static str,
    floats: &'static str,
) -> Result<Option<Tensor>, Refusal> {
    if let Some(tensor) = call.tensor(tensor)? {
        let count = tensor.ty().shape.count();
        return Ok(Some(tensor.reshaped([count].into())));
    }
    if let Some(texts) = call.texts(strings)? {
        return Ok(Some(Tensor::from_texts([texts.len()], &texts)));
    }
    if let Some(ints) = call.ints(ints)? {
        return Ok(Some(Tensor::from_elements([ints.len()], ints)));
    }
    Ok(call.floats(floats)?.map(|floats| Tensor::from_elements([floats.len()], floats)))
}

fn label_encoder(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    if let Some(texts) = call.texts("classes_strings")? {
        // Before opset 2 of the domain, the operator maps between strings and their positions.
        let names = Tensor::from_texts([texts.len()], &texts);
        let numbers: Vec<i64> = (0..texts.len()).map(|at| i64::try_from(at).unwrap_or(i64::MAX)).collect();
        let numbers = Tensor::from_elements([numbers.len()], &numbers);
        let int = Tensor::scalar(call.int("default_int64", -1)?);
        let text = Tensor::from_texts([0_usize; 0], &[call.text("default_string", "_Unused")?]);
        return match x.ty.dtype {
            DType::Text => replaced(call, &x, names, &numbers, &int),
            _ => replaced(call, &x, numbers, &names, &text),
        };
    }
    let missing = |what: &str| Refusal::other(format!("it has no {what}"));
    let keys = list(call, "keys_tensor", "keys_strings", "keys_int64s", "keys_floats")?;
    let values = list(call, "values_tensor", "values_strings", "values_int64s", "values_floats")?;
    let (keys, values) = (keys.ok_or_else(|| missing("keys"))?, values.ok_or_else(|| missing("values"))?);
    let text = Tensor::from_texts([0_usize; 0], &[call.text("default_string", "_Unused")?]);
    let int = Tensor::scalar(call.int("default_int64", -1)?);
    #[allow(clippy::cast_possible_truncation)]
    let float = Tensor::scalar(call.float("default_float", -0.0)? as f32);
    let default = match call.tensor("default_tensor")? {
        Some(tensor) if tensor.ty().shape.count() == 1 => tensor,
        Some(_) => return Err(Refusal::attribute("default_tensor", "has not one element")),
        None => match values.ty().dtype {
            DType::Text => text,
            DType::F32 => float,
            DType::I64 => int,
            dtype => Tensor::from_f64(dtype, [0_usize; 0], &[if dtype.is_integer() { -1.0 } else { -0.0 }]),
        },
    };
    replaced(call, &x, keys, &values, &default)
}

fn category_mapper(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let numbers = call.ints("cats_int64s")?.unwrap_or_default();
    let texts = call.texts("cats_strings")?.unwrap_or_default();
    let numbers = Tensor::from_elements([numbers.len()], numbers);
    let texts = Tensor::from_texts([texts.len()], &texts);
    let int = Tensor::scalar(call.int("default_int64", -1)?);
    let text = Tensor::from_texts([0_usize; 0], &[call.text("default_string", "_Unused")?]);
    match x.ty.dtype {
        DType::Text => replaced(call, &x, texts, &numbers, &int),
        _ => replaced(call, &x, numbers, &texts, &text),
    }
}

/// A column for each category, which is 1 where the element is that category.
fn one_hot(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    if !call.flag("zeros", true)? {
        return Err(Refusal::other("it refuses other categories while it runs, which ovolo does not do"));
    }
    let texts = call.texts("cats_strings")?.filter(|list| !list.is_empty());
    let ints = call.ints("cats_int64s")?.filter(|list| !list.is_empty());
    let (x, categories) = match (texts, ints) {
        (Some(texts), _) if x.ty.dtype == DType::Text => (x, Tensor::from_texts([texts.len()], &texts)),
        (_, Some(ints)) if x.ty.dtype != DType::Text => {
            (cast(call, "integers", &x, DType::I64)?, Tensor::from_elements([ints.len()], ints))
        }
        _ => return Err(Refusal::other("it has no categories of the type of its operand")),
    };
    let dims = [x.dims(), &[1]].concat();
    let x = call.reshape(Some("column"), &x, &dims)?;
    let categories = call.constant("categories", categories);
    let same = call.helper("same", "equal", Attrs::new(), &[&x, &categories])?;
    Ok(vec![cast(call, "columns", &same, DType::F32)?])
}

/// The columns of all operands side by side.
fn vectorizer(call: &mut Call<'_>) -> Results {
    let sizes = call.ints("inputdimensions")?.map(<[i64]>::to_vec);
    let mut parts = Vec::new();
    for at in 0..call.input_count() {
        let x = call.input(at)?;
        let x = cast(call, "features", &x, DType::F32)?;
        let rows = if x.rank() > 1 { x.dims()[0] } else { 1 };
        let width = x.ty.shape.count() / rows.max(1);
        let x = call.reshape(Some("rows"), &x, &[rows, width])?;
        let wanted = sizes.as_ref().and_then(|sizes| sizes.get(at)).copied().unwrap_or(dims_of(&x)[1]);
        let wanted = usize::try_from(wanted).unwrap_or(0);
        // A row that is too long is cut, and one that is too short is filled with zeros.
        let attrs = Attrs::new().ints("starts", &[0, 0]).ints("steps", &[1, 1]);
        let attrs = attrs.ints("sizes", &crate::onnx::call::signed(&[rows, wanted.min(width)]));
        parts.push(if wanted < width { call.helper("cut", "slice", attrs, &[&x])? } else { x });
        if wanted > width {
            let zeros =
                Tensor::from_f64(DType::F32, [rows, wanted - width], &vec![0.0; rows * (wanted - width)]);
            parts.push(call.constant("zeros", zeros));
        }
    }
    let parts: Vec<&ImportedValue> = parts.iter().collect();
    Ok(vec![call.result("concat", Attrs::new().int("axis", 1), &parts)?])
}
