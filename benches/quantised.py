#!/usr/bin/env python3
"""Compare latencies of quantised models in ovolo, in ONNX Runtime and, where it is installed, in OpenVINO, in turns.

    benches/quantised.py OVOLO MODELS [--models NAME,…] [--threads 2] [--rounds 3] [--pipeline native] [--out FOLDER]

MODELS is a folder with NAME/model.onnx, as `cargo xtask models` makes it. Each model is quantised by ONNX Runtime
into QDQ form (weights by channel in int8, activations in uint8, two batches of seeded inputs for calibration), and
all runtimes get the same file. The quantised models are kept in FOLDER.

A cell is the median over rounds of the median of a turn, in milliseconds. `departure` is the relative L2 distance of
the result from that of ONNX Runtime without optimisations, for each runtime with optimisations. `ratio` is our time
divided by the best other one; `of f32` is our time divided by our time for the model in float32. `departures.py`
counts by how many levels results and layers of these files depart.

Needs numpy, onnx and onnxruntime, and uses openvino. Use a machine that does nothing else.
"""
import argparse
import importlib.util
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static


def session(path, threads, optimised=True):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def inputs(of, rng):
    """Seeded inputs. A mask is ones, other integers are numbers of tokens."""
    feed = {}
    for one in of.get_inputs():
        dims = [dim if isinstance(dim, int) else 1 for dim in one.shape]
        if "int" in one.type:
            values = np.ones(dims) if "mask" in one.name else rng.integers(0, 1000, dims)
            feed[one.name] = values.astype(np.int64 if "64" in one.type else np.int32)
        else:
            feed[one.name] = rng.standard_normal(dims).astype(np.float32)
    return feed


class Calibration(CalibrationDataReader):
    def __init__(self, path):
        of, rng = session(path, 1), np.random.default_rng(0)
        self.feeds = iter([inputs(of, rng) for _ in range(2)])

    def get_next(self):
        return next(self.feeds, None)


def quantised(path, to):
    if not to.exists():
        quantize_static(
            str(path),
            str(to),
            Calibration(path),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
    return to


def ovolo_time(args, path):
    command = [args.ovolo, "bench", str(path), "--pipeline", args.pipeline, "--threads", str(args.threads)]
    done = subprocess.run([*command, "--seconds", "1.5", "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])["median_ms"]


def onnx_runtime(path, feed, threads):
    """A function that returns the first output."""
    of = session(path, threads)
    return lambda: of.run(None, feed)[0]


def openvino(path, feed, threads):
    """The same by OpenVINO, which may choose the precision of what is not quantised."""
    import openvino

    hints = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(str(path), "CPU", hints).create_infer_request()
    return lambda: request.infer(feed, share_inputs=True, share_outputs=True)[0]


OTHERS = {"ONNX Runtime": onnx_runtime}
if importlib.util.find_spec("openvino"):
    OTHERS["OpenVINO"] = openvino


def ready(name, path, feed, threads):
    """The function of a runtime, or `None` if it refuses the model."""
    try:
        infer = OTHERS[name](path, feed, threads)
        infer()
    except Exception as why:
        print(f"{name}, {path.stem}: {str(why).strip().splitlines()[-1]}", file=sys.stderr)
        return None
    return infer


def median_time(infer):
    if infer is None:
        return math.inf
    begin = time.perf_counter()
    infer()
    runs = max(8, min(200, int(1.5 / (time.perf_counter() - begin))))
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        infer()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def ovolo_result(args, path, feed, shape):
    with tempfile.TemporaryDirectory() as folder:
        at = pathlib.Path(folder)
        command = [args.ovolo, "run", str(path), "--pipeline", args.pipeline, "--threads", str(args.threads)]
        for number, (key, value) in enumerate(feed.items()):
            np.save(at / f"input-{number}.npy", value)
            command += ["--input", f"{key}={at / f'input-{number}.npy'}"]
        subprocess.run([*command, "--output-dir", str(at / "out")], capture_output=True, text=True, check=True)
        results = [np.load(file) for file in sorted((at / "out").glob("*.npy"))]
    return next(result for result in results if result.shape == shape)


def distance(one, other):
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ovolo")
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("--models", dest="names", default="")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pipeline", default="native")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("quantised"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    found = sorted(file.parent.name for file in args.models.glob("*/model.onnx"))
    names = [name for name in args.names.split(",") if name] or found
    departures = " | ".join(f"departure: {name}" for name in ["ovolo", *OTHERS])
    print(f"| | {' | '.join(OTHERS)} | ovolo | ratio | of f32 | {departures} |")
    print("|---" * (4 + 2 * len(OTHERS) + 1) + "|")
    ratios = []
    for name in names:
        given = args.models / name / "model.onnx"
        path = quantised(given, args.out / f"{name}.onnx")
        plain = session(path, args.threads, optimised=False)
        feed = inputs(plain, np.random.default_rng(1))
        exact = plain.run(None, feed)[0]
        others = [ready(of, path, feed, args.threads) for of in OTHERS]
        # `infer` may give memory that its next run overwrites.
        results = [ovolo_result(args, path, feed, exact.shape), *(infer and np.copy(infer()) for infer in others)]
        rounds = []
        for _ in range(args.rounds):
            turn = [*(median_time(infer) for infer in others), ovolo_time(args, path), ovolo_time(args, given)]
            rounds.append(turn)
        *theirs, own, floats = (statistics.median(times) for times in zip(*rounds))
        ratios.append(own / min(theirs))
        cells = ["fails" if time == math.inf else f"{time:.2f}" for time in [*theirs, own, ratios[-1], own / floats]]
        cells += ["" if result is None else f"{distance(result, exact):.4f}" for result in results]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"| geometric mean{' |' * (len(OTHERS) + 2)} {mean:.2f}{' |' * (len(OTHERS) + 3)}")


if __name__ == "__main__":
    main()
