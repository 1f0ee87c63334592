//! What is released is freed. Runs of everything that allocates are repeated, and the memory of the process must not grow
//! with their number.

use crate::onnx::FLOAT;
use crate::{builder, model, open};
use ort::memory::{Allocator, MemoryInfo};
use ort::session::{RunOptions, Session};
use ort::value::{Sequence, Tensor};

/// The memory that the process has, in bytes.
#[cfg(target_os = "linux")]
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Makes, uses and drops one of each.
#[cfg(target_os = "linux")]
fn once(session: &mut Session) {
    let side = 256_usize;
    let x = Tensor::<f32>::new(&Allocator::default(), [side, side]).unwrap();
    drop(session.run(ort::inputs![&x]).unwrap());
    drop(session.run(ort::inputs!["z" => &x]).map(|_| ()).unwrap_err());
    drop(x.clone());
    let mut binding = session.create_binding().unwrap();
    binding.bind_input("x", &x).unwrap();
    binding.bind_output_to_device("y", &MemoryInfo::default()).unwrap();
    drop(session.run_binding(&binding).unwrap());
    let options = RunOptions::new().unwrap().with_tag("tag").unwrap();
    drop(session.run_with_options(ort::inputs![&x], &options).unwrap());
    let parts = Sequence::new([x]).unwrap();
    drop(parts.get(0));
    let texts = Tensor::from_string_array(([1_usize], &["text".repeat(10_000)][..])).unwrap();
    drop(texts.try_extract_strings().unwrap());
    drop(session.metadata().unwrap().custom_keys().unwrap());
    let _ = Allocator::default().alloc::<u8>(100_000).unwrap();
    drop(builder().with_profiling("profile").map(|_| ()).unwrap_err());
}

#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow_with_the_number_of_runs() {
    let mut session = open(&model::doubled(FLOAT));
    (0..20).for_each(|_| once(&mut session));
    let before = memory();
    (0..400).for_each(|_| once(&mut session));
    let grown = memory().saturating_sub(before);
    // One value that is not freed would be 100 MB: 400 times 256 KiB. Other tests of this process run meanwhile.
    assert!(grown < 60_000_000, "the process has grown by {grown} bytes");
}

#[test]
#[cfg(target_os = "linux")]
fn a_session_is_freed() {
    let rows = 2048;
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
    (0..8).for_each(|_| once());
    let grown = memory().saturating_sub(before);
    // The weights of 8 sessions are 134 MB.
    assert!(grown < 60_000_000, "the process has grown by {grown} bytes");
}
