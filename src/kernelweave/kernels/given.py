"""Kernels that are given: as a precomputed matrix, or as a function of two arrays of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._checks import InputError
from kernelweave._parameters import check_value
from kernelweave.kernels.base import VIEW_NAME, FloatArray, Kernel, set_fields
from kernelweave.kernels.pairs import IncompleteRows
from kernelweave.kernels.steps import Step
from kernelweave.views import GramTable, Table

__all__ = ["Custom", "Precomputed"]


@dataclass(frozen=True)
class Precomputed(Kernel):
    """The values of a precomputed view, ``kernelweave.precomputed(K)``.

    Estimators use it for such views automatically; training matrices are checked for symmetry and negative
    eigenvalues.

    Examples
    --------
    >>> import kernelweave as kw
    >>> K = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> model = kw.MKLRegressor(alpha=1.0).fit({"similarity": kw.precomputed(K)}, [0.0, 1.0])
    >>> model.kernel_names_.tolist()
    ['similarity: Precomputed']
    """

    needs_psd_check: ClassVar[bool] = True
    takes_missing: ClassVar[bool] = True  # there are no cells

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        right = left if right is None else right
        index = _as_gram(right).index
        if (index < 0).any():
            raise InputError(
                "A precomputed view has kernel values with training rows only. Pass training rows on the right."
            )
        return _as_gram(left).matrix[:, index]

    def _diag(self, table: Table) -> FloatArray:
        diagonal = _as_gram(table).diagonal
        if np.isnan(diagonal).any():
            raise InputError(
                "This needs k(x, x) of the new rows, which a precomputed cross-Gram does not have. Make one square "
                "view of all rows, kw.precomputed(K), and pass some of its rows to fit and others to predict."
            )
        return diagonal

    def _after(self, steps: tuple[Step, ...]) -> Kernel:
        raise InputError("A precomputed view has no columns to prepare. Use Precomputed() without steps.")


def _as_gram(table: Table) -> GramTable:
    if not isinstance(table, GramTable):
        raise InputError(
            "Precomputed is for views that kw.precomputed(K) makes, got columns. Use Linear or RBF for them."
        )
    return table


def _cells(table: Table) -> Any:
    """Columns for a function, with NaN for missing cells that are skipped."""
    A = table.take()
    return A.values if isinstance(A, IncompleteRows) else A


@dataclass(frozen=True, init=False)
class Custom(Kernel, described=False):
    """Any function of two arrays of rows.

    Parameters
    ----------
    function : callable
        ``function(X, Z)`` with float arrays (n, n_columns) and (m, n_columns), categorical columns as
        indicator columns and sparse rows as SciPy arrays, returns (n, m). On a column of texts, sets or other
        objects its arguments are these objects, arrays of objects (n,) and (m,), or (n, n_columns). It must be
        symmetric, ``function(X, X)`` up to rounding, and positive semidefinite; estimators check both on the training
        rows as long as the matrix fits in memory.
    diag : callable or None, default=None
        ``diag(X)`` returns k(x, x) for every row, (n,). None: taken from small blocks of ``function``.
    name : str or None, default=None
        For the label; by default the function's name.

    Notes
    -----
    A column of texts with such a kernel is not a category for other kernels: those on all columns leave it out.
    Declare a column as categories, ``frame.astype({"site": "category"})``, to get indicator columns.

    Equal if function, diag and name are the same objects; picklable if they are.

    Examples
    --------
    >>> cosine = Custom(lambda X, Z: np.cos(X - Z.T), name="cosine")
    >>> cosine.on([1]).label
    'cosine on x1'
    >>> cosine.diag([[0.5], [2.0]])
    array([1., 1.])
    >>> shared = Custom(lambda X, Z: [[len(x & z) for z in Z] for x in X], name="shared")
    >>> shared({"tags": [{"a", "b"}, {"b"}]})
    array([[2., 1.],
           [1., 1.]])
    """

    function: Callable[..., ArrayLike]
    diagonal: Callable[..., ArrayLike] | None
    name: str | None

    needs_psd_check: ClassVar[bool] = True

    def __init__(
        self,
        function: Callable[..., ArrayLike],
        diag: Callable[..., ArrayLike] | None = None,
        name: str | None = None,
    ) -> None:
        for label, value in (("function", function), ("diag", diag)):
            if not callable(value) and (label == "function" or value is not None):
                raise InputError(
                    f"`{label}` of Custom must be callable, got {value!r}. Pass a function of arrays."
                )
        check_value(VIEW_NAME, "name", name, of="Custom")
        set_fields(self, function=function, diagonal=diag, name=name)

    def _rows(self, table: Table) -> Any:
        """Arguments of the function: numbers, or the given cells."""
        if table.cells is None or None in table.cells:
            return _cells(table)
        columns = [cells.values for cells in table.cells if cells is not None]
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)

    def _values(self, A: FloatArray, B: FloatArray) -> FloatArray:
        return self._checked(self.function(A, B), (A.shape[0], B.shape[0]), "(X.shape[0], Z.shape[0])")

    def _checked(self, result: ArrayLike, shape: tuple[int, ...], formula: str) -> FloatArray:
        values = np.array(result, dtype=np.float64)
        if values.shape != shape:
            raise InputError(
                f"The function of {self._short()} must return shape {formula} = {shape}, got {values.shape}. "
                "Compute all pairs of rows."
            )
        if not np.isfinite(values).all():
            raise InputError(
                f"The function of {self._short()} must return finite values, got NaN or infinity. Fix it."
            )
        return values

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        A = self._rows(left)
        if right is not None:
            return self._values(A, self._rows(right))
        K = self._values(A, A)
        if not np.allclose(K, K.T, rtol=1e-8, atol=1e-10 * float(np.abs(K).max(initial=0.0))):
            worst = float(np.abs(K - K.T).max())
            raise InputError(
                f"The function of {self._short()} must be symmetric, got values that differ by {worst:.3g} "
                "when X and Z are exchanged. Average both orders."
            )
        return K

    def _diag(self, table: Table) -> FloatArray:
        A = self._rows(table)
        if self.diagonal is not None:
            return self._checked(self.diagonal(A), (A.shape[0],), "(X.shape[0],)")
        blocks = [A[top : top + 32] for top in range(0, A.shape[0], 32)]
        return np.concatenate([self._values(block, block).diagonal() for block in blocks] or [np.empty(0)])

    def _short(self, nested: bool = False) -> str:
        return self.name or getattr(self.function, "__name__", None) or type(self.function).__name__

    def __repr__(self) -> str:
        diag = "" if self.diagonal is None else f", diag={self.diagonal!r}"
        name = "" if self.name is None else f", name={self.name!r}"
        return f"Custom({self.function!r}{diag}{name})"
