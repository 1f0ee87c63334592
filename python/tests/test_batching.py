"""Requests that are run together."""

import asyncio
import threading
from types import SimpleNamespace

import numpy as np
import ovolo
import pytest
from conftest import double
from ovolo.batching import Batcher, Closed


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
