#!/usr/bin/env python3
"""Compare steps of training of a table of embeddings: by all rows, by the rows that were read, and PyTorch's.

    benches/embeddings.py target/release/ovolo [--rows 100000] [--width 64] [--batch 64] [--read 20] [--rounds 5]

The network has a table of ROWS x WIDTH. An example is the mean of READ of its rows, at positions that are drawn evenly,
and has one of ten classes, by two layers of WIDTH and ten outputs. `dense` is a pipeline without the rules of
`rules/rows.ron`, so that the gradient is written out and the optimiser changes all rows. `rows` has these rules, and
`lazy` is the step of `ovolo grad --lazy table`. PyTorch's network has `Embedding(sparse=False)` or `(sparse=True)`, with
`SGD`, `Adam` and `SparseAdam`.

In each round every runtime has a turn of --seconds, so that a disturbance of the machine affects all of them. A number is
the median over rounds of the median of a turn, in milliseconds; the least of all turns stands after it. MB is the arena
of the plan and its constants.

Needs numpy, and torch unless there is --without-torch. Use a machine that does nothing else.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

MODEL = """graph table {{
  items: i64[{batch},{read}] = input
  table: f32[{rows},{width}] = const splat 0.01
  x: f32[{batch},{read},{width}] = gather(table, items) {{axis: 0}}
  mean = reduce-mean(x) {{axes: [1], keepdims: 0}}
  up: f32[{width},{width}] = const ~2; up.bias: f32[{width}] = const ~3
  wide = matmul(mean, up); biased = add(wide, up.bias); bent = relu(biased)
  head: f32[{width},10] = const ~4
  y = matmul(bent, head)
  return y
}}"""

# A process that answers each line with the milliseconds of a turn.
PYTORCH = """
import statistics, sys, time
import numpy as np, torch
folder, optimizer, sparse, threads, seconds = sys.argv[1:]
torch.set_num_threads(int(threads))
load = lambda name: torch.from_numpy(np.load(f"{folder}/{name}.npy"))
table, items, labels = load("table"), load("items"), load("labels")
width = table.shape[1]
embedding = torch.nn.Embedding.from_pretrained(table, freeze=False, sparse=sparse == "1")
rest = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 10, bias=False))
if optimizer == "sgd":
    optimizers = [torch.optim.SGD([*embedding.parameters(), *rest.parameters()], lr=1e-3)]
elif sparse == "1":
    optimizers = [torch.optim.SparseAdam(embedding.parameters()), torch.optim.Adam(rest.parameters())]
else:
    optimizers = [torch.optim.Adam([*embedding.parameters(), *rest.parameters()])]

def step():
    loss = torch.nn.functional.cross_entropy(rest(embedding(items).mean(1)), labels)
    for one in optimizers:
        one.zero_grad()
    loss.backward()
    for one in optimizers:
        one.step()

for line in sys.stdin:
    step()
    times, end = [], time.perf_counter() + float(seconds)
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    print(1e3 * statistics.median(times), 1e3 * min(times), flush=True)
"""


class PyTorch:
    def __init__(self, options, folder, optimizer, sparse):
        words = [sys.executable, "-c", PYTORCH, str(folder), optimizer, str(int(sparse))]
        words += [str(options.threads), str(options.seconds)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def turn(self):
        self.process.stdin.write("turn\n")
        self.process.stdin.flush()
        return [float(word) for word in self.process.stdout.readline().split()]

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def run(*words):
    done = subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True)
    return done.stdout


def ours(options, words):
    """The median and the least milliseconds of a turn."""
    told = json.loads(run(options.ovolo, "bench", *words).splitlines()[-1])
    return told["median_ms"], told["min_ms"]


def inputs(options, folder):
    """Write an input of each name that a step has."""
    random = np.random.default_rng(1)
    rows, width = options.rows, options.width
    shapes = {"table": (rows, width), "up": (width, width), "up.bias": (width,), "head": (width, 10)}
    values = {name: random.standard_normal(shape, dtype=np.float32) * 0.1 for name, shape in shapes.items()}
    for name, shape in shapes.items():
        values |= {f"{name}.mean": np.zeros(shape, np.float32), f"{name}.square": np.zeros(shape, np.float32)}
    values["items"] = random.integers(0, rows, (options.batch, options.read))
    values["labels"] = random.integers(0, 10, options.batch)
    values |= {"learning-rate": np.array(1e-3, np.float32), "step": np.array(0, np.float32)}
    for name, value in values.items():
        np.save(folder / f"{name}.npy", value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ovolo", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--read", type=int, default=20, help="the rows that an example reads")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--without-torch", action="store_true")
    options = parser.parse_args()
    pipeline = (Path(__file__).parent.parent / "passes" / "native.ron").read_text()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        inputs(options, folder)
        model, dense = folder / "model.ovolo", folder / "dense.ron"
        model.write_text(MODEL.format(**vars(options)))
        dense.write_text(pipeline.replace('"rows", ', "").replace('name: "native"', 'name: "dense"'))
        turns, sizes, others = {}, {}, []
        for optimizer in ["sgd", "adam"]:
            for how in ["dense", "rows", "lazy"]:
                step = folder / f"{optimizer}-{how}.ovolo"
                lazy = ["--lazy", "table"] if how == "lazy" else []
                run(options.ovolo, "grad", model, "--optimizer", optimizer, *lazy, "--output", step)
                words = [step, "--pipeline", dense if how == "dense" else "native", "--threads", options.threads]
                told = json.loads(run(options.ovolo, "compile", *words, "--json").splitlines()[-1])
                sizes[optimizer, how] = told["arena"] + told["constants"]
                words += ["--inputs", folder, "--seconds", options.seconds, "--json"]
                turns[optimizer, how] = lambda words=words: ours(options, words)
            for sparse in [] if options.without_torch else [False, True]:
                others.append(PyTorch(options, folder, optimizer, sparse))
                turns[optimizer, "PyTorch" + (", sparse" if sparse else "")] = others[-1].turn
        times = {key: [] for key in turns}
        for _ in range(options.rounds):
            for key, turn in turns.items():
                times[key].append(turn())
        for other in others:
            other.end()
        for (optimizer, how), all in times.items():
            size = f"{sizes[optimizer, how] / 1e6:.1f} MB" if (optimizer, how) in sizes else ""
            median, least = statistics.median(median for median, _ in all), min(least for _, least in all)
            print(f"{optimizer:5} {how:16} {median:8.3f} ms  least {least:8.3f} ms  {size}")


if __name__ == "__main__":
    main()
