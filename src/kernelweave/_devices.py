"""Arrays of other libraries than NumPy, such as torch tensors, and the devices on which they lie.

The one place that knows the namespaces of the `array API <https://data-apis.org/array-api/>`_.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kernelweave._errors import InputError

__all__ = [
    "Kind",
    "as_floating",
    "hosted",
    "is_foreign",
    "moved",
    "namespace_of",
    "on_host",
    "size_of",
    "take_rows",
    "to_numpy",
    "widest",
]

Array = NDArray[np.float64]

#: Libraries whose own functions differ from the standard; array-api-compat has the standard ones.
WRAPPED = ("torch", "cupy")


def library_of(thing: object) -> str:
    """The library that a value belongs to."""
    return type(thing).__module__.split(".")[0]


def is_foreign(values: object) -> bool:
    """Whether something is an array of another library than NumPy."""
    if isinstance(values, np.ndarray | np.generic):
        return False
    if library_of(values) == "torch":
        return hasattr(values, "dtype")
    return hasattr(values, "__array_namespace__")


def namespace_of(values: Any) -> Any:
    """The array API namespace of an array of another library."""
    if library_of(values) in WRAPPED:
        return _compat().array_namespace(values)
    return values.__array_namespace__()


def on_host(values: Any) -> bool:
    """Whether an array of another library lies in the memory that NumPy reads."""
    return "cpu" in str(getattr(values, "device", "cpu")).lower()


def to_numpy(values: Any) -> NDArray[Any]:
    """An array of another library as a NumPy array."""
    if hasattr(values, "detach"):
        values = values.detach()
    if not on_host(values):
        if library_of(values) in WRAPPED:
            values = _compat().to_device(values, "cpu")
        else:
            xp = values.__array_namespace__()
            values = values.to_device(xp.__array_namespace_info__().default_device())
    return np.asarray(values)


def hosted(values: Any) -> Any:
    """Arrays of other libraries as NumPy arrays, and anything else as it is."""
    return to_numpy(values) if is_foreign(values) else values


@cache
def widest(xp: Any, device: Any) -> Any:
    """The type in which sums are taken on a device: float64, or float32 where it has no other, as on Apple's GPUs."""
    kinds = xp.__array_namespace_info__().dtypes(device=device, kind="real floating")
    return xp.float64 if "float64" in kinds else xp.float32


def size_of(xp: Any, dtype: Any) -> float:
    """The distance from 1 to the next number of a type."""
    return float(xp.finfo(dtype).eps)


def as_floating(values: Any, name: str) -> Any:
    """An array of real numbers as one of floats, in single precision if it is, on its device and without a graph."""
    xp = namespace_of(values)
    if not xp.isdtype(values.dtype, ("bool", "integral", "real floating")):
        raise InputError(f"`{name}` must hold real numbers, got the type {values.dtype}. Convert it.")
    values = values.detach() if hasattr(values, "detach") else values
    if values.dtype in (xp.float32, xp.float64):
        return values
    return xp.astype(values, widest(xp, values.device))


def take_rows(values: Any, rows: slice | NDArray[np.integer]) -> Any:
    """Some rows of an array of any library, or of a sparse matrix."""
    if not is_foreign(values):
        return values[rows]
    if isinstance(rows, slice):
        # ends beyond the last row are not in the standard
        start, stop, _ = rows.indices(int(values.shape[0]))
        return values[start:stop, :]
    xp = namespace_of(values)
    return xp.take(values, xp.asarray(np.asarray(rows, dtype=np.int64), device=values.device), axis=0)


def moved(values: Any, device: Any, name: str) -> Any:
    """An array on a device, in the library that the device belongs to.

    Parameters
    ----------
    values : array
        Of NumPy or of another library.
    device : str or device
        A text is a device of torch, such as "cuda" or "cpu".
    name : str
        Of the argument, for messages.
    """
    if library_of(values) == "torch" and (isinstance(device, str) or library_of(device) == "torch"):
        return _on(device, lambda: values.detach().to(device))
    if is_foreign(values) and values.device == device:
        return values
    values = np.asarray(hosted(values))
    library = "torch" if isinstance(device, str) else library_of(device)
    if isinstance(device, str) or library in WRAPPED:
        xp = _compat(library, device)
    elif library in sys.modules and hasattr(sys.modules[library], "asarray"):
        xp = sys.modules[library]
    else:
        raise InputError(
            f'`device` must be a text for torch, such as "cuda", or a device of a library with the array API, got '
            f"{device!r:.80}."
        )

    def there() -> Any:
        kept = values if values.flags.writeable or not hasattr(xp, "from_numpy") else values.copy()
        # strides below zero and other byte orders are known to NumPy only
        kept = np.ascontiguousarray(kept, dtype=kept.dtype.newbyteorder("="))
        # a device that is not there says so here
        xp.empty(1, dtype=xp.float32, device=device)
        if kept.dtype == np.float64 and widest(xp, device) != xp.float64:
            raise InputError(
                f"`{name}` holds float64, which the device {device} does not have. Pass float32."
            )
        return xp.asarray(kept, device=device)

    return _on(device, there)


def _on(device: Any, make: Any) -> Any:
    try:
        return make()
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        # torch without CUDA fails an assertion; unknown names and a full memory are runtime errors
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"The device {str(device)!r} cannot be used: {reason.rstrip('.'):.200}. Name another one, or pass None."
        ) from error


def _compat(library: str = "", device: Any = None) -> Any:
    """array-api-compat, or its namespace of a library."""
    try:
        compat = importlib.import_module("array_api_compat")
        return importlib.import_module(f"array_api_compat.{library}") if library else compat
    except ImportError as error:
        if library:
            raise InputError(
                f"`device`: {str(device)!r} needs {library} and array-api-compat. Use pip install 'kernelweave[gpu]', "
                "or leave it out."
            ) from error
        raise InputError(
            "Tensors need the package array-api-compat. Use pip install 'kernelweave[gpu]', or pass a NumPy array."
        ) from error


@dataclass(frozen=True)
class Kind:
    """Where arrays of results belong: the library and the device of the given ones.

    Attributes
    ----------
    xp : namespace
    device : device
    """

    xp: Any
    device: Any

    @classmethod
    def of(cls, values: Any) -> Self | None:
        """The kind of an array of another library; None for NumPy's and for anything else."""
        return cls(namespace_of(values), values.device) if is_foreign(values) else None

    @cached_property
    def dtype(self) -> Any:
        """Type of sums."""
        return widest(self.xp, self.device)

    @cached_property
    def precision(self) -> float:
        """The distance from 1 to the next number of that type."""
        return size_of(self.xp, self.dtype)

    def give(self, values: NDArray[Any]) -> Any:
        """A NumPy array as one of this kind; floats in the type of sums, a copy."""
        own = np.asarray(values, order="C")
        kind = np.dtype(np.float32 if self.precision > 1e-10 else np.float64)
        own = own.astype(kind if own.dtype.kind == "f" else own.dtype)
        return self.xp.asarray(own, device=self.device)

    def give_back(self, values: NDArray[Any]) -> Any:
        """A NumPy array of a result; in main memory if the device has no float64, for the digits of the certificate."""
        if self.precision < 1e-10:
            return self.give(values)
        return self.xp.asarray(values.copy(), device=self.xp.__array_namespace_info__().default_device())

    def take(self, values: Any) -> Array:
        """An array of this kind as a NumPy array of float64, the caller's to change."""
        return np.array(to_numpy(values), dtype=np.float64, order="C")
