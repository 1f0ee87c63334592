"""A runtime for MLServer, which serves models by the Open Inference Protocol (KServe's version 2), HTTP and gRPC.

``model-settings.json`` names it, the model, and settings of an :class:`ovolo.InferenceSession`::

    {
      "name": "digits",
      "implementation": "ovolo.mlserver.OvoloRuntime",
      "parameters": {"uri": "./digits.onnx", "extra": {"threads": 2, "batch": {"N": [1, 2, 4, 8]}}}
    }

``batch`` is for a dimension that is the first one of all inputs and outputs. Requests that wait are run together, up to
the largest of these sizes, and filled up to the next one. The plans of all sizes are compiled while the model is loaded,
and it is refused unless ovolo can prove that requests do not depend on each other. Where other sizes are not known before
a request comes, both happen then, and without a proof requests are run one by one.
MLServer's own batching should stay off: with it, one wrong request makes all requests of its batch fail.
"""

import asyncio
from typing import Any

import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec, StringCodec
from mlserver.errors import InferenceError, MLServerError
from mlserver.types import InferenceRequest, InferenceResponse, MetadataTensor, RequestInput, ResponseOutput
from mlserver.utils import get_model_uri

from ._ovolo import Error, InvalidArgument
from .batching import Batcher, Closed
from .session import InferenceSession, NodeArg

#: The protocol's names of element types, by those of ONNX Runtime.
_TYPES = {
    "bool": "BOOL", "string": "BYTES", "float16": "FP16", "float": "FP32", "double": "FP64",
    **{f"{sign}int{bits}": f"{sign.upper()}INT{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


class OvoloRuntime(MLModel):
    """A model that MLServer serves."""

    def session(self, path: str, **settings: Any) -> Any:
        """Opens the model. A class of your own may open it with another library."""
        return InferenceSession(path, **settings)

    async def load(self) -> bool:
        """Opens the model, and compiles it for all sizes of batches."""
        settings = dict((self.settings.parameters and self.settings.parameters.extra) or {})
        batch = settings.pop("batch", {})
        if len(batch) > 1:
            raise MLServerError(f"`batch` may have one dimension, and has {', '.join(batch)}")
        dim, sizes = next(iter(batch.items()), (None, [1]))
        if batch:
            settings["buckets"] = {**settings.get("buckets", {}), **batch}
        path = await get_model_uri(self.settings)
        session = await asyncio.to_thread(self.session, path, **settings)
        self._batcher = Batcher(session, dim, max(sizes))
        self.inputs = [_metadata(one) for one in session.get_inputs()]
        self.outputs = [_metadata(one) for one in session.get_outputs()]
        if batch:
            await asyncio.to_thread(self._prepare, session, dim, sorted(sizes))
        return True

    def _prepare(self, session: Any, dim: str, sizes: list[int]) -> None:
        """Proves that requests may be run together, and compiles the plans of all sizes, as far as sizes are known."""
        for size in sizes:
            feeds = _zeros(session.get_inputs(), size)
            if feeds is None:
                return
            if size == sizes[-1] and hasattr(session, "separates"):
                session.separates(dim, size, feeds)
            session.run(None, feeds)

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Runs the model on the tensors of a request. A client's mistake is an ``InferenceError``."""
        try:
            outputs = await self._batcher.run({one.name: _array(one) for one in payload.inputs})
        except InvalidArgument as why:
            raise InferenceError(str(why)) from why
        except Closed as why:
            raise MLServerError(str(why), 503) from why
        except Error as why:
            raise MLServerError(str(why), 500) from why
        named = {one.name: value for one, value in zip(self.outputs, outputs, strict=True)}
        asked = [one.name for one in payload.outputs] if payload.outputs else list(named)
        unknown = [name for name in asked if name not in named]
        if unknown:
            raise InferenceError(f"the model has no output `{unknown[0]}`, only {', '.join(named)}")
        return InferenceResponse(
            id=payload.id, model_name=self.name, model_version=self.version,
            outputs=[_output(name, named[name]) for name in asked],
        )  # fmt: skip

    async def unload(self) -> bool:
        """Answers the requests that wait, and gives the model back."""
        await self._batcher.close()
        return True


def _metadata(value: NodeArg) -> MetadataTensor:
    """The protocol's words for an input or an output. A size that is not known is -1."""
    kind = value.type.removeprefix("tensor(").removesuffix(")")
    shape = [size if isinstance(size, int) else -1 for size in value.shape]
    if kind not in _TYPES:
        raise MLServerError(f"`{value.name}` is a {value.type}, which the protocol cannot transfer")
    return MetadataTensor(name=value.name, datatype=_TYPES[kind], shape=shape)


def _zeros(inputs: list[NodeArg], size: int) -> dict[str, np.ndarray] | None:
    """Inputs with a first dimension of this size; ``None`` if other dimensions have no size."""
    feeds = {}
    for value in inputs:
        rest = value.shape[1:]
        if not all(isinstance(one, int) for one in rest):
            return None
        kind = value.type.removeprefix("tensor(").removesuffix(")")
        dtype = {"float": "float32", "double": "float64", "string": "object"}.get(kind, kind)
        feeds[value.name] = np.full([size, *rest], "" if kind == "string" else 0, dtype)
    return feeds


def _array(tensor: RequestInput) -> np.ndarray:
    """The elements of a tensor, which must be as many as its shape says."""
    try:
        if tensor.datatype == "BYTES":
            return np.array(StringCodec.decode_input(tensor), object).reshape(tensor.shape)
        return NumpyCodec.decode_input(tensor)
    except (ValueError, TypeError, OverflowError) as why:
        raise InferenceError(
            f"the input `{tensor.name}` is not a tensor of {tensor.datatype} with the shape {tensor.shape}: {why}"
        ) from why


def _output(name: str, value: Any) -> ResponseOutput:
    array = np.asarray(value)
    if array.dtype == object:
        output = StringCodec.encode_output(name, array.ravel().tolist())
    else:
        output = NumpyCodec.encode_output(name, array)
    # MLServer's codecs give a tensor of one dimension a second one.
    output.shape = list(array.shape)
    return output
