//! Tests that a run after the first one allocates nothing on the heap.
#![allow(clippy::unwrap_used)]

mod common;

use ovolo::graph::text;
use ovolo::session::Session;
use ovolo::tensor::{DType, Tensor};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_run_after_the_first_does_not_allocate() {
    let image = "graph image {
        x: f32[1,3,20,20] = input
        w1: f32[32,3,3,3] = const ~1
        b1: f32[32] = const ~2
        w2: f32[32,1,3,3] = const ~3
        w3: f32[24,32,1,1] = const ~4
        b3: f32[24] = const ~5
        w4: f32[24,10] = const ~6
        y1 = conv(x, w1, b1) {pads: [1,1,1,1], strides: [2,2]}
        r1 = relu(y1)
        y2 = conv(r1, w2, b1) {pads: [1,1,1,1], groups: 32}
        r2 = silu(y2)
        y3 = conv(r2, w3, b3)
        p = max-pool(y3) {kernel: [2,2], strides: [2,2]}
        m = reduce-mean(p) {axes: [2,3]}
        f = reshape(m) {shape: [1,24]}
        z = matmul(f, w4)
        s = softmax(z) {axis: 1}
        return s
    }";
    let words = "graph words {
        x: f32[1,6,16] = input
        w: f32[16,16] = const ~1
        g: f32[16] = const ~2
        q = matmul(x, w)
        n = layer-norm(q, g, g) {axis: 2}
        h = reshape(n) {shape: [1,6,2,8]}
        t = transpose(h) {perm: [0,2,1,3]}
        k = transpose(t) {perm: [0,1,3,2]}
        c = matmul(t, k)
        p = softmax(c) {axis: 3}
        o = matmul(p, t)
        return o
    }";
    for source in [image, words] {
        let graph = text::parse(common::ops(), source).unwrap();
        for threads in [1, 2] {
            let compilation = common::compile(graph.clone(), threads);
            let inputs: Vec<Tensor> = graph
                .inputs()
                .map(|(_, node)| {
                    let values = vec![0.5; node.ty.shape.count()];
                    Tensor::from_f64(DType::F32, node.ty.shape.clone(), &values)
                })
                .collect();
            let mut session =
                Session::new(&compilation.program, compilation.plan, common::registry().backends()).unwrap();
            let references: Vec<&Tensor> = inputs.iter().collect();
            session.run(&references).unwrap();
            // A thread that begins after the first run would allocate what every thread does at its start.
            let all = Barrier::new(threads);
            session.team().run(threads, |_| {
                all.wait();
            });
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            session.run(&references).unwrap();
            let taken = ALLOCATIONS.load(Ordering::Relaxed) - before;
            assert_eq!(taken, 0, "{} with {threads} thread(s)", graph.name());
        }
    }
}
