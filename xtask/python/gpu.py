#!/usr/bin/env python3
"""Measure PyTorch for `cargo xtask gpu`.

    gpu.py model NAME BATCH FOLDER [--precisions P,P] [--without-times]
    gpu.py graph NAME BATCH FILE
    gpu.py copy MIB...
    gpu.py error REFERENCE_FOLDER FOLDER

`model` makes a network with seeded weights and inputs of a batch, and writes FOLDER/model.onnx (opset 17, every
size fixed), FOLDER/inputs/NAME.npy and FOLDER/outputs/NAME.npy, the outputs of PyTorch in float32 on the processor.
Then it prints a line for each precision, separated by tabs: the precision, the median ms on the device of eager and of
torch.compile in the modes reduce-overhead and max-autotune, the same three with copies of the inputs from the host and of
the outputs to the host, and the relative L2 error of eager compared with those outputs. `--without-times` omits these lines and needs no device. `graph` writes only the network as ONNX, and of
large weights only the shapes, their mean and their standard deviation, as in the models of the tests. `copy` prints for each size the MiB, a tab, and the GB/s of copying a tensor on the
device, counting both reads and writes. `error` prints the relative L2 error of the arrays of a folder compared with
those of the same names in another.

torch, torchvision, transformers, onnx and numpy must be importable; if one is missing, the script says so and fails.
"""
import argparse
import os
import sys
import time

PRECISIONS = ["float32", "TF32", "float16", "bfloat16"]
TORCHVISION = ["resnet50", "mobilenet_v2", "vgg16", "inception_v3", "resnext50_32x4d", "efficientnet_b0", "vit_b_16"]
MODELS = TORCHVISION + ["bert_base"]
# Networks of which only the graph is wanted, because they are small: cuDNN is asked about their convolutions as well.
GRAPHS = MODELS + ["squeezenet1_1"]
# Weights with at least as many elements are left out of a graph.
LARGE = 256
# The modes of torch.compile. Both replay CUDA graphs, as ovolo does; the second also times its kernels.
MODES = ["reduce-overhead", "max-autotune"]
# Runs before each median, and runs for it.
WARM_UP, RUNS = 10, 100


def relative_error(reference, value):
    import numpy as np

    reference, value = reference.astype(np.float64), value.astype(np.float64)
    return float(np.linalg.norm(value - reference) / np.linalg.norm(reference))


def made(name, batch):
    """Return the network, its inputs by name, and the names of its outputs."""
    import torch

    torch.manual_seed(0)
    if name == "bert_base":
        from transformers import BertConfig, BertModel

        class Bert(torch.nn.Module):
            """Take positional inputs, and return the two outputs as a pair."""

            def __init__(self):
                super().__init__()
                self.bert = BertModel(BertConfig())

            def forward(self, tokens, mask):
                out = self.bert(input_ids=tokens, attention_mask=mask)
                return out.last_hidden_state, out.pooler_output

        tokens = torch.randint(0, 1000, (batch, 128))
        return Bert().eval(), {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}, ["hidden", "pooled"]
    import torchvision

    settings = {"init_weights": True} if name == "inception_v3" else {}
    size = 299 if name == "inception_v3" else 224
    model = getattr(torchvision.models, name)(weights=None, **settings).eval()
    return model, {"input": torch.randn(batch, 3, size, size)}, ["output"]


def tensors(outputs):
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def save(folder, names, values):
    import numpy as np

    os.makedirs(folder, exist_ok=True)
    for name, value in zip(names, values):
        np.save(os.path.join(folder, name + ".npy"), value.detach().float().numpy() if value.is_floating_point() else value.numpy())


def median(run, torch):
    for _ in range(WARM_UP):
        run()
    torch.cuda.synchronize()
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)[len(times) // 2]


def times(model, inputs, reference, precision, torch):
    """Return the median ms of eager and of each mode of the compiler, the same with copies, and eager's relative L2 error."""
    dtype = getattr(torch, "float32" if precision == "TF32" else precision)
    torch.backends.cuda.matmul.allow_tf32 = precision == "TF32"
    torch.backends.cudnn.allow_tf32 = precision == "TF32"
    # Code compiled under another setting must not be reused.
    torch.compiler.reset()
    model = model.to(device="cuda", dtype=dtype)
    given = [value.to(device="cuda", dtype=dtype if value.is_floating_point() else None) for value in inputs]
    error = max(relative_error(a.numpy(), b.float().cpu().numpy()) for a, b in zip(reference, tensors(model(*given))))
    # The host keeps inputs and outputs in float32, as it does for ovolo, so that the device converts them. Pinned memory
    # is the fastest way to copy them there.
    pinned = [value.pin_memory() for value in inputs]

    def copied(network):
        there = [value.to("cuda", non_blocking=True) for value in pinned]
        there = [value.to(dtype) if value.is_floating_point() else value for value in there]
        return [value.float().cpu() for value in tensors(network(*there))]

    medians, with_copies = [median(lambda: model(*given), torch)], [median(lambda: copied(model), torch)]
    for mode in MODES:
        torch.compiler.reset()
        compiled = torch.compile(model, mode=mode)
        medians.append(median(lambda: compiled(*given), torch))
        with_copies.append(median(lambda: copied(compiled), torch))
    return medians + with_copies, error


def export(network, inputs, names, path, torch):
    """Write the network as ONNX with every size fixed, as in the models of the tests."""
    # The tracing exporter fixes the sizes. It can export attention only as its parts, not as the single call that
    # PyTorch makes otherwise.
    torch.backends.mha.set_fastpath_enabled(False)
    torch.onnx.export(
        network,
        tuple(inputs.values()),
        path,
        input_names=list(inputs),
        output_names=names,
        opset_version=17,
        dynamo=False,
    )
    torch.backends.mha.set_fastpath_enabled(True)


def graph(arguments):
    import onnx
    import torch
    from onnx import numpy_helper

    network, inputs, names = made(arguments.name, arguments.batch)
    with torch.inference_mode():
        export(network, inputs, names, arguments.file, torch)
    model = onnx.load(arguments.file)
    for weight in model.graph.initializer:
        values = numpy_helper.to_array(weight)
        if values.dtype == "float32" and values.size >= LARGE:
            weight.doc_string = f"normal {values.mean():.6g} {values.std():.6g}"
            weight.ClearField("raw_data")
            weight.ClearField("float_data")
    onnx.save(model, arguments.file)


def device(torch):
    if not torch.cuda.is_available():
        sys.exit("torch sees no device")


def model(arguments):
    import torch

    if not arguments.without_times:
        device(torch)
    network, inputs, names = made(arguments.name, arguments.batch)
    values = tuple(inputs.values())
    with torch.inference_mode():
        reference = tensors(network(*values))
        save(os.path.join(arguments.folder, "inputs"), inputs, values)
        save(os.path.join(arguments.folder, "outputs"), names, reference)
        export(network, inputs, names, os.path.join(arguments.folder, "model.onnx"), torch)
        if arguments.without_times:
            return
        for precision in arguments.precisions.split(","):
            medians, error = times(network, values, reference, precision, torch)
            print("\t".join([precision, *(f"{median:.4f}" for median in medians), f"{error:.2e}"]), flush=True)
            # The weights were rounded to this precision, so make the network again.
            network, _, _ = made(arguments.name, arguments.batch)


def copy(arguments):
    import torch

    device(torch)
    for mebibytes in arguments.sizes:
        x = torch.ones(mebibytes << 18, device="cuda")
        y = torch.empty_like(x)
        # As many copies in a row as kernels are timed in.
        many = 32
        milliseconds = median(lambda: [y.copy_(x) for _ in range(many)], torch) / many
        print(f"{mebibytes}\t{2 * (mebibytes << 20) / milliseconds / 1e6:.1f}", flush=True)


def error(arguments):
    import numpy as np

    names = sorted(os.listdir(arguments.reference))
    load = lambda folder, name: np.load(os.path.join(folder, name))
    print(f"{max(relative_error(load(arguments.reference, name), load(arguments.folder, name)) for name in names):.2e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("model")
    command.add_argument("name", choices=MODELS)
    command.add_argument("batch", type=int)
    command.add_argument("folder")
    command.add_argument("--precisions", default=",".join(PRECISIONS))
    command.add_argument("--without-times", action="store_true")
    command.set_defaults(run=model)
    command = commands.add_parser("graph")
    command.add_argument("name", choices=GRAPHS)
    command.add_argument("batch", type=int)
    command.add_argument("file")
    command.set_defaults(run=graph)
    command = commands.add_parser("copy")
    command.add_argument("sizes", type=int, nargs="+", metavar="MIB")
    command.set_defaults(run=copy)
    command = commands.add_parser("error")
    command.add_argument("reference")
    command.add_argument("folder")
    command.set_defaults(run=error)
    arguments = parser.parse_args()
    try:
        arguments.run(arguments)
    except ImportError as missing:
        sys.exit(f"{missing}: install torch, torchvision, transformers, onnx and numpy")


if __name__ == "__main__":
    main()
