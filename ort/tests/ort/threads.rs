//! Sessions and runs on several threads.

use crate::onnx::FLOAT;
use crate::{DIGITS, builder, model, open};
use ort::session::{RunOptions, Session};
use ort::value::Tensor;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

/// Wakes a thread that waits.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future.
fn wait<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

fn square(value: f32, size: usize) -> Tensor<f32> {
    Tensor::from_array(([size, size], vec![value; size * size])).unwrap()
}

fn is_doubled(session: &mut Session, value: f32, size: usize) -> bool {
    let outputs = session.run(ort::inputs![square(value, size)]).unwrap();
    let found = outputs["y"].try_extract_tensor::<f32>().unwrap().1;
    found.len() == size * size && found.iter().all(|y| *y == 2.0 * value)
}

#[test]
fn threads_share_a_session() {
    let session = Mutex::new(open(&model::doubled(FLOAT)));
    thread::scope(|scope| {
        for number in 0..4_u8 {
            let session = &session;
            scope.spawn(move || {
                for size in [3, 40, 3, 70] {
                    assert!(is_doubled(&mut session.lock().unwrap(), f32::from(number), size));
                }
            });
        }
    });
}

#[test]
fn each_thread_has_a_session() {
    thread::scope(|scope| {
        for number in 0..4_u8 {
            scope.spawn(move || {
                let mut session = open(&model::doubled(FLOAT));
                let mut digits = builder().commit_from_file(DIGITS).unwrap();
                let image = Tensor::from_array(([1_usize, 1, 8, 8], vec![0.5_f32; 64])).unwrap();
                for size in [3, 40, 3, 70] {
                    assert!(is_doubled(&mut session, f32::from(number), size));
                    assert!(digits.run(ort::inputs![&image]).is_ok());
                }
            });
        }
    });
}

#[test]
fn a_run_can_be_waited_for() {
    let mut session = open(&model::doubled(FLOAT));
    let options = RunOptions::new().unwrap();
    for value in [1.0, 2.0] {
        let outputs = wait(session.run_async(ort::inputs![square(value, 64)], &options).unwrap()).unwrap();
        let found = outputs["y"].try_extract_tensor::<f32>().unwrap().1;
        assert!(found.len() == 4096 && found.iter().all(|y| *y == 2.0 * value));
    }
    let why = wait(session.run_async(ort::inputs!["z" => square(1.0, 2)], &options).unwrap()).map(|_| ());
    assert!(why.unwrap_err().message().contains("the model has no input `z`"));
    // A future that nobody waits for ends its run, and the session lives on.
    let ended = RunOptions::new().unwrap();
    drop(session.run_async(ort::inputs![square(1.0, 64)], &ended).unwrap());
    assert!(is_doubled(&mut session, 5.0, 8));
}
