"""Options of sessions and runs, with the names that ONNX Runtime gives them."""

from __future__ import annotations

import difflib
import enum
import logging
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, fields


class GraphOptimizationLevel(enum.Enum):
    """Levels of ONNX Runtime's optimiser, which scripts set. ovolo chooses by rules and prices, whatever they say."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.Enum):
    """Orders in which ONNX Runtime runs operators. ovolo runs one step after another, and each with all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


#: The other attributes of ONNX Runtime's class, with the values that they have before they are set.
FOREIGN = {
    "enable_cpu_mem_arena": True,
    "enable_mem_pattern": True,
    "enable_mem_reuse": True,
    "enable_profiling": False,
    "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
    "execution_order": 0,
    "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
    "inter_op_num_threads": 0,
    "log_severity_level": -1,
    "log_verbosity_level": 0,
    "logid": "",
    "optimized_model_filepath": "",
    "profile_file_prefix": "onnxruntime_profile_",
    "use_deterministic_compute": False,
    "use_per_session_threads": True,
}

#: The attributes of ONNX Runtime's options of a run.
FOREIGN_OF_RUN = {
    "log_severity_level": -1,
    "log_verbosity_level": 0,
    "logid": "",
    "only_execute_path_to_fetches": False,
    "terminate": False,
    "training_mode": False,
}


def note(names: Iterable[str]) -> None:
    """Notes options of ONNX Runtime that change nothing."""
    if listed := ", ".join(sorted(names)):
        logging.getLogger("ovolo").info("options that change nothing: %s", listed)


@dataclass
class SessionOptions:
    """Options of a session.

    ovolo takes ``intra_op_num_threads`` and the sizes of dimensions. The other attributes of ONNX Runtime's class can
    be set, so that scripts run, and change nothing: they are about an optimiser and logs that ovolo does not have. The
    logger ``ovolo`` names those that were set.
    """

    #: Threads that compute one step, the calling one included; 0 for as many as there are processors.
    intra_op_num_threads: int = 0
    #: Sizes of dimensions by their names.
    dims: dict[str, int] = field(default_factory=dict)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Gives a dimension a size."""
        self.dims[name] = size

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Sets an option of ONNX Runtime, which changes nothing."""
        setattr(self, key, value)

    def get_session_config_entry(self, key: str) -> str:
        """The value that was set for an option of ONNX Runtime."""
        if key not in vars(self):
            raise RuntimeError(f"no session option `{key}` was set")
        return getattr(self, key)

    def __getattr__(self, name: str) -> object:
        """The value of an attribute that was not set."""
        try:
            return FOREIGN[name]
        except KeyError:
            raise AttributeError(f"there is no session option `{name}`") from None

    def _tell(self) -> None:
        """Notes the options that change nothing."""
        own = {one.name for one in fields(self)}
        others = vars(self).keys() - own
        # Entries of the configuration have a dot in their names.
        for name in sorted(one for one in others - FOREIGN.keys() if "." not in one):
            near = difflib.get_close_matches(name, own | FOREIGN.keys(), 1)
            hint = f": did you mean `{near[0]}`?" if near else ""
            warnings.warn(f"there is no session option `{name}`{hint}", stacklevel=3)
        note(others)


def set_default_logger_severity(severity: int) -> None:
    """Is for scripts that quiet ONNX Runtime, and changes nothing: set the level of the logger ``ovolo`` instead."""
    note(["set_default_logger_severity"])


def set_default_logger_verbosity(verbosity: int) -> None:
    """Changes nothing, as :func:`set_default_logger_severity`."""
    note(["set_default_logger_verbosity"])


def set_seed(seed: int) -> None:
    """Changes nothing: random operators draw their numbers once, by the seeds that the model has."""
    note(["set_seed"])


def disable_telemetry_events() -> None:
    """Changes nothing: ovolo sends nothing to anyone."""


def enable_telemetry_events() -> None:
    """Changes nothing: ovolo sends nothing to anyone."""
    note(["enable_telemetry_events"])


def preload_dlls(**_: object) -> None:
    """Changes nothing: libraries are loaded when a backend needs them."""


@dataclass
class RunOptions:
    """Options of a run. Attributes can be set, so that scripts run, and change nothing."""

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Sets an option of ONNX Runtime, which changes nothing."""
        setattr(self, key, value)

    def __getattr__(self, name: str) -> object:
        """The value of an attribute that was not set."""
        try:
            return FOREIGN_OF_RUN[name]
        except KeyError:
            raise AttributeError(f"there is no option of a run `{name}`") from None
