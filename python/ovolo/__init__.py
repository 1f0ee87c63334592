"""Compiles and runs ONNX models, by rewrite rules in text files.

A script for ONNX Runtime runs when its import line is ``import ovolo as onnxruntime``::

    session = ovolo.InferenceSession("model.onnx")
    scores, = session.run(None, {"image": images})

:func:`compile` gives the plan of a model, which tells what was chosen for each step, and why::

    plan = ovolo.compile("model.onnx", dims={"N": 1})
    print(plan.explain())

:mod:`ovolo.rules` verifies rewrite rules. :mod:`ovolo.extension` has what cost models and extractors in Python are
given. :func:`snapshot` returns what a case of ``ovolo test`` shows. :mod:`ovolo.training` trains models.
:mod:`ovolo.backend` is the backend of ONNX's own test suite.
"""

from . import rules, training
from ._ovolo import Error, InvalidArgument, __version__
from .binding import IOBinding, OrtValue
from .extension import Candidate, Kernel, Problem
from .option import (
    ExecutionMode,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
    disable_telemetry_events,
    enable_telemetry_events,
    preload_dlls,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_seed,
)
from .plan import Plan, compile
from .provider import backends, get_all_providers, get_available_providers, get_device, get_version_string, names
from .session import InferenceSession, ModelMetadata, NodeArg
from .snapshot import snapshot

__all__ = [
    "Candidate",
    "Error",
    "ExecutionMode",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "InvalidArgument",
    "Kernel",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "Plan",
    "Problem",
    "RunOptions",
    "SessionOptions",
    "__version__",
    "backends",
    "compile",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "get_version_string",
    "names",
    "preload_dlls",
    "rules",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
    "snapshot",
    "training",
]
