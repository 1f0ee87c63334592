#!/usr/bin/env python3
"""Measures pruned weights against dense ones: whole networks, and the layers that were pruned.

    benches/sparse.py target/release/ovolo target/models --networks bert_base,resnet50 --kept 0.1,0.2 --block 4

Of the weights of products and of 1x1 convolutions, a share is kept at random, in blocks of adjacent outputs of one
position of the inner dimension; the others are zero. The dense and the pruned model are timed in turns, and medians are
printed. `layers` are the steps that multiply by stored blocks, and the steps of the dense plan with the same names.
Needs the packages `numpy` and `onnx`.
"""

import argparse
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

STEP = re.compile(r"^ +([0-9.]+) +[0-9.]+% .* ((?:native|onednn)\.\S+) (\S+) ")


def prune(model, kept, block, seed):
    """Returns the number of pruned weights; changes the model."""
    random = np.random.default_rng(seed)
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    pruned = set()
    for node in model.graph.node:
        if node.op_type not in ("MatMul", "Gemm", "Conv") or node.input[1] not in tensors:
            continue
        tensor = tensors[node.input[1]]
        weights = numpy_helper.to_array(tensor)
        turned = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
        outputs = 0 if node.op_type == "Conv" or turned else weights.ndim - 1
        if tensor.name in pruned or weights.ndim < 2 or node.op_type == "Conv" and weights.shape[2:] != (1, 1):
            continue
        shape = list(weights.shape)
        shape[outputs] = -(-shape[outputs] // block)
        mask = np.repeat(random.random(shape) < kept, block, axis=outputs)
        mask = mask[tuple(slice(0, size) for size in weights.shape)]
        tensor.CopyFrom(numpy_helper.from_array(weights * mask, tensor.name))
        pruned.add(tensor.name)
    return len(pruned)


def steps(ovolo, model, arguments):
    """Returns the milliseconds of all steps and, by name, of each."""
    command = [ovolo, "bench", str(model), "--profile", *arguments]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = [match.groups() for match in map(STEP.match, text.splitlines()) if match]
    names = {}
    for time, op, name in found:
        names.setdefault(name.split("@")[0], []).append((op, float(time) / 1000))
    return sum(float(time) for time, _, _ in found) / 1000, names


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ovolo", help="the program")
    parser.add_argument("models", type=Path, help="the folder of models, as `cargo xtask models` writes it")
    parser.add_argument("--networks", default="bert_base,resnet50")
    parser.add_argument("--kept", default="0.1,0.2", help="the shares of blocks that are kept")
    parser.add_argument("--block", type=int, default=4, help="the outputs of a block")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pipeline", default="native")
    parser.add_argument("--threads", default="2")
    arguments = parser.parse_args()
    options = ["--pipeline", arguments.pipeline, "--threads", arguments.threads]
    print("network  kept  weights  layers stored  dense ms  sparse ms  ratio  layers: dense  sparse  ratio")
    with tempfile.TemporaryDirectory() as folder:
        for network in arguments.networks.split(","):
            source = arguments.models / network / "model.onnx"
            for kept in map(float, arguments.kept.split(",")):
                model = onnx.load(source)
                count = prune(model, kept, arguments.block, seed=1)
                sparse = Path(folder) / f"{network}-{kept}.onnx"
                onnx.save(model, sparse)
                whole, layers = ([], []), ([], [])
                for _ in range(arguments.rounds):
                    dense_time, dense = steps(arguments.ovolo, source, options)
                    sparse_time, pruned = steps(arguments.ovolo, sparse, options)
                    stored = {name for name, own in pruned.items() if any("-sparse" in op for op, _ in own)}
                    for side, time, of in ((0, dense_time, dense), (1, sparse_time, pruned)):
                        whole[side].append(time)
                        layers[side].append(sum(one for name in stored for _, one in of.get(name, [])))
                (dense, sparse), (own, less) = (map(statistics.median, side) for side in (whole, layers))
                print(
                    f"{network}  {kept}  {count}  {len(stored)}  {dense:.2f}  {sparse:.2f}  {sparse / dense:.2f}"
                    f"  {own:.2f}  {less:.2f}  {less / max(own, 1e-9):.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
