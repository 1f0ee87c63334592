"""Threads: other threads of Python run while a model runs, and sessions may be shared."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import ovolo
from conftest import double, products


def test_other_threads_run_while_a_model_runs():
    session = ovolo.InferenceSession(products(512, 16), cache=False, threads=1)
    x = np.ones((512, 512), np.float32)
    session.run(None, {"x": x})
    start, finish = threading.Event(), threading.Event()
    gaps = []

    def watch():
        start.set()
        last = time.perf_counter()
        while not finish.is_set():
            time.sleep(0)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    watcher = threading.Thread(target=watch)
    watcher.start()
    start.wait()
    began = time.perf_counter()
    counts = []
    for _ in range(5):
        before = len(gaps)
        session.run(None, {"x": x})
        counts.append(len(gaps) - before)
    taken = time.perf_counter() - began
    finish.set()
    watcher.join()
    # With the lock held, the watcher would have got one turn, at most two, in a run.
    assert max(counts) > 10, (counts, taken)


def test_compilation_leaves_other_threads_alone(digits):
    ticks = []
    finish = threading.Event()

    def watch():
        while not finish.is_set():
            ticks.append(1)
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    before = len(ticks)
    ovolo.compile(digits, dims={"N": 1})
    assert len(ticks) - before > 3
    finish.set()
    watcher.join()


def test_threads_share_a_session():
    session = ovolo.InferenceSession(double((1000,)), cache=False)

    def one(value):
        return session.run(None, {"x": np.full(1000, value, np.float32)})[0]

    with ThreadPoolExecutor(8) as pool:
        for value, y in enumerate(pool.map(one, range(200))):
            assert (y == 2 * value).all()


def test_threads_share_a_session_of_several_sizes(digits, images):
    session = ovolo.InferenceSession(digits, cache=False)
    whole, = session.run(None, {"image": images})

    def one(count):
        return session.run(None, {"image": images[:count]})[0]

    with ThreadPoolExecutor(4) as pool:
        for count, part in zip([1, 2, 3] * 8, pool.map(one, [1, 2, 3] * 8), strict=True):
            np.testing.assert_allclose(part, whole[:count], rtol=1e-4, atol=1e-4)
