//! The table: named lines that are kept in a file as soon as they are measured.

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The prefix of the reason why a line could not be measured; that is not a failure.
const OPEN: &str = "not measured: ";

/// Returns the text of a line that could not be measured.
pub fn open(why: &str) -> String {
    format!("{OPEN}{why}")
}

/// The result of a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Our time over the better of PyTorch's, if the line is a comparison.
    pub ratio: Option<f64>,
    /// The printed text.
    pub said: String,
}

impl Row {
    /// A line that is not a comparison.
    pub fn said(said: String) -> Self {
        Self { ratio: None, said }
    }
}

/// Lines in the order in which they are asked for.
pub struct Table {
    file: PathBuf,
    identity: String,
    words: Vec<String>,
    /// Names and results; those of the last run first.
    kept: Vec<(String, Row)>,
    /// The lines of this run.
    rows: Vec<(String, Result<Row, String>)>,
}

impl Table {
    /// Opens the table of `identity`, with what was kept of it.
    pub fn open(file: &Path, identity: &str, words: &[String]) -> Result<Self, String> {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let mut lines = text.lines();
        let same = lines.next() == Some(identity);
        let kept = if same { lines.filter_map(line).collect() } else { Vec::new() };
        Ok(Self {
            file: file.to_owned(),
            identity: identity.to_owned(),
            words: words.to_vec(),
            kept,
            rows: Vec::new(),
        })
    }

    /// Whether a line is asked for.
    pub fn wanted(&self, name: &str) -> bool {
        self.words.iter().all(|word| name.contains(word.as_str()))
    }

    /// Measures a line if it is asked for; otherwise it keeps its former result.
    pub fn measure(
        &mut self,
        name: &str,
        measured: impl FnOnce() -> Result<Row, String>,
    ) -> Result<(), String> {
        if self.wanted(name) {
            eprintln!("measuring {name}");
            return self.put(name, measured());
        }
        let before = self.kept.iter().find(|(known, _)| known == name).map(|(_, row)| row.clone());
        let outcome = before.ok_or_else(|| open("it was not asked for"));
        self.rows.push((name.to_owned(), outcome));
        Ok(())
    }

    /// Adds a measured line, and keeps it.
    pub fn put(&mut self, name: &str, outcome: Result<Row, String>) -> Result<(), String> {
        if let Ok(row) = &outcome {
            self.kept.retain(|(known, _)| known != name);
            self.kept.push((name.to_owned(), row.clone()));
            self.keep()?;
        }
        self.rows.push((name.to_owned(), outcome));
        Ok(())
    }

    /// Adds the geometric mean of the ratios of these lines, or names those that have no ratio.
    pub fn mean(&mut self, name: &str, of: &[String]) {
        let ratio = |name: &String| {
            let row = self.rows.iter().find(|(known, _)| known == name)?.1.as_ref().ok()?;
            row.ratio
        };
        let missing: Vec<&str> = of.iter().filter(|name| ratio(name).is_none()).map(String::as_str).collect();
        let outcome = if missing.is_empty() {
            let ratios: Vec<f64> = of.iter().filter_map(ratio).collect();
            Ok(Row::said(format!("{:.3} over {} networks", geometric_mean(&ratios), ratios.len())))
        } else {
            Err(open(&format!("there is no ratio of {}", missing.join("; "))))
        };
        self.rows.push((name.to_owned(), outcome));
    }

    fn keep(&self) -> Result<(), String> {
        let mut text = format!("{}\n", self.identity);
        for (name, row) in &self.kept {
            let ratio = row.ratio.map_or_else(String::new, |ratio| ratio.to_string());
            let _ = writeln!(text, "{name}\t{ratio}\t{}", row.said.replace(['\t', '\n'], " "));
        }
        let said = |error: std::io::Error| format!("{}: {error}", self.file.display());
        if let Some(folder) = self.file.parent() {
            std::fs::create_dir_all(folder).map_err(said)?;
        }
        std::fs::write(&self.file, text).map_err(said)
    }

    /// The number of failed lines. Those that could not be measured do not count.
    pub fn failed(&self) -> usize {
        let failed = |why: &&String| !why.starts_with(OPEN);
        self.rows.iter().filter_map(|(_, outcome)| outcome.as_ref().err()).filter(failed).count()
    }

    /// The text of the table.
    pub fn text(&self) -> String {
        let wide = self.rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut text = format!("{}\n", self.identity);
        for (name, outcome) in &self.rows {
            let said = match outcome {
                Ok(row) => row.said.clone(),
                Err(why) if why.starts_with(OPEN) => why.clone(),
                Err(why) => format!("FAILED: {why}"),
            };
            let _ = writeln!(text, "{name:wide$}  {said}");
        }
        text
    }
}

/// Parses a line of the file.
fn line(line: &str) -> Option<(String, Row)> {
    let mut parts = line.split('\t');
    let (name, ratio, said) = (parts.next()?, parts.next()?, parts.next()?);
    let ratio = if ratio.is_empty() { None } else { Some(ratio.parse().ok()?) };
    Some((name.to_owned(), Row { ratio, said: said.to_owned() }))
}

#[allow(clippy::cast_precision_loss)]
fn geometric_mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn race(ratio: f64) -> Result<Row, String> {
        Ok(Row { ratio: Some(ratio), said: format!("{ratio}") })
    }

    #[test]
    fn measurements_are_kept_only_for_the_same_device_and_commit() {
        let file = std::env::temp_dir().join(format!("ovolo-gpu-{}/rows.tsv", std::process::id()));
        let mut table = Table::open(&file, "a device", &["one".into()]).unwrap();
        table.measure("one", || race(0.5)).unwrap();
        table.measure("two", || panic!("it was not asked for")).unwrap();
        assert_eq!(table.failed(), 0);
        assert_eq!(table.text(), "a device\none  0.5\ntwo  not measured: it was not asked for\n");
        let mut table = Table::open(&file, "a device", &["two".into()]).unwrap();
        table.measure("one", || panic!("it was not asked for")).unwrap();
        table.measure("two", || race(2.0)).unwrap();
        table.mean("mean", &["one".into(), "two".into()]);
        assert_eq!(table.text(), "a device\none   0.5\ntwo   2\nmean  1.000 over 2 networks\n");
        let mut table = Table::open(&file, "another", &["three".into()]).unwrap();
        table.measure("one", || panic!("it was not asked for")).unwrap();
        table.measure("three", || Err("it broke".into())).unwrap();
        table.mean("mean", &["one".into()]);
        assert_eq!(table.failed(), 1);
        assert!(
            table.text().contains("three  FAILED: it broke\nmean   not measured: there is no ratio of one\n")
        );
        std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
    }
}
