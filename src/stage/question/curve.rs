//! Time against memory: `explain --memory-curve`.

use crate::error::Error;
use crate::stage::search::{Trial, memory};
use crate::stage::{Choice, Priced};
use crate::tensor::Device;

/// A plan on the curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The estimate of one run, in seconds.
    pub seconds: f64,
    /// The size of the arena, in bytes.
    pub arena: usize,
    /// Whether it is proven that no plan of the e-graph with an arena of at most this size is faster by the cost
    /// model.
    pub proven: bool,
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
    /// Returns the plans from the fastest one to the one with the smallest arena on a device. Each is faster than all
    /// smaller ones, and the fastest is within the limits of the choice. `progress` gets the number of steps that are
    /// done, and the number of all steps, both in millions.
    ///
    /// # Errors
    /// As for [`Priced::choose`].
    pub fn curve(
        &self,
        choice: &Choice,
        device: Device,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Curve, Error> {
        let chooser = self.chooser(choice);
        let trials = memory::curve(&chooser, device, &choice.planning.limits, progress)?;
        let point = |Trial { extraction, plan, .. }: &Trial| Point {
            seconds: extraction.cost,
            arena: plan.arena_of(device),
            proven: extraction.proven,
        };
        Ok(Curve { points: trials.iter().map(point).collect(), complete: !chooser.effort.is_spent() })
    }
}
