"""Runs models in ONNX Runtime: reads models and inputs from the standard input, and writes their outputs."""
import struct
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

onnxruntime.set_default_logger_severity(4)
source, target = sys.stdin.buffer, sys.stdout.buffer


def read():
    (length,) = struct.unpack("<I", source.read(4))
    return source.read(length)


def write(data):
    target.write(struct.pack("<I", len(data)) + data)


options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
options.inter_op_num_threads = 1
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
while True:
    first = source.read(4)
    if len(first) < 4:
        break
    model = source.read(struct.unpack("<I", first)[0])
    (count,) = struct.unpack("<I", source.read(4))
    feeds = {}
    for _ in range(count):
        tensor = onnx.TensorProto.FromString(read())
        feeds[tensor.name] = numpy_helper.to_array(tensor)
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        outputs = session.run(names, feeds)
        answer = [numpy_helper.from_array(np.asarray(value), name).SerializeToString() for name, value in zip(names, outputs)]
        target.write(struct.pack("<I", len(answer)))
        for one in answer:
            write(one)
    except Exception as error:
        target.write(struct.pack("<I", 0xFFFFFFFF))
        write(str(error).replace("\n", " ")[:300].encode())
    target.flush()
