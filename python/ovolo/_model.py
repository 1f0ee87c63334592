"""Models: where the native part finds the file of a model that is given in one of several forms."""

import contextlib
import difflib
import operator
import os
import reprlib
import tempfile
from collections.abc import Iterable, Mapping

from . import _ovolo


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
            if not model:
                raise _ovolo.InvalidArgument("the model is empty: it has no bytes")
            self._folder = tempfile.TemporaryDirectory(prefix="ovolo-")
            self.path = os.path.join(self._folder.name, "model.onnx")
            with open(self.path, "wb") as file:
                file.write(model)
        elif isinstance(model, str | os.PathLike):
            self.path = os.fspath(model)
        else:
            raise TypeError(f"a model is a path, bytes or a ModelProto, not {type(model).__name__}")


    @contextlib.contextmanager
    def named(self):
        """Errors within name the model as its owner knows it, and not the file that it was written to."""
        try:
            yield
        except _ovolo.Error as why:
            if self._folder is None or self.path not in str(why):
                raise
            said = str(why).replace(f"`{self.path}`", "the model").replace(self.path, "the model")
            raise type(why)(said) from why.__cause__


def feeds(given):
    """The inputs of a run, as a dictionary."""
    if type(given) is dict:
        return given
    if not isinstance(given, Mapping):
        raise _kind("input_feed", "a dictionary from the names of inputs to arrays", given)
    return dict(given)


#: The settings of a compilation, with their defaults.
DEFAULTS = {
    "weights": None,
    "pipeline": None,
    "threads": None,
    "dims": None,
    "rules": (),
    "add": (),
    "costs": (),
    "cost": None,
    "extractor": None,
    "memory_limit": None,
    "seeded_weights": False,
    "cache": True,
}


def settings(model, **given):
    """The settings of a compilation, as the native part reads them."""
    for name in given.keys() - DEFAULTS.keys():
        near = difflib.get_close_matches(name, DEFAULTS, 1)
        hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(DEFAULTS)}"
        raise TypeError(f"there is no setting `{name}`: {hint}")
    asked = DEFAULTS | given
    costs = paths("costs", asked["costs"])
    if costs and asked["cost"] is not None:
        raise ValueError("`costs` are price lists for the default cost model, and `cost` chooses one: leave one of them out")
    return {
        "model": model,
        "weights": asked["weights"] and _path("weights", asked["weights"]),
        "pipeline": asked["pipeline"] and _path("pipeline", asked["pipeline"]),
        "threads": _optional("threads", asked["threads"]),
        "dims": sizes(asked["dims"]),
        "rules": paths("rules", asked["rules"]),
        "add": _list("add", asked["add"], "texts", _text),
        "costs": costs,
        "cost": asked["cost"],
        "extractor": asked["extractor"],
        "memory_limit": _optional("memory_limit", asked["memory_limit"]),
        "seeded_weights": _flag("seeded_weights", asked["seeded_weights"]),
        "cache": _flag("cache", asked["cache"]),
    }


def sizes(dims):
    """The sizes of dimensions, which a dictionary has by their names."""
    if dims is None:
        return {}
    if not isinstance(dims, Mapping):
        raise _kind("dims", "a dictionary from the names of dimensions to sizes, such as {'N': 4}", dims)
    for name in dims:
        if not isinstance(name, str):
            raise _kind("dims", "a dictionary whose keys are the names of dimensions", name)
    return {name: number(f"dims[{name!r}]", size) for name, size in dims.items()}


def factors(given):
    """Factors of prices, which a dictionary has by patterns of ops."""
    if not isinstance(given, Mapping):
        raise _kind("factors", "a dictionary from patterns of ops to factors, such as {'native.conv*': 1.2}", given)
    return given


def listed(name, values, what):
    """The values of an argument that is a list."""
    if isinstance(values, str | bytes | os.PathLike) or not isinstance(values, Iterable):
        raise _kind(name, f"a list of {what}", values)
    return list(values)


def paths(name, values):
    """The values of an argument that is a list of paths."""
    return _list(name, values, "paths", _path)


def numbers(name, values):
    """The values of an argument that is a list of integers."""
    return _list(name, values, "integers", number)


def _list(name, values, what, one):
    return [one(f"{name}[{at}]", value) for at, value in enumerate(listed(name, values, what))]


def _optional(name, value):
    return None if value is None else number(name, value)


def number(name, value):
    """The value of an argument that is an integer."""
    try:
        number = operator.index(value)
    except TypeError:
        raise _kind(name, "an integer", value) from None
    if isinstance(value, bool):
        raise _kind(name, "an integer", value)
    if number < 0:
        raise ValueError(f"`{name}` is {number}, and must not be negative")
    if number >= 1 << 64:
        raise ValueError(f"`{name}` is {number}, and must be less than 2**64")
    return number


def _flag(name, value):
    if not isinstance(value, bool):
        raise _kind(name, "`True` or `False`", value)
    return value


def _text(name, value):
    if not isinstance(value, str):
        raise _kind(name, "a text", value)
    return value


def _path(name, value):
    if not isinstance(value, str | os.PathLike):
        raise _kind(name, "a name or a path", value)
    return os.fspath(value)


def _kind(name, wanted, value):
    shown = " ".join(reprlib.repr(value).split())
    shown = shown if len(shown) <= SHOWN else shown[:SHOWN] + "…"
    return TypeError(f"`{name}` is {wanted}, not {shown} of the type {type(value).__name__}")


#: The most characters of a value that a message shows.
SHOWN = 60
