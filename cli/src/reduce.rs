//! `ovolo reduce`: the smallest graph for which a command still says the same.

use super::page::writable;
use super::progress::Progress;
use super::{Outcome, Settings, print};
use clap::Args;
use ovolo::registry::Registry;
use ovolo_lab::reduce::{Size, Sketch, reduce};
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

#[derive(Args)]
pub(super) struct Reduce {
    /// The model: an ONNX file, or a graph in text form.
    model: PathBuf,
    /// The model that a graph in text form was printed from: it has the constants that stand in the text as
    /// hashes.
    #[arg(long, value_name = "MODEL")]
    weights: Option<PathBuf>,
    /// Bind a symbolic dimension.
    #[arg(long = "dim", value_name = "NAME=N")]
    dims: Vec<String>,
    /// Fill initializers that have no data but a note `normal MEAN STD` with seeded values.
    #[arg(long)]
    seeded_weights: bool,
    /// The command still says the same if its output has this text, and its exit code is the same. Without a text, the
    /// first line of standard error with the word `error` or `panicked` must be the same, but for numbers and names in
    /// backquotes.
    #[arg(long, value_name = "TEXT")]
    says: Option<String>,
    /// Where to write the smallest graph that was found, with all its constants. It is written whenever a smaller one is
    /// found.
    #[arg(long, value_name = "FILE", default_value = "reduced.ovolo")]
    out: PathBuf,
    /// The seconds that the command may take for a graph.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// The command and its arguments, after `--`. `{}` stands for the file of a graph; without it, the file is the last
    /// argument.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// What a command did.
#[derive(Debug, PartialEq, Eq)]
struct Reply {
    status: ExitStatus,
    /// The part of its output that counts.
    said: String,
}

impl Reduce {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let settings = Settings {
            weights: self.weights.clone(),
            dims: self.dims.clone(),
            seeded_weights: self.seeded_weights,
            ..Settings::new(&self.model)
        };
        writable("--out ", &self.out, &settings.inputs())?;
        let graph = settings.graph(registry)?;
        let trial = Trial::new()?;
        let whole = Sketch::new(&graph);
        let text = whole.text().ok_or_else(no_text)?;
        let first = self.reply(&trial, &text)?.ok_or_else(|| {
            format!("the command does not end within {} s on the whole graph: see --timeout", self.timeout)
        })?;
        self.telling(&first)?;
        if self.says.is_none() && !first.said.is_empty() {
            eprintln!("note: graphs are kept for which the command says: {}", first.said.trim());
        }
        let (mut tries, mut progress) = (0, Progress::new(whole.size().calls));
        let mut holds = |sketch: &Sketch| {
            let Some(text) = sketch.text() else { return Ok(false) };
            tries += 1;
            let Size { calls, .. } = sketch.size();
            progress.at(calls, &format!("calls: try {tries}"));
            let same = self.reply(&trial, &text)?.is_some_and(|reply| reply == first);
            if same {
                self.write(&text)?;
            }
            Ok::<bool, String>(same)
        };
        let smallest = reduce(&graph, &mut holds)?;
        drop(progress);
        self.write(&smallest.text().ok_or_else(no_text)?)?;
        let (before, after) = (whole.size(), smallest.size());
        print(&format!(
            "{}: {} of {} calls, {} of {} values, after {tries} tries\n",
            self.out.display(),
            after.calls,
            before.calls,
            after.values,
            before.values
        ));
        Ok(())
    }

    /// Refuses a command of which nothing would be kept.
    fn telling(&self, first: &Reply) -> Result<(), String> {
        match &self.says {
            Some(text) if first.said.is_empty() => {
                Err(format!("on the whole graph, the command does not say `{text}` ({})", first.status))
            }
            None if first.status.success() => Err(
                "the command succeeds on the whole graph: say with --says TEXT what of its output is to be kept".into(),
            ),
            _ => Ok(()),
        }
    }

    fn write(&self, text: &str) -> Outcome {
        ovolo::file::write(&self.out, &[text.as_bytes()])
            .map_err(|error| format!("{}: {error}", self.out.display()))
    }

    /// Runs the command on a graph. `None` if it takes too long.
    fn reply(&self, trial: &Trial, text: &str) -> Result<Option<Reply>, String> {
        let graph = trial.folder.join("graph.ovolo");
        ovolo::file::write(&graph, &[text.as_bytes()])
            .map_err(|error| format!("{}: {error}", graph.display()))?;
        let file = graph.display().to_string();
        let mut words: Vec<String> = self.command.iter().map(|word| word.replace("{}", &file)).collect();
        if words == self.command {
            words.push(file);
        }
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("`{}`: {error}", words[0]))?;
        // Both are read while the command runs, because it waits once a pipe is full.
        let (out, err) = (child.stdout.take().map(reader), child.stderr.take().map(reader));
        let waits = Duration::from_secs(self.timeout);
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(|error| format!("`{}`: {error}", words[0]))? {
                break status;
            }
            if start.elapsed() > waits {
                let _ = child.kill();
                let _ = child.wait();
                return Ok(None);
            }
            // Short commands are waited for in short steps, long ones in long steps.
            std::thread::sleep(
                (start.elapsed() / 16).clamp(Duration::from_micros(200), Duration::from_millis(50)),
            );
        };
        let text = |reader: Option<JoinHandle<Vec<u8>>>| {
            let bytes = reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (out, err) = (text(out), text(err));
        let said = match &self.says {
            Some(text) if out.contains(text) || err.contains(text) => text.clone(),
            Some(_) => String::new(),
            None => complaint(&err),
        };
        Ok(Some(Reply { status, said }))
    }
}

/// Reads a pipe to its end in a thread.
fn reader(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error counts.
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

fn no_text() -> String {
    "a constant of complex numbers or strings has no text form, so the graph cannot be reduced".to_owned()
}

/// Returns the first line that complains, without numbers and names, which change with the graph.
fn complaint(stderr: &str) -> String {
    let complains = |line: &&str| line.contains("error") || line.contains("panicked");
    let mut text = String::new();
    let mut quoted = false;
    for c in stderr.lines().find(complains).unwrap_or_default().chars() {
        match c {
            '`' => {
                quoted = !quoted;
                text.push(c);
            }
            _ if quoted => {}
            '0'..='9' if text.ends_with('0') => {}
            '0'..='9' => text.push('0'),
            _ => text.push(c),
        }
    }
    text
}

/// A folder for one command's files, which is removed at the end.
struct Trial {
    folder: PathBuf,
}

impl Trial {
    fn new() -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("ovolo-reduce-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self { folder })
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
