//! Operators on strings.

use crate::draft::{Draft, Known, floats, int, list, text, texts};
use ovolo::tensor::{DType, Tensor};

const WORDS: [&str; 12] =
    ["", "a", "B", "the", "The quick", "a b  c", "été", "0.5", "-3", "a,b", "x@y.org", "ZEBRA"];

/// Returns a value of strings.
fn words(draft: &mut Draft<'_>, dims: &[usize]) -> Known {
    let words: Vec<&str> = (0..dims.iter().product()).map(|_| draft.rng.pick(&WORDS)).collect();
    draft.texts(dims, &words)
}

fn some(draft: &mut Draft<'_>) -> Known {
    let fits: Vec<Known> = draft.pool.iter().filter(|known| known.dtype == DType::Text).cloned().collect();
    if !fits.is_empty() && draft.rng.percent(50) {
        return draft.rng.pick(&fits);
    }
    let rank = draft.rng.below(3);
    let dims: Vec<usize> = (0..rank).map(|_| draft.rng.below(5)).collect();
    words(draft, &dims)
}

pub(super) fn operator(draft: &mut Draft<'_>) -> Option<()> {
    let op = draft.rng.pick(&[
        "StringConcat",
        "RegexFullMatch",
        "StringSplit",
        "StringNormalizer",
        "TfIdfVectorizer",
    ]);
    match op {
        "StringConcat" if draft.opset() >= 20 => {
            let x = some(draft);
            let y = words(draft, &x.dims);
            draft.node(op, &[&x.name, &y.name], Vec::new(), &[DType::Text])
        }
        "RegexFullMatch" if draft.opset() >= 20 => {
            let x = some(draft);
            let pattern = draft.rng.pick(&["[a-z]+", ".*", "(\\w| )+", "\\w+@\\w+\\.org", "a?"]);
            draft.node(op, &[&x.name], vec![text("pattern", pattern)], &[DType::Bool])
        }
        "StringSplit" if draft.opset() >= 20 => {
            // Of an empty string, ONNX Runtime makes no part where a delimiter is given: `docs/CONFORMANCE.md`.
            let given = draft.rng.percent(50);
            let count = draft.rng.below(5);
            let least = usize::from(given);
            let words: Vec<&str> =
                (0..count).map(|_| WORDS[least + draft.rng.below(WORDS.len() - least)]).collect();
            let x = draft.texts(&[count], &words);
            let mut attributes = Vec::new();
            if given {
                attributes.push(text("delimiter", draft.rng.pick(&[",", " ", "a"])));
            }
            if draft.rng.percent(40) {
                attributes.push(int("maxsplit", draft.rng.between(1, 2)));
            }
            draft.node(op, &[&x.name], attributes, &[DType::Text, DType::I64])
        }
        "StringNormalizer" if draft.opset() >= 10 => {
            let count = 1 + draft.rng.below(5);
            let x = words(draft, &[count]);
            let mut attributes = vec![
                text("case_change_action", draft.rng.pick(&["LOWER", "UPPER", "NONE"])),
                int("is_case_sensitive", draft.rng.between(0, 1)),
            ];
            if draft.rng.percent(60) {
                attributes.push(texts("stopwords", &["the", "B"]));
            }
            draft.node(op, &[&x.name], attributes, &[DType::Text])
        }
        "TfIdfVectorizer" if draft.opset() >= 9 => grams(draft),
        _ => None,
    }
}

fn grams(draft: &mut Draft<'_>) -> Option<()> {
    let (batch, length) = (1 + draft.rng.below(3), 1 + draft.rng.below(8));
    let dims = if draft.rng.percent(40) { vec![length] } else { vec![batch, length] };
    let mut attributes = vec![
        text("mode", draft.rng.pick(&["TF", "IDF", "TFIDF"])),
        int("min_gram_length", 1),
        int("max_gram_length", 2),
        int("max_skip_count", draft.rng.between(0, 2)),
        list("ngram_counts", &[0, 3]),
        list("ngram_indexes", &[0, 1, 2, 4, 3]),
    ];
    if draft.rng.percent(60) {
        attributes.push(floats("weights", &[0.5, 1.0, 2.0, 3.0, 0.25]));
    }
    let x = if draft.rng.percent(50) {
        attributes.push(list("pool_int64s", &[1, 2, 3, 1, 2, 2, 3]));
        let values: Vec<i64> = (0..dims.iter().product()).map(|_| draft.rng.between(0, 4)).collect();
        draft.add(Tensor::from_elements(dims, &values), false)
    } else {
        attributes.push(texts("pool_strings", &["a", "B", "the", "a", "B", "B", "the"]));
        words(draft, &dims)
    };
    draft.node("TfIdfVectorizer", &[&x.name], attributes, &[DType::F32])
}

/// Operators that move or compare elements of any type.
pub(super) fn moved(draft: &mut Draft<'_>) -> Option<()> {
    let x = some(draft);
    match draft.rng.below(6) {
        0 if x.rank() > 0 => draft.node("Transpose", &[&x.name], Vec::new(), &[DType::Text]),
        1 if draft.opset() >= 13 => {
            let flat = draft.ints(&[-1]);
            (x.count() > 0).then_some(())?;
            draft.node("Reshape", &[&x.name, &flat], Vec::new(), &[DType::Text])
        }
        2 if x.rank() > 0 => {
            let y = words(draft, &x.dims);
            draft.node("Concat", &[&x.name, &y.name], vec![int("axis", 0)], &[DType::Text])
        }
        3 if draft.opset() >= 19 => {
            let y = words(draft, &x.dims);
            draft.node("Equal", &[&x.name, &y.name], Vec::new(), &[DType::Bool])
        }
        4 if draft.opset() >= 9 => {
            let (y, condition) = (words(draft, &x.dims), draft.leaf(DType::Bool, &x.dims));
            draft.node("Where", &[&condition.name, &x.name, &y.name], Vec::new(), &[DType::Text])
        }
        // Of rows, ONNX Runtime gives the first string alone: `docs/CONFORMANCE.md`.
        5 if x.rank() == 1 && x.dims[0] > 0 => {
            let first = draft.ints(&[0, 0]);
            draft.node("Gather", &[&x.name, &first], Vec::new(), &[DType::Text])
        }
        _ => None,
    }
}

/// Strings that are integers become numbers, and integers become strings.
pub(super) fn number(draft: &mut Draft<'_>) -> Option<()> {
    if draft.opset() < 9 {
        return None;
    }
    if draft.rng.percent(50) {
        let x = draft.any(&[DType::I64, DType::I32, DType::Bool], 0..=3);
        if x.dtype == DType::Bool {
            return None; // The standard does not say what a truth value is called.
        }
        return draft.node("Cast", &[&x.name], vec![int("to", 8)], &[DType::Text]);
    }
    let count = draft.rng.below(5);
    let some: Vec<&str> =
        (0..count).map(|_| draft.rng.pick(&["1", "-2", "0.5", "1e3", "-0.25", "7"])).collect();
    let x = draft.texts(&[count], &some);
    draft.node("Cast", &[&x.name], vec![int("to", 1)], &[DType::F32])
}
