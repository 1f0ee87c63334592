//! Tests of the parts of the extraction.

#[allow(dead_code)]
#[path = "../../../src/extract/canonical.rs"]
mod canonical;
#[allow(dead_code)]
#[path = "../../../src/extract/component.rs"]
mod component;
mod eliminate;
mod exchange;
mod landmark;
mod necessary;
#[allow(dead_code)]
#[path = "../../../src/extract/node.rs"]
mod node;
#[allow(dead_code)]
#[path = "../../../src/extract/order.rs"]
mod order;
#[allow(dead_code)]
#[path = "../../../src/extract/ready.rs"]
mod ready;
mod relax;
mod share;

use ovolo::extract::{Candidate, ClassId, ExtractError, Extraction, Problem, Report, Size};
