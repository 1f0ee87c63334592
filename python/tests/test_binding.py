"""Values and bindings, as scripts for ONNX Runtime use them."""

import threading

import numpy as np
import ovolo as onnxruntime
import pytest
from conftest import model
from onnx import TensorProto, helper

X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)


@pytest.fixture
def session():
    """A session of a model with one input and two outputs."""
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["z"])]
    values = [(name, TensorProto.FLOAT, [2, 3]) for name in "xyz"]
    return onnxruntime.InferenceSession(model(nodes, values[:1], values[1:]))


def test_a_binding_makes_its_outputs(session):
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("z")
    session.run_with_iobinding(binding)
    (z,) = binding.copy_outputs_to_cpu()
    assert np.array_equal(z, -X)
    (value,) = binding.get_outputs()
    assert (value.shape(), value.data_type(), value.element_type()) == ([2, 3], "tensor(float)", 1)
    binding.clear_binding_outputs()
    assert binding.get_outputs() == []


def test_a_binding_writes_to_buffers(session):
    y = np.empty((2, 3), np.float32)
    z = onnxruntime.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, X.shape, X.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    binding.bind_ortvalue_output("z", z)
    session.run_with_iobinding(binding)
    assert np.array_equal(y, np.maximum(X, 0))
    assert np.array_equal(z.numpy(), -X)


def test_a_binding_reads_what_a_value_holds_at_each_run(session):
    value = onnxruntime.OrtValue.ortvalue_from_numpy(X.copy())
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_output("z")
    session.run_with_iobinding(binding)
    value.update_inplace(X + 1)
    session.run_with_iobinding(binding)
    assert np.array_equal(binding.copy_outputs_to_cpu()[0], -(X + 1))


def test_values_are_run_without_arrays(session):
    y, z = session.run_with_ort_values(None, {"x": onnxruntime.OrtValue.ortvalue_from_numpy(X)})
    assert np.array_equal(np.asarray(y), np.maximum(X, 0))
    assert np.array_equal(np.from_dlpack(z), -X)
    assert y.is_tensor() and y.has_value() and y.device_name() == "cpu"


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda binding: binding.bind_output("w"), "the model has no output `w`; its outputs are `y`, `z`"),
        (lambda binding: binding.bind_output("y", "cuda"), "the device is cuda:0, and values are in the memory of the host"),
        (lambda binding: binding.bind_output("y", "cpu", 0, np.float32, [2, 3], 0), "`buffer_ptr` of `y` is 0"),
        (lambda binding: binding.bind_output("y", "cpu", 0, object, [2, 3], 8), "`y` is a tensor of strings"),
    ],
)
def test_mistakes_of_a_binding_are_told(session, mistake, message):
    with pytest.raises(onnxruntime.InvalidArgument, match=message):
        mistake(session.io_binding())


def test_a_buffer_of_another_shape_is_refused(session):
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_ortvalue_output("y", onnxruntime.OrtValue.ortvalue_from_shape_and_type([3, 2], 1))
    with pytest.raises(onnxruntime.InvalidArgument, match=r"output `y` is float32\[2, 3\], and its memory is float32\[3, 2\]"):
        session.run_with_iobinding(binding)
    assert binding.get_outputs() == []


def test_a_binding_without_outputs_is_refused(session):
    with pytest.raises(onnxruntime.InvalidArgument, match="no output is bound"):
        session.run_with_iobinding(session.io_binding())


def test_every_element_type_of_onnx_has_its_number():
    for number, word in onnxruntime.binding.ELEMENTS.values():
        assert TensorProto.DataType.Name(number).lower() == word


@pytest.mark.parametrize(("feed", "error"), [({"x": X}, ""), ({}, "the model needs `x`")])
def test_a_run_on_a_thread_of_its_own_calls_back(session, feed, error):
    done = threading.Event()
    got = []

    def callback(outputs, user, why):
        got.extend([outputs, user, why])
        done.set()

    session.run_async(["y"], feed, callback, "mine")
    assert done.wait(60)
    outputs, user, why = got
    assert user == "mine" and why.startswith(error) and bool(why) == bool(error)
    assert outputs is None if error else np.array_equal(outputs[0], np.maximum(X, 0))


def test_options_have_the_values_of_onnx_runtime_until_they_are_set():
    options = onnxruntime.SessionOptions()
    assert options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    assert options.inter_op_num_threads == 0 and options.enable_mem_pattern
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert not onnxruntime.RunOptions().terminate
    with pytest.raises(AttributeError, match="there is no session option `graph_optimisation_level`"):
        _ = options.graph_optimisation_level
