#!/usr/bin/env python3
"""Draw networks of layers with seeded shapes, for tables of times that know shapes of no network.

    drawn.py OUT_DIR [COUNT]

Writes OUT_DIR/KIND_N/model.onnx for COUNT (6) networks of each kind: `convolutions` (chains with grouped and depthwise
layers, pools, residual sums), `products` (multilayer perceptrons, attention, norms), `vectors` and `stacks` (products of
few rows), `decoders` and `prompts` (products of few and of some rows with weights that no cache holds), `sequences` (1-D
and dilated convolutions, recurrent layers). Weights are drawn from the same seeds.
"""
import os
import sys
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Network:
    """A graph to which layers are added. `value` is the newest value and `shape` its shape."""

    def __init__(self, name):
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.name, self.nodes, self.weights = name, [], []

    def start(self, *shape):
        self.input = helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)
        self.value, self.shape = "input", list(shape)

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def between(self, least, most):
        """A whole number whose logarithm is drawn evenly."""
        return int(round(np.exp(self.rng.uniform(np.log(least), np.log(most)))))

    def weight(self, *shape, fan=None):
        name = f"w{len(self.weights)}"
        values = self.rng.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(fan or shape[0]))
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def add(self, op, inputs, shape=None, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{at}" for at in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        self.value = names[0]
        if shape is not None:
            self.shape = list(shape)
        return self.value

    def constant(self, values):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, np.int64), name))
        return name

    def model(self):
        output = helper.make_tensor_value_info(self.value, TensorProto.FLOAT, self.shape)
        graph = helper.make_graph(self.nodes, self.name, [self.input], [output], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def activation(net):
    op = net.pick("Relu", "Relu", "Relu", "Sigmoid", "silu", "HardSwish", None)
    if op == "silu":
        before = net.value
        net.add("Mul", [before, net.add("Sigmoid", [before])])
    elif op:
        net.add(op, [net.value])


def conv(net, outputs, kernel, stride=1, groups=1, dilation=1):
    """A convolution over all spatial dimensions that keeps their sizes, or divides them by the stride."""
    inputs, spatial = net.shape[1], net.shape[2:]
    axes = len(spatial)
    pad = dilation * (kernel // 2)
    shape = [net.shape[0], outputs, *((size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for size in spatial)]
    fan = inputs // groups * kernel**axes
    weights = [net.value, net.weight(outputs, inputs // groups, *[kernel] * axes, fan=fan), net.weight(outputs)]
    window = {"strides": [stride] * axes, "pads": [pad] * (2 * axes), "dilations": [dilation] * axes}
    net.add("Conv", weights, shape, group=groups, **window)


def convolutions(net):
    channels = net.pick(3, 4)
    size = net.between(48, 288)
    net.start(net.pick(1, 1, 1, 2, 4), channels, size, size + net.pick(0, 0, 16, -11))
    conv(net, net.between(16, 80), net.pick(3, 3, 5, 7), stride=2)
    activation(net)
    for _ in range(11):
        layer = net.pick("dense", "dense", "dense", "pointwise", "pointwise", "depthwise", "depthwise", "grouped", "pool",
                         "residual", "gate")
        wide = net.between(16, 640)
        channels = net.shape[1]
        stride = 2 if min(net.shape[2:]) > 7 and net.rng.random() < 0.35 else 1
        if layer == "dense":
            conv(net, min(wide, 384), net.pick(3, 3, 3, 5), stride)
        elif layer == "pointwise":
            conv(net, wide, 1)
        elif layer == "depthwise":
            conv(net, channels, net.pick(3, 3, 5, 7), stride, channels)
        elif layer == "grouped":
            each = net.pick(4, 8, 16, 32)
            groups = net.pick(4, 8, 32)
            conv(net, each * groups, 1)
            conv(net, each * groups, 3, stride, groups)
        elif layer == "pool" and min(net.shape[2:]) > 7:
            shape = [*net.shape[:2], *((size - 1) // 2 + 1 for size in net.shape[2:])]
            net.add(net.pick("MaxPool", "AveragePool"), [net.value], shape, kernel_shape=[3, 3], strides=[2, 2],
                    pads=[1, 1, 1, 1])
        elif layer == "residual":
            before = net.value
            conv(net, channels, net.pick(1, 3))
            net.add("Add", [net.value, before])
        elif layer == "gate":
            before, shape = net.value, net.shape
            net.add("GlobalAveragePool", [before], [*shape[:2], 1, 1])
            conv(net, max(channels // 4, 4), 1)
            net.add("Relu", [net.value])
            conv(net, channels, 1)
            net.add("Mul", [before, net.add("Sigmoid", [net.value])], shape)
        activation(net)


def products(net):
    rows, width = net.pick(1, 4, 16, 50, 64, 128, 197, 300, 384), 64 * net.between(3, 16)
    net.start(1, rows, width)
    for _ in range(4):
        layer = net.pick("perceptron", "perceptron", "attention", "attention", "norm", "head")
        width = net.shape[2]
        if layer == "perceptron":
            hidden = net.between(width // 2, 4 * width)
            before = net.value
            net.add("MatMul", [net.value, net.weight(width, hidden)], [1, rows, hidden])
            net.add("Add", [net.value, net.weight(hidden)])
            activation(net)
            net.add("MatMul", [net.value, net.weight(hidden, width)], [1, rows, width])
            net.add("Add", [net.value, before])
        elif layer == "attention":
            each = net.pick(32, 64)
            heads, before = width // each, net.value
            parts = []
            for _ in range(3):
                net.add("MatMul", [before, net.weight(width, width)])
                net.add("Reshape", [net.value, net.constant([1, rows, heads, each])])
                parts.append(net.add("Transpose", [net.value], perm=[0, 2, 1, 3]))
            keys = net.add("Transpose", [parts[1]], perm=[0, 1, 3, 2])
            scores = net.add("MatMul", [parts[0], keys])
            net.add("Softmax", [net.add("Mul", [scores, net.weight(1)])], axis=-1)
            net.add("MatMul", [net.value, parts[2]])
            net.add("Transpose", [net.value], perm=[0, 2, 1, 3])
            net.add("Reshape", [net.value, net.constant([1, rows, width])])
            net.add("Add", [net.value, before])
        elif layer == "norm":
            net.add("LayerNormalization", [net.value, net.weight(width), net.weight(width)], axis=-1)
        else:
            wide = net.between(10, 6000)
            net.add("MatMul", [net.value, net.weight(width, wide)], [1, rows, wide])
            net.add("MatMul", [net.value, net.weight(wide, width)], [1, rows, width])


def vectors(net, *front):
    """Products of few rows, as in decoders and in cells of recurrent networks. `front` are dimensions before the rows."""
    rows, width = net.pick(1, 1, 1, 2, 4, 8), net.between(64, 2048)
    net.start(*front, rows, width)
    for _ in range(10):
        layer, before, width = net.pick("product", "product", "gate", "residual"), net.value, net.shape[-1]
        wide = width if layer == "residual" else net.between(64, 2048)
        net.add("MatMul", [before, net.weight(width, wide)], [*front, rows, wide])
        if net.rng.random() < 0.5:
            net.add("Add", [net.value, net.weight(wide)])
        activation(net)
        if layer == "gate":
            value = net.value
            net.add("Sigmoid", [net.add("MatMul", [before, net.weight(width, wide)])])
            net.add("Mul", [value, net.value])
        elif layer == "residual":
            net.add("Add", [net.value, before])


def stacks(net):
    """Stacks of matrices of few rows with the same weights, as steps of a sequence that are computed together."""
    vectors(net, net.between(2, 24))


def decoders(net):
    """Products of few rows as in steps of language models: the weights are read from memory, the last ones are the widest."""
    rows, width = net.pick(1, 1, 1, 2, 4, 16), 64 * net.between(8, 32)
    net.start(1, rows, width)
    for _ in range(2):
        before = net.value
        net.add("MatMul", [before, net.weight(width, 4 * width)], [1, rows, 4 * width])
        activation(net)
        net.add("MatMul", [net.value, net.weight(4 * width, width)], [1, rows, width])
        net.add("Add", [net.value, before])
    words = net.between(16000, 50000)
    net.add("MatMul", [net.value, net.weight(width, words)], [1, rows, words])


def prompts(net):
    """Products of some rows, as of short texts and sounds, with weights that no cache holds."""
    rows, width = net.between(4, 160), 64 * net.between(5, 20)
    net.start(1, rows, width)
    for _ in range(3):
        before = net.value
        net.add("MatMul", [before, net.weight(width, width)], [1, rows, width])
        net.add("Add", [net.value, net.weight(width)])
        net.add("MatMul", [net.value, net.weight(width, width)])
        net.add("Add", [net.value, before])
        before = net.value
        net.add("MatMul", [before, net.weight(width, 4 * width)], [1, rows, 4 * width])
        net.add("Add", [net.value, net.weight(4 * width)])
        activation(net)
        net.add("MatMul", [net.value, net.weight(4 * width, width)], [1, rows, width])
        net.add("Add", [net.value, before])
    words = net.between(8000, 40000)
    net.add("MatMul", [net.value, net.weight(width, words)], [1, rows, words])


def sequences(net):
    channels, steps = net.pick(16, 24, 40, 64, 80), net.between(64, 2000)
    net.start(1, channels, steps)
    for _ in range(5):
        conv(net, net.between(32, 256), net.pick(1, 3, 3, 5), net.pick(1, 1, 2), dilation=1)
        activation(net)
        if net.rng.random() < 0.6:
            conv(net, net.shape[1], 3, dilation=net.pick(2, 4, 8))
            activation(net)
    steps, width = min(net.shape[2], 128), net.shape[1]
    starts, ends, axes = net.constant([0]), net.constant([steps]), net.constant([2])
    net.add("Slice", [net.value, starts, ends, axes], [1, width, steps])
    net.add("Transpose", [net.value], [steps, 1, width], perm=[2, 0, 1])
    op, gates = net.pick(("LSTM", 4), ("GRU", 3))
    hidden = 16 * net.between(2, 32)
    # Small recurrent weights, because errors of rounding would grow from step to step with larger ones.
    weights = [net.weight(1, gates * hidden, width, fan=width), net.weight(1, gates * hidden, hidden, fan=16 * hidden)]
    net.add(op, [net.value, *weights], [steps, 1, 1, hidden], outputs=1, hidden_size=hidden)


def main(out, count=6):
    for kind in (convolutions, products, vectors, stacks, decoders, prompts, sequences):
        for number in range(int(count)):
            net = Network(f"{kind.__name__}_{number}")
            kind(net)
            model = net.model()
            onnx.checker.check_model(model, full_check=True)
            folder = os.path.join(out, net.name)
            os.makedirs(folder, exist_ok=True)
            onnx.save(model, os.path.join(folder, "model.onnx"))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
