"""Kernels that are made when they are needed, for many more than fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Protocol

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._checks import LARGEST_NUMBER, InputError
from kernelweave._parameters import Function, OneOf, ReadableSignature, Whole, checked
from kernelweave.gram.base import Array, Index
from kernelweave.gram.gaussians import as_column_gaussians
from kernelweave.gram.made import IteratedKernels, MadeKernels

KINDS = ("features", "matrices")

#: ``progress(done, n_kernels)``.
Progress = Callable[[int, int], object]


class Source(Protocol):
    """Where kernels come from."""

    n_samples: int
    n_kernels: int

    @property
    def widths(self) -> Index:
        """Columns of the factors of all kernels; at most so many."""

    @property
    def errors(self) -> Array:
        """Bounds of the error of every entry of a kernel, shape (n_kernels,)."""

    def looks(self, C: Array, kernels: Index, weights: Array | None) -> Iterator[tuple[slice, Array, Array]]:
        """Quadratic forms of the rows of C for kernels in rising order, piece by piece, and weighted traces."""

    def factors(self, kernels: Index) -> Iterator[Array]:
        """Rows F with ``K = F'F`` for some kernels, to `errors` and rounding, float64 and the caller's to change."""

    def products(self, C: Array, kernels: Index) -> Iterator[Array]:
        """``C K`` for some kernels."""

    def restrict(self, rows: Index) -> Source:
        """The same kernels on some of the rows."""


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
    KernelStream.of_iterator : A function that returns an iterator.
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
        self._start(MadeKernels(make, int(n_kernels), kind == "matrices"), progress)

    def _start(self, source: Source, progress: Progress | None) -> None:
        self._source, self.progress = source, progress
        self.n_samples, self.n_kernels = source.n_samples, source.n_kernels
        self.passes = 0.0

    @classmethod
    def _of(cls, source: Source, progress: Progress | None) -> KernelStream:
        stream = cls.__new__(cls)
        stream._start(source, progress)
        return stream

    @classmethod
    def gaussians(
        cls, X: ArrayLike, gamma: ArrayLike = 1.0, *, progress: Progress | None = None
    ) -> KernelStream:
        """Gaussian kernels of single columns, ``exp(-gamma (x - z)^2)``.

        Parameters
        ----------
        X : array of shape (n_samples, n_columns)
            float32 or float64 in any order of memory, also memory-mapped. Held, not copied.
        gamma : float or array of shape (n_gammas,), default=1.0
            With several, kernel ``j * n_gammas + g`` is that of column j with ``gamma[g]``.
        progress : callable, optional
            See `KernelStream`.

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
        if progress is not None and not callable(progress):
            raise InputError(f"`progress` must be a function, got {type(progress).__name__}.")
        return cls._of(as_column_gaussians(X, gamma), progress)

    @classmethod
    @checked
    def of_iterator(
        cls,
        make: Annotated[Callable[[], Iterator[ArrayLike]], Function()],
        n_kernels: Annotated[int, Whole(1)],
        *,
        kind: Annotated[str, OneOf(*KINDS)] = "features",
        progress: Annotated[Progress | None, Function() | None] = None,
    ) -> KernelStream:
        """Kernels from a function that returns an iterator over all of them, for example a generator function.

        Parameters
        ----------
        make : callable
            ``make()`` returns an iterator over all kernels, always the same ones in the same order.
        n_kernels : int
        kind, progress
            See `KernelStream`.

        Returns
        -------
        KernelStream

        Notes
        -----
        Kernels are taken by another round of the iterator when they enter the working set: a function of the number is
        faster.

        Examples
        --------
        >>> import numpy as np, kernelweave as kw
        >>> def kernels():
        ...     rng = np.random.default_rng(0)
        ...     for _ in range(50):
        ...         yield rng.normal(size=(30, 4))
        >>> stream = kw.KernelStream.of_iterator(kernels, 50)
        >>> kw.solve_rls2(stream, next(kernels())[:, 0], alpha=1.0, tol=1e-3).weights.argmax()
        np.int64(0)
        """
        return cls._of(IteratedKernels(make, int(n_kernels), kind == "matrices"), progress)

    def __repr__(self) -> str:
        return f"KernelStream({self.n_samples} samples, {self.n_kernels} kernels)"

    @property
    def widths(self) -> Index:
        """Number of columns of the factor of each kernel; at most so many."""
        return self._source.widths

    @property
    def matrices(self) -> bool:
        """Whether kernels are given as matrices, whose products are less exact than those of features."""
        return isinstance(self._source, MadeKernels) and self._source.matrices

    @property
    def errors(self) -> Array:
        """Bounds of the error of every entry of each kernel, shape (n_kernels,)."""
        return self._source.errors

    def looks(
        self, C: Array, kernels: Index | None = None, weights: Array | None = None
    ) -> tuple[Array, Array]:
        """Quadratic forms of several vectors in one pass, and traces.

        Parameters
        ----------
        C : array of shape (n_vectors, n_samples)
        kernels : array of int, optional
            In rising order. Default: all.
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
        for part, values, own in self._source.looks(np.ascontiguousarray(C), index, weights):
            if not (np.isfinite(values).all() and np.isfinite(own).all()):
                wrong = ~(np.isfinite(values).all(axis=0) & np.isfinite(own))
                self._refuse(int(index[part][np.flatnonzero(wrong)[0]]))
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

    def _refuse(self, kernel: int) -> None:
        raise InputError(
            f"Kernels must be finite, got NaN or infinity in kernel {kernel}. Impute or drop such values first."
        )

    def factors(self, kernels: Index) -> Iterator[Array]:
        """Rows F with ``K = F'F`` for some kernels, float64 and the caller's to change."""
        return self._source.factors(kernels)

    def products(self, C: Array, kernels: Index) -> Iterator[Array]:
        """``C K`` for some kernels."""
        return self._source.products(C, kernels)

    def restrict(self, rows: Index) -> KernelStream:
        """The stream on some of its samples, in the order of `rows`."""
        return self._of(self._source.restrict(rows), self.progress)
