//! Classifies handwritten digits with the crate `ort` on ovolo: `cargo run --release --package ovolo-ort --example digits`.

use ort::session::Session;
use ort::value::TensorRef;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    ort::set_api(ovolo_ort::api());
    let environment = ort::init().build()?;
    let mut session = Session::builder(&environment)?.commit_from_file("examples/digits/digits.onnx")?;
    let images = ovolo::npy::read("examples/digits/images.npy")?;
    let view = TensorRef::from_array_view((images.ty().shape.to_vec(), images.elements::<f32>()))?;
    let outputs = session.run(ort::inputs![view])?;
    let (shape, scores) = outputs["scores"].try_extract_tensor::<f32>()?;
    println!("{shape:?}: {:?} …", &scores[..4]);
    Ok(())
}
