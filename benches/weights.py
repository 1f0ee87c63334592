#!/usr/bin/env python3
"""Compare latencies of products of one row whose weights are stored in few bits, in ovolo and in ONNX Runtime.

    benches/weights.py OVOLO [--threads 2] [--rounds 3] [--layers 24] [--size 4096] [--pipeline native] [--out FOLDER]

Each model is a chain of LAYERS products of a row of SIZE elements with a matrix of SIZE x SIZE and a ReLU, so that
the weights are read from memory: 1.6 GB of them in float32. The forms of the weights:

* `float32`, `float16` (with a Cast to float32), `int8` (DequantizeLinear, one scale for each column);
* `int4`, in blocks of 32 rows with a scale each: as DequantizeLinear, and as MatMulNBits of ONNX Runtime.

All models are made from one seed. A cell is the median over rounds of the median of a turn, in milliseconds for the
whole chain. `of f32` is the time divided by the same runtime's time in float32, and `difference` the relative L2
distance of our result from the product of the stored weights, computed in float64.

Needs numpy, onnx and onnxruntime. Use a machine that does nothing else.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

BLOCK = 32


def draw(layer, size):
    """Levels from -7 to 7, and a scale for each block of rows and column, such that values keep their magnitude."""
    rng = np.random.default_rng(layer)
    levels = rng.integers(-7, 8, (size, size), dtype=np.int8)
    scales = rng.uniform(0.5, 1.5, (size // BLOCK, size)).astype(np.float32)
    return levels, scales * np.float32(np.sqrt(2 / size) / 4.5)


def int4(name, levels, shape):
    """A tensor of 4-bit integers; the first of a byte's two lies in its low bits."""
    flat = levels.reshape(-1, 2) & 15
    return helper.make_tensor(name, TensorProto.INT4, shape, (flat[:, 0] | flat[:, 1] << 4).astype(np.uint8).tobytes(), True)


def layer(form, at, size):
    """The initialisers and nodes of one product, and its weights in float32."""
    levels, scales = draw(at, size)
    weights = f"w{at}"
    product = helper.make_node("MatMul", [f"x{at}", weights], [f"y{at}"])
    dequantise = lambda **how: helper.make_node("DequantizeLinear", [f"q{at}", f"s{at}"], [weights], **how)
    stored = levels.astype(np.float32) * np.repeat(scales, BLOCK, axis=0)
    if form == "float32":
        return [numpy_helper.from_array(stored, weights)], [product], stored
    if form == "float16":
        half = stored.astype(np.float16)
        cast = helper.make_node("Cast", [f"h{at}"], [weights], to=TensorProto.FLOAT)
        return [numpy_helper.from_array(half, f"h{at}")], [cast, product], half.astype(np.float32)
    if form == "int8":
        scale = np.abs(stored).max(axis=0) / 127
        fine = np.round(stored / scale).astype(np.int8)
        constants = [numpy_helper.from_array(fine, f"q{at}"), numpy_helper.from_array(scale, f"s{at}")]
        return constants, [dequantise(axis=1), product], fine.astype(np.float32) * scale
    if form == "int4":
        constants = [int4(f"q{at}", levels, (size, size)), numpy_helper.from_array(scales, f"s{at}")]
        return constants, [dequantise(axis=0, block_size=BLOCK), product], stored
    # MatMulNBits: for each column its blocks of rows, with levels from 0 to 15 and 8 as the zero point.
    columns = (levels.T + 8).astype(np.uint8).reshape(size, size // BLOCK, BLOCK // 2, 2)
    packed = columns[..., 0] | columns[..., 1] << 4
    constants = [numpy_helper.from_array(packed, f"q{at}"), numpy_helper.from_array(scales.T.reshape(-1), f"s{at}")]
    inputs = [f"x{at}", f"q{at}", f"s{at}"]
    sizes = {"K": size, "N": size, "bits": 4, "block_size": BLOCK}
    return constants, [helper.make_node("MatMulNBits", inputs, [f"y{at}"], domain="com.microsoft", **sizes)], stored


def model(form, layers, size, to):
    """Writes the chain to `to`, and returns an input and the result in float64."""
    row = np.random.default_rng(layers).standard_normal((1, size)).astype(np.float32)
    value, constants, nodes = row.astype(np.float64), [], []
    for at in range(layers):
        more, steps, weights = layer(form, at, size)
        constants += more
        nodes += [*steps, helper.make_node("Relu", [f"y{at}"], [f"x{at + 1}"])]
        value = np.maximum(value @ weights.astype(np.float64), 0)
    if not to.exists():
        shape = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size])
        graph = helper.make_graph(nodes, form.lower(), [shape("x0")], [shape(f"x{layers}")], constants)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), to)
    return row, value


def ovolo_time(args, path):
    command = [args.ovolo, "bench", str(path), "--pipeline", args.pipeline, "--threads", str(args.threads)]
    done = subprocess.run([*command, "--seconds", "2", "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])["median_ms"]


def ovolo_result(args, path, row):
    with tempfile.TemporaryDirectory() as folder:
        at = pathlib.Path(folder)
        np.save(at / "x.npy", row)
        command = [args.ovolo, "run", str(path), "--pipeline", args.pipeline, "--threads", str(args.threads)]
        command += ["--input", f"x0={at / 'x.npy'}", "--output-dir", str(at / "out")]
        subprocess.run(command, capture_output=True, text=True, check=True)
        (result,) = (at / "out").glob("*.npy")
        return np.load(result)


def onnx_runtime_time(session, row):
    session.run(None, {"x0": row})
    times, end = [], time.perf_counter() + 2
    while time.perf_counter() < end:
        begin = time.perf_counter()
        session.run(None, {"x0": row})
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ovolo")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--pipeline", default="native")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("weights"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    print("| weights | ONNX Runtime | of f32 | ovolo | of f32 | ratio | difference |")
    print("|---" * 7 + "|")
    floats = None
    for form in ["float32", "float16", "int8", "int4", "MatMulNBits"]:
        path = args.out / f"{form}-{args.layers}x{args.size}.onnx"
        row, exact = model(form, args.layers, args.size, path)
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        difference = np.linalg.norm(ovolo_result(args, path, row) - exact) / np.linalg.norm(exact)
        rounds = [(onnx_runtime_time(session, row), ovolo_time(args, path)) for _ in range(args.rounds)]
        del session
        theirs, own = (statistics.median(times) for times in zip(*rounds))
        floats = floats or (theirs, own)
        shares = f"{theirs:.1f} | {theirs / floats[0]:.2f} | {own:.1f} | {own / floats[1]:.3f} | {own / theirs:.2f}"
        print(f"| {form} | {shares} | {difference:.1e} |", flush=True)


if __name__ == "__main__":
    main()
