//! Operators on strings.

use super::select::counted;
use super::{Call, ImportedValue, Operator, Results, entry};
use crate::attr::{Attr, Attrs};
use crate::onnx::Refusal;
use crate::tensor::{DType, Tensor};

pub(super) const TABLE: &[Operator] = &[
    entry("StringConcat", 2, 2, |call| {
        let (a, b) = (call.input(0)?, call.input(1)?);
        Ok(vec![call.result("string-concat", Attrs::new(), &[&a, &b])?])
    }),
    entry("StringSplit", 1, 1, split),
    entry("StringNormalizer", 1, 1, normalizer),
    entry("RegexFullMatch", 1, 1, |call| {
        let x = call.input(0)?;
        let pattern = Attr::Str(call.text("pattern", "")?.into());
        Ok(vec![call.result("regex-full-match", Attrs::new().with("pattern", pattern), &[&x])?])
    }),
    entry("TfIdfVectorizer", 1, 1, grams),
];

/// The parts of the longest list decide the size of the new axis, so that they are counted first.
fn split(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let delimiter = Attr::Str(call.text("delimiter", "")?.into());
    let attrs = Attrs::new().with("delimiter", delimiter).int("splits", call.int("maxsplit", -1)?);
    let counts = call.result_at(1, "string-split-count", attrs.clone(), &[&x])?;
    let parts = if x.ty.shape.count() == 0 {
        0
    } else {
        let flat = call.reshape(Some("flat-counts"), &counts, &[x.ty.shape.count()])?;
        let along = Attrs::new().ints("axes", &[0]).int("keepdims", 0);
        let most = call.helper("most", "reduce-max", along, &[&flat])?;
        let most = call.demand(&most, "number of parts")?.to_i64().unwrap_or_default();
        most.first().copied().unwrap_or(0)
    };
    Ok(vec![call.result_at(0, "string-split", attrs.int("parts", parts), &[&x])?, counts])
}

/// Removes words and changes the case of the others.
fn normalizer(call: &mut Call<'_>) -> Results {
    call.ignore(&["locale"]); // Unicode's rules, which no language changes, serve all languages.
    let x = call.input(0)?;
    let case = match call.text("case_change_action", "NONE")? {
        "NONE" => None,
        "LOWER" => Some("lower"),
        "UPPER" => Some("upper"),
        other => return Err(Refusal::attribute("case_change_action", format!("is `{other}`"))),
    };
    let sensitive = call.flag("is_case_sensitive", false)?;
    let words = call.texts("stopwords")?.unwrap_or_default();
    let (count, lead) = match x.dims() {
        [count] => (*count, false),
        [1, count] => (*count, true),
        dims => return Err(Refusal::other(format!("its operand has the shape {dims:?}, not [C] or [1, C]"))),
    };
    let list = call.reshape(Some("list"), &x, &[count])?;
    let kept = if words.is_empty() { list } else { without(call, &list, words, sensitive)? };
    // Where nothing is left, the result is one empty text.
    let dims = |count: usize| if lead { vec![1, count] } else { vec![count] };
    if kept.dims()[0] == 0 {
        return Ok(vec![call.constant_result(Tensor::from_texts(dims(1), &[""]))]);
    }
    let changed = match case {
        None => kept,
        Some(case) => {
            let attrs = Attrs::new().with("case", Attr::Str(case.into()));
            call.helper("changed", "string-case", attrs, &[&kept])?
        }
    };
    let count = changed.dims()[0];
    Ok(vec![call.reshape(None, &changed, &dims(count))?])
}

/// Returns the elements of a list that are none of these words.
fn without(
    call: &mut Call<'_>,
    list: &ImportedValue,
    words: Vec<String>,
    sensitive: bool,
) -> Result<ImportedValue, Refusal> {
    let lower = Attrs::new().with("case", Attr::Str("lower".into()));
    let compared =
        if sensitive { list.clone() } else { call.helper("lower", "string-case", lower, &[list])? };
    let words: Vec<String> =
        if sensitive { words } else { words.iter().map(|word| word.to_lowercase()).collect() };
    let number = i64::try_from(words.len()).unwrap_or(i64::MAX);
    let words = call.constant("words", Tensor::from_texts([words.len()], &words));
    let at = call.helper("places", "find", Attrs::new(), &[&compared, &words])?;
    let number = call.constant("number", Tensor::scalar(number));
    let keep = call.helper("keep", "equal", Attrs::new(), &[&at, &number])?;
    let all = call.helper("all-kept", "nonzero", Attrs::new(), &[&keep])?;
    let chosen = counted(call, &keep, &all, Some("chosen"))?;
    let count = chosen.dims()[1];
    if count == 0 {
        return Ok(call.constant("nothing", Tensor::from_texts([0_usize], &[""; 0])));
    }
    let positions = call.reshape(Some("positions"), &chosen, &[count])?;
    call.helper("kept", "gather", Attrs::new().int("axis", 0), &[list, &positions])
}

/// Counts of n-grams, or their weights.
fn grams(call: &mut Call<'_>) -> Results {
    let x = call.input(0)?;
    let texts = call.texts("pool_strings")?.filter(|list| !list.is_empty());
    let ints = call.ints("pool_int64s")?.filter(|list| !list.is_empty());
    let pool = match (texts, ints) {
        (Some(texts), None) => Tensor::from_texts([texts.len()], &texts),
        (None, Some(ints)) => Tensor::from_elements([ints.len()], ints),
        _ => return Err(Refusal::other("it needs a pool of either integers or strings")),
    };
    let x = match x.ty.dtype {
        DType::Text => x,
        _ => super::learned::cast(call, "integers", &x, DType::I64)?,
    };
    let starts = call.ints("ngram_counts")?.unwrap_or_default();
    let columns = call.ints("ngram_indexes")?.unwrap_or_default();
    let width = columns.iter().copied().max().unwrap_or(-1) + 1;
    let (most, least) = (call.int("max_gram_length", 1)?, call.int("min_gram_length", 1)?);
    let skips = call.int("max_skip_count", 0)?;
    let attrs =
        Attrs::new().int("shortest", least).int("longest", most).int("skips", skips).int("columns", width);
    let mode = call.text("mode", "TF")?;
    let weights = call.floats("weights")?.map(<[f32]>::to_vec);
    let operands = [
        ("pool", pool),
        ("starts", Tensor::from_elements([starts.len()], starts)),
        ("columns", Tensor::from_elements([columns.len()], columns)),
    ];
    let operands = operands.map(|(name, tensor)| call.constant(name, tensor));
    let inputs: Vec<&ImportedValue> = std::iter::once(&x).chain(&operands).collect();
    let counts = call.helper("counts", "count-grams", attrs, &inputs)?;
    let scale = match weights {
        None => None,
        Some(weights) => {
            let mut scale = vec![0.0_f32; usize::try_from(width).unwrap_or(0)];
            if weights.len() != columns.len() {
                let (have, need) = (weights.len(), columns.len());
                return Err(Refusal::attribute("weights", format!("has {have} numbers for {need} n-grams")));
            }
            for (column, weight) in columns.iter().zip(weights) {
                let place = usize::try_from(*column).ok().and_then(|column| scale.get_mut(column));
                *place.ok_or_else(|| Refusal::attribute("ngram_indexes", "has a negative index"))? = weight;
            }
            Some(call.constant("scale", Tensor::from_elements([scale.len()], &scale)))
        }
    };
    let counts = match mode {
        "TF" => return Ok(vec![counts]),
        "TFIDF" => counts,
        "IDF" => {
            let one = call.scalar("one", DType::F32, 1.0);
            call.helper("present", "min", Attrs::new(), &[&counts, &one])?
        }
        other => return Err(Refusal::attribute("mode", format!("is `{other}`, not TF, IDF or TFIDF"))),
    };
    match scale {
        None => Ok(vec![counts]),
        Some(scale) => Ok(vec![call.result("mul", Attrs::new(), &[&counts, &scale])?]),
    }
}
