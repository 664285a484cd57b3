"""Rows with kernels on them, behind one interface, and kernels on a table.

A *source* is the layer between the estimators and the Gram matrices. It gives the training stack, the values between
new rows and the training rows kernel by kernel, and the same for a subset of the training rows (for folds).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from kernelweave._checks import InputError
from kernelweave._loops import core, packed_length, packed_rows, pivoted_columns
from kernelweave._sparse import is_sparse, row_ranks, sq_norms, to_dense
from kernelweave._threads import blas_threads_for, threads_for
from kernelweave._types import Values
from kernelweave.fitting.linear import LinearLayout, linear_layout
from kernelweave.fitting.missing import Fillers, count_missing, fill, fit_fillers, refuse_missing
from kernelweave.gram import FeatureGram, Gram, PackedGram, TileGram, check_semidefinite
from kernelweave.gram.building import COMPRESSION, MAX_RANK_SHARE, Builder, highest_rank
from kernelweave.gram.low_rank import hopeless, rows_to_see
from kernelweave.kernels import (
    Kernel,
    Linear,
    TrainingRows,
    statistic_panels,
)
from kernelweave.kernels.pairs import Others, pair_values
from kernelweave.kernels.steps import Impute, column_statistics
from kernelweave.views import Table

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

#: New rows that are compared with the training rows at a time: by calls of kernels, and by loops here.
CHUNK_BYTES, PIECE_BYTES = 64 * 2**20, 2 * 2**20
#: At least so many at a time in loops.
FEW_QUERIES = 32
#: Bytes computed at a time while triangles are filled. They stay in the cache while all kernels of a group read them.
PANEL_BYTES = 2**20
#: Bytes of a recomputed block of a kernel.
TILE_BYTES = 4 * 2**20
#: Bytes that a stack may always use, for any budget: too little to justify recomputation.
SMALL_CHANGE = 16 * 2**20
#: Kernels on one column each whose features are computed together.
TOGETHER = 64
#: Rows from which one compiled loop fills the triangles of kernels of the same distances.
COMPILED_ROWS = 200
#: Operations of the trial of a factor below which it is not checked before whether there can be one.
SMALL_TRIAL = 2_000_000


#: New rows, in the format of a source: a table, indices of samples, rows of kernel values.
Q = TypeVar("Q")
#: See `Source.products`.
Products: TypeAlias = Callable[[Q], Iterator[tuple[slice, int, Array]]]


class Source(ABC, Generic[Q]):
    """Rows and kernels behind one interface. `queries` are new rows in the format of this source."""

    names: tuple[str, ...]
    n_samples: int

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return len(self.names)

    @abstractmethod
    def gram(self) -> Gram:
        """The raw training stack in its automatic representation."""

    @abstractmethod
    def take(self, rows: Rows) -> Source[Q]:
        """A source whose training rows are a subset of these."""

    def learn_as(self, rows: Rows, part: Rows) -> None:
        """Take rows with what kernels learn from the targets of a part of them."""

    @abstractmethod
    def queries(self, rows: Rows) -> Q:
        """Some of the training rows, as queries to another source made by `take`."""

    @abstractmethod
    def query_length(self, queries: Q) -> int:
        """Number of query rows."""

    @abstractmethod
    def cross(self, queries: Q, kernels: Rows) -> Iterator[tuple[slice, int, Array]]:
        """Yield (query rows, m, values k_m(queries, training) of shape (rows, n_samples)), in chunks."""

    @abstractmethod
    def query_diagonal(self, queries: Q, m: int) -> Array:
        """``k_m(x, x)`` of the queries, shape (n_queries,)."""

    @abstractmethod
    def distinguish(self) -> Values:
        """Numbers (n_samples, n_columns), possibly sparse, that are equal only for equal rows."""

    def content(self) -> Rows:
        """Position of each row among the distinct ones, shared by equal rows, independent of order and repetitions."""
        return row_ranks(self.distinguish())

    def products(self, kernels: Rows, coefs: Callable[[int], Array]) -> Products[Q]:
        """Kernels of new rows with the training rows, times coefficients ``coefs(m)`` of shape (n_samples, n_vectors).

        What follows from training rows and coefficients is computed once, before there are queries.

        Yields
        ------
        where, m, product
            Query rows, a kernel, and ``k_m(queries, training) @ coefs(m)`` of these rows, in chunks.
        """

        def of(queries: Q) -> Iterator[tuple[slice, int, Array]]:
            for where, m, K in self.cross(queries, kernels):
                yield where, m, K @ coefs(m)

        return of

    def training_features(self, m: int) -> Values | None:
        """Features of kernel m of the training rows, ``k_m(x, z) = <phi(x), phi(z)>``, if they are few."""
        return None

    def features(self, queries: Q, kernels: Rows, n_rows: int) -> Iterator[tuple[slice, int, Values]]:
        """Yield (query rows, m, features of kernel m of these), `n_rows` at a time; of kernels that have some."""
        yield from ()

    def lacks(self, queries: Q) -> bool:
        """Whether a query, or a training row, lacks a view."""
        return False


@dataclass(frozen=True, eq=False)
class Correction:
    """Negative eigenvalues of a training matrix that were set to zero.

    Attributes
    ----------
    vectors : array of shape (n_samples, n_zero)
        Eigenvectors V of these, and of those that are zero up to rounding. Values of new rows are projected,
        ``K (I - V V')``, which gives training rows their corrected values exactly.
    values : array of shape (n_zero,)
        The eigenvalues; 0 for those that are zero up to rounding.
    residual : float
        The change as a share of the matrix, in the Frobenius norm.
    """

    vectors: Array
    values: Array
    residual: float

    def project(self, K: Array) -> Array:
        """Values of new rows with the training rows, shape (n_rows, n_samples)."""
        return K - (K @ self.vectors) @ self.vectors.T

    def beyond(self, K: Array) -> Array:
        """Change of k(x, x) of new rows by the correction, from their values before it."""
        return -np.square(K @ self.vectors[:, self.values < 0]) @ (1.0 / self.values[self.values < 0])


def correct(K: Array) -> tuple[Array, Correction | None]:
    """The nearest positive semidefinite matrix in the Frobenius norm, and the correction; None if there is none."""
    n = len(K)
    with blas_threads_for(n):
        shifted, rounding = K.copy(), 1e-10 * max(float(np.trace(K)), 0.0) / n
        shifted.flat[:: n + 1] += rounding
        _, info = lapack.dpotrf(shifted, lower=1, clean=0, overwrite_a=1)
        if info == 0:
            return K, None
        values, vectors = np.linalg.eigh(K)
        if values[0] >= -rounding:
            return K, None
        # the sign of a rounding error must not decide which part of a new row is left out
        low = values <= rounding
        V, own = vectors[:, low], np.where(values[low] < -rounding, values[low], 0.0)
        fixed = K - (V * values[low]) @ V.T
        residual = float(np.linalg.norm(own) / np.linalg.norm(values))
    return 0.5 * (fixed + fixed.T), Correction(V, own, residual)


def check_kernel_values(name: str, asymmetry: float, size: float, bad: float) -> None:
    """Raise for NaN, infinity and asymmetry that were found in the values of a kernel."""
    if bad:
        raise InputError(
            f"Kernel {name!r} gave NaN or infinity. Check its parameters and the scale of the columns."
        )
    if asymmetry > 1e-8 * size:
        raise InputError(
            f"Kernel {name!r} must be symmetric, got max |K - K'| = {asymmetry:.3g} with entries up to {size:.3g}."
        )


class TableSource(Source[Table]):
    """Kernels evaluated on the columns of a table.

    Parameters
    ----------
    kernels : sequence of Kernel
        Kernels with statistics of training rows are fitted on these.
    table : Table
        Training rows.
    max_memory : float
        Bytes for the training stack; above it kernels that are not low rank are recomputed in tiles.
    rank_tol : float
        Residual trace, as a share of the trace, below which a kernel is stored as a factor.
    standardize : bool
        Shift and scale numeric columns by the weighted mean and standard deviation of the training rows.
    sample_weight : array of shape (n_samples,), optional
        For the statistics of `standardize`.
    statistics : pair of arrays of shape (n_columns,), optional
        Means and standard deviations for `standardize`, if known already.
    like : TableSource, optional
        A source with the same kernels and columns, whose names and resolved columns are used.
    rules : list of Kernel, optional
        The kernels before they were fitted, if `kernels` are fitted on these rows already.
    imputer : Impute, optional
        Imputation of missing cells before other preparations.
    fillers : dict of str to Impute, optional
        The same by view, fitted on these rows already.
    explicit : bool
        Whether the training stack is that of explicit features, which all kernels must have.
    targets : array of shape (n_samples, n_outputs), optional
        For kernels that learn from them.

    Attributes
    ----------
    rules : list of Kernel or None
        The unfitted kernels, from which those of other rows are fitted; None if there is no
        difference.
    """

    #: Also for models that were pickled without it.
    explicit: bool = False
    targets: Array | None = None
    #: Whether all training rows have all views.
    is_whole: bool = True

    def __init__(
        self,
        kernels: Sequence[Kernel],
        table: Table,
        *,
        max_memory: float,
        rank_tol: float = COMPRESSION,
        standardize: bool = False,
        sample_weight: Array | None = None,
        statistics: tuple[Array, Array] | None = None,
        like: TableSource | None = None,
        rules: list[Kernel] | None = None,
        imputer: Impute | None = None,
        fillers: Fillers | None = None,
        explicit: bool = False,
        targets: Array | None = None,
    ) -> None:
        self.raw, self.explicit = table, explicit
        self.max_memory, self.rank_tol, self.standardize = max_memory, rank_tol, standardize
        self.sample_weight, self.targets = sample_weight, targets
        self.n_samples = table.n_rows
        if imputer is not None and fillers is None:
            fillers = fit_fillers(imputer, table, sample_weight)
        self.imputer, self.fillers = imputer, fillers
        if fillers is not None:
            table = fill(fillers, table)
        if standardize and statistics is None:
            statistics = column_statistics(table, sample_weight)
        self.statistics = statistics
        self._corrections: dict[int, Correction | None] = {}
        self._fitted_on: dict[bytes, list[Kernel]] = {}
        self.table = table if statistics is None else table.scaled(*statistics)
        self.kernels, self.rules = list(kernels), rules
        if not all(kernel.is_fitted for kernel in kernels):
            training = TrainingRows(self.table, sample_weight, self.raw, targets)
            self.kernels, self.rules = [kernel.fitted_on(training) for kernel in kernels], list(kernels)
        self._name(table, like)

    def _name(self, table: Table, like: TableSource | None) -> None:
        """Set the names of the kernels and the positions of their columns."""
        self._columns: list[Rows | None]
        if like is not None:
            self.names, self._columns = like.names, like._columns
            return
        self.names = tuple([kernel.label for kernel in self.kernels])
        self._columns = [
            None if kernel.columns is None else table.resolve(kernel.columns) for kernel in self.kernels
        ]

    @property
    def takes_missing(self) -> bool:
        """Whether rows may have missing cells."""
        return self.imputer is not None or all(kernel.takes_missing for kernel in self.kernels)

    @property
    def may_hold_nan(self) -> bool:
        """Whether training rows may have NaN."""
        return self.takes_missing

    def accepted(self, queries: Table) -> Table:
        """New rows, unchanged; raises for missing cells without a treatment."""
        if queries.missing().any() and not self.takes_missing:
            refuse_missing(count_missing(queries), queries.n_rows)
        return queries

    def filled(self, table: Table) -> Table:
        """Impute missing cells with this source's statistics."""
        return table if self.fillers is None else fill(self.fillers, table)

    def encode(self, table: Table) -> Table:
        """Impute missing cells and standardise with this source's statistics."""
        if self.fillers is not None:
            table = fill(self.fillers, table)
        return table if self.statistics is None else table.scaled(*self.statistics)

    def _options(self) -> dict[str, Any]:
        """What sources of some of the rows have in common with this one."""
        names = ("max_memory", "rank_tol", "standardize", "imputer", "explicit")
        return {name: getattr(self, name) for name in names}

    @property
    def given_kernels(self) -> list[Kernel]:
        """The kernels before they were fitted."""
        return self.kernels if self.rules is None else self.rules

    def take(self, rows: Rows) -> TableSource:
        weight, options = self.sample_weight, self._options()
        weight = None if weight is None else weight[rows]
        options |= {"sample_weight": weight, "like": self}
        if self.targets is None:
            return type(self)(self.given_kernels, self.raw.rows(rows), **options)
        options |= {"targets": self.targets[rows]}
        # a search takes the same folds again and again, and a metric costs more than all other numbers
        key = rows.tobytes()
        if key in self._fitted_on:
            return type(self)(self._fitted_on[key], self.raw.rows(rows), rules=self.given_kernels, **options)
        some = type(self)(self.given_kernels, self.raw.rows(rows), **options)
        if some.is_whole:
            self._fitted_on[key] = some.kernels
        return some

    def learn_as(self, rows: Rows, part: Rows) -> None:
        if self.targets is None:
            return
        if part.tobytes() not in self._fitted_on:
            # in other processes it was
            self.take(part)
        if part.tobytes() in self._fitted_on:
            self._fitted_on[rows.tobytes()] = self._fitted_on[part.tobytes()]

    def with_kernels(self, kernels: list[Kernel]) -> TableSource:
        """Other kernels on the same rows."""
        options = self._options() | {"sample_weight": self.sample_weight, "targets": self.targets}
        return type(self)(kernels, self.raw, **options)

    def queries(self, rows: Rows) -> Table:
        return self.raw.rows(rows)

    def query_length(self, queries: Table) -> int:
        return queries.n_rows

    def distinguish(self) -> Values:
        return self.raw.content()

    def query_diagonal(self, queries: Table, m: int) -> Array:
        table = self.encode(queries)
        diagonal, correction = self.kernels[m].diag(table), self.correction(m)
        if correction is not None:
            diagonal = diagonal + correction.beyond(self.kernels[m](table, self.table))
        return diagonal

    def training_features(self, m: int) -> Values | None:
        training = self.kernels[m]._features(self.table)
        # products with sparse features cost less than kernel values, for any number of columns
        if training is None:
            return None
        many = training.shape[1] > MAX_RANK_SHARE * self.n_samples and not is_sparse(training)
        return None if many and not self.kernels[m].is_approximate else training

    @cached_property
    def _single(self) -> dict[int, tuple[Kernel, int]]:
        """Kernels on one unprepared numeric column, without their selection, with the position of the column."""
        found, levels, marked = {}, self.table.levels, self.table.marked
        for m, (kernel, chosen) in enumerate(zip(self.kernels, self._columns, strict=True)):
            if chosen is None or len(chosen) != 1 or levels[chosen[0]] or marked[chosen[0]]:
                continue
            if not kernel.base.preparation:
                found[m] = kernel.base, int(chosen[0])
        return found

    def feature_widths(self) -> list[int | None]:
        """Number of features of each kernel, None for kernels without explicit ones."""
        first = self.table.rows(slice(0, 1))
        # of kernels on one column by the kernel alone
        known: dict[Any, int | None] = {Linear(): 1}
        found = []
        for m, kernel in enumerate(self.kernels):
            key = self._single[m][0] if m in self._single else m
            if key not in known:
                phi = kernel._features(first)
                known[key] = None if phi is None else int(phi.shape[1])
            found.append(known[key])
        return found

    def _features_of(self, kernels: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Yield every kernel with its features of the training rows, (n_features, n_samples), or None without any.

        They may be sparse. Of kernels that are equal but for their column, those of many are computed at a time.
        """
        alike: dict[Kernel, list[int]] = {}
        for m in kernels:
            if m in self._single:
                alike.setdefault(self._single[m][0], []).append(m)
        ready: dict[int, Any] = {}
        for m in kernels:
            if m not in ready and m in self._single:
                base = self._single[m][0]
                some, alike[base] = alike[base][:TOGETHER], alike[base][TOGETHER:]
                X = self.table.dense_columns(np.array([self._single[k][1] for k in some], dtype=np.intp))
                # one under the other: a feature map looks at rows one by one
                phi = base._features(Table(np.ascontiguousarray(X.T).reshape(-1, 1)))
                blocks: Any = [None] * len(some)
                if phi is not None:
                    blocks = np.asarray(phi).reshape(len(some), len(X), -1).transpose(0, 2, 1)
                ready.update(zip(some, blocks, strict=True))
            if m in ready:
                yield m, ready.pop(m)
            else:
                phi = self.kernels[m]._features(self.table)
                yield m, None if phi is None else phi.T

    # ---- training ---------------------------------------------------------------------------------

    def gram(self) -> Gram:
        if self.explicit:
            return self._feature_gram()
        n, room = self.n_samples, self._room
        single = [m for m, (base, _) in self._single.items() if base == Linear()]
        columns = np.array([self._single[m][1] for m in single], dtype=np.intp)
        factors = Builder(n, 0)
        # columns first, as they need the least memory
        held = int(min(len(single), room // (8 * n)))
        if held:
            rows = factors.factors(single[:held], [1] * held)
            for first in range(0, held, 64):
                some = columns[first : min(first + 64, held)]
                rows[first : first + 64] = self.table.dense_columns(some).T
        rest = single[held:]
        most = max(highest_rank(n), 4)
        taken = factors.nbytes
        for m, phi in self._features_of(sorted({*range(len(self.kernels))}.difference(single))):
            size = 0 if phi is None else 8 * phi.shape[0] * phi.shape[1]
            if phi is not None and phi.shape[0] <= most and taken + size <= room:
                factors.add(m, to_dense(phi))
                taken += size
            else:
                rest.append(m)
        return self._hold(np.sort(np.array(rest, dtype=np.intp)), factors)

    @property
    def _room(self) -> float:
        """Bytes that a stack may take."""
        return max(self.max_memory, SMALL_CHANGE)

    def _feature_gram(self) -> FeatureGram:
        """The features of the kernels, which all have some, side by side in their order."""
        widths = self.feature_widths()
        if None in widths:
            raise InputError(
                f"{self.kernels[widths.index(None)].label!r} has no finite features. Use kernels.approximate on it, or "
                "approximation='nystroem'."
            )
        offsets = np.r_[0, np.cumsum([width or 0 for width in widths])].astype(np.int64)
        total, n = int(offsets[-1]), self.n_samples
        needed = 8.0 * total * n
        if needed > self._room:
            raise InputError(
                f"{total} features of {n} rows take {needed / 2**30:.3g} GiB, got max_memory="
                f"{self._room / 2**30:.3g} GiB. Allow more, or take fewer features."
            )
        rows = np.empty((total, n))
        for m, phi in self._features_of(range(len(self.kernels))):
            rows[offsets[m] : offsets[m + 1]] = to_dense(phi)
        return FeatureGram(rows, offsets)

    def _hold(self, rest: Rows, builder: Builder) -> Gram:
        """Add the kernels without an exact feature map."""
        n = self.n_samples
        corrected = [m for m in rest if self.kernels[m].is_corrected]
        checked = [m for m in rest if self.kernels[m].is_corrected or self.kernels[m].needs_psd_check]
        # in addition to the triangles, memory to find factors, and for a matrix if one must be checked
        scratch = 8.0 * n * highest_rank(n)
        if checked:
            scratch += 8.0 * n * n
        needed = 8.0 * len(rest) * packed_length(n) + max(0.0, scratch - SMALL_CHANGE)
        if builder.nbytes + needed <= self.max_memory or not len(rest):
            builder.packed = np.empty((len(rest), packed_length(n)))
            for group in self._groups(rest).values():
                first = self.kernels[group[0]]
                shared = first.base.statistic is not None
                # their prepared columns, categorical ones as indicators
                A: Any = first.base._compared(self.table.select(first.columns)) if shared else None
                tried = shared and not np.isin(group, checked).any()
                if tried:
                    group = self._add_factors(group, A, builder)
                    if not len(group):
                        continue
                packed = builder.triangles(len(group))
                self._fill(group, A, packed)
                for k, m in enumerate(group):
                    if self.kernels[m].is_corrected:
                        self._correct(int(m), packed[k])
                    elif self.kernels[m].needs_psd_check:
                        check_semidefinite(PackedGram(packed[k : k + 1], n), [repr(self.names[m])])
                builder.keep_triangles(group.tolist(), tol=self.rank_tol, max_rank=0 if tried else None)
            return builder.finish()
        if corrected:
            raise InputError(
                "Kernels that skip missing cells, or with repair=True, are held as whole matrices, which takes "
                f"{needed / 2**30:.3g} GiB, "
                f"got max_memory={self.max_memory / 2**30:.3g} GiB. Allow more, or use missing='impute' "
                "or a semidefinite function."
            )
        # over the budget: factors from single columns of the kernel, tiles for what has no low rank
        tiles = [int(m) for m in rest if not self._add_factor(int(m), builder)]
        return builder.finish([(self._tiles(tiles), np.array(tiles))] if tiles else [])

    def _add_factors(self, group: Rows, A: Array, builder: Builder) -> Rows:
        """Add factors of kernels that share a statistic of columns A, if of low rank, and return the others."""
        n, cap = self.n_samples, highest_rank(self.n_samples)
        if cap < 1:
            return group
        kernels = [self.kernels[m].base for m in group]
        kind, gammas = kernels[0].statistic, [kernel.decay for kernel in kernels]
        X = None if is_sparse(A) else np.ascontiguousarray(A.T)
        # a check costs more than the trial of small kernels
        checks = X is None or None in gammas or cap * cap * n >= SMALL_TRIAL
        if checks:
            seen, squares = rows_to_see(n, cap), sq_norms(A)
            corner = pair_values(kind, A[seen])
            with_itself = squares if kind == "dot" else np.zeros(n)
        work = np.empty((cap, n))
        rest = []
        for m, kernel, gamma in zip(group.tolist(), kernels, gammas, strict=True):
            if checks:
                diagonal = np.array(kernel.from_statistic(with_itself, squares, squares))
                bound = self.rank_tol * float(diagonal.sum())
                block = np.array(kernel.from_statistic(corner, squares[seen][:, None], squares[seen]))
                if hopeless(block, cap, bound):
                    rest.append(m)
                    continue
            if X is not None and gamma is not None:
                rank, residual = core.pivoted_decay(X, gamma, kind == "sqdist", self.rank_tol * n, work)
            else:

                def column(i: int, kernel: Kernel = kernel) -> Array:
                    S = pair_values(kind, A[i : i + 1], A)
                    return np.array(kernel.from_statistic(S, squares[i : i + 1, None], squares))[0]

                rank, residual = pivoted_columns(column, diagonal, max(bound, 0.0), work)
            if rank < 0:
                rest.append(m)
            else:
                builder.add(m, work[:rank].copy(), residual)
        return np.array(rest, dtype=np.intp)

    def _add_factor(self, m: int, builder: Builder) -> bool:
        """Add the factor of a kernel from single columns, if it is of low rank and there is room; return whether."""
        n, kernel = self.n_samples, self.kernels[m]
        cap = min(max(1, highest_rank(n)), int((self._room - builder.nbytes) // (8 * n)))
        if cap < 1:
            return False
        diagonal = kernel.diag(self.table)
        bound = self.rank_tol * float(diagonal.sum())
        if hopeless(kernel(self.table.rows(rows_to_see(n, cap))), cap, bound):
            return False
        work = builder.factors([m], [cap])
        rank, residual = pivoted_columns(
            lambda i: kernel(self.table.rows(slice(i, i + 1)), self.table)[0], diagonal, bound, work
        )
        del work
        builder.keep_rank(rank, residual)
        return rank >= 0

    def _correct(self, m: int, triangle: Array) -> None:
        """Make the packed triangle of a kernel positive semidefinite, and store the correction."""
        n = self.n_samples
        fixed, correction = correct(PackedGram(triangle[None], n).combine(np.ones(1)))
        if correction is not None:
            triangle[:] = fixed[np.triu_indices(n)]
        self._corrections[m] = correction

    def correction(self, m: int) -> Correction | None:
        """The correction of the training matrix of a kernel to a positive semidefinite one; None if there is none."""
        if not self.kernels[m].is_corrected:
            return None
        if m not in self._corrections:
            self._corrections[m] = correct(self.kernels[m](self.table))[1]
        return self._corrections[m]

    def corrections(self) -> dict[str, Correction]:
        """The corrections by kernel."""
        found = {}
        for m, kernel in enumerate(self.kernels):
            if kernel.is_corrected and (one := self.correction(m)) is not None:
                found[self.names[m]] = one
        return found

    def _projected(self, m: int, K: Array) -> Array:
        correction = self.correction(m)
        return K if correction is None else correction.project(K)

    def _tiles(self, kernels: list[int]) -> TileGram:
        diagonals = np.stack([self.kernels[m].diag(self.table) for m in kernels])

        def block(k: int, rows: slice, cols: slice) -> Array:
            K = self.kernels[kernels[k]](self.table.rows(rows), self.table.rows(cols))
            # angles between a row and itself are exactly zero only in `diag`
            same = np.arange(max(rows.start, cols.start), min(rows.stop, cols.stop))
            if (K[same - rows.start, same - cols.start] != diagonals[k, same]).any():
                K = K.copy()
                K[same - rows.start, same - cols.start] = diagonals[k, same]
            return K

        return TileGram(block, diagonals, tile_rows=max(1, TILE_BYTES // (8 * self.n_samples)))

    def _groups(self, kernels: Rows) -> dict[Any, Rows]:
        """Kernels that share a pairwise statistic of the same columns, by statistic, preparation and columns."""
        groups: dict[Any, list[int]] = {}
        for m in map(int, kernels):
            base, chosen = self.kernels[m].base, self._columns[m]
            columns = None if chosen is None else tuple(chosen.tolist())
            key = ("alone", m) if base.statistic is None else (base.statistic, base.preparation, columns)
            groups.setdefault(key, []).append(m)
        return {key: np.array(members) for key, members in groups.items()}

    def _fill(self, group: Rows, A: Array | None, packed: Array) -> None:
        """Fill packed triangles of kernels that share a statistic of columns A, a few rows of it at a time."""
        n, start = self.n_samples, packed_rows(self.n_samples)
        if A is None:
            self._fill_alone(int(group[0]), packed[0])
            return
        kernels = [self.kernels[m].base for m in group]
        gammas = [kernel.decay for kernel in kernels]
        # for few rows the general loops are fast enough
        if n >= COMPILED_ROWS and None not in gammas:
            for rows, S in statistic_panels(kernels[0].statistic, A, PANEL_BYTES // 8):
                core.decays(S, rows.start, np.array(gammas), packed, threads_for(n))
            return
        # squared norms of both rows of a pair, for kernels of angles
        norms = sq_norms(A) if any(kernel.needs_norms for kernel in kernels) else None
        left = right = None
        for rows, S in statistic_panels(kernels[0].statistic, A, PANEL_BYTES // 8):
            piece = slice(start[rows.start], start[rows.stop])
            if norms is not None:
                lengths = n - np.arange(rows.start, rows.stop)
                left = np.repeat(norms[rows], lengths)
                right = np.concatenate([norms[i:] for i in range(rows.start, rows.stop)])
            values = np.concatenate([S[k, k:] for k in range(len(S))])
            for kernel, triangle in zip(kernels, packed, strict=True):
                kernel.from_statistic(values, left, right, out=triangle[piece])

    def _fill_alone(self, m: int, triangle: Array) -> None:
        """Fill the packed triangle of a kernel by calling it."""
        n, start = self.n_samples, packed_rows(self.n_samples)
        kernel, table = self.kernels[m], self.table
        if 8 * n * n <= PANEL_BYTES:
            scratch = np.empty((3, 1))
            core.pack(kernel(table)[:, :, None], triangle[None], scratch[0], scratch[1], scratch[2])
            check_kernel_values(self.names[m], *scratch[:, 0])
            return
        diagonal = kernel.diag(table)
        asymmetry = size = 0.0
        top = 0
        while top < n:
            # whole rows of a custom function, to check that it is symmetric
            first = 0 if kernel.needs_psd_check else top
            rows = slice(top, min(n, top + max(1, PANEL_BYTES // (8 * (n - first)))))
            K = np.array(kernel(table.rows(rows), table.rows(slice(first, n))))
            K[np.arange(len(K)), np.arange(top - first, rows.stop - first)] = diagonal[rows]
            if not np.isfinite(K).all():
                check_kernel_values(self.names[m], 0.0, 0.0, 1.0)
            for k, row in enumerate(range(rows.start, rows.stop)):
                triangle[start[row] : start[row + 1]] = K[k, row - first :]
            if kernel.needs_psd_check:
                i, j = np.arange(rows.start, rows.stop)[:, None], np.arange(rows.stop)
                apart = np.abs(K[:, : rows.stop] - triangle[start[j] + i - j])
                # positions of pairs above the diagonal belong to other pairs
                asymmetry = max(asymmetry, float(apart[j <= i].max()))
                size = max(size, float(np.abs(K).max()))
            top = rows.stop
        check_kernel_values(self.names[m], asymmetry, size, 0.0)

    def linear_layout(self) -> LinearLayout:
        """All linear terms of the kernels. Only for linear kernels."""
        return linear_layout(self.kernels, self._columns, self.table)

    # ---- prediction -------------------------------------------------------------------------------

    def features(self, queries: Table, kernels: Rows, n_rows: int) -> Iterator[tuple[slice, int, Values]]:
        table = self.encode(queries)
        for start in range(0, table.n_rows, n_rows):
            where = slice(start, min(start + n_rows, table.n_rows))
            part = table if n_rows >= table.n_rows else table.rows(where)
            for m in map(int, kernels):
                phi = self.kernels[m]._features(part)
                assert phi is not None  # as when it was fitted
                yield where, m, phi

    def _chunks(self, queries: Table, called: bool) -> Iterator[tuple[slice, Table]]:
        """Encoded queries, as many at a time as calls of kernels, or loops, take."""
        table = self.encode(queries)
        # of kernels that are called, few calls cost least; others stay in the cache
        step, few = int(CHUNK_BYTES / (8.0 * self.n_samples)), int(PIECE_BYTES / (8.0 * self.n_samples))
        step = max(1, step if called else min(step, max(few, FEW_QUERIES)))
        for start in range(0, table.n_rows, step):
            where = slice(start, min(start + step, table.n_rows))
            yield where, table if step >= table.n_rows else table.rows(np.arange(where.start, where.stop))

    def cross(self, queries: Table, kernels: Rows) -> Iterator[tuple[slice, int, Array]]:
        groups = [_Compared(self, *group) for group in self._groups(kernels).items()]
        for where, part in self._chunks(queries, any(group.statistic is None for group in groups)):
            for group in groups:
                for m, K in group.values(part, {}):
                    yield where, m, self._projected(m, K)

    def products(self, kernels: Rows, coefs: Callable[[int], Array]) -> Products[Table]:
        # those of long paths are computed again for every chunk
        if not len(kernels) or len(kernels) * coefs(int(kernels[0])).nbytes > CHUNK_BYTES:
            return super().products(kernels, coefs)

        groups = [
            _Compared(self, *group, lambda m: self._projected(m, coefs(m).T).T)
            for group in self._groups(kernels).items()
        ]
        called = any(group.statistic is None for group in groups)

        def of(queries: Table) -> Iterator[tuple[slice, int, Array]]:
            for where, part in self._chunks(queries, called):
                prepared: dict[Any, Array] = {}
                for group in groups:
                    for m, product in group.products(part, prepared):
                        yield where, m, product

        return of


class _Compared:
    """Kernels that share a pairwise statistic, or one without any, and the training rows that they compare with.

    Parameters
    ----------
    source : TableSource
    key : tuple
        The statistic, and the preparation and the columns that it is of.
    group : array of int
        The kernels.
    coefs : callable, optional
        Coefficients of a kernel, (n_samples, n_vectors), for products. Rows that have none are left out.
    """

    def __init__(
        self, source: TableSource, key: Any, group: Rows, coefs: Callable[[int], Array] | None = None
    ) -> None:
        self.source, self.group = source, group.tolist()
        self.bases = [source.kernels[m].base for m in self.group]
        self.decays = [base.decay for base in self.bases]
        self.statistic, self.table = self.bases[0].statistic, source.table
        self.coefs = [] if coefs is None else [np.ascontiguousarray(coefs(m).T) for m in self.group]
        if self.coefs and not (used := np.any([C.any(axis=0) for C in self.coefs], axis=0)).all():
            self.table = self.table.rows(np.flatnonzero(used))
            self.coefs = [np.ascontiguousarray(C[:, used]) for C in self.coefs]
        self.needs_norms = any(base.needs_norms for base in self.bases)
        if self.statistic is not None:
            self.key, self.columns = key[1:], source.kernels[self.group[0]].columns
            B = self.bases[0]._compared(self.table.select(self.columns))
            self.others = Others.of(self.statistic, B)
            self.squares = sq_norms(B)[None, :] if self.needs_norms else None

    def values(self, part: Table, prepared: dict[Any, Array]) -> Iterator[tuple[int, Array]]:
        """Yield (m, values of some encoded queries with the training rows)."""
        if self.statistic is None:
            for m in self.group:
                yield m, self.source.kernels[m](part, self.table)
            return
        A = self._rows(part, prepared)
        S, left = self.others.values(A), sq_norms(A)[:, None] if self.needs_norms else None
        for m, base in zip(self.group, self.bases, strict=True):
            yield m, base.from_statistic(S, left, self.squares)

    def products(self, part: Table, prepared: dict[Any, Array]) -> Iterator[tuple[int, Array]]:
        """Yield (m, their products with the coefficients)."""
        if self.statistic is None or None in self.decays:
            for (m, K), C in zip(self.values(part, prepared), self.coefs, strict=True):
                yield m, K @ C.T
            return
        S = self.others.values(self._rows(part, prepared))
        for m, gamma, C in zip(self.group, self.decays, self.coefs, strict=True):
            out = np.empty((len(S), len(C)))
            core.decay_product(S, gamma, C, out, threads_for(min(S.shape)))
            yield m, out

    def _rows(self, part: Table, prepared: dict[Any, Array]) -> Array:
        """Queries as the statistic takes them, which may be known of another one."""
        if self.key not in prepared:
            prepared[self.key] = self.bases[0]._compared(part.select(self.columns))
        return prepared[self.key]
