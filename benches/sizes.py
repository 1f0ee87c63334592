#!/usr/bin/env python3
"""Measure what a session for several batch sizes takes: its memory, and the time of each new size.

    benches/sizes.py OVOLO MODELS [--models NAME,…] [--sizes 1,2,4,8,16] [--pipeline cpu] [--seconds 0.1]

MODELS is a folder with NAME/model.onnx, as `cargo xtask models` makes it, or with NAME.onnx. Each model gets a
dimension `N` in place of its batch, which must be 1: the first dimension of this size of inputs and outputs, and the
first one of the shapes that `Reshape` and `Expand` have as constants. Two processes run it with `ovolo bench --sizes`: one with all sizes, and one
with the last of them. Then two more take the plans of all sizes from a cache: the first one fills it.

A line has for each model: the resident memory at the end with the last size and with all of them, their ratio, the
bytes of constants with the last size and with all, and the times to make a plan for each size but the first, compiled
and from the cache. The first size also imports the model and packs its weights. Needs numpy and onnx. Use a machine
that does nothing else.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper

# Models that put another axis before the batch, with the sizes of the axes that stand before it and behind it: a
# shape (tokens, heads, …) has the batch in its second dimension, (heads, tokens, …) in its first one.
TOKENS_FIRST = {"vit_b_16": (197, 12)}


def symbolic_shape(name, shape):
    """A shape with the batch left open, for a constant shape of a model with batch 1."""
    shape = list(shape)
    tokens, heads = TOKENS_FIRST.get(name, (None, None))
    if len(shape) == 3 and (shape[1] == heads or shape[:2] == [tokens, 1]):
        return [shape[0], -1, shape[2]]
    if tokens and ((len(shape) == 3 and shape[0] == heads) or (len(shape) == 2 and shape[0] == tokens)):
        return [-1, *shape[1:]]
    if len(shape) >= 2 and shape[0] == 1:
        return [0 if -1 in shape else -1, *shape[1:]]
    return shape


def symbolic(name, source, target):
    """Writes a model whose batch is the dimension `N`."""
    model = onnx.load(source, load_external_data=False)
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    for value in [*inputs, *graph.output]:
        batch = next(dim for dim in value.type.tensor_type.shape.dim if dim.dim_value == 1)
        batch.ClearField("dim_value")
        batch.dim_param = "N"
    del graph.value_info[:]
    makers = {output: node for node in graph.node for output in node.output}
    constants.update({node.output[0]: node.attribute[0].t for node in graph.node if node.op_type == "Constant"})
    nodes = []
    for node in graph.node:
        if node.op_type == "Reshape" and node.input[1] in constants:
            shape = numpy_helper.to_array(constants[node.input[1]]).reshape(-1)
            own = f"{node.output[0]}_shape"
            changed = np.array(symbolic_shape(name, shape), np.int64)
            graph.initializer.append(numpy_helper.from_array(changed, own))
            node.input[1] = own
        if node.op_type == "Expand" and name in TOKENS_FIRST and makers[node.input[1]].op_type == "Where":
            # The class token, once for each image.
            own = node.output[0]
            rest = constants[makers[node.input[1]].input[2]]
            rest = numpy_helper.to_array(rest).reshape(-1)[1:].astype(np.int64)
            rest = np.where(rest < 0, constants[node.input[0]].dims[1:], rest)
            graph.initializer.append(numpy_helper.from_array(rest, f"{own}_rest"))
            nodes.append(helper.make_node("Shape", [inputs[0].name], [f"{own}_batch"], start=0, end=1))
            nodes.append(helper.make_node("Concat", [f"{own}_batch", f"{own}_rest"], [f"{own}_sizes"], axis=0))
            node.input[1] = f"{own}_sizes"
        nodes.append(node)
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(nodes)
    onnx.save(model, target)


def bench(args, model, sizes, cache):
    command = [args.ovolo, "bench", model, "--sizes", f"N={sizes}", "--seconds", str(args.seconds)]
    command += ["--pipeline", args.pipeline, "--json"] + ([] if cache else ["--no-cache"])
    environment = {**os.environ, "OVOLO_CACHE": cache} if cache else None
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{model}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def new_sizes(report):
    return [1e3 * size["region"]["seconds"] for size in report["sizes"][1:]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ovolo", type=os.path.abspath)
    parser.add_argument("folder")
    parser.add_argument("--models", default="resnet50,mobilenet_v2,bert_base,vgg16,vit_b_16")
    parser.add_argument("--sizes", default="1,2,4,8,16")
    parser.add_argument("--pipeline", default="cpu")
    parser.add_argument("--seconds", type=float, default=0.1)
    args = parser.parse_args()
    last = args.sizes.split(",")[-1]
    print(f"model,MiB for N={last},MiB for all,ratio,constants for N={last},constants for all,ms compiled,ms cached")
    compiled, cached = [], []
    for name in args.models.split(","):
        source = os.path.join(args.folder, name, "model.onnx")
        source = source if os.path.exists(source) else os.path.join(args.folder, f"{name}.onnx")
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model.onnx")
            symbolic(name, source, model)
            one, five = bench(args, model, last, None), bench(args, model, args.sizes, None)
            cache = os.path.join(folder, "cache")
            bench(args, model, args.sizes, cache)
            again = bench(args, model, args.sizes, cache)
        compiled += new_sizes(five)
        cached += new_sizes(again)
        memory = [report["sizes"][-1]["resident"] / 2**20 for report in (one, five)]
        constants = [report["constants"] / 2**20 for report in (one, five)]
        times = ["/".join(f"{time:.0f}" for time in new_sizes(report)) for report in (five, again)]
        print(f"{name},{memory[0]:.0f},{memory[1]:.0f},{memory[1] / memory[0]:.2f},{constants[0]:.0f},"
              f"{constants[1]:.0f},{times[0]},{times[1]}", flush=True)
    print(f"median of new sizes: {statistics.median(compiled):.0f} ms compiled, {statistics.median(cached):.0f} ms cached")


if __name__ == "__main__":
    main()
