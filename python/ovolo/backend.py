"""The backend of ONNX's own test suite: ``onnx.backend.base.Backend``, by ovolo. Needs the package onnx."""

from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend as Base
from onnx.backend.base import BackendRep, namedtupledict

from .session import InferenceSession

#: For each device of ONNX, the provider.
_PROVIDERS = {"CPU": "CPUExecutionProvider"}


class Prepared(BackendRep):
    """A model that is ready to run."""

    def __init__(self, model: onnx.ModelProto, provider: str, **settings: Any) -> None:
        """Compiles a model. The cache is left alone, unless ``cache`` is given."""
        given = {"cache": False, **settings}
        self.session = InferenceSession(model, providers=[provider], **given)
        self.inputs = [value.name for value in model.graph.input]
        self.outputs = [value.name for value in model.graph.output]

    def run(self, inputs: Any, **settings: Any) -> tuple[Any, ...]:
        """Runs the model on a list of values in its order, on one value, or on a dictionary."""
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        if not isinstance(inputs, dict):
            inputs = dict(zip(self.inputs, inputs, strict=False))
        outputs = self.session.run(None, inputs)
        return namedtupledict("Outputs", self.outputs)(*outputs)


class Backend(Base):
    """ovolo as a backend."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **settings: Any) -> Prepared:
        """Makes a model ready to run on a device."""
        super().prepare(model, device, **settings)
        kind, _, _ = device.partition(":")
        if kind not in _PROVIDERS:
            raise ValueError(f"there is no device {device}: known are {', '.join(_PROVIDERS)}")
        return Prepared(model, _PROVIDERS[kind], **settings)

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **settings: Any) -> tuple[Any, ...]:
        """Runs a model once."""
        return cls.prepare(model, device, **settings).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Any = None,
        **settings: Any,
    ) -> tuple[Any, ...]:
        """Runs one operator, as a model of its own. The inputs are arrays."""
        arrays = [np.asarray(value) for value in inputs]

        def declared(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
            return onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )

        names = [name for name in node.input if name]
        graph = onnx.helper.make_graph(
            [node],
            node.op_type,
            [declared(name, array) for name, array in zip(names, arrays, strict=True)],
            [onnx.ValueInfoProto(name=name) for name in node.output if name],
        )
        model = onnx.shape_inference.infer_shapes(onnx.helper.make_model(graph))
        return cls.run_model(model, arrays, device, **settings)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether a device is one on which models run."""
        return device.partition(":")[0] in _PROVIDERS


prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
