//! Calibration data in files.

use crate::fixture::{batches, engine, folder, model, node, three_products, weights};
use ovolo::npy;
use ovolo::onnx::{ImportOptions, Interface, encode_value};
use ovolo::tensor::Tensor;
use ovolo::{DType, Value, ValueType};
use ovolo_quantize::{Batch, Data};
use prost::Message;
use std::path::Path;

/// A row of the input `x` of [`three_products`], four times.
fn four(value: f32) -> Tensor {
    Tensor::from_elements([4, 16], &[value; 64])
}

fn write(file: &Path, tensor: &Tensor) {
    std::fs::write(file, npy::encode(tensor)).unwrap();
}

/// Reads the data of a folder for the input `x`, and returns the first element of each batch.
fn read(at: &Path) -> Result<Vec<f32>, String> {
    let data = Data::read(at, &["x"], &Interface::default()).map_err(|error| error.to_string())?;
    let plan = engine(&ImportOptions::default()).compile(&three_products()).unwrap();
    let batches = data.batches(plan.plan()).map_err(|error| error.to_string())?;
    Ok(batches.iter().map(|batch: &Batch| batch.input("x").unwrap().elements::<f32>()[0]).collect())
}

#[test]
fn a_folder_of_files_is_read_in_the_order_of_their_numbers() {
    let at = folder("numbers");
    std::fs::create_dir(at.join("x")).unwrap();
    for number in [10, 9, 1] {
        #[allow(clippy::cast_precision_loss)]
        write(&at.join(format!("x/{number}.npy")), &four(number as f32));
    }
    let bytes = encode_value("x", &Value::Tensor(four(0.5)), Some(&ValueType::Tensor(DType::F32))).unwrap();
    std::fs::write(at.join("x/2.pb"), bytes).unwrap();
    assert_eq!(read(&at).unwrap(), [1.0, 0.5, 9.0, 10.0]);
}

#[test]
fn one_file_is_cut_into_batches_along_its_first_axis() {
    let at = folder("axis");
    let rows: Vec<f32> = (0..8 * 16_u16).map(f32::from).collect();
    write(&at.join("x.npy"), &Tensor::from_elements([8, 16], &rows));
    assert_eq!(read(&at).unwrap(), [0.0, 64.0]);
    write(&at.join("x.npy"), &Tensor::from_elements([2, 4, 16], &rows));
    assert_eq!(read(&at).unwrap(), [0.0, 64.0]);
    write(&at.join("x.npy"), &four(3.0));
    assert_eq!(read(&at).unwrap(), [3.0]);
}

#[test]
fn archives_have_arrays_for_all_inputs() {
    let at = folder("archives");
    for (file, value) in [("b.npz", 2.0), ("a.npz", 1.0)] {
        std::fs::write(at.join(file), npy::encode_npz(file, [("x", &four(value))]).unwrap()).unwrap();
    }
    assert_eq!(read(&at).unwrap(), [1.0, 2.0]);
    std::fs::write(at.join("c.npz"), npy::encode_npz("c", [("z", &four(1.0))]).unwrap()).unwrap();
    assert!(read(&at).unwrap_err().ends_with("c.npz: the model has no input `z`"));
}

#[test]
fn data_that_do_not_fit_are_refused_with_the_file() {
    let at = folder("wrong");
    let refused = |what: &str| {
        let error = read(&at).unwrap_err();
        assert!(error.contains(what), "{error}");
    };
    refused("there are no data for input `x`: it needs x.npy, x.pb, a folder x, or files *.npz");
    write(&at.join("x.npy"), &Tensor::from_elements([6, 16], &[0.0_f32; 96]));
    refused("x.npy: it holds f32[6,16], and batches of input `x` are f32[4,16]");
    write(&at.join("x.npy"), &Tensor::from_elements([4, 16], &[0.0_f64; 64]));
    refused("x.npy: it holds f64[4,16]");
    write(&at.join("x.npy"), &Tensor::from_elements([0, 16], &[0.0_f32; 0]));
    refused("input `x` has 0 batches");
    std::fs::remove_file(at.join("x.npy")).unwrap();
    std::fs::create_dir(at.join("x")).unwrap();
    std::fs::write(at.join("x/0.csv"), "1").unwrap();
    refused("0.csv: calibration data are files .npy, .pb or .npz");
    assert!(read(Path::new("no-such-folder")).unwrap_err().starts_with("no-such-folder: "));
    let mut other = Data::default();
    other.push("z", Path::new("z.npy"), four(1.0));
    let plan = engine(&ImportOptions::default()).compile(&three_products()).unwrap();
    let error = other.batches(plan.plan()).unwrap_err().to_string();
    assert_eq!(error, "z.npy: the model has no input `z`");
}

#[test]
fn inputs_need_as_many_batches() {
    let mut two = model(
        vec![node("MatMul", &["x", "w"], "a"), node("Add", &["a", "z"], "y")],
        vec![weights("w", &[2, 2], &[1.0; 4])],
        &[1, 2],
        &[1, 2],
    );
    two.graph.as_mut().unwrap().input.push(crate::fixture::value("z", &[1, 2]));
    let bytes = two.encode_to_vec();
    let rows = |count: usize| Tensor::from_elements([count, 2], &vec![1.0_f32; 2 * count]);
    let plan = engine(&ImportOptions::default()).compile(&bytes).unwrap();
    let of = |count| {
        let mut data = Data::default();
        data.push("x", Path::new("x.npy"), rows(3));
        data.push("z", Path::new("z.npy"), rows(count));
        data.batches(plan.plan()).map(|batches| batches.len()).map_err(|error| error.to_string())
    };
    assert_eq!(of(3), Ok(3));
    assert_eq!(of(2), Err("z.npy: input `z` has 2 batches, and another input 3".to_owned()));
    let error = batches(&bytes, &[rows(3)]).unwrap_err().to_string();
    assert_eq!(error, "the calibration data: input `z` has none");
}
