//! A client in memory, with a folder of files and a registry with an op and a guard of its own.

use lsp_server::{Connection, Message, Notification, Request, RequestId};
use ovolo::registry::Registry;
use ovolo::rule::{Kind, Value, Word};
use ovolo_lsp::{ServeError, serve};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest time that a client waits for the server.
const PATIENCE: Duration = Duration::from_secs(120);

/// A table of functions that no crate of ovolo has.
const CUBE: &str = r#"[Function(name: "cube", doc: "x to the power 3", formula: "x * x * x")]"#;

/// The registry of the tests: native kernels, the op `cube` and the guard `is-lucky`.
pub fn registry() -> Arc<Registry> {
    static REGISTRY: OnceLock<Arc<Registry>> = OnceLock::new();
    let make = || {
        let mut registry = Registry::new();
        ovolo_native::register(&mut registry).unwrap();
        registry.add_functions("ops/mine.ron", CUBE).unwrap();
        let lucky = Word::guard("is-lucky", "the number is 7", &[Kind::Number], |_| Ok(Value::yes()));
        registry.add_word(lucky).unwrap();
        Arc::new(registry)
    };
    Arc::clone(REGISTRY.get_or_init(make))
}

/// A client with its server.
pub struct Client {
    connection: Connection,
    server: Option<JoinHandle<Result<(), ServeError>>>,
    folder: PathBuf,
    requests: i32,
    versions: i32,
    /// The notifications that came while an answer was awaited.
    notifications: Vec<Notification>,
}

impl Client {
    /// Starts a server for a new folder with these files.
    pub fn new(name: &str, files: &[(&str, &str)]) -> Self {
        Self::with_capabilities(name, files, json!({}))
    }

    pub fn with_capabilities(name: &str, files: &[(&str, &str)], capabilities: Json) -> Self {
        Self::started(name, files, &[""], capabilities)
    }

    /// Starts a server for some folders within a new one.
    pub fn with_folders(name: &str, folders: &[&str]) -> Self {
        Self::started(name, &[], folders, json!({}))
    }

    fn started(name: &str, files: &[(&str, &str)], folders: &[&str], capabilities: Json) -> Self {
        // A blank and a letter beyond ASCII, which addresses escape.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lsp é {name}"));
        let _ = std::fs::remove_dir_all(&folder);
        for (name, text) in files {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        std::fs::create_dir_all(&folder).unwrap();
        let (own, other) = Connection::memory();
        let server = std::thread::spawn(move || serve(registry(), &other));
        let mut client = Self {
            connection: own,
            server: Some(server),
            folder,
            requests: 0,
            versions: 0,
            notifications: Vec::new(),
        };
        let folders: Vec<Json> = folders
            .iter()
            .map(|name| json!({ "uri": client.uri(name).trim_end_matches('/'), "name": name }))
            .collect();
        client.ask("initialize", json!({ "capabilities": capabilities, "workspaceFolders": folders }));
        client.tell("initialized", json!({}));
        client
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn uri(&self, name: &str) -> String {
        format!("file://{}", self.path(name).display()).replace(' ', "%20").replace('é', "%C3%A9")
    }

    pub fn send(&self, message: Message) {
        self.connection.sender.send(message).unwrap();
    }

    pub fn tell(&self, method: &str, params: Json) {
        self.send(Notification { method: method.to_owned(), params }.into());
    }

    pub fn receive(&self) -> Message {
        self.connection.receiver.recv_timeout(PATIENCE).expect("the server answers")
    }

    /// Sends a request, and returns its result or its error.
    pub fn try_ask(&mut self, method: &str, params: Json) -> Result<Json, String> {
        self.requests += 1;
        let id = RequestId::from(self.requests);
        self.send(Request { id: id.clone(), method: method.to_owned(), params }.into());
        loop {
            match self.receive() {
                Message::Response(response) if response.id == id => {
                    let response = serde_json::to_value(response).unwrap();
                    return match response.get("error") {
                        Some(error) => Err(error["message"].as_str().unwrap().to_owned()),
                        None => Ok(response["result"].clone()),
                    };
                }
                Message::Notification(notification) => self.notifications.push(notification),
                other => panic!("{other:?}"),
            }
        }
    }

    pub fn ask(&mut self, method: &str, params: Json) -> Json {
        self.try_ask(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Opens a file with a text, in which `‸` is the cursor, and returns the position of the cursor.
    pub fn open(&mut self, name: &str, text: &str) -> Json {
        let (text, position) = cursor(text);
        let item = json!({ "uri": self.uri(name), "languageId": "ovolo", "version": 1, "text": text });
        self.tell("textDocument/didOpen", json!({ "textDocument": item }));
        self.versions = 1;
        json!({ "textDocument": { "uri": self.uri(name) }, "position": position })
    }

    /// Replaces a range of an open file, or all of it.
    pub fn change(&mut self, name: &str, range: Option<Json>, text: &str) {
        self.versions += 1;
        let document = json!({ "uri": self.uri(name), "version": self.versions });
        let change = match range {
            Some(range) => json!({ "range": range, "text": text }),
            None => json!({ "text": text }),
        };
        self.tell("textDocument/didChange", json!({ "textDocument": document, "contentChanges": [change] }));
    }

    /// Waits until the messages of a file are as they should be, and returns them.
    pub fn messages(&mut self, name: &str, until: impl Fn(&[Json]) -> bool) -> Vec<Json> {
        let uri = self.uri(name);
        loop {
            let next = match self.notifications.is_empty() {
                true => match self.receive() {
                    Message::Notification(notification) => notification,
                    other => panic!("{other:?}"),
                },
                false => self.notifications.remove(0),
            };
            let published = next.method == "textDocument/publishDiagnostics" && next.params["uri"] == uri;
            let list = next.params["diagnostics"].as_array().cloned().unwrap_or_default();
            if published && until(&list) {
                return list;
            }
        }
    }

    /// Returns the names that may stand at the cursor of a text.
    pub fn completions(&mut self, name: &str, text: &str) -> Vec<Json> {
        let at = self.open(name, text);
        self.ask("textDocument/completion", at).as_array().unwrap().clone()
    }

    /// Ends the server as a client should, and returns how it ended.
    pub fn end(mut self) -> Result<(), ServeError> {
        self.ask("shutdown", Json::Null);
        self.tell("exit", Json::Null);
        self.server.take().unwrap().join().unwrap()
    }

    /// Returns how the server ended.
    pub fn ended(mut self) -> Result<(), ServeError> {
        let server = self.server.take().unwrap();
        drop(self);
        server.join().unwrap()
    }
}

/// Returns a text without its cursor, and the position of the cursor in UTF-16.
pub fn cursor(text: &str) -> (String, Json) {
    let at = text.find('‸').unwrap_or(0);
    (text.replace('‸', ""), position(text, at))
}

/// Returns the position of a byte in UTF-16.
pub fn position(text: &str, at: usize) -> Json {
    let before = &text[..at];
    let line = before.rsplit('\n').next().unwrap();
    json!({ "line": before.matches('\n').count(), "character": line.encode_utf16().count() })
}

/// Returns the labels of completion items.
pub fn labels(items: &[Json]) -> Vec<&str> {
    items.iter().map(|item| item["label"].as_str().unwrap()).collect()
}

/// Returns a text with the edits of a file applied.
pub fn edited(text: &str, edits: &[Json]) -> String {
    let byte = |position: &Json| {
        let line = usize::try_from(position["line"].as_u64().unwrap()).unwrap();
        let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
        let mut units = position["character"].as_u64().unwrap();
        let mut at = start;
        for c in text[start..].chars() {
            if units == 0 {
                break;
            }
            units -= c.len_utf16() as u64;
            at += c.len_utf8();
        }
        at
    };
    let mut edits: Vec<(usize, usize, &str)> = edits
        .iter()
        .map(|edit| {
            let range = &edit["range"];
            (byte(&range["start"]), byte(&range["end"]), edit["newText"].as_str().unwrap())
        })
        .collect();
    edits.sort_unstable();
    let mut text = text.to_owned();
    for (start, end, new) in edits.into_iter().rev() {
        text.replace_range(start..end, new);
    }
    text
}
