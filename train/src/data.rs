//! Data for training: arrays with one row for each example.

use super::archive;
use super::error::TrainError;
use ovolo::tensor::{Shape, Tensor, TensorType};
use std::collections::BTreeMap;
use std::path::Path;

/// The distance between the states of a random sequence, and between the seeds of epochs.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Arrays with as many rows, one for each input and one with labels.
pub struct Data {
    file: String,
    arrays: BTreeMap<String, Tensor>,
    rows: usize,
}

impl Data {
    /// Reads a `.npz` or `.safetensors` file, which has an array for each input of the model, and one with labels.
    ///
    /// # Errors
    /// The file is no such archive; an array has no rows, or another number of rows than the others.
    pub fn read(path: &Path) -> Result<Self, TrainError> {
        let file = path.display().to_string();
        let wrong = |why: String| TrainError::Data { file: file.clone(), why };
        let arrays = archive::read(path)?;
        let mut rows = None;
        for (name, array) in &arrays {
            let own = array.ty().shape.first().copied().unwrap_or(0);
            let all = *rows.get_or_insert(own);
            if own == 0 || own != all {
                return Err(wrong(format!(
                    "array `{name}` has {own} rows, and another one {all}: each needs one row for each example"
                )));
            }
        }
        let rows = rows.ok_or_else(|| wrong("it has no array".to_owned()))?;
        Ok(Self { file, arrays, rows })
    }

    /// Returns the name of the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns some rows of an array in a type, whose first size is their number. Numbers are converted to the type's elements.
    ///
    /// # Errors
    /// There is no such array, or its rows have another shape.
    pub fn batch(&self, name: &str, ty: &TensorType, rows: &[usize]) -> Result<Tensor, TrainError> {
        let wrong = |why: String| TrainError::Data { file: self.file.clone(), why };
        let array = self.array(name)?;
        let row = array.ty().shape.get(1..).unwrap_or_default();
        if ty.shape.first() != Some(&rows.len()) || ty.shape.get(1..) != Some(row) {
            return Err(wrong(format!(
                "array `{name}` has rows of shape {}, and {} of them are wanted as {ty}",
                Shape::from(row.to_vec()),
                rows.len()
            )));
        }
        let size = array.ty().dtype.size() * row.iter().product::<usize>();
        let mut taken = Tensor::zeros(TensorType::plain(array.ty().dtype, ty.shape.clone()));
        for (target, row) in taken.bytes_mut().chunks_exact_mut(size.max(1)).zip(rows) {
            target.copy_from_slice(&array.bytes()[row * size..(row + 1) * size]);
        }
        match taken.to_i128() {
            _ if taken.ty().dtype == ty.dtype => Ok(taken),
            Some(whole) if ty.dtype.is_integer() => Ok(Tensor::from_i128(ty.dtype, ty.shape.clone(), &whole)),
            _ if ty.dtype.is_float() => Ok(Tensor::from_f64(ty.dtype, ty.shape.clone(), &taken.to_f64())),
            _ => Err(wrong(format!("array `{name}` has elements {}, not {}", taken.ty().dtype, ty.dtype))),
        }
    }

    /// Returns the first rows of an array, as they are.
    ///
    /// # Errors
    /// There is no such array.
    pub fn first(&self, name: &str, rows: usize) -> Result<Tensor, TrainError> {
        let array = self.array(name)?;
        let mut shape = array.ty().shape.to_vec();
        shape[0] = rows;
        let rows: Vec<usize> = (0..rows).map(|row| row % self.rows).collect();
        self.batch(name, &TensorType::plain(array.ty().dtype, shape), &rows)
    }

    fn array(&self, name: &str) -> Result<&Tensor, TrainError> {
        self.arrays.get(name).ok_or_else(|| TrainError::Data {
            file: self.file.clone(),
            why: format!(
                "it has no array `{name}`; it has {}",
                self.arrays.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
            ),
        })
    }

    /// Returns the order in which an epoch goes through so many rows, which is the same for each seed.
    pub fn order(rows: usize, seed: u64, epoch: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..rows).collect();
        let mut state = seed ^ epoch.wrapping_mul(SPREAD);
        for at in (1..rows).rev() {
            // SplitMix64 (Steele, Lea and Flood, 2014).
            state = state.wrapping_add(SPREAD);
            let mut word = state;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^= word >> 31;
            let other = usize::try_from(word % (at as u64 + 1)).unwrap_or(0);
            order.swap(at, other);
        }
        order
    }
}
