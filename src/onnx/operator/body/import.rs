//! The import of an operator by its body.

use super::expression::{Expression, Function, Number, Scope};
use super::{Action, Attribute, AttributeKind, Body, Line, Operand, built_in};
use crate::onnx::call::signed;
use crate::onnx::operator::{Call, ImportedValue, Operators, Results, operators};
use crate::onnx::proto::{AttributeProto, AttributeType, NodeProto};
use crate::onnx::structure::full_name;
use crate::onnx::{NEWEST_OPSET, Refusal};
use crate::tensor::{DType, Tensor};
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// The operators that lines may apply.
static OPERATORS: LazyLock<Operators> = LazyLock::new(operators);

/// Imports the operator by the lines of its body.
pub(super) fn import(call: &mut Call<'_>) -> Results {
    let name = call.operator();
    let body = built_in().iter().find(|body| body.name == name);
    let body = body.ok_or_else(|| Refusal::other(format!("`{name}` has no body")))?;
    let mut values: FxHashMap<&str, ImportedValue> = FxHashMap::default();
    for (at, (name, _)) in body.inputs.iter().enumerate() {
        values.extend(call.optional(at).map(|value| (name.as_str(), value)));
    }
    let mut attributes = FxHashMap::default();
    for attribute in &body.attributes {
        attributes.insert(attribute.name, attribute.given(call)?);
    }
    for (at, line) in body.lines.iter().enumerate() {
        let scope = Lines { body, call, values: &values, attributes: &attributes };
        let applies =
            line.condition.as_ref().map_or(Ok(true), |condition| condition.compute(&scope)?.truth());
        if !applies.map_err(|why| within(line, why))? {
            continue;
        }
        let results = match &line.action {
            Action::Refuse(message) => {
                return Err(match message.compute(&scope)? {
                    Number::Text(text) => Refusal::other(text),
                    other => Refusal::other(format!("{other:?}")),
                });
            }
            Action::Set(name, expression) => {
                let number = expression.compute(&scope).map_err(|why| within(line, why))?;
                attributes.insert(*name, number);
                continue;
            }
            Action::Name(name) => match values.get(name.as_str()) {
                Some(value) => vec![value.clone()],
                None => {
                    values.remove(line.targets[0].as_str());
                    continue;
                }
            },
            Action::Apply { .. } => {
                let applied = prepare(line, &scope).and_then(|(operator, inputs, attributes)| {
                    let output = names(call, body, at);
                    let node = NodeProto { output, ..node(&operator, inputs.len(), attributes) };
                    apply(call, &node, body.opset, inputs)
                });
                applied.map_err(|why| within(line, why))?
            }
        };
        values.extend(line.targets.iter().map(String::as_str).zip(results));
    }
    let results = body.outputs.iter().map_while(|output| values.get(output.as_str()).cloned());
    Ok(results.collect())
}

/// Applies another operator inside the definition of one. Operands without a name are constants.
fn apply(
    call: &mut Call<'_>,
    node: &NodeProto,
    opset: i64,
    mut inputs: Vec<Option<ImportedValue>>,
) -> Results {
    // Constants of one name would be one node.
    for input in inputs.iter_mut().flatten().filter(|input| input.name.is_empty()) {
        input.name = call.inner_name("constant").into();
    }
    let name = full_name(node);
    let operator =
        OPERATORS.get(&name).ok_or_else(|| Refusal::other(format!("ovolo has no operator `{name}`")))?;
    operator.execute(&mut call.inner(node, opset, &inputs))
}

/// Applies an operator of the newest opset that has one result and no attributes, for a value with this name.
pub(in crate::onnx::operator) fn apply_to(
    call: &mut Call<'_>,
    name: &str,
    operator: &str,
    inputs: Vec<Option<ImportedValue>>,
) -> Result<ImportedValue, Refusal> {
    let output = vec![name.to_owned()];
    let node = NodeProto { output, ..node(operator, inputs.len(), Vec::new()) };
    let results = apply(call, &node, NEWEST_OPSET, inputs)?;
    results.into_iter().next().ok_or_else(|| Refusal::other(format!("`{operator}` gives no result")))
}

/// Adds the line to an error, unless it is one that leads to a cut of the model.
fn within(line: &Line, why: Refusal) -> Refusal {
    match why {
        Refusal::Dynamic { .. } => why,
        why => Refusal::other(format!("in `{}` of its definition, {why}", line.text)),
    }
}

/// Returns the names of a line's results. The last line that makes a result of the operator gives it the name that it
/// has in the model.
fn names(call: &mut Call<'_>, body: &Body, at: usize) -> Vec<String> {
    let targets = &body.lines[at].targets;
    let name = |target: &String| {
        let last = !body.lines[at + 1..].iter().any(|line| line.targets.contains(target));
        let own = body.outputs.iter().position(|output| output == target).filter(|_| last);
        match own.and_then(|own| call.node.output.get(own)).filter(|name| !name.is_empty()) {
            Some(name) => name.clone(),
            None => call.inner_name(target),
        }
    };
    targets.iter().map(name).collect()
}

type Prepared = (String, Vec<Option<ImportedValue>>, Vec<AttributeProto>);

/// Computes the operands and attributes of a line.
fn prepare(line: &Line, scope: &Lines<'_, '_>) -> Result<Prepared, Refusal> {
    let Action::Apply { operator, operands, attributes } = &line.action else {
        return Err(Refusal::other("the line applies no operator"));
    };
    let like = operands.iter().rev().find_map(|operand| match operand {
        Operand::Value(name) => scope.values.get(name.as_str()).map(|value| value.ty.dtype),
        _ => None,
    });
    let mut inputs = Vec::new();
    for operand in operands {
        inputs.push(match operand {
            Operand::Absent => None,
            Operand::Value(name) => scope.values.get(name.as_str()).cloned(),
            Operand::Constant(expression) => {
                let tensor = tensor(&expression.compute(scope)?, like)?;
                Some(ImportedValue::constant("", tensor))
            }
        });
    }
    while inputs.last().is_some_and(Option::is_none) {
        inputs.pop();
    }
    let mut list = Vec::new();
    for (name, expression) in attributes {
        list.extend(attribute(name, &expression.compute(scope)?)?);
    }
    Ok((operator.clone(), inputs, list))
}

/// Returns the tensor of a constant operand: a list of whole numbers is int64, everything else is like the line's
/// last value.
fn tensor(number: &Number, like: Option<DType>) -> Result<Tensor, Refusal> {
    Ok(match number {
        Number::List(items) if !items.is_empty() && items.iter().all(|item| item.text().is_some()) => {
            let texts: Vec<&str> = items.iter().filter_map(Number::text).collect();
            Tensor::from_texts([texts.len()], &texts)
        }
        Number::Text(text) => Tensor::from_texts([0_usize; 0], &[text]),
        Number::List(items) if items.iter().all(|item| matches!(item, Number::Int(_))) => {
            let ints = items.iter().map(Number::int).collect::<Result<Vec<_>, _>>()?;
            Tensor::from_elements([ints.len()], &ints)
        }
        Number::List(items) => {
            let floats = items.iter().map(Number::float).collect::<Result<Vec<_>, _>>()?;
            Tensor::from_f64(like.unwrap_or(DType::F32), [floats.len()], &floats)
        }
        Number::Int(number) if like.is_none() => Tensor::scalar(*number),
        number => Tensor::from_f64(like.unwrap_or(DType::F32), [0_usize; 0], &[number.float()?]),
    })
}

/// Returns an attribute of a line; `None` if its value is an attribute that is not given.
#[allow(clippy::cast_possible_truncation)]
fn attribute(name: &str, number: &Number) -> Result<Option<AttributeProto>, Refusal> {
    let mut proto = AttributeProto { name: name.to_owned(), ..AttributeProto::default() };
    let kind = match number {
        Number::Absent => return Ok(None),
        Number::Int(_) | Number::Bool(_) => {
            proto.i = number.int()?;
            AttributeType::Int
        }
        Number::Float(number) => {
            proto.f = *number as f32;
            AttributeType::Float
        }
        Number::Text(text) => {
            proto.s = text.clone().into();
            AttributeType::String
        }
        Number::List(items) if items.iter().any(|item| item.text().is_some()) => {
            let texts = items.iter().filter_map(Number::text);
            proto.strings = texts.map(|text| text.to_owned().into()).collect();
            AttributeType::Strings
        }
        Number::List(items) if items.iter().any(|item| matches!(item, Number::Float(_))) => {
            let floats = items.iter().map(|item| item.float().map(|float| float as f32));
            proto.floats = floats.collect::<Result<_, _>>()?;
            AttributeType::Floats
        }
        Number::List(items) => {
            proto.ints = items.iter().map(Number::int).collect::<Result<_, _>>()?;
            AttributeType::Ints
        }
    };
    proto.r#type = kind as i32;
    Ok(Some(proto))
}

/// Makes the node of a line, without the names of its results.
fn node(operator: &str, operands: usize, attribute: Vec<AttributeProto>) -> NodeProto {
    let (domain, op_type) = operator.rsplit_once('.').unwrap_or(("", operator));
    NodeProto {
        input: (0..operands).map(|at| format!("{at}")).collect(),
        op_type: op_type.to_owned(),
        domain: domain.to_owned(),
        attribute,
        ..NodeProto::default()
    }
}

impl Attribute {
    /// Returns the value that a call gives, or the default.
    fn given(&self, call: &Call<'_>) -> Result<Number, Refusal> {
        if !call.has(self.name) {
            return Ok(self.default.clone().unwrap_or(Number::Absent));
        }
        let floats = |list: &[f32]| list.iter().map(|float| Number::Float(f64::from(*float))).collect();
        Ok(match self.kind {
            AttributeKind::Int => Number::Int(call.int(self.name, 0)?),
            AttributeKind::Float => Number::Float(call.float(self.name, 0.0)?),
            AttributeKind::Text => Number::Text(call.text(self.name, "")?.to_owned()),
            AttributeKind::Ints => list(call.ints(self.name)?.unwrap_or_default()),
            AttributeKind::Texts => {
                let texts = call.texts(self.name)?.unwrap_or_default();
                Number::List(texts.into_iter().map(Number::Text).collect())
            }
            AttributeKind::Floats => Number::List(floats(call.floats(self.name)?.unwrap_or_default())),
        })
    }
}

/// Returns the least or the greatest number of an element type.
fn limit(dtype: DType, function: Function) -> f64 {
    // The limits of integers of 64 bits are no binary64 numbers.
    let range = dtype.integer_range().filter(|_| dtype.bits() < 64);
    #[allow(clippy::cast_precision_loss)]
    let (least, most) =
        range.map_or((f64::NEG_INFINITY, f64::INFINITY), |(least, most)| (least as f64, most as f64));
    if function == Function::Least { least } else { most }
}

fn list(ints: &[i64]) -> Number {
    Number::List(ints.iter().copied().map(Number::Int).collect())
}

/// What the expressions of a body refer to.
struct Lines<'a, 'c> {
    body: &'a Body,
    call: &'a Call<'c>,
    values: &'a FxHashMap<&'a str, ImportedValue>,
    attributes: &'a FxHashMap<&'static str, Number>,
}

impl Scope for Lines<'_, '_> {
    fn attribute(&self, name: &str) -> Result<Number, Refusal> {
        Ok(self.attributes.get(name).cloned().unwrap_or(Number::Absent))
    }

    fn opset(&self) -> i64 {
        self.call.opset
    }

    fn of_value(&self, function: Function, name: &str) -> Result<Number, Refusal> {
        match function {
            Function::Given => return Ok(Number::Bool(self.values.contains_key(name))),
            Function::Wanted => {
                let at = self.body.outputs.iter().position(|output| output == name);
                let given =
                    at.and_then(|at| self.call.node.output.get(at)).is_some_and(|name| !name.is_empty());
                return Ok(Number::Bool(given));
            }
            _ => {}
        }
        let value = self.values.get(name);
        let value = value.ok_or_else(|| Refusal::other(format!("its operand `{name}` is missing")))?;
        Ok(match function {
            Function::Rank => Number::Int(i64::try_from(value.rank()).unwrap_or(i64::MAX)),
            Function::Dims => list(&signed(value.dims())),
            Function::Type => Number::Text(value.ty.dtype.name().to_owned()),
            Function::Code => Number::Int(i64::from(value.ty.dtype.onnx_number())),
            Function::Least | Function::Most => Number::Float(limit(value.ty.dtype, function)),
            Function::Value => {
                let tensor = self.call.demand(value, name)?;
                let items: Vec<Number> = match tensor.to_i64() {
                    Some(ints) => ints.into_iter().map(Number::Int).collect(),
                    None => tensor.to_f64().into_iter().map(Number::Float).collect(),
                };
                match &items[..] {
                    [one] => one.clone(),
                    _ => Number::List(items),
                }
            }
            _ => return Expression::Name(name.to_owned()).compute(self),
        })
    }
}
