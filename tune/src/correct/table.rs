//! Tables of times as CSV: a line for each timed kernel of some models, from one machine.

use ovolo::cost::stored::checksum;
use ovolo::cost::{Example, FEATURES, FeatureValue, Machine};
use std::path::{Path, PathBuf};

/// The columns that regimes may depend on: expressions of price lists.
pub(super) const COLUMNS: &[&str] = &[
    "roofline",
    "lanes",
    "threads",
    "operands",
    "flops",
    "bytes_in",
    "bytes_const",
    "constants",
    "bytes_out",
    "scratch",
    "padding_in",
    "padding_out",
    "elements",
    "out_0",
    "out_1",
    "out_2",
    "out_3",
    "in_0",
    "in_1",
    "in_2",
    "in_3",
    "kernel_h",
    "kernel_w",
    "stride_h",
    "pads",
    "groups",
    "post",
    "plain(in0)",
    "plain(out)",
    "blocked_by(out, 8)",
    "function_operations",
    "flops / bytes",
];

/// The columns before and after those.
const FIRST: [&str; 4] = ["model", "call", "op", "implementation"];
const LAST: [&str; 2] = ["seconds", "within_plans"];

/// A timed kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedKernel {
    /// The model that contains it.
    pub model: String,
    /// A checksum of the text of its call, which is the same on all machines.
    pub call: String,
    /// The lowered op.
    pub op: String,
    /// The implementation.
    pub implementation: String,
    /// The values of the columns.
    pub(super) values: Vec<f64>,
    /// The seconds that it took.
    pub seconds: f64,
    /// Whether these are seconds within plans.
    pub within_plans: bool,
}

impl TimedKernel {
    /// Returns the seconds that the price list gives without corrections.
    pub fn estimate(&self) -> f64 {
        self.values[0]
    }

    /// Returns a timed kernel of a machine; `None` if the price list takes it for no work.
    pub fn new(example: &Example, machine: &Machine) -> Option<Self> {
        let text = |name: &str| match feature(example, name) {
            Some(FeatureValue::Text(text)) => text.clone(),
            _ => String::new(),
        };
        let values: Vec<f64> = COLUMNS.iter().map(|column| value(column, example, machine)).collect();
        let usable = example.estimate > 0.0 && example.seconds > 0.0;
        usable.then(|| Self {
            model: example.model.clone(),
            call: checksum(&example.call),
            op: text("op"),
            implementation: text("implementation"),
            values,
            seconds: example.seconds,
            within_plans: example.within_plans,
        })
    }
}

fn feature<'e>(example: &'e Example, name: &str) -> Option<&'e FeatureValue> {
    let at = FEATURES.iter().position(|feature| feature.name == name)?;
    example.features.get(at)
}

/// Returns the value that a price list has for this expression.
#[allow(clippy::cast_precision_loss)] // Lanes and bytes are far below what a float holds.
fn value(column: &str, example: &Example, machine: &Machine) -> f64 {
    let number = |name: &str| match feature(example, name) {
        Some(FeatureValue::Number(number)) => *number,
        _ => 0.0,
    };
    let layout = |name: &str| match feature(example, name) {
        Some(FeatureValue::Text(layout)) => layout.as_str(),
        _ => "",
    };
    let truth = |whether: bool| f64::from(u8::from(whether));
    match column {
        "roofline" => example.estimate,
        "lanes" => machine.lanes as f64,
        "constants" => example.constants as f64,
        "plain(in0)" => truth(layout("layout_in") == PLAIN),
        "plain(out)" => truth(layout("layout_out") == PLAIN),
        "blocked_by(out, 8)" => {
            truth(layout("layout_out").split(|c: char| !c.is_ascii_digit()).any(|size| size == "8"))
        }
        "function_operations" => number("functions"),
        "flops / bytes" => number("flops") / number("bytes").max(1.0),
        _ => number(column),
    }
}

/// The layout of tensors that are not blocked or permuted, as features write it.
const PLAIN: &str = "plain";

/// Timed kernels of one machine, with one instruction set and number of threads.
#[derive(Clone, Debug, PartialEq)]
pub struct TimesTable {
    /// The name of its file without the ending.
    pub name: String,
    /// What the machine is, and the price lists whose estimates it has: lines for readers.
    pub notes: Vec<String>,
    /// The kernels.
    pub kernels: Vec<TimedKernel>,
}

/// The reason why a file is not a table of times.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The file cannot be read.
    #[error("{}: {error}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The error.
        error: std::io::Error,
    },
    /// The file is not CSV.
    #[error("{}: {error}", file.display())]
    NotCsv {
        /// The file.
        file: PathBuf,
        /// The error.
        error: csv::Error,
    },
    /// It has other columns.
    #[error(
        "{}: the columns are not those of a table of times: it has `{found}` where `{expected}` is expected; write it \
         again with `ovolo costs table`",
        file.display()
    )]
    Columns {
        /// The file.
        file: PathBuf,
        /// A column that it has.
        found: String,
        /// The column that belongs there.
        expected: String,
    },
    /// A field is not a number, or not a possible one.
    #[error("{}:{line}: `{field}` is not a possible value of `{column}`", file.display())]
    Field {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The field.
        field: String,
        /// Its column.
        column: String,
    },
}

impl TimesTable {
    /// Returns the names of the columns.
    fn columns() -> impl Iterator<Item = &'static str> {
        FIRST.into_iter().chain(COLUMNS.iter().copied()).chain(LAST)
    }

    /// Returns the text of a file. Numbers have at most five figures, which is more than a clock gives.
    pub fn write(&self) -> String {
        let mut lines = csv::Writer::from_writer(Vec::new());
        let text = |number: &f64| short(*number);
        let mut line = |fields: Vec<String>| {
            lines.write_record(&fields).expect("memory takes all lines, and all have the same length");
        };
        line(Self::columns().map(str::to_owned).collect());
        for one in &self.kernels {
            let first = [&one.model, &one.call, &one.op, &one.implementation].map(Clone::clone);
            let last = [text(&one.seconds), u8::from(one.within_plans).to_string()];
            line(first.into_iter().chain(one.values.iter().map(text)).chain(last).collect());
        }
        let bytes = lines.into_inner().expect("memory takes all lines");
        let notes: String = self.notes.iter().map(|note| format!("# {note}\n")).collect();
        notes + &String::from_utf8(bytes).expect("all fields are text")
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a table of times.
    pub fn read(file: &Path) -> Result<Self, TableError> {
        let named = || file.to_owned();
        let text =
            std::fs::read_to_string(file).map_err(|error| TableError::Unreadable { file: named(), error })?;
        let not_csv = |error| TableError::NotCsv { file: named(), error };
        let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
        let head = reader.headers().map_err(not_csv)?.clone();
        let columns: Vec<&str> = Self::columns().collect();
        for at in 0..columns.len().max(head.len()) {
            let (found, expected) = (head.get(at).unwrap_or(""), columns.get(at).copied().unwrap_or(""));
            if found != expected {
                let (found, expected) = (found.to_owned(), expected.to_owned());
                return Err(TableError::Columns { file: named(), found, expected });
            }
        }
        let mut kernels = Vec::new();
        for record in reader.records() {
            kernels.push(kernel(&record.map_err(not_csv)?, &columns, file)?);
        }
        let notes = text.lines().filter_map(|line| line.strip_prefix("# ")).map(str::to_owned).collect();
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, notes, kernels })
    }
}

/// Reads a line.
fn kernel(record: &csv::StringRecord, columns: &[&str], file: &Path) -> Result<TimedKernel, TableError> {
    let field = |at: usize| record.get(at).unwrap_or("");
    let number = |at: usize, least: f64| {
        let number = field(at).parse().ok().filter(|number: &f64| number.is_finite() && *number >= least);
        number.ok_or_else(|| TableError::Field {
            file: file.to_owned(),
            line: record.position().map_or(0, csv::Position::line),
            field: field(at).to_owned(),
            column: columns[at].to_owned(),
        })
    };
    let last = FIRST.len() + COLUMNS.len();
    let positive = f64::MIN_POSITIVE;
    let mut values = vec![number(FIRST.len(), positive)?];
    for at in FIRST.len() + 1..last {
        values.push(number(at, 0.0)?);
    }
    Ok(TimedKernel {
        model: field(0).to_owned(),
        call: field(1).to_owned(),
        op: field(2).to_owned(),
        implementation: field(3).to_owned(),
        values,
        seconds: number(last, positive)?,
        within_plans: number(last + 1, 0.0)? != 0.0,
    })
}

/// Writes a number with at most five figures, in the shortest form.
pub(super) fn short(number: f64) -> String {
    let rounded: f64 = format!("{number:.4e}").parse().expect("it was written as a number");
    let (plain, scientific) = (format!("{rounded}"), format!("{rounded:e}"));
    if scientific.len() < plain.len() { scientific } else { plain }
}
