"""Kernels that are made of kernels: sums, products and multiples, on some columns, after preparations."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, ClassVar

import numpy as np

from kernelweave._checks import InputError
from kernelweave._parameters import check_fields, check_value, listed, shown
from kernelweave._sparse import join_columns, to_dense
from kernelweave._types import Tree
from kernelweave.kernels.base import (
    FACTOR,
    VIEW_NAME,
    FloatArray,
    Kernel,
    Positive,
    check_keys,
    from_dict,
    is_kernel,
    set_fields,
)
from kernelweave.kernels.dot import MAX_RANK
from kernelweave.kernels.other import Constant
from kernelweave.kernels.rows import TrainingRows
from kernelweave.kernels.stationary import Decaying
from kernelweave.kernels.steps import AffineStep, Step, apply_steps, as_steps
from kernelweave.views import ColumnMask, ColumnSlice, Table, ViewColumns, freeze_columns
from kernelweave.views.selection import Selection

__all__ = [
    "On",
    "Prepared",
    "Product",
    "Scaled",
    "Sum",
]


class Composed(Kernel, described=False):
    """Base of kernels that are made of others, `inner`."""

    @property
    def is_fitted(self) -> bool:
        """Whether all kernels inside are fitted."""
        return all(one.is_fitted for one in self.inner)

    @property
    def needs_psd_check(self) -> bool:
        """Whether a kernel inside may fail to be positive semidefinite."""
        return any(one.needs_psd_check for one in self.inner)

    @property
    def takes_missing(self) -> bool:
        """Whether all kernels inside define the treatment of missing cells."""
        return all(one.takes_missing for one in self.inner)

    @property
    def is_corrected(self) -> bool:
        """Whether a kernel inside skips missing cells."""
        return any(one.is_corrected for one in self.inner)

    @property
    def is_approximate(self) -> bool:
        """Whether a kernel inside is that of features close to another kernel."""
        return any(one.is_approximate for one in self.inner)

    @property
    def is_linear(self) -> bool:
        """Whether all kernels inside are linear."""
        return all(one.is_linear for one in self.inner)

    @property
    def needs_norms(self) -> bool:
        """Whether a kernel inside needs the squared norms of the rows."""
        return any(one.needs_norms for one in self.inner)


@dataclass(frozen=True)
class Terms(Composed, described=False):
    """Base of sums and products: a flat tuple of terms, combined by one operation."""

    terms: tuple[Kernel, ...]

    operation: ClassVar[Callable[[Any, Any], Any]]
    symbol: ClassVar[str]

    def __post_init__(self) -> None:
        owner = type(self)
        flat: list[Kernel] = []
        terms = listed(self.terms)
        if terms is None:
            raise InputError(
                f"The terms of {owner.__name__} must be a tuple of kernels, got {shown(self.terms)}. Pass for example "
                "(Linear(), RBF(gamma=0.5))."
            )
        for term in terms:
            is_kernel(term, owner.__name__)
            flat.extend(term.terms if isinstance(term, owner) else (term,))
        if not flat:
            raise InputError(
                f"{owner.__name__} must have at least one term, got none. Pass a tuple of kernels."
            )
        set_fields(self, terms=tuple(flat))

    @property
    def inner(self) -> tuple[Kernel, ...]:  # type: ignore[override]
        """The terms."""
        return self.terms

    def remade(self, inner: Sequence[Kernel]) -> Kernel:
        """See :meth:`Kernel.remade`."""
        return type(self)(tuple(inner))

    @property
    def statistic(self) -> str | None:
        """The pairwise statistic all terms share, or None."""
        if self._restricted():
            return None
        kinds = {(term.statistic, term.preparation) for term in self.terms if not isinstance(term, Constant)}
        return kinds.pop()[0] if len(kinds) == 1 else None

    @property
    def preparation(self) -> tuple[Step, ...]:
        """The steps before that statistic."""
        found = {term.preparation for term in self.terms if not isinstance(term, Constant)}
        return found.pop() if self.statistic is not None else ()

    def _after(self, steps: tuple[Step, ...]) -> Kernel:
        if not self._restricted() and not self._holds_steps():
            return super()._after(steps)
        return type(self)(tuple(term.prepared(*steps) for term in self.terms))

    def formula(self, xp, S, left, right):
        if self.statistic is None:
            return super().formula(xp, S, left, right)
        return self._fold([term.formula(xp, S, left, right) for term in self.terms])

    def own_value(self, xp, kappa):
        return self._fold([term.own_value(xp, kappa) for term in self.terms])

    def _fold(self, parts: Sequence[Any]) -> Any:
        return reduce(type(self).operation, parts)

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        if self.statistic is not None and not self.needs_norms:
            return super()._gram(left, right)
        return self._fold([term._gram(left, right) for term in self.terms])

    def _diag(self, table: Table) -> FloatArray:
        return self._fold([term._diag(table) for term in self.terms])

    def graph(self, columns):
        K, own = zip(*(term.graph(columns) for term in self.terms), strict=True)
        return self._fold(K), self._fold(own)

    @property
    def label(self) -> str:
        """A short name."""
        if not self._restricted():
            return super().label
        parts = (f"({term.label})" if isinstance(term, Sum) else term.label for term in self.terms)
        return f" {self.symbol} ".join(parts)

    @property
    def view(self) -> str:
        """The columns or views of the terms; several views have "+" or "*" between them."""
        return f" {self.symbol} ".join(dict.fromkeys(term.view for term in self.terms))

    def _short(self, nested: bool = False) -> str:
        parts = (term.label if self._restricted() else term._short(nested=True) for term in self.terms)
        text = f" {self.symbol} ".join(parts)
        return f"({text})" if nested else text

    def __repr__(self) -> str:
        if len(self.terms) == 1:
            return f"{type(self).__name__}(({self.terms[0]!r},))"
        parts = (f"({term!r})" if isinstance(term, Terms) else repr(term) for term in self.terms)
        return f" {self.symbol} ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return a description of plain values for JSON."""
        return {"kernel": type(self).__name__.lower(), "terms": [term.to_dict() for term in self.terms]}

    @classmethod
    def _from_values(cls, values: Mapping[str, Any]) -> Kernel:
        check_keys(cls, values, "terms")
        return cls(tuple(map(from_dict, values["terms"])))


@dataclass(frozen=True, repr=False)
class Sum(Terms):
    """The sum of kernels, k(x, z) = sum_t k_t(x, z); usually written ``k1 + k2``.

    Parameters
    ----------
    terms : tuple of kernels
        At least one. Sums among them are merged into this one.

    Examples
    --------
    >>> from kernelweave.kernels import RBF, Linear
    >>> sum([Linear(), RBF(gamma=0.5)])
    Linear() + RBF(gamma=0.5)
    """

    operation: ClassVar[Any] = operator.add
    symbol: ClassVar[str] = "+"

    def _features(self, table: Table) -> FloatArray | None:
        parts = [part for term in self.terms if (part := term._features(table)) is not None]
        return join_columns(parts) if len(parts) == len(self.terms) else None

    def graph_features(self, columns):
        return columns.xp.concat([term.graph_features(columns) for term in self.terms], axis=1)


@dataclass(frozen=True, repr=False)
class Product(Terms):
    """The product of kernels, k(x, z) = prod_t k_t(x, z); usually written ``k1 * k2``.

    Parameters
    ----------
    terms : tuple of kernels
        At least one. Products among them are merged into this one.

    Notes
    -----
    Positive semidefinite by Schur's theorem. The feature map is the product of the terms' features, all
    pairs, if there are at most 16 of them.

    Examples
    --------
    >>> from kernelweave.kernels import RBF, Linear
    >>> (RBF(gamma=0.5) * Linear())([[2.0]], [[2.0]])
    array([[4.]])
    """

    operation: ClassVar[Any] = operator.mul
    symbol: ClassVar[str] = "*"
    is_linear: ClassVar[bool] = False

    def _features(self, table: Table) -> FloatArray | None:
        phi = np.ones((table.n_rows, 1))
        for term in self.terms:
            part = term._features(table)
            if part is None or phi.shape[1] * part.shape[1] > MAX_RANK:
                return None
            phi = (phi[:, :, None] * to_dense(part)[:, None, :]).reshape(table.n_rows, -1)
        return phi

    def graph_features(self, columns):
        xp = columns.xp
        phi, width = None, 1
        for term in self.terms:
            part, known = term.graph_features(columns), term.features(columns.training.rows(slice(0, 1)))
            assert known is not None  # as for the training rows
            width *= int(known.shape[1])
            pairs = part if phi is None else phi[:, :, None] * part[:, None, :]
            phi = pairs if phi is None else xp.reshape(pairs, (-1, width))
        return phi


@dataclass(frozen=True)
class Around(Composed, described=False):
    """Base class of kernels that wrap one other kernel."""

    kernel: Kernel

    @property
    def inner(self) -> tuple[Kernel, ...]:  # type: ignore[override]
        """The wrapped kernel."""
        return (self.kernel,)

    def remade(self, inner: Sequence[Kernel]) -> Kernel:
        """See :meth:`Kernel.remade`."""
        return replace(self, kernel=inner[0])


@dataclass(frozen=True)
class Scaled(Around):
    """A positive multiple of a kernel, factor * k(x, z); usually written ``2.0 * k``.

    Parameters
    ----------
    kernel : Kernel
    factor : float
        > 0. Factors of factors are multiplied.

    Examples
    --------
    >>> from kernelweave.kernels import RBF, Linear
    >>> 2 * (0.5 * RBF(gamma=0.5)), 3.0 * Linear().on(["age"])
    (1.0 * RBF(gamma=0.5), (3.0 * Linear()).on(['age']))
    """

    factor: Positive

    def __post_init__(self) -> None:
        check_fields(self, named=True)
        kernel, factor = is_kernel(self.kernel, "Scaled"), self.factor
        if isinstance(kernel, Scaled):
            factor = check_value(FACTOR, "factor", factor * kernel.factor, of="Scaled")
            kernel = kernel.kernel
        set_fields(self, kernel=kernel, factor=factor)

    def _after(self, steps: tuple[Step, ...]) -> Kernel:
        return Scaled(self.kernel.prepared(*steps), self.factor)

    @property
    def statistic(self) -> str | None:
        """The pairwise statistic of the scaled kernel."""
        return self.kernel.statistic

    @property
    def preparation(self) -> tuple[Step, ...]:
        """The steps before that statistic."""
        return self.kernel.preparation

    @property
    def label(self) -> str:
        """A short name."""
        return f"{self.factor:.4g} * ({self.kernel.label})" if self._restricted() else super().label

    @property
    def view(self) -> str:
        """The columns or view of the scaled kernel."""
        return self.kernel.view

    def formula(self, xp, S, left, right):
        return self.factor * self.kernel.formula(xp, S, left, right)

    def own_value(self, xp, kappa):
        return self.factor * self.kernel.own_value(xp, kappa)

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        K = self.kernel._gram(left, right)
        K *= self.factor
        return K

    def _diag(self, table: Table) -> FloatArray:
        return self.factor * self.kernel._diag(table)

    def _features(self, table: Table) -> FloatArray | None:
        phi = self.kernel._features(table)
        return None if phi is None else math.sqrt(self.factor) * phi

    def graph(self, columns):
        K, own = self.kernel.graph(columns)
        return self.factor * K, self.factor * own

    def graph_features(self, columns):
        return math.sqrt(self.factor) * self.kernel.graph_features(columns)

    def _short(self, nested: bool = False) -> str:
        return f"{self.factor:.4g} * {self.kernel._short(nested=True)}"

    def __repr__(self) -> str:
        inner = f"({self.kernel!r})" if isinstance(self.kernel, Terms) else repr(self.kernel)
        return f"{self.factor!r} * {inner}"

    def to_dict(self) -> dict[str, Any]:
        """Return a description of plain values for JSON."""
        return {"kernel": "scaled", "base": self.kernel.to_dict(), "factor": self.factor}

    @classmethod
    def _from_values(cls, values: Mapping[str, Any]) -> Kernel:
        check_keys(cls, values, "base", "factor")
        return cls(from_dict(values["base"]), values["factor"])


@dataclass(frozen=True, repr=False)
class Prepared(Around):
    """A kernel of prepared columns, k(P(x), P(z)); usually written ``k.prepared("standardize")``.

    Parameters
    ----------
    kernel : Kernel
        Neither restricted to columns nor prepared itself.
    steps : tuple of steps
        See :meth:`Kernel.prepared`. Their numbers, and those of the kernel, are computed from training rows when the
        kernel is fitted.

    Examples
    --------
    >>> from kernelweave.kernels import Linear
    >>> k = Linear().prepared("log1p", "standardize")
    >>> k, k.is_fitted
    (Linear().prepared('log1p', 'standardize'), False)
    >>> k([[0.0], [1.0]]).round(12)
    array([[ 1., -1.],
           [-1.,  1.]])
    """

    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        kernel = is_kernel(self.kernel, "Prepared")
        if kernel._restricted() or kernel._holds_steps():
            raise InputError(
                f"Prepared is made of a kernel without columns and steps of its own, got {kernel!r}. Call "
                "`prepared` on it, which adds the steps in the right place."
            )
        steps = as_steps(listed(self.steps) or ())
        if not steps:
            raise InputError(
                "Prepared must have at least one step, got none. Use the kernel itself, or prepared('standardize')."
            )
        set_fields(self, steps=steps)

    @property
    def is_fitted(self) -> bool:
        """Whether steps and kernel have their numbers."""
        return self.kernel.is_fitted and all(one.is_fitted for one in self.steps)

    def fitted_on(self, rows: TrainingRows) -> Kernel:
        """See :meth:`Kernel.fitted_on`."""
        if self.is_fitted:
            return self
        steps, prepared = rows.after(self.steps)
        return Prepared(self.kernel.fitted_on(prepared), steps)

    @property
    def statistic(self) -> str | None:
        """The pairwise statistic of prepared rows."""
        return self.kernel.statistic

    @property
    def preparation(self) -> tuple[Step, ...]:
        """The steps."""
        return self.steps

    @property
    def decay(self) -> float | None:
        """Gamma of a kernel of distances of prepared rows, see :class:`Kernel`."""
        return self.kernel.decay

    @property
    def takes_missing(self) -> bool:
        """Whether a step fills missing cells or skips them."""
        return any(one.takes_missing for one in self.steps)

    @property
    def is_corrected(self) -> bool:
        """Whether missing cells are skipped."""
        return any(one.skips for one in self.steps)

    @property
    def is_linear(self) -> bool:
        """Whether the kernel is linear, and prepared columns are affine functions of columns."""
        return self.kernel.is_linear and all(isinstance(one, AffineStep) for one in self.steps)

    def formula(self, xp, S, left, right):
        return self.kernel.formula(xp, S, left, right)

    def own_value(self, xp, kappa):
        return self.kernel.own_value(xp, kappa)

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        steps = self.steps
        return self.kernel._gram(
            apply_steps(steps, left), None if right is None else apply_steps(steps, right)
        )

    def _diag(self, table: Table) -> FloatArray:
        return self.kernel._diag(apply_steps(self.steps, table))

    def _features(self, table: Table) -> FloatArray | None:
        if self.is_corrected:
            # sums over shared columns are not inner products
            return None
        return self.kernel._features(apply_steps(self.steps, table))

    def graph(self, columns):
        return self.kernel.graph(columns.after(self.steps))

    def graph_features(self, columns):
        return self.kernel.graph_features(columns.after(self.steps))

    def _holds_steps(self) -> bool:
        return True

    def _after(self, steps: tuple[Step, ...]) -> Kernel:
        return Prepared(self.kernel, self.steps + steps)

    def _short(self, nested: bool = False) -> str:
        words = ", ".join(one.word for one in self.steps)
        return f"{words} {self.kernel._short(nested=True)}"

    def __repr__(self) -> str:
        inner = f"({self.kernel!r})" if isinstance(self.kernel, (Terms, Scaled)) else repr(self.kernel)
        steps = (repr(v if isinstance(v := one.to_value(), str) else one) for one in self.steps)
        return f"{inner}.prepared({', '.join(steps)})"

    def to_dict(self) -> Tree:
        """Return a description of plain values for JSON."""
        steps = [one.to_value() for one in self.steps]
        return {"kernel": "prepared", "base": self.kernel.to_dict(), "steps": steps}

    @classmethod
    def _from_values(cls, values: Mapping[str, Any]) -> Kernel:
        check_keys(cls, values, "base", "steps")
        return cls(from_dict(values["base"]), tuple(values["steps"]))


@dataclass(frozen=True)
class On(Around):
    """A kernel restricted to some columns, k(x[columns], z[columns]); usually written ``k.on(columns)``.

    Parameters
    ----------
    kernel : Kernel
        Not restricted itself.
    columns : see :meth:`Kernel.on`
        Stored as a hashable value.
    name : str or None
        Name of the view.

    Examples
    --------
    >>> from kernelweave.kernels import Linear
    >>> k = Linear().on([1])
    >>> k([[1.0, 2.0], [3.0, 4.0]])
    array([[ 4.,  8.],
           [ 8., 16.]])
    >>> k.columns, k.base
    ((1,), Linear())
    """

    columns: Selection = None
    name: str | None = None

    def __post_init__(self) -> None:
        kernel = is_kernel(self.kernel, "On")
        if kernel._restricted():
            raise InputError(
                f"A kernel can be restricted to columns once, got {kernel!r}, which is restricted already. "
                "Call `on` on the kernel inside, with these columns."
            )
        check_value(VIEW_NAME, "name", self.name, of="a view")
        set_fields(self, columns=freeze_columns(self.columns))

    def fitted_on(self, rows: TrainingRows) -> Kernel:
        """See :meth:`Kernel.fitted_on`."""
        if self.is_fitted:
            return self
        return On(self.kernel.fitted_on(rows.on(self.columns)), self.columns, self.name)

    def _after(self, steps: tuple[Step, ...]) -> Kernel:
        return On(self.kernel.prepared(*steps), self.columns, self.name)

    @property
    def base(self) -> Kernel:
        """The kernel without its selection of columns."""
        return self.kernel

    @property
    def label(self) -> str:
        """A short name."""
        if isinstance(self.columns, ViewColumns):
            own = self.columns.columns
            if own is None:
                return f"{self.columns.view}: {self.kernel._short()}"
            where = self.name or _columns_label(own)
            return f"{self.columns.view}: {self.kernel._short(nested=True)} on {where}"
        if self.name:
            return f"{self.name}: {self.kernel._short()}"
        return f"{self.kernel._short(nested=True)} on {_columns_label(self.columns)}"

    @property
    def view(self) -> str:
        """The name of the view, or the columns."""
        if isinstance(self.columns, ViewColumns):
            return self.columns.view
        return self.name or _columns_label(self.columns)

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        return self.kernel._gram(
            left.select(self.columns), None if right is None else right.select(self.columns)
        )

    def _diag(self, table: Table) -> FloatArray:
        return self.kernel._diag(table.select(self.columns))

    def _features(self, table: Table) -> FloatArray | None:
        return self.kernel._features(table.select(self.columns))

    def graph(self, columns):
        return self.kernel.graph(columns.select(self.columns))

    def graph_features(self, columns):
        return self.kernel.graph_features(columns.select(self.columns))

    def _restricted(self) -> bool:
        return True

    def _times(self, factor: float) -> Kernel:
        return On(Scaled(self.kernel, factor), self.columns, self.name)

    def _short(self, nested: bool = False) -> str:
        return f"({self.label})" if nested else self.label

    def __repr__(self) -> str:
        inner = f"({self.kernel!r})" if isinstance(self.kernel, (Terms, Scaled)) else repr(self.kernel)
        name = "" if self.name is None else f", name={self.name!r}"
        return f"{inner}.on({_columns_repr(self.columns)}{name})"

    def to_dict(self) -> dict[str, Any]:
        """Return a description of plain values for JSON."""
        columns = _columns_value(self.columns)
        return {"kernel": "on", "base": self.kernel.to_dict(), "columns": columns, "name": self.name}

    @classmethod
    def _from_values(cls, values: Mapping[str, Any]) -> Kernel:
        check_keys(cls, values, "base", "columns", "name")
        return cls(from_dict(values["base"]), _columns_of(values["columns"]), values["name"])


def put(kernel: Kernel, place: Callable[[Kernel, Selection, str | None], Kernel]) -> Kernel:
    """Put a kernel, or every restricted term of it, in a place: a view.

    Parameters
    ----------
    kernel : Kernel
        Terms that are on a view already stay there.
    place : callable
        ``place(base, columns, name)`` restricts a kernel to some columns of the place, None for all.
    """
    if isinstance(kernel, On):
        bound = isinstance(kernel.columns, ViewColumns)
        return kernel if bound else place(kernel.kernel, kernel.columns, kernel.name)
    if kernel._restricted():
        return kernel.remade([put(one, place) for one in kernel.inner])
    return place(kernel, None, None)


def on_views(kernel: Kernel) -> bool:
    """Whether all columns of a kernel are those of views."""
    if isinstance(kernel, On):
        return isinstance(kernel.columns, ViewColumns)
    if isinstance(kernel, Terms):
        return all(on_views(term) or isinstance(term, Constant) for term in kernel.terms)
    return isinstance(kernel, Scaled) and on_views(kernel.kernel)


def _columns_value(columns: Selection) -> Any:
    """A selection as a plain value."""
    if isinstance(columns, ColumnSlice):
        return {"slice": [columns.start, columns.stop, columns.step]}
    if isinstance(columns, ColumnMask):
        return {"mask": list(columns.values)}
    if isinstance(columns, ViewColumns):
        return {"view": columns.view, "columns": _columns_value(columns.columns)}
    return columns if columns is None else list(columns)


def _columns_of(value: Any) -> Any:
    """The selection that a plain value describes."""
    if not isinstance(value, Mapping):
        return value
    if "view" in value:
        own: Any = freeze_columns(_columns_of(value["columns"]))
        return ViewColumns(value["view"], own)
    return slice(*value["slice"]) if "slice" in value else list(value["mask"])


def _columns_repr(columns: Selection) -> str:
    if isinstance(columns, ViewColumns):
        return repr(columns)
    if isinstance(columns, ColumnSlice):
        return f"slice({columns.start!r}, {columns.stop!r}, {columns.step!r})"
    if isinstance(columns, ColumnMask):
        return repr(list(columns.values))
    return repr(columns if columns is None else list(columns))


def _columns_label(columns: Selection) -> str:
    if columns is None:
        return "all"
    if isinstance(columns, ViewColumns):
        return columns.view
    if isinstance(columns, ColumnSlice):
        ends = ("" if end is None else str(end) for end in (columns.start, columns.stop))
        return "columns " + ":".join(ends) + ("" if columns.step is None else f":{columns.step}")
    if isinstance(columns, ColumnMask):
        columns = tuple(np.flatnonzero(columns.values).tolist())
    names = [c if isinstance(c, str) else f"x{c}" if c >= 0 else f"column {c}" for c in columns]
    return ", ".join(names) if len(names) <= 4 else f"{names[0]}, {names[1]}, ... ({len(names)} columns)"


# ---- one width for all kernels of a list: what the parameter `gamma` of estimators says -----------

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
    >>> from kernelweave.kernels import RBF, Linear
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
    if isinstance(kernel, Decaying):
        return change(kernel)
    return kernel.remade([_changed(one, change) for one in kernel.inner])
