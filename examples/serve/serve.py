#!/usr/bin/env python3
"""Serve a model by Ray Serve, with replicas on as many machines as it needs.

    pip install ./python "ray[serve]"
    examples/serve/serve.py examples/digits/digits.onnx --batch N=1,2,4,8 --port 8000

A request is JSON, and so is the answer:

    curl localhost:8000 -d '{"inputs": {"image": [[[[0, 0, …]]]]}}'
    {"outputs": {"scores": [[-2.6, …]]}}

Each replica is a process of its own. In it, requests that wait are run together, up to the largest size of `--batch`, and
filled up to the next one. On the signal SIGHUP the model's file is read again; requests that are under way are answered
by the model that they came to.
"""
import argparse
import json
import signal

import numpy as np
import ovolo
import ray
from ovolo.batching import Batcher
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse

TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(string)": object}


@serve.deployment(max_ongoing_requests=256)
class Model:
    """A model of one replica."""

    async def reconfigure(self, settings: dict) -> None:
        """Opens the model. Ray Serve calls this for a new replica, and again when the settings change."""
        path, dim, sizes = settings["path"], settings["dim"], settings["sizes"]
        session = ovolo.InferenceSession(path, threads=settings["threads"], buckets={dim: sizes} if dim else None)
        batcher = Batcher(session, dim, max(sizes))
        before = getattr(self, "batcher", None)
        self.inputs = {one.name: TYPES.get(one.type, one.type[len("tensor(") : -1]) for one in session.get_inputs()}
        self.outputs = [one.name for one in session.get_outputs()]
        self.batcher = batcher
        if before:
            await before.close()

    async def __call__(self, request: Request) -> JSONResponse:
        """Answers a request. A client's mistake has the status 400, and a reason."""
        try:
            given = json.loads(await request.body())["inputs"]
            feeds = {name: np.array(value, self.inputs.get(name)) for name, value in given.items()}
        except (KeyError, TypeError, ValueError, AttributeError) as why:
            return JSONResponse({"error": f"the request is not an object with tensors as `inputs`: {why}"}, 400)
        try:
            outputs = await self.batcher.run(feeds)
        except ovolo.InvalidArgument as why:
            return JSONResponse({"error": str(why)}, 400)
        except ovolo.Error as why:
            return JSONResponse({"error": str(why)}, 500)
        return JSONResponse({"outputs": {name: value.tolist() for name, value in zip(self.outputs, outputs)}})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="an ONNX file")
    parser.add_argument("--batch", metavar="NAME=SIZES", help="gather requests along this dimension")
    parser.add_argument("--threads", type=int, default=2, help="threads of a replica")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--port", type=int, default=8000)
    asked = parser.parse_args()
    dim, _, sizes = (asked.batch or "=1").partition("=")
    settings = {"path": asked.model, "dim": dim or None, "sizes": [int(one) for one in sizes.split(",")]}
    settings["threads"] = asked.threads

    def deploy(version: int) -> None:
        # The version makes the settings new, so the replicas open the file again.
        model = Model.options(num_replicas=asked.replicas, user_config={**settings, "version": version})
        serve.run(model.bind())

    # A replica computes on threads of its own, so it counts as that many processors.
    ray.init(include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": asked.port})
    version = 0
    deploy(version)
    print(f"{asked.model} is served on port {asked.port}", flush=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP, signal.SIGTERM, signal.SIGINT})
    while signal.sigwait({signal.SIGHUP, signal.SIGTERM, signal.SIGINT}) == signal.SIGHUP:
        version += 1
        deploy(version)
        print(f"{asked.model} was read again", flush=True)
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
