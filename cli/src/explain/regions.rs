//! Explains the regions of a model whose shapes depend on its inputs.

use super::super::dynamic::{Seen, directory_or_zeros, found_text, open, region_json};
use super::super::load::options;
use super::super::{Outcome, page, print};
use super::{Explain, comparing, runner_ups, text};
use ovolo::compile;
use ovolo::dynamic::RegionReport;
use ovolo::onnx::Item;
use ovolo::plan::Plan;
use ovolo::registry::Registry;
use ovolo::tensor::Tensor;
use ovolo_lab::report::{self, Page};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

impl Explain {
    /// Explains the regions that a run on inputs passes. Without inputs, only the first region is known.
    pub(super) fn regions(
        &self,
        registry: &Arc<Registry>,
        given: Option<&BTreeMap<String, Item<Tensor>>>,
    ) -> Outcome {
        if self.runner_up || self.memory_curve.is_some() || self.price.is_some() || !self.what_if.is_empty() {
            return Err(
                "--runner-up, --memory-curve, --price and --what-if ask about one plan, and this model runs as \
                        several regions; --html shows the runners-up of each region"
                    .to_owned(),
            );
        }
        let seen = Seen::default();
        let mut session = open(&self.settings, None, registry, Some(Arc::clone(&seen)))?;
        let mut told = Told { json: self.json, ..Told::default() };
        let stopped = match given {
            Some(given) => {
                let result = session.run_and_report(given, &mut |region, plan| told.add(region, plan));
                result.err().map(|error| error.to_string())
            }
            None => {
                let zeros = directory_or_zeros(&self.settings, &session, None).map_err(|why| {
                    format!("{why}\n  help: --input NAME=FILE, as for `ovolo run`, gives sizes and values")
                })?;
                let region = session.prepare(&zeros).map_err(|error| error.to_string())?;
                let plan = region.plan.as_ref().and_then(|plan| session.plan(plan));
                told.add(&region, plan);
                region.why.map(|_| {
                    "what comes next depends on values: give --input NAME=FILE for each input, as for `ovolo run`"
                        .to_owned()
                })
            }
        };
        // A run that does not begin has no regions to show.
        if let (0, Some(why)) = (told.count, &stopped) {
            return Err(why.clone());
        }
        if let Some(file) = &self.html {
            return self.pages(registry, file, &seen);
        }
        print(&told.finish(stopped.as_deref()));
        Ok(())
    }

    /// Writes a page for each plan. The pages after the first have their number in the name.
    fn pages(&self, registry: &Arc<Registry>, file: &Path, seen: &Seen) -> Outcome {
        let request = self.settings.request(registry, &self.settings.pipeline)?;
        let (options, _) = options(registry, &request)?;
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, (_, graph)) in seen.iter().enumerate() {
            let file = numbered(file, at + 1);
            page::writable("--html ", &file, &self.settings.inputs())?;
            let compilation = compile::compile(graph.clone(), &options).map_err(|error| error.to_string())?;
            let runner_ups = runner_ups(graph, &options, &mut comparing())?;
            let title = format!("{}, region {}", self.settings.title(), at + 1);
            let shown = Page {
                title: &title,
                settings: &self.settings.account(registry, &compilation.plan)?,
                imported: Some(graph),
                program: &compilation.program,
                plan: &compilation.plan,
                runner_ups: Some(&runner_ups),
                profile: None,
            };
            page::write_page(&file, &shown)?;
        }
        Ok(())
    }
}

/// Returns the name of the file of a region: `x.html`, `x-2.html`, and so on.
fn numbered(file: &Path, number: usize) -> PathBuf {
    if number == 1 {
        return file.to_owned();
    }
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let ending = file.extension().map_or_else(String::new, |ending| format!(".{}", ending.to_string_lossy()));
    file.with_file_name(format!("{stem}-{number}{ending}"))
}

/// What is to be printed of the regions that were passed.
#[derive(Default)]
struct Told {
    json: bool,
    text: String,
    list: Vec<serde_json::Value>,
    /// The plans that were shown, each with the number of its first region.
    shown: BTreeMap<String, usize>,
    /// The numbers of regions that compute nothing.
    empty: BTreeSet<usize>,
    count: usize,
}

impl Told {
    fn add(&mut self, region: &RegionReport, plan: Option<&Plan>) {
        self.count += 1;
        let number = self.count;
        let name = region.plan.map(|plan| plan.to_string()).unwrap_or_default();
        let first = *self.shown.entry(name).or_insert(number);
        if self.json {
            let mut value = region_json(region);
            if let Some(plan) = plan.filter(|_| first == number) {
                value["explained"] = report::plan(plan);
            }
            self.list.push(value);
            return;
        }
        let _ = writeln!(self.text, "region {number}: {}", region.key);
        match plan {
            None => {
                self.empty.insert(number);
                let _ = writeln!(self.text, "{}", found_text(region.found));
            }
            Some(plan) if first == number => self.text.push_str(&text(plan)),
            Some(_) => {
                let _ = writeln!(self.text, "the plan of region {first}");
            }
        }
        let why = region.why.as_deref().unwrap_or("the end of the model");
        let _ = writeln!(self.text, "region {number} ends there: {why}\n");
    }

    fn finish(self, stopped: Option<&str>) -> String {
        if self.json {
            return format!("{}\n", json!({ "regions": self.list, "stopped": stopped }));
        }
        let plans = self.shown.len() - usize::from(!self.empty.is_empty());
        let stopped = stopped.map_or_else(String::new, |why| format!("{why}\n"));
        format!("{}{} region(s), {plans} plan(s)\n{stopped}", self.text, self.count)
    }
}
