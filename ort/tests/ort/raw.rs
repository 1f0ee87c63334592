//! The functions of the table themselves, as a program in C would call them.

use crate::{DIGITS, builder, environment};
use ort::AsPointer;
use ort::sys::{ONNXTensorElementDataType as Element, OrtErrorCode, OrtStatusPtr};
use std::ffi::{CStr, c_char};
use std::ptr;
use std::thread;

/// Returns the code and the message of a status, and releases it.
fn read(status: OrtStatusPtr) -> (OrtErrorCode, String) {
    let api = ort::api();
    assert!(!status.0.is_null(), "the call is refused");
    // SAFETY: the status is a new one, and is released once.
    unsafe {
        let code = (api.GetErrorCode)(status.0);
        let message = CStr::from_ptr((api.GetErrorMessage)(status.0)).to_str().unwrap().to_owned();
        (api.ReleaseStatus)(status.0);
        (code, message)
    }
}

#[test]
fn null_pointers_are_refused() {
    environment();
    let api = ort::api();
    let mut count = 0;
    // SAFETY: null is what the functions must take.
    let (code, message) = read(unsafe { (api.SessionGetInputCount)(ptr::null(), &raw mut count) });
    assert_eq!((code, message.as_str()), (OrtErrorCode::ORT_INVALID_ARGUMENT, "`session` is a null pointer"));
    // SAFETY: as above.
    let (_, message) = read(unsafe { (api.CreateSessionOptions)(ptr::null_mut()) });
    assert_eq!(message, "`options` is a null pointer");
    // SAFETY: null is nothing to release.
    unsafe {
        (api.ReleaseSession)(ptr::null_mut());
        (api.ReleaseValue)(ptr::null_mut());
        (api.ClearBoundInputs)(ptr::null_mut());
    }
}

#[test]
fn execution_providers_are_refused_by_name() {
    environment();
    let api = ort::api();
    let mut options = ptr::null_mut();
    // SAFETY: the options are new, and released once; no provider has options here.
    let (generic, cuda) = unsafe {
        assert!((api.CreateSessionOptions)(&raw mut options).0.is_null());
        let name = c"XNNPACK".as_ptr();
        let (none, append) = (ptr::null(), api.SessionOptionsAppendExecutionProvider);
        let generic = read(append(options, name, none, none, 0));
        let cuda = read((api.SessionOptionsAppendExecutionProvider_CUDA_V2)(options, ptr::null()));
        (api.ReleaseSessionOptions)(options);
        (generic, cuda)
    };
    assert_eq!((generic.0, cuda.0), (OrtErrorCode::ORT_NOT_IMPLEMENTED, OrtErrorCode::ORT_NOT_IMPLEMENTED));
    assert!(generic.1.contains("ovolo has no execution provider `XNNPACK`"), "{}", generic.1);
    assert!(cuda.1.contains("`SessionOptionsAppendExecutionProvider_CUDA_V2`"), "{}", cuda.1);
}

#[test]
fn tensors_of_memory_are_checked() {
    environment();
    let api = ort::api();
    let mut data = [0.0_f32; 4];
    let place = ort::memory::MemoryInfo::default();
    let mut make = |length: usize, dims: &[i64], element: Element| {
        let mut out = ptr::null_mut();
        // SAFETY: the memory is longer than what is said of it, and outlives the value.
        let status = unsafe {
            (api.CreateTensorWithDataAsOrtValue)(
                place.ptr(),
                data.as_mut_ptr().cast(),
                length,
                dims.as_ptr(),
                dims.len(),
                element,
                &raw mut out,
            )
        };
        assert!(out.is_null() || status.0.is_null());
        // SAFETY: the value is released once.
        unsafe { (api.ReleaseValue)(out) };
        status
    };
    let float = Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    assert!(make(16, &[2, 2], float).0.is_null());
    let (_, why) = read(make(15, &[2, 2], float));
    assert_eq!(why, "f32[2,2] has 16 bytes, and memory of 15 bytes was given");
    let (_, why) = read(make(16, &[2, -1], float));
    assert!(why.contains("no negative sizes"), "{why}");
    let (_, why) = read(make(16, &[i64::MAX, i64::MAX], float));
    assert!(why.contains("larger than any memory"), "{why}");
    let (_, why) = read(make(16, &[4], Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED));
    assert!(why.contains("needs a type for its elements"), "{why}");
    let (_, why) = read(make(16, &[2], Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING));
    assert!(why.contains("tensor of strings cannot be made of memory"), "{why}");
}

#[test]
fn threads_may_run_a_session_at_once() {
    let session = builder().commit_from_file(DIGITS).unwrap();
    let address = session.ptr().addr();
    let run = |count: usize| {
        let api = ort::api();
        let images = vec![0.25_f32; count * 64];
        let image = ort::value::TensorRef::from_array_view(([count, 1, 8, 8], &*images)).unwrap();
        let (inputs, outputs): ([*const c_char; 1], [*const c_char; 1]) =
            ([c"image".as_ptr()], [c"scores".as_ptr()]);
        let mut out = [ptr::null_mut()];
        // SAFETY: names and values live during the call, and a session may be used by several threads.
        unsafe {
            let session = ptr::with_exposed_provenance_mut(address);
            let status = (api.Run)(
                session,
                ptr::null(),
                inputs.as_ptr(),
                [image.ptr()].as_ptr(),
                1,
                outputs.as_ptr(),
                1,
                out.as_mut_ptr(),
            );
            assert!(status.0.is_null());
            let mut data = ptr::null_mut();
            assert!((api.GetTensorMutableData)(out[0], &raw mut data).0.is_null());
            let scores = std::slice::from_raw_parts(data.cast::<f32>(), count * 10).to_vec();
            (api.ReleaseValue)(out[0]);
            scores
        }
    };
    let _ = session.ptr().expose_provenance();
    let wanted = run(1);
    thread::scope(|scope| {
        for count in [1, 2, 5, 1] {
            let (run, wanted) = (&run, &wanted);
            scope.spawn(move || {
                for _ in 0..20 {
                    for row in run(count).chunks(10) {
                        assert!(row.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-4));
                    }
                }
            });
        }
    });
}
