//! Pipelines that are described as variants of others have all of their rules, except for those that are named here.

use crate::common;
use std::collections::BTreeSet;

/// A pipeline that is described as another one with differences.
struct Variant {
    name: &'static str,
    of: &'static str,
    /// The rules of the other pipeline that this one lacks.
    without: &'static [&'static str],
    /// The reason for which it lacks them.
    why: &'static str,
}

const VARIANTS: &[Variant] = &[
    Variant {
        name: "bf16",
        of: "cpu",
        without: &["widen"],
        why: "`widen` would undo the phase `round`: ResNet-50 has the same plan with it, and a fifth more e-nodes",
    },
    Variant { name: "cuda-bf16", of: "cuda", without: &[], why: "" },
    Variant { name: "cuda-f16", of: "cuda", without: &[], why: "" },
    Variant { name: "cuda-tf32", of: "cuda", without: &[], why: "" },
    Variant { name: "int4-weights", of: "native", without: &[], why: "" },
    Variant { name: "int8-weights", of: "native", without: &[], why: "" },
    Variant { name: "merged", of: "native", without: &[], why: "" },
    Variant {
        name: "strict",
        of: "native",
        without: &["contraction", "groups", "integer", "narrow", "sparse", "strassen", "table", "winograd"],
        why: "they assume finite numbers, and without `integer` there are no chains for `table`",
    },
    Variant { name: "superoptimise", of: "native", without: &[], why: "" },
];

/// The files and rules that the phases of a shipped pipeline name.
fn rules(name: &str) -> BTreeSet<String> {
    let options = common::pipeline(name, 1);
    options.pipeline.rewrites().flat_map(|phase| phase.rules.iter().map(|rule| rule.value.clone())).collect()
}

#[test]
fn a_variant_of_a_pipeline_lacks_only_what_is_named() {
    for variant in VARIANTS {
        let own = rules(variant.name);
        let lacks: Vec<String> = rules(variant.of).difference(&own).cloned().collect();
        assert_eq!(lacks, variant.without, "{} against {}", variant.name, variant.of);
        assert_eq!(variant.without.is_empty(), variant.why.is_empty(), "{}", variant.name);
    }
}

#[test]
fn every_pipeline_that_is_described_as_a_variant_is_listed_and_says_what_it_lacks() {
    for entry in std::fs::read_dir(common::root().join("passes")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let comment: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("// ")).collect();
        let comment = comment.join(" ");
        let described = comment.strip_prefix("Like `").and_then(|rest| rest.split('`').next());
        let listed = VARIANTS.iter().find(|variant| variant.name == name);
        assert_eq!(described, listed.map(|variant| variant.of), "{name}: {comment}");
        for lacking in listed.iter().flat_map(|variant| variant.without) {
            assert!(
                comment.contains(&format!("`{lacking}`")),
                "{name} does not say that it lacks `{lacking}`"
            );
        }
    }
}
