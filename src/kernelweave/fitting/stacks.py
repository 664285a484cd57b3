"""Given kernel matrices as sources: a bank over fixed samples, or a stack as X."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._checks import InputError, as_floats, as_names, check_finite, check_known
from kernelweave._parameters import ReadableSignature
from kernelweave.fitting.source import Q, Source
from kernelweave.gram import Gram, gram_from_stack, repair_gram
from kernelweave.gram.repair import CORRECTIONS
from kernelweave.views.tables import kernel_row_content

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


class KernelBank:
    """Precomputed kernels over a fixed set of samples; estimators then take X as a column of sample indices.

    Parameters
    ----------
    stack : array of shape (n_total, n_total, n_kernels)
        Symmetric PSD matrices, kernels last, over all samples that will be used (training and test).
        Checked for symmetry and NaN when a model is fitted, and for NaN when it predicts.
    names : sequence of str, optional
        One name per kernel.
    on_indefinite : {"raise", "clip", "shift"}, default="raise"
        Treatment of matrices with negative eigenvalues: an error when a model is fitted, or `repair_gram`.

    Notes
    -----
    ``clone`` returns the bank itself, so that pipelines, grid searches and parallel folds do not copy it.

    Examples
    --------
    >>> import numpy as np, kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> bank = kw.KernelBank(X[:, None, :] * X[None, :, :], names=["a", "b", "c"])
    >>> model = kw.MKLRegressor(kernels=bank).fit(np.arange(30)[:, None], X[:30, 0])
    >>> model.predict(np.arange(30, 40)[:, None]).shape
    (10,)
    """

    __signature__ = ReadableSignature()

    def __init__(
        self, stack: ArrayLike, names: Sequence[str] | None = None, *, on_indefinite: str = "raise"
    ) -> None:
        check_known(on_indefinite, ("raise", *CORRECTIONS), "on_indefinite")
        array = as_floats(stack, "stack")
        if array.ndim != 3 or array.shape[0] != array.shape[1] or 0 in array.shape:
            raise InputError(
                f"`stack` must have shape (n_total, n_total, n_kernels), kernels last, got {array.shape}."
            )
        self.stack = array if on_indefinite == "raise" else repair_gram(array, on_indefinite)
        self.names = as_names(names, array.shape[2])

    def __sklearn_clone__(self) -> KernelBank:
        return self

    def __len__(self) -> int:
        return self.stack.shape[2]

    def __repr__(self) -> str:
        return f"KernelBank(n_total={self.stack.shape[0]}, n_kernels={self.stack.shape[2]})"


class GivenSource(Source[Q]):
    """Rows of given matrices; queries are arrays with an entry for each row."""

    #: Whether the matrices are known to be positive semidefinite, as parts of such ones.
    semidefinite: bool

    @abstractmethod
    def _matrices(self) -> Array:
        """Those of the training rows, shape (n_samples, n_samples, n_kernels)."""

    @abstractmethod
    def read_queries(self, X: Any, n_columns: int) -> Q:
        """Check new rows; `n_columns` is the number of columns that `fit` was given."""

    @abstractmethod
    def _values(self, queries: Q, m: int) -> Array:
        """Values of a kernel between new rows and training rows, shape (n_rows, n_samples)."""

    def cross(self, queries: Q, kernels: Rows) -> Iterator[tuple[slice, int, Array]]:
        for m in map(int, kernels):
            yield slice(0, self.query_length(queries)), m, self._values(queries, m)

    def gram(self) -> Gram:
        gram = gram_from_stack(self._matrices(), psd=not self.semidefinite)
        self.semidefinite = True
        return gram

    def query_length(self, queries: Any) -> int:
        return len(queries)


class BankSource(GivenSource[NDArray[np.int64]]):
    """Rows of a `KernelBank` given by sample indices.

    Parameters
    ----------
    bank : KernelBank
    index : array of int, shape (n_samples,)
    semidefinite : bool
        Whether the matrices are known to be positive semidefinite, as parts of such ones.
    """

    def __init__(self, bank: KernelBank, index: NDArray[np.int64], *, semidefinite: bool = False) -> None:
        self.bank, self.index = bank, index
        self.semidefinite = semidefinite
        self.names = bank.names
        self.n_samples = len(index)

    @staticmethod
    def check_index(bank: KernelBank, X: ArrayLike) -> NDArray[np.int64]:
        """Return a column of sample indices as integers after checking the range."""
        column = as_floats(X, "X")
        if column.ndim == 1:
            column = column[:, None]
        if column.ndim != 2 or column.shape[1] != 1:
            raise InputError(
                f"With a KernelBank, `X` must be one column of sample indices, shape (n_rows, 1), "
                f"got {np.shape(X)}. Use np.arange(n)[:, None]."
            )
        values = column[:, 0]
        if not len(values):
            raise InputError("With a KernelBank, `X` must hold at least one sample index, got none.")
        check_finite(values, "X")
        n_total = bank.stack.shape[0]
        if (values != np.floor(values)).any() or (values < 0).any() or (values >= n_total).any():
            raise InputError(
                f"With a KernelBank, `X` must hold whole numbers from 0 to {n_total - 1}, got values from "
                f"{values.min():g} to {values.max():g}."
            )
        return values.astype(np.int64)

    def read_queries(self, X: ArrayLike, n_columns: int) -> NDArray[np.int64]:
        return self.check_index(self.bank, X)

    def _matrices(self) -> Array:
        return self.bank.stack[np.ix_(self.index, self.index)]

    def take(self, rows: Rows) -> BankSource:
        return BankSource(self.bank, self.index[rows], semidefinite=self.semidefinite)

    def queries(self, rows: Rows) -> NDArray[np.int64]:
        return self.index[rows]

    def _values(self, queries: NDArray[np.int64], m: int) -> Array:
        return self._finite(self.bank.stack[queries[:, None], self.index, m], m)

    def distinguish(self) -> Array:
        return self.index[:, None].astype(np.float64)

    def query_diagonal(self, queries: NDArray[np.int64], m: int) -> Array:
        return self._finite(self.bank.stack[queries, queries, m], m)

    def _finite(self, values: Array, m: int) -> Array:
        """Return values of the bank for rows outside of fits after a check."""
        if not np.isfinite(values).all():
            raise InputError(
                f"The KernelBank must be finite in the requested rows, got NaN or infinity in kernel "
                f"{self.names[m]!r}. Leave these rows out, or compute their values."
            )
        return values


class StackSource(GivenSource[Array]):
    """A training stack (n, n, n_kernels) given as X, and cross-Grams (n_rows, n, n_kernels) as queries.

    Parameters
    ----------
    stack : array of shape (n_samples, n_samples, n_kernels)
    names : sequence of str, optional
    columns : array of shape (n_samples,), optional
        Columns of a query for these training rows, if it has more.
    semidefinite : bool
        Whether the stack is known to be positive semidefinite, as part of such a one.
    """

    def __init__(
        self,
        stack: Array,
        names: Sequence[str] | None = None,
        columns: Rows | None = None,
        *,
        semidefinite: bool = False,
    ) -> None:
        self.stack, self.columns, self.semidefinite = stack, columns, semidefinite
        self.n_samples = stack.shape[1]
        self.names = as_names(names, stack.shape[2])

    def read_queries(self, X: ArrayLike, n_columns: int) -> Array:
        """Return cross-Grams of new rows, with a column for each row that `fit` was given."""
        block = as_floats(X, "X")
        if block.ndim == 2 and self.n_kernels == 1:
            block = block[:, :, None]
        expected = (n_columns, self.n_kernels)
        if block.ndim != 3 or block.shape[1:] != expected:
            raise InputError(
                f"Cross-Grams must have shape (n_rows, n_train={expected[0]}, n_kernels={expected[1]}), "
                f"got {block.shape}. Rows are the new samples, columns the training samples."
            )
        if not len(block):
            raise InputError("Found no rows to predict, got a cross-Gram of 0 rows. Pass at least one.")
        check_finite(block, "X")
        return block

    def _matrices(self) -> Array:
        return self.stack

    def take(self, rows: Rows) -> StackSource:
        part = self.stack[np.ix_(rows, rows)]
        return StackSource(part, self.names, rows, semidefinite=self.semidefinite)

    def queries(self, rows: Rows) -> Array:
        return self.stack[rows]

    def _values(self, queries: Array, m: int) -> Array:
        K = queries[:, :, m]
        return K if self.columns is None else K[:, self.columns]

    def distinguish(self) -> Array:
        return kernel_row_content(self.stack)

    def query_diagonal(self, queries: Array, m: int) -> Array:
        raise InputError(
            "This needs k(x, x) of the new rows, which a precomputed cross-Gram (n_rows, n_train, n_kernels) does "
            "not have. Pass kernels as objects or as a KernelBank."
        )
