//! `ovolo lsp`: the language server over the standard streams.
#![allow(clippy::unwrap_used)]

use crate::common;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

/// Starts the server. No cache and no folder is needed.
fn started() -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ovolo"));
    command.arg("lsp").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn send(server: &mut Child, message: &Value) {
    let text = message.to_string();
    let stream = server.stdin.as_mut().unwrap();
    write!(stream, "Content-Length: {}\r\n\r\n{text}", text.len()).unwrap();
    stream.flush().unwrap();
}

/// Returns the messages that the server sends until it ends, its exit code, and its errors.
fn ended(server: Child) -> (Vec<Value>, Option<i32>, String) {
    let output = server.wait_with_output().unwrap();
    let mut reader = BufReader::new(&output.stdout[..]);
    let mut messages = Vec::new();
    loop {
        let mut length = None;
        for line in reader.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty()) {
            length = line.strip_prefix("Content-Length: ").map(|length| length.parse::<usize>().unwrap());
        }
        let Some(length) = length else { break };
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        messages.push(serde_json::from_slice(&body).unwrap());
    }
    (messages, output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn greet(server: &mut Child) {
    let folder = common::root().join("rules");
    let params = json!({ "capabilities": {}, "rootUri": format!("file://{}", folder.display()) });
    send(server, &json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }));
    send(server, &json!({ "jsonrpc": "2.0", "method": "initialized", "params": {} }));
}

#[test]
fn the_server_knows_every_backend_and_ends_with_the_client() {
    let mut server = started();
    greet(&mut server);
    let uri = "file:///nowhere/rules/mine.ron";
    let text = "[Rule(name: \"a\", from: \"(cuda.";
    let item = json!({ "uri": uri, "languageId": "ovolo", "version": 1, "text": text });
    let open =
        json!({ "jsonrpc": "2.0", "method": "textDocument/didOpen", "params": { "textDocument": item } });
    send(&mut server, &open);
    let place = json!({ "textDocument": { "uri": uri }, "position": { "line": 0, "character": text.len() } });
    send(
        &mut server,
        &json!({ "jsonrpc": "2.0", "id": 2, "method": "textDocument/completion", "params": place }),
    );
    send(&mut server, &json!({ "jsonrpc": "2.0", "id": 3, "method": "shutdown" }));
    send(&mut server, &json!({ "jsonrpc": "2.0", "method": "exit" }));
    let (messages, code, errors) = ended(server);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    let answer = |id: u32| messages.iter().find(|one| one["id"] == id).map(|one| &one["result"]).unwrap();
    assert_eq!(answer(1)["serverInfo"]["name"], "ovolo");
    let labels: Vec<&str> =
        answer(2).as_array().unwrap().iter().map(|item| item["label"].as_str().unwrap()).collect();
    assert!(labels.contains(&"cuda.matmul-tensor") && labels.contains(&"onednn.conv"), "{labels:?}");
    assert_eq!(*answer(3), Value::Null);
}

#[test]
fn a_client_that_leaves_without_shutdown_is_told_of() {
    let mut server = started();
    greet(&mut server);
    send(&mut server, &json!({ "jsonrpc": "2.0", "method": "exit" }));
    let (_, code, errors) = ended(server);
    assert_eq!(code, Some(1));
    assert!(errors.contains("the client sent `exit` without `shutdown`"), "{errors}");
}
