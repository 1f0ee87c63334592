"""Drives `ovolo lsp` over its standard streams with the clients of pytest-lsp, which are made of pygls.

`cargo xtask editors` installs pytest-lsp; `OVOLO` names the program.
"""

import os

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

RULES = """[
    // Twice is a product. 𝛼
    Rule(
        name: "double",
        from: "(add ?x ?x)",
        to: "(mull ?x 2.0)",
        when: ["is-f32(?x)"],
    ),
]
"""
PIPELINE = """Pipeline(
    name: "mine",
    passes: [Rewrite(name: "all", rules: ["double"]), Extract(), Plan()],
    backends: ["native"],
)
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with a file of rules and a pipeline that names the rule."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "mine.ron").write_text(RULES, encoding="utf-8")
    (tmp_path / "pipeline.ron").write_text(PIPELINE, encoding="utf-8")
    return tmp_path


@pytest_lsp.fixture(
    config=ClientServerConfig(server_command=[os.environ.get("OVOLO", "ovolo"), "lsp"]),
    params=["visual-studio-code", "neovim", "emacs"],
)
async def client(request, lsp_client: LanguageClient, folder):
    """A client that has the capabilities of an editor, and opens the folder and both files."""
    watched = []

    @lsp_client.feature(types.CLIENT_REGISTER_CAPABILITY)
    def register(params: types.RegistrationParams):
        watched.extend(one.method for one in params.registrations)

    root = types.WorkspaceFolder(uri=folder.as_uri(), name="mine")
    await lsp_client.initialize_session(
        types.InitializeParams(capabilities=client_capabilities(request.param), workspace_folders=[root])
    )
    for name in ["pipeline.ron", "rules/mine.ron"]:
        path = folder / name
        item = types.TextDocumentItem(
            uri=path.as_uri(), language_id="ovolo", version=1, text=path.read_text(encoding="utf-8")
        )
        lsp_client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))
    yield
    # Sends `shutdown` and `exit`, and fails if the server answers neither.
    await lsp_client.shutdown_session()
    assert set(watched) <= {types.WORKSPACE_DID_CHANGE_WATCHED_FILES}


def place(folder, text, skip=0):
    """The position of a text in the file of rules. All of them are on lines of ASCII letters."""
    at = RULES.index(text) + skip
    line = RULES.count("\n", 0, at)
    return types.Position(line=line, character=at - RULES.rfind("\n", 0, at) - 1)


def rules(folder):
    """The file of rules."""
    return types.TextDocumentIdentifier(uri=(folder / "rules" / "mine.ron").as_uri())


async def told(client, uri, until):
    """Waits until the messages of a file are as they should be, and returns them."""
    while not until(client.diagnostics.get(uri, [])):
        await client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    return client.diagnostics[uri]


@pytest.mark.asyncio
async def test_messages_come_and_go(client, folder):
    uri, pipeline = rules(folder).uri, (folder / "pipeline.ron").as_uri()
    [message] = await told(client, uri, lambda found: len(found) == 1)
    assert message.message.startswith("op `mull` is not known\nhelp: did you mean `mul`?")
    assert message.range.start == place(folder, "mull")
    # A rule with a mistake is no rule that a pipeline could name.
    [message] = await told(client, pipeline, lambda found: len(found) == 1)
    assert message.message.startswith("no rule and no rule file is called `double`")
    # The last letter of the op is taken away.
    change = types.TextDocumentContentChangePartial(
        range=types.Range(start=place(folder, "mull", 3), end=place(folder, "mull", 4)), text=""
    )
    client.text_document_did_change(
        types.DidChangeTextDocumentParams(
            text_document=types.VersionedTextDocumentIdentifier(uri=uri, version=2), content_changes=[change]
        )
    )
    await told(client, uri, lambda found: not found)
    await told(client, pipeline, lambda found: not found)


@pytest.mark.asyncio
async def test_completion(client, folder):
    ask = types.CompletionParams(text_document=rules(folder), position=place(folder, "add", 1))
    items = await client.text_document_completion_async(ask)
    add = next(item for item in items if item.label == "add")
    assert add.text_edit.range == types.Range(start=place(folder, "add"), end=place(folder, "add", 1))


@pytest.mark.asyncio
async def test_hover(client, folder):
    ask = types.HoverParams(text_document=rules(folder), position=place(folder, "is-f32", 2))
    hover = await client.text_document_hover_async(ask)
    assert hover.contents.value.startswith("**is-f32(operand)**")


@pytest.mark.asyncio
async def test_definition(client, folder):
    ask = types.DefinitionParams(text_document=rules(folder), position=place(folder, "(?x)", 2))
    [found] = await client.text_document_definition_async(ask)
    assert (found.uri, found.range.start) == (rules(folder).uri, place(folder, "?x", 1))


@pytest.mark.asyncio
async def test_rename(client, folder):
    ask = types.RenameParams(text_document=rules(folder), position=place(folder, "double"), new_name="twice")
    edit = await client.text_document_rename_async(ask)
    assert sorted(edit.changes) == sorted([rules(folder).uri, (folder / "pipeline.ron").as_uri()])
    ask = types.RenameParams(text_document=rules(folder), position=place(folder, "?x", 1), new_name="?both")
    edit = await client.text_document_rename_async(ask)
    assert [one.new_text for one in edit.changes[rules(folder).uri]] == ["both"] * 4


@pytest.mark.asyncio
async def test_formatting(client, folder):
    options = types.FormattingOptions(tab_size=4, insert_spaces=True)
    ask = types.DocumentFormattingParams(text_document=rules(folder), options=options)
    edits = await client.text_document_formatting_async(ask)
    text = RULES.splitlines(keepends=True)
    [edit] = edits
    lines = range(edit.range.start.line, edit.range.end.line)
    text[lines.start : lines.stop] = [edit.new_text]
    one = '    Rule(name: "double", from: "(add ?x ?x)", to: "(mull ?x 2.0)", when: ["is-f32(?x)"]),\n'
    assert one in "".join(text)


@pytest.mark.asyncio
async def test_document_symbols(client, folder):
    found = await client.text_document_document_symbol_async(types.DocumentSymbolParams(text_document=rules(folder)))
    assert [one.name for one in found] == ["double"]
