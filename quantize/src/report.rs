//! What `ovolo quantize` prints.

use super::layer::Layer;
use super::search::{Point, Search};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// The result of a search, and what was measured.
pub(crate) struct Report<'a> {
    pub layers: &'a [Layer],
    pub search: &'a Search<'a>,
    /// The most loss that was allowed.
    pub most: f64,
    /// The number of batches of the calibration data.
    pub batches: usize,
    /// The measured seconds of the model in float32.
    pub float: Option<f64>,
    pub chosen: Point,
    /// The measured seconds of the chosen model.
    pub measured: Option<f64>,
    /// The points of the curve with their measured seconds.
    pub curve: Vec<(Option<f64>, Point)>,
    /// The file that the chosen model is written to.
    pub output: Option<&'a Path>,
}

impl Report<'_> {
    /// Returns the report for people.
    pub fn text(&self) -> String {
        let (search, float) = (self.search, &self.search.float);
        let longest = |title: &str, text: fn(&Layer) -> &str| {
            let lengths = self.layers.iter().map(|layer| text(layer).chars().count());
            lengths.max().unwrap_or(0).max(title.len())
        };
        let width = longest("layer", |layer| &layer.name);
        let operators = longest("operator", |layer| &layer.operator);
        let mut text = format!(
            "{:width$}  {:operators$}       alone     error      loss  chosen\n",
            "layer", "operator"
        );
        for ((layer, alone), chosen) in self.layers.iter().zip(&search.alone).zip(&self.chosen.chosen) {
            let saved = (alone.seconds - float.seconds) * 1e6;
            let kind = if *chosen { "int8" } else { "float32" };
            let _ = writeln!(
                text,
                "{:width$}  {:operators$}  {saved:+7.1} us  {:8.5}  {:8.5}  {kind}",
                layer.name,
                layer.operator,
                alone.error.sqrt(),
                alone.loss
            );
        }
        text.push('\n');
        let mut rows: Vec<(&str, Option<f64>, &Point)> =
            self.curve.iter().map(|(measured, point)| ("", *measured, point)).collect();
        rows.push(("float32", self.float, float));
        rows.push(("chosen", self.measured, &self.chosen));
        let _ = writeln!(
            text,
            "            int8 of {:<3}   estimated    measured        bytes      loss",
            self.layers.len()
        );
        for (name, measured, point) in rows {
            let count = point.chosen.iter().filter(|chosen| **chosen).count();
            let measured = measured.map_or("-".to_owned(), |seconds| format!("{:.1} us", seconds * 1e6));
            let accuracy =
                point.accuracy.map_or(String::new(), |share| format!("  accuracy {:.2} %", share * 100.0));
            let _ = writeln!(
                text,
                "{name:9}  {count:11}  {:7.1} us  {measured:>10}  {:11}  {:8.5}{accuracy}",
                point.seconds * 1e6,
                point.bytes,
                point.loss
            );
        }
        let _ = writeln!(
            text,
            "\nat most {} is allowed to be lost on {} of calibration data",
            self.most,
            batches(self.batches)
        );
        if !self.chosen.chosen.contains(&true) {
            text.push_str("no layer is chosen: the model stays in float32\n");
        }
        if let (Some(float), Some(chosen)) = (self.float, self.measured)
            && chosen > float
        {
            let _ = writeln!(
                text,
                "warning: the chosen model is slower than the one in float32, {:.1} us instead of {:.1} us: its estimate is wrong",
                chosen * 1e6,
                float * 1e6
            );
        }
        if let Some(output) = self.output {
            let _ = writeln!(text, "written: {}", output.display());
        }
        text
    }

    /// Returns the report as JSON, with seconds and bytes.
    pub fn json(&self) -> String {
        let layer = |at: usize| {
            let (layer, alone) = (&self.layers[at], &self.search.alone[at]);
            json!({
                "name": layer.name, "operator": layer.operator, "chosen": self.chosen.chosen[at],
                "alone": self.point(None, alone),
            })
        };
        let curve = self.curve.iter().map(|(measured, point)| self.point(*measured, point));
        let value = json!({
            "layers": (0..self.layers.len()).map(layer).collect::<Vec<_>>(),
            "float32": self.point(self.float, &self.search.float),
            "chosen": self.point(self.measured, &self.chosen),
            "curve": curve.collect::<Vec<_>>(),
            "most": self.most, "batches": self.batches, "output": self.output,
        });
        format!("{value}\n")
    }

    fn point(&self, measured: Option<f64>, point: &Point) -> Value {
        let names = self.layers.iter().zip(&point.chosen).filter(|(_, chosen)| **chosen);
        json!({
            "int8": names.map(|(layer, _)| &layer.name).collect::<Vec<_>>(),
            "seconds": point.seconds, "measured": measured, "bytes": point.bytes, "loss": point.loss,
            "relative_error": point.error.sqrt(), "accuracy": point.accuracy,
        })
    }
}

fn batches(count: usize) -> String {
    format!("{count} {}", if count == 1 { "batch" } else { "batches" })
}
