//! Converts the text of a spec to an experiment. Looks up all names, and collects all mistakes.

use super::form::{self, List, Number};
use super::{Chooser, Cost, Model, PARTS, SAMPLE, Spec};
use ovolo::cost::Machine;
use ovolo::error::{Source, Span, suggestion};
use ovolo::pass::pipeline::Pipeline;
use ovolo::plan::MOST_THREADS;
use ovolo::registry::Registry;
use ovolo::ron::{self, Raw, Spanned, Text};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// The largest number of runs of a plan, of drawn plans and of seeds. A larger number is taken for a typing error.
const MOST: usize = 10_000;
/// The largest spread: beyond it the drawn prices would say more about the random numbers than about the kernels.
const MOST_SPREAD: usize = 10;
/// The largest number of draws for each plan that is kept, because each draw is an extraction.
const MOST_AMONG: usize = 100;

pub(super) struct Reader<'a> {
    pub ron: ron::Reader<'a>,
    pub folder: &'a Path,
    pub registry: &'a Registry,
}

impl Reader<'_> {
    /// Reports a name that is unknown.
    pub fn unknown(&mut self, what: &str, name: &str, span: Span, known: &[&str]) {
        let help = suggestion(name, known.iter().copied()).map_or_else(
            || format!("there are {}", known.join(", ")),
            |close| format!("did you mean `{close}`?"),
        );
        self.ron.mistake(format!("{what} `{name}` is not known"), span, help);
    }

    pub fn spec(&mut self, document: Raw<'_>, source: &Source) -> Option<Spec> {
        let form: form::Experiment<'_> = self.ron.read(document)?;
        let head = document.head();
        self.needed("models", &form.models, document);
        self.needed("costs", &form.costs, document);
        self.needed("extractors", &form.extractors, document);
        self.needed_for_sample(&form, head);
        let places = ["models", "pipelines", "costs", "extractors", "seeds"];
        let [models_at, pipelines_at, costs_at, extractors_at, seeds_at] =
            places.map(|key| document.field(key).map_or(head, |value| value.span()));
        let name = self.name(form.name.as_ref(), document);
        let models: Vec<Model> =
            items(form.models).into_iter().filter_map(|model| self.model(model)).collect();
        let pipelines = match form.pipelines {
            Some(names) => names.value.into_iter().filter_map(|name| self.pipeline(name)).collect(),
            None => self.native().into_iter().collect::<Vec<_>>(),
        };
        let costs: Vec<Cost> = items(form.costs).into_iter().filter_map(|raw| self.cost(raw)).collect();
        let extractors: Vec<Chooser> =
            items(form.extractors).into_iter().filter_map(|raw| self.extractor(raw)).collect();
        let seeds: Vec<u64> = items(form.seeds).into_iter().map(|seed| seed.value).collect();
        let parts: BTreeSet<String> =
            items(form.parts).into_iter().filter_map(|name| self.part(name)).collect();
        self.twice("model", models.iter().map(|model| model.name.clone()), "models", models_at);
        self.twice("pipeline", pipelines.iter().map(|(name, _)| name.clone()), "pipelines", pipelines_at);
        self.twice("cost model", costs.iter().map(|cost| cost.name.clone()), "costs", costs_at);
        self.twice("extractor", extractors.iter().map(|one| one.name.clone()), "extractors", extractors_at);
        self.twice("seed", seeds.iter().map(u64::to_string), "seeds", seeds_at);
        // Everything is checked before a missing name ends the reading, so that all mistakes are reported.
        let threads = self.within("threads", form.threads, 1..=MOST_THREADS).unwrap_or(1);
        let machine = form.machine.and_then(|machine| self.machine(&machine.value));
        let sample = self.within("sample", form.sample, 1..=MOST).unwrap_or(0);
        let spread = self.within("spread", form.spread, 1..=MOST_SPREAD).unwrap_or(1);
        let among = self.within("among", form.among, 1..=MOST_AMONG).unwrap_or(1);
        let rounds = self.within("rounds", form.rounds, 0..=MOST).unwrap_or(0);
        Some(Spec {
            name: name?,
            source: source.clone(),
            models,
            pipelines,
            costs,
            extractors,
            seeds: if seeds.is_empty() { vec![1] } else { seeds },
            threads,
            machine,
            sample,
            spread,
            among,
            rounds,
            parts,
        })
    }

    /// Reports a list that is missing or empty.
    fn needed<T>(&mut self, key: &str, list: &List<T>, document: Raw<'_>) {
        match list {
            Some(list) if list.is_empty() && document.field(key).is_some_and(|value| value.is_empty()) => {
                self.ron.mistake(format!("`{key}` is empty"), list.span, "name at least one");
            }
            // A list that cannot be read is already reported.
            None if document.field(key).is_none() => {
                self.lacks(key, document.head(), &format!("add `{key}: […]`"));
            }
            _ => {}
        }
    }

    fn lacks(&mut self, key: &str, head: Span, help: &str) {
        self.ron.mistake(format!("`Experiment` lacks the field `{key}`"), head, help);
    }

    /// Reports mistakes in the settings that belong to the extractor `sample`.
    fn needed_for_sample(&mut self, form: &form::Experiment<'_>, head: Span) {
        let extractors = form.extractors.as_ref().map(|list| list.value.as_slice()).unwrap_or_default();
        let samples = extractors.iter().any(|raw| Text::parse(*raw).is_some_and(|name| name.text == SAMPLE));
        for (key, number, meaning) in [
            ("spread", form.spread, "how far the extractor `sample` goes"),
            ("among", form.among, "of how many plans the extractor `sample` keeps one"),
            ("sample", form.sample, "the number of plans that the extractor `sample` draws"),
        ] {
            if let (false, Some(number)) = (samples || extractors.is_empty(), number) {
                self.ron.mistake(
                    format!("`{key}` is {meaning}, but `extractors` does not contain it"),
                    number.span,
                    "add `\"sample\"` to `extractors`",
                );
            }
        }
        if samples && form.sample.is_none() {
            let message = "the extractor `sample` needs a number of plans";
            self.ron.mistake(message, head, "add `sample: 20`");
        } else if samples && form.rounds.is_none_or(|rounds| rounds.value == 0) {
            self.ron.mistake(
                "the extractor `sample` chooses by measured times, but nothing is timed",
                head,
                "add `rounds: 9`: how often each plan is run",
            );
        }
    }

    fn name(&mut self, name: Option<&Spanned<String>>, document: Raw<'_>) -> Option<String> {
        let Some(name) = name else {
            if document.field("name").is_none() {
                self.lacks("name", document.head(), "add `name: \"…\"`");
            }
            return None;
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        // The name is also the name of a folder.
        if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
            self.ron.mistake(
                "a name has only letters, digits, `-`, `_` and `.`",
                name.span,
                "the results are written to a folder with this name",
            );
            return None;
        }
        Some(name.value.clone())
    }

    /// Reports a name that is twice in a list.
    fn twice(&mut self, what: &str, names: impl Iterator<Item = String>, key: &str, span: Span) {
        let mut known = BTreeSet::new();
        for name in names {
            if known.contains(&name) {
                self.ron.mistake(
                    format!("two entries of `{key}` are called `{name}`"),
                    span,
                    format!("remove one, or give one {what} another `name`"),
                );
            }
            known.insert(name);
        }
    }

    /// Returns a number if it lies in a range, and reports it otherwise. Returns `None` if there is none.
    pub fn within(&mut self, key: &str, number: Number, range: RangeInclusive<usize>) -> Option<usize> {
        let number = number?;
        if !range.contains(&number.value) {
            self.ron.mistake(
                format!("`{key}` must be {} to {}", range.start(), range.end()),
                number.span,
                "write a number of this range, or leave it out",
            );
            return None;
        }
        Some(number.value)
    }

    /// Returns the path of a file beside the spec, and reports a file that does not exist.
    fn file(&mut self, name: &Spanned<String>) -> Option<PathBuf> {
        let path = self.folder.join(&name.value);
        if path.is_file() {
            return Some(path);
        }
        let message = format!("there is no file `{}`", path.display());
        self.ron.mistake(message, name.span, "paths are relative to the folder of the spec");
        None
    }

    /// Returns the text of a file beside the spec.
    pub fn content(&mut self, name: &Spanned<String>) -> Option<Source> {
        let path = self.file(name)?;
        match std::fs::read_to_string(&path) {
            Ok(text) => Some(Source::new(path.display().to_string(), text)),
            Err(error) => {
                let message = format!("{}: {error}", path.display());
                self.ron.mistake(message, name.span, "it must be readable text");
                None
            }
        }
    }

    fn model(&mut self, model: Spanned<form::Model>) -> Option<Model> {
        let span = model.span;
        let form::Model { file, name, dims, weights } = model.value;
        let mut sizes = std::collections::BTreeMap::new();
        for (key, size) in dims.0 {
            let size = self.within(&key.text, Some(size), 1..=MOST * MOST);
            sizes.extend(size.map(|size| (key.text, size)));
        }
        let seeded = match weights.as_ref().map(|weights| (weights.as_str(), weights.span)) {
            None | Some(("given", _)) => false,
            Some(("seeded", _)) => true,
            Some((other, span)) => {
                self.unknown("weights", other, span, &["given", "seeded"]);
                return None;
            }
        };
        let Some(file) = file else {
            let head = Span::new(span.start, span.start + "Model".len());
            self.ron.mistake("`Model` lacks the field `file`", head, "add `file: \"model.onnx\"`");
            return None;
        };
        let file = self.file(&file)?;
        let name =
            name.unwrap_or_else(|| file.file_stem().unwrap_or_default().to_string_lossy().into_owned());
        Some(Model { name, file, dims: sizes, seeded })
    }

    /// Returns the pipeline for a spec that names none.
    fn native(&self) -> Option<(String, Pipeline)> {
        let (name, text) = self.registry.pipeline("native")?;
        let pipeline = Pipeline::read(&self.registry.scope(), name, text).ok()?;
        Some(("native".to_owned(), pipeline))
    }

    fn pipeline(&mut self, name: Spanned<String>) -> Option<(String, Pipeline)> {
        let (at, text) = match self.registry.pipeline(&name) {
            Some((at, text)) => (at.to_owned(), text.to_owned()),
            None if self.folder.join(&name.value).is_file() => {
                let source = self.content(&name)?;
                (source.name.to_string(), source.text.to_string())
            }
            None => {
                let known: Vec<&str> = self.registry.pipeline_names().collect();
                self.unknown("pipeline", &name, name.span, &known);
                return None;
            }
        };
        match Pipeline::read(&self.registry.scope(), &at, &text) {
            Ok(pipeline) => Some((name.value, pipeline)),
            Err(mistakes) => {
                self.ron.found().append(mistakes);
                None
            }
        }
    }

    fn part(&mut self, name: Spanned<String>) -> Option<String> {
        if PARTS.contains(&name.as_str()) {
            return Some(name.value);
        }
        self.unknown("part", &name, name.span, PARTS);
        None
    }

    fn machine(&mut self, machine: &form::Machine) -> Option<Machine> {
        let form::Machine { flops, memory, cache, start } = machine;
        let mut speed = |key: &str, number: &Spanned<f64>| {
            let right = number.value > 0.0 && number.value.is_finite();
            if !right {
                let message = format!("`{key}` must be a number above zero");
                self.ron.mistake(message, number.span, "write a speed, such as `2e11`");
            }
            right.then_some(number.value)
        };
        let flops = speed("flops", flops);
        let (memory, cache, start) = (speed("memory", memory), speed("cache", cache), speed("start", start));
        Some(Machine { flops: flops?, memory: memory?, cache: cache?, start: start?, ..Machine::NOMINAL })
    }
}

fn items<T>(list: List<T>) -> Vec<T> {
    list.map(|list| list.value).unwrap_or_default()
}
