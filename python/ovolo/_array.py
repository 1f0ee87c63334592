"""Arrays: what is easier to say in Python than in Rust. The native part calls these functions."""

import numpy as np


def as_array(value, dtype):
    """The array of a value that is not plainly one of ovolo's element types.

    ``dtype`` is the type of values that have none of their own, such as lists of numbers; it may be ``None``.
    """
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
    elif hasattr(value, "__dlpack__"):
        array = _from_dlpack(value)
    elif hasattr(value, "__array__"):
        array = np.asarray(value)
    else:
        array = _from_list(value, dtype)
    if array.dtype.kind in "OSUT":
        if dtype is not None and dtype.kind != "O":
            kind = "objects" if array.dtype.kind == "O" else "strings"
            raise TypeError(f"the model takes an array of {dtype.name}, and an array of {kind} was given")
        return array.astype(object)
    if not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="))
    return array


def _from_dlpack(value):
    """The array of an object that speaks DLPack, without a copy where NumPy has its element type."""
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError) as why:
        if not hasattr(value, "__array__"):
            raise TypeError(f"the {type(value).__name__} cannot be read as an array of the host: {why}") from why
        return np.asarray(value)


def _from_list(value, dtype):
    if value is None or isinstance(value, dict | set):
        raise TypeError(f"the model takes an array, and {type(value).__name__} was given")
    array = np.asarray(value, dtype)
    if array.dtype.kind == "O" and not (dtype is not None and dtype.kind == "O"):
        raise TypeError(f"the model takes an array, and a {type(value).__name__} of unequal parts was given")
    return array


def in_order(array):
    """The same array with its elements one after another."""
    return np.ascontiguousarray(array)


def texts(array):
    """The elements of an array of strings, in order."""
    return [_text(value) for value in array.ravel().tolist()]


def _text(value):
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode()
    raise TypeError(f"an element of a tensor of strings is a str, not {type(value).__name__}")


def of_texts(texts, shape):
    """An array of strings."""
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array.reshape(shape)
