//! `ovolo cache why`.

use super::super::caching::times;
use super::super::{Outcome, Settings, print};
use super::{open, short, shown};
use clap::Args;
use ovolo::cache::{Difference, Nearest};
use ovolo::registry::Registry;
use std::fmt::Write;
use std::sync::Arc;

#[derive(Args)]
pub(crate) struct Why {
    #[command(flatten)]
    settings: Settings,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Why {
    pub(super) fn run(&self, registry: &Arc<Registry>) -> Outcome {
        let cache = open(registry)?;
        let request = self.settings.request(registry, &self.settings.pipeline)?;
        let key = request.key(registry).map_err(|error| error.to_string())?;
        let name = key.fingerprint();
        // An entry with exactly this key that cannot be used reports the reason itself.
        let miss = cache.look_plan(&key, times(registry, &request).as_ref()).err();
        if miss.is_some() {
            // A run would compile, so report here whatever the compilation would refuse.
            self.settings.check(registry, &request)?;
        }
        let nearest = match &miss {
            Some(_) => cache.nearest(&key).filter(|nearest| !nearest.differences.is_empty()),
            None => None,
        };
        if self.json {
            let nearest = nearest.as_ref().map(|Nearest { item, differences }| {
                let model = item.entry.as_ref().map(|entry| entry.model.clone()).unwrap_or_default();
                serde_json::json!({ "entry": item.name, "model": model, "differences": differences })
            });
            let value = serde_json::json!({
                "entry": name.to_string(), "hit": miss.is_none(),
                "why": miss.as_ref().map(ToString::to_string), "nearest": nearest,
            });
            print(&format!("{value}\n"));
            return Ok(());
        }
        let mut text = match &miss {
            None => format!("hit: entry {}\n", name.short()),
            Some(miss) => format!("miss: entry {}: {miss}\n", name.short()),
        };
        if let Some(Nearest { item, differences }) = nearest {
            let model = item.entry.as_ref().map(|entry| shown(&entry.model)).unwrap_or_default();
            let fields = if differences.len() == 1 { "field" } else { "fields" };
            let _ = writeln!(
                text,
                "the nearest entry is {} of {model}, which differs in {} {fields} of the key:",
                short(&item),
                differences.len()
            );
            for difference in &differences {
                let Difference { field, here, there } = difference;
                let said = |value: &Option<String>| {
                    value.as_deref().map_or_else(|| "no such field".to_owned(), shown)
                };
                let _ = writeln!(text, "  {field}: {} here", said(here));
                let _ = writeln!(text, "  {:>1$}  {2} there", "", field.len(), said(there));
            }
        }
        print(&text);
        Ok(())
    }
}
