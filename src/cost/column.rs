//! The columns of `ovolo features`: the features of a kernel, and the values that ovolo's price list computes from
//! them.

use super::feature::{BASIC, Feature, number};
use super::{Machine, PriceList};

/// All features, in the order of the columns.
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
