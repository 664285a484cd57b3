"""Kernels that are made of kernels: sums, products and multiples, on some columns, after preparations; constants."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from kernelweave._checks import InputError
from kernelweave._parameters import check_fields, check_value, listed, shown
from kernelweave._sparse import join_columns, to_dense
from kernelweave.kernels.base import FACTOR, VIEW_NAME, FloatArray, Kernel, Positive, is_kernel, set_fields
from kernelweave.kernels.dot import MAX_RANK
from kernelweave.kernels.stationary import Stationary
from kernelweave.kernels.steps import AffineStep, Step, as_steps
from kernelweave.kernels.training_rows import TrainingRows
from kernelweave.views import ColumnMask, ColumnSlice, Table, ViewColumns, freeze_columns
from kernelweave.views.selection import Selection

__all__ = ["Constant", "On", "Prepared", "Product", "Scaled", "Sum"]


def _of_parts(name: str, fold: Callable[[Iterable[bool]], bool], about: str) -> Any:
    return property(lambda self: fold(getattr(one, name) for one in self.inner), doc=about)


def _of_kernel(name: str, about: str) -> Any:
    return property(lambda self: getattr(self.kernel, name), doc=about)


class Composed(Kernel, described=False):
    """Base of kernels that are made of others, `inner`."""

    is_fitted = _of_parts("is_fitted", all, "Whether all kernels inside are fitted.")
    is_linear = _of_parts("is_linear", all, "Whether all kernels inside are linear.")
    takes_missing = _of_parts("takes_missing", all, "Whether all kernels inside treat missing cells.")
    is_corrected = _of_parts("is_corrected", any, "Whether the matrix of a kernel inside is corrected.")
    is_approximate = _of_parts(
        "is_approximate", any, "Whether a kernel inside is that of features close to it."
    )
    needs_norms = _of_parts(
        "needs_norms", any, "Whether a kernel inside needs the squared norms of the rows."
    )
    needs_psd_check = _of_parts("needs_psd_check", any, "Whether a kernel inside may not be semidefinite.")


@dataclass(frozen=True)
class Constant(Kernel):
    """The kernel that is the same for all pairs, k(x, z) = value: a penalised intercept.

    Parameters
    ----------
    value : float, default=1.0
        > 0.

    Examples
    --------
    >>> from kernelweave.kernels import Linear
    >>> (Linear() + 1.0)([[1.0], [2.0]])
    array([[2., 3.],
           [3., 5.]])
    """

    value: Positive = 1.0

    takes_missing: ClassVar[bool] = True  # it reads no cells

    def formula(self, xp, S, left, right):
        return self.value * xp.ones_like(S)

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        return self._diag(left)[:, None] * np.ones((left if right is None else right).n_rows)

    def _diag(self, table: Table) -> FloatArray:
        return table.per_row(self.value)

    def _features(self, table: Table) -> FloatArray:
        return table.per_row(math.sqrt(self.value))[:, None]

    def _after(self, steps: tuple[Step, ...]) -> Kernel:
        return self

    def _times(self, factor: float) -> Kernel:
        return Constant(self.value * check_value(FACTOR, "factor", factor, of="Constant"))

    def _short(self, nested: bool = False) -> str:
        return f"Constant({self.value:.4g})"


@dataclass(frozen=True, repr=False)
class Terms(Composed, described=False):
    """Base of sums and products: a flat tuple of terms, combined by one operation."""

    terms: tuple[Kernel, ...]

    operation: ClassVar[Callable[[Any, Any], Any]]
    symbol: ClassVar[str]

    def __post_init__(self) -> None:
        owner = type(self)
        terms = listed(self.terms)
        if not terms:
            raise InputError(
                f"{owner.__name__} must have a tuple of at least one term, got {shown(self.terms)}. Pass for example "
                "(Linear(), RBF(gamma=0.5))."
            )
        flat: list[Kernel] = []
        for term in terms:
            is_kernel(term, owner.__name__)
            flat.extend(term.terms if isinstance(term, owner) else (term,))
        set_fields(self, terms=tuple(flat))

    @property
    def inner(self) -> tuple[Kernel, ...]:  # type: ignore[override]
        """The terms."""
        return self.terms

    def remade(self, inner: Sequence[Kernel]) -> Kernel:
        return type(self)(tuple(inner))

    def _shared(self) -> tuple[str | None, tuple[Step, ...]]:
        """The statistic of all terms and the steps before it, or None and no steps."""
        found = {(term.statistic, term.preparation) for term in self.terms if not isinstance(term, Constant)}
        statistic, steps = found.pop() if len(found) == 1 and not self._restricted() else (None, ())
        return statistic, steps if statistic is not None else ()

    @property
    def statistic(self) -> str | None:
        """The pairwise statistic all terms share, or None."""
        return self._shared()[0]

    @property
    def preparation(self) -> tuple[Step, ...]:
        """The steps before that statistic."""
        return self._shared()[1]

    def _after(self, steps: tuple[Step, ...]) -> Kernel:
        if not self._restricted() and not self._holds_steps():
            return super()._after(steps)
        return self.remade([term.prepared(*steps) for term in self.terms])

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

    @property
    def label(self) -> str:
        """A short name."""
        if not self._restricted():
            return super().label
        return self._joined(f"({term.label})" if isinstance(term, Sum) else term.label for term in self.terms)

    @property
    def view(self) -> str:
        """The columns or views of the terms; several views have "+" or "*" between them."""
        return self._joined(dict.fromkeys(term.view for term in self.terms))

    def _joined(self, parts: Iterable[str]) -> str:
        return f" {self.symbol} ".join(parts)

    def _short(self, nested: bool = False) -> str:
        restricted = self._restricted()
        text = self._joined(term.label if restricted else term._short(nested=True) for term in self.terms)
        return f"({text})" if nested else text

    def __repr__(self) -> str:
        if len(self.terms) == 1:
            return f"{type(self).__name__}(({self.terms[0]!r},))"
        return self._joined(f"({term!r})" if isinstance(term, Terms) else repr(term) for term in self.terms)


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
        phi: Any = None
        for term in self.terms:
            part = term._features(table)
            width = 0 if part is None else part.shape[1] * (1 if phi is None else phi.shape[1])
            if part is None or width > MAX_RANK:
                return None
            part = to_dense(part)
            phi = part if phi is None else (phi[:, :, None] * part[:, None, :]).reshape(-1, width)
        return phi


@dataclass(frozen=True)
class Around(Composed, described=False):
    """Base of kernels that wrap one other kernel: it sees other rows, or its values are changed."""

    kernel: Kernel

    def _seen(self, table: Table) -> Table:
        """The rows that the kernel inside is given."""
        return table

    def _result(self, values: Any) -> Any:
        """What becomes of its values."""
        return values

    @property
    def inner(self) -> tuple[Kernel, ...]:  # type: ignore[override]
        """The wrapped kernel."""
        return (self.kernel,)

    def remade(self, inner: Sequence[Kernel]) -> Kernel:
        return replace(self, kernel=inner[0])

    statistic = _of_kernel("statistic", "The pairwise statistic of the wrapped kernel.")
    preparation = _of_kernel("preparation", "The steps before that statistic.")
    view = _of_kernel("view", "The columns or view of the wrapped kernel.")

    def formula(self, xp, S, left, right):
        if self.statistic is None:
            return super().formula(xp, S, left, right)
        return self._result(self.kernel.formula(xp, S, left, right))

    def own_value(self, xp, kappa):
        return self._result(self.kernel.own_value(xp, kappa))

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        return self._result(self.kernel._gram(self._seen(left), None if right is None else self._seen(right)))

    def _diag(self, table: Table) -> FloatArray:
        return self._result(self.kernel._diag(self._seen(table)))

    def _features(self, table: Table) -> FloatArray | None:
        return self.kernel._features(self._seen(table))

    def _inside(self) -> str:
        """The wrapped kernel, as text to which an operator or a method is added."""
        return f"({self.kernel!r})" if isinstance(self.kernel, Terms | Scaled) else repr(self.kernel)


@dataclass(frozen=True, repr=False)
class Scaled(Around):
    """A positive multiple of a kernel, factor * k(x, z); usually written ``2.0 * k``.

    Parameters
    ----------
    kernel : Kernel
        Any kernel of this module.
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
        return self.remade([self.kernel.prepared(*steps)])

    @property
    def label(self) -> str:
        """A short name."""
        return f"{self.factor:.4g} * ({self.kernel.label})" if self._restricted() else super().label

    def _result(self, values: Any) -> Any:
        return self.factor * values

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        K = self.kernel._gram(left, right)
        K *= self.factor  # without the memory of another matrix
        return K

    def _features(self, table: Table) -> FloatArray | None:
        phi = self.kernel._features(table)
        return None if phi is None else math.sqrt(self.factor) * phi

    def _short(self, nested: bool = False) -> str:
        return f"{self.factor:.4g} * {self.kernel._short(nested=True)}"

    def __repr__(self) -> str:
        return f"{self.factor!r} * {self._inside()}"


@dataclass(frozen=True, repr=False)
class Prepared(Around):
    """A kernel of prepared columns, k(P(x), P(z)); usually written ``k.prepared("standardize")``.

    Parameters
    ----------
    kernel : Kernel
        Neither restricted to columns nor prepared itself.
    steps : tuple of steps
        What is done with the columns, in this order, as :meth:`Kernel.prepared` takes it. Their numbers, and those of
        the kernel, are computed from training rows when the kernel is fitted.

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

    def _fit(self, rows: TrainingRows) -> Kernel:
        steps, prepared = rows.after(self.steps)
        return Prepared(self.kernel.fitted_on(prepared), steps)

    @property
    def preparation(self) -> tuple[Step, ...]:
        """The steps, and those of the kernel itself."""
        return self.steps + self.kernel.preparation

    decay = _of_kernel("decay", "Gamma of a kernel of distances of prepared rows, see :class:`Kernel`.")

    @property
    def takes_missing(self) -> bool:
        """Whether a step fills missing cells or skips them."""
        return any(one.takes_missing for one in self.steps)

    @property
    def is_corrected(self) -> bool:
        """Whether missing cells are skipped, or the kernel inside is corrected."""
        return self.kernel.is_corrected or any(one.skips for one in self.steps)

    @property
    def is_linear(self) -> bool:
        """Whether the kernel is linear, and prepared columns are affine functions of columns."""
        return self.kernel.is_linear and all(isinstance(one, AffineStep) for one in self.steps)

    def _seen(self, table: Table) -> Table:
        for step in self.steps:
            table = step.apply(table.joined())
        return table

    def _features(self, table: Table) -> FloatArray | None:
        # sums over shared columns are not inner products
        return None if self.is_corrected else super()._features(table)

    def _holds_steps(self) -> bool:
        return True

    def _after(self, steps: tuple[Step, ...]) -> Kernel:
        return Prepared(self.kernel, self.steps + steps)

    def _short(self, nested: bool = False) -> str:
        words = ", ".join(one.word for one in self.steps)
        return f"{words} {self.kernel._short(nested=True)}"

    def __repr__(self) -> str:
        steps = (repr(v if isinstance(v := one.to_value(), str) else one) for one in self.steps)
        return f"{self._inside()}.prepared({', '.join(steps)})"


@dataclass(frozen=True, repr=False)
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

    # not that of kernels without a selection
    columns: Selection = field()
    name: str | None = None

    statistic: ClassVar[None] = None  # other kernels have other columns
    preparation: ClassVar[tuple[Step, ...]] = ()

    def __post_init__(self) -> None:
        kernel = is_kernel(self.kernel, "On")
        if kernel._restricted():
            raise InputError(
                f"A kernel can be restricted to columns once, got {kernel!r}, which is restricted already. "
                "Call `on` on the kernel inside, with these columns."
            )
        check_value(VIEW_NAME, "name", self.name, of="a view")
        set_fields(self, columns=freeze_columns(self.columns))

    def _fit(self, rows: TrainingRows) -> Kernel:
        return self.remade([self.kernel.fitted_on(rows.on(self.columns))])

    def _after(self, steps: tuple[Step, ...]) -> Kernel:
        return self.remade([self.kernel.prepared(*steps)])

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

    def _seen(self, table: Table) -> Table:
        return table.select(self.columns)

    def _restricted(self) -> bool:
        return True

    def _times(self, factor: float) -> Kernel:
        return self.remade([Scaled(self.kernel, factor)])

    def _short(self, nested: bool = False) -> str:
        return f"({self.label})" if nested else self.label

    def __repr__(self) -> str:
        name = "" if self.name is None else f", name={self.name!r}"
        columns = list(self.columns) if isinstance(self.columns, tuple) else self.columns
        return f"{self._inside()}.on({columns!r}{name})"


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


def steps_of(kernel: Kernel) -> Iterator[Step]:
    """The steps of a kernel and of the kernels inside of it."""
    if isinstance(kernel, Prepared):
        yield from kernel.steps
    for one in kernel.inner:
        yield from steps_of(one)


def on_views(kernel: Kernel) -> bool:
    """Whether all columns of a kernel are those of views."""
    if isinstance(kernel, On):
        return isinstance(kernel.columns, ViewColumns)
    parts = kernel.inner
    return bool(parts) and all(on_views(one) or isinstance(one, Constant) for one in parts)


def parts_of(
    kernel: Kernel, columns: Selection = None, name: str | None = None
) -> Iterator[tuple[Kernel, Selection, str | None]]:
    """The kernels inside of sums, products and selections, each with its columns and their name."""
    if isinstance(kernel, On):
        yield from parts_of(kernel.kernel, kernel.columns, kernel.name)
    elif isinstance(kernel, Terms | Scaled):
        for one in kernel.inner:
            yield from parts_of(one, columns, name)
    else:
        yield kernel, columns, name


def cells_read(kernel: Kernel) -> type | None:
    """The type of the cells that a kernel, or a term of it, reads: str of texts, object of others; None of numbers."""
    steps = (one for leaf, *_ in parts_of(kernel) for one in leaf.preparation)
    return next((one.reads_cells for one in steps if one.reads_cells is not None), None)


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
#: What a gamma may be, see `RBF`.
Gamma = float | str | tuple[str, float]


def with_gamma(kernels: Iterable[Kernel], gamma: Gamma, *, spread: bool = False) -> list[Kernel]:
    """Kernels that all have a given gamma in place of their own, where they have one as a width; equal ones once.

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
    factors = SPREAD if spread else (1.0,)
    return list(dict.fromkeys(_changed(one, _times(gamma, factor)) for one in kernels for factor in factors))


def has_gamma(kernel: Kernel) -> bool:
    """Whether a kernel, or a term of it, has a gamma that is a width."""
    return isinstance(kernel, Stationary) or any(map(has_gamma, kernel.inner))


def check_gamma(kernels: Iterable[Kernel]) -> None:
    """Raise if none of the kernels has a gamma."""
    if not any(map(has_gamma, kernels)):
        raise InputError(
            "`gamma` is for Gaussian and Laplacian kernels and others of a distance, and `kernels` has none. Leave "
            "`gamma` out, or add "
            "kw.kernels.RBF()."
        )


def _times(gamma: Gamma, factor: float) -> Gamma:
    if isinstance(gamma, float | int):
        return gamma * factor
    rule, own = (gamma, 1.0) if isinstance(gamma, str) else gamma
    return rule, own * factor


def _changed(kernel: Kernel, gamma: Gamma) -> Kernel:
    if isinstance(kernel, Stationary):
        return replace(kernel, gamma=gamma)
    return kernel.remade([_changed(one, gamma) for one in kernel.inner])
