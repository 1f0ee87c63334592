"""Requests that are run together."""

import asyncio
import threading
from types import SimpleNamespace

import numpy as np
import ovolo
import pytest
from conftest import double, model
from onnx import TensorProto, helper, numpy_helper
from ovolo.batching import Batcher, Closed
from serving import recurrent


class Recorder:
    """Doubles `x`, refuses negative numbers, and keeps the sizes of its runs. The first run waits for `go`."""

    def __init__(self):
        self.go = threading.Event()
        self.runs = []

    def get_inputs(self):
        return [SimpleNamespace(name="x", type="tensor(float)", shape=["N", 2])]

    def get_outputs(self):
        return [SimpleNamespace(name="y", type="tensor(float)", shape=["N", 2])]

    def run(self, names, feeds):
        assert self.go.wait(10)
        self.runs.append(len(feeds["x"]))
        if (feeds["x"] < 0).any():
            raise ovolo.Error("a number is negative")
        return [feeds["x"] * 2]


def rows(value, count=1, width=2):
    return {"x": np.full((count, width), value, np.float32)}


async def together(recorder, batcher, feeds):
    """Sends requests so that all others wait while the first one runs."""
    tasks = []
    for one in feeds:
        tasks.append(asyncio.create_task(batcher.run(one)))
        await asyncio.sleep(0.02)
    recorder.go.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_requests_that_wait_are_run_together():
    async def go():
        recorder = Recorder()
        batcher = Batcher(recorder, "N", 4)
        sizes = [1, 1, 2, 2, 3, 1, 9]
        answers = await together(recorder, batcher, [rows(at, size) for at, size in enumerate(sizes)])
        for at, (size, [answer]) in enumerate(zip(sizes, answers, strict=True)):
            np.testing.assert_array_equal(answer, np.full((size, 2), 2 * at))
        # Never more than four rows, unless one request has more.
        assert recorder.runs == [1, 3, 2, 4, 9]

    asyncio.run(go())


def test_an_error_reaches_the_request_that_caused_it_alone():
    async def go():
        recorder = Recorder()
        batcher = Batcher(recorder, "N", 4)
        first, right, wrong, again = await together(recorder, batcher, [rows(0), rows(1), rows(-1), rows(3)])
        assert [first[0][0, 0], right[0][0, 0], again[0][0, 0]] == [0, 2, 6]
        assert isinstance(wrong, ovolo.Error)
        assert recorder.runs == [1, 3, 1, 1, 1]

    asyncio.run(go())


def test_requests_of_different_shapes_are_run_apart():
    async def go():
        recorder = Recorder()
        batcher = Batcher(recorder, "N", 4)
        answers = await together(recorder, batcher, [rows(0), rows(1), rows(1, width=3), rows(1)])
        assert [answer[0].shape for answer in answers] == [(1, 2), (1, 2), (1, 3), (1, 2)]
        assert recorder.runs == [1, 1, 1, 1]

    asyncio.run(go())


def test_a_request_whose_caller_has_left_is_not_run():
    async def go():
        recorder = Recorder()
        batcher = Batcher(recorder, "N", 4)
        tasks = []
        for at in range(4):
            tasks.append(asyncio.create_task(batcher.run(rows(at))))
            await asyncio.sleep(0.02)
        tasks[0].cancel()
        tasks[2].cancel()
        await asyncio.sleep(0.05)
        recorder.go.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(one) for one in answers[::2]] == [asyncio.CancelledError] * 2
        assert [one[0][0, 0] for one in answers[1::2]] == [2, 6]
        # The first one was running already.
        assert recorder.runs == [1, 2]

    asyncio.run(go())


def test_closing_answers_what_waits_and_refuses_the_rest():
    async def go():
        recorder = Recorder()
        batcher = Batcher(recorder)
        tasks = [asyncio.create_task(batcher.run(rows(at))) for at in range(3)]
        await asyncio.sleep(0.05)
        closing = asyncio.create_task(batcher.close())
        await asyncio.sleep(0)
        with pytest.raises(Closed):
            await batcher.run(rows(4))
        recorder.go.set()
        await closing
        assert [(await task)[0][0, 0] for task in tasks] == [0, 2, 4]
        assert recorder.runs == [1, 1, 1]

    asyncio.run(go())


def test_a_model_without_the_dimension_cannot_be_gathered():
    session = ovolo.InferenceSession(double(), cache=False)
    with pytest.raises(ovolo.Error, match=r"along `N`: the input `x` has the shape \[3\]"):
        Batcher(session, "N", 4)


def test_sequences_of_a_batch_are_independent():
    made = recurrent(width=8, steps=4)
    session, exact = ovolo.InferenceSession(made, buckets={"N": [1, 4]}), ovolo.InferenceSession(made)
    x = np.random.default_rng(1).standard_normal((4, 4, 8), np.float32)
    for rows in (1, 2, 3, 4):
        [found], [expected] = (one.run(None, {"x": x[:rows]}) for one in (session, exact))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_lengths_belong_to_their_sequences():
    rng = np.random.default_rng(2)
    weights = [numpy_helper.from_array(rng.standard_normal((1, 12, 3), np.float32), name) for name in "wr"]
    node = helper.make_node("LSTM", ["x", "w", "r", "", "lengths"], ["y"], hidden_size=3)
    inputs = [("x", TensorProto.FLOAT, (5, "N", 3)), ("lengths", TensorProto.INT32, ("N",))]
    made = model([node], inputs, [("y", TensorProto.FLOAT, (5, 1, "N", 3))], weights)
    session, exact = ovolo.InferenceSession(made, buckets={"N": [4]}), ovolo.InferenceSession(made)
    x = rng.standard_normal((5, 4, 3), np.float32)
    lengths = np.int32([5, 2, 3, 1])
    for rows in (1, 2, 3):
        feeds = {"x": x[:, :rows], "lengths": lengths[:rows]}
        [found], [expected] = (one.run(None, feeds) for one in (session, exact))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_requests_that_depend_on_each_other_are_run_one_by_one(caplog):
    node = helper.make_node("Softmax", ["x"], ["y"], axis=0)
    made = model([node], [("x", TensorProto.FLOAT, ("N", 2))], [("y", TensorProto.FLOAT, ("N", 2))])

    async def go():
        batcher = Batcher(ovolo.InferenceSession(made, cache=False), "N", 8)
        return await asyncio.gather(*(batcher.run(rows(at)) for at in range(6)))

    for [answer] in asyncio.run(go()):
        np.testing.assert_array_equal(answer, [[1, 1]])
    assert "requests are run one by one" in caplog.text
    assert "softmax" in caplog.text
