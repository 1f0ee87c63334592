"""A server with three models under load: nothing is lost, and nothing is wrong."""

import asyncio
import contextlib
import json
import os
import random
import sys

import aiohttp
import numpy as np
import pytest

if sys.version_info >= (3, 13):
    pytest.skip("MLServer needs Python 3.12 or older", allow_module_level=True)

import grpc
from mlserver.codecs import NumpyCodec
from mlserver.grpc import converters
from mlserver.grpc.dataplane_pb2_grpc import GRPCInferenceServiceStub
from mlserver.types import InferenceRequest
from serving import JSON, Server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("server"))
    try:
        asyncio.run(server.ready())
        yield server
    finally:
        code = server.stop()
    assert code == 0, server.log.read_text()


def post(server, path, body):
    async def go():
        async with aiohttp.ClientSession() as http, http.post(server.url(path), data=body, headers=JSON) as answer:
            return answer.status, await answer.json()

    return asyncio.run(go())


def test_the_server_tells_the_inputs_and_outputs(server):
    async def go():
        async with aiohttp.ClientSession() as http, http.get(server.url("models/digits")) as answer:
            return await answer.json()

    told = asyncio.run(go())
    assert told["inputs"] == [{"name": "image", "datatype": "FP32", "shape": [-1, 1, 8, 8]}]
    assert told["outputs"] == [{"name": "scores", "datatype": "FP32", "shape": [-1, 10]}]


def test_grpc_gives_the_same(server):
    for name, served in server.models.items():
        request = InferenceRequest(inputs=[NumpyCodec.encode_input(served.input, served.examples[0])])
        message = converters.ModelInferRequestConverter.from_types(request, model_name=name, use_raw=True)
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
            answer = GRPCInferenceServiceStub(channel).ModelInfer(message)
        outputs = converters.ModelInferResponseConverter.to_types(answer).outputs
        assert [list(one.shape) for one in outputs] == [list(served.expected[0].shape)]
        np.testing.assert_allclose(NumpyCodec.decode_output(outputs[0]), served.expected[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "picture"}, "the model has no input `picture`"),
        ({"shape": [1, 1, 4, 16]}, "its dimension 2 must be 8"),
        ({"shape": [1, 1, 8, 9]}, "is not a tensor of FP32 with the shape [1, 1, 8, 9]"),
        ({"datatype": "INT64"}, "must be of f32"),
    ],
)
def test_a_wrong_request_is_refused_with_the_reason(server, change, words):
    body = json.loads(server.models["digits"].request(0))
    body["inputs"][0] |= change
    if change.get("datatype") == "INT64":
        body["inputs"][0]["data"] = [0] * 64
    status, answer = post(server, "models/digits/infer", json.dumps(body).encode())
    assert status == 400
    assert words in answer["error"]


def test_an_unknown_output_is_refused(server):
    body = json.loads(server.models["digits"].request(0)) | {"outputs": [{"name": "classes"}]}
    status, answer = post(server, "models/digits/infer", json.dumps(body).encode())
    assert status == 400
    assert "the model has no output `classes`, only scores" in answer["error"]


@pytest.mark.parametrize("count", [int(os.environ.get("OVOLO_SERVER_REQUESTS", "10000"))])
def test_nothing_is_lost_or_wrong_under_load(server, count):
    """Every request gets its own answer, with wrong requests among them, clients that leave, and a model that is loaded
    again meanwhile."""
    rng = random.Random(4)
    plan = [
        (rng.choice(list(server.models)), rng.randrange(40), rng.choices(["right", "wrong", "leaves"], [94, 4, 2])[0])
        for _ in range(count)
    ]
    seen = {"right": 0, "wrong": 0, "leaves": 0}

    async def one(http, name, example, kind):
        served = server.models[name]
        body = served.request(example, "other" if kind == "wrong" else None)
        call = http.post(server.url(f"models/{name}/infer"), data=body, headers=JSON)
        if kind == "leaves":
            with contextlib.suppress(asyncio.TimeoutError):
                async with asyncio.timeout(0.002), call as answer:
                    await answer.read()
            seen[kind] += 1
            return
        async with call as answer:
            status, content = answer.status, await answer.json()
        if kind == "wrong":
            assert status == 400, content
            assert "the model has no input `other`" in content["error"]
        else:
            assert status == 200, content
            output = content["outputs"][0]
            found = np.array(output["data"], np.float32).reshape(output["shape"])
            np.testing.assert_allclose(found, served.expected[example], rtol=1e-3, atol=1e-4)
        seen[kind] += 1

    async def client(http, queue):
        while queue:
            await one(http, *queue.pop())

    async def reload(http, queue):
        for part in (0.7, 0.3):
            while len(queue) > part * count:
                await asyncio.sleep(0.02)
            async with http.post(server.url("repository/models/digits/load")) as answer:
                assert answer.status == 200, await answer.text()

    async def go():
        queue = list(plan)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
            await asyncio.gather(*(client(http, queue) for _ in range(32)), reload(http, queue))

    asyncio.run(go())
    assert seen == {kind: sum(one[2] == kind for one in plan) for kind in seen}
