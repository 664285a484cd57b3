"""Kernels made of kernels: sums, products, multiples, and restrictions to columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kernelweave._checks import InputError
from kernelweave._parameters import check_fields, check_value, listed, shown
from kernelweave._sparse import join_columns, to_dense
from kernelweave.kernels.base import (
    FACTOR,
    VIEW_NAME,
    FloatArray,
    Kernel,
    Norms,
    Positive,
    check_keys,
    composite,
    from_dict,
    is_kernel,
    set_fields,
)
from kernelweave.kernels.dot import MAX_RANK
from kernelweave.kernels.other import Constant
from kernelweave.kernels.preparation import Step, apply_steps, as_steps
from kernelweave.kernels.rows import TrainingRows
from kernelweave.views import ColumnMask, ColumnSlice, Table, ViewColumns, freeze_columns
from kernelweave.views.selection import Selection

__all__ = ["On", "Prepared", "Product", "Scaled", "Sum"]


@dataclass(frozen=True)
class _Terms(Kernel):
    """What sums and products share: a flat tuple of terms, folded by one operation."""

    terms: tuple[Kernel, ...]

    operation: ClassVar[np.ufunc]
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
    def needs_psd_check(self) -> bool:
        """Whether any term may fail to be positive semidefinite."""
        return any(term.needs_psd_check for term in self.terms)

    @property
    def is_fitted(self) -> bool:
        """Whether all terms are."""
        return all(term.is_fitted for term in self.terms)

    def fitted_on(self, rows: TrainingRows) -> Kernel:
        """See :meth:`Kernel.fitted_on`."""
        return self if self.is_fitted else type(self)(tuple(term.fitted_on(rows) for term in self.terms))

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
        if not self._restricted() and not any(map(_holds_steps, self.terms)):
            return super()._after(steps)
        return type(self)(tuple(term.prepared(*steps) for term in self.terms))

    @property
    def needs_norms(self) -> bool:
        """Whether a term needs the squared norms of the rows."""
        return any(term.needs_norms for term in self.terms)

    def _fold(self, parts: Iterator[FloatArray]) -> FloatArray:
        result = next(parts)
        for part in parts:
            self.operation(result, part, out=result)
        return result

    def from_statistic(
        self, S: FloatArray, sq_left: Norms = None, sq_right: Norms = None, out: FloatArray | None = None
    ) -> FloatArray:
        """See :meth:`Kernel.from_statistic`."""
        if self.statistic is None:
            return super().from_statistic(S)
        result = self._fold(term.from_statistic(S, sq_left, sq_right) for term in self.terms)
        if out is None:
            return result
        out[...] = result
        return out

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        if self.statistic is not None and not self.needs_norms:
            return super()._gram(left, right)
        return self._fold(term._gram(left, right) for term in self.terms)

    def _diag(self, table: Table) -> FloatArray:
        return self._fold(term._diag(table).copy() for term in self.terms)

    def _restricted(self) -> bool:
        return any(term._restricted() for term in self.terms)

    @property
    def label(self) -> str:
        """A short name for people."""
        if not self._restricted():
            return super().label
        parts = (f"({term.label})" if isinstance(term, Sum) else term.label for term in self.terms)
        return f" {self.symbol} ".join(parts)

    @property
    def view(self) -> str:
        """What the terms see; several views have "+" or "*" between them."""
        return f" {self.symbol} ".join(dict.fromkeys(term.view for term in self.terms))

    def _short(self, nested: bool = False) -> str:
        parts = (term.label if self._restricted() else term._short(nested=True) for term in self.terms)
        text = f" {self.symbol} ".join(parts)
        return f"({text})" if nested else text

    def __repr__(self) -> str:
        if len(self.terms) == 1:
            return f"{type(self).__name__}(({self.terms[0]!r},))"
        parts = (f"({term!r})" if isinstance(term, _Terms) else repr(term) for term in self.terms)
        return f" {self.symbol} ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return a description of plain values that JSON can hold."""
        return {"kernel": type(self).__name__.lower(), "terms": [term.to_dict() for term in self.terms]}

    @classmethod
    def _from_values(cls, values: Mapping[str, Any]) -> Kernel:
        check_keys(cls, values, "terms")
        return cls(tuple(map(from_dict, values["terms"])))


@composite
@dataclass(frozen=True, repr=False)
class Sum(_Terms):
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

    operation: ClassVar[np.ufunc] = np.add
    symbol: ClassVar[str] = "+"

    @property
    def is_linear(self) -> bool:
        """Whether all terms are linear."""
        return all(term.is_linear for term in self.terms)

    def _features(self, table: Table) -> FloatArray | None:
        parts = [part for term in self.terms if (part := term._features(table)) is not None]
        return join_columns(parts) if len(parts) == len(self.terms) else None


@composite
@dataclass(frozen=True, repr=False)
class Product(_Terms):
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

    operation: ClassVar[np.ufunc] = np.multiply
    symbol: ClassVar[str] = "*"

    def _features(self, table: Table) -> FloatArray | None:
        phi = np.ones((table.n_rows, 1))
        for term in self.terms:
            part = term._features(table)
            if part is None or phi.shape[1] * part.shape[1] > MAX_RANK:
                return None
            phi = (phi[:, :, None] * to_dense(part)[:, None, :]).reshape(table.n_rows, -1)
        return phi


@composite
@dataclass(frozen=True)
class Scaled(Kernel):
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

    kernel: Kernel
    factor: Positive

    def __post_init__(self) -> None:
        check_fields(self, named=True)
        kernel, factor = is_kernel(self.kernel, "Scaled"), self.factor
        if isinstance(kernel, Scaled):
            factor = check_value(FACTOR, "factor", factor * kernel.factor, of="Scaled")
            kernel = kernel.kernel
        set_fields(self, kernel=kernel, factor=factor)

    @property
    def is_fitted(self) -> bool:
        """Whether the kernel that is scaled is fitted."""
        return self.kernel.is_fitted

    def fitted_on(self, rows: TrainingRows) -> Kernel:
        """See :meth:`Kernel.fitted_on`."""
        return self if self.is_fitted else Scaled(self.kernel.fitted_on(rows), self.factor)

    def _after(self, steps: tuple[Step, ...]) -> Kernel:
        return Scaled(self.kernel.prepared(*steps), self.factor)

    @property
    def statistic(self) -> str | None:
        """The pairwise statistic of the kernel that is scaled."""
        return self.kernel.statistic

    @property
    def preparation(self) -> tuple[Step, ...]:
        """The steps before that statistic."""
        return self.kernel.preparation

    @property
    def needs_norms(self) -> bool:
        """Whether the kernel that is scaled needs squared norms."""
        return self.kernel.needs_norms

    @property
    def needs_psd_check(self) -> bool:
        """Whether the kernel that is scaled may fail to be positive semidefinite."""
        return self.kernel.needs_psd_check

    @property
    def is_linear(self) -> bool:
        """Whether the kernel that is scaled is linear."""
        return self.kernel.is_linear

    @property
    def label(self) -> str:
        """A short name for people."""
        return f"{self.factor:.4g} * ({self.kernel.label})" if self._restricted() else super().label

    @property
    def view(self) -> str:
        """What the kernel that is scaled sees."""
        return self.kernel.view

    def from_statistic(
        self, S: FloatArray, sq_left: Norms = None, sq_right: Norms = None, out: FloatArray | None = None
    ) -> FloatArray:
        """See :meth:`Kernel.from_statistic`."""
        out = self.kernel.from_statistic(S, sq_left, sq_right, out)
        out *= self.factor
        return out

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        K = self.kernel._gram(left, right)
        K *= self.factor
        return K

    def _diag(self, table: Table) -> FloatArray:
        return self.factor * self.kernel._diag(table)

    def _features(self, table: Table) -> FloatArray | None:
        phi = self.kernel._features(table)
        return None if phi is None else math.sqrt(self.factor) * phi

    def _restricted(self) -> bool:
        return self.kernel._restricted()

    def _short(self, nested: bool = False) -> str:
        return f"{self.factor:.4g} * {self.kernel._short(nested=True)}"

    def __repr__(self) -> str:
        inner = f"({self.kernel!r})" if isinstance(self.kernel, _Terms) else repr(self.kernel)
        return f"{self.factor!r} * {inner}"

    def to_dict(self) -> dict[str, Any]:
        """Return a description of plain values that JSON can hold."""
        return {"kernel": "scaled", "base": self.kernel.to_dict(), "factor": self.factor}

    @classmethod
    def _from_values(cls, values: Mapping[str, Any]) -> Kernel:
        check_keys(cls, values, "base", "factor")
        return cls(from_dict(values["base"]), values["factor"])


@composite
@dataclass(frozen=True, repr=False)
class Prepared(Kernel):
    """A kernel of prepared columns, k(P(x), P(z)); usually written ``k.prepared("standardize")``.

    Parameters
    ----------
    kernel : Kernel
        Neither restricted to columns nor prepared itself.
    steps : tuple of steps
        See :meth:`Kernel.prepared`. Their numbers, and those of the kernel, are taken from training rows when the
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

    kernel: Kernel
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        kernel = is_kernel(self.kernel, "Prepared")
        if kernel._restricted() or _holds_steps(kernel):
            raise InputError(
                f"Prepared is made of a kernel without columns and steps of its own, got {kernel!r}. Call "
                "`prepared` on it, which puts steps where they belong."
            )
        steps = as_steps(listed(self.steps) or ())
        if not steps:
            raise InputError(
                "Prepared must have at least one step, got none. Use the kernel as it is, or prepared('standardize')."
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
    def needs_norms(self) -> bool:
        """Whether the kernel needs squared norms of prepared rows."""
        return self.kernel.needs_norms

    @property
    def needs_psd_check(self) -> bool:
        """Whether the kernel may fail to be positive semidefinite."""
        return self.kernel.needs_psd_check

    @property
    def is_linear(self) -> bool:
        """Whether the kernel is linear, and prepared columns are affine functions of columns."""
        return self.kernel.is_linear and all(one.is_affine for one in self.steps)

    def from_statistic(
        self, S: FloatArray, sq_left: Norms = None, sq_right: Norms = None, out: FloatArray | None = None
    ) -> FloatArray:
        """See :meth:`Kernel.from_statistic`."""
        return self.kernel.from_statistic(S, sq_left, sq_right, out)

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        steps = self.steps
        return self.kernel._gram(
            apply_steps(steps, left), None if right is None else apply_steps(steps, right)
        )

    def _diag(self, table: Table) -> FloatArray:
        return self.kernel._diag(apply_steps(self.steps, table))

    def _features(self, table: Table) -> FloatArray | None:
        return self.kernel._features(apply_steps(self.steps, table))

    def _after(self, steps: tuple[Step, ...]) -> Kernel:
        return Prepared(self.kernel, self.steps + steps)

    def _short(self, nested: bool = False) -> str:
        words = ", ".join(one.word for one in self.steps)
        return f"{words} {self.kernel._short(nested=True)}"

    def __repr__(self) -> str:
        inner = f"({self.kernel!r})" if isinstance(self.kernel, (_Terms, Scaled)) else repr(self.kernel)
        steps = (repr(v if isinstance(v := one.to_value(), str) else one) for one in self.steps)
        return f"{inner}.prepared({', '.join(steps)})"

    def to_dict(self) -> dict[str, Any]:
        """Return a description of plain values that JSON can hold."""
        steps = [one.to_value() for one in self.steps]
        return {"kernel": "prepared", "base": self.kernel.to_dict(), "steps": steps}

    @classmethod
    def _from_values(cls, values: Mapping[str, Any]) -> Kernel:
        check_keys(cls, values, "base", "steps")
        return cls(from_dict(values["base"]), tuple(values["steps"]))


def _holds_steps(kernel: Kernel) -> bool:
    """Whether a kernel, or a term of it, is prepared."""
    if isinstance(kernel, _Terms):
        return any(map(_holds_steps, kernel.terms))
    return isinstance(kernel, Prepared) or (isinstance(kernel, Scaled | On) and _holds_steps(kernel.kernel))


@composite
@dataclass(frozen=True)
class On(Kernel):
    """A kernel restricted to some columns, k(x[columns], z[columns]); usually written ``k.on(columns)``.

    Parameters
    ----------
    kernel : Kernel
        Not restricted itself.
    columns : see :meth:`Kernel.on`
        Kept as a hashable value.
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

    kernel: Kernel
    columns: Selection = None
    name: str | None = None

    def __post_init__(self) -> None:
        kernel = is_kernel(self.kernel, "On")
        if kernel._restricted():
            raise InputError(
                f"A kernel can be restricted to columns once, got {kernel!r}, which is restricted already. "
                "Call `on` on the kernel inside, with the columns it should see."
            )
        check_value(VIEW_NAME, "name", self.name, of="a view")
        set_fields(self, columns=freeze_columns(self.columns))

    @property
    def is_fitted(self) -> bool:
        """Whether the restricted kernel is fitted."""
        return self.kernel.is_fitted

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
    def needs_psd_check(self) -> bool:
        """Whether the restricted kernel may fail to be positive semidefinite."""
        return self.kernel.needs_psd_check

    @property
    def is_linear(self) -> bool:
        """Whether the restricted kernel is linear."""
        return self.kernel.is_linear

    @property
    def label(self) -> str:
        """A short name for people."""
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

    def _restricted(self) -> bool:
        return True

    def _times(self, factor: float) -> Kernel:
        return On(Scaled(self.kernel, factor), self.columns, self.name)

    def _short(self, nested: bool = False) -> str:
        return f"({self.label})" if nested else self.label

    def __repr__(self) -> str:
        inner = f"({self.kernel!r})" if isinstance(self.kernel, (_Terms, Scaled)) else repr(self.kernel)
        name = "" if self.name is None else f", name={self.name!r}"
        return f"{inner}.on({_columns_repr(self.columns)}{name})"

    def to_dict(self) -> dict[str, Any]:
        """Return a description of plain values that JSON can hold."""
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
    if isinstance(kernel, _Terms) and kernel._restricted():
        return type(kernel)(tuple(put(term, place) for term in kernel.terms))
    if isinstance(kernel, Scaled) and kernel._restricted():
        return Scaled(put(kernel.kernel, place), kernel.factor)
    return place(kernel, None, None)


def on_views(kernel: Kernel) -> bool:
    """Whether all columns that a kernel looks at are those of views."""
    if isinstance(kernel, On):
        return isinstance(kernel.columns, ViewColumns)
    if isinstance(kernel, _Terms):
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
