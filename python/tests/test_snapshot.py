"""Snapshots of what passes do."""

import os
import subprocess
import sys
from pathlib import Path

import ovolo
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "snapshots"


def test_a_case_shows_what_its_snapshot_has():
    # The instruction sets are those of the whole process.
    script = "import sys, ovolo; sys.stdout.write(ovolo.snapshot(sys.argv[1]))"
    for case in sorted(EXAMPLES.glob("*.case.ron")):
        run = subprocess.run(
            [sys.executable, "-P", "-c", script, str(case)],
            env={**os.environ, "OVOLO_ISA": "avx2"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout == case.with_suffix(".snap").read_text()


def test_mistakes_of_a_case_are_errors(tmp_path):
    case = tmp_path / "wrong.case.ron"
    case.write_text('Case(show: ["plan"])')
    with pytest.raises(ovolo.Error, match="a case needs a model or a script"):
        ovolo.snapshot(case)
