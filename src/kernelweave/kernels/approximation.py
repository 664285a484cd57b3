"""Kernels of the features of a map, in place of the kernels that these come close to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernelweave._checks import InputError, check_known
from kernelweave._parameters import shown
from kernelweave._types import Tree
from kernelweave.kernels.algebra import Around, Scaled, Sum, Terms
from kernelweave.kernels.base import (
    FloatArray,
    Kernel,
    check_keys,
    composite,
    from_dict,
    is_kernel,
)
from kernelweave.kernels.maps import FeatureMap
from kernelweave.kernels.nystroem import Nystroem
from kernelweave.kernels.other import Categorical, Constant
from kernelweave.kernels.prepared import Prepared
from kernelweave.kernels.random_features import RandomFeatures
from kernelweave.kernels.restriction import On
from kernelweave.kernels.rows import TrainingRows
from kernelweave.kernels.statistics import mirror
from kernelweave.views import Table

__all__ = ["MAPS", "Approximate", "approximate", "exact_kernel", "maps_of"]

#: Maps by their names.
MAPS: dict[str, type[FeatureMap]] = {one.name: one for one in (Nystroem, RandomFeatures)}


@composite
@dataclass(frozen=True, repr=False)
class Approximate(Around):
    """The kernel of the features of a map, close to another kernel; usually made by `approximate`.

    Parameters
    ----------
    kernel : Kernel
        The kernel it is close to.
    map : Nystroem or RandomFeatures
        Its numbers, and those of the kernel, are computed from training rows when the kernel is fitted.

    Examples
    --------
    >>> from kernelweave.kernels import RBF, Approximate, Nystroem
    >>> k = Approximate(RBF(gamma=0.5), Nystroem(2)).fitted([[0.0], [1.0], [2.0]])
    >>> k.transform([[0.0], [5.0]]).shape
    (2, 2)
    """

    map: FeatureMap

    def __post_init__(self) -> None:
        kernel = is_kernel(self.kernel, "Approximate")
        if not isinstance(self.map, FeatureMap):
            raise InputError(
                f"Approximate takes a map of features, got {shown(self.map)}. Pass for example kernels.Nystroem(200)."
            )
        if not self.map.takes(kernel):
            raise InputError(no_features(kernel, self.map))

    @property
    def is_fitted(self) -> bool:
        """Whether the kernel and the map have their numbers."""
        return self.kernel.is_fitted and self.map.is_fitted

    @property
    def is_linear(self) -> bool:
        """No: features are functions of the columns."""
        return False

    @property
    def needs_psd_check(self) -> bool:
        """No: it is a matrix of inner products."""
        return False

    @property
    def is_approximate(self) -> bool:
        """Yes."""
        return True

    def fitted_on(self, rows: TrainingRows) -> Kernel:
        """See :meth:`Kernel.fitted_on`."""
        if self.is_fitted:
            return self
        kernel = self.kernel.fitted_on(rows)
        return Approximate(kernel, self.map.fitted(kernel, rows))

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        phi = self._features(left)
        return mirror(phi @ phi.T) if right is None else phi @ self._features(right).T

    def _diag(self, table: Table) -> FloatArray:
        phi = self._features(table)
        return (phi * phi).sum(axis=1)

    def _features(self, table: Table) -> FloatArray:
        return self.map.features(self.kernel, table)

    def _restricted(self) -> bool:
        return self.kernel._restricted()

    def _short(self, nested: bool = False) -> str:
        return f"{self.map.word} {self.kernel._short(nested=True)}"

    def __repr__(self) -> str:
        return f"approximate({self.kernel!r}, {self.map!r})"

    def to_dict(self) -> Tree:
        """Return a description of plain values for JSON: the rule, without numbers of training rows."""
        return {
            "kernel": "approximate",
            "base": self.kernel.to_dict(),
            "map": {"map": self.map.name, **self.map.settings()},
        }

    @classmethod
    def _from_values(cls, values: Mapping[str, Any]) -> Kernel:
        check_keys(cls, values, "base", "map")
        settings = dict(values["map"])
        kind = MAPS[check_known(settings.pop("map", None), sorted(MAPS), "map of features")]
        return cls(from_dict(values["base"]), kind(**settings))


def no_features(kernel: Kernel, rule: FeatureMap) -> str:
    """What to say of a kernel that cannot have the features of a map."""
    if kernel.is_corrected:
        return f"{kernel!r} skips missing cells, and has no features. Use missing='impute', or approximation=None."
    return (
        f"Random features are those of RBF, Laplacian and ArcCosine kernels, their multiples and sums, got {kernel!r}. "
        "Use Nystroem, which takes any kernel."
        if isinstance(rule, RandomFeatures)
        else f"{kernel!r} cannot be approximated by {rule!r}."
    )


def approximate(kernel: Kernel, rule: FeatureMap) -> Kernel:
    """Return a kernel of few features in place of another.

    Parameters
    ----------
    kernel : Kernel
    rule : Nystroem or RandomFeatures

    Returns
    -------
    Kernel
        With the same columns. Random features go inside preparations, multiples and sums, whose linear, categorical and
        constant terms are kept, for they have features of their own.

    Raises
    ------
    InputError
        If the kernel cannot have such features.

    Examples
    --------
    >>> from kernelweave.kernels import RBF, RandomFeatures, approximate
    >>> approximate(2.0 * RBF(gamma=0.5).on([0]), RandomFeatures(100)).label
    '2 * random features of RBF(gamma=0.5) on x0'
    """
    is_kernel(kernel, "approximate")
    if isinstance(kernel, On):
        return On(approximate(kernel.kernel, rule), kernel.columns, kernel.name)
    if not rule.goes_inside:
        return Approximate(kernel, rule)
    if isinstance(kernel, Prepared) and not kernel.is_corrected:
        return Prepared(approximate(kernel.kernel, rule), kernel.steps)
    if isinstance(kernel, Scaled):
        return Scaled(approximate(kernel.kernel, rule), kernel.factor)
    if isinstance(kernel, Sum):
        return Sum(tuple(one if has_own_features(one) else approximate(one, rule) for one in kernel.terms))
    return Approximate(kernel, rule)


def has_own_features(kernel: Kernel) -> bool:
    """Whether a term is kept, for it has features of its own."""
    return kernel.is_linear or isinstance(kernel, Categorical | Constant)


def exact_kernel(kernel: Kernel) -> Kernel:
    """Return the kernel that an approximate one is close to, with its numbers of training rows.

    Parameters
    ----------
    kernel : Kernel

    Returns
    -------
    Kernel
        The kernel itself if no part of it is approximate.

    Examples
    --------
    >>> from kernelweave.kernels import RBF, Nystroem, approximate, exact_kernel
    >>> exact_kernel(approximate(RBF(gamma=0.5).on([0]), Nystroem(10)))
    RBF(gamma=0.5).on([0])
    """
    if not kernel.is_approximate:
        return kernel
    if isinstance(kernel, Approximate):
        return kernel.kernel
    if isinstance(kernel, On):
        return On(exact_kernel(kernel.kernel), kernel.columns, kernel.name)
    if isinstance(kernel, Prepared):
        return Prepared(exact_kernel(kernel.kernel), kernel.steps)
    if isinstance(kernel, Scaled):
        return Scaled(exact_kernel(kernel.kernel), kernel.factor)
    assert isinstance(kernel, Terms)
    return type(kernel)(tuple(map(exact_kernel, kernel.terms)))


def maps_of(kernel: Kernel) -> list[FeatureMap]:
    """Return the maps of the approximate parts of a kernel."""
    if isinstance(kernel, Approximate):
        return [kernel.map]
    inside = (
        kernel.terms if isinstance(kernel, Terms) else (kernel.kernel,) if isinstance(kernel, Around) else ()
    )
    return [one for part in inside for one in maps_of(part)]
