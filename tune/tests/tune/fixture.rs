//! What tests of tuning share: a graph, and tuners whose tables are in folders.

use crate::common;
use ovolo::compile::Options;
use ovolo::cost::Machine;
use ovolo::graph::Graph;
use ovolo::pass::pricing::pricings;
use ovolo_tune::Tuner;
use std::path::{Path, PathBuf};

pub const THREADS: usize = 2;

/// Three small, different convolutions.
pub fn graph() -> Graph {
    let text = "graph {
        x: f32[1,16,14,14] = input
        w1: f32[32,16,3,3] = const ~1
        b1: f32[32] = const ~2
        c1 = conv(x, w1, b1) {pads: [1,1,1,1]}
        r1 = relu(c1)
        w2: f32[32,32,1,1] = const ~3
        b2: f32[32] = const ~4
        c2 = conv(r1, w2, b2)
        s2 = add(c2, r1)
        w3: f32[16,32,3,3] = const ~5
        b3: f32[16] = const ~6
        c3 = conv(s2, w3, b3) {strides: [2,2]}
        y = sigmoid(c3)
        return y
    }";
    ovolo::graph::text::parse(common::ops(), text).unwrap()
}

pub fn options() -> Options {
    let mut options = common::options(THREADS);
    options.pipeline.extract_mut().unwrap().price_by("measured", pricings()).unwrap();
    options
}

/// An empty folder.
pub fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("tune-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

pub fn tuner(folder: &Path) -> Tuner<'static> {
    Tuner::open(Some(folder), THREADS, Machine::NOMINAL, common::registry().backends())
}
