//! `grid-sample`: the pixels of an image that count for a point between them.

use super::floats;
use crate::attr::Attrs;
use crate::op::{OpError, count};
use crate::tensor::{Tensor, TensorType, advance};
use smallvec::SmallVec;

pub(super) fn infer(attrs: &Attrs, types: &[&TensorType]) -> Result<TensorType, OpError> {
    floats(types)?;
    let (x, grid) = (&types[0].shape, &types[1].shape);
    let fits =
        x.rank() > 2 && grid.rank() == x.rank() && grid[0] == x[0] && grid[grid.rank() - 1] == x.rank() - 2;
    if !fits {
        return Err(OpError::operands(format!("the grid {} does not fit {}", types[1], types[0])));
    }
    if !["linear", "nearest", "cubic"].contains(&attrs.expect_str("mode")) {
        return Err(OpError::attribute("mode", "is not linear, nearest or cubic"));
    }
    if !["zeros", "border", "reflection"].contains(&attrs.expect_str("padding")) {
        return Err(OpError::attribute("padding", "is not zeros, border or reflection"));
    }
    let dims = [&x[..2], &grid[1..grid.rank() - 1]].concat();
    Ok(TensorType::plain(types[0].dtype, dims))
}

/// How the values between pixels follow from the pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Linear,
    Nearest,
    Cubic,
}

/// What is outside of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

/// An axis of an image that `grid-sample` reads.
#[derive(Clone, Copy, Debug)]
pub struct GridAxis {
    mode: Mode,
    padding: Padding,
    corners: bool,
    pixels: usize,
    size: f64,
}

/// The pixels along an axis that count for a point, with their weights. `None` is a pixel that counts as zero.
pub type Taps = SmallVec<[(Option<usize>, f64); 4]>;

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
impl GridAxis {
    /// Makes an axis of this many pixels, by the attributes of `grid-sample`.
    pub fn new(attrs: &Attrs, pixels: usize) -> Self {
        Self {
            mode: match attrs.expect_str("mode") {
                "nearest" => Mode::Nearest,
                "cubic" => Mode::Cubic,
                _ => Mode::Linear,
            },
            padding: match attrs.expect_str("padding") {
                "border" => Padding::Border,
                "reflection" => Padding::Reflection,
                _ => Padding::Zeros,
            },
            corners: attrs.expect_int("align-corners") != 0,
            pixels,
            size: pixels as f64,
        }
    }

    /// Returns the number of taps of every point.
    pub fn count(&self) -> usize {
        match self.mode {
            Mode::Nearest => 1,
            Mode::Linear => 2,
            Mode::Cubic => 4,
        }
    }

    /// Returns the taps of the point at a coordinate of the grid, which is from -1 to 1 inside of the image.
    pub fn taps(&self, given: f64) -> Taps {
        let mut place = match self.corners {
            true => (given + 1.0) / 2.0 * (self.size - 1.0),
            false => ((given + 1.0) * self.size - 1.0) / 2.0,
        };
        if self.mode != Mode::Cubic {
            place = match self.padding {
                Padding::Zeros => place,
                Padding::Border => self.clamped(place),
                Padding::Reflection => self.clamped(self.reflected(place)),
            };
        }
        let base = place.floor();
        match self.mode {
            Mode::Nearest => [(self.pixel(place.round_ties_even()), 1.0)].into_iter().collect(),
            Mode::Linear => {
                [base, base + 1.0].map(|at| (self.pixel(at), 1.0 - (place - at).abs())).into_iter().collect()
            }
            Mode::Cubic => [base - 1.0, base, base + 1.0, base + 2.0]
                .map(|at| (self.pixel(at), cubic(place - at)))
                .into_iter()
                .collect(),
        }
    }

    /// Returns the pixel with an index, after padding; `None` for one that counts as zero.
    fn pixel(&self, index: f64) -> Option<usize> {
        match self.padding {
            _ if self.pixels == 0 => None,
            Padding::Zeros => (index >= 0.0 && index < self.size).then_some(index as usize),
            Padding::Border => Some(self.clamped(index) as usize),
            Padding::Reflection => Some(self.clamped(self.reflected(index).round_ties_even()) as usize),
        }
    }

    fn clamped(&self, index: f64) -> f64 {
        index.clamp(0.0, (self.size - 1.0).max(0.0))
    }

    /// Reflects a coordinate at both ends of the axis.
    fn reflected(&self, x: f64) -> f64 {
        let (low, high) = if self.corners { (0.0, self.size - 1.0) } else { (-0.5, self.size - 0.5) };
        let range = high - low;
        if range <= 0.0 {
            return low;
        }
        let distance = (x - low).rem_euclid(2.0 * range);
        low + distance.min(2.0 * range - distance)
    }
}

/// Each tap of a point is found by its place, and has a weight and a product.
#[allow(clippy::cast_precision_loss)]
pub(super) fn flops(attrs: &Attrs, types: &[&TensorType], ty: &TensorType) -> f64 {
    let space = types[0].shape.iter().skip(2);
    let taps: usize = space.map(|size| GridAxis::new(attrs, *size).count()).product();
    count(ty) * taps as f64 * 4.0
}

/// Returns the weight of a pixel at a distance from a point, by cubic interpolation with the coefficient -0.75.
fn cubic(distance: f64) -> f64 {
    const A: f64 = -0.75;
    let d = distance.abs();
    if d <= 1.0 {
        ((A + 2.0) * d - (A + 3.0)) * d * d + 1.0
    } else if d < 2.0 {
        ((A * d - 5.0 * A) * d + 8.0 * A) * d - 4.0 * A
    } else {
        0.0
    }
}

pub(super) fn eval(attrs: &Attrs, operands: &[&Tensor], ty: &TensorType) -> Tensor {
    let shape = &operands[0].ty().shape;
    let space = &shape[2..];
    let axes: Vec<GridAxis> = space.iter().map(|size| GridAxis::new(attrs, *size)).collect();
    let (x, grid) = (operands[0].to_f64(), operands[1].to_f64());
    let plane: usize = space.iter().product();
    let points: usize = ty.shape[2..].iter().product();
    let mut result = vec![0.0; ty.shape.count()];
    for batch in 0..shape[0] {
        for point in 0..points {
            let at = (batch * points + point) * space.len();
            // The coordinate of the last axis comes first.
            let given = grid[at..at + space.len()].iter().rev();
            let taps: Vec<Taps> = axes.iter().zip(given).map(|(axis, given)| axis.taps(*given)).collect();
            for channel in 0..shape[1] {
                let image = &x[(batch * shape[1] + channel) * plane..][..plane];
                result[(batch * shape[1] + channel) * points + point] = weighted(image, space, &taps);
            }
        }
    }
    Tensor::from_f64(ty.dtype, ty.shape.clone(), &result)
}

/// Returns the sum of the pixels at all combinations of taps, times their weights.
fn weighted(image: &[f64], space: &[usize], taps: &[Taps]) -> f64 {
    let counts: Vec<usize> = taps.iter().map(|taps| taps.len()).collect();
    let mut index = vec![0; taps.len()];
    let mut sum = 0.0;
    for _ in 0..counts.iter().product() {
        let (mut at, mut weight) = (Some(0), 1.0);
        for (axis, &tap) in index.iter().enumerate() {
            let (pixel, share) = taps[axis][tap];
            at = at.and_then(|at| Some(at * space[axis] + pixel?));
            weight *= share;
        }
        if let Some(at) = at.filter(|_| weight != 0.0) {
            sum += weight * image[at];
        }
        advance(&mut index, &counts);
    }
    sum
}
