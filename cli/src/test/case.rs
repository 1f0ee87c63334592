//! The file of a case.
//!
//! ```ron
//! // A convolution and its activation are one step.
//! Case(
//!     model: "conv_relu.ovolo",
//!     pipeline: "native",
//!     after: "extract",
//!     show: ["rules", "graph", "plan"],
//! )
//! ```
//! Paths are relative to the folder of the case.

use crate::Settings;
use crate::adding::Added;
use crate::files::read;
use crate::load;
use ovolo::error::{Diagnostics, Source, Span, suggestion};
use ovolo::extract;
use ovolo::pass::pipeline::Pipeline;
use ovolo::plan::MOST_THREADS;
use ovolo::registry::Registry;
use ovolo::ron::{self, Entries, Spanned, Text};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A case.
pub(super) struct Case {
    /// How the model is compiled.
    pub settings: Settings,
    /// The program that writes the model, if there is one, and the folder that it runs in.
    pub script: Option<Script>,
    /// The pass that is shown.
    pub after: String,
    /// What is shown.
    pub show: Vec<Part>,
}

/// A program that writes a model.
pub(super) struct Script {
    pub words: Vec<String>,
    pub folder: PathBuf,
}

/// What a case can show.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The graph after the pass; after a rewriting pass, what the e-graph has beyond the imported graph.
    Graph,
    /// How each rewriting pass stopped, and what each rule did.
    Growth,
    /// The rules that led to the plan.
    Rules,
    /// The plan.
    Plan,
    /// The estimated time of each step on a nominal machine.
    Costs,
}

impl Part {
    const ALL: [(&'static str, Self); 5] = [
        ("graph", Self::Graph),
        ("growth", Self::Growth),
        ("rules", Self::Rules),
        ("plan", Self::Plan),
        ("costs", Self::Costs),
    ];

    /// Returns the name in the file of a case.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, part)| *part == self).map_or("", |(name, _)| name)
    }
}

/// The syntax. The fields are those of the command line, where it has them.
#[derive(Deserialize)]
#[serde(rename = "Case")]
struct Form {
    #[serde(default)]
    model: Option<Spanned<String>>,
    /// A command that writes an ONNX file. The path of the file is its last argument.
    #[serde(default)]
    script: Option<Spanned<String>>,
    #[serde(default)]
    weights: Option<Spanned<String>>,
    #[serde(default)]
    dims: Entries<Text, usize>,
    #[serde(default)]
    seeded_weights: bool,
    #[serde(default)]
    pipeline: Option<Spanned<String>>,
    #[serde(default)]
    rules: Vec<Spanned<String>>,
    /// Rules for a phase of the pipeline, `RULES:PHASE`.
    #[serde(default)]
    add: Vec<Spanned<String>>,
    #[serde(default)]
    cost: Option<Spanned<String>>,
    #[serde(default)]
    costs: Vec<Spanned<String>>,
    #[serde(default)]
    extractor: Option<Spanned<String>>,
    #[serde(default)]
    threads: Option<Spanned<i64>>,
    #[serde(default)]
    after: Option<Spanned<String>>,
    #[serde(default)]
    show: Option<Spanned<Vec<Spanned<String>>>>,
}

impl Case {
    /// Reads the file of a case.
    pub(super) fn read(registry: &Registry, path: &Path) -> Result<Self, String> {
        let source = Source::new(path.display().to_string(), read(path)?);
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut found = Diagnostics::new();
        let at = found.add_source(source.clone());
        let mut reader = ron::Reader::new(&mut found, at);
        let case = reader.document(&source.text).and_then(|document| {
            let form: Form = reader.read(document)?;
            // A field that could not be read is absent from the form.
            if reader.found().is_empty() {
                form.check(&mut reader, document.head(), registry, folder);
            }
            let show = form.show.as_ref().map(|names| parts(&mut reader, names));
            Some(form.case(folder, show.unwrap_or_else(|| vec![Part::Rules, Part::Graph])))
        });
        match case {
            Some(case) if found.is_empty() => Ok(case),
            _ => {
                found.sort();
                Err(found.to_string())
            }
        }
    }
}

/// Returns the parts with these names.
fn parts(reader: &mut ron::Reader<'_>, names: &Spanned<Vec<Spanned<String>>>) -> Vec<Part> {
    let mut parts = Vec::new();
    if names.value.is_empty() {
        let help = format!("there are {}", Part::ALL.map(|(name, _)| name).join(", "));
        reader.mistake("`show` lists nothing, so the case would compare nothing", names.span, help);
    }
    for name in &names.value {
        match Part::ALL.into_iter().find(|(known, _)| *known == name.value) {
            Some((_, part)) => parts.push(part),
            None => {
                let known = Part::ALL.map(|(name, _)| name);
                let help = suggestion(&name.value, known).map_or_else(
                    || format!("there are {}", known.join(", ")),
                    |close| format!("did you mean `{close}`?"),
                );
                reader.mistake(format!("a case cannot show `{}`", name.value), name.span, help);
            }
        }
    }
    parts
}

/// Where to find the names of cost models and extractors.
const DOCTOR: &str = "`ovolo doctor` lists what this build has";

impl Form {
    /// Reports fields that do not go together, and those that name what does not exist.
    fn check(&self, reader: &mut ron::Reader<'_>, head: Span, registry: &Registry, folder: &Path) {
        if self.model.is_some() == self.script.is_some() {
            let help = "`model` is a file, and `script` a command that writes one";
            reader.mistake("a case needs a model or a script, and not both", head, help);
        }
        if self.cost.is_some() && !self.costs.is_empty() {
            let help = "price lists in `costs` change the cost model `prices`";
            reader.mistake("a case has `cost` or `costs`, and not both", head, help);
        }
        let files = self.model.iter().chain(&self.weights).chain(&self.rules).chain(&self.costs);
        for name in files.filter(|name| !folder.join(&name.value).exists()) {
            let at = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            let help = format!("paths are relative to the folder of the case: {}", at.display());
            reader.mistake(format!("there is no file or folder `{}`", name.value), name.span, help);
        }
        if let Some(name) = self
            .pipeline
            .as_ref()
            .filter(|name| registry.pipeline(&name.value).is_none() && !folder.join(&name.value).is_file())
        {
            let shipped: Vec<&str> = registry.pipeline_names().collect();
            let help = format!("it is a file in the folder of the case, or one of {}", shipped.join(", "));
            reader.mistake(format!("there is no pipeline `{}`", name.value), name.span, help);
        }
        if let Some(name) = self
            .pipeline
            .as_ref()
            .filter(|name| folder.join(&name.value).is_file() && !name.value.ends_with(".ron"))
        {
            let help = "the name of a file with a pipeline ends in `.ron`";
            reader.mistake(format!("`{}` is no pipeline", name.value), name.span, help);
        }
        // The mistakes of a pipeline are reported when the case is compiled.
        if let Ok(pipeline) = load::read_pipeline(registry, &self.pipeline_in(folder), None) {
            self.check_passes(reader, &pipeline, folder);
        }
        let catalog = registry.catalog();
        if let Some(name) = &self.cost
            && let Err(why) = catalog.pricings.find(&name.value)
        {
            reader.mistake(why.to_string(), name.span, DOCTOR);
        }
        if let Some(name) =
            self.extractor.as_ref().filter(|name| catalog.extractors.get(&name.value).is_none())
        {
            reader.mistake(extract::unknown(&name.value, &catalog.extractors), name.span, DOCTOR);
        }
        let fits =
            |threads: &i64| usize::try_from(*threads).is_ok_and(|one| (1..=MOST_THREADS).contains(&one));
        if let Some(threads) = self.threads.as_ref().filter(|one| !fits(&one.value)) {
            let help = format!("a plan has 1 to {MOST_THREADS} threads");
            reader.mistake(format!("a plan cannot have {} threads", threads.value), threads.span, help);
        }
    }

    /// Returns the pipeline: a file beside the case, or the name of a shipped one.
    fn pipeline_in(&self, folder: &Path) -> String {
        let Some(name) = &self.pipeline else { return "native".to_owned() };
        let file = folder.join(&name.value);
        if file.is_file() { file.display().to_string() } else { name.value.clone() }
    }

    /// Reports fields that name passes which the pipeline does not have, and additions that are not of the form
    /// `RULES:PHASE` or name a file that does not exist.
    fn check_passes(&self, reader: &mut ron::Reader<'_>, pipeline: &Pipeline, folder: &Path) {
        if let Some(after) = &self.after {
            let passes: Vec<&str> =
                std::iter::once("import").chain(pipeline.passes.iter().map(|pass| pass.name())).collect();
            if !passes.contains(&after.value.as_str()) {
                let help = format!("its passes are {}", passes.join(", "));
                let what = format!("pipeline `{}` has no pass `{}`", pipeline.name, after.value);
                reader.mistake(what, after.span, help);
            }
        }
        let phases: Vec<&str> = pipeline.rewrites().map(|rewrite| rewrite.name.as_str()).collect();
        for added in &self.add {
            match Added::read(&added.value) {
                Err(_) => {
                    let what = format!("`{}` does not say which rules to add to which phase", added.value);
                    reader.mistake(what, added.span, "write RULES:PHASE, such as `my-rules.ron:fuse`");
                }
                Ok(Added { file: Some(file), .. }) if !folder.join(&file).is_file() => {
                    let help = "paths are relative to the folder of the case";
                    reader.mistake(format!("there is no file `{}`", file.display()), added.span, help);
                }
                Ok(Added { file: None, rules, .. }) if folder.join(&rules).is_file() => {
                    let help = "the name of a file of rules ends in `.ron`";
                    reader.mistake(format!("`{rules}` is no file of rules"), added.span, help);
                }
                Ok(Added { phase, .. }) if !phases.contains(&phase) => {
                    let help = format!("its phases are {}", phases.join(", "));
                    let what = format!("pipeline `{}` has no phase `{phase}`", pipeline.name);
                    reader.mistake(what, added.span, help);
                }
                Ok(_) => {}
            }
        }
    }

    fn case(self, folder: &Path, show: Vec<Part>) -> Case {
        let pipeline = self.pipeline_in(folder);
        let model = self.model.map_or_else(PathBuf::new, |model| folder.join(model.value));
        let default = Settings::new(model);
        // A file of rules lies beside the case as well.
        let added_from = |added: &Spanned<String>| match added.value.rsplit_once(':') {
            Some((rules, phase)) if rules.ends_with(".ron") => {
                format!("{}:{phase}", folder.join(rules).display())
            }
            _ => added.value.clone(),
        };
        let files =
            |names: Vec<Spanned<String>>| names.into_iter().map(|name| folder.join(name.value)).collect();
        let settings = Settings {
            weights: self.weights.map(|weights| folder.join(weights.value)),
            dims: self.dims.0.into_iter().map(|(name, size)| format!("{}={size}", name.text)).collect(),
            pipeline,
            rules: files(self.rules),
            add: self.add.iter().map(added_from).collect(),
            cost: self.cost.map(|name| name.value),
            costs: files(self.costs),
            extractor: self.extractor.map(|name| name.value),
            threads: Some(self.threads.map_or(1, |threads| usize::try_from(threads.value).unwrap_or(0))),
            seeded_weights: self.seeded_weights,
            ..default
        };
        let script = self.script.map(|script| Script {
            words: script.value.split_whitespace().map(str::to_owned).collect(),
            folder: folder.to_owned(),
        });
        Case {
            settings,
            script,
            after: self.after.map_or_else(|| "extract".to_owned(), |after| after.value),
            show,
        }
    }
}

impl Script {
    /// Runs the program, which writes the model to a file.
    pub(super) fn write(&self, file: &Path) -> Result<(), String> {
        let (program, words) = self.words.split_first().ok_or("the script is empty")?;
        let mut command = Command::new(program);
        command.args(words).arg(file);
        if !self.folder.as_os_str().is_empty() {
            command.current_dir(&self.folder);
        }
        let said = self.words.join(" ");
        let output = command.output().map_err(|error| format!("script `{said}`: {error}"))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(format!("script `{said}` failed ({}):\n{}", output.status, why.trim_end()));
        }
        if !file.is_file() {
            return Err(format!("script `{said}` wrote no model to {}, its last argument", file.display()));
        }
        Ok(())
    }
}
