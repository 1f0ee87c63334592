//! The library's view of a matrix product, derived from the types of a call: sizes, strides and the epilogue.

use ovolo::op::Call;
use ovolo::op::post;
use ovolo::tensor::{DType, TensorType};

/// The function that the epilogue applies to each sum before it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Nothing,
    Relu,
    GeluTanh,
}

/// A matrix product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub dtype: DType,
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
    /// The number of matrices in the batch.
    pub batch: usize,
    /// The distance between matrices of the left and of the right operand, in elements; 0 if all products use the
    /// same matrix.
    pub strides: [usize; 2],
    /// The operand that is added to each row.
    pub bias: Option<usize>,
    /// The operand that is added elementwise.
    pub residual: Option<usize>,
    pub function: Function,
    /// Whether operands are rounded to TF32.
    pub tf32: bool,
    /// The number of the library's algorithm.
    pub algorithm: usize,
    /// The scratch bytes that the algorithm may use.
    pub workspace: usize,
}

impl Problem {
    /// Returns the product that a call computes.
    ///
    /// # Errors
    /// If the library does not support the call.
    pub(crate) fn new(call: &Call<'_>) -> Result<Self, String> {
        let (a, b, y) = (call.inputs[0], call.inputs[1], call.output);
        let rank = y.shape.rank();
        let [rows, columns, depth] = [y.shape[rank - 2], y.shape[rank - 1], a.shape[a.shape.rank() - 1]];
        if y.shape.count() == 0 || depth == 0 {
            return Err("a dimension is 0".to_owned());
        }
        let stack = |ty: &TensorType| ty.shape[..ty.shape.rank() - 2].iter().product::<usize>();
        let all = stack(y);
        let (rows, batch, strides) = match (stack(a), stack(b)) {
            // The rows of all left matrices are multiplied by the same right matrix.
            (left, 1) if left == all => (rows * all, 1, [0, 0]),
            (left, right) => {
                let stride = |count: usize, matrix: usize, ty: &TensorType| match count {
                    1 => Ok(0),
                    count if count == all => Ok(matrix),
                    _ => Err(format!(
                        "the operand {ty} broadcasts only some of its batch dimensions to {y}: either all \
                         or none must broadcast"
                    )),
                };
                (rows, all, [stride(left, rows * depth, a)?, stride(right, depth * columns, b)?])
            }
        };
        for size in [rows, columns, depth, batch] {
            i32::try_from(size).map_err(|_| format!("a size of {size} is more than the library supports"))?;
        }
        let number = |name: &str| usize::try_from(call.attrs.expect_int(name)).unwrap_or(0);
        let mut problem = Self {
            dtype: y.dtype,
            rows,
            columns,
            depth,
            batch,
            strides,
            bias: None,
            residual: None,
            function: Function::Nothing,
            tf32: number("tf32") == 1,
            algorithm: number("algorithm"),
            workspace: number("workspace") << 20,
        };
        problem.add_steps(call)?;
        Ok(problem)
    }

    /// Adds the steps of the post chain to the epilogue.
    fn add_steps(&mut self, call: &Call<'_>) -> Result<(), String> {
        let mut operand = 2;
        for step in call.attrs.post() {
            let before = self.function == Function::Nothing;
            match step.op.name() {
                "add" if before => {
                    let ty = call.inputs[operand];
                    let row = ty.shape.count() == self.columns && ty.shape.last() == Some(&self.columns);
                    if row && self.bias.is_none() {
                        self.bias = Some(operand);
                    } else if ty.shape.count() == call.output.shape.count() && self.residual.is_none() {
                        self.residual = Some(operand);
                    } else {
                        return Err(format!(
                            "cuBLASLt adds at most one row and one value of the result's shape, but not {ty}"
                        ));
                    }
                }
                "relu" if before => self.function = Function::Relu,
                "gelu-tanh" if before => self.function = Function::GeluTanh,
                other => {
                    return Err(format!(
                        "cuBLASLt does not support step `{other}` at this position: only `add`, and then \
                         `relu` or `gelu-tanh`"
                    ));
                }
            }
            operand += usize::from(post::is_binary(step));
        }
        if self.dtype == DType::F64 && (self.bias.is_some() || self.function != Function::Nothing) {
            return Err(
                "for f64 the library supports no bias and no function, only an elementwise `add`".to_owned()
            );
        }
        Ok(())
    }

    /// Returns the implementation's name.
    pub fn name(&self) -> String {
        let precision = if self.tf32 { "tf32".to_owned() } else { self.dtype.to_string() };
        format!("{precision}-algorithm-{}", self.algorithm)
    }
}
