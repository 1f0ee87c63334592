#!/usr/bin/env python3
"""A cost model in a separate program: fitted with scikit-learn, and queried by `ovolo --process`.

    ovolo features model.onnx --cost measured --out kernels.csv
    python3 learned.py fit kernels.csv --out kernels.joblib
    ovolo compile model.onnx --process 'python3 learned.py serve kernels.joblib'

`ovolo features` writes a line for each candidate kernel of a plan, with its seconds by the given cost model in
the last column (`ovolo features --help` explains the other columns). `fit` learns the logarithm of the seconds
from all columns except the texts that differ for every kernel, and prints its accuracy on kernels that it was
not fitted on. `serve` answers each line of JSON with a line of JSON until its input ends.
"""

import argparse
import csv
import json
import math
import os
import sys

# A single kernel is too little work for several threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import joblib
import numpy
from scipy.stats import spearmanr
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold

# Texts with few values are categories. `types` is left out, because it differs for almost every kernel.
CATEGORIES = ["op", "implementation", "layout_in", "layout_second", "layout_out", "dtype"]
LEFT_OUT = ["types", "backend", "logical", "dtype_in"]


def columns(row):
    """Return the names of the numeric features, in order."""
    return [name for name in row if name not in CATEGORIES + LEFT_OUT + ["measured", "seconds"]]


def vector(row, numbers, known):
    """Return the features of a kernel: categories by their position among the known ones, sizes as logarithms."""
    texts = [known[name].get(row[name], -1) for name in CATEGORIES]
    return texts + [math.log1p(float(row[name])) for name in numbers]


def model():
    return HistGradientBoostingRegressor(
        categorical_features=list(range(len(CATEGORIES))), min_samples_leaf=5, random_state=0
    )


def fit(files, out):
    rows = []
    for file in files:
        with open(file, newline="", encoding="utf-8") as text:
            rows += [row for row in csv.DictReader(text) if row["seconds"] not in ("", "inf", "0") and row["measured"] != "0"]
    if len(rows) < 20:
        sys.exit(f"{len(rows)} kernels with seconds are too few to learn from: give more tables")
    numbers = columns(rows[0])
    known = {name: {text: at for at, text in enumerate(sorted({row[name] for row in rows}))} for name in CATEGORIES}
    inputs = numpy.array([vector(row, numbers, known) for row in rows])
    target = numpy.log([float(row["seconds"]) for row in rows])
    held_out = numpy.empty_like(target)
    for train, test in KFold(5, shuffle=True, random_state=0).split(inputs):
        held_out[test] = model().fit(inputs[train], target[train]).predict(inputs[test])
    error = numpy.median(numpy.abs(numpy.expm1(held_out - target)))
    rank = spearmanr(held_out, target).statistic
    joblib.dump((model().fit(inputs, target), numbers, known), out)
    print(f"{len(rows)} kernels; held out: median error {error:.1%}, Spearman {rank:.3f}")


def serve(file):
    learned, numbers, known = joblib.load(file)
    for line in sys.stdin:
        kernel = json.loads(line)
        (prediction,) = learned.predict(numpy.array([vector(kernel, numbers, known)]))
        print(json.dumps({"seconds": math.exp(prediction)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("fit", help="learn from tables of `ovolo features`")
    command.add_argument("tables", nargs="+")
    command.add_argument("--out", required=True)
    command = commands.add_parser("serve", help="answer `ovolo --process`")
    command.add_argument("model")
    given = parser.parse_args()
    if given.command == "fit":
        fit(given.tables, given.out)
    else:
        serve(given.model)


if __name__ == "__main__":
    main()
