//! Checkpoints in both formats have the same values, and damaged files are refused.

use ovolo::Registry;
use ovolo::compile::Options;
use ovolo::onnx::ImportOptions;
use ovolo_train::checkpoint::{self, Progress};
use ovolo_train::{Dropout, Loss, Network, Optimizer, Recipe, Step, Table, Trainer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn trainer(seed: u64) -> Trainer {
    let digits = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/digits/digits.onnx");
    let mut registry = Registry::new();
    ovolo_native::register(&mut registry).unwrap();
    let registry = Arc::new(registry);
    let network = Network::read(&registry, &digits).unwrap();
    let recipe = Recipe {
        table: Table::new(&registry).unwrap(),
        loss: Loss::find(&registry, "cross-entropy").unwrap(),
        optimizer: Some(Optimizer::find("momentum", &BTreeMap::new()).unwrap()),
        freeze: Vec::new(),
        lazy: Vec::new(),
        output: None,
        batch_statistics: true,
        dropout: Dropout { own: true, after: vec![("relu*".to_owned(), 0.1)] },
    };
    let import = ImportOptions::default().with_dim("N", 4);
    let step = Step::new(&registry, &network, &import, &recipe).unwrap();
    let mut trainer =
        Trainer::new(step, &network, &Options::new(&registry, "native").unwrap().with_threads(1)).unwrap();
    trainer.seed(seed);
    trainer.draw(seed, &network);
    trainer
}

fn kept(trainer: &Trainer) -> Vec<(String, Vec<u8>)> {
    trainer.kept().map(|(name, value)| (name.to_owned(), value.bytes().to_vec())).collect()
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn both_formats_give_back_what_was_written() {
    let (before, progress) =
        (trainer(5), Progress { epochs: 3, seed: u64::MAX, optimizer: "momentum".to_owned() });
    for name in ["whole.npz", "whole.safetensors"] {
        let path = file(name);
        checkpoint::write(&path, &before, &progress).unwrap();
        let mut after = trainer(6);
        assert_ne!(kept(&after), kept(&before));
        assert_eq!(checkpoint::read(&path, &mut after, "momentum").unwrap(), progress);
        assert_eq!(kept(&after), kept(&before), "{name}");
        let why = checkpoint::read(&path, &mut after, "adam").unwrap_err().to_string();
        assert!(why.contains("give --optimizer momentum"), "{why}");
    }
    let bytes = std::fs::read(file("whole.safetensors")).unwrap();
    let length = usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    assert_eq!(header["__metadata__"]["training/optimizer"], "momentum");
    assert_eq!(header["conv0.weight"]["dtype"], "F32");
    assert_eq!(header["dropout-seed"]["dtype"], "U64");
    assert_eq!(length % 8, 0);
    let end = header.as_object().unwrap().values().filter_map(|one| one["data_offsets"][1].as_u64()).max();
    assert_eq!(end, Some((bytes.len() - 8 - length) as u64));
}

#[test]
fn parameters_alone_are_written_and_read() {
    let (before, mut after) = (trainer(5), trainer(6));
    let count = before.step().parameters.len() + before.step().statistics.len();
    checkpoint::write_parameters(&file("parameters.safetensors"), &before).unwrap();
    checkpoint::read_parameters(&file("parameters.safetensors"), &mut after).unwrap();
    assert_eq!(kept(&after)[..count], kept(&before)[..count]);
    assert_ne!(kept(&after)[count..], kept(&before)[count..]);
    let mut bytes = std::fs::read(file("parameters.safetensors")).unwrap();
    let at = bytes.windows(5).position(|part| part == b"conv0").unwrap();
    bytes[at] = b'k';
    std::fs::write(file("other.safetensors"), bytes).unwrap();
    let why = checkpoint::read_parameters(&file("other.safetensors"), &mut after).unwrap_err().to_string();
    assert!(why.contains("the step keeps no value `konv0.bias`; there are conv0.weight"), "{why}");
}

#[test]
fn damaged_files_are_refused() {
    let mut trainer = trainer(5);
    let mut told = |header: &str, data: &[u8]| {
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat();
        std::fs::write(file("damaged.safetensors"), bytes).unwrap();
        checkpoint::read_parameters(&file("damaged.safetensors"), &mut trainer).unwrap_err().to_string()
    };
    for (header, why) in [
        ("{", "it is no safetensors file"),
        (r#"{"a": 3}"#, "tensor `a`: invalid type"),
        (
            r#"{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 12]}}"#,
            "its bytes 0 to 12 are not in the file",
        ),
        (
            r#"{"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}"#,
            "its bytes 8 to 0 are not in the file",
        ),
        (r#"{"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}"#, "8 bytes are no f32[3]"),
        (r#"{"a": {"dtype": "F31", "shape": [2], "data_offsets": [0, 8]}}"#, "its element type is `F31`"),
        (
            r#"{"a": {"dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 8]}}"#,
            "8 bytes are no f32",
        ),
        (r#"{"a": {"dtype": "BOOL", "shape": [8], "data_offsets": [0, 8]}}"#, "neither 0 nor 1"),
    ] {
        let found = told(header, &[7; 8]);
        assert!(found.contains(why) && found.contains("damaged.safetensors"), "{header}: {found}");
    }
    std::fs::write(file("damaged.safetensors"), [1, 0, 0]).unwrap();
    let why = checkpoint::read_parameters(&file("damaged.safetensors"), &mut trainer).unwrap_err();
    assert!(why.to_string().contains("shorter than its header says"), "{why}");
}
