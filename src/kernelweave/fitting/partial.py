"""Rows without a view, in training and among new rows: kernel values completed from those of the other views."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._loops import packed_length
from kernelweave.fitting.correction import Correction, correct
from kernelweave.fitting.missing import Mask, ViewPlaces, missing_cells, refuse_missing, rows_with, seen_by
from kernelweave.fitting.source import CHUNK_BYTES, TableSource
from kernelweave.gram import Gram
from kernelweave.gram.building import Builder
from kernelweave.kernels import Kernel
from kernelweave.views import BlockTable, Table
from kernelweave.views.selection import listing

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


@dataclass(frozen=True)
class Part:
    """Kernels of the same views.

    Attributes
    ----------
    views : tuple of str
    kernels : array of int
        Their positions among all kernels.
    rows : array of int
        Training rows that have these views.
    source : TableSource
        Source of these kernels and rows.
    """

    views: tuple[str, ...]
    kernels: Rows
    rows: Rows
    source: TableSource


@dataclass(frozen=True)
class Levels:
    """Of kernels, on the training rows that have them: mean of all values, of the diagonal, and their difference."""

    level: Array
    diagonal: Array
    spread: Array


class PartialSource(TableSource):
    """Kernels on views that are missing in some rows.

    If all training rows have all views it is equivalent to a `TableSource`, and only new rows may lack some.

    Parameters
    ----------
    kernels, table, max_memory, rank_tol, standardize, sample_weight, statistics, like, rules, imputer, fillers
        See `TableSource`. In a table of one block the views are groups of columns.
    explicit : bool
        See `TableSource`; only if all rows have all views.
    views : dict of str to tuple of int, or None
        See `views_of`.
    how : {"renormalize", "complete"}
        How the kernels of a view are completed for rows without it.
    learnt : list of (statistics, fillers), optional
        Statistics of every part, if kernels are fitted on these rows already.

    Notes
    -----
    "renormalize": a missing value is replaced by the mean, over the views that both rows have, of their values,
    each in units of its own kernel: ``(k - a_m) / b_m`` with a_m the mean of kernel m over pairs of training rows and
    b_m its mean diagonal less a_m. The sum of kernels is then that of the views that both rows have, with the weights
    of the others divided among these. Such matrices need not be positive semidefinite: negative
    eigenvalues are set to zero, and values of new rows are projected likewise.

    "complete": rows of kernels that are not there are predicted from the mean kernel of the views that are, by ridge
    regression on training rows that have both, see `RowRegression`. If rows with all these views are fewer than half of
    those with one of them, every view predicts for itself, and the mean is taken, weighted by what each explains of
    rows that are left out. No correction is needed.
    """

    def __init__(
        self,
        kernels: Sequence[Kernel],
        table: Table,
        *,
        views: ViewPlaces,
        how: str,
        learnt: list[Any] | None = None,
        like: TableSource | None = None,
        **options: Any,
    ) -> None:
        self.views, self.how = dict(views), how
        self.present = rows_with(table, views)
        self.parts: list[Part] = []
        self._asked: tuple[weakref.ref[Table], list[Rows]] | None = None
        self._given = list(kernels)
        groups: dict[tuple[str, ...], list[int]] = {}
        for m, kernel in enumerate(kernels):
            groups.setdefault(seen_by(kernel, views), []).append(m)
        self._members = {key: np.array(members) for key, members in groups.items()}
        if all(self.present[view].all() for key in groups for view in key):
            super().__init__(kernels, table, like=like, **options)
            return
        self._fit_parts(table, learnt, like, **options)

    def _fit_parts(
        self,
        table: Table,
        learnt: list[Any] | None,
        like: TableSource | None,
        *,
        sample_weight: Array | None = None,
        rules: list[Kernel] | None = None,
        statistics: Any = None,
        fillers: Any = None,
        explicit: bool = False,
        **options: Any,
    ) -> None:
        self.raw = self.table = table
        for name, value in {"standardize": False, "imputer": None, **options}.items():
            setattr(self, name, value)
        self.sample_weight = sample_weight
        self.statistics = self.fillers = None
        self.n_samples = table.n_rows
        self._corrections: dict[int, Correction | None] = {}
        self._check_rows(self.present, table.n_rows)
        fitted: list[Kernel] = list(self._given)
        for k, (key, members) in enumerate(self._members.items()):
            there = self._there(self.present, key, table.n_rows)
            rows = np.flatnonzero(there)
            if not len(rows):
                what = f"View {key[0]!r}" if len(key) == 1 else f"Some of the views {listing(list(key))}"
                raise InputError(
                    f"{what} is missing in all {table.n_rows} training rows. Leave it out, or take more rows (of "
                    "folds, fewer)."
                )
            known = (None, None) if learnt is None else learnt[k]
            source = TableSource(
                [self._given[m] for m in members],
                self._part_table(table, key).rows(rows),
                sample_weight=None if sample_weight is None else sample_weight[rows],
                statistics=known[0],
                fillers=known[1],
                **options,
            )
            self.parts.append(Part(key, members, rows, source))
            for m, kernel in zip(members, source.kernels, strict=True):
                fitted[m] = kernel
        self.kernels = fitted
        self.rules = rules if rules is not None else list(self._given)
        self.names = tuple(kernel.label for kernel in fitted) if like is None else like.names
        self._columns = [None] * len(fitted)

    @property
    def learnt(self) -> list[Any]:
        """Statistics and fillers of every part, see the parameter."""
        return [(part.source.statistics, part.source.fillers) for part in self.parts]

    @property
    def is_whole(self) -> bool:
        """Whether all training rows have all views."""
        return not self.parts

    @property
    def takes_missing(self) -> bool:
        """See `TableSource.takes_missing`."""
        return self.imputer is not None or super().takes_missing

    @property
    def may_hold_nan(self) -> bool:
        """See `TableSource.may_hold_nan`."""
        return True

    def accepted(self, queries: Table) -> Table:
        """See `TableSource.accepted`; raises, too, for rows that lack all views."""
        present = rows_with(queries, self.views)
        self._check_rows(present, queries.n_rows)
        if not self.takes_missing:
            cells = missing_cells(queries, self.views)
            refuse_missing({name: lost for name, (lost, _) in cells.items()}, queries.n_rows)
        return queries

    def __getstate__(self) -> dict[str, Any]:
        """All attributes but matrices, which are recomputed when needed."""
        computed = ("_training_parts", "_grams", "_means", "_mean_of_known", "_completion")
        return {k: v for k, v in self.__dict__.items() if k not in computed} | {"_asked": None}

    def _check_rows(self, present: Mapping[str, Mask], n_rows: int) -> None:
        if () in self._members:
            return
        lost = np.flatnonzero(~np.any(list(present.values()), axis=0))
        if len(lost):
            raise InputError(
                f"Every row must have one view at least, but {len(lost)} of {n_rows} rows lack all of "
                f"{listing(list(present))}, the first is row {lost[0]}. Drop these rows."
            )

    @staticmethod
    def _there(present: Mapping[str, Mask], views: tuple[str, ...], n_rows: int) -> Mask:
        return np.all([present[view] for view in views], axis=0) if views else np.ones(n_rows, dtype=bool)

    def _part_table(self, table: Table, views: tuple[str, ...]) -> Table:
        if not isinstance(table, BlockTable):
            return table
        return BlockTable({view: table.blocks[view] for view in views})

    def _rows_of(self, part: Part, table: Table, rows: Rows) -> Table:
        """Some queries, for the source of a part."""
        return (table if self.is_whole else self._part_table(table, part.views)).rows(rows)

    def _options(self) -> dict[str, Any]:
        """See `TableSource`."""
        return super()._options() | {"views": self.views, "how": self.how}

    # ---- training ---------------------------------------------------------------------------------

    def gram(self) -> Gram:
        """See `Source.gram`."""
        if self.is_whole:
            return super().gram()
        n, needed = self.n_samples, 8.0 * packed_length(self.n_samples) * (2 * self.n_kernels + 6)
        if needed > self.max_memory:
            raise InputError(
                f"Kernels of views that rows lack are held as whole matrices, which takes {needed / 2**30:.3g} GiB, "
                f"got max_memory={self.max_memory / 2**30:.3g} GiB. Allow more, or leave rows out."
            )
        builder = Builder(n, self.n_kernels)
        upper = np.triu_indices(n)
        for m, K in self._filled_kernels():
            builder.triangles(1)[0] = K[upper]
            builder.keep_triangles([m], tol=self.rank_tol)
        return builder.finish()

    def _filled_kernels(self) -> Iterator[tuple[int, Array]]:
        """Every kernel on all training rows."""
        for g, part in enumerate(self._training_parts):
            for k, m in enumerate(part.kernels):
                K = self._matrix(g, k)
                if self.how == "complete":
                    full = self._completion.completed(g, K)
                else:
                    full = self._raised(g, k, self._mean_of_known)
                    full[np.ix_(part.rows, part.rows)] = K
                    full, self._corrections[int(m)] = correct(full)
                yield int(m), full

    def _raised(self, g: int, k: int, mean: Array) -> Array:
        """Values in units of their kernels as those of one kernel."""
        return self._levels[g].level[k] + self._levels[g].spread[k] * mean

    @cached_property
    def _training_parts(self) -> list[Part]:
        """The parts; if all training rows have all views, of kernels that were fitted on these."""
        if self.parts:
            return self.parts
        every = np.arange(self.n_samples)
        known = self._options() | {"explicit": False, "statistics": self.statistics, "fillers": self.fillers}
        options = {name: value for name, value in known.items() if name not in ("views", "how")}
        return [
            Part(key, own, every, TableSource([self.kernels[m] for m in own], self.raw, **options))
            for key, own in self._members.items()
        ]

    @cached_property
    def _grams(self) -> list[Gram]:
        return [part.source.gram() for part in self._training_parts]

    def _matrix(self, g: int, k: int) -> Array:
        """The raw matrix of kernel k of a part."""
        gram = self._grams[g]
        return gram.combine(np.eye(1, gram.n_kernels, k)[0])

    @cached_property
    def _levels(self) -> list[Levels]:
        found = []
        for g, part in enumerate(self._training_parts):
            p = np.ones(len(part.rows)) if self.sample_weight is None else self.sample_weight[part.rows]
            p = p / p.sum()
            level, diagonal = np.empty((2, len(part.kernels)))
            for k in range(len(part.kernels)):
                K = self._matrix(g, k)
                level[k], diagonal[k] = p @ K @ p, p @ K.diagonal()
            spread = diagonal - level
            spread = np.where(spread > 1e-10 * np.abs(diagonal), spread, 0.0)
            found.append(Levels(level, np.where(diagonal > 0, diagonal, 1.0), spread))
        return found

    def _mean_kernel(self, g: int, values: Iterator[Array] | Sequence[Array]) -> Array:
        """The mean of kernels of a part in the units that `how` compares them in."""
        own, total, count = self._levels[g], np.zeros(()), 0
        for k, K in enumerate(values):
            if self.how == "complete":
                total, count = total + K / own.diagonal[k], count + 1
            elif own.spread[k] > 0:
                total, count = total + (K - own.level[k]) / own.spread[k], count + 1
        return total / max(count, 1)

    @cached_property
    def _means(self) -> list[Array]:
        """The mean kernel of every part on its training rows."""
        return [
            self._mean_kernel(g, (self._matrix(g, k) for k in range(len(part.kernels))))
            for g, part in enumerate(self._training_parts)
        ]

    @cached_property
    def _mean_of_known(self) -> Array:
        parts = [(p.rows, p.rows, K) for p, K in zip(self._training_parts, self._means, strict=True)]
        return mean_of_known(parts, (self.n_samples, self.n_samples))

    @cached_property
    def _completion(self) -> ViewCompletion:
        return ViewCompletion([part.rows for part in self._training_parts], self._means, self.n_samples)

    def correction(self, m: int) -> Correction | None:
        """See `TableSource.correction`."""
        if self.is_whole:
            return super().correction(m)
        if self.how == "complete":
            return None
        if m not in self._corrections:
            for _ in self._filled_kernels():
                pass
        return self._corrections[m]

    def corrections(self) -> dict[str, Correction]:
        """See `TableSource.corrections`."""
        found = super().corrections()
        for part in self.parts:
            if self.how == "complete":
                found |= part.source.corrections()
        return found

    # ---- prediction -------------------------------------------------------------------------------

    def _query_parts(self, queries: Table) -> list[Rows]:
        """For every part the queries that have its views."""
        if self._asked is None or self._asked[0]() is not queries:
            # several kernels ask about the same rows
            present = rows_with(queries, self.views)
            there = [self._there(present, part.views, queries.n_rows) for part in self._training_parts]
            self._asked = weakref.ref(queries), [np.flatnonzero(rows) for rows in there]
        return self._asked[1]

    def lacks(self, queries: Table) -> bool:
        """Whether a query, or a training row, lacks a view."""
        return not self.is_whole or any(len(rows) < queries.n_rows for rows in self._query_parts(queries))

    def feature_maps(self, m: int, queries: Table) -> tuple[Array, Array] | None:
        """See `Source.feature_maps`."""
        return None if self.lacks(queries) else super().feature_maps(m, queries)

    def cross(self, queries: Table, kernels: Rows) -> Iterator[tuple[slice, int, Array]]:
        """See `Source.cross`."""
        if not self.lacks(queries):
            yield from super().cross(queries, kernels)
            return
        step = max(1, int(4 * CHUNK_BYTES / (8.0 * self.n_samples * (self.n_kernels + 4))))
        for start in range(0, queries.n_rows, step):
            where = slice(start, min(start + step, queries.n_rows))
            table = queries.rows(np.arange(where.start, where.stop))
            for m, K in self._cross_of(table, kernels):
                yield where, m, K

    def _cross_of(self, table: Table, kernels: Rows, *, project: bool = True) -> Iterator[tuple[int, Array]]:
        """Values of a few queries, some of which lack a view; `project` as the training matrix was corrected."""
        there = self._query_parts(table)
        known = [
            self._known_cross(part, table, rows)
            for part, rows in zip(self._training_parts, there, strict=True)
        ]
        means = [self._mean_kernel(g, values) for g, values in enumerate(known)]
        wanted = set(map(int, kernels))
        if self.how == "complete":
            yield from self._fill_complete(table.n_rows, there, known, means, wanted)
            return
        for m, K in self._fill_mean(table.n_rows, there, known, means, wanted):
            yield m, self._projected(m, K) if project and not self.is_whole else K

    def _known_cross(self, part: Part, table: Table, rows: Rows) -> list[Array]:
        """Values of the kernels of a part between the queries and the training rows that have its views."""
        out = [np.zeros((len(rows), len(part.rows))) for _ in part.kernels]
        if len(rows):
            own = self._rows_of(part, table, rows)
            for where, k, K in part.source.cross(own, np.arange(len(part.kernels))):
                out[k][where] = K
        return out

    def _fill_mean(
        self,
        n_queries: int,
        there: list[Rows],
        known: list[list[Array]],
        means: list[Array],
        kernels: set[int],
    ) -> Iterator[tuple[int, Array]]:
        parts = self._training_parts
        placed = [(rows, part.rows, K) for rows, part, K in zip(there, parts, means, strict=True)]
        mean = mean_of_known(placed, (n_queries, self.n_samples))
        for g, part in enumerate(parts):
            for k, m in enumerate(part.kernels):
                if int(m) in kernels:
                    full = self._raised(g, k, mean)
                    full[np.ix_(there[g], part.rows)] = known[g][k]
                    yield int(m), full

    def _fill_complete(
        self,
        n_queries: int,
        there: list[Rows],
        known: list[list[Array]],
        means: list[Array],
        kernels: set[int],
    ) -> Iterator[tuple[int, Array]]:
        for g, part in enumerate(self._training_parts):
            if not kernels & set(part.kernels.tolist()):
                continue
            absent = np.setdiff1d(np.arange(n_queries), there[g])
            places = self._completion.places(g, absent, there, means)
            for k, m in enumerate(part.kernels):
                if int(m) not in kernels:
                    continue
                own = np.empty((n_queries, len(part.rows)))
                own[there[g]] = known[g][k]
                own[absent] = places @ self._matrix(g, k)
                yield int(m), self._completion.of_all(g, own)

    def query_diagonal(self, queries: Table, m: int) -> Array:
        """See `Source.query_diagonal`."""
        if not self.lacks(queries):
            return super().query_diagonal(queries, m)
        there, parts = self._query_parts(queries), self._training_parts
        g = next(g for g, part in enumerate(parts) if m in part.kernels)
        k = int(np.flatnonzero(parts[g].kernels == m)[0])
        known = [self._known_diagonals(part, queries, rows) for part, rows in zip(parts, there, strict=True)]
        out = np.zeros(queries.n_rows)
        out[there[g]] = known[g][k]
        absent = np.setdiff1d(np.arange(queries.n_rows), there[g])
        if self.how == "complete":
            if len(absent):
                cross = [self._known_cross(p, queries, rows) for p, rows in zip(parts, there, strict=True)]
                means = [self._mean_kernel(h, values) for h, values in enumerate(cross)]
                places = self._completion.places(g, absent, there, means)
                out[absent] = np.einsum("ij,ij->i", places @ self._matrix(g, k), places)
            return out
        if len(absent):
            first = np.array([0])
            means = [self._mean_kernel(h, values)[:, None] for h, values in enumerate(known)]
            placed = [(rows, first, K) for rows, K in zip(there, means, strict=True)]
            out[absent] = self._raised(g, k, mean_of_known(placed, (queries.n_rows, 1))[:, 0])[absent]
        correction = None if self.is_whole else self.correction(m)
        if correction is not None:
            [(_, K)] = self._cross_of(queries, np.array([m]), project=False)
            out += correction.beyond(K)
        return out

    def _known_diagonals(self, part: Part, table: Table, rows: Rows) -> list[Array]:
        if not len(rows):
            return [np.zeros(0) for _ in part.kernels]
        own = self._rows_of(part, table, rows)
        return [part.source.query_diagonal(own, k) for k in range(len(part.kernels))]
