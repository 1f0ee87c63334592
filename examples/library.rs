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
    // The paths begin at the root of the repository. Of the tests that are compiled with this one, no other depends on
    // the working folder.
    let package = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.ancestors().find(|folder| folder.join("Cargo.lock").exists());
    std::env::set_current_dir(root.expect("the package is in the repository")).expect("the folder exists");
    main().expect("the model compiles and runs");
}
