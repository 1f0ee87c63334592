//! The sizes of a convolution over images of bytes.

use ovolo::attr::Attrs;
use ovolo::tensor::Shape;

/// Where the windows of a convolution lie.
#[derive(Clone, Copy)]
pub(super) struct Geometry {
    pub images: usize,
    pub channels: usize,
    pub outputs: usize,
    /// Rows and columns of an image.
    pub image: [usize; 2],
    pub window: [usize; 2],
    /// Rows and columns of the result.
    pub pixels: [usize; 2],
    pub strides: [usize; 2],
    pub dilations: [usize; 2],
    /// Padding at the top and at the left.
    pub begin: [usize; 2],
    /// The zeros that follow the elements of a window where it is multiplied; a multiple of four.
    pub filling: usize,
}

impl Geometry {
    /// Returns the sizes of the convolution of images with weights of these shapes, whose result has this shape;
    /// `None` if an attribute is negative, if the images have no channels, or if the result is empty.
    pub(super) fn new(attrs: &Attrs, images: &Shape, weights: &Shape, result: &Shape) -> Option<Self> {
        let two = |name: &str| -> Option<[usize; 2]> {
            let list = attrs.expect_ints(name);
            Some([usize::try_from(list[0]).ok()?, usize::try_from(list[1]).ok()?])
        };
        if images.rank() != 4 || weights.rank() != 4 || images[1] == 0 || result.count() == 0 {
            return None;
        }
        Some(Self {
            images: images[0],
            channels: images[1],
            outputs: weights[0],
            image: [images[2], images[3]],
            window: [weights[2], weights[3]],
            pixels: [result[2], result[3]],
            strides: two("strides")?,
            dilations: two("dilations")?,
            begin: two("pads")?,
            filling: 0,
        })
    }

    /// Returns the number of pixels of an image's result.
    pub(super) fn area(&self) -> usize {
        self.pixels[0] * self.pixels[1]
    }

    /// Returns whether images of another convolution have all pixels of the windows, from their first pixel on.
    pub(super) fn fits_in(&self, other: &Self) -> bool {
        other.begin == [0, 0] && (0..2).all(|axis| self.image[axis] <= other.image[axis])
    }

    /// Returns whether each window is one pixel.
    pub(super) fn is_pointwise(&self) -> bool {
        self.window == [1, 1]
    }

    /// Returns whether the windows are the pixels of an image, in their order.
    pub(super) fn is_whole(&self) -> bool {
        self.is_pointwise() && self.strides == [1, 1] && self.begin == [0, 0] && self.pixels == self.image
    }
}
