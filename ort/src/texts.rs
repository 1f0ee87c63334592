//! Tensors of strings.

use crate::status::Failure;
use crate::tensor::dims;
use crate::type_info::TensorInfo;
use ort_sys::ONNXTensorElementDataType as Element;
use ovolo::tensor::{Shape, Tensor};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A tensor of strings.
pub struct Texts {
    shape: Shape,
    dims: Vec<i64>,
    /// In row-major order. Values that share a tensor may be filled by different threads.
    texts: Mutex<Vec<Arc<str>>>,
}

impl Clone for Texts {
    fn clone(&self) -> Self {
        Self::new(self.shape.clone(), self.texts().clone())
    }
}

impl Texts {
    /// Makes a tensor of texts, of which there are as many as the shape has elements.
    pub fn new(shape: Shape, texts: Vec<Arc<str>>) -> Self {
        Self { dims: dims(&shape), shape, texts: Mutex::new(texts) }
    }

    /// Makes a tensor of empty texts.
    pub fn empty(shape: Shape) -> Self {
        let count = shape.count();
        Self::new(shape, vec![Arc::from(""); count])
    }

    /// Returns the texts.
    pub fn texts(&self) -> MutexGuard<'_, Vec<Arc<str>>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the sizes of the dimensions.
    pub fn dims(&self) -> &[i64] {
        &self.dims
    }

    /// Describes the tensor.
    pub fn info(&self) -> TensorInfo {
        TensorInfo::new(Element::ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, self.dims.clone())
    }

    /// Returns a tensor for a model to read.
    pub fn operand(&self) -> Tensor {
        Tensor::from_texts(self.shape.clone(), &self.texts())
    }

    /// Fills the tensor.
    pub fn fill(&self, texts: Vec<Arc<str>>) -> Result<(), Failure> {
        let (given, wanted) = (texts.len(), self.shape.count());
        if given != wanted {
            return Err(Failure::invalid(format!("the tensor has {wanted} strings, and {given} were given")));
        }
        *self.texts() = texts;
        Ok(())
    }

    /// Takes the strings of another tensor of this shape.
    pub fn receive(&self, other: &Self) -> Result<(), Failure> {
        if self.shape != other.shape {
            let (computed, own) = (&other.shape, &self.shape);
            return Err(Failure::invalid(format!(
                "it is string{computed}, and the value for it is string{own}"
            )));
        }
        let texts = other.texts().clone();
        self.fill(texts)
    }
}
