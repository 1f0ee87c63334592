//! The columns of `ovolo features`: the features of a kernel, and what the shipped price list makes of them.

use super::feature::{BASIC, Feature, number};
use super::{Machine, PriceList};

/// Every feature, in the order of the columns.
pub static FEATURES: &[Feature] = &ALL;

const ALL: [Feature; BASIC.len() + 1] = {
    let mut all = [FUNCTIONS; BASIC.len() + 1];
    let mut at = 0;
    while at < BASIC.len() {
        all[at] = BASIC[at];
        at += 1;
    }
    all
};

const FUNCTIONS: Feature = number(
    "functions",
    "operations that the shipped price list counts for functions that are no single instruction, `exp` or `sigmoid`, \
     of all elements",
    |query| PriceList::shipped().value("function_operations", &Machine::NOMINAL, query).unwrap_or(f64::NAN),
);
