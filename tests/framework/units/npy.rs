//! Tests of `src/npy.rs`.

mod zip;

use ovolo::graph::text::random;
use ovolo::npy::{decode, decode_npz, encode, encode_npz, read};
use ovolo::tensor::{DType, Tensor, TensorType};

/// Makes a file as NumPy writes it.
fn file(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let mut header = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}");
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(data);
    bytes
}

fn refusal(bytes: &[u8]) -> String {
    decode("x.npy", bytes).unwrap_err().to_string()
}

#[test]
fn every_element_type_round_trips() {
    for dtype in DType::ALL {
        for shape in [vec![], vec![0], vec![5], vec![2, 3, 4], vec![3, 0, 2]] {
            let tensor = random(&TensorType::plain(dtype, shape), 3);
            let read = decode("x", &encode(&tensor)).unwrap();
            let unnamed = dtype.is_narrow() && dtype != DType::F8E5M2;
            let read = if unnamed { read.reinterpreted(dtype) } else { read };
            assert_eq!((read.ty(), read.bytes()), (tensor.ty(), tensor.bytes()));
        }
    }
}

#[test]
fn what_is_written_is_what_numpy_writes() {
    let tensor = Tensor::from_elements([2], &[1.0_f32, -2.0]);
    let data: Vec<u8> = [1.0_f32, -2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let ours = encode(&tensor);
    let numpy = file("'<f4'", false, "(2,)", &data);
    assert_eq!(ours, numpy);
    assert!(encode(&Tensor::from_elements([], &[1_u8])).starts_with(&file("'|u1'", false, "()", &[])));
    let matrix = Tensor::from_elements([1, 2], &[1_i64, 2]);
    assert!(encode(&matrix).starts_with(&file("'<i8'", false, "(1, 2)", &[])));
}

#[test]
fn keys_may_stand_in_any_order_and_numbers_be_those_of_python_2() {
    let header = b"{\"shape\": (2L,3),'fortran_order':False , 'descr': '|u1'}";
    let mut bytes = b"\x93NUMPY\x02\x00".to_vec();
    bytes.extend((header.len() as u32).to_le_bytes());
    bytes.extend(header);
    bytes.extend([1, 2, 3, 4, 5, 6]);
    let tensor = decode("x", &bytes).unwrap();
    assert_eq!((&*tensor.ty().shape, tensor.bytes()), (&[2, 3][..], &[1, 2, 3, 4, 5, 6][..]));
}

#[test]
fn fortran_order_is_transposed() {
    let data: Vec<u8> = [0_i32, 3, 1, 4, 2, 5].iter().flat_map(|v| v.to_le_bytes()).collect();
    let tensor = decode("x", &file("'<i4'", true, "(2, 3)", &data)).unwrap();
    assert_eq!(tensor.elements::<i32>(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(&*tensor.ty().shape, [2, 3]);
}

#[test]
fn a_blocked_tensor_is_written_in_the_default_layout() {
    let plain = random(&TensorType::plain(DType::F32, [1, 3, 2, 2]), 1);
    let blocked = plain.to_layout(&"nChw8c".parse().unwrap());
    assert_eq!(encode(&blocked), encode(&plain));
}

#[test]
fn refusals_name_the_file_and_the_reason() {
    assert!(
        refusal(&file("'>f4'", false, "(1,)", &[0; 4]))
            .starts_with("x.npy: element type `>f4` is big-endian")
    );
    assert!(refusal(&file("'<f16'", false, "(1,)", &[0; 16])).contains("`<f16` is not supported"));
    assert!(refusal(&file("[('a', '<f4')]", false, "(1,)", &[0; 4])).contains("structured"));
    assert!(refusal(&file("'|O'", false, "(1,)", &[0; 4])).contains("pickled"));
    assert!(refusal(&file("'<f4'", false, "(2,)", &[0; 4])).contains("f32[2] has 8 bytes, the file holds 4"));
    assert!(refusal(&file("'<f4'", false, "(1,)", &[0; 5])).contains("the file holds 5"));
    assert!(
        refusal(&file("'<f4'", false, "(9223372036854775807, 9223372036854775807)", &[]))
            .contains("too large")
    );
    assert!(refusal(&file("'<f4'", false, "(0, 9223372036854775807, 9)", &[])).contains("too large"));
    assert!(refusal(&file("'<M8[ns]'", false, "(1,)", &[0; 8])).contains("`<M8[ns]` is not supported"));
    assert!(
        refusal(&file("'<f4'", false, "(-1,)", &[])).contains("damaged: expected a size, found `-1,), }`")
    );
    assert!(refusal(&file("'<f4', 'x': 'y'", false, "(1,)", &[])).contains("has the key `x`"));
    assert!(refusal(b"\x93NUMPY\x01\x00\x02\x00{}").contains("lacks `descr`"));
    assert!(refusal(b"\x93NUMPY\x04\x00\x02\x00{}").contains("version 4"));
    // Strings without characters take no bytes in the file, so nothing there would limit their number.
    assert!(refusal(&file("'<U0'", false, "(1125899906842624,)", &[])).contains("`<U0` is not supported"));
    assert!(refusal(b"hello").contains("does not begin like one"));
    assert!(refusal(b"PK\x03\x04").contains(".npz"));
    assert!(refusal(b"\x93NUMPY\x01\x00\xff\xff    ").contains("more than any plain array needs"));
    assert!(refusal(b"\x93NUMPY\x01\x00\x80\x00    ").contains("ends within its header"));
    assert!(read("/no/such/file.npy").unwrap_err().to_string().starts_with("/no/such/file.npy: "));
}

#[test]
fn no_damage_makes_the_reader_panic() {
    let tensor = random(&TensorType::plain(DType::F32, [2, 3]), 1);
    let whole = encode_npz("x", [("a", &tensor), ("b/c", &tensor)]).unwrap();
    for at in 0..whole.len() {
        let _ = decode_npz("x", &whole[..at]);
        for byte in [0, 0xff, b'(', b'9'] {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            let _ = decode_npz("x", &bytes);
        }
    }
    let whole = encode(&tensor);
    for at in 0..whole.len() {
        let _ = decode("x", &whole[..at]);
        for byte in [0, 0xff, b'(', b'9', b'\'', b'-'] {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            let _ = decode("x", &bytes);
        }
    }
}

#[test]
fn archives_round_trip_in_order() {
    let a = random(&TensorType::plain(DType::F32, [2, 3]), 1);
    let b = random(&TensorType::plain(DType::I64, []), 2);
    let bytes = encode_npz("x", [("z", &a), ("é/b", &b)]).unwrap();
    let read = decode_npz("x", &bytes).unwrap();
    assert_eq!(read.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["z", "é/b"]);
    assert_eq!((read[0].1.bytes(), read[1].1.bytes()), (a.bytes(), b.bytes()));
    assert!(decode_npz("x", &encode_npz("x", []).unwrap()).unwrap().is_empty());
    assert!(encode_npz("x", [("z", &a), ("z", &b)]).unwrap_err().to_string().contains("two arrays"));
}
