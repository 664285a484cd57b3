"""One width for all kernels of a list: what the parameter `gamma` of estimators says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from kernelweave._checks import InputError
from kernelweave.kernels.algebra import Scaled, Terms
from kernelweave.kernels.base import Kernel
from kernelweave.kernels.prepared import Prepared
from kernelweave.kernels.restriction import On
from kernelweave.kernels.stationary import RBF, Laplacian

__all__ = ["check_gamma", "has_gamma", "with_gamma"]

#: The multiples of gamma in a default bank.
SPREAD = (0.25, 1.0, 4.0)


def with_gamma(kernels: Iterable[Kernel], gamma: Any, *, spread: bool = False) -> list[Kernel]:
    """Kernels whose Gaussians and Laplacians have a given gamma in place of their own; equal ones once.

    Parameters
    ----------
    kernels : iterable of Kernel
    gamma : float, "median", "scale", or a pair such as ("median", 4.0)
    spread : bool, default=False
        A quarter of it, it and four times it, instead of it alone.

    Returns
    -------
    list of Kernel

    Examples
    --------
    >>> from kernelweave.kernels import Linear
    >>> with_gamma([Linear(), RBF(0.1).on(["age"]), RBF(2.0).on(["age"])], "median")
    [Linear(), RBF(gamma='median').on(['age'])]
    """
    found: dict[Kernel, None] = {}
    for kernel in kernels:
        for factor in SPREAD if spread else (1.0,):
            found[_changed(kernel, partial(replace, gamma=_times(gamma, factor)))] = None
    return list(found)


def has_gamma(kernel: Kernel) -> bool:
    """Whether a kernel, or a term of it, has a gamma that is a width."""
    return _changed(kernel, partial(replace, gamma=1.0)) != _changed(kernel, partial(replace, gamma=2.0))


def check_gamma(kernels: Iterable[Kernel]) -> None:
    """Raise if none of the kernels has a gamma."""
    if not any(map(has_gamma, kernels)):
        raise InputError(
            "`gamma` is for Gaussian and Laplacian kernels, and `kernels` has none. Leave `gamma` out, or add "
            "kw.kernels.RBF()."
        )


def _times(gamma: Any, factor: float) -> Any:
    if isinstance(gamma, str):
        return (gamma, factor)
    if isinstance(gamma, (tuple, list)):
        return (gamma[0], gamma[1] * factor)
    return gamma * factor


def _changed(kernel: Kernel, change: Callable[[Any], Kernel]) -> Kernel:
    if isinstance(kernel, (RBF, Laplacian)):
        return change(kernel)
    if isinstance(kernel, Terms):
        return type(kernel)(tuple(_changed(term, change) for term in kernel.terms))
    if isinstance(kernel, (Scaled, Prepared, On)):
        return replace(kernel, kernel=_changed(kernel.kernel, change))
    return kernel
