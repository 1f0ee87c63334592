//! Tensors of strings.

use super::{DType, Layout, Shape, Tensor, TensorType, Text};
use std::sync::Arc;

impl Tensor {
    /// Makes a tensor of strings in the default layout, from texts in row-major order.
    ///
    /// # Panics
    /// If there are not as many texts as the shape has elements.
    pub fn from_texts<T: AsRef<str>>(shape: impl Into<Shape>, texts: &[T]) -> Self {
        let handles: Vec<Text> = texts.iter().map(|text| Text::new(text.as_ref())).collect();
        let mut tensor = Self::zeros(TensorType::plain(DType::Text, shape));
        tensor.elements_mut::<Text>().copy_from_slice(&handles);
        tensor
    }

    /// Returns the elements of a tensor of strings, in row-major order; `None` for other types.
    pub fn to_texts(&self) -> Option<Vec<Arc<str>>> {
        (self.ty().dtype == DType::Text).then(|| {
            self.to_layout(&Layout::PLAIN).elements::<Text>().iter().map(|text| text.get()).collect()
        })
    }
}
