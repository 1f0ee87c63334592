//! `ovolo save-cache` and `ovolo load-cache`.

use super::amount::size;
use super::caching::{cache, settled, times};
use super::load::any;
use super::page;
use super::{BUILDS, Outcome, Settings, print};
use clap::Args;
use ovolo::cache::{self, Cache, Entry};
use ovolo::cost::Machine;
use ovolo::registry::Registry;
use ovolo::session::{self, Session};
use ovolo_tune::Tuner;
use ovolo_tune::calibrate;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Args)]
pub(super) struct Save {
    #[command(flatten)]
    settings: Settings,
    /// The file to write.
    file: PathBuf,
}

impl Save {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        page::writable("", &self.file, &self.settings.inputs())?;
        let cache = cache(registry);
        let request = self.settings.request(registry, &self.settings.pipeline)?;
        let mut key = request.key(registry).map_err(|error| error.to_string())?;
        let hit =
            cache.as_ref().filter(|cache| cache.find_plan(&key, times(registry, &request).as_ref()).is_ok());
        if let Some(cache) = hit {
            cache.save(&key, &self.file).map_err(|error| error.to_string())?;
        } else {
            let built = self.settings.build(registry, &request, &any)?;
            let plan = &built.compilation.plan;
            let constants = Session::constants_of(&built.compilation.program, plan);
            let constants = session::in_order(&constants);
            let origin;
            (key, origin) = settled(registry, &key, &request, &built.prices)?;
            // Writing the file does not need a writable cache.
            if let Some(cache) = &cache
                && let Err(why) = cache.keep_plan(&key, plan, &constants, origin.clone())
            {
                eprintln!("note: the plan was not stored in the cache: {why}");
            }
            Cache::save_plan(&key, plan, &constants, origin, &self.file)
                .map_err(|error| error.to_string())?;
        }
        let bytes = std::fs::metadata(&self.file).map_or(0, |meta| meta.len());
        print(&format!("{}: entry {}, {}\n", self.file.display(), key.fingerprint().short(), size(bytes)));
        Ok(())
    }
}

#[derive(Args)]
pub(super) struct Load {
    /// A file of `save-cache`.
    file: PathBuf,
}

const NO_FOLDER: &str = "there is no folder for the cache: set OVOLO_CACHE";

impl Load {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let cache = cache(registry).ok_or(NO_FOLDER)?;
        let entry = cache
            .load(&self.file, &|entry| fits(entry, registry).err())
            .map_err(|error| error.to_string())?;
        print(&format!(
            "entry {} of {}: {} steps, added to the cache\n",
            entry.key.fingerprint().short(),
            entry.model,
            entry.plan.steps()
        ));
        if entry.key.get("cost model") == Some("measured") {
            eprintln!(
                "note: it was chosen by measured times: commands use it where `--cost measured` is given"
            );
        }
        Ok(())
    }
}

/// Checks whether a run on this machine would use the entry. The speeds and times that it was chosen by are
/// added if there are none.
fn fits(entry: &Entry, registry: &Registry) -> Result<(), String> {
    let elsewhere = cache::elsewhere(&entry.key, registry, BUILDS);
    if let Some(first) = elsewhere.first() {
        let more = if elsewhere.len() > 1 { ", and more" } else { "" };
        let said = |value: &Option<String>| match value {
            Some(value) => format!("is `{value}`"),
            None => "does not exist".to_owned(),
        };
        return Err(format!(
            "it belongs to another machine or version: {} {} there and {} here{more}",
            first.field,
            said(&first.there),
            said(&first.here)
        ));
    }
    let threads = entry.plan.threads();
    let kept = calibrate::kept(registry.backends(), threads);
    match (entry.machine, kept) {
        (Some(machine), None) => calibrate::keep_machine(registry.backends(), threads, machine)
            .map_err(|error| error.to_string())?,
        (there, here) if there == here || entry.key.get("calibration") == Some("not asked") => {}
        _ => {
            return Err(format!(
                "it was priced by speeds other than those kept here: remove machine-{threads}.json to use it"
            ));
        }
    }
    if let Some(basis) = &entry.basis {
        let folder = cache::home();
        let machine = entry.machine.unwrap_or(Machine::NOMINAL);
        let mut tuner = Tuner::open(folder.as_deref(), threads, machine, registry.backends());
        tuner.adopt(basis).map_err(|why| {
            format!("it was chosen by times other than those kept here ({why}): remove times-{threads}.txt to use it")
        })?;
    }
    Ok(())
}
