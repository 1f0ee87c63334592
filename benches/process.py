#!/usr/bin/env python3
"""Compare start times and resident memory of whole processes: `ovolo run` and other runtimes.

    benches/process.py first OVOLO MODELS [--models NAME,…] [--threads 2] [--turns 5] [--pipeline native]
    benches/process.py starts OVOLO MODELS [--models NAME,…] [--threads 2] [--turns 5]
    benches/process.py memory OVOLO MODELS [--models NAME,…] [--threads 2]

MODELS is the folder that `cargo xtask models` makes (NAME/model.onnx, NAME/inputs/*.npy).

`first` measures the seconds from the start of a process to its first output, without tuning and with an empty cache,
so that the speeds of the machine are measured as well. `to its end` counts the plan and the weights that are then
stored, and `speeds known` is the time to the output with a cache that has only the speeds. `OpenVINO` is the time from
the start of a Python process to the output, without a stored model; `without Python` counts only what it takes to
compile the model and to run it. All take turns.

`starts` measures the seconds from the start of a process to its end after one run. `cold` is the first start with
`--cost measured` and an empty cache: calibration, tuning of every kernel, compilation, and the run. `warm` is the
median of the later starts. `OpenVINO` is the median time, in fresh processes, to read the compiled model from its
CACHE_DIR and to run it once; the start of Python and its imports are not counted. Needs numpy and openvino.

`memory` measures the largest resident memory of a process in MiB, for one run with --threads threads: without the
cache, at the first start with it, at a start from the cache (all without tuning), and for ONNX Runtime from
Python. Needs numpy and onnxruntime.

Use a machine that does nothing else.
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
if cache:
    core.set_property({"CACHE_DIR": cache})
compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": int(threads), "PERFORMANCE_HINT": "LATENCY"})
compiled(feed)
print(time.perf_counter() - begin, flush=True)
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


def to_output(command, cache=None):
    """Run a command to its end; return the seconds to its first line, the seconds to its end, and that line."""
    environment = dict(os.environ)
    if cache:
        environment["OVOLO_CACHE"] = cache
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as child:
        line = child.stdout.readline()
        output = time.perf_counter() - begin
        child.stdout.read()
    if child.returncode != 0:
        sys.exit(f"{' '.join(command[:4])} …: exit status {child.returncode}")
    return output, time.perf_counter() - begin, line.decode()


def process(command, cache=None):
    """Run a command to its end; return seconds, largest resident MiB, and output."""
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
    """Return NAME=FILE for each input. The names of these values contain no `/`."""
    files = sorted(os.listdir(os.path.join(folder, "inputs")))
    return [f"{file[:-4]}={os.path.join(folder, 'inputs', file)}" for file in files if file.endswith(".npy")]


def command(options, folder, cost):
    run = [options.ovolo, "run", os.path.join(folder, "model.onnx"), "--threads", str(options.threads), "--cost", cost]
    run += ["--pipeline", options.pipeline]
    return run + [part for one in inputs(folder) for part in ("--input", one)]


def calibrate(options, cache):
    """Measure the machine's speeds until they are kept. This needs buffers that must not count as the model's memory."""
    doctor = [options.ovolo, "doctor", "--threads", str(options.threads), "--json"]
    for _ in range(20):
        if json.loads(process(doctor, cache)[2])["steady"]:
            return
    sys.exit("the machine is busy: its speeds do not settle, and each process would measure them again")


def first(options, folder):
    model = os.path.join(folder, "model.onnx")
    theirs = [sys.executable, "-c", OPENVINO, model, "", str(options.threads), *inputs(folder)]
    ours = command(options, folder, "fitted")
    empty, end, known, whole, openvino = [], [], [], [], []
    for _ in range(options.turns):
        with tempfile.TemporaryDirectory() as cache:
            output, ended, _ = to_output(ours, cache)
            empty.append(output)
            end.append(ended)
            for part in ("plans", "weights"):
                shutil.rmtree(os.path.join(cache, part), ignore_errors=True)
            known.append(to_output(ours, cache)[0])
        output, _, said = to_output(theirs)
        whole.append(output)
        openvino.append(float(said))
    medians = [statistics.median(times) for times in (empty, end, known, whole, openvino)]
    ratios = [medians[0] / medians[3], medians[0] / medians[4]]
    return [f"{seconds:.3f}" for seconds in medians] + [f"{ratio:.2f}" for ratio in ratios]


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
        ours = command(options, folder, "fitted")
        calibrate(options, cache)
        without = process([*ours, "--no-cache"], cache)[1]
        first = process(ours, cache)[1]
        stored = process(ours, cache)[1]
        model = os.path.join(folder, "model.onnx")
        peer = process([sys.executable, "-c", ONNXRUNTIME, model, str(options.threads), *inputs(folder)])[1]
        return [f"{value:.0f}" for value in (without, first, stored, peer)]


HEADS = {
    "first": [
        "to the output, s",
        "to its end, s",
        "speeds known, s",
        "OpenVINO, s",
        "without Python, s",
        "ratio",
        "ratio without Python",
    ],
    "starts": ["cold, with tuning, s", "warm, s", "warm / cold", "OpenVINO, warm, s"],
    "memory": ["without the cache", "first start", "from the cache", "ONNX Runtime"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=HEADS)
    parser.add_argument("ovolo")
    parser.add_argument("folder")
    parser.add_argument("--models", help="names, separated by commas")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--pipeline", default="cpu")
    options = parser.parse_args()
    options.ovolo = shutil.which(options.ovolo) or sys.exit(f"{options.ovolo}: there is no such program")
    models = (name for name in os.listdir(options.folder) if not name.startswith("light_"))
    found = sorted(name for name in models if os.path.exists(os.path.join(options.folder, name, "model.onnx")))
    names = options.models.split(",") if options.models else found
    head = HEADS[options.what]
    print("| | " + " | ".join(head) + " |\n" + "|---" * (len(head) + 1) + "|", flush=True)
    for name in names:
        folder = os.path.join(options.folder, name)
        if os.path.exists(os.path.join(folder, "model.onnx")):
            row = {"first": first, "starts": starts, "memory": memory}[options.what](options, folder)
            print(f"| {name} | " + " | ".join(row) + " |", flush=True)


main()
