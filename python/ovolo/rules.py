"""Rewrite rules, verified on generated instances."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from . import _ovolo


@dataclass(frozen=True)
class Verification:
    """What was found of one rule."""

    #: The name of the rule.
    rule: str
    #: The file in which it stands.
    file: str
    #: The line in that file.
    line: int
    #: The column in that line.
    column: int
    #: ``holds``, ``wrong``, or ``uncovered`` if too few instances could be made.
    verdict: str
    #: The instances on which its sides were compared.
    instances: int
    #: The attempts to make an instance.
    tries: int
    #: The examples of the rule among the instances.
    examples: int
    #: How its sides differ, if they do.
    what: str | None
    #: The smallest instance on which they differ, as a graph in text form.
    case: str | None
    #: Why attempts failed, if too few succeeded.
    reasons: list[dict[str, Any]] | None
    #: What the instances had: types, ranks, features.
    coverage: dict[str, Any]

    @property
    def holds(self) -> bool:
        """Whether no instance contradicts the rule."""
        return self.verdict == "holds"


def verify(
    files: Iterable[str | os.PathLike] = (),
    *,
    rules: Iterable[str | os.PathLike] = (),
    only: str | Iterable[str] = (),
    instances: int = 200,
    seed: int = 0,
    threads: int | None = None,
) -> list[Verification]:
    """Verifies rules as ``ovolo rules verify`` does, and returns a :class:`Verification` of each.

    ``files`` are rule files; without them, the rules that ovolo ships are verified. ``rules`` are folders with further
    rule files. ``only`` has the names of rules, or of rule files without folder and ending.
    """
    if isinstance(only, str):
        only = [only]
    listed = [[os.fspath(path) for path in paths] for paths in (files, rules)]
    found = _ovolo.verify(*listed, list(only), instances, seed, threads)
    return [Verification(**one) for one in json.loads(found)]
