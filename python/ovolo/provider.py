"""Providers, as ONNX Runtime calls what runs a model, and what else settings can name."""

import warnings

from . import _ovolo

#: For each provider, the pipeline that it stands for, and the backend that it needs.
PROVIDERS = {
    "CUDAExecutionProvider": ("cuda", "cuda"),
    "CPUExecutionProvider": ("cpu", "native"),
}


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


def choose(providers, options) -> tuple[str, dict]:
    """The name and the settings of the first provider in a list that this machine has.

    An entry of ``providers`` is a name, or a name with its options. Without a list, it is the processor.
    """
    if not providers:
        providers = ["CPUExecutionProvider"]
    entries = []
    for at, entry in enumerate(providers):
        name, own = (entry, {}) if isinstance(entry, str) else entry
        given = options[at] if options and at < len(options) else {}
        entries.append((name, {**own, **given}))
    available = get_available_providers()
    for name, own in entries:
        if name in available:
            return name, {"pipeline": PROVIDERS[name][0], **own}
        warnings.warn(f"{name} is not here; available are {', '.join(available)}", stacklevel=4)
    asked = ", ".join(name for name, _ in entries)
    raise _ovolo.InvalidArgument(f"none of the providers {asked} is here; available are {', '.join(available)}")
