#!/usr/bin/env python3
"""Start times and resident memory of whole processes: `ovolo run` beside other runtimes.

    benches/process.py starts OVOLO MODELS [--models NAME,…] [--threads 2] [--turns 5]
    benches/process.py memory OVOLO MODELS [--models NAME,…] [--threads 2]

MODELS is the folder that `cargo xtask models` makes (NAME/model.onnx, NAME/inputs/*.npy).

`starts`: seconds from the start of a process to its end after one run. `cold` is the first start with
`--cost measured` in an empty cache: calibration, tuning of every kernel, compilation, the run. `warm` is the
median of the starts after it. `OpenVINO` is the median, in fresh processes, of what it takes to read the
compiled model from its CACHE_DIR and to run once; the start of Python and its imports are not counted.
Needs numpy and openvino.

`memory`: the most that a process had resident at one time, in MiB, of one run by so many threads: without the
cache, the first start with it, a start from the cache (all with `--cost roofline`), and ONNX Runtime from
Python. Needs numpy and onnxruntime.

Take the figures on a machine that does nothing else.
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

OPENVINO = """
import sys, time
import numpy as np, openvino as ov
model, cache, threads, *inputs = sys.argv[1:]
feed = {name: np.load(file) for name, file in (one.split("=", 1) for one in inputs)}
begin = time.perf_counter()
core = ov.Core()
core.set_property({"CACHE_DIR": cache})
compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": int(threads), "PERFORMANCE_HINT": "LATENCY"})
compiled(feed)
print(time.perf_counter() - begin)
"""

ONNXRUNTIME = """
import sys
import numpy as np, onnxruntime as ort
model, threads, *inputs = sys.argv[1:]
feed = {name: np.load(file) for name, file in (one.split("=", 1) for one in inputs)}
options = ort.SessionOptions()
options.intra_op_num_threads = int(threads)
ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feed)
"""


def process(command, cache=None):
    """Runs to the end: seconds, most resident MiB, output."""
    environment = dict(os.environ)
    if cache:
        environment["OVOLO_CACHE"] = cache
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL, env=environment)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - begin
        if status != 0:
            sys.exit(f"{' '.join(command[:4])} …: exit status {os.waitstatus_to_exitcode(status)}")
        output.seek(0)
        return seconds, usage.ru_maxrss / 1024, output.read().decode()


def inputs(folder):
    """NAME=FILE of each input; the name of a value has no `/` here."""
    files = sorted(os.listdir(os.path.join(folder, "inputs")))
    return [f"{file[:-4]}={os.path.join(folder, 'inputs', file)}" for file in files if file.endswith(".npy")]


def command(options, folder, cost):
    run = [options.ovolo, "run", os.path.join(folder, "model.onnx"), "--threads", str(options.threads), "--cost", cost]
    return run + [part for one in inputs(folder) for part in ("--input", one)]


def calibrate(options, cache):
    """Measures the machine's speeds, which is not counted, until they are kept: that takes buffers of its own."""
    doctor = [options.ovolo, "doctor", "--threads", str(options.threads), "--json"]
    for _ in range(20):
        if json.loads(process(doctor, cache)[2])["steady"]:
            return
    sys.exit("the machine is busy: its speeds do not settle, and each process would measure them anew")


def starts(options, folder):
    with tempfile.TemporaryDirectory() as work:
        cache, others = os.path.join(work, "ours"), os.path.join(work, "openvino")
        ours = command(options, folder, "measured")
        model = os.path.join(folder, "model.onnx")
        theirs = [sys.executable, "-c", OPENVINO, model, others, str(options.threads), *inputs(folder)]
        cold = process(ours, cache)[0]
        process(theirs)
        mine, openvino = [], []
        for _ in range(options.turns):
            mine.append(process(ours, cache)[0])
            openvino.append(float(process(theirs)[2]))
        warm = statistics.median(mine)
        return [f"{cold:.2f}", f"{warm:.3f}", f"{100 * warm / cold:.1f} %", f"{statistics.median(openvino):.3f}"]


def memory(options, folder):
    with tempfile.TemporaryDirectory() as cache:
        ours = command(options, folder, "roofline")
        calibrate(options, cache)
        without = process([*ours, "--no-cache"], cache)[1]
        first = process(ours, cache)[1]
        stored = process(ours, cache)[1]
        model = os.path.join(folder, "model.onnx")
        peer = process([sys.executable, "-c", ONNXRUNTIME, model, str(options.threads), *inputs(folder)])[1]
        return [f"{value:.0f}" for value in (without, first, stored, peer)]


HEADS = {
    "starts": ["cold, with tuning, s", "warm, s", "warm / cold", "OpenVINO, warm, s"],
    "memory": ["without the cache", "first start", "from the cache", "ONNX Runtime"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=HEADS)
    parser.add_argument("ovolo")
    parser.add_argument("folder")
    parser.add_argument("--models", help="names, with commas between")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    options.ovolo = shutil.which(options.ovolo) or sys.exit(f"{options.ovolo}: no such program")
    models = (name for name in os.listdir(options.folder) if not name.startswith("light_"))
    found = sorted(name for name in models if os.path.exists(os.path.join(options.folder, name, "model.onnx")))
    names = options.models.split(",") if options.models else found
    head = HEADS[options.what]
    print("| | " + " | ".join(head) + " |\n" + "|---" * (len(head) + 1) + "|", flush=True)
    for name in names:
        folder = os.path.join(options.folder, name)
        if os.path.exists(os.path.join(folder, "model.onnx")):
            row = {"starts": starts, "memory": memory}[options.what](options, folder)
            print(f"| {name} | " + " | ".join(row) + " |", flush=True)


main()
