"""Kernel rows of a missing view, completed from the kernels of the other views, on arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: Ridges to try, as shares of the mean diagonal.
RIDGES = tuple(10.0 ** (k / 2) for k in range(-6, 4))


def mean_of_known(parts: Sequence[tuple[Rows, Rows, Array]], shape: tuple[int, int]) -> Array:
    """The mean over views of the known values of each pair; 0 without any.

    Parameters
    ----------
    parts : sequence of (rows, columns, array)
        For each view the positions of its values, and the values.
    shape : pair of int
    """
    total, count = np.zeros(shape), np.zeros(shape)
    for rows, columns, values in parts:
        where = np.ix_(rows, columns)
        total[where] += values
        count[where] += 1.0
    return np.divide(total, count, out=total, where=count > 0)


@dataclass(frozen=True)
class RowRegression:
    """Rows of one kernel K as a linear function of those of another, M, learnt on training rows T that have both.

    A row x that is known in M only is represented, in the feature space of K, by its regression: the sum of the
    training rows with the weights

        a(x) = M(x, T) (M_TT + r I)^-1 ,

    so that ``k(x, z) = a(x) K(T, z)``, and ``k(x, x') = a(x) K_TT a(x')'`` of two such rows. These are inner products,
    so that a completed matrix has no negative eigenvalues. r is chosen among `RIDGES` by the leave-one-out error of
    the rows of K_TT.

    Attributes
    ----------
    inverse : array of shape (n, n)
        ``(M_TT + r I)^-1``.
    ridge : float
    explained : float
        Share of the sum of squares of K_TT that is predicted by the other rows, at least 0.
    """

    inverse: Array
    ridge: float
    explained: float

    def weights(self, M: Array) -> Array:
        """a(x), shape (n_rows, n), from the values M (n_rows, n) with the rows T."""
        return M @ self.inverse


def regress_rows(M: Array, K: Array) -> RowRegression:
    """Learn rows of K from those of M; see :class:`RowRegression`.

    Parameters
    ----------
    M, K : arrays of shape (n, n)
        Positive semidefinite, on the same rows.

    Notes
    -----
    The leave-one-out error of row i is ``((M + r I)^-1 K)_i / ((M + r I)^-1)_ii``: the formula of ridge regression
    without an intercept. The value of a row with itself is not predicted, and is left out. O(n^3).
    """
    n = len(M)
    values, vectors = np.linalg.eigh(M)
    values = np.maximum(values, 0.0)
    unit = max(float(values.mean()), np.finfo(np.float64).tiny)
    turned, squares = vectors.T @ K, np.square(vectors)
    best, lowest = RIDGES[-1] * unit, np.inf
    for share in RIDGES:
        by = 1.0 / (values + share * unit)
        missed = (vectors @ (by[:, None] * turned)) / (squares @ by)[:, None]
        np.fill_diagonal(missed, 0.0)
        error = float(np.square(missed).sum())
        if error < lowest:
            best, lowest = share * unit, error
    apart = float(np.square(K).sum() - np.square(K.diagonal()).sum())
    inverse = (vectors / (values + best)) @ vectors.T
    explained = max(0.0, 1.0 - lowest / apart) if apart > 0 and n > 1 else 0.0
    return RowRegression(inverse, best, explained)


class ViewCompletion:
    """Positions of rows without a view among those with it, predicted from the other views.

    A row without view g and with the views P is placed by `RowRegression` from the mean kernel of P, learnt on the
    training rows that have P and g. If these are fewer than half of those with g and one view of P, every view of P
    predicts separately, and the mean is used, weighted by explained shares. With fewer than two rows to learn from, the
    row is placed at the mean of all rows with g.

    Parameters
    ----------
    rows : list of arrays of int
        For every view the training rows that have it, sorted.
    means : list of arrays of shape (n_rows, n_rows)
        The mean of the kernels of every view on these rows.
    n_samples : int
        All training rows.
    """

    def __init__(self, rows: list[Rows], means: list[Array], n_samples: int) -> None:
        self.rows, self.means, self.n_samples = rows, means, n_samples
        self.others = [np.setdiff1d(np.arange(n_samples), own) for own in rows]
        self._regressions: dict[tuple[tuple[int, ...], int], RowRegression] = {}
        self._onto: dict[int, Array] = {}

    def onto(self, g: int) -> Array:
        """Weights of the training rows that lack view g over those that have it, shape (n_others, n_rows)."""
        if g not in self._onto:
            self._onto[g] = self.places(g, self.others[g], self.rows, self.means)
        return self._onto[g]

    def completed(self, g: int, K: Array) -> Array:
        """A kernel of view g on all training rows, from its values on those that have the view."""
        out = np.empty((self.n_samples, self.n_samples))
        rows, others, onto = self.rows[g], self.others[g], self.onto(g)
        cross = onto @ K
        out[np.ix_(rows, rows)] = K
        out[np.ix_(others, rows)] = cross
        out[np.ix_(rows, others)] = cross.T
        inner = cross @ onto.T
        out[np.ix_(others, others)] = 0.5 * (inner + inner.T)
        return out

    def of_all(self, g: int, K: Array) -> Array:
        """Values of new rows with all training rows, from those with the training rows that have view g."""
        out = np.empty((len(K), self.n_samples))
        out[:, self.rows[g]] = K
        if len(self.others[g]):
            out[:, self.others[g]] = K @ self.onto(g).T
        return out

    def places(self, g: int, absent: Rows, there: Sequence[Rows], means: Sequence[Array]) -> Array:
        """Weights over the training rows that have view g, of rows that lack it.

        Parameters
        ----------
        g : int
        absent : array of int
            Rows to place.
        there : sequence of arrays of int
            For every view the rows with it.
        means : sequence of arrays of shape (n_there, n_rows)
            Mean kernels of every view between these and its training rows.

        Returns
        -------
        array of shape (n_absent, n_rows)
        """
        out = np.zeros((len(absent), len(self.rows[g])))
        has = np.array([np.isin(absent, rows) for rows in there]).T
        patterns, which = np.unique(has, axis=0, return_inverse=True)
        for p, pattern in enumerate(patterns if len(absent) else ()):
            own = np.flatnonzero(which.reshape(-1) == p)
            known = {
                h: means[h][np.searchsorted(there[h], absent[own])] for h in np.flatnonzero(pattern).tolist()
            }
            out[own] = self._place(g, known, len(own))
        return out

    def _place(self, g: int, known: Mapping[int, Array], count: int) -> Array:
        """The same for rows that have the same views."""
        n, every = len(self.rows[g]), tuple(sorted(known))
        sizes = {h: len(self._common((h,), g)) for h in every}
        most = max(sizes.values(), default=0)
        if most < 2:
            return np.full((count, n), 1.0 / n)
        ways = [every] if 2 * len(self._common(every, g)) >= most else [(h,) for h in every if sizes[h] >= 2]
        out, total = np.zeros((count, n)), 0.0
        learnt = [self._regression(way, g) for way in ways]
        alike = not any(one.explained for one in learnt)
        for way, one in zip(ways, learnt, strict=True):
            share = 1.0 if alike else one.explained
            common, M = self._common(way, g), np.zeros(())
            for h in way:
                M = M + known[h][:, np.searchsorted(self.rows[h], common)] / len(way)
            out[:, np.searchsorted(self.rows[g], common)] += share * one.weights(M)
            total += share
        return out / total

    def _common(self, way: tuple[int, ...], g: int) -> Rows:
        """Training rows that have some views and view g."""
        rows = self.rows[g]
        for h in way:
            rows = np.intersect1d(rows, self.rows[h], assume_unique=True)
        return rows

    def _regression(self, way: tuple[int, ...], g: int) -> RowRegression:
        """The regression of rows of view g on those of other views."""
        if (way, g) not in self._regressions:
            common = self._common(way, g)
            M, K = np.zeros((2, len(common), len(common)))
            for h in way:
                own = np.searchsorted(self.rows[h], common)
                M += self.means[h][np.ix_(own, own)] / len(way)
            own = np.searchsorted(self.rows[g], common)
            K[:] = self.means[g][np.ix_(own, own)]
            self._regressions[way, g] = regress_rows(M, K)
        return self._regressions[way, g]
