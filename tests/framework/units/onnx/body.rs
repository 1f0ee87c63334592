//! Tests of the operators that are said in others.

#[allow(dead_code)]
#[path = "../../../../src/onnx/operator/body/expression.rs"]
mod expression;
#[allow(dead_code)]
#[path = "../../../../src/onnx/operator/body/parse.rs"]
mod parse;
#[allow(dead_code)]
#[path = "../../../../src/onnx/operator/body/read.rs"]
mod read;
#[allow(dead_code)]
#[path = "../../../../src/onnx/operator/body/row.rs"]
mod row;

use crate::diagnostic::{Diagnostics, Source};
use ovolo::Registry;
use row::{Action, Attribute, AttributeKind, Body, Line, Operand};

/// Returns the bodies of the tables that ship with ovolo.
fn built_in() -> Vec<Body> {
    let mut found = Diagnostics::new();
    let mut bodies = Vec::new();
    for entry in std::fs::read_dir(crate::common::root().join("ops")).unwrap() {
        let path = entry.unwrap().path();
        // The other tables have functions.
        if ["scalar.ron", "binary.ron"].iter().any(|table| path.ends_with(table)) {
            continue;
        }
        let (name, text) = (path.display().to_string(), std::fs::read_to_string(&path).unwrap());
        let more = read::read(&Source::new(name, text), &bodies, &mut found);
        bodies.extend(more);
    }
    assert!(found.is_empty(), "{found}");
    bodies
}

/// Reads a table with one body, and returns the mistakes.
fn mistakes(lines: &str) -> String {
    let text = format!(
        "[\n    Body(\n        name: \"com.example.Twice\",\n        inputs: [\"x\", \"y?\"],\n        \
             outputs: [\"z\"],\n        attributes: {{\"factor\": 2.0}},\n        body: [{lines}],\n    ),\n]"
    );
    let mut found = Diagnostics::new();
    read::read(&Source::new("x.ron", text.as_str()), &[], &mut found);
    found.to_string()
}

#[test]
fn mistakes_in_bodies_have_their_places() {
    assert_eq!(mistakes(r#""z = Mul(x, @factor)", "z = Add(z, y) if given(y)""#), "");
    let found = mistakes(r#""t = Mul(x, @factr)", "z = Add(u, x)""#);
    assert!(found.contains("the operator has no attribute `factr`"), "{found}");
    assert!(found.contains("did you mean `factor`?"), "{found}");
    assert!(found.contains("there is no value `u`"), "{found}");
}

#[test]
fn every_operator_in_a_body_is_known() {
    let registry = Registry::new();
    let operators = registry.onnx().operators;
    for body in built_in() {
        for line in &body.lines {
            if let Action::Apply { operator, .. } = &line.action {
                assert!(operators.get(operator).is_some(), "{}: {}", body.name, line.text);
            }
        }
    }
}
