//! `ovolo rules pages`.
#![allow(clippy::unwrap_used)]

use crate::common::{self, ovolo};
use regex::Regex;
use std::path::{Path, PathBuf};

const RULES: &str = r#"[
    // Doubling (twice the same) is adding to itself.
    Rule(
        name: "my-double-$type",
        for_each: {"type": ["f32", "f64"]}, // not a ")"
        from: "(mul ?x 2.0)",
        to: "(add ?x ?x)",
        when: ["is-dtype(?x, $type)"],
    ),
]
"#;

const EXAMPLES: &str = r#"[
    Examples(
        rule: "my-double-$type",
        examples: [
            Example(
                fires: "
                    x: $type[2,3] = input
                    t: $type[] = const splat 2.0
                    y = mul(x, t)
                    z = softmax(y) {axis: 1}
                    return z
                ",
                after: "y = add(x, x)\nz = softmax(y) {axis: 1}",
            ),
            Example(
                refuses: "
                    x: f16[2,3] = input
                    t: f16[] = const splat 2.0
                    y = mul(x, t)
                    return y
                ",
                because: "is-dtype(?x, $type)",
            ),
        ],
    ),
]
"#;

/// A line of `ovolo rules ablate --json` for each of four models.
const WORTH: &str = r#"{"model":"nets/resnet50/model.onnx","rule":"my-double-f32","with":0.5,"without":1.0,"error":null}
{"model":"small.onnx","rule":"my-double-f64","with":0.5,"without":null,"error":"no program"}
{"model":"same.onnx","rule":"my-double-f32","with":0.5,"without":0.5,"error":null}
{"model":"less.onnx","rule":"my-double-f32","with":0.5,"without":0.4,"error":null}
"#;

/// Writes the pages of these rules. Returns their folder.
fn pages(name: &str) -> PathBuf {
    let folder = common::folder(name);
    std::fs::create_dir_all(folder.join("rules/examples")).unwrap();
    std::fs::write(folder.join("rules/my.ron"), RULES).unwrap();
    std::fs::write(folder.join("rules/examples/my.ron"), EXAMPLES).unwrap();
    std::fs::write(folder.join("worth.json"), WORTH).unwrap();
    let words =
        ["rules", "pages", "rules/my.ron", "--out", "pages", "--worth", "worth.json", "--instances", "20"];
    let output = ovolo(&folder, &words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "pages/README.md: 1 pages\n");
    folder.join("pages")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

#[test]
fn a_page_tells_what_a_rule_does_and_what_it_is_worth() {
    let folder = pages("rule-pages");
    let listed =
        "- [my-double-$type](my/my-double-type.md): Doubling (twice the same) is adding to itself.\n";
    assert!(read(&folder.join("README.md")).ends_with(&format!("\n## my\n\n{listed}")));
    let page = read(&folder.join("my/my-double-type.md"));
    let drawings = Regex::new("(?s)<svg.*?</svg>").unwrap();
    assert_eq!(drawings.find_iter(&page).count(), 2);
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(common::root().join("snapshots/rule_page"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("my-double-type", drawings.replace_all(&page, "(a drawing)")));
}

#[test]
fn drawings_have_a_box_for_each_value_and_an_edge_for_each_operand() {
    let page = read(&pages("rule-drawings").join("my/my-double-type.md"));
    let number = r#"="(\d+)""#;
    let size = Regex::new(&format!("<svg[^>]* width{number} height{number}")).unwrap();
    let boxes = Regex::new(&format!("<rect x{number} y{number} width{number} height{number}")).unwrap();
    let numbers = |found: regex::Captures<'_>| -> Vec<usize> {
        found.iter().skip(1).map(|number| number.unwrap().as_str().parse().unwrap()).collect()
    };
    // Before: two operands, the product and the softmax. After, the constant is gone.
    for (drawing, (values, operands)) in page.split("</svg>").zip([(4, 3), (3, 3)]) {
        let size = numbers(size.captures(drawing).unwrap());
        let found: Vec<Vec<usize>> = boxes.captures_iter(drawing).map(numbers).collect();
        assert_eq!((found.len(), drawing.matches("<path ").count()), (values, operands), "{drawing}");
        for (at, one) in found.iter().enumerate() {
            assert!(
                one[0] + one[2] <= size[0] && one[1] + one[3] <= size[1],
                "{one:?} is outside of {size:?}"
            );
            for other in &found[..at] {
                let apart = |axis: usize| {
                    one[axis] + one[axis + 2] <= other[axis] || other[axis] + other[axis + 2] <= one[axis]
                };
                assert!(apart(0) || apart(1), "{one:?} and {other:?} overlap");
            }
        }
    }
}

#[test]
fn a_file_of_worth_that_is_none_is_refused_with_its_line() {
    let folder = common::folder("rule-pages-worth");
    std::fs::write(
        folder.join("worth.json"),
        "{\"model\":\"a\",\"rule\":\"b\",\"with\":1,\"without\":1}\n{}\n",
    )
    .unwrap();
    let output = ovolo(&folder, &["rules", "pages", "--out", "pages", "--worth", "worth.json"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("error: worth.json:2: missing field `model`"), "{said}");
    assert_eq!((output.status.code(), folder.join("pages").exists()), (Some(1), false));
}
