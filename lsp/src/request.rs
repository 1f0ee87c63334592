//! The answers to requests.

use crate::address;
use crate::completion;
use crate::document::Document;
use crate::formatting;
use crate::hover;
use crate::project::Project;
use crate::reference::{self, Place};
use crate::rename::{self, RenameError};
use crate::structure;
use crate::symbol;
use lsp_server::{ErrorCode, Request, Response};
use lsp_types::request::{
    Completion, DocumentHighlightRequest, DocumentSymbolRequest, Formatting, GotoDefinition, HoverRequest,
    PrepareRenameRequest, References, Rename, Request as Method,
};
use lsp_types::{
    CompletionParams, DocumentFormattingParams, DocumentHighlight, DocumentHighlightParams,
    DocumentSymbolParams, GotoDefinitionParams, HoverParams, Location, PrepareRenameResponse,
    ReferenceParams, RenameParams, TextDocumentIdentifier, TextDocumentPositionParams, TextEdit, Uri,
    WorkspaceEdit,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("the request `{0}` is not known")]
    Unknown(String),
    #[error("the parameters cannot be read: {0}")]
    Parameters(#[from] serde_json::Error),
    #[error("{0}")]
    Rename(#[from] RenameError),
}

impl Refusal {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Unknown(_) => ErrorCode::MethodNotFound,
            Self::Parameters(_) => ErrorCode::InvalidParams,
            Self::Rename(_) => ErrorCode::RequestFailed,
        }
    }
}

/// Answers a request.
pub fn answer(project: &mut Project, request: Request) -> Response {
    let id = request.id.clone();
    match value(project, request) {
        Ok(value) => Response::new_ok(id, value),
        Err(refusal) => Response::new_err(id, refusal.code() as i32, refusal.to_string()),
    }
}

fn value(project: &mut Project, request: Request) -> Result<Value, Refusal> {
    let Request { method, params, .. } = request;
    match method.as_str() {
        Completion::METHOD => {
            let CompletionParams { text_document_position: place, .. } = read(params)?;
            write(target(project, &place).map(|(path, _, at)| completion::complete(project, &path, at)))
        }
        HoverRequest::METHOD => {
            let HoverParams { text_document_position_params: place, .. } = read(params)?;
            write(target(project, &place).and_then(|(path, _, at)| hover::hover(project, &path, at)))
        }
        GotoDefinition::METHOD => {
            let GotoDefinitionParams { text_document_position_params: place, .. } = read(params)?;
            let places = target(project, &place).and_then(|(path, document, at)| {
                let one = symbol::at(&document, at)?;
                Some(reference::definition(project, &path, &document, &one))
            });
            write(places.map(|places| locations(project, places)))
        }
        References::METHOD => {
            let ReferenceParams { text_document_position: place, .. } = read(params)?;
            let places = references(project, &place);
            write(places.map(|(_, places)| locations(project, places)))
        }
        DocumentHighlightRequest::METHOD => {
            let DocumentHighlightParams { text_document_position_params: place, .. } = read(params)?;
            write(references(project, &place).map(|((here, document), places)| {
                let own = places.into_iter().filter(|(path, _)| *path == here);
                let range = |(_, span)| project.encoding.range(&document.text, span);
                own.map(|place| DocumentHighlight { range: range(place), kind: None }).collect::<Vec<_>>()
            }))
        }
        PrepareRenameRequest::METHOD => {
            let place: TextDocumentPositionParams = read(params)?;
            let Some((_, document, at)) = target(project, &place) else { return write(()) };
            let one = rename::prepare(project, &document, at)?;
            let range = project.encoding.range(&document.text, one.span);
            let placeholder = one.span.slice(&document.text).to_owned();
            write(PrepareRenameResponse::RangeWithPlaceholder { range, placeholder })
        }
        Rename::METHOD => {
            let RenameParams { text_document_position: place, new_name, .. } = read(params)?;
            let Some((path, document, at)) = target(project, &place) else { return write(()) };
            let (places, new) = rename::rename(project, &path, &document, at, &new_name)?;
            write(edit(project, places, &new))
        }
        DocumentSymbolRequest::METHOD => {
            let DocumentSymbolParams { text_document: TextDocumentIdentifier { uri }, .. } = read(params)?;
            let document = document(project, &uri);
            write(document.map(|(_, document)| structure::structure(&document, project.encoding)))
        }
        Formatting::METHOD => {
            let DocumentFormattingParams { text_document: TextDocumentIdentifier { uri }, .. } =
                read(params)?;
            let document = document(project, &uri);
            write(document.map(|(path, document)| {
                formatting::format(&document, &project.workspace.name(&path), project.encoding)
            }))
        }
        _ => Err(Refusal::Unknown(method)),
    }
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, Refusal> {
    Ok(serde_json::from_value(params)?)
}

fn write(value: impl Serialize) -> Result<Value, Refusal> {
    Ok(serde_json::to_value(value)?)
}

/// Returns the file of an address, if it is known.
fn document(project: &Project, uri: &Uri) -> Option<(PathBuf, Arc<Document>)> {
    let path = address::path(uri)?;
    let document = Arc::clone(project.workspace.get(&path)?);
    Some((path, document))
}

/// Returns the file and the byte of a position.
fn target(project: &Project, place: &TextDocumentPositionParams) -> Option<(PathBuf, Arc<Document>, usize)> {
    let (path, document) = document(project, &place.text_document.uri)?;
    let at = project.encoding.byte(&document.text, place.position);
    Some((path, document, at))
}

/// Returns the places of the name at a position, with the file of the position.
#[allow(clippy::type_complexity)] // A file, and places in files.
fn references(
    project: &Project,
    place: &TextDocumentPositionParams,
) -> Option<((PathBuf, Arc<Document>), Vec<Place>)> {
    let (path, document, at) = target(project, place)?;
    let one = symbol::at(&document, at)?;
    let places = reference::places(project, &path, &document, &one);
    Some(((path, document), places))
}

fn location(project: &Project, (path, span): Place) -> Option<Location> {
    let document = project.workspace.get(&path)?;
    Some(Location::new(address::uri(&path)?, project.encoding.range(&document.text, span)))
}

fn locations(project: &Project, places: Vec<Place>) -> Vec<Location> {
    places.into_iter().filter_map(|place| location(project, place)).collect()
}

#[allow(clippy::mutable_key_type)] // The protocol's edits are a map by address, which is never changed.
fn edit(project: &Project, places: Vec<Place>, new: &str) -> WorkspaceEdit {
    let mut changes: HashMap<Uri, Vec<TextEdit>> = HashMap::new();
    for Location { uri, range } in locations(project, places) {
        changes.entry(uri).or_default().push(TextEdit { range, new_text: new.to_owned() });
    }
    WorkspaceEdit { changes: Some(changes), ..WorkspaceEdit::default() }
}
