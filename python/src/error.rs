//! Exceptions.

use pyo3::exceptions::{PyArithmeticError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::{PyErr, Python};
use std::fmt::Display;

pyo3::create_exception!(ovolo, Error, PyRuntimeError, "A model, a setting or a run that ovolo refuses.");
pyo3::create_exception!(ovolo, InvalidArgument, Error, "Inputs or outputs that do not fit the model.");

/// What messages say for the command line, and what they say in Python. They are replaced in this order, so `--costs` stands
/// before `--cost`.
const SETTINGS: [(&str, &str); 24] = [
    (
        "`--dim NAME=N` on the command line, `dims` in a file and in Python, `with_dim` in Rust",
        "`dims={'NAME': N}`",
    ),
    ("name it with `--process COMMAND`", "give an object with a method `seconds` as `cost`"),
    ("name it with `--extractor-process COMMAND`", "give an object with a method `extract` as `extractor`"),
    ("name its file with `--costs FILE.ron`", "name its file in the list `costs`"),
    ("`--rules DIR` or `--add FILE.ron:PHASE`", "`rules=[DIR]` or `add=['FILE.ron:PHASE']`"),
    ("name it with `--choices FILE.json`", "give an object with a method `extract` as `extractor`"),
    ("--seeded-weights", "seeded_weights=True"),
    ("--dim NAME=N", "dims={'NAME': N}"),
    ("--dim", "dims"),
    ("--threads", "threads"),
    ("--memory-limit", "memory_limit"),
    ("--pipeline", "pipeline"),
    ("--weights", "weights"),
    ("--rules", "rules"),
    ("--add", "add"),
    ("--costs", "costs"),
    ("--cost", "cost"),
    ("--extractor", "extractor"),
    ("--freeze", "freeze"),
    ("--lazy", "lazy"),
    ("give --optimizer ", "give optimizer="),
    ("--optimizer", "optimizer"),
    ("give --of ", "give of="),
    ("--of", "of"),
];

/// Returns a message with the settings of Python instead of options. Commands, such as `ovolo doctor --threads 2`, stay as
/// they are.
pub fn in_python(message: &str) -> String {
    let mut parts = message.split("`ovolo ");
    let said = |part: &str| {
        SETTINGS.iter().fold(part.to_owned(), |text, (option, setting)| text.replace(option, setting))
    };
    let mut text = parts.next().map_or_else(String::new, said);
    for part in parts {
        let (command, rest) = part.split_at(part.find('`').unwrap_or(0));
        text += "`ovolo ";
        text += command;
        text += &said(rest);
    }
    text
}

/// Returns the exception for an error of the library.
pub fn error(why: impl Display) -> PyErr {
    Error::new_err(in_python(&why.to_string()))
}

/// Returns the exception for a wrong argument.
pub fn invalid(why: impl Display) -> PyErr {
    InvalidArgument::new_err(in_python(&why.to_string()))
}

/// Adds the name of the input to the exception of a value that cannot be read. A value of another kind stays a
/// `TypeError`.
pub fn of_input(py: Python<'_>, name: impl Display, why: PyErr) -> PyErr {
    let said = format!("input `{name}`: {}", why.value(py));
    let named = if why.is_instance_of::<PyTypeError>(py) {
        PyTypeError::new_err(said)
    } else if why.is_instance_of::<PyValueError>(py) || why.is_instance_of::<PyArithmeticError>(py) {
        invalid(said)
    } else {
        return why;
    };
    named.set_cause(py, Some(why));
    named
}
