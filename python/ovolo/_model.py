"""Models: where the native part finds the file of a model that is given in one of several forms."""

import os
import tempfile


class File:
    """The file of a model.

    A model that is given as bytes, or as a ``ModelProto`` of the package onnx, is written to a file of its own: plans
    in the cache go by files, and weights are read from a mapped file only when they are needed. It is removed with
    this object.
    """

    def __init__(self, model):
        """Takes a path, bytes, or a ``ModelProto``."""
        self._folder = None
        if hasattr(model, "SerializeToString"):
            model = model.SerializeToString()
        if isinstance(model, bytes | bytearray | memoryview):
            self._folder = tempfile.TemporaryDirectory(prefix="ovolo-")
            self.path = os.path.join(self._folder.name, "model.onnx")
            with open(self.path, "wb") as file:
                file.write(model)
        elif isinstance(model, str | os.PathLike):
            self.path = os.fspath(model)
        else:
            raise TypeError(f"a model is a path, bytes or a ModelProto, not {type(model).__name__}")


def settings(
    model,
    *,
    weights=None,
    pipeline=None,
    threads=None,
    dims=None,
    rules=(),
    add=(),
    costs=(),
    cost=None,
    extractor=None,
    memory_limit=None,
    cache=True,
):
    """The settings of a compilation, as the native part reads them."""
    return {
        "model": model,
        "weights": weights,
        "pipeline": pipeline,
        "threads": threads,
        "dims": dict(dims or {}),
        "rules": _paths("rules", rules),
        "add": _list("add", add),
        "costs": _paths("costs", costs),
        "cost": cost,
        "extractor": extractor,
        "memory_limit": memory_limit,
        "cache": cache,
    }


def _list(name, texts):
    if isinstance(texts, str):
        raise TypeError(f"`{name}` is a list of texts, not one text")
    return list(texts)


def _paths(name, paths):
    if isinstance(paths, str | os.PathLike):
        raise TypeError(f"`{name}` is a list of paths, not one path")
    return [os.fspath(path) for path in paths]
