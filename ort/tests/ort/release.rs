//! The memory of sessions, also what is no part of the heap. The test program `leak` counts the bytes of the heap.

use crate::onnx::FLOAT;
use crate::{builder, model};
use ort::memory::Allocator;
use ort::value::Tensor;

/// The memory that the process has, in bytes.
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn a_session_is_freed() {
    let rows = 1536;
    let weights = vec![1.0_f32; rows * rows];
    let mut made = model::doubled(FLOAT);
    let graph = made.graph.as_mut().unwrap();
    let side = i64::try_from(rows).unwrap();
    graph.initializer.push(crate::onnx::floats("w", &[side, side], &weights));
    graph.node[0] = crate::onnx::node("MatMul", &["x", "w"], &["y"]);
    let made = prost::Message::encode_to_vec(&made);
    let once = || {
        let mut session = builder().commit_from_memory(&made).unwrap();
        let x = Tensor::<f32>::new(&Allocator::default(), [1, rows]).unwrap();
        drop(session.run(ort::inputs![x]).unwrap());
    };
    (0..2).for_each(|_| once());
    let before = memory();
    (0..16).for_each(|_| once());
    let grown = memory().saturating_sub(before);
    // The weights of 16 sessions are 151 MB. Other tests of this process keep some tens of MB meanwhile.
    assert!(grown < 70_000_000, "the process has grown by {grown} bytes");
}
