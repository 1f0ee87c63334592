//! Ops that compute with strings. Those that only move or compare them need no code of their own.

mod pattern;

use super::broadcast::Broadcast;
use super::independence::broadcast;
use super::{Arity, AttrDef, Draw, Flags, OpDef, OpError, Sample, count, plain};
use crate::attr::{Attr, AttrKind, Attrs};
use crate::tensor::{DType, Tensor, TensorType};
use regex::Regex;

pub(super) fn ops() -> Vec<OpDef> {
    vec![concat(), case(), matches(), split_count(), split()]
}

fn text(name: &'static str, doc: &'static str) -> AttrDef {
    AttrDef::new(name, AttrKind::Str, None, doc)
}

/// Checks that all operands are strings.
fn strings(types: &[&TensorType]) -> Result<(), OpError> {
    plain(types)?;
    match types.iter().position(|ty| ty.dtype != DType::Text) {
        None => Ok(()),
        Some(operand) => Err(OpError::operand(operand, types[operand], ", not strings")),
    }
}

fn concat() -> OpDef {
    OpDef {
        name: "string-concat",
        doc: "the text of a, followed by that of b",
        arity: Arity::Exactly(2),
        attrs: Vec::new(),
        flags: Flags::independent(broadcast),
        infer: |_, types| {
            strings(types)?;
            let shape = types[0].shape.broadcast(&types[1].shape);
            let shape = shape.ok_or_else(|| {
                OpError::operands(format!("{} and {} do not broadcast", types[0], types[1]))
            })?;
            Ok(TensorType::plain(DType::Text, shape))
        },
        eval: |_, operands, ty| {
            let [a, b] = [0, 1].map(|at| operands[at].to_texts().unwrap_or_default());
            let [left, right] = [0, 1].map(|at| Broadcast::new(&operands[at].ty().shape, &ty.shape));
            let joined = (0..ty.shape.count()).map(|at| format!("{}{}", a[left.at(at)], b[right.at(at)]));
            Tensor::from_texts(ty.shape.clone(), &joined.collect::<Vec<_>>())
        },
        flops: |_, _, output| count(output) * 32.0,
        sample: Some(draw_concat),
        lowered: None,
    }
}

fn case() -> OpDef {
    OpDef {
        name: "string-case",
        doc: "the text of x in lower case or in upper case, by Unicode's rules that no language changes",
        arity: Arity::Exactly(1),
        attrs: vec![text("case", "lower or upper")],
        flags: Flags::independent(broadcast),
        infer: |attrs, types| {
            strings(types)?;
            match attrs.expect_str("case") {
                "lower" | "upper" => Ok(types[0].clone()),
                other => Err(OpError::attribute("case", format!("is `{other}`, not `lower` or `upper`"))),
            }
        },
        eval: |attrs, operands, ty| {
            let upper = attrs.expect_str("case") == "upper";
            let texts = operands[0].to_texts().unwrap_or_default();
            let texts =
                texts.iter().map(|text| if upper { text.to_uppercase() } else { text.to_lowercase() });
            Tensor::from_texts(ty.shape.clone(), &texts.collect::<Vec<_>>())
        },
        flops: |_, _, output| count(output) * 32.0,
        sample: Some(draw_case),
        lowered: None,
    }
}

/// Returns the expression that matches what a pattern matches as a whole.
fn whole(attrs: &Attrs) -> Result<Regex, OpError> {
    let refused = |why: String| OpError::attribute("pattern", format!("is no regular expression: {why}"));
    let pattern = pattern::of_re2(attrs.expect_str("pattern")).map_err(|why| refused(why.to_string()))?;
    // Alone first, or a `)` of the pattern could end the group around it.
    let alone = Regex::new(&pattern).and_then(|_| Regex::new(&format!(r"\A(?:{pattern})\z")));
    alone.map_err(|why| refused(why.to_string()))
}

fn matches() -> OpDef {
    OpDef {
        name: "regex-full-match",
        doc: "whether a regular expression matches the whole text of x",
        arity: Arity::Exactly(1),
        attrs: vec![text("pattern", "the expression, in the syntax of RE2")],
        flags: Flags::independent(broadcast),
        infer: |attrs, types| {
            strings(types)?;
            whole(attrs)?;
            Ok(TensorType { dtype: DType::Bool, ..types[0].clone() })
        },
        eval: |attrs, operands, ty| {
            let pattern = whole(attrs);
            let matches = |text: &str| pattern.as_ref().is_ok_and(|pattern| pattern.is_match(text));
            let texts = operands[0].to_texts().unwrap_or_default();
            let values: Vec<bool> = texts.iter().map(|text| matches(text)).collect();
            Tensor::from_bools(ty.shape.clone(), &values)
        },
        flops: |_, types, _| count(types[0]) * 256.0,
        sample: Some(draw_regex),
        lowered: None,
    }
}

fn split_attrs() -> Vec<AttrDef> {
    vec![
        text(
            "delimiter",
            "what is between parts; empty: white space, of which any amount separates two parts",
        ),
        AttrDef::new("splits", AttrKind::Int, Some(Attr::Int(-1)), "the most splits of a text; -1: no limit"),
    ]
}

/// Returns the parts of a text, as Python's `str.split` does.
fn parts<'a>(text: &'a str, attrs: &Attrs) -> Vec<&'a str> {
    let delimiter = attrs.expect_str("delimiter");
    let splits = usize::try_from(attrs.expect_int("splits")).ok();
    if !delimiter.is_empty() {
        return match splits {
            Some(splits) => text.splitn(splits.saturating_add(1), delimiter).collect(),
            None => text.split(delimiter).collect(),
        };
    }
    let (mut parts, mut rest) = (Vec::new(), text.trim_start());
    while !rest.is_empty() {
        let last = splits.is_some_and(|splits| parts.len() >= splits);
        let end = rest.find(char::is_whitespace).filter(|_| !last).unwrap_or(rest.len());
        parts.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    parts
}

fn split_count() -> OpDef {
    OpDef {
        name: "string-split-count",
        doc: "the number of parts into which a delimiter divides the text of x",
        arity: Arity::Exactly(1),
        attrs: split_attrs(),
        flags: Flags::independent(broadcast),
        infer: |_, types| {
            strings(types)?;
            Ok(TensorType { dtype: DType::I64, ..types[0].clone() })
        },
        eval: |attrs, operands, ty| {
            let texts = operands[0].to_texts().unwrap_or_default();
            let counts = texts.iter().map(|text| i64::try_from(parts(text, attrs).len()).unwrap_or(i64::MAX));
            Tensor::from_elements(ty.shape.clone(), &counts.collect::<Vec<_>>())
        },
        flops: |_, types, _| count(types[0]) * 64.0,
        sample: Some(|draw| draw_split(draw, false)),
        lowered: None,
    }
}

/// Each text stays where it is; the parts have an axis of their own.
fn each_text(_: &Attrs, types: &[&TensorType], _: &TensorType) -> Vec<Vec<Option<usize>>> {
    vec![(0..types[0].shape.rank()).map(Some).collect()]
}

fn split() -> OpDef {
    OpDef {
        name: "string-split",
        doc: "the parts into which a delimiter divides the text of x, along a new last axis; empty texts fill it",
        arity: Arity::Exactly(1),
        attrs: [split_attrs(), vec![AttrDef::new("parts", AttrKind::Int, None, "the size of the new axis")]]
            .concat(),
        flags: Flags::independent(each_text),
        infer: |attrs, types| {
            strings(types)?;
            let parts = usize::try_from(attrs.expect_int("parts"));
            let parts = parts.map_err(|_| OpError::attribute("parts", "is negative"))?;
            Ok(TensorType::plain(DType::Text, [&types[0].shape[..], &[parts]].concat()))
        },
        eval: |attrs, operands, ty| {
            let width = ty.shape.last().copied().unwrap_or(0);
            let texts = operands[0].to_texts().unwrap_or_default();
            let fill = std::iter::repeat("");
            let all =
                texts.iter().flat_map(|text| parts(text, attrs).into_iter().chain(fill.clone()).take(width));
            Tensor::from_texts(ty.shape.clone(), &all.collect::<Vec<_>>())
        },
        flops: |_, types, _| count(types[0]) * 64.0,
        sample: Some(|draw| draw_split(draw, true)),
        lowered: None,
    }
}

/// Draws strings of one shape.
fn draw_concat(draw: &mut dyn Draw) -> Option<Sample> {
    let one = some_strings(draw);
    Some(Sample::new(Attrs::new(), vec![one.clone(), one]))
}

/// Draws strings in a case.
fn draw_case(draw: &mut dyn Draw) -> Option<Sample> {
    let case = draw.pick(&["lower", "upper"]);
    let one = some_strings(draw);
    Some(Sample::new(Attrs::new().text("case", case), vec![one]))
}

/// Draws strings and what separates their parts.
fn draw_split(draw: &mut dyn Draw, parts: bool) -> Option<Sample> {
    let delimiter = draw.pick(&["", "1", "."]);
    let attrs = Attrs::new().text("delimiter", delimiter).int("splits", -1);
    let attrs = if parts { attrs.size("parts", draw.small()) } else { attrs };
    let one = some_strings(draw);
    Some(Sample::new(attrs, vec![one]))
}

/// Draws strings and an expression.
fn draw_regex(draw: &mut dyn Draw) -> Option<Sample> {
    let pattern = draw.pick(&["[0-3]", ".*", "[4-7]+"]);
    let one = some_strings(draw);
    Some(Sample::new(Attrs::new().text("pattern", pattern), vec![one]))
}

/// Draws the type of strings.
fn some_strings(draw: &mut dyn Draw) -> TensorType {
    let rank = draw.below(3);
    TensorType::plain(DType::Text, draw.shape(rank))
}
