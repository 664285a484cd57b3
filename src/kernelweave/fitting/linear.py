"""Linear kernels as sums over columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave.kernels import Kernel, Linear, Prepared, Scaled, Sum
from kernelweave.kernels.steps import AffineStep
from kernelweave.views import Table

Array = NDArray[np.float64]
Columns = NDArray[np.intp]

#: Numbers of unit vectors in memory at a time.
UNITS = 2**22


@dataclass(frozen=True, eq=False)
class LinearLayout:
    """Linear kernels as sums: kernel `owners[t]` has ``factors[t] (x - shifts[t]) (z - shifts[t])`` of `columns[t]`.

    Attributes
    ----------
    columns, owners : arrays of int, shape (n_terms,)
    factors, shifts : arrays of shape (n_terms,)
    """

    columns: Columns
    factors: Array
    shifts: Array
    owners: Columns

    def coefficients(
        self, weights: Array, dual_coef: Array, values: Array, probability: Array | None = None
    ) -> tuple[Array, float]:
        """A weighted sum of the kernels with coefficients, as a function of the columns.

        Parameters
        ----------
        weights : array of shape (n_kernels,)
            Weights of the raw kernels.
        dual_coef : array of shape (n_samples,)
        values : array or sparse array of shape (n_samples, n_columns)
            Training rows.
        probability : array of shape (n_samples,), optional
            Weights of rows, sum 1, if kernels are centred: a centred linear kernel is the kernel of centred columns.

        Returns
        -------
        coef : array of shape (n_columns,)
        shift : float
            ``f(x) = x . coef + shift``, without the intercept of the model.
        """
        centre = self.shifts if probability is None else (probability @ values)[self.columns]
        along = (dual_coef @ values)[self.columns] - float(dual_coef.sum()) * centre
        terms = weights[self.owners] * self.factors * along
        coef = np.zeros(values.shape[1])
        np.add.at(coef, self.columns, terms)
        return coef, -float(terms @ centre)


def linear_layout(
    kernels: Sequence[Kernel], selected: Sequence[Columns | None], table: Table
) -> LinearLayout:
    """All linear terms of linear kernels on a table, whose columns are selected already; None means all."""
    terms = []
    for m, (kernel, columns) in enumerate(zip(kernels, selected, strict=True)):
        for places, factor, shift in _terms(kernel, columns, table):
            terms.append((places, factor, shift, np.full(len(places), m)))
    columns, factors, shifts, owners = (np.concatenate(parts) for parts in zip(*terms, strict=True))
    return LinearLayout(columns, factors, shifts, owners)


def _terms(kernel: Kernel, selected: Columns | None, table: Table) -> Iterator[tuple[Columns, Array, Array]]:
    """Columns, factors and shifts of the terms of one linear kernel."""
    base = kernel.base
    own = np.arange(table.n_columns) if selected is None else selected
    if base == Linear():
        yield own, np.ones(len(own)), np.zeros(len(own))
    elif isinstance(base, Scaled):
        for columns, factor, shift in _terms(base.kernel, _selected(base.kernel, selected, table), table):
            yield columns, base.factor * factor, shift
    elif isinstance(base, Sum):
        for term in base.terms:
            yield from _terms(term, _selected(term, selected, table), table)
    elif isinstance(base, Prepared):
        shift, scale = np.zeros(len(own)), np.ones(len(own))
        for one in base.steps:
            assert isinstance(one, AffineStep)  # others do not give a linear kernel
            further, by = one.affine()
            shift, scale = shift + scale * further, scale * by
        for columns, factor, _ in _terms(base.kernel, selected, table):
            yield columns, factor / np.square(scale), shift
    else:
        yield own, _factors(base, own, table), np.zeros(len(own))


def _factors(kernel: Kernel, columns: Columns, table: Table) -> Array:
    """The factors of the columns of a custom linear kernel, from unit vectors."""
    n_columns = len(columns)
    factors = np.empty(n_columns)
    step = max(1, UNITS // table.n_columns)
    for first in range(0, n_columns, step):
        some = columns[first : first + step]
        units = np.zeros((len(some), table.n_columns))
        units[np.arange(len(some)), some] = 1.0
        factors[first : first + step] = kernel.diag(table.like(units).select(tuple(columns.tolist())))
    # rows in which products of different columns matter as much as those of the same
    rows = np.zeros((2, table.n_columns))
    rows[:, columns] = np.random.default_rng(0).normal(size=(2, n_columns))
    seen = table.like(rows).select(tuple(columns.tolist()))
    value = kernel(seen.rows([0]), seen.rows([1]))[0, 0]
    products = factors * rows[0, columns] * rows[1, columns]
    if abs(value - products.sum()) > 1e-8 * np.abs(products).sum():
        raise InputError(
            f"{kernel!r} is declared linear, so it must be a sum of products x_j z_j with a factor for each "
            "column, and it is not. Leave `is_linear` at False."
        )
    return factors


def _selected(term: Kernel, outer: Columns | None, table: Table) -> Columns | None:
    return outer if term.columns is None else table.resolve(term.columns)
