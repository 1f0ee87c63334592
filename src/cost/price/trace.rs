//! What is evaluated for a price, noted while it is evaluated.

use crate::diagnostic::Span;

/// What was evaluated for a price, in order.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub entries: Vec<Entry>,
    /// The entries of the words that are being evaluated, the outermost first.
    open: Vec<usize>,
}

/// A word that was evaluated.
#[derive(Debug)]
pub(super) struct Entry {
    pub depth: usize,
    /// The word, by its index in the list.
    pub word: usize,
    pub arguments: Vec<f64>,
    /// The file and the place of the value of the case that was taken.
    pub place: Option<(usize, Span)>,
    pub value: f64,
    /// The numbers of the kernel and of the machine that the case reads.
    pub reads: Vec<(String, f64)>,
}

impl Trace {
    /// Begins a word, and returns its entry.
    pub fn enter(&mut self, word: usize, arguments: &[f64]) -> usize {
        let entry = self.entries.len();
        let depth = self.open.len();
        let arguments = arguments.to_vec();
        self.entries.push(Entry { depth, word, arguments, place: None, value: f64::NAN, reads: Vec::new() });
        self.open.push(entry);
        entry
    }

    /// Notes the case that is taken for the word that is being evaluated.
    pub fn takes(&mut self, file: usize, span: Span) {
        if let Some(entry) = self.open.last() {
            let entry = &mut self.entries[*entry];
            entry.place = Some((file, span));
            // What the conditions of other cases read says nothing of the price.
            entry.reads.clear();
        }
    }

    /// Notes a number that the word that is being evaluated reads.
    pub fn reads(&mut self, name: &str, value: f64) {
        if let Some(entry) = self.open.last() {
            let reads = &mut self.entries[*entry].reads;
            if !reads.iter().any(|(known, _)| known == name) {
                reads.push((name.to_owned(), value));
            }
        }
    }

    /// Ends a word.
    pub fn leave(&mut self, entry: usize, value: f64) {
        self.open.pop();
        self.entries[entry].value = value;
    }
}
