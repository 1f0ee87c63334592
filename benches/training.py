#!/usr/bin/env python3
"""Compare steps of training: ovolo and PyTorch (eager and `torch.compile`), in turns.

    benches/training.py OVOLO MODELS [--models resnet50,mobilenet_v2,bert_base] [--batch 8] [--threads 2]
                        [--rounds 3] [--seconds 5] [--pipelines cpu,native] [--without NAME,…]

MODELS is a folder with NAME/model.onnx, as `cargo xtask models` makes it. A model is first given another batch: in
its inputs and outputs, and in the shapes of `Reshape` that begin with the old one. `--batch NAME=N` sets the batch of
one model and may be given several times; that of `bert_base` is 4 unless it is set.

A step computes the loss (cross-entropy along the last axis), all new parameters and the momentum. Ours is the graph
that `ovolo grad --optimizer momentum` writes, run by `ovolo bench`. PyTorch's is the model that onnx2torch makes, in
training mode; its initializers of float32 with a dimension become parameters, as in ovolo, and `torch.optim.SGD` with
momentum updates them. All begin with the same parameters and data.

In each round every runtime has a turn of --seconds, so that a disturbance of the machine affects all of them. A cell
is the median over rounds of the median of a turn, in milliseconds. `of eager` and `of compiled` are our time divided
by PyTorch's in the same round, as a median over rounds; below 1, ours is faster. `of inference` is our time divided
by that of the same model's inference with the same batch. MiB is the largest resident memory of the process over the
whole turn, with compilation and loading. If the loss of the first step differs by more than 1e-3 from PyTorch's, a
line says so.

Needs numpy, onnx, torch and onnx2torch. Use a machine that does nothing else.
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

RATE = 1e-4
LEARNERS = ["eager", "compiled"]

# The shapes by which `Flatten` is written, by its axis: 0 is a size of the operand. One of axis 2 takes a matrix here.
FLAT = {0: [1, -1], 1: [0, -1], 2: [-1, 1]}

# A process that makes one step when it starts, prints its loss, and then answers each line with the milliseconds of a
# turn and its largest resident memory.
PYTORCH = """
import resource, statistics, sys, time
import numpy as np, onnx, torch, onnx2torch
path, how, threads, rate, seconds, *inputs = sys.argv[1:]
torch.set_num_threads(int(threads))
model = onnx2torch.convert(onnx.load(path), save_input_names=True).train()
for module in model.modules():
    if type(module).__name__ == "InitializersContainer":
        for name, tensor in list(module._buffers.items()):
            if tensor.dtype == torch.float32 and tensor.dim() > 0:
                del module._buffers[name]
                module.register_parameter(name, torch.nn.Parameter(tensor))
feed = [torch.from_numpy(np.load(file)) for file in inputs]
labels = feed.pop()
forward = torch.compile(model) if how == "compiled" else model
optimizer = torch.optim.SGD(model.parameters(), lr=float(rate), momentum=0.9)

def step():
    scores = forward(*feed)
    loss = torch.nn.functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), labels.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()

print(step(), sum(one.numel() for one in model.parameters()), flush=True)
for line in sys.stdin:
    step()
    times, end = [], time.perf_counter() + float(seconds)
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(1e3 * statistics.median(times), peak, flush=True)
"""


def file_of(name):
    return name.replace("/", "_") + ".npy"


def with_batch(path, batch):
    """The model with another size of the first dimension of each input and output.

    `GreaterOrEqual` and `Flatten`, of which onnx2torch does not know all, are written as other operators.
    """
    model = onnx.load(path)
    graph = model.graph
    old = graph.input[0].type.tensor_type.shape.dim[0].dim_value
    weights = {tensor.name for tensor in graph.initializer}
    for value in [*graph.input, *graph.output]:
        if value.name not in weights:
            value.type.tensor_type.shape.dim[0].dim_value = batch
    del graph.value_info[:]
    for at in [at for at, node in enumerate(graph.node) if node.op_type == "GreaterOrEqual"][::-1]:
        node = graph.node[at]
        less = onnx.helper.make_node("Less", node.input, [node.output[0] + ".less"])
        graph.node[at].CopyFrom(onnx.helper.make_node("Not", less.output, node.output))
        graph.node.insert(at, less)
    for node in graph.node:
        axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1)
        if node.op_type == "Flatten" and axis in FLAT:
            name = node.output[0] + ".shape"
            graph.initializer.append(numpy_helper.from_array(np.array(FLAT[axis]), name))
            node.CopyFrom(onnx.helper.make_node("Reshape", [node.input[0], name], node.output))
    shapes = {node.input[1] for node in graph.node if node.op_type == "Reshape"}
    tensors = [tensor for tensor in graph.initializer if tensor.name in shapes]
    tensors += [node.attribute[0].t for node in graph.node if node.op_type == "Constant" and node.output[0] in shapes]
    for tensor in tensors:
        shape = numpy_helper.to_array(tensor).copy()
        if shape.size > 1 and shape[0] == old:
            shape[0] = batch
            tensor.CopyFrom(numpy_helper.from_array(shape, tensor.name))
    return model


def drawn(generator, value):
    """Seeded numbers for an input: a mask has ones, positions are below 100."""
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    if dtype.kind in "iu":
        return np.ones(shape, dtype) if "mask" in value.name else generator.integers(0, 100, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


def prepare(options, path, batch, folder):
    """Write model, inputs and parameters to a folder; return the model's file and the files of inputs and labels."""
    model = with_batch(path, batch)
    file = os.path.join(folder, "model.onnx")
    onnx.save(model, file)
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output[0]
    scores = [dim.dim_value for dim in inferred.type.tensor_type.shape.dim]
    generator = np.random.default_rng(0)
    feed, weights = {}, {tensor.name: tensor for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name not in weights:
            feed[value.name] = drawn(generator, value)
    feed["labels"] = generator.integers(0, scores[-1], scores[:-1])
    parameters = {name: numpy_helper.to_array(tensor) for name, tensor in weights.items()}
    state = {f"{name}.velocity": np.zeros_like(values) for name, values in parameters.items()}
    numbers = {"learning-rate": np.array(RATE, np.float32), "step": np.array(0, np.float32)}
    for name, values in {**parameters, **state, **feed, **numbers}.items():
        np.save(os.path.join(folder, file_of(name)), values)
    return file, [os.path.join(folder, file_of(name)) for name in feed]


def command(words):
    """Run a command; return its output and largest resident memory in MiB."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as messages:
        child = subprocess.Popen(words, stdout=output, stderr=messages)
        _, status, usage = os.wait4(child.pid, 0)
        output.seek(0)
        messages.seek(0)
        if status != 0:
            raise ValueError(f"{' '.join(words[:3])} …: {messages.read().decode().strip()}")
        return output.read().decode(), usage.ru_maxrss / 1024


def ours(options, file, pipeline, folder, out):
    """Milliseconds, memory and loss of a turn of ovolo."""
    words = [options.ovolo, "bench", file, "--inputs", folder, "--pipeline", pipeline, "--json", "--output-dir", out]
    words += ["--threads", str(options.threads), "--seconds", str(options.seconds)]
    output, peak = command(words)
    loss = os.path.join(out, "loss.npy")
    return json.loads(output.splitlines()[-1])["median_ms"], peak, float(np.load(loss)) if os.path.exists(loss) else None


class PyTorch:
    """A process of PyTorch, which makes a turn when it is asked."""

    def __init__(self, options, how, file, inputs):
        words = [sys.executable, "-c", PYTORCH, file, how, str(options.threads), str(RATE), str(options.seconds), *inputs]
        environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=environment)
        answer = self.process.stdout.readline().split()
        if not answer:
            raise ValueError(f"PyTorch ({how}): {self.process.stderr.read().strip().splitlines()[-1]}")
        self.loss = float(answer[0])

    def turn(self):
        self.process.stdin.write("turn\n")
        self.process.stdin.flush()
        taken, peak = self.process.stdout.readline().split()
        return float(taken), float(peak)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def row(options, name, batch, folder):
    """The cells of a model by column."""
    # In a process of its own: what this one has once held would count as the memory of those that it starts.
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        path = os.path.join(options.folder, name, "model.onnx")
        file, inputs = pool.submit(prepare, options, path, batch, folder).result()
    step, out = os.path.join(folder, "step.ovolo"), os.path.join(folder, "out")
    os.makedirs(out)
    command([options.ovolo, "grad", file, "--optimizer", "momentum", "--output", step])
    others = {how: PyTorch(options, how, file, inputs) for how in LEARNERS if how not in options.without}
    times, peaks, losses = {}, {}, {}
    for _ in range(options.rounds):
        for how, other in others.items():
            taken, peak = other.turn()
            times.setdefault(how, []).append(taken)
            peaks[how], losses[how] = peak, other.loss
        for pipeline in options.pipelines:
            taken, peak, losses[pipeline] = ours(options, step, pipeline, folder, out)
            times.setdefault(pipeline, []).append(taken)
            peaks[pipeline] = max(peak, peaks.get(pipeline, 0))
            times.setdefault(f"{pipeline} inference", []).append(ours(options, file, pipeline, folder, out)[0])
    for other in others.values():
        other.end()
    for pipeline in options.pipelines:
        for how in others:
            if abs(losses[pipeline] - losses[how]) > 1e-3 * abs(losses[how]):
                print(f"{name}: the loss is {losses[pipeline]} with {pipeline} and {losses[how]} {how}", file=sys.stderr)
    ratio = lambda top, below: f"{statistics.median(a / b for a, b in zip(times[top], times[below])):.3f}"
    cells = [f"{cell:.0f}" for how in others for cell in (statistics.median(times[how]), peaks[how])]
    for pipeline in options.pipelines:
        cells += [f"{statistics.median(times[pipeline]):.0f}", f"{peaks[pipeline]:.0f}"]
        cells += [ratio(pipeline, how) for how in others] + [ratio(pipeline, f"{pipeline} inference")]
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ovolo")
    parser.add_argument("folder")
    parser.add_argument("--models", default="resnet50,mobilenet_v2,bert_base", help="names, with commas between")
    parser.add_argument("--batch", action="append", default=[], metavar="[NAME=]N")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--pipelines", default="cpu,native", help="names, with commas between")
    parser.add_argument("--without", default="", help="runtimes that have no turn: " + ", ".join(LEARNERS))
    options = parser.parse_args()
    options.ovolo = shutil.which(options.ovolo) or sys.exit(f"{options.ovolo}: there is no such program")
    options.pipelines, options.without = options.pipelines.split(","), options.without.split(",")
    batches = {"": 8, "bert_base": 4}
    for one in options.batch:
        name, _, size = one.rpartition("=")
        batches[name] = int(size)
    learners = [how for how in LEARNERS if how not in options.without]
    head = [cell for how in learners for cell in (f"PyTorch {how}, ms", "MiB")]
    for pipeline in options.pipelines:
        head += [f"ovolo {pipeline}, ms", "MiB", *(f"of {how}" for how in learners), "of inference"]
    print("| model, batch | " + " | ".join(head) + " |\n" + "|---" * (len(head) + 1) + "|", flush=True)
    for name in options.models.split(","):
        batch = batches.get(name, batches[""])
        with tempfile.TemporaryDirectory() as folder:
            try:
                cells = row(options, name, batch, folder)
            except ValueError as problem:
                print(f"{name}: {problem}", file=sys.stderr)
                continue
        print(f"| {name}, {batch} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
