#!/usr/bin/env python3
"""Train a small CNN on scikit-learn's handwritten digits and write it as ONNX.

    train.py [OUT_DIR]        (pip install numpy scikit-learn onnx)

Writes digits.onnx (batch dimension `N`), images.npy (float32 [360,1,8,8], held back from
training) and labels.npy (int64 [360]), and the images and labels of both parts as training.npz and
held-out.npz, for `ovolo train`. Everything is seeded: the same versions give the same files.
The network is conv 3x3 (16), batch norm, relu, max pool, conv 3x3 (32), batch norm, relu, max pool,
linear (10), trained by Adam with gradients written by hand.
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

EPSILON, MOMENTUM = 1e-5, 0.9


class Conv:
    """A 3x3 convolution with padding 1."""

    def __init__(self, rng, inputs, outputs):
        scale = np.sqrt(2 / (9 * inputs))
        self.parameters = {"w": rng.standard_normal((outputs, inputs, 3, 3)) * scale, "b": np.zeros(outputs)}

    def forward(self, x, train):
        n, c, h, w = x.shape
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        self.shape = x.shape
        windows = [padded[:, :, i:i + h, j:j + w] for i in range(3) for j in range(3)]
        self.columns = np.stack(windows, 2).transpose(0, 3, 4, 1, 2).reshape(n * h * w, c * 9)
        weights = self.parameters["w"].reshape(-1, c * 9)
        return (self.columns @ weights.T + self.parameters["b"]).reshape(n, h, w, -1).transpose(0, 3, 1, 2)

    def backward(self, gradient):
        n, c, h, w = self.shape
        rows = gradient.transpose(0, 2, 3, 1).reshape(n * h * w, -1)
        self.gradients = {"w": (rows.T @ self.columns).reshape(self.parameters["w"].shape), "b": rows.sum(0)}
        columns = (rows @ self.parameters["w"].reshape(-1, c * 9)).reshape(n, h, w, c, 3, 3)
        padded = np.zeros((n, c, h + 2, w + 2))
        for i in range(3):
            for j in range(3):
                padded[:, :, i:i + h, j:j + w] += columns[..., i, j].transpose(0, 3, 1, 2)
        return padded[:, :, 1:-1, 1:-1]


class BatchNorm:
    def __init__(self, channels):
        self.parameters = {"scale": np.ones(channels), "bias": np.zeros(channels)}
        self.mean, self.var = np.zeros(channels), np.ones(channels)

    def forward(self, x, train):
        mean, var = (x.mean((0, 2, 3)), x.var((0, 2, 3))) if train else (self.mean, self.var)
        if train:
            self.mean = MOMENTUM * self.mean + (1 - MOMENTUM) * mean
            self.var = MOMENTUM * self.var + (1 - MOMENTUM) * var
        self.factor = 1 / np.sqrt(var + EPSILON)
        self.normal = (x - mean[:, None, None]) * self.factor[:, None, None]
        return self.normal * self.parameters["scale"][:, None, None] + self.parameters["bias"][:, None, None]

    def backward(self, gradient):
        self.gradients = {"scale": (gradient * self.normal).sum((0, 2, 3)), "bias": gradient.sum((0, 2, 3))}
        gradient = gradient * self.parameters["scale"][:, None, None]
        mean = gradient.mean((0, 2, 3))[:, None, None]
        slope = (gradient * self.normal).mean((0, 2, 3))[:, None, None]
        return (gradient - mean - self.normal * slope) * self.factor[:, None, None]


class Relu:
    parameters = {}

    def forward(self, x, train):
        self.positive = x > 0
        return x * self.positive

    def backward(self, gradient):
        return gradient * self.positive


class MaxPool:
    """A 2x2 pool with stride 2."""
    parameters = {}

    def forward(self, x, train):
        n, c, h, w = x.shape
        windows = x.reshape(n, c, h // 2, 2, w // 2, 2)
        result = windows.max((3, 5))
        self.winners = windows == result[:, :, :, None, :, None]
        return result

    def backward(self, gradient):
        spread = self.winners * gradient[:, :, :, None, :, None]
        n, c, h, _, w, _ = spread.shape
        return spread.reshape(n, c, 2 * h, 2 * w)


class Linear:
    def __init__(self, rng, inputs, outputs):
        self.parameters = {"w": rng.standard_normal((outputs, inputs)) * np.sqrt(1 / inputs), "b": np.zeros(outputs)}

    def forward(self, x, train):
        self.shape, self.flat = x.shape, x.reshape(len(x), -1)
        return self.flat @ self.parameters["w"].T + self.parameters["b"]

    def backward(self, gradient):
        self.gradients = {"w": gradient.T @ self.flat, "b": gradient.sum(0)}
        return (gradient @ self.parameters["w"]).reshape(self.shape)


def train(layers, images, labels, rng, epochs=30, batch=64, rate=2e-3):
    moments = [{key: (np.zeros_like(v), np.zeros_like(v)) for key, v in layer.parameters.items()} for layer in layers]
    step = 0
    for _ in range(epochs):
        order = rng.permutation(len(images))
        for start in range(0, len(order) - batch + 1, batch):
            chosen = order[start:start + batch]
            x = images[chosen]
            for layer in layers:
                x = layer.forward(x, True)
            x = np.exp(x - x.max(1, keepdims=True))
            gradient = x / x.sum(1, keepdims=True)
            gradient[np.arange(batch), labels[chosen]] -= 1
            gradient /= batch
            for layer in reversed(layers):
                gradient = layer.backward(gradient)
            step += 1
            for layer, moment in zip(layers, moments):
                for key, (first, second) in moment.items():
                    first += 0.1 * (layer.gradients[key] - first)
                    second += 0.001 * (layer.gradients[key] ** 2 - second)
                    layer.parameters[key] -= rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)


def export(layers, path):
    nodes, weights, value = [], [], "image"

    def weight(name, array):
        weights.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    for index, layer in enumerate(layers):
        name = f"{type(layer).__name__.lower()}{index}"
        inputs, attributes = [value], {}
        if isinstance(layer, Conv):
            kind, attributes = "Conv", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
            inputs += [weight(f"{name}.weight", layer.parameters["w"]), weight(f"{name}.bias", layer.parameters["b"])]
        elif isinstance(layer, BatchNorm):
            kind, attributes = "BatchNormalization", {"epsilon": EPSILON}
            inputs += [weight(f"{name}.scale", layer.parameters["scale"]), weight(f"{name}.bias", layer.parameters["bias"]),
                       weight(f"{name}.mean", layer.mean), weight(f"{name}.var", layer.var)]
        elif isinstance(layer, Relu):
            kind = "Relu"
        elif isinstance(layer, MaxPool):
            kind, attributes = "MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}
        else:
            nodes.append(helper.make_node("Flatten", [value], ["flat"], axis=1))
            kind, attributes = "Gemm", {"transB": 1}
            inputs = ["flat", weight(f"{name}.weight", layer.parameters["w"]), weight(f"{name}.bias", layer.parameters["b"])]
        value = "scores" if index + 1 == len(layers) else name
        nodes.append(helper.make_node(kind, inputs, [value], name=name, **attributes))
    graph = helper.make_graph(
        nodes, "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 10])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="ovolo")
    onnx.checker.check_model(model)
    onnx.save(model, path)


def main(out="."):
    digits = load_digits()
    images = (digits.images / 16.0)[:, None]
    learn, held, learn_labels, held_labels = train_test_split(
        images, digits.target, test_size=360, random_state=0, stratify=digits.target)
    rng = np.random.default_rng(0)
    layers = [Conv(rng, 1, 16), BatchNorm(16), Relu(), MaxPool(), Conv(rng, 16, 32), BatchNorm(32), Relu(), MaxPool(),
              Linear(rng, 128, 10)]
    train(layers, learn, learn_labels, rng)
    x = held
    for layer in layers:
        x = layer.forward(x, False)
    print(f"accuracy on {len(held)} held-back images: {(x.argmax(1) == held_labels).mean():.4f}")
    export(layers, f"{out}/digits.onnx")
    np.save(f"{out}/images.npy", held.astype(np.float32))
    np.save(f"{out}/labels.npy", held_labels.astype(np.int64))
    # Sixteenths are exact in float16.
    for name, images, labels in [("training", learn, learn_labels), ("held-out", held, held_labels)]:
        np.savez(f"{out}/{name}.npz", image=images.astype(np.float16), labels=labels.astype(np.uint8))


if __name__ == "__main__":
    main(*sys.argv[1:])
