"""A server of MLServer with models, for tests and benchmarks."""

import asyncio
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys

import aiohttp
import numpy as np
import onnx
import ovolo
from conftest import DIGITS, model
from onnx import TensorProto, helper

BATCHES = {"N": [1, 2, 4, 8, 16]}
JSON = {"Content-Type": "application/json"}


def recurrent(width=32, steps=16):
    """A GRU over a sequence. Its batch is the second dimension of ONNX's layout, so axes are exchanged around it."""
    rng = np.random.default_rng(1)
    weights = [
        onnx.numpy_helper.from_array(rng.standard_normal((1, 3 * width, width), np.float32) / 6, name) for name in "wr"
    ]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
        helper.make_node("GRU", ["t", "w", "r"], ["", "h"], hidden_size=width),
        helper.make_node("Squeeze", ["h", "first"], ["y"]),
    ]
    first = onnx.numpy_helper.from_array(np.array([0]), "first")
    inputs, outputs = [("x", TensorProto.FLOAT, ("N", steps, width))], [("y", TensorProto.FLOAT, ("N", width))]
    return model(nodes, inputs, outputs, [*weights, first])


def perceptron(width=256):
    """Two products with an activation between them."""
    rng = np.random.default_rng(2)
    weights = [
        onnx.numpy_helper.from_array(rng.standard_normal((width, width), np.float32) / 16, name) for name in "vw"
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["y"]),
    ]
    shape = ("N", width)
    return model(nodes, [("x", TensorProto.FLOAT, shape)], [("y", TensorProto.FLOAT, shape)], weights)


def small():
    """Three small models, each with examples."""
    rng = np.random.default_rng(3)
    return {
        "digits": (DIGITS.read_bytes(), np.load(DIGITS.with_name("images.npy"))[:40]),
        "gru": (recurrent(), rng.standard_normal((40, 16, 32), np.float32)),
        "mlp": (perceptron(), rng.standard_normal((40, 256), np.float32)),
    }


class Served:
    """A model of the server, with examples and what they give when they run alone."""

    def __init__(self, path, examples):
        self.path = path
        session = ovolo.InferenceSession(str(path), dims={"N": 1}, threads=1)
        self.input = session.get_inputs()[0].name
        self.output = session.get_outputs()[0].name
        self.examples = [examples[at : at + 1] for at in range(len(examples))]
        self.expected = [session.run(None, {self.input: one})[0] for one in self.examples]

    def request(self, example, name=None):
        one = self.examples[example]
        tensor = {"name": name or self.input, "datatype": "FP32", "shape": list(one.shape), "data": one.ravel().tolist()}
        return json.dumps({"inputs": [tensor]}).encode()


class Server:
    """A running server, with its models by name."""

    def __init__(self, folder, implementation="ovolo.mlserver.OvoloRuntime", models=None):
        self.models = {}
        for name, (content, examples) in (models or small()).items():
            (folder / name).mkdir()
            path = folder / name / "model.onnx"
            path.write_bytes(content)
            extra = {"threads": 2, "batch": BATCHES}
            parameters = {"uri": "./model.onnx", "extra": extra}
            settings = {"name": name, "implementation": implementation, "parameters": parameters}
            (folder / name / "model-settings.json").write_text(json.dumps(settings))
            self.models[name] = Served(path, examples)
        self.http, self.grpc, metrics = free_ports(3)
        settings = {
            "host": "127.0.0.1", "http_port": self.http, "grpc_port": self.grpc, "metrics_port": metrics,
            "parallel_workers": 0, "debug": False,
        }  # fmt: skip
        (folder / "settings.json").write_text(json.dumps(settings))
        self.log = folder / "log.txt"
        # MLServer's program is beside the interpreter that runs the tests.
        program = shutil.which("mlserver", path=str(pathlib.Path(sys.executable).parent))
        assert program, "MLServer is not installed"
        environment = {**os.environ, "OVOLO_CACHE": str(folder / "cache")}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [program, "start", "."], cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT
            )

    def url(self, path):
        return f"http://127.0.0.1:{self.http}/v2/{path}"

    async def ready(self):
        async with aiohttp.ClientSession() as http:
            for _ in range(600):
                assert self.process.poll() is None, "the server has ended"
                with contextlib.suppress(aiohttp.ClientError):
                    async with http.get(self.url("health/ready")) as answer:
                        if answer.status == 200:
                            return
                await asyncio.sleep(0.1)
        raise AssertionError("the server did not become ready within a minute")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
