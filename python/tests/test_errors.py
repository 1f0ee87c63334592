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


def test_inputs_that_differ_in_a_dimension_are_told_so_first():
    nodes = [helper.make_node("Add", ["a", "b"], ["y"])]
    session = ovolo.InferenceSession(
        model(nodes, [(name, TensorProto.FLOAT, ("N", 3)) for name in "ab"], [("y", TensorProto.FLOAT, ("N", 3))])
    )
    with pytest.raises(ovolo.InvalidArgument, match="^dimension `N` is 2 in `a` and 4 in `b`, and the model cannot run"):
        session.run(None, {"a": np.zeros((2, 3), np.float32), "b": np.zeros((4, 3), np.float32)})


def test_a_wrong_number_of_threads_is_named_as_in_the_options():
    options = ovolo.SessionOptions()
    options.intra_op_num_threads = -2
    with pytest.raises(ValueError, match="`intra_op_num_threads` is -2"):
        ovolo.InferenceSession(double(), options)


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


def test_a_model_of_bytes_is_not_named_by_a_file():
    for use in [ovolo.InferenceSession, ovolo.compile]:
        with pytest.raises(ovolo.Error, match="^the model is not an ONNX model") as caught:
            use(b"no model")
        assert "ovolo-" not in str(caught.value)


def test_settings_are_named_as_in_python():
    sized = model([helper.make_node("Relu", ["x"], ["y"])], [("x", TensorProto.FLOAT, ["N"])], [("y", TensorProto.FLOAT, ["N"])])
    with pytest.raises(ovolo.Error, match=r"give each a size: `dims=\{'NAME': N\}`$"):
        ovolo.compile(sized)
    with pytest.raises(ovolo.Error, match=r"the threads \(`threads`\) must be at most 1024"):
        ovolo.compile(double(), threads=5000)
    with pytest.raises(ovolo.Error, match="^pipeline nativ: "):
        ovolo.compile(double(), pipeline="nativ")
    with pytest.raises(ovolo.Error, match="give an object with a method `seconds` as `cost`"):
        ovolo.compile(double(), cost="process")
    with pytest.raises(ovolo.Error, match="give an object with a method `extract` as `extractor`"):
        ovolo.compile(double(), extractor="process")
    with pytest.raises(ovolo.Error, match="name its file in the list `costs`"):
        ovolo.compile(double(), cost="prices")


def test_too_many_threads_are_told(caplog):
    with caplog.at_level("WARNING", "ovolo"):
        ovolo.InferenceSession(double(), threads=1000)
    assert "1000 threads (`threads`) have" in caplog.text


def test_what_is_no_model_is_refused():
    with pytest.raises(TypeError, match="a model is a path, bytes or a ModelProto, not int"):
        ovolo.InferenceSession(5)
    for empty in [b"", onnx.ModelProto()]:
        with pytest.raises(ovolo.InvalidArgument, match="the model is empty: it has no bytes"):
            ovolo.InferenceSession(empty)


def test_arguments_of_wrong_kinds_are_named():
    with pytest.raises(TypeError, match="`input_feed` is a dictionary from the names of inputs to arrays, not ") as caught:
        ovolo.InferenceSession(double()).run(None, [np.zeros((64, 64))])
    assert len(str(caught.value)) < 200
    with pytest.raises(TypeError, match="`cache` is `True` or `False`, not 'no' of the type str"):
        ovolo.InferenceSession(double(), cache="no")
    with pytest.raises(TypeError, match="`threads` is an integer, not True of the type bool"):
        ovolo.compile(double(), threads=True)
    with pytest.raises(TypeError, match="`case` is the text of a counterexample"):
        ovolo.rules.differ(None)
    with pytest.warns(UserWarning, match="did you mean CPUExecutionProvider?"), pytest.raises(ovolo.InvalidArgument):
        ovolo.InferenceSession(double(), providers=["CPUExecutionProvidr"])


def test_what_scripts_call_and_changes_nothing_is_there():
    ovolo.set_default_logger_severity(3)
    ovolo.set_default_logger_verbosity(0)
    ovolo.set_seed(1)
    ovolo.disable_telemetry_events()
    ovolo.enable_telemetry_events()
    ovolo.preload_dlls(cuda=True)


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
    with pytest.raises(TypeError, match="there is no setting `colour`: there are weights, pipeline"):
        ovolo.InferenceSession(digits, colour="red")
    with pytest.raises(TypeError, match="there is no setting `pipelines`: did you mean `pipeline`"):
        ovolo.InferenceSession(digits, pipelines="native")
    with pytest.raises(TypeError, match="a list of paths"):
        ovolo.compile(digits, rules="folder")
    with pytest.raises(ovolo.Error, match="N"):
        ovolo.compile(digits)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"dims": [4]}, "`dims` is a dictionary from the names of dimensions to sizes, .* not .4. of the type list"),
        ({"dims": {"N": "4"}}, r"`dims\['N'\]` is an integer, not '4' of the type str"),
        ({"dims": {3: 4}}, "`dims` is a dictionary whose keys are the names of dimensions"),
        ({"pipeline": 3}, "`pipeline` is a name or a path, not 3 of the type int"),
        ({"threads": 1.5}, "`threads` is an integer, not 1.5 of the type float"),
        ({"memory_limit": "8GiB"}, "`memory_limit` is an integer, not '8GiB'"),
        ({"costs": [3]}, r"`costs\[0\]` is a name or a path, not 3"),
        ({"providers": "CPUExecutionProvider"}, "`providers` is a list of providers, not 'CPUExecutionProvider'"),
        ({"providers": [3]}, r"`providers\[0\]` is the name of a provider, or a name with a dictionary"),
        ({"buckets": 8}, "`buckets` is a dictionary from names of dimensions to lists of sizes, not 8"),
        ({"buckets": {"N": 8}}, r"`buckets\['N'\]` is a list of integers, not 8"),
        ({"buckets": {"N": ["8"]}}, r"`buckets\['N'\]\[0\]` is an integer, not '8'"),
    ],
)
def test_arguments_of_other_kinds_are_named(digits, settings, why):
    with pytest.raises(TypeError, match=why):
        ovolo.InferenceSession(digits, **settings)


def test_sizes_that_are_no_sizes_are_refused(digits):
    with pytest.raises(ValueError, match="`threads` is -1, and must not be negative"):
        ovolo.compile(digits, threads=-1)


def test_options_of_other_providers_change_nothing_and_are_noted(digits, caplog):
    caplog.set_level("INFO", "ovolo")
    options = {"arena_extend_strategy": "kSameAsRequested", "use_arena": "1", "device_id": "0"}
    ovolo.InferenceSession(digits, providers=[("CPUExecutionProvider", options)], dims={"N": 1})
    assert "options that change nothing: arena_extend_strategy, device_id, use_arena" in caplog.text
    with pytest.raises(ovolo.InvalidArgument, match="`device_id` is 1, and ovolo runs on the first device"):
        ovolo.InferenceSession(digits, providers=[("CPUExecutionProvider", {"device_id": 1})])


def test_inputs_have_the_sizes_that_a_session_was_given(digits):
    assert ovolo.InferenceSession(digits).get_inputs()[0].shape == ["N", 1, 8, 8]
    session = ovolo.InferenceSession(digits, dims={"N": 3})
    assert session.get_inputs()[0].shape == [3, 1, 8, 8]
    assert session.get_outputs()[0].shape[0] == 3


def test_a_pipeline_may_be_a_path(digits, tmp_path):
    from pathlib import Path

    file = tmp_path / "mine.ron"
    file.write_text(
        'Pipeline(name: "mine", passes: [Rewrite(name: "r", rules: ["fuse", "native"]), Extract(cost: "flops"), '
        'Plan()], backends: ["native"])'
    )
    assert str(ovolo.compile(digits, dims={"N": 1}, pipeline=Path(file)))


def test_a_misspelt_session_option_is_told(digits):
    options = ovolo.SessionOptions()
    options.intra_op_num_thread = 1
    with pytest.warns(UserWarning, match="no session option `intra_op_num_thread`: did you mean `intra_op_num_threads`"):
        ovolo.InferenceSession(digits, options)


@pytest.mark.parametrize("dims", [{}, {"N": 1}])
def test_inputs_that_cannot_be_read_are_named(digits, dims):
    session = ovolo.InferenceSession(digits, dims=dims)
    for value, kind, why in [
        ("hello", ovolo.InvalidArgument, "input `image`: could not convert string to float: 'hello'"),
        ([[1], [1, 2]], (ovolo.InvalidArgument, TypeError), "input `image`: .*(inhomogeneous|unequal)"),
        (object(), TypeError, "input `image`: "),
        (None, TypeError, "input `image`: the model takes an array, and NoneType was given"),
        (np.array(["2020"], "datetime64[Y]"), TypeError, "input `image`: ovolo has no element type for arrays of"),
    ]:
        with pytest.raises(kind, match=why) as caught:
            session.run(None, {"image": value})
        assert caught.value.__cause__ is not None
    for feeds in (5, None, [np.zeros(3)]):
        with pytest.raises(TypeError, match="`input_feed` is a dictionary from the names of inputs to arrays, not "):
            session.run(None, feeds)
    with pytest.raises(ovolo.InvalidArgument, match="3"):
        session.run(None, {3: np.zeros(3)})
    with pytest.raises(ovolo.InvalidArgument, match="the names of outputs are a list of texts"):
        session.run("scores", {"image": np.zeros((1, 1, 8, 8), np.float32)})


def test_other_arguments_of_wrong_kinds_are_named(digits):
    with pytest.raises(TypeError, match="`sess_options` is an `ovolo.SessionOptions`, not 3"):
        ovolo.InferenceSession(digits, 3)
    with pytest.raises(TypeError, match=r"`provider_options\[0\]` is a dictionary of options, not 3"):
        ovolo.InferenceSession(digits, providers=["CPUExecutionProvider"], provider_options=[3])
    with pytest.raises(TypeError, match="`files` is a list of paths, not 'x.ron'"):
        ovolo.rules.verify("x.ron")
    with pytest.raises(TypeError, match="`instances` is an integer, not '3'"):
        ovolo.rules.verify(instances="3")
    with pytest.raises(ValueError, match="`seed` is -1"):
        ovolo.rules.verify(seed=-1)
    with pytest.raises(TypeError, match="`other` is a plan of `ovolo.compile`, not 3"):
        ovolo.compile(digits, dims={"N": 1}, pipeline="native", cost="flops").estimates(3)


@pytest.mark.parametrize(("name", "said"), [("Tensorrt", "available are"), ("Foo", "available are")])
def test_another_provider_is_no_misspelt_one(name, said):
    with pytest.warns(UserWarning, match=f"{name}ExecutionProvider is not here; {said}") as warned:
        ovolo.InferenceSession(double(), providers=[f"{name}ExecutionProvider", "CPUExecutionProvider"])
    assert warned[0].filename == __file__


def test_an_array_of_objects_is_no_array_of_numbers():
    with pytest.raises(TypeError, match="input `x`: the model takes an array of float32, and an array of objects was given"):
        ovolo.InferenceSession(double()).run(None, {"x": np.array([object()] * 3)})


def test_weights_that_are_left_out_may_be_drawn():
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], doc_string="normal 0 1")
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    made = model(nodes, [("x", TensorProto.FLOAT, (3,))], [("y", TensorProto.FLOAT, (3,))], [weight])
    with pytest.raises(ovolo.Error, match="`seeded_weights=True`"):
        ovolo.InferenceSession(made)
    drawn = ovolo.InferenceSession(made, seeded_weights=True).run(None, {"x": np.zeros(3, np.float32)})[0]
    assert len(set(drawn.tolist())) == 3
