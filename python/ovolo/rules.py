"""Rewrite rules, verified on generated instances."""

import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from . import _model, _ovolo


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


class _Bar:
    """A progress bar that begins when the number of rules is known."""

    def __init__(self, progress: Callable[..., Any] | None) -> None:
        self._progress = progress
        self._bar: Any = None
        self._lock = threading.Lock()
        #: What is called after each rule, with the number of all rules.
        self.told = None if progress is None else self._tell

    def _tell(self, count: int) -> None:
        with self._lock:
            if self._bar is None:
                self._bar = self._progress(total=count, unit="rule")
            self._bar.update(1)

    def __enter__(self) -> "_Bar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


def verify(
    files: Iterable[str | os.PathLike] | None = None,
    *,
    rules: Iterable[str | os.PathLike] = (),
    only: str | Iterable[str] = (),
    instances: int = 200,
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[..., Any] | None = None,
) -> list[Verification]:
    """Verifies rules as ``ovolo rules verify`` does, and returns a :class:`Verification` of each.

    ``files`` are rule files; without them, the rules that ovolo ships are verified. ``rules`` are folders with further
    rule files. ``only`` has the names of rules, or of rule files without folder and ending. ``progress`` makes a
    progress bar by the conventions of the package tqdm: ``progress=tqdm.auto.tqdm``.
    """
    if isinstance(only, str):
        only = [only]
    files = None if files is None else _model.paths("files", files)
    if files == []:
        raise ValueError("`files` is an empty list: name rule files, or leave it out for the rules that ovolo ships")
    listed = [_model.paths(name, paths) for name, paths in (("files", files or ()), ("rules", rules))]
    numbers = (_model.number(name, value) for name, value in (("instances", instances), ("seed", seed)))
    with _Bar(progress) as bar:
        found = _ovolo.verify(*listed, list(only), *numbers, threads, bar.told)
    return [Verification(**one) for one in json.loads(found)]


def differ(case: str | os.PathLike) -> str | None:
    """Evaluates a counterexample again, and tells how its sides differ; ``None`` if they agree.

    ``case`` is the text of :attr:`Verification.case`, or the path of a file with it.
    """
    if not isinstance(case, str | os.PathLike):
        raise TypeError(f"`case` is the text of a counterexample, or the path of a file with it, not {case!r}")
    if isinstance(case, os.PathLike) or "\n" not in case:
        return _ovolo.differ(os.fspath(case))
    with tempfile.TemporaryDirectory(prefix="ovolo-") as folder:
        path = os.path.join(folder, "case.ovolo")
        with open(path, "w", encoding="utf-8") as file:
            file.write(case)
        return _ovolo.differ(path)
