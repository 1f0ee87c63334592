#!/usr/bin/env python3
"""Measure what the Python package adds: microseconds of a call of `run`, and seconds of an import.

    pip install ./python onnx
    python3 benches/python.py

The model has one step for three numbers, which takes 0.1 us, so nearly all of the time is that of the call.
"""
import subprocess
import sys
import time

import numpy as np
import ovolo
from onnx import TensorProto, helper


def double(size):
    """A model that adds an array to itself."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "double", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def fastest(call, calls, rounds=20):
    """The time of one call in microseconds, in the fastest of some rounds."""
    def one():
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return (time.perf_counter() - start) / calls * 1e6

    return min(one() for _ in range(rounds))


def main():
    inputs = {"x": np.float32([1, 2, 3])}
    for name, size in (("sizes fixed", 3), ("sizes read off the inputs", "N")):
        session = ovolo.InferenceSession(double(size), cost="flops", threads=1, cache=False)
        print(f"run, {name}: {fastest(lambda run=session.run: run(None, inputs), 10_000):.2f} us")
    code = "import time; start = time.perf_counter(); import ovolo; print(time.perf_counter() - start)"
    seconds = min(float(subprocess.check_output([sys.executable, "-P", "-c", code])) for _ in range(10))
    print(f"import: {seconds:.3f} s")


if __name__ == "__main__":
    main()
