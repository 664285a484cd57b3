"""Kernels that are made when they are needed, for many more than fit into memory."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lapack

from kernelweave._checks import LARGEST_NUMBER, Floats, InputError, NotPSDError, as_floats
from kernelweave._loops import core
from kernelweave._parameters import Function, OneOf, ReadableSignature, Whole, checked
from kernelweave._sparse import is_sparse
from kernelweave._types import Array, Index
from kernelweave.gram.base import pieces
from kernelweave.gram.chunked import times, times_transposed
from kernelweave.gram.features import PIECE

KINDS = ("features", "matrices")

#: Largest error of an entry of a kernel, without rounding.
ERROR = 1e-12
#: Values of gamma.
GAMMAS = Floats((0, 1), above=0.0, smallest=1e-100, largest=1e100)
#: Most waves of a kernel.
MOST_WAVES = 20_000
#: ``progress(done, n_kernels)``.
Progress = Callable[[int, int], object]


#: Kernels of features in a piece of a pass: about a second at most.
TOGETHER = 256
#: A quadratic form below zero by more than this share of the largest possible one refutes that a matrix is a kernel.
NEGATIVE = 1e-6


class KernelStream:
    """Kernels that are made one after another when they are needed: 100,000 and more.

    `solve_rls2` and `rls2_path` take it in place of a stack. They hold the kernels that have a weight, or nearly so,
    and a few numbers for each of the others; every other kernel exists for a moment, once in each pass over all.
    Several regularisation parameters are evaluated in one pass.

    Parameters
    ----------
    kernel : callable or sequence
        ``kernel(m)`` returns kernel m on the training samples, always the same: its features, shape (n_samples, width),
        dense or sparse, or its matrix (n_samples, n_samples), in float32 or float64. A sequence is asked for its
        members. Kernels with weights are asked for again.
    n_kernels : int, optional
        Number of kernels. Default: the length of a sequence.
    kind : {"features", "matrices"}, default="features"
        What `kernel` returns.
    progress : callable, optional
        ``progress(done, n_kernels)`` after every piece of a pass.

    Attributes
    ----------
    n_samples, n_kernels : int
    passes : float
        Passes over all kernels so far.

    Raises
    ------
    InputError
        No callable and no sequence, no number of kernels, arrays of other shapes, NaN or infinity.
    NotPSDError
        A matrix that cannot be a kernel.

    See Also
    --------
    KernelStream.gaussians : Gaussian kernels of single columns.
    FeatureStack : Explicit features that are all there, in memory or in a file.

    Notes
    -----
    The certificate of a solution covers all kernels. For ``r = y - K(d) c - alpha c`` the gap is
    ``1/2 |r|^2 + alpha/2 (max_m c'K_m c - c'K(d) c)``, in float64, whatever the kernels are stored in. Every kernel is
    evaluated at the coefficients that are returned. Solutions have no `feature_coef`: predict by
    ``sum_m d_m K_m(x, X) c`` over the kernels with a weight. Ctrl-C in a path returns what is finished; in `solve_rls2`
    the best solution so far, with its gap.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(60, 300))
    >>> stream = kw.KernelStream(lambda m: X[:, m : m + 1], 300)
    >>> result = kw.solve_rls2(stream, X[:, 5] - X[:, 90], alpha=30.0, tol=1e-3)
    >>> np.flatnonzero(result.weights > 0.2), result.rel_gap <= 1e-3
    (array([ 5, 90]), True)
    """

    __signature__ = ReadableSignature()

    #: Distance from 1 to the next number in sums.
    precision = float(np.finfo(np.float64).eps)

    @checked
    def __init__(
        self,
        kernel: Callable[[int], ArrayLike] | Sequence[ArrayLike],
        n_kernels: Annotated[int | None, Whole(1) | None] = None,
        *,
        kind: Annotated[str, OneOf(*KINDS)] = "features",
        progress: Annotated[Progress | None, Function() | None] = None,
    ) -> None:
        if callable(kernel):
            if n_kernels is None:
                raise InputError("`n_kernels` must say how many kernels the function `kernel` returns.")
            make = kernel
        elif hasattr(kernel, "__getitem__") and hasattr(kernel, "__len__"):
            members = kernel
            length = len(members)
            if n_kernels not in (None, length) or not length:
                raise InputError(
                    f"`n_kernels` must be the length of the sequence `kernel`, {length}, and above 0, got {n_kernels}."
                )
            n_kernels, make = length, lambda m: members[m]
        else:
            raise InputError(
                "`kernel` must be a function of a kernel's number, or a sequence, got "
                f"{type(kernel).__name__}."
            )
        self._make = make
        self.n_kernels, self.progress, self.passes = int(n_kernels), progress, 0.0
        #: Whether kernels are given as matrices, whose products are less exact than those of features.
        self.matrices = kind == "matrices"
        self._rows: Index | None = None
        self.n_samples = 0
        self.n_samples = int(next(self._items(np.zeros(1, dtype=np.int64))).shape[0])
        #: Number of columns of the factor of each kernel; at most so many.
        self.widths = np.full(self.n_kernels, self.n_samples if self.matrices else 1, dtype=np.int64)
        #: Bounds of the error of every entry of each kernel.
        self.errors = np.zeros(self.n_kernels)

    @classmethod
    @checked
    def gaussians(
        cls,
        X: ArrayLike,
        gamma: Annotated[ArrayLike, GAMMAS] = 1.0,
        *,
        progress: Annotated[Progress | None, Function() | None] = None,
    ) -> KernelStream:
        """Gaussian kernels of single columns, ``exp(-gamma (x - z)^2)``.

        Parameters
        ----------
        X : array of shape (n_samples, n_columns)
            float32 or float64 in any order of memory, also memory-mapped. Held, not copied.
        gamma : float or array of shape (n_gammas,), default=1.0
            With several, kernel ``j * n_gammas + g`` is that of column j with ``gamma[g]``.
        progress : callable, optional
            ``progress(done, n_kernels)`` after every piece of a pass.

        Returns
        -------
        KernelStream

        Raises
        ------
        InputError
            NaN or infinity, gamma <= 0, columns with values thousands of widths apart.

        Notes
        -----
        No matrix is formed. Between the smallest and the largest value of a column the kernel equals a series of
        cosines to 1e-12, a bound that certificates include; for standardised columns and gamma 1, about 20 of them, so
        that a pass over a kernel takes time proportional to the rows.

        Examples
        --------
        >>> import numpy as np, kernelweave as kw
        >>> X = np.random.default_rng(0).normal(size=(80, 200)).astype(np.float32)
        >>> stream = kw.KernelStream.gaussians(X, gamma=0.5)
        >>> path = kw.rls2_path(stream, np.sin(2 * X[:, 7]), n_alphas=5, tol=1e-3)
        >>> int(path.weights[0].argmax()), bool(path.rel_gap.max() <= 1e-3)
        (7, True)
        """
        return GaussianStream(X, gamma, progress)

    def __repr__(self) -> str:
        return f"KernelStream({self.n_samples} samples, {self.n_kernels} kernels)"

    def looks(
        self, C: Array, kernels: Index | None = None, weights: Array | None = None
    ) -> tuple[Array, Array]:
        """Quadratic forms of several vectors in one pass, and traces.

        Parameters
        ----------
        C : array of shape (n_vectors, n_samples)
            Vectors, one in each row.
        kernels : array of int, optional
            Positions of the kernels, in rising order. Default: all.
        weights : array of shape (n_samples,), optional
            For the traces ``sum_i weights[i] K_m(x_i, x_i)``.

        Returns
        -------
        quadratic_forms : array of shape (n_vectors, n_chosen)
        traces : array of shape (n_chosen,)
            Zero without `weights`.
        """
        index = np.arange(self.n_kernels) if kernels is None else kernels
        quadratic_forms, traces = np.empty((len(C), len(index))), np.empty(len(index))
        done = 0
        for part, values, own in self._pieces(np.ascontiguousarray(C), index, weights):
            if not (np.isfinite(values).all() and np.isfinite(own).all()):
                wrong = ~(np.isfinite(values).all(axis=0) & np.isfinite(own))
                kernel = int(index[part][np.flatnonzero(wrong)[0]])
                raise InputError(
                    f"Kernels must be finite, got NaN or infinity in kernel {kernel}. Impute or drop such values first."
                )
            if own.size and float(own.max()) > LARGEST_NUMBER**2:
                raise InputError(
                    f"Kernels must not have traces above {LARGEST_NUMBER**2:g}, got {own.max():.3g}. Divide by a "
                    "constant first."
                )
            quadratic_forms[:, part], traces[part] = values, own
            self.passes += (part.stop - done) / self.n_kernels
            done = part.stop
            if self.progress is not None:
                self.progress(done, len(index))
        return quadratic_forms, traces

    def factors(self, kernels: Index) -> Iterator[Array]:
        """Rows F with ``K = F'F`` for some kernels, to `errors` and rounding, float64 and the caller's to change.

        Parameters
        ----------
        kernels : array of int
            Positions of the kernels.

        Returns
        -------
        iterator of arrays of shape (rank, n_samples)
            The factor of one kernel after the other.
        """
        for kernel, item in zip(kernels, self._items(kernels), strict=True):
            if self.matrices:
                yield _factor_of_matrix(np.asarray(item, dtype=np.float64), int(kernel))
            else:
                Z = item.toarray() if is_sparse(item) else item
                yield np.array(Z.T, dtype=np.float64, order="C")

    def products(self, C: Array, kernels: Index) -> Iterator[Array]:
        """``C K`` for some kernels.

        Parameters
        ----------
        C : array of shape (n_vectors, n_samples)
            Vectors, one in each row.
        kernels : array of int
            Positions of the kernels.

        Returns
        -------
        iterator of arrays of shape (n_vectors, n_samples)
            The products of one kernel after the other.
        """
        for item in self._items(kernels):
            Z = item if is_sparse(item) else np.asarray(item, dtype=np.float64)
            yield C @ Z if self.matrices else times_transposed(times(C, Z), Z)

    def restrict(self, rows: Index) -> KernelStream:
        """The stream on some of its samples, in the order of `rows`.

        Parameters
        ----------
        rows : array of int
            Positions of the samples.
        """
        out = copy.copy(self)
        out._rows = rows if self._rows is None else self._rows[rows]
        out.n_samples, out.passes = len(rows), 0.0
        out.widths = np.full(self.n_kernels, len(rows)) if self.matrices else self.widths.copy()
        return out

    # ---- kernels one by one ------------------------------------------------------------------------

    def _items(self, kernels: Index) -> Iterator[Any]:
        """Features or matrices of some kernels, checked, on the chosen rows."""
        for kernel in kernels:
            yield self._checked(self._make(int(kernel)), int(kernel))

    def _pieces(
        self, C: Array, kernels: Index, weights: Array | None
    ) -> Iterator[tuple[slice, Array, Array]]:
        """Quadratic forms of the rows of C for kernels in rising order, piece by piece, and weighted traces."""
        sizes = np.square(C).sum(axis=1)
        items = self._items(kernels)
        for part in pieces(len(kernels), 1 if self.matrices else TOGETHER):
            own = kernels[part]
            quadratic_forms, traces = np.empty((len(C), len(own))), np.empty(len(own))
            for k, kernel in enumerate(own):
                item = next(items)
                quadratic_forms[:, k], traces[k] = self._look(item, C, weights)
                if not self.matrices:
                    self.widths[kernel] = item.shape[1]
                elif quadratic_forms[:, k].min() < 0.0:
                    _clip(quadratic_forms[:, k], item, sizes, int(kernel))
            yield part, quadratic_forms, traces

    def _look(self, item: Any, C: Array, weights: Array | None) -> tuple[Array, float]:
        """Quadratic forms of one kernel, and its weighted trace."""
        if self.matrices:
            K = np.asarray(item, dtype=np.float64)
            quadratic_forms = np.einsum("vn,vn->v", C @ K, C)
            trace = 0.0 if weights is None else float(np.diagonal(K) @ weights)
            return quadratic_forms, trace
        Z = item if is_sparse(item) else np.asarray(item, dtype=np.float64)
        scores, trace = times(C, Z), 0.0
        if weights is not None and is_sparse(Z):
            trace = float(np.asarray(Z.multiply(Z).T @ weights).sum())
        elif weights is not None:
            trace = float(np.einsum("ij,ij,i->", Z, Z, weights))
        return np.einsum("vw,vw->v", scores, scores), trace

    def _checked(self, given: Any, kernel: int) -> Any:
        """An array of the right shape, or sparse features."""
        array = given if is_sparse(given) and not self.matrices else np.asarray(given)
        if array.ndim == 1 and not self.matrices:
            array = array[:, None]
        wanted = "(n_samples, n_samples)" if self.matrices else "(n_samples, width)"
        if array.ndim != 2 or array.dtype.kind not in "fiub" or 0 in array.shape:
            raise InputError(
                f"`kernel` must return arrays of real numbers of shape {wanted}, got {array.dtype} of shape "
                f"{array.shape} for kernel {kernel}."
            )
        if self.matrices and array.shape[0] != array.shape[1]:
            raise InputError(
                f"`kernel` must return matrices of shape {wanted}, got {array.shape} for kernel {kernel}. Say "
                'kind="features" if it returns features.'
            )
        if self._rows is not None:
            array = array[self._rows][:, self._rows] if self.matrices else array[self._rows]
        if self.n_samples and array.shape[0] != self.n_samples:
            raise InputError(
                f"All kernels must have the same number of samples, {self.n_samples}, got {array.shape[0]} for kernel "
                f"{kernel}."
            )
        return array


def series(spans: Array, gammas: Array) -> tuple[Array, Index, Array]:
    """Periods, numbers of waves and bounds of the error for kernels on intervals.

    On an interval of width D and for a period P > D, Poisson's formula says

        sum_j exp(-gamma (t + j P)^2) = sum_k a_k cos(2 pi k t / P) ,     |t| <= D ,

        a_0 = sqrt(pi / gamma) / P ,     a_k = 2 a_0 exp(-pi^2 k^2 / (gamma P^2)) .

    The terms j != 0 add at most ``2 exp(-gamma (P - D)^2) / (1 - q)``, and the waves above k at most
    ``a_0 exp(-b k^2) / (b k)`` with ``b = pi^2 / (gamma P^2)``. All a_k are positive, so the series is a kernel.

    Parameters
    ----------
    spans : array of shape (n_kernels,)
        Widths of the intervals.
    gammas : array of shape (n_kernels,)
    """
    periods = spans + np.sqrt(math.log(8.0 / ERROR) / gammas)
    around = 2.0 * np.exp(-gammas * np.square(periods - spans)) * (1.0 + 1e-6)
    b = np.square(math.pi / periods) / gammas
    a = np.sqrt(math.pi / gammas) / periods
    counts = np.ceil(np.sqrt(math.log(1.0 / ERROR) / b)) - 4.0
    counts = np.maximum(1.0, counts)

    def above(k: Array) -> Array:
        return a * np.exp(-b * np.square(k)) / (b * k)

    for _ in range(100):
        short = above(counts) > 0.5 * ERROR
        if not short.any():
            break
        counts[short] += 1.0
    most = float(counts.max())
    if most > MOST_WAVES:
        worst = int(np.argmax(counts))
        raise InputError(
            f"The values of a column span {spans[worst] * math.sqrt(gammas[worst]):.3g} widths 1/sqrt(gamma) of its "
            f"Gaussian kernel (gamma={gammas[worst]:.3g}), which is too many. Standardise the columns, limit values "
            "that lie far from all others, or choose a smaller `gamma`."
        )
    # waves are multiplied up, and lose a few units in the last place each
    rounding = 4.0 * np.finfo(np.float64).eps * (counts + 8.0)
    return periods, counts.astype(np.int64), around + above(counts) + rounding


class GaussianStream(KernelStream):
    """``exp(-gamma (x - z)^2)`` for every column of a table and every gamma: see `KernelStream.gaussians`."""

    matrices = False

    def __init__(self, X: ArrayLike, gamma: ArrayLike, progress: Progress | None) -> None:
        self.progress = progress
        known = isinstance(X, np.ndarray) and X.dtype in (np.float32, np.float64)
        self.X: NDArray[Any] = np.asarray(X) if known else as_floats(X, "X")
        if self.X.ndim != 2 or self.X.size == 0:
            raise InputError(
                f"`X` must have shape (n_samples, n_columns) with at least one of each, got {self.X.shape}."
            )
        self.gammas = np.atleast_1d(np.asarray(gamma, dtype=np.float64))
        self._measure()

    def _measure(self) -> None:
        """Series for the kernels of the columns."""
        self.passes = 0.0
        self.n_samples, n_columns = map(int, self.X.shape)
        self.n_kernels = n_columns * len(self.gammas)
        low, high = np.empty(n_columns), np.empty(n_columns)
        for part, columns in self._some_columns(np.arange(n_columns)):
            low[part], high[part] = columns.min(axis=1), columns.max(axis=1)
        wrong = ~(np.isfinite(low) & np.isfinite(high))
        if wrong.any():
            raise InputError(
                f"`X` must be finite, got NaN or infinity in {int(wrong.sum())} of {n_columns} columns, the first of "
                f"them column {int(np.flatnonzero(wrong)[0])}. Impute or drop them first."
            )
        largest = max(float(np.abs(low).max()), float(np.abs(high).max()))
        if largest > LARGEST_NUMBER:
            raise InputError(
                f"`X` must not hold numbers above {LARGEST_NUMBER:g} in size, got {largest:.3g}."
            )
        self.middles = 0.5 * (low + high)
        # the middle is rounded
        spans = (high - low) * (1.0 + 4.0 * np.finfo(np.float64).eps)
        self.periods, self.counts, self.errors = series(
            np.repeat(spans, len(self.gammas)), np.tile(self.gammas, n_columns)
        )
        self.widths = 2 * self.counts + 1

    def _pieces(
        self, C: Array, kernels: Index, weights: Array | None
    ) -> Iterator[tuple[slice, Array, Array]]:
        count = len(self.gammas)
        rate = 0.0 if weights is None else float(weights.sum())
        columns = kernels // count
        chosen, place = np.unique(columns, return_inverse=True)
        for part, piece in self._some_columns(chosen):
            inside = np.flatnonzero((place >= part.start) & (place < part.stop))
            own = kernels[inside]
            out = np.empty((len(C), len(own)))
            core.gaussian_quadratic_forms(
                piece,
                np.ascontiguousarray(place[inside] - part.start),
                self.middles[columns[inside]],
                self.periods[own],
                self.counts[own],
                self.gammas[own % count],
                C,
                out,
            )
            # kernels come in order, so that those of a piece are neighbours
            yield slice(int(inside[0]), int(inside[-1]) + 1), out, np.full(len(own), rate)

    def factors(self, kernels: Index) -> Iterator[Array]:
        for kernel in kernels:
            column, g = divmod(int(kernel), len(self.gammas))
            gamma, period = float(self.gammas[g]), float(self.periods[kernel])
            x = np.asarray(self.X[:, column], dtype=np.float64)
            k = np.arange(self.counts[kernel] + 1.0)
            a = np.where(k > 0, 2.0, 1.0) * math.sqrt(math.pi / gamma) / period
            root = np.sqrt(a * np.exp(-np.square(math.pi * k / period) / gamma))[:, None]
            angles = np.multiply.outer(k, (x - self.middles[column]) * (2.0 * math.pi / period))
            yield np.concatenate([root * np.cos(angles), root[1:] * np.sin(angles[1:])])

    def products(self, C: Array, kernels: Index) -> Iterator[Array]:
        for F in self.factors(kernels):
            yield (C @ F.T) @ F

    def restrict(self, rows: Index) -> KernelStream:
        out = copy.copy(self)
        out.X = self.X[rows]
        out._measure()
        return out

    def _some_columns(self, columns: Index) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Some columns as rows in order of memory, a piece at a time."""
        for part in pieces(len(columns), PIECE // self.n_samples):
            own = columns[part]
            together = own[-1] - own[0] + 1 == len(own)
            yield part, np.ascontiguousarray(self.X[:, slice(own[0], own[-1] + 1) if together else own].T)


def _clip(quadratic_forms: Array, item: Any, sizes: Array, kernel: int) -> None:
    trace = float(np.trace(np.asarray(item, dtype=np.float64)))
    if (quadratic_forms < -NEGATIVE * abs(trace) * sizes).any():
        raise NotPSDError(
            f"Kernel {kernel} is not positive semidefinite: a quadratic form is {quadratic_forms.min():.3g}. Use "
            "`kernelweave.solvers.repair_gram`, or another kernel."
        )
    np.maximum(quadratic_forms, 0.0, out=quadratic_forms)


def _factor_of_matrix(K: Array, kernel: int) -> Array:
    """Rows F of a Cholesky factor with pivots, so that ``K - F'F`` has entries of rounding errors only."""
    size = float(np.abs(K).max())
    if not np.isfinite(size) or np.abs(K - K.T).max() > 1e-6 * size:
        raise InputError(
            f"Kernel {kernel} must be a finite symmetric matrix. Average it with its transpose if it is nearly so."
        )
    trace = float(np.trace(K))
    if trace <= 0.0:
        return np.zeros((1, len(K)))
    factor, pivots, rank, _ = lapack.dpstrf(K, tol=1e-13 * trace / len(K), lower=0)
    rows = np.empty((rank, len(K)))
    rows[:, pivots - 1] = np.triu(factor)[:rank]
    return rows
