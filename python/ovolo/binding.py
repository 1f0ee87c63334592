"""Values and bindings, with the names that ONNX Runtime gives them.

ovolo reads inputs where they lie and gives outputs to the caller, so a binding saves no copy of an input. An output that
is bound to a buffer is copied into it after the run.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _model, _ovolo

#: For the name of each element type in NumPy or in the package ml_dtypes, its number in ONNX, and the word that stands in
#: ``tensor(…)``.
ELEMENTS = {name: (number, word) for name, number, word in _ovolo.elements()}


def _dtype(kind: Any) -> np.dtype:
    """The element type that a script names: a type of NumPy, or a number of ONNX."""
    if isinstance(kind, int) and not isinstance(kind, bool):
        for name, (number, _) in ELEMENTS.items():
            if number == kind:
                return _named(name)
        raise ValueError(f"`element_type` is {kind}, and no element type of ONNX has this number here")
    return np.dtype(kind)


def _named(name: str) -> np.dtype:
    if hasattr(np, name) or name == "object":
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


def _host(device_type: str, device_id: int) -> None:
    """Refuses memory of a device: a script would take its address."""
    if device_type not in ("cpu", "") or device_id:
        raise _ovolo.InvalidArgument(
            f"the device is {device_type}:{device_id}, and values are in the memory of the host here, cpu:0: ovolo copies to "
            "devices, and back, by itself"
        )


class OrtValue:
    """A value in the memory of the host: a tensor, a sequence, or an optional value that is absent."""

    def __init__(self, value: Any) -> None:
        """Wraps a value. An array is not copied."""
        self._value = value

    @staticmethod
    def ortvalue_from_numpy(numpy_obj: Any, device_type: str = "cpu", device_id: int = 0) -> "OrtValue":
        """The value of an array, which shares its memory."""
        _host(device_type, device_id)
        return OrtValue(np.asarray(numpy_obj))

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0
    ) -> "OrtValue":
        """A tensor of zeros."""
        _host(device_type, device_id)
        return OrtValue(_zeros(shape, _dtype(element_type)))

    def numpy(self) -> np.ndarray:
        """The array, which shares its memory with this value."""
        if not self.is_tensor():
            raise _ovolo.Error(f"the value is no tensor, but {self.data_type()}")
        return self._value

    def update_inplace(self, np_arr: Any) -> None:
        """Copies an array of the same shape into the memory of this value."""
        _copy("the array", np.asarray(np_arr), self.numpy())

    def to_list(self) -> list:
        """The values of a sequence."""
        if not isinstance(self._value, list):
            raise _ovolo.Error(f"the value is no sequence, but {self.data_type()}")
        return self._value

    def is_tensor(self) -> bool:
        """Whether it is a tensor."""
        return isinstance(self._value, np.ndarray)

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence of tensors."""
        return isinstance(self._value, list) and all(isinstance(one, np.ndarray) for one in self._value)

    def is_sparse_tensor(self) -> bool:
        """Is always false: outputs are dense."""
        return False

    def has_value(self) -> bool:
        """Whether it is not an absent optional value."""
        return self._value is not None

    def shape(self) -> list[int]:
        """The shape of a tensor."""
        return list(self.numpy().shape)

    def tensor_size_in_bytes(self) -> int:
        """The bytes of the elements of a tensor."""
        return self.numpy().nbytes

    def element_type(self) -> int:
        """The number that ONNX gives the element type of a tensor."""
        return _element(self.numpy().dtype)[0]

    def data_type(self) -> str:
        """The type, such as ``tensor(float)``."""
        if self._value is None:
            return "an absent optional value"
        if isinstance(self._value, list):
            first = OrtValue(self._value[0]).data_type() if self._value else "tensor"
            return f"seq({first})"
        if isinstance(self._value, np.ndarray):
            return f"tensor({_element(self._value.dtype)[1]})"
        return f"map, as a {type(self._value).__name__}"

    def device_name(self) -> str:
        """Is always ``cpu``."""
        return "cpu"

    def data_ptr(self) -> int:
        """The address of the first element of a tensor."""
        return self.numpy().ctypes.data

    def __dlpack__(self, **given: Any) -> Any:
        """The tensor for another library, without a copy."""
        return self.numpy().__dlpack__(**given)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The memory of the host, as DLPack names it."""
        return self.numpy().__dlpack_device__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The tensor as an array."""
        return np.array(self.numpy(), dtype, copy=copy)


def _element(dtype: np.dtype) -> tuple[int, str]:
    """The number and the word of ONNX for an element type."""
    if dtype.kind in "SUT":
        return ELEMENTS["object"]
    if (found := ELEMENTS.get(dtype.name)) is None:
        raise _ovolo.InvalidArgument(f"ONNX has no element type {dtype.name}")
    return found


def _zeros(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """An array of zeros, or of empty strings."""
    array = np.zeros(_model.numbers("shape", shape), dtype)
    if dtype.kind == "O":
        array.fill("")
    return array


def _copy(what: str, source: np.ndarray, target: np.ndarray) -> None:
    if source.shape != target.shape or source.dtype != target.dtype:
        raise _ovolo.InvalidArgument(
            f"{what} is {source.dtype.name}{list(source.shape)}, and its memory is {target.dtype.name}{list(target.shape)}"
        )
    np.copyto(target, source)


def unwrapped(value: Any) -> Any:
    """The value that an :class:`OrtValue` holds, or the value itself."""
    return value._value if isinstance(value, OrtValue) else value


def _buffer(name: str, element_type: Any, shape: Sequence[int], address: int) -> np.ndarray:
    """The array at an address, which the caller keeps alive."""
    import ctypes

    dtype, sizes = _dtype(element_type), _model.numbers(f"shape of `{name}`", shape)
    if dtype.kind == "O":
        raise _ovolo.InvalidArgument(f"`{name}` is a tensor of strings, which have no place at an address: bind an `OrtValue`")
    if not address:
        raise _ovolo.InvalidArgument(f"`buffer_ptr` of `{name}` is 0, and an address is wanted")
    array = np.empty(sizes, dtype)
    memory = (ctypes.c_char * array.nbytes).from_address(address)
    return np.frombuffer(memory, dtype, array.size).reshape(sizes)


class IOBinding:
    """Inputs and outputs of a session that are set one by one, and used by :meth:`InferenceSession.run_with_iobinding`."""

    def __init__(self, session: Any) -> None:
        """Makes a binding without inputs and outputs."""
        self._names = [one.name for one in session.get_outputs()]
        self.clear_binding_inputs()
        self.clear_binding_outputs()

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Binds an input to an array."""
        self._feeds[name] = unwrapped(arr_on_cpu)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds an input to a value."""
        self.bind_cpu_input(name, ortvalue)

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Binds an input to memory at an address."""
        _host(device_type, device_id)
        self.bind_cpu_input(name, _buffer(name, element_type, shape, buffer_ptr))

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Binds an output: to memory at an address, if there is one, or else to memory that the run makes."""
        _host(device_type, device_id)
        self._targets[self._known(name)] = None if buffer_ptr is None else _buffer(name, element_type, shape or (), buffer_ptr)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Binds an output to the memory of a tensor."""
        self._targets[self._known(name)] = ortvalue.numpy()

    def clear_binding_inputs(self) -> None:
        """Forgets the inputs."""
        self._feeds: dict[str, Any] = {}

    def clear_binding_outputs(self) -> None:
        """Forgets the outputs, and what they were."""
        self._targets: dict[str, np.ndarray | None] = {}
        self._made: dict[str, OrtValue] = {}

    def synchronize_inputs(self) -> None:
        """Does nothing: there are no copies that have yet to end."""

    def synchronize_outputs(self) -> None:
        """Does nothing, as :meth:`synchronize_inputs`."""

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last run, in the order in which they were bound."""
        return list(self._made.values())

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The outputs of the last run as arrays of their own."""
        return [np.copy(one) if isinstance(one := value._value, np.ndarray) else one for value in self.get_outputs()]

    def get_outputs_as_ortvaluevector(self) -> list[OrtValue]:
        """The outputs of the last run."""
        return self.get_outputs()

    def _run(self, session: Any, run_options: Any) -> None:
        """Runs the session, and puts the outputs into their places."""
        if not self._targets:
            raise _ovolo.InvalidArgument("no output is bound: call `bind_output` for each one that you need")
        outputs = session.run(list(self._targets), self._feeds, run_options)
        made = {}
        for (name, target), output in zip(self._targets.items(), outputs, strict=True):
            if target is not None:
                _copy(f"output `{name}`", np.asarray(output), target)
            made[name] = OrtValue(output if target is None else target)
        self._made = made

    def _known(self, name: str) -> str:
        if name not in self._names:
            raise _ovolo.InvalidArgument(f"the model has no output `{name}`; its outputs are `{'`, `'.join(self._names)}`")
        return name
