//! The search for the cheapest version of a model within a bound on its loss.

use super::choice::{Gain, path};
use super::data::Batch;
use super::document::Document;
use super::engine::{Engine, Runnable};
use super::error::QuantizeError;
use super::loss::{Loss, Metric, Reference};
use super::range::Ranges;
use ovolo::tensor::Tensor;

/// What a version of the model should have little of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Objective {
    /// Time: the prices of the steps of its plan, in seconds.
    #[default]
    Time,
    /// The size of its file, in bytes.
    Size,
}

/// A version of the model, with what was measured of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Which layers are quantised.
    pub chosen: Vec<bool>,
    /// The price of the plan in seconds.
    pub seconds: f64,
    /// The size of the file in bytes.
    pub bytes: usize,
    /// The loss on the calibration data, by the metric.
    pub loss: f64,
    /// The square of the relative error of the outputs.
    pub error: f64,
    /// The accuracy on the calibration data, if there are labels.
    pub accuracy: Option<f64>,
}

/// A model in float32 with the loss and the price of each layer in integers.
pub struct Search<'a> {
    document: &'a Document,
    engine: &'a Engine<'a>,
    batches: &'a [Batch],
    ranges: &'a Ranges,
    objective: Objective,
    reference: Reference,
    /// The model in float32.
    pub float: Point,
    /// The model with one layer quantised, for each layer.
    pub alone: Vec<Point>,
    /// What the choice is made by, for each layer.
    pub gains: Vec<Gain>,
}

impl<'a> Search<'a> {
    /// Measures the model in float32, and with each layer alone in integers.
    ///
    /// # Errors
    /// A version of the model cannot be compiled or run, or its loss cannot be measured.
    pub fn new(
        document: &'a Document,
        engine: &'a Engine<'a>,
        batches: &'a [Batch],
        ranges: &'a Ranges,
        objective: Objective,
        metric: Metric,
    ) -> Result<Self, QuantizeError> {
        let count = document.layers().len();
        let mut model = engine.compile(document.bytes())?;
        let outputs = all(&mut model, batches)?;
        let reference = Reference::new(outputs, model.plan(), metric)?;
        let float = Point {
            chosen: vec![false; count],
            seconds: model.plan().seconds(),
            bytes: document.bytes().len(),
            loss: 0.0,
            error: 0.0,
            accuracy: reference.accuracy,
        };
        let mut search = Self {
            document,
            engine,
            batches,
            ranges,
            objective,
            reference,
            float,
            alone: Vec::new(),
            gains: Vec::new(),
        };
        for at in 0..count {
            let mut chosen = vec![false; count];
            chosen[at] = true;
            let (point, model) = search.point(chosen)?;
            let levels = |input: &String| match objective {
                Objective::Time => model.price_of_levels(&document.levels_of(input)),
                Objective::Size => 0.0,
            };
            let inputs =
                document.layers()[at].inputs.iter().map(|input| (input.clone(), levels(input))).collect();
            let cost = search.cost(&point) - search.cost(&search.float);
            search.gains.push(Gain { inputs, cost, error: point.error });
            search.alone.push(point);
        }
        Ok(search)
    }

    /// Returns versions of which each costs more than the one before it and loses less, from the cheapest to the one
    /// with the least loss.
    ///
    /// # Errors
    /// As [`Search::new`].
    pub fn curve(&self) -> Result<Vec<Point>, QuantizeError> {
        let mut points = vec![self.float.clone()];
        for chosen in path(&self.gains)? {
            points.push(self.point(chosen)?.0);
        }
        points.sort_by(|a, b| self.cost(a).total_cmp(&self.cost(b)).then(a.loss.total_cmp(&b.loss)));
        let mut least = f64::INFINITY;
        points.retain(|point| {
            let better = point.loss < least;
            least = least.min(point.loss);
            better
        });
        Ok(points)
    }

    /// Returns the cheapest version that was found whose measured loss is at most a bound. The choices of the path are
    /// measured from the cheapest on until one is within the bound. Then layers of all kinds are tried together, as many
    /// of those with the least error as are within the bound: a layer alone may save nothing, because its levels are
    /// made and become floats again, where a chain of layers saves much. Further layers are then tried one by one, those
    /// that save most first, if each alone is within the bound. At last sums and pools are tried, all of them together,
    /// and one by one if that does not pay: their operands are levels already, or become levels where they are computed.
    /// Chosen layers that save nothing alone are then tried in float32.
    ///
    /// # Errors
    /// As [`Search::new`].
    pub fn within(&self, most: f64) -> Result<Point, QuantizeError> {
        let mut best = self.float.clone();
        for chosen in path(&self.gains)? {
            let (point, _) = self.point(chosen)?;
            if point.loss <= most {
                best = self.better(best, point, most);
                break;
            }
        }
        best = self.together(best, most)?;
        let saves = |at: &usize| self.gains[*at].cost < 0.0 && self.alone[*at].loss <= most;
        let mut more: Vec<usize> = (0..best.chosen.len()).filter(saves).collect();
        more.sort_by(|a, b| self.gains[*a].cost.total_cmp(&self.gains[*b].cost).then(a.cmp(b)));
        for at in more {
            best = self.with(best, &[at], true, most)?;
        }
        if !best.chosen.contains(&true) {
            return Ok(best);
        }
        let layers = self.document.layers();
        let joins = |at: &usize| layers[*at].weights.is_none() && self.alone[*at].loss <= most;
        let joins: Vec<usize> = (0..layers.len()).filter(joins).collect();
        best = self.with(best, &joins, true, most)?;
        for at in joins {
            best = self.with(best, &[at], true, most)?;
        }
        for at in (0..layers.len()).filter(|at| self.gains[*at].cost >= 0.0) {
            best = self.with(best, &[at], false, most)?;
        }
        Ok(best)
    }

    /// Returns the better of a version and the one with the most layers within the bound, if layers are taken in the
    /// order of their errors. The number of layers is bisected, since the loss rises with it.
    fn together(&self, mut best: Point, most: f64) -> Result<Point, QuantizeError> {
        let mut order: Vec<usize> = (0..self.alone.len()).filter(|at| self.alone[*at].loss <= most).collect();
        order.sort_by(|a, b| self.gains[*a].error.total_cmp(&self.gains[*b].error).then(a.cmp(b)));
        // The first trial is of all layers. A single layer is tried later, if it saves anything.
        let (mut fits, mut exceeds, mut count) = (1, order.len() + 1, order.len());
        while fits < count && count < exceeds {
            let mut chosen = self.float.chosen.clone();
            order[..count].iter().for_each(|at| chosen[*at] = true);
            let (point, _) = self.point(chosen)?;
            if point.loss <= most {
                fits = count
            } else {
                exceeds = count
            }
            count = fits.midpoint(exceeds);
            best = self.better(best, point, most);
        }
        Ok(best)
    }

    /// Returns the better of a version and the same version with these layers in integers, or in float32.
    fn with(&self, best: Point, layers: &[usize], integers: bool, most: f64) -> Result<Point, QuantizeError> {
        let mut chosen = best.chosen.clone();
        layers.iter().for_each(|at| chosen[*at] = integers);
        if chosen == best.chosen || !chosen.contains(&true) {
            return Ok(best);
        }
        let (point, _) = self.point(chosen)?;
        Ok(self.better(best, point, most))
    }

    /// Returns the bytes of a version of the model.
    ///
    /// # Errors
    /// A constant cannot be read.
    pub fn written(&self, point: &Point) -> Result<Vec<u8>, QuantizeError> {
        match point.chosen.contains(&true) {
            true => self.document.quantised(&point.chosen, self.ranges),
            false => Ok(self.document.bytes().to_vec()),
        }
    }

    /// Returns the seconds of the fastest of some runs of a version on the first batch.
    ///
    /// # Errors
    /// As [`Search::new`].
    pub fn time(&self, point: &Point) -> Result<f64, QuantizeError> {
        let first = self.batches.first().ok_or(QuantizeError::NoData)?;
        self.engine.compile(&self.written(point)?)?.time(first)
    }

    /// Returns what a version costs by the objective.
    #[allow(clippy::cast_precision_loss)]
    pub fn cost(&self, point: &Point) -> f64 {
        match self.objective {
            Objective::Time => point.seconds,
            Objective::Size => point.bytes as f64,
        }
    }

    /// Returns the cheaper one of two versions, of which the second one may lose too much. Of two that cost the same, such as
    /// those whose plan computes a layer in float32 in any case, it is the one that loses less.
    fn better(&self, best: Point, other: Point, most: f64) -> Point {
        let rank = |point: &Point| (self.cost(point), point.loss);
        if other.loss <= most && rank(&other) < rank(&best) { other } else { best }
    }

    /// Compiles a version, and measures its loss.
    fn point(&self, chosen: Vec<bool>) -> Result<(Point, Runnable), QuantizeError> {
        let bytes = self.document.quantised(&chosen, self.ranges)?;
        let mut model = self.engine.compile(&bytes)?;
        let Loss { square, loss, accuracy } = self.reference.loss(&all(&mut model, self.batches)?)?;
        let seconds = model.plan().seconds();
        Ok((Point { chosen, seconds, bytes: bytes.len(), loss, error: square, accuracy }, model))
    }
}

/// Returns the outputs of a model for each batch.
fn all(model: &mut Runnable, batches: &[Batch]) -> Result<Vec<Vec<Tensor>>, QuantizeError> {
    batches.iter().map(|batch| model.run(batch)).collect()
}
