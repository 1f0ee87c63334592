#!/usr/bin/env python3
"""Compare latencies of runtimes: `ovolo bench --cost measured`, ONNX Runtime, OpenVINO and tract, in turns.

    benches/peers.py OVOLO MODELS [--models NAME,…] [--threads 2] [--rounds 3] [--seconds 0.4] [--pipeline cpu]

MODELS is the folder that `cargo xtask models` makes (NAME/model.onnx, NAME/inputs/*.npy).

In each round every runtime has a turn of --seconds, in float32 on --threads threads, so that a disturbance of
the machine affects all of them. A cell is the median over rounds of the median of a turn, in milliseconds.
`ratio` is our time divided by the best other one in the same round, as a median over rounds; below 1, ours is
faster. Our kernels are timed before the first round, once for each machine. Results are compared with ONNX
Runtime's; a relative L2 error above 1e-3 ends the script.

Needs numpy and onnxruntime, and uses openvino and tract if they are installed. Use a machine that does nothing
else.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime


def onnx_runtime(model, feed, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feed)[0]


def openvino(model, feed, threads):
    import openvino

    hints = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(model, "CPU", hints).create_infer_request()
    return lambda: request.infer(feed, share_inputs=True)[0]


def tract(model, feed, threads):
    import tract

    if threads != 1:
        raise ValueError("it has one thread")
    runnable = tract.onnx().load(model).into_model().into_runnable()
    return lambda: runnable.run(list(feed.values()))[0].to_numpy()


OTHERS = {"ONNX Runtime": onnx_runtime, "OpenVINO": openvino, "tract": tract}


def turn(run, seconds):
    run()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(times)


def error(got, want):
    got, want = (np.asarray(value, np.float64).ravel() for value in (got, want))
    return np.linalg.norm(got - want) / max(np.linalg.norm(want), 1e-30)


def ours(options, folder, first, out):
    command = [options.ovolo, "bench", os.path.join(folder, "model.onnx"), "--inputs", os.path.join(folder, "inputs")]
    command += ["--cost", "measured", "--pipeline", options.pipeline, "--threads", str(options.threads)]
    command += ["--seconds", str(options.seconds), "--json", "--output-dir", out]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command[:3])} …: {done.stderr}")
    value = np.load(os.path.join(out, first.replace("/", "_") + ".npy"))
    return json.loads(done.stdout.splitlines()[-1])["median_ms"], value


def row(options, folder):
    model = os.path.join(folder, "model.onnx")
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    first = session.get_outputs()[0].name
    files = {value.name: value.name.replace("/", "_") + ".npy" for value in session.get_inputs()}
    feed = {name: np.load(os.path.join(folder, "inputs", file)) for name, file in files.items()}
    del session
    engines = {}
    for name, make in OTHERS.items():
        try:
            engines[name] = make(model, feed, options.threads)
        except (ImportError, ValueError):
            continue
    want = engines["ONNX Runtime"]()
    for name in [name for name, run in engines.items() if error(run(), want) > 1e-3]:
        del engines[name]
    times, ratios = {name: [] for name in [*engines, "ovolo"]}, []
    with tempfile.TemporaryDirectory() as out:
        for at in range(options.rounds + 1):
            if at > 0:
                for name, run in engines.items():
                    times[name].append(turn(run, options.seconds))
            taken, got = ours(options, folder, first, out)
            if error(got, want) > 1e-3:
                sys.exit(f"{folder}: ours differs from ONNX Runtime's by {error(got, want):.1e}")
            # Our first run timed the kernels.
            if at > 0:
                times["ovolo"].append(taken)
                ratios.append(taken / min(times[name][-1] for name in engines))
    cells = {name: f"{statistics.median(taken):.2f}" for name, taken in times.items()}
    return cells, statistics.median(ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ovolo")
    parser.add_argument("folder")
    parser.add_argument("--models", help="names, with commas between")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--pipeline", default="cpu")
    options = parser.parse_args()
    options.ovolo = shutil.which(options.ovolo) or sys.exit(f"{options.ovolo}: there is no such program")
    models = (name for name in os.listdir(options.folder) if not name.startswith("light_"))
    found = sorted(name for name in models if os.path.exists(os.path.join(options.folder, name, "model.onnx")))
    names = options.models.split(",") if options.models else found
    head = [*OTHERS, "ovolo", "ratio"]
    print("| | " + " | ".join(head) + " |\n" + "|---" * (len(head) + 1) + "|", flush=True)
    ratios = []
    for name in names:
        cells, ratio = row(options, os.path.join(options.folder, name))
        ratios.append(ratio)
        print(f"| {name} | " + " | ".join(cells.get(one, "") for one in head[:-1]) + f" | {ratio:.3f} |", flush=True)
    print(f"\ngeometric mean of the ratios: {statistics.geometric_mean(ratios):.3f}")


if __name__ == "__main__":
    main()
