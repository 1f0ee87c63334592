#!/usr/bin/env python3
"""Compare the gradients of whole networks with those of PyTorch's autograd.

    benches/gradients.py OVOLO MODELS [--models NAME,…] [--batch 4] [--threads 2] [--training] [--smooth]

MODELS is a folder with NAME/model.onnx, as `cargo xtask models` makes it; a NAME that ends with `.onnx` is the path of
another model. Weights that a model only has the shapes of are drawn. Nothing is dropped. `ovolo grad --optimizer none` makes the graph of the gradients, and `ovolo run` runs it. PyTorch gets the
same model by onnx2torch. The loss is the mean squared difference of the first output from seeded labels.

Values that the exporter has merged, since they were equal, are parted, and all weights get small seeded numbers, so that
no two are equal: tensors of both sides are matched by their values. Batch norms keep the model's statistics; with
`--training` they take those of the batch.

With `--smooth`, softplus takes the place of relu, and average pools that of max pools.

A line has for each network the number of parameters and relative L2 distances: of ovolo's gradients from PyTorch's in
float32, all together and of the worst parameter, with its name; and the same from PyTorch's in float64, with the
distance of PyTorch's own gradients in float32 from these. Float64 is the truth, but a network with max pools or relu is
no smooth function: where two elements are equal in float32, or one is zero, another path may be taken. A parameter whose gradient is less than 1e-6 of the whole in its norm does
not count as the worst: the bias of a convolution before a batch norm of the batch has the gradient 0.

Needs numpy, onnx, torch and onnx2torch.
"""
import argparse
import pathlib
import re
import subprocess
import tempfile

import numpy as np
import onnx
import onnx2torch
import torch
from onnx import TensorProto, numpy_helper
from onnx2torch.node_converters.comparisons import OnnxCompare
from onnx2torch.node_converters.flatten import OnnxFlatten
from onnx2torch.node_converters.registry import add_converter
from onnx2torch.utils.common import OperationConverterResult, onnx_mapping_from_node
from sizes import symbolic

TEN = "resnet50,mobilenet_v2,vgg16,inception_v3,resnext50_32x4d,efficientnet_b0,squeezenet1_1,vit_b_16,bert_base,nasrnn"

#: The deviation of what is added to weights, relative to theirs.
PARTING = 1e-3
#: Gradients whose share of the norm of all gradients is smaller are only counted together with the others.
SMALL = 1e-6


@add_converter(operation_type="GreaterOrEqual", version=16)
def _(node, graph):
    """What onnx2torch has for an older version, which differs in element types only."""
    return OperationConverterResult(OnnxCompare(node.operation_type), onnx_mapping_from_node(node))


def flattened(self, x):
    """A matrix, as ONNX defines it. That of onnx2torch fails for the axis after the last one."""
    return x.reshape(int(np.prod(x.shape[: self.axis])), -1)


OnnxFlatten.forward = flattened


def parted(model, rng):
    """Gives each use of a weight a value of its own, and returns the weights by name, and the names of statistics."""
    graph = model.graph
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    kept = []
    for node in graph.node:
        if node.op_type == "Identity" and node.input[0] in weights:
            weights[node.output[0]] = weights[node.input[0]]
        else:
            kept.append(onnx.NodeProto.FromString(node.SerializeToString()))
    statistics = {name for node in kept if node.op_type == "BatchNormalization" for name in node.input[3:]}
    for name, value in weights.items():
        if value.dtype == np.float32 and value.ndim and name not in statistics:
            scale = PARTING * (value.std() or 1)
            weights[name] = (value + scale * rng.standard_normal(value.shape)).astype(np.float32)
    del graph.node[:], graph.initializer[:]
    graph.node.extend(kept)
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    del graph.value_info[:]
    own = [value for value in graph.input if value.name not in weights]
    del graph.input[:]
    graph.input.extend(own)
    return weights, statistics


def filled(model, rng):
    """Draws weights in the place of constants of a shape, which the networks without weights of the package onnx have."""
    graph = model.graph
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    made = [node for node in graph.node if node.op_type == "ConstantOfShape" and node.input[0] in shapes]
    norms = [node.input for node in graph.node if node.op_type == "BatchNormalization"]
    positive = {names[at] for names in norms for at in (1, 4)}
    for node in made:
        name, shape = node.output[0], shapes[node.input[0]]
        deviation = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.1
        value = deviation * rng.standard_normal(shape) + (name in positive)
        graph.initializer.append(numpy_helper.from_array(value.astype(np.float32), name))
        graph.node.remove(node)


def smoothed(model):
    """Replaces operators whose slope jumps."""
    for node in model.graph.node:
        if node.op_type == "Relu":
            node.op_type = "Softplus"
        if node.op_type == "MaxPool":
            node.op_type = "AveragePool"
            kept = [one for one in node.attribute if one.name not in ("dilations", "storage_order")]
            del node.attribute[:]
            node.attribute.extend(kept)


def fixed(model, batch):
    """Binds the dimension `N` of a model."""
    for value in [*model.graph.input, *model.graph.output]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == "N":
                dim.dim_value = batch


def inputs(model, rng):
    """Seeded inputs. A mask is ones, other integers are numbers of tokens."""
    feed = {}
    for one in model.graph.input:
        dims = [dim.dim_value for dim in one.type.tensor_type.shape.dim]
        if one.type.tensor_type.elem_type == TensorProto.FLOAT:
            feed[one.name] = rng.standard_normal(dims).astype(np.float32)
        else:
            feed[one.name] = np.ones(dims, np.int64) if "mask" in one.name else rng.integers(0, 1000, dims)
    return feed


def by_ovolo(args, path, folder, feed, labels, weights, statistics):
    """The gradients by ovolo, by the names of parameters."""
    step = folder / "step.ovolo"
    grad = [args.ovolo, "grad", path, "--optimizer", "none", "--loss", "mse", "--no-dropout", "--output", step]
    subprocess.run([*grad, *([] if args.training else ["--fixed-statistics"])], check=True, stdout=subprocess.DEVNULL)
    text = step.read_text()
    taken = {name for _, name in re.findall(r'^  ("?)(.*)\1: \S+ = input$', text, re.MULTILINE)}
    wanted = [name for name in taken if name in weights and name not in statistics]
    arrays = {name: array for name, array in {**feed, "labels": labels, **weights}.items() if name in taken}
    given = []
    for number, (name, array) in enumerate(arrays.items()):
        np.save(folder / f"input-{number}.npy", array)
        given += ["--input", f"{name}={folder / f'input-{number}.npy'}"]
    run = [args.ovolo, "run", step, "--pipeline", "native", "--threads", str(args.threads), "--no-cache", *given]
    done = subprocess.run([*run, "--output-dir", folder / "out"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{path}: {done.stderr}")
    return {name: np.load(folder / "out" / f"{name.replace('/', '_')}.npy") for name in wanted}


def by_torch(args, model, feed, labels, weights, dtype):
    """The gradients by PyTorch, by the names of parameters."""
    network = onnx2torch.convert(model).train(args.training).to(dtype)
    for module in network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.eval()
    names = {value.tobytes(): name for name, value in weights.items() if value.dtype == np.float32 and value.ndim}
    found = {}
    for tensor in [*network.parameters(), *network.buffers()]:
        value = tensor.detach().to(torch.float32).numpy()
        turned = value.T if value.ndim == 2 else value
        for given, back in ((value, lambda gradient: gradient), (turned, lambda gradient: gradient.T)):
            name = names.get(np.ascontiguousarray(given).tobytes())
            if name and weights[name].shape == given.shape:
                found.setdefault(name, []).append((tensor.requires_grad_(True), back))
                break
    arguments = [torch.from_numpy(array) for array in feed.values()]
    result = network(*[array.to(dtype) if array.is_floating_point() else array for array in arguments])
    result = result if isinstance(result, torch.Tensor) else result[0]
    torch.mean((result - torch.from_numpy(labels).to(dtype)) ** 2).backward()
    # onnx2torch copies a weight for each node that reads it.
    made = {name: [back(one.grad).numpy() for one, back in uses if one.grad is not None] for name, uses in found.items()}
    return {name: sum(parts) for name, parts in made.items() if parts}


def distance(one, other, names):
    """The relative L2 distance of the gradients of some parameters."""
    wrong = sum(np.sum((one[name].astype(np.float64) - other[name]) ** 2) for name in names)
    return float(np.sqrt(wrong / sum(np.sum(other[name].astype(np.float64) ** 2) for name in names)))


def compare(args, name, folder):
    source = pathlib.Path(name)
    if not name.endswith(".onnx"):
        source = folder / "symbolic.onnx"
        symbolic(name, args.models_folder / name / "model.onnx", source)
    model = onnx.load(source)
    rng = np.random.default_rng(0)
    model.ir_version = max(model.ir_version, 4)  # Initializers need not be inputs.
    filled(model, rng)
    weights, statistics = parted(model, rng)
    fixed(model, args.batch)
    if args.smooth:
        smoothed(model)
    path = folder / "model.onnx"
    onnx.save(model, path)
    feed = inputs(model, rng)
    shape = [dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim]
    labels = rng.standard_normal(shape).astype(np.float32)
    ours = by_ovolo(args, path, folder, feed, labels, weights, statistics)
    weights = {name: value for name, value in weights.items() if name not in statistics}
    theirs = by_torch(args, model, feed, labels, weights, torch.float64)
    single = by_torch(args, model, feed, labels, weights, torch.float32)
    if ours.keys() != theirs.keys():
        raise SystemExit(f"{name}: gradients of one side only: {sorted(ours.keys() ^ theirs.keys())}")
    whole = np.sqrt(sum(np.sum(gradient**2) for gradient in theirs.values()))
    large = [one for one in theirs if np.linalg.norm(theirs[one]) > SMALL * whole]
    cells = [name, str(len(theirs))]
    for reference in (single, theirs):
        worst = max(large, key=lambda one: distance(ours, reference, [one]))
        cells += [f"{distance(ours, reference, theirs):.1e}", f"{distance(ours, reference, [worst]):.1e}", worst]
    print(",".join([*cells, f"{distance(single, theirs, theirs):.1e}"]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ovolo", type=pathlib.Path)
    parser.add_argument("models_folder", metavar="models", type=pathlib.Path)
    parser.add_argument("--models", default=TEN)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--smooth", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print("network,parameters,float32,worst,name,float64,worst,name,PyTorch's float32 from float64")
    for name in args.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            compare(args, name, pathlib.Path(folder))


if __name__ == "__main__":
    main()
