//! Pages with pictures: what they show about the settings, and the files they are written to.

use super::{Settings, print};
use ovolo::graph::text;
use ovolo::onnx;
use ovolo::plan::Plan;
use ovolo::registry::Registry;
use ovolo_lab::report::Page;
use std::path::{Path, PathBuf};

impl Settings {
    /// The name of the model's file.
    pub(super) fn title(&self) -> String {
        self.model.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Every existing file that a compilation reads.
    pub(super) fn inputs(&self) -> Vec<PathBuf> {
        let mut files = vec![self.model.clone(), PathBuf::from(&self.pipeline)];
        files.extend(self.costs.clone());
        files.extend(self.learned.clone());
        files.extend(self.own_rules().into_iter().flatten().map(|(name, _)| PathBuf::from(name)));
        files.extend(self.weights.clone());
        // Mistakes in the model are reported where it is read.
        for model in [Some(&self.model), self.weights.as_ref()].into_iter().flatten() {
            if !text::is_named(model) {
                files.extend(onnx::external(model).into_iter().flatten().filter_map(|(_, path)| path));
            }
        }
        files
    }

    /// Describes how a plan was made, for a reader: names and values.
    pub(super) fn account(
        &self,
        registry: &Registry,
        plan: &Plan,
    ) -> Result<Vec<(&'static str, String)>, String> {
        let pipeline = self.request(registry, &self.pipeline)?.pipeline;
        let extract = pipeline.extract().cloned();
        let mut account = vec![("ovolo", env!("CARGO_PKG_VERSION").to_owned()), ("pipeline", pipeline.name)];
        if let Some(extract) = &extract {
            let (cost, extractor) = (extract.cost.name(), extract.extractor.name());
            account.extend([("cost model", cost.to_owned()), ("extractor", extractor.to_owned())]);
        }
        account.push(("threads", plan.threads.to_string()));
        if !self.dims.is_empty() {
            account.push(("dim", self.dims.join(" ")));
        }
        Ok(account)
    }
}

/// Refuses a file that cannot be written, or that would replace an input, before the work is done.
pub(super) fn writable(what: &str, file: &Path, inputs: &[PathBuf]) -> Result<(), String> {
    let said = |why: &str| Err(format!("{what}{}: {why}", file.display()));
    if let Err(why) = ovolo::file::spare(file, inputs.iter().map(PathBuf::as_path)) {
        return said(&why.to_string());
    }
    if file.is_dir() || file.file_name().is_none() {
        return said("is a directory");
    }
    // Writing would replace it.
    if std::fs::symlink_metadata(file).is_ok_and(|there| !there.is_file()) {
        return said("exists and is not a regular file");
    }
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            said(&format!("the directory {} does not exist", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Writes a page, and reports it.
pub(super) fn write_page(file: &Path, page: &Page<'_>) -> Result<(), String> {
    let html = page.html();
    ovolo::file::write(file, &[html.as_bytes()])
        .map_err(|error| format!("--html {}: {error}", file.display()))?;
    print(&format!("{}: {} steps, {} bytes\n", file.display(), page.plan.steps.len(), html.len()));
    Ok(())
}

/// Returns the name of a model: that of its file without extension, or of its folder if the file is called `model`.
pub(super) fn title(model: &Path) -> String {
    let stem = model.file_stem().unwrap_or_default();
    let folder = model.parent().and_then(Path::file_name).filter(|_| stem == "model");
    folder.unwrap_or(stem).to_string_lossy().into_owned()
}
