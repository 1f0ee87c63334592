//! Compiles a model, prints its plan, and runs it on the native backend. The documentation of the crate and the README
//! have the same lines.

use ovolo::{ImportOptions, Model, Options, Registry};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut registry = Registry::new();
    ovolo_native::register(&mut registry)?;
    let registry = std::sync::Arc::new(registry);
    let import = ImportOptions::default().with_dim("N", 360);
    let model = Model::load(&registry, "examples/digits/digits.onnx", &import)?;
    let compiled = model.compile(&Options::new(&registry, "native")?)?;
    print!("{}", compiled.plan);
    let mut session = compiled.session(registry.backends())?;
    let images = ovolo::npy::read("examples/digits/images.npy")?;
    println!("{:?}", session.run(&[&images])?[0].to_f64());
    Ok(())
}

#[test]
fn the_example_runs() {
    main().expect("the model compiles and runs");
}
