"""Rows without a view, in training and among new rows: kernel values completed from those of the other views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError
from kernelweave._loops import packed_length
from kernelweave.fitting.missing import Mask, ViewPlaces, missing_cells, refuse_missing, rows_with, seen_by
from kernelweave.fitting.source import CHUNK_BYTES, Correction, TableSource, correct
from kernelweave.gram import Gram
from kernelweave.gram.building import COMPRESSION, Builder
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


def regress_rows(M: Array, K: Array) -> tuple[Array, float]:
    """Learn rows of one kernel K as a linear function of those of another, M, on training rows T that have both.

    A row x that is known in M only is represented, in the feature space of K, by its regression: the sum of the
    training rows with the weights

        a(x) = M(x, T) (M_TT + r I)^-1 ,

    so that ``k(x, z) = a(x) K(T, z)``, and ``k(x, x') = a(x) K_TT a(x')'`` of two such rows. These are inner products,
    so that a completed matrix has no negative eigenvalues. r is chosen among `RIDGES` by the leave-one-out error of
    the rows of K_TT.

    Parameters
    ----------
    M, K : arrays of shape (n, n)
        Positive semidefinite, on the same rows.

    Returns
    -------
    inverse : array of shape (n, n)
        ``(M_TT + r I)^-1``.
    explained : float
        Share of the sum of squares of K_TT that is predicted by the other rows, at least 0.

    Notes
    -----
    The leave-one-out error of row i is ``((M + r I)^-1 K)_i / ((M + r I)^-1)_ii``: the formula of ridge regression
    without an intercept. The value of a row with itself is not predicted, and is left out. O(n^3).
    """
    n = len(M)
    values, vectors = np.linalg.eigh(M)
    values = np.maximum(values, 0.0)
    # a kernel of zeros predicts zeros at any ridge
    unit = float(values.mean()) or 1.0
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
    explained = max(0.0, 1.0 - lowest / apart) if apart > 0 and n > 1 else 0.0
    return (vectors / (values + best)) @ vectors.T, explained


class ViewCompletion:
    """Positions of rows without a view among those with it, predicted from the other views.

    A row without view g and with the views P is placed by `regress_rows` from the mean kernel of P, learnt on the
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
        self._learnt: dict[tuple[tuple[int, ...], int], tuple[Rows, Array, float]] = {}
        self._onto: dict[int, tuple[Rows, Array]] = {}

    def onto(self, g: int) -> tuple[Rows, Array]:
        """The training rows that lack view g, and their weights over those that have it."""
        if g not in self._onto:
            others = np.setdiff1d(np.arange(self.n_samples), self.rows[g])
            self._onto[g] = others, self.places(g, others, self.rows, self.means)
        return self._onto[g]

    def completed(self, g: int, K: Array) -> Array:
        """A kernel of view g on all training rows, from its values on those that have the view."""
        out, rows, (others, onto) = np.empty((self.n_samples, self.n_samples)), self.rows[g], self.onto(g)
        cross = onto @ K
        inner = cross @ onto.T
        out[np.ix_(rows, rows)] = K
        out[np.ix_(others, rows)] = cross
        out[np.ix_(rows, others)] = cross.T
        out[np.ix_(others, others)] = 0.5 * (inner + inner.T)
        return out

    def of_all(self, g: int, K: Array) -> Array:
        """Values of new rows with all training rows, from those with the training rows that have view g."""
        others, onto = self.onto(g)
        out = np.empty((len(K), self.n_samples))
        out[:, self.rows[g]] = K
        out[:, others] = K @ onto.T
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
        if not len(absent):
            return out
        has = np.array([np.isin(absent, rows) for rows in there]).T
        patterns, which = np.unique(has, axis=0, return_inverse=True)
        for p, pattern in enumerate(patterns):
            own = np.flatnonzero(which.reshape(-1) == p)
            every = tuple(np.flatnonzero(pattern).tolist())
            known = {h: means[h][np.searchsorted(there[h], absent[own])] for h in every}
            out[own] = self._place(g, known, len(own))
        return out

    def _place(self, g: int, known: Mapping[int, Array], count: int) -> Array:
        """The same for rows that have the same views."""
        n, every = len(self.rows[g]), tuple(known)
        sizes = {h: len(self._common((h,), g)) for h in every}
        most = max(sizes.values(), default=0)
        if most < 2:
            return np.full((count, n), 1.0 / n)
        ways = [every] if 2 * len(self._common(every, g)) >= most else [(h,) for h in every if sizes[h] >= 2]
        learnt = [self._regression(way, g) for way in ways]
        shares = [explained for *_, explained in learnt]
        if not any(shares):
            shares = [1.0] * len(ways)
        out = np.zeros((count, n))
        for way, (common, inverse, _), share in zip(ways, learnt, shares, strict=True):
            M = sum(known[h][:, np.searchsorted(self.rows[h], common)] / len(way) for h in way)
            out[:, np.searchsorted(self.rows[g], common)] += share * (M @ inverse)
        return out / sum(shares)

    def _common(self, way: tuple[int, ...], g: int) -> Rows:
        """Training rows that have some views and view g."""
        return reduce(
            lambda rows, h: np.intersect1d(rows, self.rows[h], assume_unique=True), way, self.rows[g]
        )

    def _regression(self, way: tuple[int, ...], g: int) -> tuple[Rows, Array, float]:
        """The rows that have some views and view g, and the regression of rows of g on those of the others."""
        if (way, g) not in self._learnt:
            common = self._common(way, g)

            def among(h: int) -> Array:
                own = np.searchsorted(self.rows[h], common)
                return self.means[h][np.ix_(own, own)]

            M = sum((among(h) / len(way) for h in way), np.zeros(()))
            self._learnt[way, g] = common, *regress_rows(M, among(g))
        return self._learnt[way, g]


@dataclass(frozen=True, eq=False)
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


@dataclass(frozen=True, eq=False)
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
    regression on training rows that have both, see `regress_rows`. If rows with all these views are fewer than half of
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
        groups: dict[tuple[str, ...], list[int]] = {}
        for m, kernel in enumerate(kernels):
            groups.setdefault(seen_by(kernel, views), []).append(m)
        self._members = {key: np.array(members) for key, members in groups.items()}
        self.is_whole = all(self.present[view].all() for key in groups for view in key)
        if self.is_whole:
            super().__init__(kernels, table, like=like, **options)
        else:
            self._fit_parts(kernels, table, learnt, like, options)

    def _fit_parts(
        self,
        kernels: Sequence[Kernel],
        table: Table,
        learnt: list[Any] | None,
        like: TableSource | None,
        given: dict[str, Any],
    ) -> None:
        options: dict[str, Any] = {"rank_tol": COMPRESSION, "standardize": False, "imputer": None}
        options |= {name: value for name, value in given.items() if name in (*options, "max_memory")}
        vars(self).update(options)
        self.raw = self.table = table
        self.sample_weight = sample_weight = given.get("sample_weight")
        self.targets = targets = given.get("targets")
        self.statistics = self.fillers = None
        self.n_samples = table.n_rows
        self._corrections: dict[int, Correction | None] = {}
        self._fitted_on: dict[bytes, list[Kernel]] = {}
        self._check_rows(self.present, table.n_rows)
        fitted: list[Kernel] = list(kernels)
        for k, (key, members) in enumerate(self._members.items()):
            rows = np.flatnonzero(self._there(self.present, key, table.n_rows))
            if not len(rows):
                what = (
                    f"View {key[0]!r} is" if len(key) == 1 else f"Some of the views {listing(list(key))} are"
                )
                where, remedy = (
                    ("training rows", "Leave it out, or take more rows.")
                    if like is None
                    else (
                        "training rows of a fold, as few rows have it",
                        "Leave it out, use fewer folds, or set alpha or C, for which no folds are needed.",
                    )
                )
                raise InputError(f"{what} missing in all {table.n_rows} {where}. {remedy}")
            known = (None, None) if learnt is None else learnt[k]
            source = TableSource(
                [kernels[m] for m in members],
                self._rows_of(key, table, rows),
                sample_weight=None if sample_weight is None else sample_weight[rows],
                targets=None if targets is None else targets[rows],
                statistics=known[0],
                fillers=known[1],
                **options,
            )
            self.parts.append(Part(key, members, rows, source))
            for m, kernel in zip(members, source.kernels, strict=True):
                fitted[m] = kernel
        self.kernels = fitted
        self.rules = given.get("rules") or list(kernels)
        # on fewer rows, all of which have all views, the columns are needed
        self._name(table, like)

    @property
    def learnt(self) -> list[Any]:
        """Statistics and fillers of every part, see the parameter."""
        return [(part.source.statistics, part.source.fillers) for part in self.parts]

    @property
    def may_hold_nan(self) -> bool:
        """See `TableSource.may_hold_nan`."""
        return True

    def accepted(self, queries: Table) -> Table:
        """See `TableSource.accepted`; raises, too, for rows that lack all views."""
        self._check_rows(rows_with(queries, self.views), queries.n_rows)
        if not self.takes_missing:
            cells = missing_cells(queries, self.views)
            refuse_missing({name: lost for name, (lost, _) in cells.items()}, queries.n_rows)
        return queries

    def __getstate__(self) -> dict[str, Any]:
        """All attributes but matrices, which are recomputed when needed."""
        computed = (
            "_training_parts",
            "_grams",
            "_means",
            "_mean_of_known",
            "_completion",
            "_asked",
            "_placed",
        )
        return {k: v for k, v in self.__dict__.items() if k not in computed}

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

    def _rows_of(self, views: tuple[str, ...], table: Table, rows: Rows) -> Table:
        """Some rows, with the columns that the source of a part was made with."""
        if isinstance(table, BlockTable) and not self.is_whole:
            table = BlockTable({view: table.blocks[view] for view in views})
        return table.rows(rows)

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
            for k, m in enumerate(part.kernels.tolist()):
                K = self._matrix(g, k)
                if self.how == "complete":
                    yield m, self._completion.completed(g, K)
                    continue
                full = self._raised(g, k, self._mean_of_known)
                full[np.ix_(part.rows, part.rows)] = K
                full, self._corrections[m] = correct(full)
                yield m, full

    def _raised(self, g: int, k: int, mean: Array) -> Array:
        """Values in units of their kernels as those of one kernel."""
        return self._levels[g].level[k] + self._levels[g].spread[k] * mean

    @cached_property
    def _training_parts(self) -> list[Part]:
        """The parts; if all training rows have all views, of kernels that were fitted on these."""
        if self.parts:
            return self.parts
        every = np.arange(self.n_samples)
        options = super()._options() | {
            "explicit": False,
            "statistics": self.statistics,
            "fillers": self.fillers,
        }
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

    def _mean_kernel(self, g: int, values: Iterable[Array]) -> Array:
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
        """See `TableSource.corrections`; those of filled matrices, too."""
        if self.is_whole:
            return super().corrections()
        if self.how == "complete":
            return {name: one for part in self.parts for name, one in part.source.corrections().items()}
        found = {name: self.correction(m) for m, name in enumerate(self.names)}
        return {name: one for name, one in found.items() if one is not None}

    # ---- prediction -------------------------------------------------------------------------------

    # several kernels ask about the same rows
    @cached_property
    def _asked(self) -> WeakKeyDictionary[Table, list[Rows]]:
        return WeakKeyDictionary()

    @cached_property
    def _placed(self) -> WeakKeyDictionary[Table, list[Array]]:
        return WeakKeyDictionary()

    def _query_parts(self, queries: Table) -> list[Rows]:
        """For every part the queries that have its views."""
        if queries not in self._asked:
            present = rows_with(queries, self.views)
            there = [self._there(present, part.views, queries.n_rows) for part in self._training_parts]
            self._asked[queries] = [np.flatnonzero(rows) for rows in there]
        return self._asked[queries]

    def _query_means(self, queries: Table) -> list[Array]:
        """For every part the mean of its kernels between the queries that have its views and its training rows."""
        if queries not in self._placed:
            self._placed[queries] = self._known(queries)[3]
        return self._placed[queries]

    def lacks(self, queries: Table) -> bool:
        """Whether a query, or a training row, lacks a view."""
        return not self.is_whole or any(len(rows) < queries.n_rows for rows in self._query_parts(queries))

    def cross(self, queries: Table, kernels: Rows) -> Iterator[tuple[slice, int, Array]]:
        """See `Source.cross`."""
        if not self.lacks(queries):
            yield from super().cross(queries, kernels)
            return
        step = max(1, int(4 * CHUNK_BYTES / (8.0 * self.n_samples * (self.n_kernels + 4))))
        for start in range(0, queries.n_rows, step):
            where = slice(start, min(start + step, queries.n_rows))
            table = queries.rows(np.arange(where.start, where.stop))
            for m, K in self._cross_of(table, set(map(int, kernels))):
                yield where, m, K if self.is_whole else self._projected(m, K)

    def _cross_of(self, table: Table, kernels: set[int]) -> Iterator[tuple[int, Array]]:
        """Values of a few queries, some of which lack a view, before they are projected as training matrices were."""
        parts, there, known, means = self._known(table)
        if self.how != "complete":
            placed = [(rows, part.rows, K) for rows, part, K in zip(there, parts, means, strict=True)]
            mean = mean_of_known(placed, (table.n_rows, self.n_samples))
        for g, part in enumerate(parts):
            if not kernels & set(part.kernels.tolist()):
                continue
            if self.how == "complete":
                absent = np.setdiff1d(np.arange(table.n_rows), there[g])
                places = self._completion.places(g, absent, there, means)
            for k, m in enumerate(part.kernels.tolist()):
                if m not in kernels:
                    continue
                if self.how == "complete":
                    own = np.empty((table.n_rows, len(part.rows)))
                    own[there[g]] = known[g][k]
                    own[absent] = places @ self._matrix(g, k)
                    yield m, self._completion.of_all(g, own)
                else:
                    full = self._raised(g, k, mean)
                    full[np.ix_(there[g], part.rows)] = known[g][k]
                    yield m, full

    def _known(self, table: Table) -> tuple[list[Part], list[Rows], list[list[Array]], list[Array]]:
        """The parts; for each the queries that have its views, their values with its training rows, and their mean."""
        parts, there = self._training_parts, self._query_parts(table)
        known = []
        for part, rows in zip(parts, there, strict=True):
            values = [np.zeros((len(rows), len(part.rows))) for _ in part.kernels]
            if len(rows):
                own = self._rows_of(part.views, table, rows)
                for where, k, K in part.source.cross(own, np.arange(len(part.kernels))):
                    values[k][where] = K
            known.append(values)
        return parts, there, known, [self._mean_kernel(g, values) for g, values in enumerate(known)]

    def query_diagonal(self, queries: Table, m: int) -> Array:
        """See `Source.query_diagonal`."""
        if not self.lacks(queries):
            return super().query_diagonal(queries, m)
        there, parts = self._query_parts(queries), self._training_parts
        g = next(g for g, part in enumerate(parts) if m in part.kernels)
        k = int(np.flatnonzero(parts[g].kernels == m)[0])
        absent = np.setdiff1d(np.arange(queries.n_rows), there[g])
        own = [self._rows_of(p.views, queries, rows) for p, rows in zip(parts, there, strict=True)]
        out = np.zeros(queries.n_rows)
        if len(there[g]):
            out[there[g]] = parts[g].source.query_diagonal(own[g], k)
        if self.how == "complete":
            if len(absent):
                places = self._completion.places(g, absent, there, self._query_means(queries))
                out[absent] = np.einsum("ij,ij->i", places @ self._matrix(g, k), places)
            return out
        if len(absent):
            placed = []
            for h, (part, table) in enumerate(zip(parts, own, strict=True)):
                diagonals = (part.source.query_diagonal(table, j) for j in range(len(part.kernels)))
                if table.n_rows:
                    placed.append((there[h], np.array([0]), self._mean_kernel(h, diagonals)[:, None]))
            out[absent] = self._raised(g, k, mean_of_known(placed, (queries.n_rows, 1))[:, 0])[absent]
        correction = None if self.is_whole else self.correction(m)
        if correction is not None:
            [(_, K)] = self._cross_of(queries, {m})
            out += correction.beyond(K)
        return out
