#!/usr/bin/env python3
"""Count by how many levels the results of quantised models depart from the definition of their operators.

    benches/departures.py OVOLO MODEL.onnx… [--threads 2] [--pipelines native,strict] [--by-operator]

Each model is in QDQ form. ONNX Runtime without optimisations computes it as the standard says: it makes floats of
levels, computes in float32, and makes levels of the results. The table has the share of elements that depart from it
by one level of the result's scale or more, and the greatest departure, in levels:

- `result`: the first output of the model. Departures of one layer lead to departures of later ones here.
- `layers`: the levels that each layer makes of the levels that ONNX Runtime had. For this, a model is made in which
  every `DequantizeLinear` of values reads an input, and every `QuantizeLinear` is an output.
- `moved`: those of these levels that integers alone decide, as all operators from levels to levels move elements
  or choose among them, and all scales and zero points are the same. There must be no departure.

This is done by ovolo, with each pipeline, and by ONNX Runtime with all optimisations. `strict` has no rules about
integers, so that it computes word for word in float32 as well, but with other kernels and in another order of sums:
where it departs, a number is so close to the middle of two levels that rounding decides.

Needs numpy, onnx and onnxruntime.
"""
import argparse
import collections
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper
from quantised import inputs, session

# Operators that give elements of their first operands, as many as are data.
MOVES = {
    "Concat": None,
    "Expand": 1,
    "Flatten": 1,
    "Gather": 1,
    "GatherElements": 1,
    "Identity": 1,
    "MaxPool": 1,
    "Relu": 1,
    "Reshape": 1,
    "Slice": 1,
    "Split": 1,
    "Squeeze": 1,
    "Transpose": 1,
    "Unsqueeze": 1,
}


class Layers:
    """The layers of a model: what makes levels of levels."""

    def __init__(self, path):
        self.model = onnx.load(path)
        graph = self.model.graph
        self.constants = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
        self.makers = {name: node for node in graph.node for name in node.output}
        self.levels = [node.output[0] for node in graph.node if node.op_type == "QuantizeLinear"]

    def constant(self, name):
        """The value of an initializer, also behind `Identity`."""
        while name not in self.constants and self.makers[name].op_type == "Identity":
            name = self.makers[name].input[0]
        return self.constants[name]

    def grid(self, node):
        """The scale and the zero point of a `QuantizeLinear` or `DequantizeLinear`."""
        return tuple(self.constant(name).tolist() for name in node.input[1:3])

    def is_moved(self, levels):
        """Whether a layer only moves or chooses levels of one scale and one zero point."""
        maker = self.makers[levels]
        pending = [maker.input[0]]
        while pending:
            node = self.makers.get(pending.pop())
            if node is None:
                return False
            if node.op_type in MOVES:
                pending += list(node.input)[: MOVES[node.op_type]]
            elif node.op_type != "DequantizeLinear" or self.grid(node) != self.grid(maker):
                return False
        return True

    def operator(self, levels):
        """The operator that makes the numbers of which levels are made."""
        node = self.makers.get(self.makers[levels].input[0])
        return "input" if node is None else node.op_type

    def exposed(self):
        """The model with the levels of all layers as outputs."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self.levels)
        return model

    def separate(self, levels):
        """The model in which each layer reads given levels, and the names of these inputs."""
        model = self.exposed()
        names = {}
        for node in model.graph.node:
            if node.op_type == "DequantizeLinear" and node.input[0] in levels:
                name = names.setdefault(node.input[0], f"{node.input[0]}.given")
                node.input[0] = name
        for of, name in names.items():
            kind = onnx.helper.np_dtype_to_tensor_dtype(levels[of].dtype)
            model.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, levels[of].shape))
        # Outputs of the whole model are no levels.
        while model.graph.output[0].name not in levels:
            del model.graph.output[0]
        return model, names


def ovolo(args, pipeline, path, feed, names):
    with tempfile.TemporaryDirectory() as folder:
        at = pathlib.Path(folder)
        command = [args.ovolo, "run", str(path), "--pipeline", pipeline, "--threads", str(args.threads)]
        for number, (key, value) in enumerate(feed.items()):
            np.save(at / f"input-{number}.npy", value)
            command += ["--input", f"{key}={at / f'input-{number}.npy'}"]
        done = subprocess.run([*command, "--output-dir", str(at / "out")], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{path}: {done.stderr}")
        return [np.load(at / "out" / f"{name.replace('/', '_')}.npy") for name in names]


def onnx_runtime(args, path, feed, names):
    return session(path, args.threads).run(names, feed)


class Count:
    """How many elements depart, and by how much."""

    def __init__(self):
        self.elements, self.departing, self.most = 0, 0, 0

    def add(self, steps):
        self.elements += steps.size
        self.departing += int(np.count_nonzero(steps))
        self.most = max(self.most, int(steps.max(initial=0)))

    def __str__(self):
        if self.elements == 0:
            return "- | -"
        share = self.departing / self.elements * 1e3
        return f"{share:.3f} ‰ | {self.most}"


def steps(one, other, scale):
    """The departures of elements, in whole steps of a scale."""
    return np.rint(np.abs(np.asarray(one, np.float64) - np.asarray(other, np.float64)) / scale)


class Case:
    """A model with what ONNX Runtime computes without optimisations, and the model of its separate layers."""

    def __init__(self, args, path, folder):
        self.path, self.layers = path, Layers(path)
        plain = session(path, args.threads, optimised=False)
        self.feed = inputs(plain, np.random.default_rng(1))
        self.result = self.layers.model.graph.output[0].name
        exposed = folder / "exposed.onnx"
        onnx.save(self.layers.exposed(), exposed)
        names = [self.result, *self.layers.levels]
        values = session(exposed, args.threads, optimised=False).run(names, self.feed)
        self.exact = dict(zip(names, values))
        model, given = self.layers.separate({name: self.exact[name] for name in self.layers.levels})
        self.separate = folder / "separate.onnx"
        onnx.save(model, self.separate)
        used = {one.name for one in model.graph.input}
        self.given = {name: value for name, value in self.feed.items() if name in used}
        self.given |= {given[name]: self.exact[name] for name in given}

    def departures(self, run):
        """The departures of a runtime: of the result, of layers, of those that only move levels, and by operator."""
        whole, each, moved = Count(), Count(), Count()
        operators = collections.defaultdict(Count)
        maker = self.layers.makers[self.result]
        if maker.op_type == "DequantizeLinear":
            scale = self.layers.constant(maker.input[1])
            whole.add(steps(run(self.path, self.feed, [self.result])[0], self.exact[self.result], scale))
        levels = self.layers.levels
        for name, got in zip(levels, run(self.separate, self.given, levels)):
            found = steps(got, self.exact[name], 1)
            each.add(found)
            operators[self.layers.operator(name)].add(found)
            if self.layers.is_moved(name):
                moved.add(found)
        return whole, each, moved, operators


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ovolo")
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pipelines", default="native,strict")
    parser.add_argument("--by-operator", action="store_true", help="the departures of layers by their last operator")
    args = parser.parse_args()
    print("| | | result | most | layers | most | moved | most |")
    print("|---" * 8 + "|")
    runs = {
        f"ovolo, {pipeline}": lambda *of, pipeline=pipeline: ovolo(args, pipeline, *of)
        for pipeline in args.pipelines.split(",")
    }
    runs["ONNX Runtime"] = lambda *of: onnx_runtime(args, *of)
    for path in args.models:
        with tempfile.TemporaryDirectory() as folder:
            case = Case(args, path, pathlib.Path(folder))
            for name, run in runs.items():
                whole, each, moved, operators = case.departures(run)
                print(f"| {path.stem} | {name} | {whole} | {each} | {moved} |", flush=True)
                if args.by_operator:
                    for operator, count in sorted(operators.items()):
                        print(f"| | {operator}: {count.elements} elements | | | {count} | | |", flush=True)


if __name__ == "__main__":
    main()
