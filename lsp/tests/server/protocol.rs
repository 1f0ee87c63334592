//! The protocol itself: what the server offers, and how it ends.

use crate::client::{Client, registry};
use lsp_server::{Connection, Message, Request};
use ovolo_lsp::{ServeError, serve};
use serde_json::json;

#[test]
fn the_server_says_what_it_can_do() {
    let (own, other) = Connection::memory();
    let server = std::thread::spawn(move || serve(registry(), &other));
    own.sender
        .send(
            Request { id: 1.into(), method: "initialize".into(), params: json!({ "capabilities": {} }) }
                .into(),
        )
        .unwrap();
    let Message::Response(response) = own.receiver.recv().unwrap() else { panic!("an answer") };
    let result = serde_json::to_value(response).unwrap()["result"].clone();
    assert_eq!(result["serverInfo"]["name"], "ovolo");
    let able = &result["capabilities"];
    assert_eq!(
        (&able["positionEncoding"], &able["textDocumentSync"]["change"]),
        (&json!("utf-16"), &json!(2))
    );
    for provider in
        ["hover", "definition", "references", "documentSymbol", "documentFormatting", "documentHighlight"]
    {
        assert_eq!(able[format!("{provider}Provider")], true, "{provider}");
    }
    assert_eq!(able["renameProvider"]["prepareProvider"], true);
    drop(own);
    assert!(matches!(server.join().unwrap(), Err(ServeError::Protocol(_))));
}

#[test]
fn it_ends_when_it_is_told_to_or_the_client_goes() {
    Client::new("shutdown", &[]).end().unwrap();
    Client::new("gone", &[]).ended().unwrap();
    let client = Client::new("exit", &[]);
    client.tell("exit", json!(null));
    assert!(matches!(client.ended(), Err(ServeError::Exit)));
}

#[test]
fn what_it_does_not_know_is_refused_and_it_goes_on() {
    let mut client = Client::new("unknown", &[]);
    let error = client.try_ask("textDocument/nonesuch", json!({})).unwrap_err();
    assert_eq!(error, "the request `textDocument/nonesuch` is not known");
    assert!(
        client.try_ask("textDocument/hover", json!({})).unwrap_err().starts_with("the parameters cannot")
    );
    client.tell("$/cancelRequest", json!({ "id": 1 }));
    client.tell("textDocument/didOpen", json!({}));
    let Message::Notification(logged) = client.receive() else { panic!("a notification") };
    let said = logged.params["message"].as_str().unwrap();
    assert!(said.starts_with("the parameters of `textDocument/didOpen` cannot be read"), "{said}");
    // Neither a file that is not open nor an address that is no file is known.
    for uri in [client.uri("absent.ron"), "untitled:1".to_owned()] {
        let place = json!({ "textDocument": { "uri": uri }, "position": { "line": 0, "character": 0 } });
        assert_eq!(client.ask("textDocument/hover", place), json!(null));
    }
    client.end().unwrap();
}

#[test]
fn a_client_that_can_is_asked_to_watch_files() {
    let able = json!({ "workspace": { "didChangeWatchedFiles": { "dynamicRegistration": true } } });
    let (own, other) = Connection::memory();
    std::thread::spawn(move || serve(registry(), &other));
    let params = json!({ "capabilities": able });
    own.sender.send(Request { id: 1.into(), method: "initialize".into(), params }.into()).unwrap();
    own.receiver.recv().unwrap();
    let ready = lsp_server::Notification { method: "initialized".into(), params: json!({}) };
    own.sender.send(ready.into()).unwrap();
    let Message::Request(request) = own.receiver.recv().unwrap() else { panic!("a request") };
    assert_eq!(request.method, "client/registerCapability");
    let watched = &request.params["registrations"][0]["registerOptions"]["watchers"][0]["globPattern"];
    assert_eq!(*watched, "**/*.ron");
}
