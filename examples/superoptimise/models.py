"""Write the two networks of the classic superoptimiser suite that are not in `tests/models`.

    python examples/superoptimise/models.py

VGG-19 is configuration E of Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale
Image Recognition" (ICLR 2015). NasNet-A has the cells of Zoph et al., "Learning Transferable
Architectures for Scalable Image Recognition" (CVPR 2018), at the scale at which TASO and TENSAT measure
it: a stem, then three groups of five normal cells and a reduction, starting with 128 channels, with each
separable convolution applied once. Batch norms are folded into the convolutions.

Weights are stripped: an initializer has no data, but a note `normal MEAN STD` from which
`ovolo --seeded-weights` generates it. Needs `onnx`.
"""

from math import prod
from pathlib import Path

import onnx
from onnx import TensorProto, helper


class Network:
    """The nodes and stripped weights of a network, in order."""

    def __init__(self, name):
        self.name, self.nodes, self.weights = name, [], []

    def add(self, op, inputs, shape, **attributes):
        output = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [value for value, _ in inputs], [output], **attributes))
        return output, shape

    def weight(self, shape, deviation):
        name = f"w{len(self.weights)}"
        self.weights.append(TensorProto(
            name=name, dims=shape, data_type=TensorProto.FLOAT, doc_string=f"normal 0 {deviation:.6g}"))
        return name, shape

    def conv(self, x, outputs, kernel, stride=1, groups=1):
        _, (batch, channels, rows, columns) = x
        shape = [outputs, channels // groups, kernel, kernel]
        weight, bias = self.weight(shape, (2 / prod(shape[1:])) ** 0.5), self.weight([outputs], 0.1)
        pad = kernel // 2
        size = [(side + 2 * pad - kernel) // stride + 1 for side in (rows, columns)]
        return self.add("Conv", [x, weight, bias], [batch, outputs, *size], kernel_shape=[kernel, kernel],
                        strides=[stride, stride], pads=[pad] * 4, group=groups)

    def relu(self, x):
        return self.add("Relu", [x], x[1])

    def sum(self, x, y):
        assert x[1] == y[1], (x, y)
        return self.add("Add", [x, y], x[1])

    def pool(self, op, x, kernel, stride, pad):
        batch, channels, *sides = x[1]
        size = [(side + 2 * pad - kernel) // stride + 1 for side in sides]
        return self.add(op, [x], [batch, channels, *size], kernel_shape=[kernel, kernel],
                        strides=[stride, stride], pads=[pad] * 4)

    def concat(self, values):
        batch, _, *sides = values[0][1]
        return self.add("Concat", values, [batch, sum(shape[1] for _, shape in values), *sides], axis=1)

    def dense(self, x, outputs):
        inputs = x[1][1]
        weight, bias = self.weight([outputs, inputs], (2 / inputs) ** 0.5), self.weight([outputs], 0.1)
        return self.add("Gemm", [x, weight, bias], [x[1][0], outputs], transB=1)

    def write(self, source, result, path):
        value = lambda one: helper.make_tensor_value_info(one[0], TensorProto.FLOAT, one[1])
        graph = helper.make_graph(self.nodes, self.name, [value(source)], [value(result)], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, path)
        print(f"{path}: {len(self.nodes)} nodes, {path.stat().st_size} bytes")


def vgg19(path):
    net = Network("vgg19")
    x = source = ("x", [1, 3, 224, 224])
    for channels, depth in [(64, 2), (128, 2), (256, 4), (512, 4), (512, 4)]:
        for _ in range(depth):
            x = net.relu(net.conv(x, channels, 3))
        x = net.pool("MaxPool", x, 2, 2, 0)
    x = net.add("Flatten", [x], [1, prod(x[1])])
    for width in (4096, 4096):
        x = net.relu(net.dense(x, width))
    net.write(source, net.dense(x, 1000), path)


def nasnet_a(path):
    net = Network("nasnet_a")
    source = ("x", [1, 3, 224, 224])

    def separable(x, channels, kernel, stride=1):
        x = net.conv(x, x[1][1], kernel, stride, groups=x[1][1])
        return net.conv(x, channels, 1)

    def fit(previous, current, channels):
        """Return the older input with as many channels and pixels as the newer one."""
        smaller = previous[1][2] != current[1][2]
        return net.relu(net.conv(previous, channels, 3 if smaller else 1, 2 if smaller else 1))

    def mean(x, stride=1):
        return net.pool("AveragePool", x, 3, stride, 1)

    def largest(x, stride=1):
        return net.pool("MaxPool", x, 3, stride, 1)

    def normal(previous, current, channels):
        previous, current = fit(previous, current, channels), net.relu(net.conv(current, channels, 1))
        return net.concat([
            net.sum(separable(current, channels, 3), current),
            net.sum(separable(previous, channels, 3), separable(current, channels, 5)),
            net.sum(mean(current), previous),
            net.sum(mean(previous), mean(previous)),
            net.sum(separable(previous, channels, 5), separable(previous, channels, 3)),
        ])

    def reduction(previous, current, channels):
        previous, current = fit(previous, current, channels), net.relu(net.conv(current, channels, 1))
        first = net.sum(separable(previous, channels, 7, 2), separable(current, channels, 5, 2))
        second = net.sum(largest(current, 2), separable(previous, channels, 7, 2))
        third = net.sum(mean(current, 2), separable(previous, channels, 5, 2))
        fourth = net.sum(largest(current, 2), separable(first, channels, 3))
        return net.concat([second, third, fourth, net.sum(mean(first), second)])

    x = net.pool("MaxPool", net.relu(net.conv(source, 64, 7, 2)), 3, 2, 1)
    channels = 128
    for _ in range(3):
        previous = current = x
        for _ in range(5):
            previous, current = current, normal(previous, current, channels)
        channels *= 2
        x = reduction(previous, current, channels)
    net.write(source, x, path)


if __name__ == "__main__":
    folder = Path(__file__).parent
    vgg19(folder / "vgg19.onnx")
    nasnet_a(folder / "nasnet_a.onnx")
