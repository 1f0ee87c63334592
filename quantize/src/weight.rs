//! Levels of constants: weights with a scale for each output channel, and biases in the scale of the sums.

/// The highest level of a weight. The lowest one is its negative, so that the levels are symmetric.
const HIGHEST: f32 = 127.0;

/// Levels with the scale of each channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Levels<T> {
    /// The levels, in the order of the values.
    pub levels: Vec<T>,
    /// The scales, one for each channel.
    pub scales: Vec<f32>,
}

/// Returns the levels of weights, of -127 to 127. The channels are along an axis of the shape. A channel's scale is
/// its greatest magnitude divided by 127; the scale of a channel of zeros is 1.
///
/// # Panics
/// If the shape has no such axis, or another number of elements than there are values.
#[allow(clippy::cast_possible_truncation)]
pub fn levels_of_weights(values: &[f32], shape: &[usize], axis: usize) -> Levels<i8> {
    assert_eq!(values.len(), shape.iter().product::<usize>(), "the shape is that of the values");
    let inner: usize = shape[axis + 1..].iter().product();
    let channel = |at: usize| at / inner.max(1) % shape[axis].max(1);
    let mut most = vec![0.0_f32; shape[axis]];
    for (at, value) in values.iter().enumerate() {
        let most = &mut most[channel(at)];
        *most = most.max(value.abs());
    }
    let scale = |most: f32| {
        let scale = most / HIGHEST;
        if scale >= f32::MIN_POSITIVE { scale } else { 1.0 }
    };
    let scales: Vec<f32> = most.into_iter().map(scale).collect();
    let level = |(at, value): (usize, &f32)| {
        (value / scales[channel(at)]).round_ties_even().clamp(-HIGHEST, HIGHEST) as i8
    };
    Levels { levels: values.iter().enumerate().map(level).collect(), scales }
}

/// Returns the levels of a bias in the scale in which a layer sums: the scale of its input times those of its weights.
/// `None` if a level does not fit into 32 bits, or if the scales are not as many as the values.
#[allow(clippy::cast_possible_truncation)]
pub fn levels_of_bias(values: &[f32], input_scale: f32, weight_scales: &[f32]) -> Option<Levels<i32>> {
    if values.len() != weight_scales.len() {
        return None;
    }
    let scales: Vec<f32> = weight_scales.iter().map(|scale| input_scale * scale).collect();
    let level = |(value, scale): (&f32, &f32)| {
        let level = (f64::from(*value) / f64::from(*scale)).round_ties_even();
        let fits = *scale >= f32::MIN_POSITIVE && level.abs() <= f64::from(i32::MAX);
        fits.then_some(level as i32)
    };
    Some(Levels { levels: values.iter().zip(&scales).map(level).collect::<Option<_>>()?, scales })
}
