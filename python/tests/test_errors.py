"""What is refused, and what is said then."""

import numpy as np
import onnx
import ovolo
import pytest
from conftest import double, model
from onnx import TensorProto, helper


def refused(feeds):
    with pytest.raises(ovolo.InvalidArgument) as caught:
        ovolo.InferenceSession(double()).run(None, feeds)
    return str(caught.value)


def test_a_missing_or_unknown_input_is_named():
    assert "the model needs `x`" in refused({})
    assert "it has no input `z`" in refused({"x": np.zeros(3, np.float32), "z": 1})
    assert "the model needs `x`, and it has no input `y`; its inputs are `x`" in refused({"y": 1})


def test_another_type_or_shape_is_named():
    assert "must be f32[3], but is f64[3]; convert its elements to f32" in refused({"x": np.zeros(3)})
    assert "must be f32[3], but is f32[4]" in refused({"x": np.zeros(4, np.float32)})
    assert "reshape it" in refused({"x": np.zeros((1, 3), np.float32)})


def test_a_session_runs_again_after_an_error():
    session = ovolo.InferenceSession(double())
    with pytest.raises(ovolo.InvalidArgument):
        session.run(None, {})
    assert session.run(None, {"x": np.ones(3, np.float32)})[0].tolist() == [2, 2, 2]


@pytest.mark.parametrize("value", [None, {}, object(), [[1, 2], [3]], np.array(["a", None], object), "text"])
def test_what_is_no_array_is_refused(value):
    with pytest.raises((TypeError, ValueError, ovolo.InvalidArgument)):
        ovolo.InferenceSession(double()).run(None, {"x": value})


def test_an_element_type_without_a_counterpart_is_refused():
    with pytest.raises(TypeError, match="no element type for arrays of datetime64"):
        ovolo.InferenceSession(double()).run(None, {"x": np.array([1, 2, 3], "datetime64[s]")})


def test_a_file_that_is_absent_is_named(tmp_path):
    with pytest.raises(ovolo.Error, match="absent.onnx"):
        ovolo.InferenceSession(tmp_path / "absent.onnx")
    with pytest.raises(ovolo.Error, match="absent.onnx"):
        ovolo.compile(tmp_path / "absent.onnx")


def test_what_is_no_model_is_refused():
    with pytest.raises(ovolo.Error):
        ovolo.InferenceSession(b"no model")
    with pytest.raises(TypeError, match="a model is a path, bytes or a ModelProto, not int"):
        ovolo.InferenceSession(5)


def test_an_unknown_operator_is_named():
    made = model([helper.make_node("Nonsense", ["x"], ["y"])], *[[(name, TensorProto.FLOAT, (3,))] for name in "xy"])
    with pytest.raises(ovolo.Error, match="Nonsense"):
        ovolo.InferenceSession(made)


def test_an_index_out_of_range_is_an_error_and_not_a_crash():
    weight = onnx.numpy_helper.from_array(np.float32([1, 2, 3]), "w")
    made = model(
        [helper.make_node("Gather", ["w", "at"], ["y"])],
        [("at", TensorProto.INT64, (1,))],
        [("y", TensorProto.FLOAT, (1,))],
        [weight],
    )
    session = ovolo.InferenceSession(made)
    with pytest.raises(ovolo.Error):
        session.run(None, {"at": np.int64([9])})
    assert session.run(None, {"at": np.int64([2])})[0].tolist() == [3]


def test_unknown_settings_are_named(digits):
    with pytest.raises(ovolo.Error, match="the shipped pipelines are"):
        ovolo.compile(digits, dims={"N": 1}, pipeline="absent")
    with pytest.raises(ovolo.Error, match="did you mean `flops`"):
        ovolo.compile(digits, dims={"N": 1}, cost="flopz")
    with pytest.raises(ovolo.Error, match="extractor"):
        ovolo.compile(digits, dims={"N": 1}, extractor="absent")
    with pytest.raises(TypeError, match="colour"):
        ovolo.InferenceSession(digits, colour="red")
    with pytest.raises(TypeError, match="a list of paths"):
        ovolo.compile(digits, rules="folder")
    with pytest.raises(ovolo.Error, match="N"):
        ovolo.compile(digits)
