"""Plans: what ovolo has chosen for a model, and why."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from . import _model, _ovolo
from .extension import Choice, Kernel, Problem

if TYPE_CHECKING:
    import pandas

    Path = str | os.PathLike


class CostModel(Protocol):
    """An object that prices kernels."""

    def seconds(self, kernel: Kernel) -> float | None:
        """The seconds of one run; ``None`` for a kernel that is not known."""


class BatchCostModel(Protocol):
    """An object that prices many kernels at once."""

    def batch(self, kernels: list[Kernel]) -> Iterable[float | None]:
        """The seconds of one run of each kernel, in their order; ``None`` for a kernel that is not known."""


class Extractor(Protocol):
    """An object that chooses a program."""

    def extract(self, problem: Problem) -> Choice:
        """For each class that is needed, the index of a candidate."""


def compile(
    model: Path | bytes | Any,
    *,
    weights: Path | None = None,
    pipeline: str | None = None,
    threads: int | None = None,
    dims: Mapping[str, int] | None = None,
    rules: Iterable[Path] = (),
    add: Iterable[str] = (),
    costs: Iterable[Path] = (),
    cost: str | CostModel | BatchCostModel | None = None,
    extractor: str | Extractor | None = None,
    memory_limit: int | None = None,
) -> Plan:
    """Compiles a model, and returns its :class:`Plan`. The cache is left alone.

    Args:
        model: A path, bytes, or a ``ModelProto`` of the package onnx. A path may also name a graph in text form.
        weights: For a graph in text form, the model that has its constants.
        pipeline: The name of a pipeline, or its file. The default is ``cpu``.
        threads: Threads of the plan. The default is the number of processors.
        dims: Sizes of dimensions by their names. Every dimension needs one.
        rules: Folders with further rule files.
        add: Rules that join a phase of the pipeline, each as ``RULES:PHASE``, such as ``"mine.ron:fuse"``.
        costs: Price lists that take precedence over the shipped one.
        cost: The name of a cost model, or an object with a method ``seconds(kernel)``, or ``batch(kernels)`` for
            all kernels at once.
        extractor: The name of an extractor, or an object with a method ``extract(problem)``.
        memory_limit: The most bytes that the plan may take of the host's memory.
    """
    file = _model.File(model)
    given = _model.settings(
        file.path,
        weights=weights,
        pipeline=pipeline,
        threads=threads,
        dims=dims,
        rules=rules,
        add=add,
        costs=costs,
        cost=cost,
        extractor=extractor,
        memory_limit=memory_limit,
        cache=False,
    )
    with file.named():
        return Plan(_ovolo.compile(given), file)


class Plan:
    """The plan of a model. ``str(plan)`` is its text form."""

    def __init__(self, plan: _ovolo.Plan, file: _model.File) -> None:
        """Is for :func:`compile`."""
        self._plan = plan
        self._file = file
        self._known = None

    def run(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None) -> list[Any]:
        """Runs the plan on arrays by the names of inputs. Returns the outputs that are named, or all of them."""
        return self._plan.run(outputs, _model.feeds(inputs))

    def explain(self, *, runner_up: bool = False) -> str:
        """Tells of each step its op, backend, kernel, layout, cost, place in memory, and the rules that led to it.

        With ``runner_up``, tells instead what would be chosen otherwise, and at which cost: the closest choice first.
        """
        return self._plan.runner_ups()[0] if runner_up else self._plan.explain()

    def runner_ups(self) -> list[dict[str, Any]]:
        """What would be chosen instead of each step, as a list of dictionaries: the closest choice first."""
        return json.loads(self._plan.runner_ups()[1])

    def what_if(self, factors: Mapping[str, float]) -> str:
        """Tells what would be chosen if kernels cost more or less: for patterns of ops, such as ``native.conv*``,
        factors."""
        return self._plan.what_if(list(_model.factors(factors).items()))

    def memory_curve(self, device: str = "host") -> list[dict[str, Any]]:
        """The plans from the fastest to the smallest on a device, as a list of dictionaries."""
        return json.loads(self._plan.memory_curve(device))["points"]

    def why_not(self, rule: str, node: str | None = None) -> str:
        """Tells why a rule does not fire on the model, or on the value ``node`` of it: the nearest miss, the guard that
        refuses, or the limit."""
        return self._plan.why_not(rule, node)

    def to_json(self) -> str:
        """The whole plan as JSON, as ``ovolo explain --json`` prints it."""
        return self._plan.json()

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The steps, as a list of dictionaries."""
        return self._json["steps"]

    @property
    def seconds(self) -> float:
        """The estimate of one run."""
        return self._json["seconds"]

    @property
    def arena(self) -> int:
        """Bytes of the arena on the host."""
        return self._json["arena"]

    @property
    def extraction(self) -> dict[str, Any]:
        """What the extraction found: its cost, its bound, and whether it is proven."""
        return json.loads(self._plan.extraction())

    @property
    def problem(self) -> Problem:
        """The e-graph with prices, as an extractor gets it: a :class:`ovolo.Problem`."""
        return self._plan.problem()

    def egraph(self) -> str:
        """The e-graph with prices and names, in the JSON form of the crate ``egraph-serialize``."""
        return self._plan.egraph()

    def estimates(self, other: Plan) -> list[float | None]:
        """The seconds of each step of another plan of the same model, by the cost model of this plan. A step whose
        kernel this cost model does not know is ``None``."""
        if not isinstance(other, Plan):
            raise TypeError(f"`other` is a plan of `ovolo.compile`, not {other!r}")
        return self._plan.estimates(other._plan)

    def frame(self) -> pandas.DataFrame:
        """The steps as a ``DataFrame``. Needs the package pandas."""
        import pandas

        return pandas.DataFrame(self.steps).set_index("name")

    def features(self) -> pandas.DataFrame:
        """The kernels that might have been chosen as a ``DataFrame``: their features, and ``seconds``, their price. Needs
        the package pandas; ``pyarrow.Table.from_pandas`` makes an Arrow table of it."""
        import pandas

        return pandas.DataFrame(json.loads(self._plan.features()))

    def nodes(self) -> pandas.DataFrame:
        """The e-graph that the extraction chose from as a ``DataFrame`` with a row for each candidate, by its id: its
        class, the type of the class, its op, its cost in seconds, and the classes that it reads. Needs the package
        pandas."""
        import pandas

        egraph = json.loads(self.egraph())
        nodes, classes = egraph["nodes"], egraph["class_data"]
        rows = [
            {
                "id": name,
                "eclass": node["eclass"],
                "type": classes[node["eclass"]]["type"],
                "op": node["op"],
                "cost": node["cost"],
                "children": [nodes[child]["eclass"] for child in node["children"]],
            }
            for name, node in nodes.items()
        ]
        return pandas.DataFrame(rows).set_index("id")

    def html(self) -> str:
        """The page that ``ovolo explain --html`` writes: graphs, memory and costs."""
        return self._plan.html()

    def __str__(self) -> str:
        """The text form."""
        return self._plan.text()

    def __repr__(self) -> str:
        """The size."""
        return f"Plan({len(self.steps)} steps, {self.seconds * 1e3:.6f} ms, arena {self.arena} bytes)"

    def _repr_html_(self) -> str:
        """The page, in a frame of its own, so that its styles and scripts do not meet those of a notebook."""
        page = html.escape(self.html(), quote=True)
        return f'<iframe srcdoc="{page}" width="100%" height="700" style="border: 0"></iframe>'

    @property
    def _json(self) -> dict[str, Any]:
        if self._known is None:
            self._known = json.loads(self.to_json())
        return self._known
