//! Outputs of sessions from the cache, compared with those of compiled ones.

use crate::common;
use ovolo::cache::{Cache, Key, Origin};
use ovolo::compile;
use ovolo::graph::text;
use ovolo::session::Session;
use ovolo::tensor::Tensor;
use std::path::{Path, PathBuf};

/// Returns an empty folder for one test.
pub fn folder(name: &str) -> PathBuf {
    common::folder(&format!("cache-{name}"))
}

/// Runs a session on seeded inputs and returns its outputs.
pub fn outputs(session: &mut Session) -> Vec<Tensor> {
    let inputs = session.plan().inputs.iter();
    let inputs: Vec<Tensor> = inputs.map(|(name, ty)| common::random(name, ty.dtype, &ty.shape)).collect();
    session.run(&inputs.iter().collect::<Vec<_>>()).unwrap().to_vec()
}

/// Whether two lists of outputs are the same, bit by bit.
pub fn same(one: &[Tensor], other: &[Tensor]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a.ty() == b.ty() && a.bytes() == b.bytes())
}

/// Returns every file in a folder and its subfolders, sorted.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// Checks for each case and pipeline that its plan comes from the cache as it was kept, and gives the same bits.
pub fn loads_give_the_same_bits(pipelines: &[&str]) {
    let cache =
        Cache::new(&folder(&format!("cases-{}", pipelines.join("-"))), Cache::LIMIT, common::registry());
    let mut count = 0;
    for path in files(&common::root().join("tests/cases")) {
        let graph = text::parse(common::ops(), &std::fs::read_to_string(&path).unwrap()).unwrap();
        for pipeline in pipelines {
            let compilation = compile::compile(graph.clone(), &common::pipeline(pipeline, 2)).unwrap();
            let plan = compilation.plan.clone();
            let mut session =
                Session::new(&compilation.program, compilation.plan, common::registry().backends()).unwrap();
            let key = Key::default().with("case", path.display().to_string()).with("pipeline", *pipeline);
            cache.keep(&key, &session, Origin::default()).unwrap();
            let mut found =
                cache.find(&key, None).unwrap_or_else(|miss| panic!("{}: {miss}", path.display()));
            assert_eq!(*found.plan(), plan, "{}", path.display());
            assert!(same(&outputs(&mut found), &outputs(&mut session)), "{}", path.display());
            count += 1;
        }
    }
    assert!(count >= 12 * pipelines.len(), "{count} cases");
}
