"""Snapshots of what passes do, for tests in Python."""

import os

from . import _ovolo


def snapshot(case: str | os.PathLike[str]) -> str:
    """Returns what a case shows of its compilation: rules, graphs, plans or costs.

    A case is a file ``NAME.case.ron``, which the guide of ovolo describes. A test compares the text with one that it
    keeps::

        def test_fusion():
            assert ovolo.snapshot("fusion.case.ron") == Path("fusion.txt").read_text()

    The plan is for the instruction sets of this processor, or for those that the variable ``OVOLO_ISA`` names. With
    ``OVOLO_ISA=avx2`` the text is what ``ovolo test`` compares.

    Raises:
        ovolo.Error: The case has a mistake, or its model cannot be compiled.
    """
    return _ovolo.shown(os.fspath(case))
