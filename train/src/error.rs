//! Why a model cannot be trained.

use ovolo::error::{Diagnostics, RegistryError};
use ovolo::npy::NpyError;
use ovolo::onnx::OnnxError;
use ovolo::session::SessionError;
use ovolo::tensor::TensorType;

/// Why a model cannot be trained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The registry has a name that the table of derivatives uses.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The table of derivatives, of losses or of optimisers has mistakes.
    #[error("{0}")]
    Table(Diagnostics),
    /// A rule of the table of derivatives has another form.
    #[error(
        "{file}:{line}: rule `{rule}` is no derivative: write `from: \"(gradient ?x (op ?x …) ?d)\"`, with variables for \
         all operands of the op"
    )]
    Form {
        /// The rule.
        rule: String,
        /// Its file.
        file: String,
        /// Its line.
        line: usize,
    },
    /// No rule of the table says what a gradient is.
    #[error(
        "`{node}`, an op `{op}` on a way from a parameter to the loss, has no derivative by operand {operand}: {why}; \
         freeze the parameters before it with --freeze, or add a rule to the table of derivatives"
    )]
    NoDerivative {
        /// The value.
        node: String,
        /// Its op.
        op: &'static str,
        /// The position of the operand, from 0.
        operand: usize,
        /// Why no rule applies.
        why: String,
    },
    /// A rule gives a gradient of another type than the operand has.
    #[error("rule `{rule}` gives `{node}`, of type {wanted}, a gradient of type {found}: correct the rule")]
    Type {
        /// The rule.
        rule: String,
        /// The operand.
        node: String,
        /// Its type.
        wanted: Box<TensorType>,
        /// The type of the gradient.
        found: Box<TensorType>,
    },
    /// An op cannot be applied.
    #[error("{what}: `{op}` cannot be applied: {why}")]
    Op {
        /// What is built.
        what: String,
        /// The op.
        op: &'static str,
        /// The reason.
        why: String,
    },
    /// The loss is not one number.
    #[error("the loss `{name}` is of type {ty}; it must be one number: `f32[]`")]
    Loss {
        /// The value.
        name: String,
        /// Its type.
        ty: Box<TensorType>,
    },
    /// There is no loss or optimiser of this name.
    #[error("there is no {kind} `{name}`; {help}")]
    Unknown {
        /// What is sought.
        kind: &'static str,
        /// The name.
        name: String,
        /// What there is.
        help: String,
    },
    /// A loss does not fit the model.
    #[error("the loss `{loss}` does not fit the output `{output}`: {why}")]
    Unfit {
        /// The loss.
        loss: String,
        /// The output.
        output: String,
        /// The reason.
        why: String,
    },
    /// A pattern of `--freeze` names no parameter.
    #[error("--freeze {pattern}: no parameter has such a name; {help}")]
    Freeze {
        /// The pattern.
        pattern: String,
        /// What there is.
        help: String,
    },
    /// The updates of a parameter cannot be lazy.
    #[error("--lazy {pattern}: {why}")]
    Lazy {
        /// The pattern, or the name of the parameter.
        pattern: String,
        /// The reason, and what to do.
        why: String,
    },
    /// The model has nothing to train.
    #[error("{model}: it has no parameter to train: {why}")]
    NoParameter {
        /// The model.
        model: String,
        /// The reason.
        why: String,
    },
    /// The model cannot be used for training.
    #[error("{model}: {why}")]
    Model {
        /// The model.
        model: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The model cannot be imported.
    #[error(transparent)]
    Onnx(#[from] OnnxError),
    /// The step cannot be compiled.
    #[error(transparent)]
    Compile(#[from] ovolo::Error),
    /// The step cannot be run.
    #[error(transparent)]
    Run(#[from] SessionError),
    /// An array of NumPy cannot be read or written.
    #[error(transparent)]
    Npy(#[from] NpyError),
    /// Data do not fit.
    #[error("{file}: {why}")]
    Data {
        /// The file.
        file: String,
        /// The reason.
        why: String,
    },
}
