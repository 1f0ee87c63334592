#!/usr/bin/env python3
"""Compare latencies of ovolo, ONNX Runtime, OpenVINO, ncnn and tract, in turns.

    benches/peers.py OVOLO MODELS [--models NAME,…] [--threads 2] [--rounds 3] [--seconds 0.4]
                     [--pipeline cpu] [--cost fitted,measured] [--budget 10s]

MODELS is a folder with NAME/model.onnx (and NAME/inputs/*.npy), as `cargo xtask models` makes it, or with
NAME.onnx. Inputs that are absent are drawn from a seed. `cargo xtask race` makes the models, installs the other
runtimes and runs this script.

In each round every runtime has a turn of --seconds, in float32 on --threads threads, so that a disturbance of
the machine affects all of them. A cell is the median over rounds of the median of a turn, in milliseconds.
`ratio` is our time divided by the best other one in the same round, as a median over rounds; below 1, ours is
faster. There are two columns of ours: `fitted` is ovolo as it starts, and `measured` after the kernels of the model
have been timed on this machine, before the first round. Results are compared with ONNX Runtime's. A runtime
whose result differs by more than 1e-2 (relative L2) has no turn; if ours differs by more than 1e-3, the line says so.

Needs numpy, onnx and onnxruntime, and uses openvino, tract and ncnn with pnnx if they are installed. Use a machine
that does nothing else.
"""
import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
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
    return lambda: request.infer(feed, share_inputs=True, share_outputs=True)[0]


def ncnn(model, feed, threads):
    import ncnn

    if len(feed) != 1:
        raise ValueError("this script gives it models of one image only")
    (image,) = feed.values()
    if image.ndim != 4 or image.shape[0] != 1:
        raise ValueError("this script gives it models of one image only")
    work = tempfile.mkdtemp()
    link = os.path.join(work, "m.onnx")
    os.symlink(os.path.abspath(model), link)
    shape = "inputshape=[" + ",".join(map(str, image.shape)) + "]"
    convert = shutil.which("pnnx") or os.path.join(os.path.dirname(sys.executable), "pnnx")
    subprocess.run([convert, link, shape, "fp16=0"], cwd=work, check=True, capture_output=True, timeout=300)
    net = ncnn.Net()
    net.opt.num_threads = threads
    for flag in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage"):
        setattr(net.opt, flag, False)
    if net.load_param(os.path.join(work, "m.ncnn.param")) or net.load_model(os.path.join(work, "m.ncnn.bin")):
        raise RuntimeError("it cannot load what pnnx has made of it")
    # A `Mat` borrows the array.
    pixels = np.ascontiguousarray(image[0])
    source = ncnn.Mat(pixels)

    def infer():
        extractor = net.create_extractor()
        extractor.input("in0", source)
        return np.array(extractor.extract("out0")[1])

    infer.keep = pixels
    return infer


def tract(model, feed, threads):
    import tract

    if threads != 1:
        raise ValueError("it has one thread")
    runnable = tract.onnx().load(model).into_model().into_runnable()
    return lambda: runnable.run(list(feed.values()))[0].to_numpy()


OTHERS = {"ONNX Runtime": onnx_runtime, "OpenVINO": openvino, "ncnn": ncnn, "tract": tract}
PACKAGES = {"ONNX Runtime": "onnxruntime", "OpenVINO": "openvino", "ncnn": "ncnn", "tract": "tract"}
COSTS = {"fitted": "ovolo as it starts", "roofline": "ovolo by the roofline", "measured": "ovolo tuned"}


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
    if got.shape != want.shape:
        return float("inf")
    return np.linalg.norm(got - want) / max(np.linalg.norm(want), 1e-30)


def file_of(name):
    return name.replace("/", "_") + ".npy"


def feed_of(model, inputs):
    """The inputs of a model by name: those that lie in the folder `inputs`, and seeded ones for the others, which are
    written there."""
    graph = onnx.load(model, load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    generator = np.random.default_rng(0)
    feed = {}
    for value in graph.input:
        if value.name in weights:
            continue
        path = os.path.join(inputs, file_of(value.name))
        if not os.path.exists(path):
            shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            if dtype.kind in "iu":
                drawn = np.ones(shape, dtype) if "mask" in value.name else generator.integers(0, 100, shape).astype(dtype)
            else:
                drawn = generator.standard_normal(shape).astype(dtype)
            np.save(path, drawn)
        feed[value.name] = np.load(path)
    return feed, graph.output[0].name


def ours(options, cost, model, inputs, first, out):
    command = [options.ovolo, "bench", model, "--inputs", inputs, "--cost", cost, "--pipeline", options.pipeline]
    command += ["--threads", str(options.threads), "--seconds", str(options.seconds), "--json", "--output-dir", out]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise ValueError(f"{' '.join(command[:3])} …: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])["median_ms"], np.load(os.path.join(out, file_of(first)))


def tune(options, model):
    command = [options.ovolo, "tune", model, "--pipeline", options.pipeline, "--threads", str(options.threads)]
    command += ["--budget", options.budget] if options.budget else []
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise ValueError(f"{' '.join(command[:3])} …: {done.stderr.strip()}")


def row(options, name, model, inputs):
    """The cells of a model by column, and its ratios by cost model."""
    feed, first = feed_of(model, inputs)
    engines = {}
    for other, make in OTHERS.items():
        try:
            engines[other] = make(model, feed, options.threads)
        except (ImportError, ValueError):
            continue
        except Exception as problem:
            print(f"{name}: {other} does not run it: {str(problem).splitlines()[0][:100]}", file=sys.stderr)
    want = engines["ONNX Runtime"]()
    for other in list(engines):
        departure = error(engines[other](), want)
        if departure > 1e-2:
            print(f"{name}: {other} departs from ONNX Runtime by {departure:.1e}", file=sys.stderr)
            del engines[other]
    if "measured" in options.cost:
        tune(options, model)
    times = {column: [] for column in [*engines, *options.cost]}
    ratios = {cost: [] for cost in options.cost}
    with tempfile.TemporaryDirectory() as out:
        for _ in range(options.rounds):
            for other, run in engines.items():
                times[other].append(turn(run, options.seconds))
            best = min(times[other][-1] for other in engines)
            for cost in options.cost:
                taken, got = ours(options, cost, model, inputs, first, out)
                if error(got, want) > 1e-3:
                    print(f"{name}: ours departs from ONNX Runtime by {error(got, want):.1e}", file=sys.stderr)
                times[cost].append(taken)
                ratios[cost].append(taken / best)
    cells = {column: f"{statistics.median(taken):.2f}" for column, taken in times.items()}
    return cells, {cost: statistics.median(taken) for cost, taken in ratios.items()}


def machine(options):
    """One line on the processor, the threads and the versions."""
    lines = open("/proc/cpuinfo").read().splitlines() if os.path.exists("/proc/cpuinfo") else []
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    kind = fields.get("model name", platform.processor())
    if "model" in fields:
        kind += f" (family {fields['cpu family']}, model {fields['model']})"
    sets = [flag for flag in ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "amx_tile") if flag in fields.get("flags", "").split()]
    versions = []
    for other, package in PACKAGES.items():
        try:
            versions.append(f"{other} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    version = subprocess.run([options.ovolo, "--version"], stdout=subprocess.PIPE, text=True).stdout.strip()
    hidden = os.environ.get("OVOLO_BENCH_PROCESSOR")
    if hidden:
        sets = [f"restricted to {hidden}"]
    return (f"{time.strftime('%Y-%m-%d')}, {kind}, {' '.join(sets)}, {os.cpu_count()} processors, "
            f"{options.threads} threads; {version}, {', '.join(versions)}")


def found(folder):
    """The models of a folder: name, file, and folder of inputs."""
    for entry in sorted(os.listdir(folder)):
        path = os.path.join(folder, entry)
        if os.path.exists(os.path.join(path, "model.onnx")) and not entry.startswith("light_"):
            yield entry, os.path.join(path, "model.onnx"), os.path.join(path, "inputs")
        elif entry.endswith(".onnx"):
            yield entry[:-5], path, None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ovolo")
    parser.add_argument("folder")
    parser.add_argument("--models", help="names, with commas between")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--pipeline", default="cpu")
    parser.add_argument("--cost", default="fitted,measured", help="cost models of ours, with commas between")
    parser.add_argument("--budget", help="the most time that tuning may take for a model, for example 10s")
    options = parser.parse_args()
    options.ovolo = shutil.which(options.ovolo) or sys.exit(f"{options.ovolo}: there is no such program")
    options.cost = options.cost.split(",")
    if unknown := [cost for cost in options.cost if cost not in COSTS]:
        sys.exit(f"--cost {unknown[0]}: only {' and '.join(COSTS)} are compared here")
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    models = list(found(options.folder))
    if options.models:
        names = options.models.split(",")
        if absent := set(names) - {name for name, _, _ in models}:
            sys.exit(f"{options.folder} has no model {', '.join(sorted(absent))}")
        models = [one for one in models if one[0] in names]
    print(machine(options) + "\n", flush=True)
    head = [*OTHERS] + [column for cost in options.cost for column in (COSTS[cost], "ratio")]
    print("| | " + " | ".join(head) + " |\n" + "|---" * (len(head) + 1) + "|", flush=True)
    ratios = {cost: [] for cost in options.cost}
    for name, model, inputs in models:
        with tempfile.TemporaryDirectory() as drawn:
            try:
                cells, got = row(options, name, model, inputs or drawn)
            except ValueError as problem:
                print(f"{name}: {problem}", file=sys.stderr)
                continue
        line = [cells.get(other, "") for other in OTHERS]
        for cost in options.cost:
            ratios[cost].append(got[cost])
            line += [cells[cost], f"{got[cost]:.3f}"]
        print(f"| {name} | " + " | ".join(line) + " |", flush=True)
    means = [f"{statistics.geometric_mean(all):.3f}" if all else "" for all in ratios.values()]
    print("| geometric mean | " + " | ".join([""] * len(OTHERS) + [cell for mean in means for cell in ("", mean)]) + " |")


if __name__ == "__main__":
    main()
