//! Tests of `src/graph/json.rs`.

use crate::units::fixture::ops;
use ovolo::graph::json::to_json;
use ovolo::graph::text;
use serde_json::json;

#[test]
fn nodes_types_attributes_and_outputs_are_there() {
    let text = "graph tiny { x: f32[1,4] = input; c: f32[] = const [2.0]; y = add(x, c)
            z = softmax(y) {axis: 1}; q = clip(z) {max: 6.0}; return out = q }";
    let json = to_json(&text::parse(ops(), text).unwrap());
    assert_eq!(json["name"], "tiny");
    let nodes = &json["nodes"];
    assert_eq!(
        nodes[0]["type"],
        json!({"text": "f32[1,4]", "dtype": "f32", "shape": [1, 4], "layout": "plain", "device": "host"})
    );
    assert_eq!(nodes[1]["hash"].as_str().map(str::len), Some(16));
    assert_eq!(nodes[2]["inputs"], json!(["x", "c"]));
    assert_eq!(nodes[3]["attrs"], json!({"axis": 1}));
    assert_eq!(nodes[4]["attrs"], json!({"max": 6.0, "min": "-inf"}));
    assert_eq!(json["outputs"], json!([{"name": "out", "value": "q"}]));
}
