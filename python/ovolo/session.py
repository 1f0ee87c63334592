"""Sessions, with the names that ONNX Runtime gives them."""

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _model, _ovolo, provider
from .binding import IOBinding, OrtValue, unwrapped
from .option import RunOptions, SessionOptions


@dataclass(frozen=True)
class NodeArg:
    """An input or an output of a model."""

    #: The name.
    name: str
    #: The type, such as ``tensor(float)``.
    type: str
    #: The dimensions: numbers, names, and ``None`` for one that has neither.
    shape: list[int | str | None]


@dataclass(frozen=True)
class ModelMetadata:
    """What a model says of itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    version: int
    custom_metadata_map: dict[str, str]


class InferenceSession:
    """A model that is ready to run.

    A model with fixed shapes is compiled now, or its plan comes from the cache. One whose sizes or branches depend on
    its inputs is compiled when a run comes to them, for these sizes; its plans are kept as well.

    Threads may share a session. While it runs, other threads of Python run too; runs of one session take turns.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike | bytes | Any,
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        buckets: Mapping[str, Iterable[int]] | None = None,
        **settings: Any,
    ) -> None:
        """Opens a model: a path, bytes, or a ``ModelProto`` of the package onnx.

        The options of the provider, and further keyword arguments, are settings of :func:`ovolo.compile`; of those,
        ``cache=False`` leaves the cache alone. ``buckets`` has, for names of dimensions, sizes up to which a run is
        filled, so that few plans serve all sizes; a run is refused if its outputs depend on what is filled in.
        """
        options = sess_options or SessionOptions()
        if not isinstance(options, SessionOptions):
            raise TypeError(f"`sess_options` is an `ovolo.SessionOptions`, not {options!r}")
        options._tell()
        name, chosen = provider.choose(providers, provider_options)
        threads = _model.number("intra_op_num_threads", options.intra_op_num_threads)
        own = {"threads": threads or None, "dims": options.dims, **chosen, **settings}
        self._file = _model.File(path_or_bytes)
        self._provider = name
        self._options = options
        self._own = own
        with self._file.named():
            self._session = _ovolo.open(_model.settings(self._file.path, **own))
        #: ``run(output_names, feeds)`` of the native part, without the options of a run.
        self._run = self._session.run
        for dim, sizes in _buckets(buckets):
            self._session.bucket(dim, sizes)

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Runs the model on arrays by the names of inputs.

        Returns the outputs that are named, or all of them in the order of the model: arrays, lists of values for
        sequences, and ``None`` for an optional value that is absent. Strings are arrays of objects.

        An input may be an array of NumPy, an object with ``__dlpack__`` or ``__array__``, or numbers in lists. An array
        of 4 KiB or more that begins at a multiple of 64 is not copied; it must not be written to during the run.
        """
        return self._run(output_names, input_feed if type(input_feed) is dict else _model.feeds(input_feed))

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """Runs the model on values, and returns values: what :meth:`run` does, with :class:`OrtValue` for arrays."""
        feeds = {name: unwrapped(value) for name, value in _model.feeds(input_dict_ort_values).items()}
        return [OrtValue(output) for output in self.run(output_names, feeds, run_options)]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any] | None, Any, str], Any],
        user_data: Any = None,
        run_options: RunOptions | None = None,
    ) -> None:
        """Begins a run on a thread of its own, and returns.

        At the end, that thread calls ``callback(outputs, user_data, error)``: either the outputs and an empty text, or
        ``None`` and what is wrong.
        """

        def work():
            try:
                outputs, why = self.run(output_names, input_feed, run_options), ""
            except Exception as refused:
                outputs, why = None, str(refused)
            callback(outputs, user_data, why)

        threading.Thread(target=work, name="ovolo-run").start()

    def io_binding(self) -> IOBinding:
        """An :class:`IOBinding` of this session, without inputs and outputs."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Runs the model on the inputs of a binding, which has the outputs afterwards."""
        iobinding._run(self, run_options)

    def separates(self, dim: str, rows: int, input_feed: Mapping[str, Any]) -> None:
        """Proves that outputs at one position of a dimension do not depend on inputs at another one.

        Then up to ``rows`` requests with inputs of these types may be run together. An :class:`ovolo.Error` that names
        the operator for which there is no proof.
        """
        self._session.separates(dim, rows, _model.feeds(input_feed))

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that must be given, as a list of :class:`NodeArg`."""
        return [self._argument(*one) for one in self._session.inputs()]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The inputs that may be given, since they have default values, as a list of :class:`NodeArg`."""
        return [self._argument(*one) for one in self._session.defaults()]

    def disable_fallback(self) -> None:
        """Changes nothing: a session has one provider, and does not try another one."""

    def enable_fallback(self) -> None:
        """Changes nothing, as :meth:`disable_fallback`."""

    def get_outputs(self) -> list[NodeArg]:
        """The outputs, as a list of :class:`NodeArg`."""
        return [self._argument(*one) for one in self._session.outputs()]

    def _argument(self, name, kind, shape):
        """An input or output, with the sizes that the session was given."""
        sizes = self._own["dims"] or {}
        return NodeArg(name, kind, [sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in shape])

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says of itself, as a :class:`ModelMetadata`."""
        return ModelMetadata(**self._session.about())

    def get_providers(self) -> list[str]:
        """The provider that runs the model, in a list."""
        return [self._provider]

    def get_provider_options(self) -> dict[str, dict[str, Any]]:
        """The settings of the provider, by its name."""
        return {self._provider: dict(self._own)}

    def get_session_options(self) -> SessionOptions:
        """The options with which the session was made."""
        return self._options

    @property
    def is_dynamic(self) -> bool:
        """Whether the model is compiled while it runs, since sizes or branches depend on its inputs."""
        return self._session.is_dynamic


def _buckets(buckets):
    """The names of dimensions, each with a list of sizes."""
    if not isinstance(buckets or {}, Mapping):
        raise TypeError(f"`buckets` is a dictionary from names of dimensions to lists of sizes, not {buckets!r}")
    for dim, sizes in (buckets or {}).items():
        sizes = _model.numbers(f"buckets[{dim!r}]", sizes)
        if not all(sizes):
            raise ValueError(f"`buckets[{dim!r}]` has the size 0, and a size is at least 1")
        yield dim, sizes
