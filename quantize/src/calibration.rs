//! Calibration: the ranges of values that a model computes on given inputs.

use super::data::Batch;
use super::document::Document;
use super::engine::{Engine, Runnable};
use super::entropy::threshold;
use super::error::QuantizeError;
use super::histogram::{BINS, Histogram};
use super::range::{Range, Ranges};
use ovolo::tensor::Tensor;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// How the range of a value follows from the values that it takes on the data.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Calibration {
    /// From the least value to the greatest.
    #[default]
    MinMax,
    /// What is left if all but this percentage of the values is cut off, as much at either end.
    Percentile(f64),
    /// The values within the threshold that [`threshold`] finds for their magnitudes: among 256 levels if no value is
    /// negative, and else among 128, since the magnitudes share them with their negatives. Zeros are not counted: zero
    /// is a level, so they lose nothing, and after a `Relu` they would outweigh all other values.
    Entropy,
}

/// A text that names no calibration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no calibration: give min-max, percentile:P with P above 50 and up to 100, or entropy")]
pub struct NoCalibration(String);

impl FromStr for Calibration {
    type Err = NoCalibration;

    fn from_str(text: &str) -> Result<Self, NoCalibration> {
        match text.split_once(':') {
            None if text == "min-max" => Ok(Self::MinMax),
            None if text == "entropy" => Ok(Self::Entropy),
            Some(("percentile", share)) => {
                let share = share.parse::<f64>().ok().filter(|share| *share > 50.0 && *share <= 100.0);
                share.map(Self::Percentile).ok_or_else(|| NoCalibration(text.to_owned()))
            }
            _ => Err(NoCalibration(text.to_owned())),
        }
    }
}

impl fmt::Display for Calibration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MinMax => out.write_str("min-max"),
            Self::Percentile(share) => write!(out, "percentile:{share}"),
            Self::Entropy => out.write_str("entropy"),
        }
    }
}

/// Runs a model on batches, and returns the range of each value that a layer reads. A first run finds the least and the
/// greatest values. For other calibrations a second one counts values in histograms, so that no values are kept.
///
/// # Errors
/// The model cannot be compiled or run, or a value is not finite.
pub fn calibrate(
    document: &Document,
    engine: &Engine<'_>,
    batches: &[Batch],
    calibration: Calibration,
) -> Result<Ranges, QuantizeError> {
    let names: BTreeSet<&str> =
        document.layers().iter().flat_map(|layer| &layer.inputs).map(String::as_str).collect();
    let mut model = engine.compile(&document.observed(&names)?)?;
    let mut ranges = Ranges::new();
    observe(&mut model, batches, &names, &mut |name, batch, values| {
        let mut range = ranges.get(name).copied().unwrap_or(Range::new(0.0, 0.0));
        for &value in values {
            if !value.is_finite() {
                return Err(QuantizeError::NotFinite { tensor: name.to_owned(), value, batch });
            }
            range = range.with(Range::new(value, value));
        }
        ranges.insert(name.to_owned(), range);
        Ok(())
    })?;
    if calibration == Calibration::MinMax {
        return Ok(ranges);
    }
    let mut histograms: BTreeMap<&str, Histogram> = ranges
        .iter()
        .map(|(name, range)| (name.as_str(), Histogram::new(counted(*range, calibration))))
        .collect();
    observe(&mut model, batches, &names, &mut |name, _, values| {
        if let Some(histogram) = histograms.get_mut(name) {
            match calibration {
                Calibration::Entropy => {
                    histogram.add(values.iter().map(|value| value.abs()).filter(|size| *size > 0.0));
                }
                _ => histogram.add(values.iter().copied()),
            }
        }
        Ok(())
    })?;
    let of = |(name, histogram): (&str, Histogram)| {
        let range = ranges[name];
        (name.to_owned(), chosen(&histogram, range, calibration))
    };
    Ok(histograms.into_iter().map(of).collect())
}

/// Returns the range of a histogram for values of a range: of the values, or of their magnitudes.
fn counted(range: Range, calibration: Calibration) -> Range {
    match calibration {
        Calibration::Entropy => Range::new(0.0, range.high().max(-range.low())),
        _ => range,
    }
}

/// Returns the range that a calibration takes from the whole range and the histogram.
fn chosen(histogram: &Histogram, range: Range, calibration: Calibration) -> Range {
    match calibration {
        Calibration::MinMax => range,
        Calibration::Percentile(share) => histogram.without((100.0 - share) / 100.0),
        Calibration::Entropy => {
            let levels = if range.low() < 0.0 { 128 } else { 256 };
            let bins = threshold(histogram.counts(), levels);
            #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
            let limit = (f64::from(histogram.range().high()) * bins as f64 / BINS as f64) as f32;
            Range::new(range.low().max(-limit), range.high().min(limit))
        }
    }
}

/// What is done with values: their name, the number of the batch, and the values.
type See<'a> = &'a mut dyn FnMut(&str, usize, &[f32]) -> Result<(), QuantizeError>;

/// Runs a model on each batch, and calls a function with the values of some names, inputs of the model included.
fn observe(
    model: &mut Runnable,
    batches: &[Batch],
    names: &BTreeSet<&str>,
    each: See<'_>,
) -> Result<(), QuantizeError> {
    for (number, batch) in batches.iter().enumerate() {
        let mut see = |name: &str, tensor: &Tensor| match names.contains(name) {
            true => each(name, number, tensor.elements::<f32>()),
            false => Ok(()),
        };
        let outputs = model.run(batch)?;
        for ((name, ..), tensor) in model.plan().outputs.iter().zip(&outputs) {
            see(name, tensor)?;
        }
        for (name, _) in &model.plan().inputs {
            if let Some(tensor) = batch.input(name) {
                see(name, tensor)?;
            }
        }
    }
    Ok(())
}
