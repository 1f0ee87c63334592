//! Price lists: what a kernel costs, as data.
//!
//! A price list is one or more RON files. Each names the ops to which it applies, and defines *words*. The word
//! `seconds` is the price of a kernel, and `copy(size)` is the price of a copy of `size` bytes. The definition of a
//! word is an expression, or a list of cases, of which the first fitting one is used:
//!
//! ```ron
//! Prices(
//!     ops: "native.*",
//!     fitted_on: "a processor with AVX-512",
//!     define: {
//!         // The share of the machine's arithmetic that a kernel reaches.
//!         "share": [
//!             Case(op: "native.conv-direct", value: "0.85 * filling(block(out, 1))"),
//!             Case(op: "native.matmul*", when: "dim(in0, 0) > 16", value: "0.9"),
//!         ],
//!         "filling(size)": "dim(in1, 1) / round_up(dim(in1, 1), size)",
//!     },
//! )
//! ```
//!
//! Files are layers. If several files define a word, the last file is used that applies to the op and has a fitting
//! case. So a user's file can replace a single price of a shipped one, and a word that the first file defines for all
//! ops can use a word that other files define for their own ops.
//!
//! Expressions contain numbers; the features that `ovolo features` writes; the machine's speeds; words; `+ - * / ^`,
//! comparisons, `and`, `or`, `not`; functions of numbers (`max min sqrt exp log …`); and `if(condition, yes, no)`.
//! `dim(in1, 0)`, `block(out, 1)`, `elements(out)` and others read operands (`in0`, `in1`, …) and the result (`out`);
//! `attr(groups, 1)` reads an integer attribute, and `own(name)` a number that the op declares for cost models.
//! `each_operand(first, term)` adds a term for each `operand` to `first`. `functions_of(table)` is the number of
//! operations of the functions that are applied to the elements, by the prices of a table, and
//! `steps_besides(add, relu)` is the number of steps after the kernel that have other names.

mod account;
mod expression;
mod parse;
mod quantity;
mod read;
mod reference;
mod trace;
mod view;

use super::feature::BASIC;
use super::{CostModel, Machine, Query, fits};
use crate::diagnostic::{Diagnostic, Diagnostics, Source, Span, nearest};
use crate::op::Ops;
use crate::ron::Spanned;
use expression::{Arguments, Expr, Scope, Words};
pub use reference::reference;
use rustc_hash::FxHasher;
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::sync::{Arc, LazyLock, OnceLock};
use view::{Views, fits_text};

/// A price list.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceList {
    files: Vec<File>,
    words: Vec<Word>,
    tables: Vec<Table>,
    seconds: usize,
    copy: usize,
    correction: Option<usize>,
    views: Views,
}

/// A file of a price list.
#[derive(Clone, Debug, PartialEq)]
struct File {
    /// Its name and text.
    source: Source,
    /// Patterns of the ops to which the file applies; none if it applies to all ops.
    ops: Vec<Spanned<String>>,
    /// What its prices were fitted on.
    fitted_on: Option<String>,
}

/// A word, with its definition in each file that has one.
#[derive(Clone, Debug, PartialEq)]
struct Word {
    name: String,
    parameters: usize,
    definitions: Vec<Definition>,
}

#[derive(Clone, Debug, PartialEq)]
struct Definition {
    file: usize,
    cases: Vec<Case>,
}

/// A value, and the conditions under which it is used.
#[derive(Clone, Debug, PartialEq)]
struct Case {
    /// Text features, by their index in [`BASIC`], with patterns of which one must fit.
    texts: Vec<(usize, Vec<Spanned<String>>)>,
    when: Option<Expr>,
    value: Expr,
    /// Where the value is written.
    span: Span,
}

/// A table of numbers by name, in each file that has one.
#[derive(Clone, Debug, PartialEq)]
struct Table {
    name: String,
    rows: Vec<(usize, BTreeMap<String, f64>)>,
}

impl Case {
    /// Returns whether a case that can be about the op holds for its kernel.
    fn holds(&self, scope: &mut Scope<'_, '_>) -> bool {
        let mut rest = self.texts.iter().filter(|(at, _)| !BASIC[*at].is_of_op());
        rest.all(|text| fits_text(text, scope.query))
            && self.when.as_ref().is_none_or(|when| when.evaluate(scope) != 0.0)
    }
}

impl Words for PriceList {
    fn word(&self, at: usize, arguments: &[f64], scope: &mut Scope<'_, '_>) -> f64 {
        if let Some(value) = scope.known[at] {
            return value;
        }
        let outer = std::mem::replace(&mut scope.parameters, Arguments::from_slice(arguments));
        let entry = scope.trace.as_mut().map(|trace| trace.enter(at, arguments));
        let mut value = f64::NAN;
        for next in 0..scope.view.candidates[at].len() {
            let (definition, case) = scope.view.candidates[at][next];
            let definition = &self.words[at].definitions[definition];
            let case = &definition.cases[case];
            if case.holds(scope) {
                if let Some(trace) = &mut scope.trace {
                    trace.takes(definition.file, case.span);
                }
                value = case.value.evaluate(scope);
                break;
            }
        }
        scope.parameters = outer;
        if let (Some(trace), Some(entry)) = (&mut scope.trace, entry) {
            trace.leave(entry, value);
        }
        if arguments.is_empty() {
            scope.known[at] = Some(value);
        }
        value
    }

    fn price(&self, table: usize, function: &str, scope: &Scope<'_, '_>) -> Option<f64> {
        let rows = self.tables[table].rows.iter().rev().filter(|(file, _)| scope.view.files >> file & 1 == 1);
        rows.filter_map(|(_, rows)| rows.get(function)).next().copied()
    }
}

impl PriceList {
    /// Reads the files of a list. A later file takes precedence over an earlier one.
    ///
    /// # Errors
    /// All mistakes of all files, each with its place.
    pub(crate) fn read(files: &[Source]) -> Result<Self, Diagnostics> {
        read::read(files)
    }

    /// Returns the list that ships with ovolo.
    pub(crate) fn shipped() -> &'static Arc<Self> {
        static SHIPPED: LazyLock<Arc<PriceList>> = LazyLock::new(|| {
            let list = PriceList::read(&shipped_files());
            Arc::new(list.unwrap_or_else(|mistakes| panic!("a shipped price list is wrong:\n{mistakes}")))
        });
        &SHIPPED
    }

    /// Returns the shipped list with further files that take precedence.
    ///
    /// # Errors
    /// All mistakes of all files, each with its place.
    pub fn over_shipped(files: &[Source]) -> Result<Self, Diagnostics> {
        Self::shipped().with(files)
    }

    /// Returns this list with further files that take precedence.
    ///
    /// # Errors
    /// All mistakes of all files, each with its place.
    pub fn with(&self, files: &[Source]) -> Result<Self, Diagnostics> {
        let all: Vec<Source> =
            self.files.iter().map(|file| file.source.clone()).chain(files.iter().cloned()).collect();
        Self::read(&all)
    }

    /// Returns each file, with what its prices were fitted on if the file says so.
    pub fn fitted_on(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.files.iter().map(|file| (&*file.source.name, file.fitted_on.as_deref()))
    }

    /// Returns the files; a later one takes precedence.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.files.iter().map(|file| &file.source)
    }

    /// Returns the name of each file, and a checksum of its text.
    pub fn checksums(&self) -> impl Iterator<Item = (&str, String)> {
        self.sources().map(|source| {
            let mut hasher = FxHasher::default();
            hasher.write(source.text.as_bytes());
            (&*source.name, format!("{:016x}", hasher.finish()))
        })
    }

    /// Checks that each pattern of ops fits an op, lowered or logical. The first `first` files are not checked.
    ///
    /// # Errors
    /// A mistake for each pattern that fits no op.
    pub fn check_ops(&self, ops: &Ops, first: usize) -> Result<(), Diagnostics> {
        let mut found = Diagnostics::new();
        let sources: Vec<usize> = self.sources().map(|source| found.add_source(source.clone())).collect();
        let names = ops.names();
        for (file, pattern) in self.op_patterns().filter(|(file, _)| *file >= first) {
            if names.iter().any(|name| fits(pattern, name)) {
                continue;
            }
            let help = match nearest(pattern, names.iter().copied()) {
                Some(close) => format!("did you mean `{close}`?"),
                None => "`ovolo rules reference` lists the ops; `*` stands for any end of a name".to_owned(),
            };
            found.push(
                Diagnostic::new(format!("no op is called `{pattern}`"))
                    .label(sources[file], pattern.span, "")
                    .help(help),
            );
        }
        found.sort();
        found.into_result(())
    }

    /// Returns every pattern of op names, with the index of its file.
    fn op_patterns(&self) -> impl Iterator<Item = (usize, &Spanned<String>)> {
        let definitions = self.words.iter().flat_map(|word| &word.definitions);
        let cases = definitions
            .flat_map(|definition| definition.cases.iter().map(|case| (definition.file, &case.texts)));
        let patterns = cases.flat_map(|(file, texts)| {
            let of_ops = texts.iter().filter(|(at, _)| matches!(BASIC[*at].name, "op" | "logical"));
            of_ops.flat_map(move |(_, patterns)| patterns.iter().map(move |pattern| (file, pattern)))
        });
        let of_files = self.files.iter().enumerate();
        let of_files = of_files.flat_map(|(at, file)| file.ops.iter().map(move |pattern| (at, pattern)));
        of_files.chain(patterns)
    }

    fn scope<'s, 'q>(
        &'s self,
        machine: &'s Machine,
        query: Option<&'s Query<'q>>,
        priced: Priced,
    ) -> Scope<'s, 'q> {
        let mut known = vec![None; self.words.len()];
        if let Some(at) = self.correction.filter(|_| !priced.corrected) {
            known[at] = Some(1.0);
        }
        #[allow(clippy::cast_precision_loss)] // Bytes are far below what a float holds.
        let constants = match query {
            Some(query) if query.constant.contains(&true) => priced.constants as f64,
            _ => 0.0,
        };
        Scope {
            machine,
            query,
            constants,
            words: self,
            known,
            view: self.views.of(self, query),
            numbers: [None; BASIC.len()],
            parameters: Arguments::new(),
            operand: 0,
            trace: None,
        }
    }

    fn evaluate_seconds(&self, scope: &mut Scope<'_, '_>) -> f64 {
        self.word(self.seconds, &[], scope)
    }

    /// Returns the seconds of a kernel.
    ///
    /// # Errors
    /// The value that the list gives, if it is negative or not a finite number.
    fn seconds(&self, machine: &Machine, query: &Query<'_>, priced: Priced) -> Result<f64, f64> {
        let seconds = self.evaluate_seconds(&mut self.scope(machine, Some(query), priced));
        if seconds.is_finite() && seconds >= 0.0 { Ok(seconds) } else { Err(seconds) }
    }

    /// Returns the seconds to copy this number of bytes, which were just written.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn copy(&self, machine: &Machine, bytes: usize) -> f64 {
        self.word(self.copy, &[bytes as f64], &mut self.scope(machine, None, Priced::default())).max(0.0)
    }

    /// Returns the value of a word without parameters for a kernel; `None` if it has none.
    pub(crate) fn value(&self, word: &str, machine: &Machine, query: &Query<'_>) -> Option<f64> {
        let at = self.words.iter().position(|one| one.name == word && one.parameters == 0)?;
        Some(self.word(at, &[], &mut self.scope(machine, Some(query), Priced::default())))
            .filter(|value| value.is_finite())
    }
}

include!(concat!(env!("OUT_DIR"), "/costs.rs"));

/// Returns the files that ship with ovolo, the one for all ops first.
fn shipped_files() -> Vec<Source> {
    COSTS.iter().map(|(name, text)| Source::new(*name, *text)).collect()
}

/// What is priced, besides the kernel itself.
#[derive(Clone, Copy, Debug, Default)]
struct Priced {
    /// Whether the corrections of the list count; otherwise they are 1.
    corrected: bool,
    /// Bytes of the constants of the model.
    constants: usize,
}

/// A cost model that uses a price list.
#[derive(Clone, Debug)]
pub struct PriceModel {
    name: &'static str,
    machine: Machine,
    list: Arc<PriceList>,
    priced: Priced,
    /// The first value that is no price.
    wrong: Arc<OnceLock<f64>>,
}

impl PriceModel {
    /// Returns the model of the shipped list at the speeds of a machine.
    pub fn shipped(name: &'static str, machine: Machine) -> Self {
        Self::new(name, machine, Arc::clone(PriceList::shipped()))
    }

    /// Returns the model of a list at the speeds of a machine, with its own name, without the list's corrections.
    pub fn new(name: &'static str, machine: Machine, list: Arc<PriceList>) -> Self {
        Self { name, machine, list, priced: Priced::default(), wrong: Arc::default() }
    }

    /// Returns the same model with the corrections of its list, which were fitted to measured times.
    #[must_use]
    pub fn corrected(self) -> Self {
        Self { priced: Priced { corrected: true, ..self.priced }, ..self }
    }

    /// Returns the same model for kernels of a graph with this many bytes of constants, which decide from where
    /// constants are read.
    #[must_use]
    pub fn among(self, constants: usize) -> Self {
        Self { priced: Priced { constants, ..self.priced }, ..self }
    }
}

impl CostModel for PriceModel {
    fn name(&self) -> &'static str {
        self.name
    }

    fn seconds(&self, query: &Query<'_>) -> Option<f64> {
        match query.contract.view_of {
            Some(_) => Some(0.0), // A view is no work: its bytes are the operand's.
            None => {
                let wrong = |value| self.wrong.set(value);
                self.list.seconds(&self.machine, query, self.priced).map_err(wrong).ok()
            }
        }
    }

    fn account(&self, query: &Query<'_>) -> Vec<String> {
        match query.contract.view_of {
            Some(_) => vec!["seconds = 0: a view is no work".to_owned()],
            None => self.list.account(&self.machine, query, self.priced),
        }
    }

    fn copy(&self, bytes: usize) -> f64 {
        self.list.copy(&self.machine, bytes)
    }

    fn lacking(&self) -> String {
        let rule = "its price list must give a finite number of seconds, zero or more, for every kernel";
        match self.wrong.get() {
            Some(value) if value.is_nan() => {
                format!("{rule}, and no case of `seconds` fits one of them, or it is 0 / 0")
            }
            Some(value) => format!("{rule}, and gives {value} for one of them"),
            None => rule.to_owned(),
        }
    }
}
