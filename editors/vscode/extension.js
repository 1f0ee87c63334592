// The client of the language server: starts `ovolo lsp` and connects it with the editor.
"use strict";

const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = async () => {
  const [command, ...args] = workspace.getConfiguration("ovolo").get("server.command");
  const run = { command, args };
  client = new LanguageClient("ovolo", "Ovolo", { run, debug: run }, {
    documentSelector: [{ scheme: "file", language: "ovolo" }, { scheme: "file", pattern: "**/*.ron" }],
  });
  await client.start();
};

exports.deactivate = () => client?.stop();
