"""The notebook runs, and shows what it says."""

import contextlib
import io
import pathlib

import nbformat

NOTEBOOK = pathlib.Path(__file__).resolve().parents[1] / "examples" / "extraction.ipynb"


def test_the_notebook_runs(monkeypatch):
    monkeypatch.chdir(NOTEBOOK.parent)
    scope = {"__name__": "__main__"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for cell in nbformat.read(NOTEBOOK, 4).cells:
            if cell.cell_type == "code":
                exec(compile(cell.source, str(NOTEBOOK), "exec"), scope)
    plans = scope["plans"]
    greedy, supposing, exact = (plans[name].extraction["seconds"] for name in ("greedy-tree", "supposing", "exact"))
    assert exact <= supposing * (1 + 1e-9)
    assert supposing < 0.9 * greedy
    assert "chosen by by-bytes" in printed.getvalue()
