//! The registry: one value with everything that a compilation may name.
//!
//! A registry joins tables that are defined on lower floors: ops, the words of rules, backends, orders of
//! execution, memory planners, cost models, extractors, ONNX operators, and the texts of rules and pipelines.
//! [`Registry::new`] has those of ovolo itself; other crates add theirs. A process may have several registries,
//! since everything is looked up in a registry and nothing is global.
//!
//! Definitions of ops and of the words of rules that are added live as long as the process and are never freed. So
//! a program should make its registry once.

use crate::backend::{Backend, Backends};
use crate::cost::Pricing;
pub use crate::error::RegistryError;
use crate::error::{Diagnostics, Source, suggestion};
use crate::extract::Extractor;
use crate::memory::{Order, Planner};
use crate::onnx::{self, Operator, Operators};
use crate::op::{self, AttrDef, Op, OpDef, Ops};
use crate::pass::{self, Catalog, Scope};
use crate::rule::{self, RuleSet, Texts, Vocabulary, Words};
use crate::scalar::{self, Function};
use crate::setting::{self, Folder};
use crate::table::{Duplicate, Table, Unknown};
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

include!(concat!(env!("OUT_DIR"), "/passes.rs"));
include!(concat!(env!("OUT_DIR"), "/rules.rs"));
include!(concat!(env!("OUT_DIR"), "/examples.rs"));

/// Everything that a compilation may name.
#[derive(Clone)]
pub struct Registry {
    ops: Ops,
    words: Words,
    catalog: Catalog,
    operators: Operators,
    /// Ovolo's own rule files.
    shipped: Texts,
    /// All registered rule files.
    rules: Texts,
    examples: Texts,
    pipelines: Texts,
    builds: Vec<(&'static str, &'static str)>,
    /// The rules, once they have been read.
    read: OnceLock<RuleSet>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backends: Vec<&str> = self.backends().names().collect();
        f.debug_struct("Registry").field("backends", &backends).finish_non_exhaustive()
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl Registry {
    /// Makes a registry of everything that ovolo itself has. It has no backends.
    pub fn new() -> Self {
        let shipped = |kind, files: &[(&'static str, &'static str)]| {
            Table::from_entries(kind, files.iter().map(|(name, text)| (*name, Cow::Borrowed(*text))))
        };
        let rules = shipped("rule file", RULES);
        // The shipped price lists and the bodies of operators are the longest texts that are read at each start.
        let (catalog, operators) = std::thread::scope(|scope| {
            let catalog = scope.spawn(Catalog::new);
            let operators = onnx::operators();
            (catalog.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), operators)
        });
        Self {
            ops: Ops::new(),
            words: Words::new(),
            catalog,
            operators,
            shipped: rules.clone(),
            rules,
            examples: shipped("file of examples", EXAMPLES),
            pipelines: shipped("pipeline", PIPELINES),
            builds: vec![("ovolo", crate::BUILD)],
            read: OnceLock::new(),
        }
    }

    /// Adds a logical op.
    ///
    /// # Errors
    /// If another op already has its name, rules cannot write the name, or two of its attributes have one name.
    pub fn add_op(&mut self, definition: OpDef) -> Result<Op, RegistryError> {
        plain_name("an op", definition.name)?;
        let attributes = &definition.attrs;
        let twice =
            |(at, one): &(usize, &AttrDef)| attributes[..*at].iter().any(|other| other.name == one.name);
        if let Some((_, one)) = attributes.iter().enumerate().find(twice) {
            return Err(RegistryError::Attribute { op: definition.name, attribute: one.name });
        }
        self.changed();
        let op = Op::define(definition);
        self.ops.add(op)?;
        Ok(op)
    }

    /// Adds a guard or a computed attribute.
    ///
    /// # Errors
    /// If another one already has its name.
    pub fn add_word(&mut self, word: rule::Word) -> Result<(), RegistryError> {
        self.changed();
        Ok(self.words.add(word)?)
    }

    /// Adds a backend with its ops.
    ///
    /// # Errors
    /// If its name or that of one of its ops is already taken, rules cannot write its name, or an op that it lowers is
    /// absent. Then nothing of it is added.
    pub fn add_backend(&mut self, backend: Arc<dyn Backend>) -> Result<(), RegistryError> {
        plain_name("a backend", backend.name())?;
        self.changed();
        let before = (self.ops.clone(), self.catalog.backends.clone());
        let added = self.add_backend_and_ops(backend);
        if added.is_err() {
            (self.ops, self.catalog.backends) = before;
        }
        added
    }

    fn add_backend_and_ops(&mut self, backend: Arc<dyn Backend>) -> Result<(), RegistryError> {
        let name = backend.name();
        self.catalog.backends.add(name, Arc::clone(&backend))?;
        for lowering in backend.ops() {
            if lowering.name.split_once('.').is_none_or(|(prefix, _)| prefix != name) {
                return Err(RegistryError::Prefix { backend: name.to_owned(), op: lowering.name });
            }
            self.ops.lower(&lowering)?;
        }
        let functions: Vec<Function> = self.ops.functions().collect();
        functions.into_iter().try_for_each(|function| self.lower_function(&*backend, function))
    }

    /// Adds the op and the rule that lower a function to a backend.
    fn lower_function(&mut self, backend: &dyn Backend, function: Function) -> Result<(), RegistryError> {
        let name: &'static str = Box::leak(format!("{}.{function}", backend.name()).into_boxed_str());
        if let Some(lowering) = backend.function(name, function) {
            self.ops.lower(&lowering)?;
        }
        Ok(())
    }

    /// Adds the functions of a table, of one or two operands, with everything that follows from its rows: their ops,
    /// their lowerings to each backend, and the import of the ONNX operators that correspond to them. Formulas may name
    /// the functions that the registry already has; `name` is the path of the table, such as `ops/mine.ron`. See
    /// [`mod@scalar`] for what a table holds.
    ///
    /// Rules about all functions, such as those that make chains of them, then also hold for these.
    ///
    /// # Errors
    /// The mistakes in the table, a name that the registry already has, or an ONNX operator that is already imported as
    /// something else. Several functions may share an operator if each has other conditions (`when`) on its attributes.
    pub fn add_functions(&mut self, name: &str, text: &str) -> Result<(), RegistryError> {
        let known: Vec<Function> = self.ops.functions().collect();
        let mut found = Diagnostics::new();
        let functions = scalar::read(&Source::new(name, text), &known, &mut found);
        if !found.is_empty() {
            return Err(RegistryError::Functions(found));
        }
        let all = [&known[..], &functions[..]].concat();
        for (at, function) in functions.iter().enumerate() {
            let before = &all[..known.len() + at];
            if let Some((operator, by)) = onnx::taken(*function, before, &self.operators) {
                let (function, by) = (function.name(), by.map(|by| by.name()));
                return Err(RegistryError::Operator { table: name.to_owned(), function, operator, by });
            }
        }
        self.changed();
        for function in &functions {
            self.ops.add(Op::define(op::of_function(*function)))?;
        }
        let backends: Vec<Arc<dyn Backend>> =
            self.backends().iter().map(|(_, backend)| Arc::clone(backend)).collect();
        for (function, backend) in functions.iter().flat_map(|one| backends.iter().map(move |all| (one, all)))
        {
            self.lower_function(&**backend, *function)?;
        }
        for operator in onnx::functions(&functions) {
            // It may already be registered for another function, which it is with other attributes.
            if self.operators.get(operator.name).is_none() {
                self.operators.add(operator.name, operator)?;
            }
        }
        Ok(())
    }

    /// Adds an order of execution.
    ///
    /// # Errors
    /// If another one already has its name.
    pub fn add_order(&mut self, order: Arc<dyn Order>) -> Result<(), RegistryError> {
        Ok(self.catalog.orders.add(order.name(), order)?)
    }

    /// Adds a memory planner.
    ///
    /// # Errors
    /// If another one already has its name.
    pub fn add_planner(&mut self, planner: Arc<dyn Planner>) -> Result<(), RegistryError> {
        Ok(self.catalog.planners.add(planner.name(), planner)?)
    }

    /// Adds a cost model under the name of its default settings.
    ///
    /// # Errors
    /// If another one already has its name.
    pub fn add_pricing(&mut self, kind: setting::Kind<dyn Pricing>) -> Result<(), RegistryError> {
        Ok(self.catalog.pricings.add((kind.plain)().name().to_owned(), kind)?)
    }

    /// Adds an extractor under the name of its default settings.
    ///
    /// # Errors
    /// If another one already has its name.
    pub fn add_extractor(&mut self, kind: setting::Kind<dyn Extractor>) -> Result<(), RegistryError> {
        Ok(self.catalog.extractors.add((kind.plain)().name(), kind)?)
    }

    /// Adds a pass. `name` is the one that pipelines write before its settings, in camel case.
    ///
    /// # Errors
    /// If another one already has the name.
    pub fn add_pass(&mut self, name: &'static str, kind: pass::PassKind) -> Result<(), RegistryError> {
        Ok(self.catalog.passes.add(name, kind)?)
    }

    /// Adds the import of an ONNX operator.
    ///
    /// # Errors
    /// If this operator already has an import.
    pub fn add_operator(&mut self, operator: Operator) -> Result<(), RegistryError> {
        Ok(self.operators.add(operator.name, operator)?)
    }

    /// Adds a file of rules that ships with the caller's crate. `name` is its path, such as `rules/mine.ron`.
    ///
    /// # Errors
    /// If another file already has the name, or it does not end with `.ron`.
    pub fn add_rules(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        text: impl Into<Cow<'static, str>>,
    ) -> Result<(), RegistryError> {
        self.changed();
        Ok(self.rules.add(file_name("a file of rules", name)?, text.into())?)
    }

    /// Adds the examples of a file of rules. `name` is their path, such as `rules/examples/mine.ron`.
    ///
    /// # Errors
    /// If another file already has the name.
    pub fn add_examples(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        text: impl Into<Cow<'static, str>>,
    ) -> Result<(), RegistryError> {
        self.changed();
        Ok(self.examples.add(name, text.into())?)
    }

    /// Adds a pipeline that ships with the caller's crate. `name` is its path, such as `passes/mine.ron`.
    ///
    /// # Errors
    /// If another pipeline already has the name, in whatever folder, or it does not end with `.ron`.
    pub fn add_pipeline(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        text: impl Into<Cow<'static, str>>,
    ) -> Result<(), RegistryError> {
        let path = file_name("a pipeline", name)?;
        if let Some(own) = stem(&path).filter(|own| self.pipeline(own).is_some()) {
            return Err(Duplicate { kind: "pipeline", name: own.to_owned() }.into());
        }
        Ok(self.pipelines.add(path, text.into())?)
    }

    /// Adds a price list that ships with the caller's crate, and that overrides those before it. `name` is its
    /// path, such as `costs/mine.ron`.
    ///
    /// # Errors
    /// The mistakes in it.
    pub fn add_prices(&mut self, name: &str, text: &str) -> Result<(), RegistryError> {
        let list = self.catalog.prices.with(&[Source::new(name, text)]).map_err(RegistryError::Prices)?;
        self.catalog.prices = Arc::new(list);
        Ok(())
    }

    /// Adds a text that identifies the build of a crate, such as a digest of its sources. Then nothing that another
    /// build has cached is used. Each crate that adds to a registry should add its build.
    pub fn add_build(&mut self, name: &'static str, build: &'static str) {
        self.builds.push((name, build));
    }

    /// Returns the builds of the crates that have added to the registry, the framework's first.
    pub fn builds(&self) -> &[(&'static str, &'static str)] {
        &self.builds
    }

    /// Returns the ops.
    pub fn ops(&self) -> &Ops {
        &self.ops
    }

    /// Returns the guards and computed attributes.
    pub fn words(&self) -> &Words {
        &self.words
    }

    /// Returns the orders, planners, cost models, extractors and passes that pipelines choose among.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Returns the backends.
    pub fn backends(&self) -> &Backends {
        &self.catalog.backends
    }

    /// Returns the tables by which ONNX models are imported.
    pub fn onnx(&self) -> onnx::Tables<'_> {
        onnx::Tables { ops: &self.ops, operators: &self.operators }
    }

    /// Returns everything that pipelines may name, except rules.
    pub fn scope(&self) -> Scope<'_> {
        Scope { catalog: &self.catalog, rules: None, folder: Folder::NONE }
    }

    /// Returns the ops and words by which rule files are read.
    pub fn vocabulary(&self) -> Vocabulary<'_> {
        Vocabulary { ops: &self.ops, words: &self.words, shipped: &self.shipped }
    }

    /// Returns the texts of the registered rule files, by their names.
    pub fn rules(&self) -> &Texts {
        &self.rules
    }

    /// Returns the texts of the registered pipelines, by the names of their files.
    pub fn pipelines(&self) -> &Texts {
        &self.pipelines
    }

    /// Returns the file name and the text of a registered pipeline.
    pub fn pipeline(&self, name: &str) -> Option<(&str, &str)> {
        self.pipelines.iter().find(|(path, _)| stem(path) == Some(name)).map(|(path, text)| (path, &**text))
    }

    /// Returns the error that there is no pipeline of this name.
    pub(crate) fn no_pipeline(&self, name: &str) -> Unknown {
        Unknown {
            kind: "pipeline",
            name: name.to_owned(),
            nearest: suggestion(name, self.pipeline_names()).map(ToOwned::to_owned),
            known: self.pipeline_names().map(ToOwned::to_owned).collect(),
        }
    }

    /// Iterates over the names of the registered pipelines.
    pub fn pipeline_names(&self) -> impl Iterator<Item = &str> {
        self.pipelines.names().filter_map(stem)
    }

    /// Returns the texts of the registered examples of rules, by the names of their files.
    pub fn examples(&self) -> &Texts {
        &self.examples
    }

    /// Returns the registered rules with their examples. They are read when they are first asked for.
    ///
    /// # Errors
    /// Every mistake in them.
    pub fn rule_set(&self) -> Result<RuleSet, Diagnostics> {
        if let Some(read) = self.read.get() {
            return Ok(read.clone());
        }
        let files: Vec<(&str, &str)> =
            self.rules.iter().chain(self.examples.iter()).map(|(name, text)| (name, &**text)).collect();
        let read = RuleSet::read(self.vocabulary(), &files)?;
        Ok(self.read.get_or_init(|| read).clone())
    }

    /// Forgets the rules that were read, after a change of what they are read from.
    fn changed(&mut self) {
        self.read = OnceLock::new();
    }
}

/// Returns the name by which a file is known: that without its folder and its ending.
fn stem(path: &str) -> Option<&str> {
    path.rsplit('/').next()?.strip_suffix(".ron")
}

/// Checks that rules can write a name.
fn plain_name(of: &'static str, name: &str) -> Result<(), RegistryError> {
    let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(known) {
        return Ok(());
    }
    let why = "is not one that rules can write: it has lower-case letters, digits and hyphens, and begins with a letter";
    Err(RegistryError::Name { of, name: name.to_owned(), why })
}

/// Checks that a path has a name by which the file can be found.
fn file_name(
    of: &'static str,
    path: impl Into<Cow<'static, str>>,
) -> Result<Cow<'static, str>, RegistryError> {
    let path = path.into();
    match stem(&path) {
        Some(name) if !name.is_empty() => Ok(path),
        _ => {
            let why = "is not that of a RON file: it ends with `.ron`, as `folder/mine.ron`";
            Err(RegistryError::Name { of, name: path.into_owned(), why })
        }
    }
}
