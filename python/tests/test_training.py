"""Training from Python."""

import numpy as np
import onnx
import ovolo
import pytest
from conftest import DIGITS, bars, model
from onnx import TensorProto, helper, numpy_helper

QUICK = {"cost": "flops", "pipeline": "native", "threads": 1}


@pytest.fixture(scope="module")
def data():
    """Images of digits, with labels."""
    return dict(np.load(DIGITS.with_name("training.npz")))


@pytest.fixture(scope="module")
def held_out():
    """Images that are not trained on."""
    return dict(np.load(DIGITS.with_name("held-out.npz")))


def trainer(**given):
    return ovolo.training.Trainer(str(DIGITS), **{"dims": {"N": 32}, "from_scratch": True, **QUICK, **given})


def test_random_weights_become_a_network_that_reads_digits_it_has_not_seen(data, held_out):
    Bar = bars()
    learns = trainer()
    losses = learns.fit(data, epochs=8, rate=0.01, progress=Bar)
    assert len(losses) == 8 and losses[-1] < 0.1 < losses[0] and learns.epochs == 8
    bar, = Bar.made
    assert bar.total == bar.done == 8 * (len(data["labels"]) // 32) and bar.closed and bar.unit == "step"
    session = ovolo.InferenceSession(learns.model(), **QUICK)
    scores, = session.run(None, {"image": held_out["image"].astype(np.float32)})
    assert np.mean(scores.argmax(1) == held_out["labels"]) >= 0.97


def test_a_step_of_gradient_descent_is_that_of_numpy():
    weights = np.array([[0.5, -1.0], [2.0, 0.25], [-0.75, 1.5]], np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    line = model(
        [node], [("x", TensorProto.FLOAT, (4, 3))], [("y", TensorProto.FLOAT, (4, 2))],
        [numpy_helper.from_array(weights, "w")],
    )
    learns = ovolo.training.Trainer(line, loss="mse", optimizer="sgd", **QUICK)
    rng = np.random.default_rng(0)
    x, labels = rng.standard_normal((4, 3)), rng.standard_normal((4, 2))
    loss = learns.step({"x": x, "labels": labels}, rate=0.1)
    off = x @ weights - labels
    assert loss == pytest.approx(np.mean(off**2), rel=1e-5)
    gradient = x.T @ off / 4
    np.testing.assert_allclose(learns.parameters["w"], weights - 0.1 * gradient, rtol=1e-4)
    assert learns.state["step"] == 1
    trained = onnx.load_from_string(learns.model())
    np.testing.assert_array_equal(numpy_helper.to_array(trained.graph.initializer[0]), learns.parameters["w"])
    learns.replace({"w": weights})
    np.testing.assert_array_equal(learns.parameters["w"], weights)


def test_a_checkpoint_goes_on_to_the_same_bytes(tmp_path, data):
    whole = trainer(seed=3)
    whole.fit(data, epochs=2)
    half = trainer(seed=3)
    half.fit(data)
    half.save(tmp_path / "half.npz")
    rest = trainer(seed=4)
    rest.load(tmp_path / "half.npz")
    assert (rest.epochs, rest.seed) == (1, 3)
    rest.fit(data)
    assert rest.model() == whole.model()
    for name, value in whole.state.items():
        np.testing.assert_array_equal(rest.state[name], value)
    assert rest.statistics.keys() == whole.statistics.keys() and len(whole.statistics) == 4
    rest.export(tmp_path / "trained.onnx")
    assert (tmp_path / "trained.onnx").read_bytes() == whole.model()
    with pytest.raises(ovolo.Error, match="optimizer=adam"):
        trainer(optimizer="sgd").load(tmp_path / "half.npz")


def test_what_is_dropped_is_resumed_from_safetensors(tmp_path, data):
    given = {"seed": 3, "dropout": {"relu*": 0.2}}
    whole = trainer(**given)
    first, = whole.fit(data)
    assert whole.fit(data) != trainer(**given).fit(data) == [first] != trainer(seed=3).fit(data)
    half = trainer(**given)
    half.fit(data)
    half.save(tmp_path / "half.safetensors")
    rest = trainer(**given | {"seed": 4})
    rest.load(tmp_path / "half.safetensors")
    rest.fit(data)
    assert rest.model() == whole.model()
    assert rest.state["dropout-seed"].dtype == np.uint64
    with pytest.raises(ovolo.Error, match="less than 1"):
        trainer(dropout={"relu*": 1.0})


def test_the_gradients_are_a_model(tmp_path, data):
    step = tmp_path / "step.ovolo"
    step.write_text(ovolo.training.grad(str(DIGITS), dims={"N": 8}))
    session = ovolo.InferenceSession(step, **QUICK)
    names = [output.name for output in session.get_outputs()]
    assert names[:2] == ["loss", "scores"] and "conv0.weight" in names and len(names) == 2 + 10 + 4
    assert "learning-rate" in ovolo.training.grad(str(DIGITS), dims={"N": 8}, optimizer="sgd")
    learns = trainer(dims={"N": 8}, from_scratch=False, optimizer="sgd")
    batch = {"image": data["image"][:8].astype(np.float32), "labels": data["labels"][:8].astype(np.int64)}
    before = learns.parameters
    feeds = {**batch, **before, **learns.statistics}
    made = dict(zip(names, session.run(None, feeds), strict=True))
    assert learns.step(batch, rate=1.0) == made["loss"]
    for name, value in learns.parameters.items():
        np.testing.assert_allclose(before[name] - value, made[name], rtol=1e-3, atol=1e-6)


def test_what_is_wrong_is_told(data):
    with pytest.raises(ovolo.Error, match="did you mean `adam`"):
        trainer(optimizer="adm")
    with pytest.raises(ovolo.Error, match="did you mean `beta1`"):
        trainer(numbers={"beta": 0.5})
    with pytest.raises(ovolo.Error, match="^freeze nothing: no parameter"):
        trainer(freeze="nothing")
    with pytest.raises(ovolo.Error, match="^lazy nothing: no trained parameter"):
        trainer(lazy="nothing")
    with pytest.raises(ovolo.Error, match="^lazy linear8.weight: its gradient has all rows"):
        trainer(lazy=["linear8.weight"])
    with pytest.raises(ovolo.Error, match="dims={'NAME': N}"):
        trainer(dims=None)
    with pytest.raises(ValueError, match="there is none"):
        ovolo.training.grad(str(DIGITS), numbers={"beta1": 0.5})
    learns = trainer()
    images = np.zeros(learns.batch["image"][1], np.float32)
    labels = np.zeros(learns.batch["labels"][1], np.int64)
    with pytest.raises(ovolo.InvalidArgument, match="the batch has no `labels`"):
        learns.step({"image": images})
    with pytest.raises(ovolo.InvalidArgument, match="the step takes no `images`"):
        learns.step({"images": images, "labels": labels})
    with pytest.raises(ovolo.InvalidArgument, match="input `labels` is "):
        learns.step({"image": images, "labels": labels[:3]})
    with pytest.raises(ovolo.InvalidArgument, match="`labels` has elements float64"):
        learns.step({"image": images, "labels": labels + 0.5})
    with pytest.raises(ovolo.InvalidArgument, match="the data have 5 rows, and a batch 32"):
        learns.fit({name: array[:5] for name, array in data.items()})
    with pytest.raises(ovolo.Error, match="keeps no value `conv`; there are"):
        learns.replace({"conv": images})
