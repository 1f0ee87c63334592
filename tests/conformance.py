#!/usr/bin/env python3
"""Run the backend test suite of the package `onnx` with `ovolo run`, and print the cases that do not pass.

    pip install onnx==1.23.2 numpy ml_dtypes
    tests/conformance.py OVOLO [TEXT]      only cases with TEXT in their names

Each data set of a case is one call of `ovolo run --no-cache --format pb`. Floats are compared with the case's own
tolerance, but at least 1e-3 relative and 1e-5 absolute, everything else exactly.
"""
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import numpy_helper as helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.loader import load_model_tests

warnings.filterwarnings("ignore")
PROTOS = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto, "map_type": onnx.MapProto}
READERS = {"sequence_type": helper.to_list, "optional_type": helper.to_optional, "map_type": helper.to_dict}
WRITERS = {"sequence_type": helper.from_list, "optional_type": helper.from_optional, "map_type": helper.from_dict}


def encoded(value, info):
    """The bytes of a value's file."""
    if isinstance(value, onnx.TensorProto):
        return value.SerializeToString()
    kind = info.type.WhichOneof("value")
    write = WRITERS.get(kind, lambda value, name: helper.from_array(np.asarray(value), name))
    return write(value, info.name).SerializeToString()


def decoded(data, info):
    kind = info.type.WhichOneof("value")
    proto = PROTOS.get(kind, onnx.TensorProto)()
    proto.ParseFromString(data)
    return READERS.get(kind, helper.to_array)(proto)


def difference(got, want, case):
    """How a value differs from the wanted one; an empty text if it does not."""
    if want is None or got is None:
        return "" if got is want else "one of both is absent"
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return "the sequence has another length"
        return next((why for pair in zip(got, want) if (why := difference(*pair, case))), "")
    if isinstance(want, dict):
        if got.keys() != want.keys():
            return "the map has other keys"
        return next((why for key in want if (why := difference(got[key], want[key], case))), "")
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return f"its shape is {got.shape}, not {want.shape}"
    if want.dtype.kind in "OSU":
        return "" if got.astype(str).tolist() == want.astype(str).tolist() else "another text"
    if want.dtype.kind in "fcV":
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        rtol, atol = max(case.rtol, 1e-3), max(case.atol, 1e-5)
        wrong = ~np.isclose(got.astype(wide), want.astype(wide), rtol, atol, equal_nan=True)
    else:
        wrong = np.asarray(got != want)
    return f"{int(wrong.sum())} of {wrong.size} elements differ" if wrong.any() else ""


def run(ovolo, case, model, data_sets):
    """Why a case does not pass; an empty text if it does."""
    for inputs, outputs in data_sets:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            onnx.save(model, path)
            command = [ovolo, "run", path, "--no-cache", "--format", "pb", "--output-dir", folder + "/out"]
            for at, (info, value) in enumerate(zip(model.graph.input, inputs)):
                with open(f"{folder}/{at}.pb", "wb") as file:
                    file.write(encoded(value, info))
                command += ["--input", f"{info.name}={folder}/{at}.pb"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            if done.returncode:
                return " ".join(done.stderr.split())[-200:]
            for info, want in zip(model.graph.output, outputs):
                with open(f"{folder}/out/{info.name.replace('/', '_')}.pb", "rb") as file:
                    got = decoded(file.read(), info)
                want = decoded(encoded(want, info), info)
                if why := difference(got, want, case):
                    return f"`{info.name}`: {why}"
    return ""


def stored(case):
    """The model and the data of a case that is files."""
    model = onnx.load(os.path.join(case.model_dir, "model.onnx"))
    sets = []
    for name in sorted(name for name in os.listdir(case.model_dir) if name.startswith("test_data_set")):
        def read(kind, infos):
            for at, info in enumerate(infos):
                path = os.path.join(case.model_dir, name, f"{kind}_{at}.pb")
                if os.path.exists(path):
                    yield decoded(open(path, "rb").read(), info)
        sets.append((list(read("input", model.graph.input)), list(read("output", model.graph.output))))
    return model, sets


def main(ovolo, text=""):
    cases = list(collect_testcases(None))
    for kind in ("simple", "pytorch-operator", "pytorch-converted"):
        cases += load_model_tests(kind=kind)
    count = passed = 0
    for case in sorted((case for case in cases if text in case.name), key=lambda case: case.name):
        count += 1
        try:
            model, sets = stored(case) if getattr(case, "model_dir", None) else (case.model, case.data_sets)
            why = run(ovolo, case, model, sets)
        except Exception as problem:  # a case that cannot be written, read or answered does not pass
            why = f"{type(problem).__name__}: {' '.join(str(problem).split())[:150]}"
        passed += not why
        if why:
            print(f"{case.name}: {why}", flush=True)
    print(f"{passed} of {count} pass")


if __name__ == "__main__":
    main(*sys.argv[1:])
