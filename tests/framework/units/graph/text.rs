//! Tests of `src/graph/text.rs`.

mod lex;
mod value;

use crate::units::fixture::{FAMILY, ops};
use insta::assert_snapshot;
use ovolo::attr::{Attr, Attrs, Float, Step};
use ovolo::graph::diff;
use ovolo::graph::text::{Constants, parse, parse_small, parse_with, print, print_node, random};
use ovolo::graph::{Graph, Node};
use ovolo::tensor::{DType, Device, Tensor, TensorType};
use ovolo::verify::verify;
use std::sync::Arc;

const TINY: &str = "\
graph tiny {
  x: f32[1,3,8,8] = input
  w: f32[16,3,3,3] = const ~1
  b: f32[16] = const splat 0.5
  conv1 = conv(x, w, b) {pads: [1,1,1,1]}
  relu1 = relu(conv1)
  return y = relu1
}";

fn errors(text: &str) -> String {
    parse(ops(), text).map(|graph| format!("no errors:\n{graph}")).unwrap_or_else(|found| found.to_string())
}

/// Prints, reads and prints again, with the graph's own constants as the table.
fn round_trip(graph: &Graph) {
    let text = print(graph);
    let read = parse_with(ops(), &text, &Constants::from_graph(graph, "itself"))
        .unwrap_or_else(|found| panic!("{found}\n{text}"));
    assert_eq!(print(&read), text);
    assert!(diff(graph, &read).is_empty(), "{}", diff(graph, &read));
    for ((_, a), (_, b)) in graph.nodes().zip(read.nodes()) {
        assert_eq!(a, b);
    }
    for (id, node) in graph.nodes() {
        let (a, b) = (graph.constant(id), read.find(&node.name).and_then(|id| read.constant(id)));
        assert_eq!(a.map(Tensor::bytes), b.map(Tensor::bytes), "{}", node.name);
    }
}

#[test]
fn types_are_inferred_and_printed() {
    let graph = parse(ops(), TINY).unwrap();
    assert_snapshot!(graph, @r#"
        graph tiny {
          x: f32[1,3,8,8] = input
          w: f32[16,3,3,3] = const #a45e1707034be4d1
          b: f32[16] = const splat 0.5
          conv1: f32[1,16,8,8] = conv(x, w, b) {pads: [1,1,1,1]}
          relu1: f32[1,16,8,8] = relu(conv1)
          return y = relu1
        }
        "#);
    round_trip(&graph);
    verify(graph).unwrap();
}

#[test]
fn odd_names_and_all_kinds_of_constants_round_trip() {
    let mut graph = parse(ops(), r#"graph "odd \"graph\"" {}"#).unwrap();
    for (position, name) in
        ["return", "graph", "1", "a b", "/a/b.0/Conv'", "a//b", "", "é\n", "x:0", "-", "const"]
            .iter()
            .enumerate()
    {
        graph.add_constant(
            name,
            random(&TensorType::plain(DType::ALL[2 * position], [3, position]), position as u64),
        );
    }
    let blocked = TensorType::plain(DType::F32, [1, 3, 2, 2]).with_layout("nChw8c".parse().unwrap());
    let constant = graph.add_constant("blocked", random(&blocked, 5));
    graph.add_constant("nan", Tensor::from_elements([2], &[f32::NAN, f32::from_bits(0x7fc0_0001)]));
    let input = graph.add_input("input", TensorType { device: Device::Accelerator(FAMILY, 1), ..blocked });
    graph.add_output("a result", constant);
    graph.add_output("input", input);
    round_trip(&graph);
}

#[test]
fn attributes_of_every_kind_round_trip() {
    let text = "\
graph {
  x: f32[1,16,8,8] = input
  w: f32[16,16,3,3] = const ~1
  b: f32[16] = const ~2
  y = conv(x, w, b, x) {pads: [1,1,1,1], post: <add,clip(0.0,6.0),relu>}
  z = clip(y) {max: 1e-7, min: -inf}
  p = pack(z) {layout: nChw16c}
  c = cast(y) {to: f16}
  s = softmax(c) {axis: 1}
  return p
  return s
}";
    let graph = parse(ops(), text).unwrap();
    round_trip(&graph);
    let y = &graph[graph.find("y").unwrap()];
    let clip = Step { op: "clip".into(), parameters: vec![Float(0.0), Float(6.0)] };
    let [add, relu] = ["add", "relu"].map(|op| Step { op: op.into(), parameters: Vec::new() });
    assert_eq!(y.attrs.post(), [add, clip, relu]);
    assert_eq!(y.attrs.get("strides"), Some(&Attr::Ints(vec![1, 1])), "defaults are filled in");
    assert_eq!(graph[graph.find("p").unwrap()].ty.to_string(), "f32[1,16,8,8]@nChw16c");
    verify(graph).unwrap();
}

#[test]
fn a_step_without_parameters_takes_the_defaults() {
    let text = TINY.replace("pads: [1,1,1,1]", "pads: [1,1,1,1], post: <clip>");
    let graph = parse(ops(), &text).unwrap();
    assert!(print(&graph).contains("post: <clip(-inf,inf)>"), "{graph}");
    round_trip(&graph);
}

#[test]
fn comments_and_lines_on_one_line_are_read() {
    let graph = parse(ops(), "graph { x: f32[2] = input; // a comment\n y = relu(x); return y }").unwrap();
    assert_eq!(graph.len(), 2);
}

#[test]
fn a_statement_goes_on_in_the_next_line_within_brackets() {
    let one = "x: f32[2] = const [1.0, 2.0]; y = add(x, x); return y";
    let broken = "x: f32[2] = const [1.0, // the first\n\n 2.0]\ny = add(x,\n  x)\nreturn y";
    let read = |text: &str| print(&parse(ops(), &format!("graph {{ {text} }}")).unwrap());
    assert_eq!(read(one), read(broken));
}

#[test]
fn every_mistake_in_calls_is_reported_at_once_with_its_place() {
    assert_snapshot!(errors("\
graph {
  x: f32[4] = input
  a = rleu(x)
  b = relu(x, x)
  c = softmax(x) {axes: 1}
  d = softmax(x) {axis: 1.5}
  e = relu(xx)
  f: f32[5] = relu(x)
  g = relu(h)
  h = relu(a)
  x = relu(x)
  return x
}"), @r#"
        error: unknown op `rleu`
          --> graph:3:7
          |
        3 |   a = rleu(x)
          |       ^^^^ no op has this name
          |
          = help: did you mean `relu`?

        error: `relu` takes 1 operand, 2 are given
          --> graph:4:7
          |
        4 |   b = relu(x, x)
          |       ^^^^^^^^^

        error: `softmax` has no attribute `axes`
          --> graph:5:19
          |
        5 |   c = softmax(x) {axes: 1}
          |                   ^^^^ unknown attribute
          |
          = help: did you mean `axis`?

        error: expected an integer
          --> graph:6:25
          |
        6 |   d = softmax(x) {axis: 1.5}
          |                         ^^^ not an integer

        error: `xx` is not defined
          --> graph:7:12
          |
        7 |   e = relu(xx)
          |            ^^ no value has this name
          |
          = help: did you mean `x`?

        error: `f` has another type than is written
          --> graph:8:6
          |
        8 |   f: f32[5] = relu(x)
          |      ^^^^^^ inferred: f32[4]

        error: `h` is used before its definition
           --> graph:9:12
           |
         9 |   g = relu(h)
           |            ^ used here
        10 |   h = relu(a)
           |   - defined here
           |
           = help: operands come before their users

        error: `x` is defined twice
           --> graph:11:3
           |
         2 |   x: f32[4] = input
           |   - first here
           .
        11 |   x = relu(x)
           |   ^ again here
        "#);
}

#[test]
fn every_mistake_in_values_and_syntax_is_reported_at_once_with_its_place() {
    assert_snapshot!(errors("\
graph {
  x: f32[4] = input
  i: f32[2] = const [1.0, two]
  j: f32[2] = const [1.0]
  k = input
  l: f32[2] = const #0123456789abcdef
  m: f23[2] = input
  n = relu(m
  return z
}"), @r#"
        error: `two` is not a value of type f32
          --> graph:3:27
          |
        3 |   i: f32[2] = const [1.0, two]
          |                           ^^^

        error: f32[2] has 2 elements, 1 are given
          --> graph:4:22
          |
        4 |   j: f32[2] = const [1.0]
          |                      ^^^

        error: the type of `k` is missing
          --> graph:5:3
          |
        5 |   k = input
          |   ^ nothing says its type
          |
          = help: write it as in `k: f32[1,64] = input`

        error: the value of `l` is not in the text
          --> graph:6:21
          |
        6 |   l: f32[2] = const #0123456789abcdef
          |                     ^^^^^^^^^^^^^^^^^ a hash only names a value
          |
          = help: give the model that the text was printed from (`--weights MODEL`), or write `~1` for seeded values

        error: unknown element type `f23`
          --> graph:7:6
          |
        7 |   m: f23[2] = input
          |      ^^^

        error: expected `)`, found the end of the line
          --> graph:8:13
          |
        8 |   n = relu(m
          |             ^ expected `)`

        error: `z` is not defined
          --> graph:9:10
          |
        9 |   return z
          |          ^ no value has this name
          |
          = help: define it on a line above, as in `z: f32[4] = input`
        "#);
}

#[test]
fn operands_that_do_not_fit_show_their_types() {
    assert_snapshot!(errors("graph {\n  x: f32[2,3] = input\n  y: f32[4] = input\n  z = add(x, y)\n  return z\n}"), @r#"
        error: `add` does not fit its operands: operand 1 is f32[4], which does not broadcast with [2,3]
          --> graph:4:7
          |
        4 |   z = add(x, y)
          |       ^^^ -  - f32[4]
          |           |
          |           f32[2,3]
        "#);
}

#[test]
fn steps_of_a_post_chain_are_checked() {
    for (post, message) in [
        ("<rleu>", "did you mean `relu`?"),
        ("<conv>", "`conv` is not a step"),
        ("<clip(1.0)>", "step `clip` takes 2 parameters, 1 are given"),
        ("<add>", "takes 3 operands and 1 for its post chain, 3 are given"),
        ("<clip(a,b)>", "expected a number"),
    ] {
        let text = errors(&TINY.replace("pads: [1,1,1,1]", &format!("pads: [1,1,1,1], post: {post}")));
        assert!(text.contains(message), "{text}");
    }
}

#[test]
fn mistakes_of_syntax_do_not_hide_each_other() {
    for text in
        ["", "graph", "graph {", "graph x", "graph { x }", "graph { } y", "graph { x: f32[1,] = }", "}", "\""]
    {
        assert!(parse(ops(), text).is_err(), "{text}");
    }
    for text in [
        "graph {\n x: f32[4 = input\n y: f32[4] = ?\n return y\n}",
        "graph { x: f32[99999999999,99999999999] = input; y: f32[4]@nChw16c = input }",
        "graph { x: f32[4]#npu = input; x: f32[4]#gpu = input }",
    ] {
        assert_eq!(parse(ops(), text).unwrap_err().len(), 2, "{}", errors(text));
    }
    assert_eq!(parse(ops(), "graph { x: f32[1] = inpt }").unwrap_err().len(), 1);
}

#[test]
fn constants_are_found_by_hash_whatever_their_name_and_only_in_the_model_they_are_from() {
    let graph = parse(ops(), TINY).unwrap();
    let text = print(&graph);
    assert!(errors(&text).contains("the value of `w` is not in the text"), "{}", errors(&text));
    let with = |text: &str, from: &str| {
        let from = parse(ops(), from).unwrap();
        let read = parse_with(ops(), text, &Constants::from_graph(&from, "m.onnx"));
        read.map(|graph| print(&graph)).map_err(|mistakes| mistakes.to_string())
    };
    let renamed = TINY.replace("w:", "v:").replace("x, w", "x, v");
    assert_eq!(with(&text, &renamed).as_ref(), Ok(&text));
    let other = with(&text, &TINY.replace("~1", "~9")).unwrap_err();
    assert!(other.contains("`m.onnx` has no constant with the hash of `w`"), "{other}");
    assert!(other.contains("its constant `w` has the hash #"), "{other}");
    let nothing = with(&text, "graph { x: f32[1] = input; return x }").unwrap_err();
    assert!(
        nothing.contains("has no constant with the hash") && !nothing.contains("its constant"),
        "{nothing}"
    );
    let typed = with(&text.replace("w: f32[16,3,3,3]", "w: f32[16,3,9]"), TINY).unwrap_err();
    assert!(typed.contains("another type") && typed.contains("given: f32[16,3,3,3]"), "{typed}");
}

#[test]
fn no_text_makes_the_reader_panic() {
    let mut state = 7_u64;
    for _ in 0..3000 {
        let mut text = TINY.as_bytes().to_vec();
        for _ in 0..3 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (state >> 33) as usize % text.len();
            let marks = b"{}()[]<>:,=@~;#\"\\/.-0e\n x";
            match state >> 60 {
                0..5 => text[at] = marks[(state >> 20) as usize % marks.len()],
                5..10 => text.truncate(at.max(1)),
                _ => drop(text.remove(at)),
            }
            if text.is_empty() {
                text.push(b'g');
            }
        }
        let text = String::from_utf8(text).unwrap();
        // Sizes that are cut together from digits may be large. Such values are refused before they are made.
        let _ = parse_small(ops(), &text, 1 << 16);
    }
}

#[test]
fn names_of_added_nodes_stay_unique_and_print_bare() {
    let mut graph = parse(ops(), TINY).unwrap();
    let x = graph.find("x").unwrap();
    let node = Node {
        op: ops().get("relu").unwrap(),
        attrs: Arc::new(Attrs::new()),
        inputs: vec![x],
        name: "relu1".into(),
        ty: graph[x].ty.clone(),
    };
    let id = graph.add_node(node);
    assert_eq!(print_node(&graph, id), "relu1': f32[1,3,8,8] = relu(x)");
}
