//! Time against memory: `explain --memory-curve`.

use crate::error::Error;
use crate::stage::search::{Chooser, Trial, memory};
use crate::stage::{Choice, Priced};
use crate::tensor::Device;

/// A plan on the curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The estimate of one run, in seconds.
    pub seconds: f64,
    /// The size of the arena, in bytes.
    pub arena: usize,
    /// Bytes of the constants that are kept beside it.
    pub constants: usize,
    /// Whether no plan of the e-graph within these bytes is faster by the cost model.
    pub proven: bool,
}

impl Point {
    /// Bytes of the arena and of the constants.
    pub fn bytes(&self) -> usize {
        self.arena + self.constants
    }
}

/// The plans from the fastest to the smallest.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The points, fastest first. Each one is faster than all smaller ones.
    pub points: Vec<Point>,
    /// Whether the search was complete. If its work was limited, there may be more plans.
    pub complete: bool,
}

impl Priced<'_> {
    /// The plans from the fastest to the smallest by the memory that they take of a device, arena and constants, each
    /// faster than all that are smaller; the fastest is within the limits of the choice. `progress` is told how many of
    /// how many million steps are done.
    ///
    /// # Errors
    /// As for [`Priced::choose`].
    pub fn curve(
        &self,
        choice: &Choice,
        device: Device,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Curve, Error> {
        // The curve is of time against memory, whatever memory is worth.
        let chooser = Chooser { worth: 0.0, ..self.chooser(choice) };
        let trials = memory::curve(&chooser, device, &choice.planning.limits, progress)?;
        let point = |Trial { extraction, plan, .. }: &Trial| Point {
            seconds: extraction.cost,
            arena: plan.arena_of(device),
            constants: plan.constants_of(device),
            proven: extraction.proven,
        };
        Ok(Curve { points: trials.iter().map(point).collect(), complete: !chooser.effort.is_spent() })
    }
}
