//! The pixels along an axis that count for a point of a grid, as the definition of `grid-sample` has them.

use ovolo::attr::Attrs;

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
pub(super) struct GridAxis {
    mode: Mode,
    padding: Padding,
    corners: bool,
    pixels: usize,
    size: f64,
}

/// The pixels along an axis that count for a point, with their weights. `None` is a pixel that counts as zero.
pub(super) struct Taps {
    taps: [(Option<usize>, f64); 4],
    count: usize,
}

impl std::ops::Deref for Taps {
    type Target = [(Option<usize>, f64)];

    fn deref(&self) -> &Self::Target {
        &self.taps[..self.count]
    }
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
impl GridAxis {
    /// Makes an axis of this many pixels, by the attributes of `grid-sample`.
    pub(super) fn new(attrs: &Attrs, pixels: usize) -> Self {
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
    pub(super) fn count(&self) -> usize {
        match self.mode {
            Mode::Nearest => 1,
            Mode::Linear => 2,
            Mode::Cubic => 4,
        }
    }

    /// Returns the taps of the point at a coordinate of the grid, which is from -1 to 1 inside of the image.
    pub(super) fn taps(&self, given: f64) -> Taps {
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
        let mut taps = [(None, 0.0); 4];
        match self.mode {
            Mode::Nearest => taps[0] = (self.pixel(place.round_ties_even()), 1.0),
            Mode::Linear => {
                for (tap, at) in taps.iter_mut().zip([base, base + 1.0]) {
                    *tap = (self.pixel(at), 1.0 - (place - at).abs());
                }
            }
            Mode::Cubic => {
                for (tap, at) in taps.iter_mut().zip([base - 1.0, base, base + 1.0, base + 2.0]) {
                    *tap = (self.pixel(at), cubic(place - at));
                }
            }
        }
        Taps { taps, count: self.count() }
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
