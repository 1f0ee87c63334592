#!/usr/bin/env python3
"""Compare the latencies of one server with ovolo and with ONNX Runtime inside, in turns, at the same load.

    benches/serve.py [--rate 300] [--requests 3000] [--rounds 3] [--no-spinning]

MLServer runs three small models: the digits network, a GRU of 32 units over 16 steps, and a perceptron of two layers of
256. Both engines have two threads a model, and gather requests in the same way, up to 16.
Requests come at random moments (a Poisson process), `--rate` of them in a second, whatever the server does, over HTTP
with JSON. A cell is the median over rounds, in milliseconds.

Needs ovolo, onnxruntime, mlserver and onnx. Use a machine that does nothing else.
"""
import argparse
import asyncio
import pathlib
import random
import sys
import tempfile
import time

import aiohttp
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python" / "tests"))
from serving import JSON, Server  # noqa: E402

PEER = '''
import onnxruntime
from ovolo.mlserver import OvoloRuntime

class Runtime(OvoloRuntime):
    def session(self, path, threads, buckets=None):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "SPINNING")
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
'''


async def load(server, rate, requests, seed):
    """Returns the seconds from the moment at which each request was due until its answer, by model."""
    rng = random.Random(seed)
    times = {name: [] for name in server.models}

    async def one(http, name, example, due):
        served = server.models[name]
        call = http.post(server.url(f"models/{name}/infer"), data=served.request(example), headers=JSON)
        async with call as answer:
            content = await answer.json()
            assert answer.status == 200, content
        times[name].append(time.perf_counter() - due)
        found = np.array(content["outputs"][0]["data"], np.float32).reshape(served.expected[example].shape)
        np.testing.assert_allclose(found, served.expected[example], rtol=1e-3, atol=1e-4)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        due, tasks = time.perf_counter(), []
        for _ in range(requests):
            due += rng.expovariate(rate)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            name = rng.choice(list(server.models))
            tasks.append(asyncio.create_task(one(http, name, rng.randrange(40), due)))
        await asyncio.gather(*tasks)
    return times


async def measure(servers, asked):
    for server in servers.values():
        await server.ready()
        await load(server, asked.rate, 300, 0)
    found = {}
    for round in range(asked.rounds):
        for engine, server in servers.items():
            for name, times in (await load(server, asked.rate, asked.requests, round + 1)).items():
                cell = found.setdefault((name, engine), [])
                cell.append([1e3 * float(np.quantile(times, q)) for q in (0.5, 0.99)])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rate", type=float, default=300)
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--spinning", action=argparse.BooleanOptionalAction, default=True,
        help="whether ONNX Runtime's idle threads spin, as they do by default",
    )  # fmt: skip
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        servers = {}
        try:
            for engine, implementation in (
                ("ovolo", "ovolo.mlserver.OvoloRuntime"),
                ("ONNX Runtime", "peer.Runtime"),
            ):
                place = pathlib.Path(folder) / engine.replace(" ", "-")
                place.mkdir()
                (place / "peer.py").write_text(PEER.replace("SPINNING", "01"[asked.spinning]))
                servers[engine] = Server(place, implementation)
            found = asyncio.run(measure(servers, asked))
        finally:
            for server in servers.values():
                server.stop()
    print("| model | p50, ms: ovolo | ONNX Runtime | p99, ms: ovolo | ONNX Runtime |\n|---|---|---|---|---|")
    for name in next(iter(servers.values())).models:
        cells = {engine: np.median(found[name, engine], axis=0) for engine in servers}
        row = [f"{cells[engine][at]:.2f}" for at in (0, 1) for engine in servers]
        print(f"| {name} | {' | '.join(row)} |")
    print(f"at {asked.rate:g} requests a second, {asked.rounds} rounds of {asked.requests}")


if __name__ == "__main__":
    main()
