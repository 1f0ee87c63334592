"""Sessions, as scripts for ONNX Runtime use them."""

import numpy as np
import onnx
import ovolo
import ovolo as onnxruntime
import pytest
from conftest import double, model
from onnx import TensorProto, helper


def test_a_script_for_onnx_runtime_runs(digits, images):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    assert onnxruntime.get_device() in ("CPU", "GPU")
    session = onnxruntime.InferenceSession(digits, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    scores = session.run([session.get_outputs()[0].name], {name: images})[0]
    labels = np.load(digits.replace("digits.onnx", "labels.npy"))
    assert (scores.argmax(1) == labels).mean() > 0.98
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert session.get_session_options() is options


def test_options_that_change_nothing_are_named(caplog):
    caplog.set_level("INFO", "ovolo")
    options = ovolo.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.disable_prepacking", "1")
    ovolo.InferenceSession(double(), options)
    assert "options that change nothing: log_severity_level, session.disable_prepacking" in caplog.text


def test_inputs_and_outputs_are_described(digits):
    session = ovolo.InferenceSession(digits)
    image, = session.get_inputs()
    assert (image.name, image.type, image.shape) == ("image", "tensor(float)", ["N", 1, 8, 8])
    scores, = session.get_outputs()
    assert (scores.name, scores.type, scores.shape) == ("scores", "tensor(float)", ["N", 10])


def test_sizes_are_read_off_the_inputs(digits, images):
    session = ovolo.InferenceSession(digits)
    assert session.is_dynamic
    whole, = session.run(None, {"image": images})
    for count in (1, 7, 360):
        part, = session.run(None, {"image": images[:count]})
        assert part.shape == (count, 10)
        np.testing.assert_allclose(part, whole[:count], rtol=1e-4, atol=1e-4)


def test_a_session_whose_sizes_are_bound_is_compiled_at_once(digits, images):
    options = ovolo.SessionOptions()
    options.add_free_dimension_override_by_name("N", 4)
    session = ovolo.InferenceSession(digits, options)
    assert not session.is_dynamic
    assert session.run(None, {"image": images[:4]})[0].shape == (4, 10)
    with pytest.raises(ovolo.InvalidArgument, match="dimension 0 is 5, not 4"):
        session.run(None, {"image": images[:5]})


def test_buckets_round_sizes_up(digits, images):
    session = ovolo.InferenceSession(digits, buckets={"N": [8, 512]})
    assert session.run(None, {"image": images[:5]})[0].shape == (5, 10)
    with pytest.raises(ovolo.Error, match="no input"):
        ovolo.InferenceSession(digits, buckets={"M": [8]})


def test_a_size_beyond_its_buckets_is_noted_once(digits, images, caplog):
    session = ovolo.InferenceSession(digits, buckets={"N": [2, 4]})
    for count in (5, 5, 4, 6):
        session.run(None, {"image": images[:count]})
    said = "`N` is %d, beyond its largest bucket, 4: the plan is for %d alone"
    noted = [one.getMessage() for one in caplog.records if "bucket" in one.getMessage()]
    assert noted == [said % (5, 5), said % (6, 6)]


@pytest.mark.parametrize("form", [bytes, bytearray, onnx.load_from_string])
def test_a_model_may_be_given_as_bytes_or_as_a_message(form):
    session = ovolo.InferenceSession(form(double()))
    assert session.run(None, {"x": np.float32([1, 2, 3])})[0].tolist() == [2, 4, 6]


def test_outputs_are_chosen_by_their_names_in_any_order():
    nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Abs", ["x"], ["b"])]
    tensor = [("x", TensorProto.FLOAT, (2,))]
    made = model(nodes, tensor, [("a", TensorProto.FLOAT, (2,)), ("b", TensorProto.FLOAT, (2,))])
    session = ovolo.InferenceSession(made)
    x = np.float32([-1, 2])
    assert [one.tolist() for one in session.run(["b", "a", "b"], {"x": x})] == [[1, 2], [1, -2], [1, 2]]
    assert len(session.run(None, {"x": x})) == len(session.run([], {"x": x})) == 2
    with pytest.raises(ovolo.InvalidArgument, match="no output `c`: its outputs are a, b"):
        session.run(["c"], {"x": x})


@pytest.mark.parametrize("size", [3, "N"])
def test_an_output_that_is_asked_for_twice_is_two_arrays(size):
    session = ovolo.InferenceSession(double((size,)), cache=False)
    x = np.array([1, 2, 3], np.float32)
    first, second = session.run(["y", "y"], {"x": x})
    first[:] = 0
    np.testing.assert_array_equal(second, [2, 4, 6])


def test_outputs_of_one_run_outlive_the_next():
    session = ovolo.InferenceSession(double((2000,)))
    first, = session.run(None, {"x": np.ones(2000, np.float32)})
    second, = session.run(None, {"x": np.zeros(2000, np.float32)})
    assert first.sum() == 4000
    assert second.sum() == 0
    first[0] = 5  # Outputs belong to the caller.
    assert session.run(None, {"x": np.ones(2000, np.float32)})[0][0] == 2


def test_an_aligned_array_is_read_without_a_copy_and_may_change_between_runs():
    buffer = np.zeros(4096 * 4 + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    x = buffer[start : start + 4096 * 4].view(np.float32)
    session = ovolo.InferenceSession(double((4096,)))
    for value in (1, 2):
        x[:] = value
        assert session.run(None, {"x": x})[0].sum() == 4096 * 2 * value


def test_initializers_need_not_be_given():
    weight = onnx.numpy_helper.from_array(np.float32([1, 1, 1]), "w")
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    tensor = ("x", TensorProto.FLOAT, (3,)), ("w", TensorProto.FLOAT, (3,))
    session = ovolo.InferenceSession(model(nodes, tensor, [("y", TensorProto.FLOAT, (3,))], [weight]))
    assert [one.name for one in session.get_inputs()] == ["x"]
    optional, = session.get_overridable_initializers()
    assert (optional.name, optional.type, optional.shape) == ("w", "tensor(float)", [3])
    assert session.run(None, {"x": np.zeros(3, np.float32)})[0].tolist() == [1, 1, 1]


@pytest.mark.parametrize("settings", [{}, {"dims": {"N": 3}}, {"buckets": {"N": [4]}}])
def test_optional_inputs_may_be_given(settings):
    weight = onnx.numpy_helper.from_array(np.float32([1]), "w")
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    size = "N" if settings else 3
    tensor = ("x", TensorProto.FLOAT, (size,)), ("w", TensorProto.FLOAT, (1,))
    session = ovolo.InferenceSession(model(nodes, tensor, [("y", TensorProto.FLOAT, (size,))], [weight]), **settings)
    zeros = np.zeros(3, np.float32)
    for value in (5, None, 7):
        feeds = {"x": zeros} if value is None else {"x": zeros, "w": np.float32([value])}
        assert session.run(None, feeds)[0].tolist() == [value or 1] * 3
    if "buckets" not in settings:
        with pytest.raises(ovolo.InvalidArgument):
            session.run(None, {"x": np.float64([1]), "w": np.float32([5])})


def test_metadata_is_read():
    made = onnx.load_from_string(double())
    made.producer_name, made.model_version, made.doc_string = "a test", 7, "doubles"
    made.metadata_props.add(key="author", value="somebody")
    about = ovolo.InferenceSession(made).get_modelmeta()
    assert (about.producer_name, about.version, about.description) == ("a test", 7, "doubles")
    assert (about.graph_name, about.custom_metadata_map) == ("small", {"author": "somebody"})


def test_a_provider_that_is_absent_is_told_and_the_next_one_taken(digits):
    if "CUDAExecutionProvider" in ovolo.get_available_providers():
        pytest.skip("the machine has this provider")
    with pytest.warns(UserWarning, match="CUDAExecutionProvider is not here"):
        session = ovolo.InferenceSession(digits, providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]
    with pytest.warns(UserWarning), pytest.raises(ovolo.InvalidArgument, match="none of the providers"):
        ovolo.InferenceSession(digits, providers=["CUDAExecutionProvider"])


def test_a_provider_takes_settings(digits, images):
    settings = {"pipeline": "native", "dims": {"N": 1}}
    session = ovolo.InferenceSession(digits, providers=[("CPUExecutionProvider", settings)])
    assert session.get_provider_options()["CPUExecutionProvider"]["pipeline"] == "native"
    assert session.run(None, {"image": images[:1]})[0].shape == (1, 10)
    again = ovolo.InferenceSession(
        digits, providers=["CPUExecutionProvider"], provider_options=[{"pipeline": "native"}]
    )
    assert again.get_provider_options()["CPUExecutionProvider"]["pipeline"] == "native"


def test_branches_and_loops_run():
    body = helper.make_graph(
        [
            helper.make_node("Add", ["carried", "carried"], ["next"]),
            helper.make_node("Identity", ["going"], ["still"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("at", TensorProto.INT64, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            helper.make_tensor_value_info("carried", TensorProto.FLOAT, [1]),
        ],
        [
            helper.make_tensor_value_info("still", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [1]),
        ],
    )
    nodes = [helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)]
    inputs = [("count", TensorProto.INT64, []), ("x", TensorProto.FLOAT, [1])]
    session = ovolo.InferenceSession(model(nodes, inputs, [("y", TensorProto.FLOAT, [1])]))
    for count in (0, 3, 5):
        y, = session.run(None, {"count": np.int64(count), "x": np.float32([1])})
        assert y.tolist() == [2**count]
