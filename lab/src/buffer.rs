//! Tables of buffers: `id,lower,upper,size` in CSV, one buffer in each row.
//!
//! Takes the text of a file, returns buffers with their names, and writes them with their offsets in a column
//! `offset` after the others. A column `alignment` is optional, and a column `offset` is ignored, so that a
//! result can be packed again. Columns may have any order. A table with mistakes is refused with all of them
//! at once.

use csv::{ReaderBuilder, StringRecord, Trim, Writer};
use ovolo::error::{Diagnostic, Diagnostics, Span};
use ovolo::memory::{Buffer, Packing};
use std::collections::BTreeMap;

/// Named buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The names of the buffers, all different.
    pub ids: Vec<String>,
    /// The buffers.
    pub buffers: Vec<Buffer>,
    /// Whether the table has a column `alignment`; without it, every offset is allowed.
    pub aligned: bool,
}

/// The columns that a table must have.
const COLUMNS: [&str; 4] = ["id", "lower", "upper", "size"];
/// The optional columns.
const OPTIONAL: [&str; 2] = ["alignment", "offset"];
/// The most mistakes that are shown for a table; if there are more, it is probably not a table.
const SHOWN: usize = 20;
/// The most bytes of all buffers together, so that no sum of sizes overflows: an exbibyte.
const MOST: usize = 1 << 60;

impl Table {
    /// Reads a table. `name` is its name in messages, mostly a path.
    ///
    /// # Errors
    /// All mistakes (up to 20), each with its line: bytes that are not UTF-8, a column that is missing,
    /// repeated or unknown, a row with too few or too many fields, a number that is malformed, negative or
    /// too large, a buffer that ends before it begins, a repeated name, a table without buffers.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, Diagnostics> {
        let mut text = String::from_utf8_lossy(bytes);
        if !text.contains('\n') {
            // If lines end in CR alone, replace it by LF, by which lines are counted; offsets stay the same.
            text = text.replace('\r', "\n").into();
        }
        let mut reader = Reader { found: Diagnostics::for_text(name, &text), text: &text };
        if let Err(error) = std::str::from_utf8(bytes) {
            let at = error.valid_up_to();
            let message = format!("byte {at} of the file is not UTF-8");
            return Err(reader.refuse(
                Diagnostic::new(message)
                    .label(0, Span::at(at), "")
                    .help("save the table as UTF-8 text, without compression"),
            ));
        }
        reader.table()
    }

    /// Returns the table with the offsets of a packing, as CSV.
    pub fn write(&self, packing: &Packing) -> String {
        let mut writer = Writer::from_writer(Vec::new());
        let alignment = self.aligned.then_some("alignment");
        let header = COLUMNS.into_iter().chain(alignment).chain(["offset"]);
        writer.write_record(header).expect("writing to memory does not fail");
        for ((id, buffer), offset) in self.ids.iter().zip(&self.buffers).zip(&packing.offsets) {
            let alignment = self.aligned.then_some(buffer.align);
            let numbers = [buffer.lower, buffer.upper, buffer.size];
            let numbers = numbers.into_iter().chain(alignment).chain([*offset]);
            let row = std::iter::once(id.clone()).chain(numbers.map(|number| number.to_string()));
            writer.write_record(row).expect("writing to memory does not fail");
        }
        let bytes = writer.into_inner().expect("writing to memory does not fail");
        String::from_utf8(bytes).expect("names and numbers are UTF-8")
    }
}

struct Reader<'a> {
    found: Diagnostics,
    text: &'a str,
}

/// A row and its place.
struct Row {
    record: StringRecord,
    span: Span,
}

impl Row {
    fn new(record: StringRecord, text: &str) -> Self {
        let start = record.position().map_or(0, |position| usize::try_from(position.byte()).unwrap_or(0));
        let start = start.min(text.len());
        // The reader may count line breaks before a row as part of it.
        let blank = text[start..].len() - text[start..].trim_start_matches(['\n', '\r', '\u{feff}']).len();
        let line = text[start + blank..].lines().next().unwrap_or("");
        Self { record, span: Span::new(start + blank, start + blank + line.trim_end().len()) }
    }

    fn wrong(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(message).label(0, self.span, "")
    }
}

impl Reader<'_> {
    fn refuse(&mut self, diagnostic: Diagnostic) -> Diagnostics {
        self.found.push(diagnostic);
        std::mem::take(&mut self.found)
    }

    fn table(mut self) -> Result<Table, Diagnostics> {
        let text = self.text;
        if let Some(at) = unclosed(text) {
            let wrong = Diagnostic::new("the quotation mark is not closed");
            let help = "end the field with another one; write a quotation mark in the text twice";
            return Err(self.refuse(wrong.label(0, Span::new(at, at + 1), "").help(help)));
        }
        let mut csv = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(Trim::All)
            .from_reader(text.as_bytes());
        let mut rows = csv.records();
        let header = match rows.next() {
            None => {
                let help = "the first line names the columns: id,lower,upper,size";
                return Err(
                    self.refuse(Diagnostic::new("the table is empty").label(0, Span::at(0), "").help(help))
                );
            }
            Some(Err(error)) => return Err(self.refuse(Diagnostic::new(error.to_string()))),
            Some(Ok(record)) => Row::new(record, text),
        };
        let Some(columns) = self.columns(&header) else { return Err(self.found) };
        let mut table = Table { ids: Vec::new(), buffers: Vec::new(), aligned: columns[4].is_some() };
        let mut seen: BTreeMap<String, Span> = BTreeMap::new();
        let mut total = 0_usize;
        for record in rows {
            let row = match record {
                Ok(record) => Row::new(record, text),
                Err(error) => return Err(self.refuse(Diagnostic::new(error.to_string()))),
            };
            if self.found.len() >= SHOWN {
                let help = format!("these are the first {SHOWN} mistakes; correct them and try again");
                self.found.push(row.wrong("reading ends here").help(help));
                break;
            }
            let Some((id, buffer)) = self.buffer(&row, &header, &columns) else { continue };
            if let Some(first) = seen.insert(id.clone(), row.span) {
                let wrong = row.wrong(format!("the id `{id}` is given twice")).label(0, first, "first here");
                self.found.push(wrong.help("give every buffer a different id"));
            }
            let before = total;
            total = total.saturating_add(buffer.size.saturating_add(buffer.align));
            if before <= MOST && total > MOST {
                let help = "sizes are in bytes; look for one that is not";
                self.found.push(row.wrong("the buffers up to here need more than 2^60 bytes").help(help));
            }
            table.ids.push(id);
            table.buffers.push(buffer);
        }
        if table.ids.is_empty() && self.found.is_empty() {
            let help = "write one buffer in each row below the names of the columns";
            self.found.push(header.wrong("the table has no buffers").help(help));
        }
        self.found.into_result(table)
    }

    /// The position of each column: the four required ones, and `alignment`.
    fn columns(&mut self, header: &Row) -> Option<[Option<usize>; 5]> {
        let known = || COLUMNS.into_iter().chain(OPTIONAL);
        for (at, name) in header.record.iter().enumerate() {
            if header.record.iter().take(at).any(|other| other == name) {
                let wrong = header.wrong(format!("the column `{name}` is given twice"));
                self.found.push(wrong.help("remove one of the two"));
            } else if !known().any(|column| column == name) {
                let wrong = header.wrong(format!("the column `{name}` is not known"));
                let columns: Vec<&str> = known().collect();
                self.found
                    .push(wrong.suggest(name, known()).help(format!("known are {}", columns.join(", "))));
            }
        }
        let place = |name: &str| header.record.iter().position(|column| column == name);
        for name in COLUMNS.into_iter().filter(|name| place(name).is_none()) {
            let help = "the first line names the columns: id,lower,upper,size";
            self.found.push(header.wrong(format!("the column `{name}` is missing")).help(help));
        }
        let [id, lower, upper, size] = COLUMNS.map(place);
        self.found.is_empty().then_some([id, lower, upper, size, place("alignment")])
    }

    /// Returns the buffer of a row, or reports the mistakes of the row.
    fn buffer(&mut self, row: &Row, header: &Row, columns: &[Option<usize>; 5]) -> Option<(String, Buffer)> {
        let (fields, needed) = (row.record.len(), header.record.len());
        if fields != needed {
            let wrong = row.wrong(format!("the row has {fields} fields instead of {needed}"));
            let wrong = wrong.label(0, header.span, "the columns");
            self.found.push(wrong.help("give each column its field, separated by commas"));
            return None;
        }
        let field = |column: usize| columns[column].and_then(|at| row.record.get(at));
        let id = field(0).unwrap_or("").to_owned();
        if id.is_empty() {
            self.found.push(row.wrong("the `id` is empty").help("give every buffer a different id"));
        }
        let lower = self.number(row, "lower", field(1).unwrap_or(""));
        let upper = self.number(row, "upper", field(2).unwrap_or(""));
        let size = self.number(row, "size", field(3).unwrap_or(""));
        let mut align = field(4).map_or(Some(1), |text| self.number(row, "alignment", text));
        if align == Some(0) {
            let help = "write 1 if every offset is allowed";
            self.found.push(row.wrong("`alignment` is 0, but must be at least 1").help(help));
            align = None;
        }
        let buffer = Buffer { lower: lower?, upper: upper?, size: size?, align: align? };
        if buffer.lower > buffer.upper {
            let message = format!("the buffer ends at {} before it begins at {}", buffer.upper, buffer.lower);
            let help = "a buffer is live from `lower` up to but not including `upper`";
            self.found.push(row.wrong(message).help(help));
        }
        Some((id, buffer))
    }

    fn number(&mut self, row: &Row, column: &str, text: &str) -> Option<usize> {
        let parsed = text.parse::<usize>();
        if parsed.is_err() {
            let mut help = "write a whole number of 0 or more, in digits only";
            let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let wrong = if text.is_empty() {
                "is empty".to_owned()
            } else if text.strip_prefix('-').is_some_and(digits) {
                format!("is negative: {text}")
            } else if digits(text) {
                help = "check whether it has too many digits";
                format!("is too large: {text}")
            } else {
                format!("is not a whole number: `{text}`")
            };
            self.found.push(row.wrong(format!("`{column}` {wrong}")).help(help));
        }
        parsed.ok()
    }
}

/// Returns where a quoted field without an end begins.
fn unclosed(text: &str) -> Option<usize> {
    let (mut open, mut first) = (None, true);
    for (at, byte) in text.bytes().enumerate() {
        match (byte, open) {
            // Two quotation marks in a field stand for one: the field closes and opens again.
            (b'"', Some(_)) => open = None,
            (b'"', None) if first || text.as_bytes()[at - 1] == b'"' => open = Some(at),
            _ => {}
        }
        first = open.is_none() && matches!(byte, b',' | b'\n' | b'\r');
    }
    open
}
