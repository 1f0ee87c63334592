// Checks what the grammar makes of sample lines. `cargo xtask editors` installs what it needs; the first argument is the
// folder of the packages, otherwise they are those of this folder.
"use strict";

const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const { createRequire } = require("node:module");

const folder = path.join(__dirname, "..");
const packages = createRequire(path.join(process.argv[2] ?? folder, "package.json"));
const { INITIAL, Registry, parseRawGrammar } = packages("vscode-textmate");
const oniguruma = packages("vscode-oniguruma");

// A sample, and the scope that each of some words has in it.
const SAMPLES = [
  ["    // A law.", { "// A law.": "comment.line.double-slash.ovolo" }],
  ["    Rule(", { Rule: "entity.name.type.ovolo" }],
  ['        name: "map-$op",', { name: "variable.other.property.ovolo", "$op": "variable.parameter.key.ovolo" }],
  [
    '        from: "(conv ?x ?w ?b? ?e.. {groups: 2, post: <relu>, *a})",',
    {
      from: "variable.other.property.ovolo",
      conv: "entity.name.function.op.ovolo",
      "?x": "variable.other.operand.ovolo",
      "?b?": "variable.other.operand.ovolo",
      "?e..": "variable.other.operand.ovolo",
      groups: "entity.other.attribute-name.ovolo",
      2: "constant.numeric.ovolo",
      relu: "entity.name.function.step.ovolo",
      "*a": "variable.other.rest.ovolo",
    },
  ],
  [
    '        to: "(native.conv-direct (pack ?x {layout: $l}))",',
    {
      "native.conv-direct": "entity.name.function.op.ovolo",
      pack: "entity.name.function.op.ovolo",
      "$l": "variable.parameter.key.ovolo",
    },
  ],
  [
    '        when: ["equal(dim(?x, 1), 16)", "is-dtype(?x, bf16)"],',
    {
      equal: "support.function.ovolo",
      dim: "support.function.ovolo",
      16: "constant.numeric.ovolo",
      "is-dtype": "support.function.ovolo",
      bf16: "support.type.ovolo",
    },
  ],
  ["            rounds: 24,", { rounds: "variable.other.property.ovolo", 24: "constant.numeric.ovolo" }],
  ['    Extract(cost: "roofline"),', { Extract: "entity.name.type.ovolo", roofline: "string.quoted.double.ovolo" }],
];

async function main() {
  for (const name of ["package.json", "language-configuration.json"]) {
    JSON.parse(fs.readFileSync(path.join(folder, name), "utf8"));
  }
  const manifest = JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8"));
  const [{ scopeName, path: file }] = manifest.contributes.grammars;
  await oniguruma.loadWASM(fs.readFileSync(packages.resolve("vscode-oniguruma/release/onig.wasm")).buffer);
  const registry = new Registry({
    onigLib: Promise.resolve({
      createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
      createOnigString: (text) => new oniguruma.OnigString(text),
    }),
    loadGrammar: async () => parseRawGrammar(fs.readFileSync(path.join(folder, file), "utf8"), file),
  });
  const grammar = await registry.loadGrammar(scopeName);
  for (const [line, words] of SAMPLES) {
    const { tokens, ruleStack } = grammar.tokenizeLine(line, INITIAL);
    for (const [word, scope] of Object.entries(words)) {
      const at = line.indexOf(word);
      const token = tokens.find((one) => one.startIndex <= at && at < one.endIndex);
      assert.ok(token.scopes.includes(scope), `${word} in ${line}: ${token.scopes.join(" ")}`);
    }
    // The next line begins outside of texts.
    const next = grammar.tokenizeLine("Rule(", ruleStack).tokens[0].scopes;
    assert.ok(next.includes("entity.name.type.ovolo"), `after ${line}: ${next.join(" ")}`);
  }
  console.log(`${SAMPLES.length} samples`);
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
