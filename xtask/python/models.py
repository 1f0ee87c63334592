#!/usr/bin/env python3
"""Make the models that the value tests need, with inputs and ONNX Runtime's outputs.

    models.py STRIPPED_DIR OUT_DIR

Each STRIPPED_DIR/NAME.onnx keeps its whole graph; a large initializer has only its name, its shape
and, in its doc_string, `normal MEAN STD`. Its values are drawn from a generator seeded by the CRC-32
of its name. OUT_DIR/NAME/ gets model.onnx, inputs/VALUE.npy (seeded) and outputs/VALUE.npy (ONNX
Runtime's). The nine `light` networks of the onnx package go to OUT_DIR/light_NAME/ with a ramp as
input and the package's own outputs. A `/` in a value's name becomes `_`.
"""
import os
import sys
import zlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper


def save(folder, name, value):
    os.makedirs(folder, exist_ok=True)
    np.save(os.path.join(folder, name.replace("/", "_") + ".npy"), value)


def fill(model):
    for tensor in model.graph.initializer:
        if not tensor.doc_string.startswith("normal "):
            continue
        mean, std = map(float, tensor.doc_string.split()[1:])
        generator = np.random.Generator(np.random.PCG64(zlib.crc32(tensor.name.encode())))
        values = generator.standard_normal(tuple(tensor.dims), dtype=np.float32) * np.float32(std) + np.float32(mean)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def model_inputs(model):
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]


def shape_of(value):
    return [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]


def seeded(value, generator):
    if value.type.tensor_type.elem_type == TensorProto.INT64:
        if "mask" in value.name:
            return np.ones(shape_of(value), np.int64)
        return generator.integers(0, 1000, shape_of(value))
    return generator.standard_normal(shape_of(value)).astype(np.float32)


def stripped(source, folder):
    model = onnx.load(source, load_external_data=False)
    fill(model)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "model.onnx")
    onnx.save(model, path)
    generator = np.random.default_rng(0)
    feeds = {value.name: seeded(value, generator) for value in model_inputs(model)}
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for name, value in feeds.items():
        save(os.path.join(folder, "inputs"), name, value)
    for value, result in zip(session.get_outputs(), session.run(None, feeds)):
        save(os.path.join(folder, "outputs"), value.name, result)


def light(source, expected, folder):
    model = onnx.load(source)
    os.makedirs(folder, exist_ok=True)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    for value in model_inputs(model):
        count = int(np.prod(shape_of(value)))
        ramp = (np.arange(count).reshape(shape_of(value)) / count).astype(np.float32)
        save(os.path.join(folder, "inputs"), value.name, ramp)
    tensor = TensorProto()
    with open(expected, "rb") as stream:
        tensor.ParseFromString(stream.read())
    save(os.path.join(folder, "outputs"), model.graph.output[0].name, numpy_helper.to_array(tensor))


def main(sources, out):
    for file in sorted(os.listdir(sources)):
        if file.endswith(".onnx"):
            print(f"  {file}", flush=True)
            stripped(os.path.join(sources, file), os.path.join(out, file[:-5]))
    data = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light")
    for file in sorted(os.listdir(data)):
        if file.endswith(".onnx"):
            print(f"  {file}", flush=True)
            name = file[:-5]
            light(os.path.join(data, file), os.path.join(data, f"{name}_output_0.pb"), os.path.join(out, name))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
