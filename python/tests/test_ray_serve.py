"""The example for Ray Serve under load, with replicas on a cluster of this machine."""

import asyncio
import contextlib
import os
import pathlib
import random
import signal
import subprocess
import threading
import time

import aiohttp
import numpy as np
import ovolo
import pytest
from conftest import DIGITS, ROOT
from serving import free_ports

COUNT = int(os.environ.get("OVOLO_SERVER_REQUESTS", "2000"))


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The port of the server, its process, and the lines that it prints."""
    interpreter = os.environ.get("OVOLO_RAY")
    if not interpreter:
        assert not os.environ.get("OVOLO_REQUIRE_RAY"), "Ray is absent: run `cargo xtask ray`"
        pytest.skip("Ray is absent: run `cargo xtask ray`")
    folder = tmp_path_factory.mktemp("ray")
    # Ray's interpreter takes the package from here, and everything else from its own environment.
    (folder / "packages").mkdir()
    (folder / "packages" / "ovolo").symlink_to(pathlib.Path(ovolo.__file__).parent)
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder / "packages"),
        "OVOLO_CACHE": str(folder / "cache"),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    [port] = free_ports(1)
    command = [interpreter, ROOT / "examples" / "serve" / "serve.py", DIGITS, "--batch", "N=1,2,4,8,16"]
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)], env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        )
        lines = []
        threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")), daemon=True).start()
        try:
            wait_for(lambda: any("is served" in line for line in lines), process, folder)
            yield port, process, lines
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(timeout=60)
    assert code == 0, (folder / "log.txt").read_text()


def wait_for(holds, process, folder):
    for _ in range(900):
        if holds():
            return
        assert process.poll() is None, (folder / "log.txt").read_text()
        time.sleep(0.1)
    raise AssertionError("the server did not become ready within 90 seconds: " + (folder / "log.txt").read_text())


def test_nothing_is_lost_or_wrong_under_load(served, images, digits):
    """Every request gets its own answer, with wrong requests among them, clients that leave, and a model that is read
    again meanwhile."""
    port, process, lines = served
    examples = [images[at : at + 1] for at in range(40)]
    session = ovolo.InferenceSession(digits, dims={"N": 1}, threads=1)
    expected = [session.run(None, {"image": one})[0] for one in examples]
    rng = random.Random(5)
    plan = [
        (rng.randrange(40), rng.choices(["right", "unknown", "shape", "text", "leaves"], [92, 2, 2, 2, 2])[0])
        for _ in range(COUNT)
    ]
    seen = []

    async def one(http, example, kind):
        body = {"inputs": {"picture" if kind == "unknown" else "image": examples[example].tolist()}}
        if kind == "shape":
            body["inputs"]["image"] = [[1.0]]
        if kind == "text":
            body = {"image": "a text"}
        call = http.post(f"http://127.0.0.1:{port}/", json=body)
        if kind == "leaves":
            with contextlib.suppress(asyncio.TimeoutError):
                async with asyncio.timeout(0.002), call as answer:
                    await answer.read()
            seen.append(kind)
            return
        async with call as answer:
            status, content = answer.status, await answer.json()
        words = {"unknown": "the model has no input `picture`", "shape": "must have 4 dimensions", "text": "inputs"}
        if kind == "right":
            assert status == 200, content
            np.testing.assert_allclose(content["outputs"]["scores"], expected[example], rtol=1e-3, atol=1e-4)
        else:
            assert status == 400, content
            assert words[kind] in content["error"], content
        seen.append(kind)

    async def client(http, queue):
        while queue:
            await one(http, *queue.pop())

    async def reload(queue):
        while len(queue) > COUNT * 0.6:
            await asyncio.sleep(0.02)
        process.send_signal(signal.SIGHUP)

    async def go():
        queue = list(plan)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
            await asyncio.gather(*(client(http, queue) for _ in range(16)), reload(queue))

    asyncio.run(go())
    assert sorted(seen) == sorted(kind for _, kind in plan)
    for _ in range(300):
        if any("was read again" in line for line in lines):
            return
        time.sleep(0.1)
    raise AssertionError("the model was not read again")
