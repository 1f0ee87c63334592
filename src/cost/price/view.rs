//! The part of a price list that is about one op.
//!
//! A list has hundreds of cases, most of them for other ops than that of the kernel that is priced. Which of them are for
//! an op is found once.

use super::{BASIC, Case, PriceList, Word};
use crate::cost::{Query, fits};
use crate::op::OpDef;
use crate::ron::Spanned;
use rustc_hash::FxHashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The files and cases of a list that can be about an op.
#[derive(Debug)]
pub(super) struct View {
    /// The files that apply to the op, one bit each.
    pub files: u64,
    /// For each word, the candidate cases by the index of their definition and their index within it, in the order in
    /// which they are tried.
    pub candidates: Vec<Vec<(usize, usize)>>,
}

impl View {
    /// Returns the part of a list that is about the op of a kernel; for a copy, which has no op, the part for all ops.
    fn new(list: &PriceList, query: Option<&Query<'_>>) -> Self {
        let applies = |patterns: &[Spanned<String>]| {
            patterns.is_empty()
                || query.is_some_and(|query| patterns.iter().any(|ops| fits(ops, query.call.op.name)))
        };
        let files = list.files.iter().enumerate();
        let files = files.fold(0, |set, (at, file)| set | u64::from(u8::from(applies(&file.ops))) << at);
        let of = |word: &Word| {
            let definitions = word.definitions.iter().enumerate().rev();
            let definitions = definitions.filter(|(_, one)| files >> one.file & 1 == 1);
            let cases = definitions.flat_map(|(at, definition)| {
                definition.cases.iter().enumerate().map(move |(case, one)| ((at, case), one))
            });
            cases.filter(|(_, case)| case.is_for(query)).map(|(place, _)| place).collect()
        };
        Self { files, candidates: list.words.iter().map(of).collect() }
    }
}

impl Case {
    /// Returns whether the case can be about the op of a kernel.
    fn is_for(&self, query: Option<&Query<'_>>) -> bool {
        self.texts.iter().filter(|(at, _)| BASIC[*at].is_of_op()).all(|text| fits_text(text, query))
    }
}

/// Returns whether one of the patterns of a text feature fits.
pub(super) fn fits_text((at, patterns): &(usize, Vec<Spanned<String>>), query: Option<&Query<'_>>) -> bool {
    let text = query.and_then(|query| BASIC[*at].text(query));
    text.is_some_and(|text| patterns.iter().any(|pattern| fits(pattern, &text)))
}

/// The views of a list that were made so far, by the address of the op's definition. Definitions live as long as the
/// process. Views follow from the list, so they take no part in a comparison of lists, and a copy begins without them.
#[derive(Debug, Default)]
pub(super) struct Views(RwLock<FxHashMap<Option<usize>, Arc<View>>>);

impl Views {
    /// Returns the view of a list for the op of a kernel.
    pub fn of(&self, list: &PriceList, query: Option<&Query<'_>>) -> Arc<View> {
        let op = query.map(|query| std::ptr::from_ref::<OpDef>(&query.call.op).addr());
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&op).map(Arc::clone);
        known.unwrap_or_else(|| {
            let view = Arc::new(View::new(list, query));
            let mut views = self.0.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(views.entry(op).or_insert(view))
        })
    }
}

impl Clone for Views {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Views {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
