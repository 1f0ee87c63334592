#!/usr/bin/env python3
"""Print what steps of training take within limits of memory, by their plans. Nothing is run.

    benches/recompute.py OVOLO MODELS [--threads 2] [--pipeline native] [--shares 0.8,0.6,0.5,0.4]

MODELS is a folder with NAME/model.onnx, as `cargo xtask models` makes it. Steps are those of ResNet-50 with 184 images,
of VGG-16 with 176, and of a U-Net of four levels with 11 images of 416x608, which this script makes: the sizes of MONeT
(Shah et al., ICLR 2021). The optimiser is SGD.

A cell is the arena in GB and the time that the plan takes more than the one without a limit, by ovolo's prices, for a
limit that is a share of the arena without one. The arena has the values of both passes; constants and
the inputs of the step, such as the parameters, come on top.

Needs numpy and onnx.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def batched(path, batch):
    """The model with another batch."""
    model = onnx.load(path)
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.shape.dim[0].dim_value = batch
    del model.graph.value_info[:]
    return model


def unet(batch, rows=416, columns=608, channels=64, levels=4):
    """A U-Net: two convolutions at each level, max pools on the way down, and transposed convolutions on the way up."""
    nodes, weights = [], []
    rng = np.random.default_rng(0)

    def add(kind, inputs, **attributes):
        name = f"{kind.lower()}{len(nodes)}"
        nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def weight(*shape):
        name = f"w{len(weights)}"
        scale = (2 / np.prod(shape[1:])) ** 0.5 if len(shape) > 1 else 0.0
        weights.append(numpy_helper.from_array((scale * rng.standard_normal(shape)).astype(np.float32), name))
        return name

    def twice(x, before, after):
        for inputs in (before, after):
            window = weight(after, inputs, 3, 3)
            x = add("Relu", [add("Conv", [x, window, weight(after)], pads=[1, 1, 1, 1])])
        return x

    x, kept = twice("image", 3, channels), []
    for level in range(levels):
        kept.append(x)
        x = add("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
        x = twice(x, channels << level, channels << level + 1)
    for level in reversed(range(levels)):
        half = channels << level
        window = weight(2 * half, half, 2, 2)
        x = add("ConvTranspose", [x, window, weight(half)], kernel_shape=[2, 2], strides=[2, 2])
        x = twice(add("Concat", [kept[level], x], axis=1), 2 * half, half)
    x = add("Conv", [x, weight(2, channels, 1, 1), weight(2)])
    inputs = [helper.make_tensor_value_info("image", TensorProto.FLOAT, [batch, 3, rows, columns])]
    outputs = [helper.make_tensor_value_info(x, TensorProto.FLOAT, [batch, 2, rows, columns])]
    graph = helper.make_graph(nodes, "u-net", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def plan(options, step, limit):
    """The arena in bytes, the constants, and the time in seconds of the plan within a limit; None if there is none."""
    arguments = ["compile", step, "--json", "--no-cache", "--pipeline", options.pipeline, "--cost", "roofline"]
    arguments += ["--threads", str(options.threads)]
    if limit:
        arguments += ["--memory-limit", str(limit)]
    done = subprocess.run([options.ovolo, *arguments], capture_output=True, text=True)
    if done.returncode:
        if "the smallest plan" not in done.stderr:
            raise SystemExit(done.stderr)
        return None
    found = json.loads(done.stdout)
    return found["arena"], found["constants"], found["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ovolo")
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pipeline", default="native")
    parser.add_argument("--shares", default="0.8,0.6,0.5,0.4")
    options = parser.parse_args()
    shares = [float(share) for share in options.shares.split(",")]
    networks = {
        "resnet50, 184": lambda: batched(options.models / "resnet50" / "model.onnx", 184),
        "vgg16, 176": lambda: batched(options.models / "vgg16" / "model.onnx", 176),
        "u-net, 11": lambda: unet(11),
    }
    head = [f"{share:.2f}" for share in shares]
    print("| step | no limit, GB | constants, GB |", " | ".join(head), "|")
    print("|---|---|---|" + "---|" * len(shares))
    with tempfile.TemporaryDirectory() as folder:
        for name, make in networks.items():
            model, step = pathlib.Path(folder) / "model.onnx", pathlib.Path(folder) / "step.ovolo"
            onnx.save(make(), model)
            loss = ["--loss", "mse"] if name.startswith("u-net") else []
            grad = [options.ovolo, "grad", model, "--optimizer", "sgd", *loss, "--output", step]
            subprocess.run(grad, check=True, stdout=subprocess.DEVNULL)
            arena, constants, seconds = plan(options, step, None)
            cells = []
            for share in shares:
                found = plan(options, step, int(arena * share) + constants)
                cells.append(f"{found[0] / 1e9:.2f}, +{100 * (found[2] / seconds - 1):.1f} %" if found else "none")
            print(f"| {name} | {arena / 1e9:.2f} | {constants / 1e9:.2f} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
