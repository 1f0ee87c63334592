"""Element types, and the kinds of values."""

import ml_dtypes
import numpy as np
import ovolo
import pytest
from conftest import identity, model
from onnx import TensorProto, helper

PLAIN = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FLOAT16": np.float16,
    "FLOAT": np.float32,
    "DOUBLE": np.float64,
    "COMPLEX64": np.complex64,
    "COMPLEX128": np.complex128,
    "BFLOAT16": ml_dtypes.bfloat16,
    "FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn,
    "FLOAT8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "FLOAT8E5M2": ml_dtypes.float8_e5m2,
    "FLOAT8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "FLOAT8E8M0": ml_dtypes.float8_e8m0fnu,
    "FLOAT4E2M1": ml_dtypes.float4_e2m1fn,
    "UINT4": ml_dtypes.uint4,
    "INT4": ml_dtypes.int4,
    "UINT2": ml_dtypes.uint2,
    "INT2": ml_dtypes.int2,
}


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_every_element_type_goes_in_and_out(name, shape):
    count = int(np.prod(shape))
    values = [1, 0, 1, 1, 0, 1] if PLAIN[name] is not ml_dtypes.float8_e8m0fnu else [1, 2, 4, 0.5, 1, 1]
    x = np.array(values[:count]).astype(PLAIN[name]).reshape(shape)
    opset = 25 if "2" in name.removeprefix("FLOAT8E5M2") or "8M0" in name else 21
    session = ovolo.InferenceSession(identity(getattr(TensorProto, name), shape, opset), cache=False)
    y, = session.run(None, {"x": x})
    assert y.dtype == x.dtype
    assert y.shape == x.shape
    assert y.tobytes() == x.tobytes()


def test_signed_integers_of_4_bits_keep_their_sign():
    x = np.array([-8, -1, 0, 7]).astype(ml_dtypes.int4)
    y, = ovolo.InferenceSession(identity(TensorProto.INT4, (4,))).run(None, {"x": x})
    assert y.astype(int).tolist() == [-8, -1, 0, 7]


def test_strings_are_arrays_of_objects():
    session = ovolo.InferenceSession(identity(TensorProto.STRING, (2, 2)))
    texts = [["a", "ß"], ["", "longer"]]
    for given in (np.array(texts), np.array(texts, object), texts):
        y, = session.run(None, {"x": given})
        assert y.dtype == object
        assert y.tolist() == texts


@pytest.mark.parametrize("change", [
    lambda x: x.T.copy().T,
    lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    lambda x: x[::-1][::-1],
    lambda x: x.astype(">f4"),
    lambda x: np.asfortranarray(x),
    lambda x: x.tolist(),
    lambda x: memoryview(np.ascontiguousarray(x)),
])
def test_arrays_of_any_order_are_taken(change):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y, = ovolo.InferenceSession(identity(TensorProto.FLOAT, (2, 3))).run(None, {"x": change(x)})
    assert y.tolist() == x.tolist()


def test_an_array_that_cannot_be_written_is_taken():
    x = np.ones(4096, np.float32)
    x.flags.writeable = False
    y, = ovolo.InferenceSession(identity(TensorProto.FLOAT, (4096,))).run(None, {"x": x})
    assert y.sum() == 4096


class Foreign:
    """An array of another library, which speaks DLPack."""

    def __init__(self, array):
        self.array = array
        self.asked = 0

    def __dlpack__(self, **options):
        self.asked += 1
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Converted:
    """An array of another library, which speaks `__array__`."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


def test_an_object_with_dlpack_is_taken():
    x = Foreign(np.float32([1, 2, 3]))
    y, = ovolo.InferenceSession(identity(TensorProto.FLOAT)).run(None, {"x": x})
    assert y.tolist() == [1, 2, 3]
    assert x.asked == 1


def test_an_object_with_array_is_taken():
    session = ovolo.InferenceSession(identity(TensorProto.FLOAT))
    assert session.run(None, {"x": Converted(np.float32([1, 2, 3]))})[0].tolist() == [1, 2, 3]


def test_outputs_speak_dlpack():
    y, = ovolo.InferenceSession(identity(TensorProto.FLOAT)).run(None, {"x": np.float32([1, 2, 3])})
    assert np.from_dlpack(y).tolist() == [1, 2, 3]


def sequence(ty):
    return helper.make_tensor_sequence_value_info(ty, TensorProto.FLOAT, None)


def test_sequences_are_lists():
    nodes = [helper.make_node("SequenceAt", ["s", "at"], ["y"]), helper.make_node("Identity", ["s"], ["t"])]
    graph = helper.make_graph(
        nodes,
        "sequence",
        [sequence("s"), helper.make_tensor_value_info("at", TensorProto.INT64, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None), sequence("t")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = ovolo.InferenceSession(made)
    assert session.get_inputs()[0].type == "seq(tensor(float))"
    parts = [np.float32([1]), np.float32([2, 3])]
    y, t = session.run(None, {"s": parts, "at": np.int64(1)})
    assert y.tolist() == [2, 3]
    assert [one.tolist() for one in t] == [[1], [2, 3]]
    with pytest.raises(TypeError, match="takes a list"):
        session.run(None, {"s": 5, "at": np.int64(1)})


def test_an_optional_value_may_be_none():
    inner = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    graph = helper.make_graph(
        [helper.make_node("OptionalHasElement", ["x"], ["y"])],
        "optional",
        [helper.make_value_info("x", inner)],
        [helper.make_tensor_value_info("y", TensorProto.BOOL, [])],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = ovolo.InferenceSession(made)
    assert session.get_inputs()[0].type == "optional(tensor(float))"
    assert not session.run(None, {"x": None})[0]
    assert session.run(None, {"x": np.float32([1, 2])})[0]


def test_small_inputs_that_decide_shapes_are_read():
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    inputs = [("x", TensorProto.FLOAT, (6,)), ("shape", TensorProto.INT64, (2,))]
    session = ovolo.InferenceSession(model(nodes, inputs, [("y", TensorProto.FLOAT, (None, None))]))
    shape = np.int64([2, 3])
    for dims in ([2, 3], [3, 2], [6, 1], [2, 3]):
        shape[:] = dims
        y, = session.run(None, {"x": np.zeros(6, np.float32), "shape": shape})
        assert y.shape == tuple(dims)
