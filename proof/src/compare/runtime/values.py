"""Runs a model with ONNX Runtime and keeps its values. Started by `ovolo compare`.

values.py MODEL FOLDER: FOLDER/inputs.txt has lines `NUMBER NAME`, each with FOLDER/input-NUMBER.npy, and
FOLDER/values.txt has the names of the values to keep, a line each. Writes FOLDER/value-NUMBER.npy for the line with
this number, from 0 on. Prints the version of ONNX Runtime.
"""
import os
import sys


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def main():
    try:
        import numpy
        import onnxruntime
    except ImportError as error:
        sys.exit(f"MISSING {error.name}")
    model, folder = sys.argv[1:]

    def lines(name):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return file.read().splitlines()

    feeds = {}
    for line in lines("inputs.txt"):
        number, name = line.split(" ", 1)
        feeds[name] = numpy.load(os.path.join(folder, f"input-{number}.npy"))
    wanted = lines("values.txt")

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", os.path.dirname(os.path.abspath(model)))
    providers = ["CPUExecutionProvider"]
    with open(model, "rb") as file:
        data = file.read()
    plain = onnxruntime.InferenceSession(data, options, providers=providers)
    outputs = [output.name for output in plain.get_outputs()]
    inner = [name for name in wanted if name not in outputs]
    # Two protobuf messages one after the other are one: repeated fields are joined. So this adds outputs to the graph.
    added = b"".join(field(12, field(1, name.encode())) for name in inner)
    try:
        session = onnxruntime.InferenceSession(data + field(7, added), options, providers=providers)
        names = outputs + inner
        results = session.run(names, feeds)
    except Exception as error:  # The outputs alone are better than nothing.
        print(f"NOTE it gives no values inside the model: {error}".replace("\n", " "))
        names, results = outputs, plain.run(outputs, feeds)
    found = dict(zip(names, results))
    for number, name in enumerate(wanted):
        value = found.get(name)
        if isinstance(value, numpy.ndarray) and value.dtype != object:
            numpy.save(os.path.join(folder, f"value-{number}.npy"), value)
    print(f"VERSION {onnxruntime.__version__}")


try:
    main()
except Exception as error:
    sys.exit(f"FAILED {error}")
