//! The server: takes messages of the client, answers requests, and publishes diagnostics when the client is quiet.

use crate::ServeError;
use crate::address;
use crate::capability::capabilities;
use crate::check;
use crate::document::Document;
use crate::encoding::Encoding;
use crate::finding::{self, Findings, Job};
use crate::kind::Kind;
use crate::message::{self, Messages};
use crate::project::Project;
use crate::request;
use crossbeam_channel::{Receiver, Sender, after, never, select, unbounded};
use lsp_server::{Connection, Message, Notification, Request};
use lsp_types::notification::{
    DidChangeTextDocument, DidChangeWatchedFiles, DidCloseTextDocument, DidOpenTextDocument,
    DidSaveTextDocument, Exit, LogMessage, Notification as Method, PublishDiagnostics,
};
use lsp_types::request::{RegisterCapability, Request as _};
use lsp_types::{
    DidChangeTextDocumentParams, DidChangeWatchedFilesParams, DidCloseTextDocumentParams,
    DidOpenTextDocumentParams, DidSaveTextDocumentParams, InitializeParams, LogMessageParams, MessageType,
    PublishDiagnosticsParams, Registration, RegistrationParams, Uri,
};
use ovolo::registry::Registry;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Files are checked when the client has sent nothing for this long, so that not every letter is checked on its own.
const QUIET: Duration = Duration::from_millis(100);

/// A server with its client.
pub struct Server {
    project: Project,
    sender: Sender<Message>,
    /// The files that are to be checked, and whether their texts are those on the disk.
    changed: BTreeMap<PathBuf, bool>,
    /// The mistakes of open files.
    mistakes: Messages,
    /// Takes the folders in which findings are to be looked for.
    jobs: Sender<Job>,
    findings: Receiver<Findings>,
}

impl Server {
    /// Greets the client: takes its folders, agrees on the encoding of positions, and asks it to watch files.
    pub fn start(registry: Arc<Registry>, connection: &Connection) -> Result<Self, ServeError> {
        let (id, params) = connection.initialize_start()?;
        let params: InitializeParams = serde_json::from_value(params)?;
        let encoding = Encoding::negotiated(&params);
        let result = serde_json::json!({
            "capabilities": capabilities(encoding),
            "serverInfo": { "name": "ovolo", "version": env!("CARGO_PKG_VERSION") },
        });
        connection.initialize_finish(id, result)?;
        let (jobs, findings) = looker(Arc::clone(&registry));
        let server = Self {
            project: Project::new(registry, roots(&params), encoding),
            sender: connection.sender.clone(),
            changed: BTreeMap::new(),
            mistakes: Messages::new(),
            jobs,
            findings,
        };
        let watching = params.capabilities.workspace.and_then(|workspace| workspace.did_change_watched_files);
        if watching.and_then(|watching| watching.dynamic_registration) == Some(true) {
            server.watch();
        }
        Ok(server)
    }

    /// Serves the client until it goes.
    pub fn run(mut self, connection: &Connection) -> Result<(), ServeError> {
        loop {
            let quiet = if self.changed.is_empty() { never() } else { after(QUIET) };
            select! {
                recv(connection.receiver) -> message => match message {
                    Ok(Message::Request(request)) if connection.handle_shutdown(&request)? => return Ok(()),
                    Ok(Message::Request(request)) => self.request(request),
                    Ok(Message::Notification(notification)) if notification.method == Exit::METHOD => {
                        return Err(ServeError::Exit);
                    }
                    Ok(Message::Notification(Notification { method, params })) => {
                        if let Err(why) = self.notified(&method, params) {
                            self.log(format!("the parameters of `{method}` cannot be read: {why}"));
                        }
                    }
                    // The only request of the server, to watch files, has an empty answer.
                    Ok(Message::Response(_)) => {}
                    Err(_) => return Ok(()),
                },
                recv(self.findings) -> found => match found {
                    Ok(found) => self.found(&found),
                    Err(_) => {
                        self.findings = never();
                        self.log("the check of rules has failed: only mistakes are told from now on".to_owned());
                    }
                },
                recv(quiet) -> _ => self.check(),
            }
        }
    }

    fn request(&mut self, request: Request) {
        let response = request::answer(&mut self.project, request);
        self.send(response.into());
    }

    fn send(&self, message: Message) {
        // A client that has gone needs no answer; the next receive ends the server.
        let _ = self.sender.send(message);
    }

    fn notify<N: Method>(&self, params: N::Params)
    where
        N::Params: Serialize,
    {
        self.send(Notification::new(N::METHOD.to_owned(), params).into());
    }

    /// Asks the client to tell of RON files that change on the disk.
    fn watch(&self) {
        let registration = Registration {
            id: "files".to_owned(),
            method: DidChangeWatchedFiles::METHOD.to_owned(),
            register_options: Some(serde_json::json!({ "watchers": [{ "globPattern": "**/*.ron" }] })),
        };
        let params = RegistrationParams { registrations: vec![registration] };
        self.send(Request::new(1.into(), RegisterCapability::METHOD.to_owned(), params).into());
    }

    fn log(&self, message: String) {
        self.notify::<LogMessage>(LogMessageParams { typ: MessageType::ERROR, message });
    }

    /// Takes a notification.
    ///
    /// # Errors
    /// If its parameters cannot be read.
    fn notified(&mut self, method: &str, params: Value) -> Result<(), serde_json::Error> {
        match method {
            DidOpenTextDocument::METHOD => {
                let DidOpenTextDocumentParams { text_document: opened } = serde_json::from_value(params)?;
                let Some(path) = address::path(&opened.uri) else { return Ok(()) };
                let document = Document::new(&path, opened.text, Some(opened.version));
                self.project.workspace.open(path.clone(), document);
                self.changed.insert(path, true);
            }
            DidChangeTextDocument::METHOD => {
                let DidChangeTextDocumentParams { text_document, content_changes } =
                    serde_json::from_value(params)?;
                let Some(path) = address::path(&text_document.uri) else { return Ok(()) };
                let Some(document) = self.project.workspace.get(&path).cloned() else { return Ok(()) };
                let encoding = self.project.encoding;
                let document = document.changed(&path, content_changes, text_document.version, encoding);
                self.project.workspace.open(path.clone(), document);
                self.changed.insert(path, false);
            }
            DidSaveTextDocument::METHOD => {
                let DidSaveTextDocumentParams { text_document, .. } = serde_json::from_value(params)?;
                let path = address::path(&text_document.uri);
                self.changed.extend(path.map(|path| (path, true)));
            }
            DidCloseTextDocument::METHOD => {
                let DidCloseTextDocumentParams { text_document } = serde_json::from_value(params)?;
                let Some(path) = address::path(&text_document.uri) else { return Ok(()) };
                self.project.workspace.close(&path);
                self.mistakes.remove(&path);
                self.changed.insert(path.clone(), true);
                self.publish(&path, None, Vec::new());
            }
            DidChangeWatchedFiles::METHOD => {
                let DidChangeWatchedFilesParams { changes } = serde_json::from_value(params)?;
                for path in changes.iter().filter_map(|change| address::path(&change.uri)) {
                    self.project.workspace.refresh(&path);
                    self.changed.entry(path).or_insert(false);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks the files that have changed, and those that depend on them.
    fn check(&mut self) {
        let changed = std::mem::take(&mut self.changed);
        let open: Vec<(PathBuf, Arc<Document>)> = self
            .project
            .workspace
            .opened()
            .map(|(path, document)| (path.to_owned(), Arc::clone(document)))
            .collect();
        let get = |path: &Path| self.project.workspace.get(path).cloned();
        let unit = |path: &Path| get(path).and_then(|document| Project::unit(path, &document));
        let kind = |path: &Path| get(path).map(|document| document.kind);
        let mut units: BTreeSet<PathBuf> = changed.keys().filter_map(|path| unit(path)).collect();
        // A file that was deleted, or is no longer one of rules, may have belonged to any folder.
        let is_lost =
            |path: &PathBuf| get(path).is_none_or(|one| !matches!(one.kind, Kind::Rules | Kind::Examples));
        if changed.keys().any(is_lost) {
            units.extend(open.iter().filter_map(|(path, document)| Project::unit(path, document)));
        }
        let rules_changed = changed.keys().any(|path| kind(path).is_none_or(|kind| kind == Kind::Rules));
        for (path, document) in &open {
            let depends = document.kind == Kind::Pipeline && rules_changed;
            if Project::unit(path, document).is_none() && (depends || changed.contains_key(path)) {
                let saved = changed.get(path).copied().unwrap_or(false);
                let found = check::file(&mut self.project, path, document, saved);
                self.tell(path, document, found);
            }
        }
        for folder in units {
            let is_inside = |(path, document): &&(PathBuf, Arc<Document>)| {
                Project::unit(path, document).as_deref() == Some(&folder)
            };
            let members: Vec<_> = open.iter().filter(is_inside).collect();
            if members.is_empty() {
                continue;
            }
            let mut found = check::rules(&self.project, &folder);
            for (path, document) in &members {
                let own = found.remove(path.as_path()).unwrap_or_default();
                self.tell(path, document, Messages::from([(path.clone(), own)]));
            }
            self.look(folder);
        }
    }

    /// Keeps and publishes the mistakes of an open file.
    fn tell(&mut self, path: &Path, document: &Document, mut found: Messages) {
        let mistakes = found.remove(path).unwrap_or_default();
        self.publish(path, document.version, mistakes.clone());
        self.mistakes.insert(path.to_owned(), mistakes);
    }

    fn publish(&self, path: &Path, version: Option<i32>, diagnostics: Vec<lsp_types::Diagnostic>) {
        if let Some(uri) = address::uri(path) {
            self.notify::<PublishDiagnostics>(PublishDiagnosticsParams { uri, diagnostics, version });
        }
    }

    /// Returns the open files of a folder of rules with their versions.
    fn versions(&self, folder: &Path) -> Vec<(PathBuf, Option<i32>)> {
        let opened = self.project.workspace.opened();
        let inside =
            opened.filter(|(path, document)| Project::unit(path, document).as_deref() == Some(folder));
        inside.map(|(path, document)| (path.to_owned(), document.version)).collect()
    }

    /// Has findings looked for in a folder of rules.
    fn look(&self, folder: PathBuf) {
        let workspace = &self.project.workspace;
        let named =
            |(path, document): (PathBuf, Arc<Document>)| (workspace.name(&path), document.text.clone());
        let versions = self.versions(&folder);
        let job = Job {
            files: self.project.members(&folder).into_iter().map(named).collect(),
            // Findings about examples are those of their rules.
            open: versions
                .iter()
                .filter_map(|(path, _)| match workspace.get(path)?.kind {
                    Kind::Examples => crate::workspace::Workspace::rules_of(path),
                    _ => Some(path.clone()),
                })
                .map(|path| workspace.name(&path))
                .collect(),
            pipelines: workspace
                .of_kind(Kind::Pipeline)
                .map(|(path, document)| (path.to_owned(), document.text.clone()))
                .collect(),
            shipped: Arc::clone(self.project.rules.shipped()),
            versions,
            folder,
        };
        // If the thread has failed, that was told.
        let _ = self.jobs.send(job);
    }

    /// Publishes findings beside the mistakes, unless the files have changed since.
    fn found(&self, findings: &Findings) {
        if findings.versions != self.versions(&findings.folder) {
            return;
        }
        let mut messages = Messages::new();
        let place = (&self.project.workspace, self.project.encoding);
        message::add(&mut messages, &findings.found, |at| findings.weights[at], place);
        for (path, version) in &findings.versions {
            let mistakes = self.mistakes.get(path).cloned().unwrap_or_default();
            let own = messages.remove(path).unwrap_or_default();
            self.publish(path, *version, mistakes.into_iter().chain(own).collect());
        }
    }
}

/// Starts the thread that looks for findings. It ends when no more jobs can come, and of several jobs of one folder does
/// the last.
fn looker(registry: Arc<Registry>) -> (Sender<Job>, Receiver<Findings>) {
    let (jobs, waiting) = unbounded::<Job>();
    let (sender, findings) = unbounded();
    thread::spawn(move || {
        while let Ok(first) = waiting.recv() {
            let mut latest: BTreeMap<PathBuf, Job> = BTreeMap::new();
            for job in std::iter::once(first).chain(waiting.try_iter()) {
                latest.insert(job.folder.clone(), job);
            }
            for job in latest.into_values() {
                if sender.send(finding::look(&registry, job)).is_err() {
                    return;
                }
            }
        }
    });
    (jobs, findings)
}

/// Returns the folders that the client has open.
fn roots(params: &InitializeParams) -> Vec<PathBuf> {
    let folders = params.workspace_folders.iter().flatten().map(|folder| &folder.uri);
    #[allow(deprecated)] // Older clients give one folder so.
    let root = params.root_uri.iter().filter(|_| params.workspace_folders.is_none());
    folders.chain(root).filter_map(|uri: &Uri| address::path(uri)).collect()
}
