//! Tests of `src/graph/text/value.rs`.

use ovolo::graph::Graph;
use ovolo::graph::json::to_json;
use ovolo::graph::text::{print_value, random};
use ovolo::tensor::{DType, Layout, Tensor, TensorType};

fn constant(tensor: &Tensor) -> Graph {
    let mut graph = Graph::new();
    graph.add_constant("c", tensor.clone());
    graph
}

/// Returns how a constant is written.
fn print(tensor: &Tensor) -> String {
    let graph = constant(tensor);
    let (id, _) = graph.nodes().next().unwrap();
    print_value(&graph, id).strip_prefix("const ").unwrap().to_owned()
}

/// Returns the hash by which texts name a constant.
fn content_hash(tensor: &Tensor) -> u64 {
    let json = to_json(&constant(tensor));
    u64::from_str_radix(json["nodes"][0]["hash"].as_str().unwrap(), 16).unwrap()
}

#[test]
fn small_constants_print_their_values() {
    assert_eq!(print(&Tensor::from_elements([2], &[1.0_f32, -0.1])), "[1.0, -0.1]");
    assert_eq!(print(&Tensor::scalar(f32::NEG_INFINITY)), "[-inf]");
    assert_eq!(print(&Tensor::from_elements([2], &[1_u8, 0]).reinterpreted(DType::Bool)), "[true, false]");
    assert_eq!(print(&Tensor::from_elements([2], &[i64::MIN, 7])), "[-9223372036854775808, 7]");
    assert_eq!(print(&Tensor::from_elements([0], &[0.0_f32; 0])), "[]");
}

#[test]
fn large_constants_print_one_value_or_a_hash() {
    assert_eq!(print(&Tensor::from_elements([20], &[0.5_f32; 20])), "splat 0.5");
    let weights = random(&TensorType::plain(DType::F32, [4, 5]), 1);
    assert_eq!(print(&weights), format!("#{:016x}", content_hash(&weights)));
}

#[test]
fn a_nan_with_a_payload_is_not_printed_as_a_plain_nan() {
    assert_eq!(print(&Tensor::scalar(f32::NAN)), "[NaN]");
    assert!(print(&Tensor::scalar(f32::from_bits(0x7fc0_0001))).starts_with('#'));
}

#[test]
fn blocked_constants_print_their_logical_values() {
    let layout: Layout = "nChw8c".parse().unwrap();
    let plain = Tensor::from_elements([1, 3, 1, 1], &[1.0_f32, 2.0, 3.0]);
    assert_eq!(print(&plain.to_layout(&layout)), "[1.0, 2.0, 3.0]");
    let mut odd = plain.to_layout(&layout);
    odd.elements_mut::<f32>()[7] = 9.0;
    assert!(print(&odd).starts_with('#'));
}

#[test]
fn seeded_values_are_normal_and_do_not_change() {
    let ty = TensorType::plain(DType::F32, [10_000]);
    let values = random(&ty, 1).to_f64();
    let mean = values.iter().sum::<f64>() / 1e4;
    let variance = values.iter().map(|v| v * v).sum::<f64>() / 1e4;
    assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    assert_ne!(content_hash(&random(&ty, 1)), content_hash(&random(&ty, 2)));
    assert_eq!(content_hash(&random(&ty, 1)), 10_736_889_492_260_000_523);
    let indices = random(&TensorType::plain(DType::I64, [100]), 3).to_i64().unwrap();
    assert!(indices.iter().all(|&index| (0..8).contains(&index)));
}

#[test]
fn hashes_tell_lengths_and_tails_apart() {
    let hash = |bytes: &[u8]| content_hash(&Tensor::from_elements([bytes.len()], bytes));
    assert_ne!(hash(&[0; 8]), hash(&[0; 9]));
    assert_ne!(hash(&[1, 2, 3]), hash(&[1, 2, 4]));
}
