"""What the tests share."""

import pathlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"


@pytest.fixture
def digits():
    """The path of the network of the examples."""
    return str(DIGITS)


@pytest.fixture
def images():
    """360 images of digits."""
    return np.load(DIGITS.with_name("images.npy"))


def model(nodes, inputs, outputs, initializers=(), opset=21):
    """A model of a few nodes, as bytes. Inputs and outputs are tuples: name, element type, shape."""
    def info(name, ty, shape):
        return helper.make_tensor_value_info(name, ty, shape)

    graph = helper.make_graph(
        nodes, "small", [info(*one) for one in inputs], [info(*one) for one in outputs], list(initializers)
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return made.SerializeToString()


def identity(ty, shape=(3,), opset=21):
    """A model that gives back what it is given."""
    node = helper.make_node("Identity", ["x"], ["y"])
    return model([node], [("x", ty, shape)], [("y", ty, shape)], opset=opset)


def double(shape=(3,)):
    """A model that adds a float32 array to itself."""
    node = helper.make_node("Add", ["x", "x"], ["y"])
    return model([node], [("x", TensorProto.FLOAT, shape)], [("y", TensorProto.FLOAT, shape)])


def products(size=256, layers=6):
    """A model of matrix products, which takes a while."""
    weight = onnx.numpy_helper.from_array(np.full((size, size), 1 / size, np.float32), "w")
    names = ["x", *(f"h{at}" for at in range(layers - 1)), "y"]
    nodes = [helper.make_node("MatMul", [a, "w"], [b]) for a, b in zip(names, names[1:], strict=False)]
    shape = (size, size)
    return model(nodes, [("x", TensorProto.FLOAT, shape)], [("y", TensorProto.FLOAT, shape)], [weight])


def bars():
    """A class of progress bars by tqdm's conventions, with a list of those that were made."""

    class Bar:
        made = []

        def __init__(self, total, unit):
            self.total, self.unit, self.done, self.closed = total, unit, 0, False
            Bar.made.append(self)

        def update(self, count):
            self.done += count

        def close(self):
            self.closed = True

    return Bar
