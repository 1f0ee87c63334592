//! The tiles along one axis, with the matrices that transform them.

/// The tiles along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Taps of the filter.
    pub taps: usize,
    /// Outputs of a tile.
    pub tile: usize,
}

impl Axis {
    /// The points of interpolation, each of which is used with its negative too. Of ten values that were tried for the
    /// last one, this has the least error of F(4,7).
    pub const POINTS: [f64; 4] = [1.0, 2.0, 0.5, 4.0 / 3.0];

    /// Returns the number of inputs of a tile, which is also that of its frequencies.
    pub fn size(self) -> usize {
        self.taps + self.tile - 1
    }

    /// Returns the transform matrices.
    pub fn matrices(self) -> Matrices {
        let size = self.size();
        let finite: Vec<f64> =
            std::iter::once(0.0).chain(Self::POINTS.iter().flat_map(|p| [*p, -*p])).take(size - 1).collect();
        // The coefficients of the product of `x - q` over all points except one, lowest power first.
        let product = |except: Option<usize>| {
            let mut polynomial = vec![1.0];
            for (_, point) in finite.iter().enumerate().filter(|(at, _)| Some(*at) != except) {
                polynomial.insert(0, 0.0);
                for power in 1..polynomial.len() {
                    polynomial[power - 1] -= point * polynomial[power];
                }
            }
            polynomial.resize(size, 0.0);
            polynomial
        };
        let powers = |point: f64, count: usize| (0..count).map(move |power| point.powi(power as i32));
        let mut form =
            Matrices { input: Vec::new(), filter: Vec::new(), output: vec![0.0; self.tile * size] };
        for (at, point) in finite.iter().enumerate() {
            form.input.extend(product(Some(at)));
            let others = finite.iter().enumerate().filter(|(other, _)| *other != at);
            let scale: f64 = others.map(|(_, other)| point - other).product();
            form.filter.extend(powers(*point, self.taps).map(|power| power / scale));
            for (row, power) in powers(*point, self.tile).enumerate() {
                form.output[row * size + at] = power;
            }
        }
        form.input.extend(product(None));
        form.filter.extend((0..self.taps).map(|tap| if tap + 1 == self.taps { 1.0 } else { 0.0 }));
        form.output[self.tile * size - 1] = 1.0;
        form
    }
}

/// The matrices of an axis, row by row.
pub struct Matrices {
    /// `B'`, which transforms inputs.
    pub input: Vec<f64>,
    /// `G`, which transforms filters.
    pub filter: Vec<f64>,
    /// `A'`, which transforms products.
    pub output: Vec<f64>,
}
