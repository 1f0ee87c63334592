//! Compares times and errors of networks with PyTorch's, by batch and precision.
//!
//! PyTorch makes each network with seeded weights and random inputs, and writes it as ONNX for the batch. Both run it
//! on the same inputs, which lie on the device, and once more with copies from and to the host. Ours uses measured times,
//! so that each algorithm is one that won on this machine.

use super::kit::Kit;
use super::table::{Row, Table, open};
use super::{finished, text};
use crate::python::remove;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The networks that are measured.
const NETWORKS: &[&str] = &[
    "resnet50",
    "mobilenet_v2",
    "vgg16",
    "inception_v3",
    "resnext50_32x4d",
    "efficientnet_b0",
    "bert_base",
    "vit_b_16",
];
const BATCHES: &[usize] = &[1, 8, 32];
/// The precisions, and the pipelines that round to them.
const PRECISIONS: &[(&str, &str)] =
    &[("float32", "cuda"), ("TF32", "cuda-tf32"), ("float16", "cuda-f16"), ("bfloat16", "cuda-bf16")];

/// The name of a line.
fn named(network: &str, batch: usize, precision: &str) -> String {
    format!("{network}, batch {batch}, {precision}, ms")
}

/// Measures all networks that are asked for, and their means.
pub fn measure(kit: &Kit, table: &mut Table) -> Result<(), String> {
    for batch in BATCHES {
        for network in NETWORKS {
            let wanted: Vec<&str> = PRECISIONS
                .iter()
                .map(|(precision, _)| *precision)
                .filter(|precision| table.wanted(&named(network, *batch, precision)))
                .collect();
            let folder = kit.work.join(format!("{network}-{batch}"));
            let peers = if wanted.is_empty() {
                Ok(Vec::new())
            } else {
                remove(&folder)?;
                std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
                eprintln!("measuring {network} of PyTorch, batch {batch}");
                finished(&mut model(kit.script(), network, *batch, &folder, &wanted))
                    .map(|said| peers(&text(&said)))
            };
            for (precision, pipeline) in PRECISIONS {
                table.measure(&named(network, *batch, precision), || {
                    let peers = peers.as_ref().map_err(|why| open(why))?;
                    let peer = peers.iter().find(|peer| peer.precision == *precision);
                    let peer = peer.ok_or_else(|| open("the script has no line of it"))?;
                    Ok(peer.beside(&ours(kit, &folder, pipeline)?))
                })?;
            }
            // The weights of all networks might not fit on the disk, so each is removed.
            remove(&folder)?;
        }
    }
    for batch in BATCHES {
        for (precision, _) in PRECISIONS {
            let of: Vec<String> = NETWORKS.iter().map(|network| named(network, *batch, precision)).collect();
            table.mean(
                &format!("ours / the best of PyTorch's, batch {batch}, {precision}, geometric mean"),
                &of,
            );
        }
    }
    Ok(())
}

/// The command that makes a network and times PyTorch.
fn model(mut command: Command, network: &str, batch: usize, folder: &Path, precisions: &[&str]) -> Command {
    command.args(["model", network, &batch.to_string()]).arg(folder);
    command.args(["--precisions", &precisions.join(",")]);
    command
}

/// PyTorch's median milliseconds.
#[derive(Debug, PartialEq)]
struct Times {
    eager: f64,
    /// Compiled by `torch.compile` in its mode `reduce-overhead`, which replays CUDA graphs.
    compiled: f64,
    /// Compiled in its mode `max-autotune`.
    autotuned: f64,
}

impl Times {
    fn best(&self) -> f64 {
        self.eager.min(self.compiled).min(self.autotuned)
    }
}

/// PyTorch's times of a network in one precision.
#[derive(Debug, PartialEq)]
struct Peer {
    precision: String,
    /// Inputs and outputs lie on the device.
    resident: Times,
    /// Inputs are copied from pinned memory of the host, and outputs to the host.
    copied: Times,
    /// The relative L2 error compared with the processor in float32.
    error: f64,
}

/// Our times of a network in one precision.
struct Ours {
    /// The median time of a run whose inputs and outputs lie on the device, in milliseconds.
    resident: f64,
    /// The median time of a run with copies from the host and back, in milliseconds.
    copied: f64,
    /// The relative L2 error compared with the processor in float32.
    error: f64,
}

impl Peer {
    /// Returns the line that compares it with ours.
    fn beside(&self, ours: &Ours) -> Row {
        let Self { resident: there, copied: with_copies, error: theirs, .. } = self;
        let Times { eager, compiled, autotuned } = there;
        let Ours { resident, copied, error } = ours;
        let (ratio, best) = (resident / there.best(), with_copies.best());
        Row {
            ratio: Some(ratio),
            said: format!(
                "{resident:.3}; PyTorch eager {eager:.3}, compiled {compiled:.3}, autotuned {autotuned:.3}; ours / the best \
                 {ratio:.3}; with copies {copied:.3}, the best of PyTorch's {best:.3}, ratio {:.3}; relative L2 error \
                 {error:.1e}, PyTorch's {theirs:.1e}",
                copied / best
            ),
        }
    }
}

/// Parses the lines of the script.
fn peers(said: &str) -> Vec<Peer> {
    let peer = |line: &str| {
        let mut parts = line.split('\t');
        let precision = parts.next()?.to_owned();
        let mut number = || parts.next()?.parse::<f64>().ok();
        let mut times = || Some(Times { eager: number()?, compiled: number()?, autotuned: number()? });
        let (resident, copied) = (times()?, times()?);
        Some(Peer { precision, resident, copied, error: number()? })
    };
    said.lines().filter_map(peer).collect()
}

/// The arguments that both of our runs share.
fn told(ovolo: &Path, command: &str, folder: &Path, pipeline: &str) -> Command {
    let mut told = Command::new(ovolo);
    told.args([command, "--pipeline", pipeline, "--cost", "measured"]).arg(folder.join("model.onnx"));
    told
}

/// Measures our runs.
fn ours(kit: &Kit, folder: &Path, pipeline: &str) -> Result<Ours, String> {
    let results = folder.join("results");
    remove(&results)?;
    let mut run = told(&kit.ovolo, "run", folder, pipeline);
    run.arg("--output-dir").arg(&results);
    for (name, file) in inputs(&folder.join("inputs"))? {
        run.arg("--input").arg(format!("{name}={}", file.display()));
    }
    finished(&mut run)?;
    let said = finished(kit.script().arg("error").arg(folder.join("outputs")).arg(&results))?;
    let error = text(&said).trim().parse::<f64>().map_err(|error| error.to_string())?;
    let median = |words: &[&str]| {
        let mut bench = told(&kit.ovolo, "bench", folder, pipeline);
        bench.args(["--seconds", "3", "--json", "--inputs"]).arg(folder.join("inputs")).args(words);
        let said = text(&finished(&mut bench)?);
        let said: serde_json::Value = serde_json::from_str(&said).map_err(|error| error.to_string())?;
        said["median_ms"].as_f64().ok_or_else(|| "there is no median".to_owned())
    };
    Ok(Ours { resident: median(&["--resident", "cuda:0"])?, copied: median(&[])?, error })
}

/// Returns the inputs of a network with their files.
fn inputs(folder: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let said = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(said)? {
        let path = entry.map_err(said)?.path();
        if let Some(name) = path.file_stem() {
            files.push((name.to_string_lossy().into_owned(), path.clone()));
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_of_three_peers_counts_in_its_own_precision() {
        let said = "a warning\nfloat32\t3.2500\t2.7500\t3.0\t5.0\t4.0\t4.5\t1.00e-06\n\
                    TF32\t1.5\t1.75\t1.25\t2.5\t2.25\t3.0\t2.00e-04\n";
        let peers = peers(said);
        let times = |[eager, compiled, autotuned]: [f64; 3]| Times { eager, compiled, autotuned };
        let (resident, copied) = (times([1.5, 1.75, 1.25]), times([2.5, 2.25, 3.0]));
        assert_eq!(peers[1], Peer { precision: "TF32".into(), resident, copied, error: 2e-4 });
        assert_eq!(peers.len(), 2);
        let row = peers[0].beside(&Ours { resident: 5.5, copied: 6.0, error: 2e-6 });
        assert_eq!(row.ratio, Some(2.0));
        assert_eq!(
            row.said,
            "5.500; PyTorch eager 3.250, compiled 2.750, autotuned 3.000; ours / the best 2.000; with copies 6.000, the \
             best of PyTorch's 4.000, ratio 1.500; relative L2 error 2.0e-6, PyTorch's 1.0e-6"
        );
        assert_eq!(peers[1].beside(&Ours { resident: 1.25, copied: 9.0, error: 0.0 }).ratio, Some(1.0));
    }

    #[test]
    fn the_script_gets_a_network_with_its_batch_and_precisions() {
        let command = model(Command::new("python3"), "vgg16", 8, Path::new("there"), &["TF32", "float16"]);
        let said: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        assert_eq!(said, ["model", "vgg16", "8", "there", "--precisions", "TF32,float16"]);
    }

    #[test]
    fn the_script_knows_every_network_and_precision() {
        // The script reads its arguments before it imports any package.
        let file = crate::python::root().join("xtask/python/gpu.py");
        let script = || {
            let mut command = Command::new("python3");
            command.arg(&file);
            command
        };
        let said = |words: &[&str]| match script().args(words).output() {
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned() + &text(&output),
            Err(error) => {
                eprintln!("skipped: python3: {error}");
                NETWORKS.join(" ")
            }
        };
        let refused = said(&["model", "a-network", "1", "there"]);
        let missing: Vec<&&str> = NETWORKS.iter().filter(|network| !refused.contains(**network)).collect();
        assert!(missing.is_empty(), "{missing:?}: {refused}");
        let script = std::fs::read_to_string(&file).unwrap();
        for (precision, _) in PRECISIONS {
            assert!(script.contains(&format!("\"{precision}\"")), "{precision}");
        }
    }
}
