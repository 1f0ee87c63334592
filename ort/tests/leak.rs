//! What is released is freed, to the last byte: after everything that allocates was made, used and dropped, as many bytes
//! of the heap are in use as before. A test program of its own, since it counts what the whole process has.
#![allow(clippy::unwrap_used)]

use ort::environment::Environment;
use ort::memory::{Allocator, MemoryInfo};
use ort::session::builder::SessionBuilder;
use ort::session::{OutputSelector, RunOptions, Session};
use ort::value::{DynTensorValueType, Map, Sequence, Tensor, TensorRef};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

/// Counts the bytes that are in use.
struct Counting;

static IN_USE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const DIGITS: &str = "../examples/digits/digits.onnx";

fn builder(environment: &Environment) -> SessionBuilder {
    let builder = Session::builder(environment).unwrap().with_intra_threads(1).unwrap();
    let builder = builder.with_config_entry("ovolo.cache", "0").unwrap();
    builder.with_config_entry("ovolo.pipeline", "native").unwrap()
}

/// Makes, uses and drops one of each.
fn once(environment: &Environment, session: &mut Session, model: &[u8]) {
    let data = vec![0.5_f32; 128];
    let image = Tensor::<f32>::new(&Allocator::default(), [2_usize, 1, 8, 8]).unwrap();
    drop(session.run(ort::inputs![&image]).unwrap());
    drop(session.run(ort::inputs!["picture" => &image]).map(|_| ()).unwrap_err());
    drop(
        session.run(ort::inputs![TensorRef::from_array_view(([2_usize, 1, 8, 8], &*data)).unwrap()]).unwrap(),
    );
    drop(image.clone());
    let mut binding = session.create_binding().unwrap();
    binding.bind_input("image", &image).unwrap();
    binding.bind_output_to_device("scores", &MemoryInfo::default()).unwrap();
    drop(session.run_binding(&binding).unwrap());
    binding.bind_output("scores", Tensor::<f32>::new(&Allocator::default(), [2_usize, 10]).unwrap()).unwrap();
    drop(session.run_binding(&binding).unwrap());
    drop(binding);
    let scores = Tensor::<f32>::new(&Allocator::default(), [2_usize, 10]).unwrap();
    let asked = OutputSelector::default().preallocate("scores", scores);
    let mut options = RunOptions::new().unwrap().with_tag("tag").unwrap().with_outputs(asked);
    options.set("key", "value").unwrap();
    drop(session.run_with_options(ort::inputs![&image], &options).unwrap());
    let parts = Sequence::new([image]).unwrap();
    drop(parts.try_extract_sequence::<DynTensorValueType>().unwrap());
    drop(Map::<String, f32>::new([("key".to_owned(), 1.0)]).unwrap().extract_key_values());
    let texts = Tensor::from_string_array(([2_usize], &["one", "two"][..])).unwrap();
    drop((texts.clone(), texts.try_extract_strings().unwrap()));
    let metadata = session.metadata().unwrap();
    drop((metadata.producer(), metadata.custom("none"), metadata.custom_keys().unwrap()));
    drop(Allocator::default().alloc::<u8>(1000).unwrap());
    drop(builder(environment).with_profiling("profile").map(|_| ()).unwrap_err());
    // Sessions: one that is compiled while it runs, one of a plan, and one that is refused.
    drop(builder(environment).commit_from_memory(model).unwrap());
    let mut fixed = builder(environment).with_dimension_override("N", 2).unwrap();
    let mut fixed = fixed.commit_from_file(DIGITS).unwrap();
    let image = Tensor::from_array(([2_usize, 1, 8, 8], data)).unwrap();
    drop(fixed.run(ort::inputs![&image]).unwrap());
    drop(fixed.run(ort::inputs!["picture" => &image]).map(|_| ()).unwrap_err());
    drop(builder(environment).commit_from_memory(b"no model").unwrap_err());
}

#[test]
fn all_that_is_made_is_freed() {
    ort::set_api(ovolo_ort::api());
    let environment = ort::init().build().unwrap();
    let model = std::fs::read(DIGITS).unwrap();
    let mut session = builder(&environment).commit_from_file(DIGITS).unwrap();
    // What is made once and kept, such as the registry, the rules and the model by which `ort` copies tensors.
    (0..3).for_each(|_| once(&environment, &mut session, &model));
    let before = IN_USE.load(Ordering::Relaxed);
    (0..5).for_each(|_| once(&environment, &mut session, &model));
    let kept = IN_USE.load(Ordering::Relaxed) - before;
    assert!(kept <= 0, "{kept} bytes more are in use than before");
}
