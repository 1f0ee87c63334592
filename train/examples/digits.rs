//! Trains the network of the examples from random weights, prints its accuracy on digits that it has not seen, and keeps
//! the trained model as bytes.

use ovolo::{ImportOptions, Options, Registry};
use ovolo_train::{Data, Dropout, Evaluator, Loss, Network, Optimizer, Recipe, Step, Table, Trainer};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The number of rows of a batch.
const BATCH: usize = 32;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (right, all) = train(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/digits"))?;
    println!("{right} of {all} digits are right");
    Ok(())
}

/// Trains eight epochs, and returns how many labels of other data are right, and their number.
pub fn train(folder: &Path) -> Result<(usize, usize), Box<dyn std::error::Error>> {
    let mut registry = Registry::new();
    ovolo_native::register(&mut registry)?;
    let registry = Arc::new(registry);
    let import = ImportOptions::default().with_dim("N", BATCH);
    let options = Options::new(&registry, "native")?;
    let network = Network::read(&registry, &folder.join("digits.onnx"))?;
    let recipe = Recipe {
        table: Table::new(&registry)?,
        loss: Loss::find(&registry, "cross-entropy")?,
        optimizer: Some(Optimizer::find("adam", &BTreeMap::new())?),
        freeze: Vec::new(),
        lazy: Vec::new(),
        output: None,
        batch_statistics: true,
        dropout: Dropout::default(),
    };
    let step = Step::new(&registry, &network, &import, &recipe)?;
    let mut trainer = Trainer::new(step, &network, &options)?;
    trainer.draw(0, &network);
    let data = Data::read(&folder.join("training.npz"))?;
    let (inputs, labels) = (trainer.step().inputs.clone(), trainer.step().labels.clone());
    for epoch in 0..8 {
        for rows in Data::order(data.rows(), 0, epoch).chunks_exact(BATCH) {
            let batch = inputs.iter().map(|input| data.batch(&input.name, &input.ty, rows));
            let labels = data.batch("labels", &labels.ty, rows)?;
            trainer.run(batch.collect::<Result<_, _>>()?, labels, 0.01)?;
        }
    }
    let test = Data::read(&folder.join("held-out.npz"))?;
    let mut evaluator = Evaluator::new(&network, &import, &trainer, None, &options)?;
    let right = evaluator.right(&trainer, &test, "labels")?;
    let model = network.with_values(&trainer.kept().collect())?;
    println!("the trained model has {} bytes", model.len());
    Ok((right, test.rows()))
}
