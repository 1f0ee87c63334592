"""Providers, as ONNX Runtime calls what runs a model, and what else settings can name."""

import difflib
import warnings
from collections.abc import Mapping

from . import _model, _ovolo
from .option import note

#: For each provider, the pipeline that it stands for, and the backend that it needs.
PROVIDERS = {
    "CUDAExecutionProvider": ("cuda", "cuda"),
    "CPUExecutionProvider": ("cpu", "native"),
}


#: Options of ONNX Runtime's providers, which scripts set. They change nothing here: they are about allocators, streams and
#: algorithms that ovolo does not have.
FOREIGN = frozenset(
    """
    arena_extend_strategy cudnn_conv1d_pad_to_nc1d cudnn_conv_algo_search cudnn_conv_use_max_workspace
    do_copy_in_default_stream enable_cuda_graph enable_skip_layer_norm_strict_mode fuse_conv_bias gpu_external_alloc
    gpu_external_empty_cache gpu_external_free gpu_mem_limit has_user_compute_stream prefer_nhwc sdpa_kernel
    tunable_op_enable tunable_op_max_tuning_duration_ms tunable_op_tuning_enable use_arena use_ep_level_unified_stream
    use_tf32 user_compute_stream
    """.split()
)


def backends() -> dict[str, str | None]:
    """The backends by name: what was found of each, or ``None`` for one that is absent."""
    return _ovolo.backends()


def names() -> dict[str, list[str]]:
    """The names that settings can have, by the setting: ``pipeline``, ``cost``, ``extractor``."""
    return _ovolo.names()


def get_all_providers() -> list[str]:
    """The names of all providers that ovolo has, the fastest first."""
    return list(PROVIDERS)


def get_available_providers() -> list[str]:
    """The names of the providers that this machine has, the fastest first."""
    found = backends()
    return [name for name, (_, backend) in PROVIDERS.items() if found[backend] is not None]


def get_device() -> str:
    """The fastest kind of device that this machine has: ``GPU`` or ``CPU``."""
    return "GPU" if "CUDAExecutionProvider" in get_available_providers() else "CPU"


def get_version_string() -> str:
    """The version of ovolo."""
    return _ovolo.__version__


def choose(providers, options) -> tuple[str, dict]:
    """The name and the settings of the first provider in a list that this machine has.

    An entry of ``providers`` is a name, or a name with its options. Without a list, it is the processor.
    """
    if not providers:
        providers = ["CPUExecutionProvider"]
    options = _model.listed("provider_options", options or (), "dictionaries")
    if len(options) > len(providers):
        raise ValueError(f"`provider_options` has {len(options)} dictionaries, for {len(providers)} providers")
    entries = []
    for at, entry in enumerate(_model.listed("providers", providers, "providers")):
        name, own = _entry(f"providers[{at}]", entry)
        given = options[at] if at < len(options) else {}
        if not isinstance(given, Mapping):
            raise TypeError(f"`provider_options[{at}]` is a dictionary of options, not {given!r}")
        entries.append((name, {**own, **given}))
    available = get_available_providers()
    for name, own in entries:
        if name in available:
            return name, {"pipeline": PROVIDERS[name][0], **_known(own)}
        # All names end alike, so only one that differs by a letter or two is likely to be a mistake.
        near = difflib.get_close_matches(name, PROVIDERS, 1, 0.9) if name not in PROVIDERS else []
        hint = f": did you mean {near[0]}?" if near else f"; available are {', '.join(available)}"
        warnings.warn(f"{name} is not here{hint}", stacklevel=3)
    asked = ", ".join(name for name, _ in entries)
    raise _ovolo.InvalidArgument(f"none of the providers {asked} is here; available are {', '.join(available)}")


def _entry(at, entry):
    """The name of a provider, and its options."""
    if isinstance(entry, str):
        return entry, {}
    try:
        name, own = entry
        own = dict(own)
    except (TypeError, ValueError):
        raise TypeError(f"`{at}` is the name of a provider, or a name with a dictionary of options, not {entry!r}") from None
    return name, own


def _known(options):
    """The options that are settings here. Notes those that change nothing."""
    device = options.get("device_id", 0)
    if str(device) != "0":
        raise _ovolo.InvalidArgument(f"`device_id` is {device}, and ovolo runs on the first device, 0")
    foreign = sorted(options.keys() & (FOREIGN | {"device_id"}))
    note(foreign)
    return {name: value for name, value in options.items() if name not in foreign}
