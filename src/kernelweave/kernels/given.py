"""Kernels that are given: as a precomputed matrix, or as a function of two arrays of rows, or of two objects."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from kernelweave._checks import InputError, is_missing
from kernelweave._parameters import Flag, check_value, shown
from kernelweave.kernels.base import VIEW_NAME, FloatArray, Kernel, set_fields
from kernelweave.kernels.pairs import IncompleteRows
from kernelweave.kernels.steps import Step
from kernelweave.views import Cells, GramTable, Table

__all__ = ["Custom", "Pairwise", "Precomputed"]

#: Pairs of objects that are compared in both orders, of those that are computed at a time.
BOTH_ORDERS = 32


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


@dataclass(init=False, frozen=True, repr=False)
class Custom(Kernel, described=False):
    """Any function of two arrays of rows; :class:`Pairwise` is for functions of two objects.

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
        For the label and for files; by default the function's name.
    repair : bool, default=False
        What estimators do about negative eigenvalues of the training matrix. False: they are an error. True: they are
        set to zero, which gives the nearest positive semidefinite matrix in the Frobenius norm, and values of new rows
        are projected alike. `kw.inspection.missing` says how much of the matrix this takes away.

    Notes
    -----
    A column of texts with such a kernel is not a category for other kernels: those on all columns leave it out.
    Declare a column as categories, ``frame.astype({"site": "category"})``, to get indicator columns.

    Equal if function, diag, name and repair are the same; picklable if the functions are. Model files contain no code:
    they refer to the function by the name of the kernel, and ``kw.load(path, functions={name: function})`` hands it
    over.

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
    repair: bool = False

    needs_psd_check: ClassVar[bool] = True

    def __init__(
        self,
        function: Callable[..., ArrayLike],
        diag: Callable[..., ArrayLike] | None = None,
        name: str | None = None,
        repair: bool = False,
    ) -> None:
        owner = type(self).__name__
        for label, value in (("function", function), ("diag", diag)):
            if not callable(value) and (label == "function" or value is not None):
                raise InputError(
                    f"`{label}` of {owner} must be callable, got {value!r}. Pass a function of {self.arguments}."
                )
        check_value(VIEW_NAME, "name", name, of=owner)
        repair = check_value(Flag(), "repair", repair, of=owner)
        set_fields(self, function=function, diagonal=diag, name=name, repair=repair)

    #: The arguments of the function.
    arguments: ClassVar[str] = "arrays"

    @property
    def is_corrected(self) -> bool:
        """Whether negative eigenvalues are set to zero."""
        return self.repair

    def _rows(self, table: Table) -> Any:
        """Arguments of the function: numbers, or the given cells."""
        if table.cells is None or None in table.cells:
            return _cells(table)
        columns = [cells.values for cells in table.cells if cells is not None]
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)

    def _values(self, A: Any, B: Any) -> FloatArray:
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
            self._refuse_asymmetric(float(np.abs(K - K.T).max()))
        return K

    def _refuse_asymmetric(self, worst: float) -> None:
        raise InputError(
            f"The function of {self._short()} must be symmetric, got values that differ by {worst:.3g} "
            "when X and Z are exchanged. Average both orders."
        )

    def _diag(self, table: Table) -> FloatArray:
        A = self._rows(table)
        if self.diagonal is not None:
            return self._checked(self.diagonal(A), (A.shape[0],), "(X.shape[0],)")
        blocks = [A[top : top + 32] for top in range(0, A.shape[0], 32)]
        return np.concatenate([self._values(block, block).diagonal() for block in blocks] or [np.empty(0)])

    def _short(self, nested: bool = False) -> str:
        return self.name or getattr(self.function, "__name__", None) or type(self.function).__name__

    def __repr__(self) -> str:
        given = {"diag": self.diagonal, "name": self.name, "repair": self.repair or None}
        said = "".join(f", {key}={value!r}" for key, value in given.items() if value is not None)
        return f"{type(self).__name__}({self.function!r}{said})"


@dataclass(frozen=True, eq=False)
class _Same:
    """A function as a key, by its identity: functions of one's own need not be hashable."""

    function: Callable[..., Any]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.function is self.function

    def __hash__(self) -> int:
        return id(self.function)


@dataclass(frozen=True, init=False, repr=False)
class Pairwise(Custom, described=False):
    """Any function of two objects: texts, sequences, graphs, images, or objects of a class of yours.

    Parameters
    ----------
    function : callable
        ``function(x, z)`` of two cells of a column returns a number; of two rows of several columns, or of numbers, its
        arguments are arrays. It must be symmetric and positive semidefinite.
    name : str or None, default=None
        For the label and for files; by default the function's name.
    repair : bool, default=False
        Whether negative eigenvalues of the training matrix are set to zero, see :class:`Custom`. False: they are an
        error.

    Notes
    -----
    On one column of objects the value of each pair of rows is computed once, in one order, and shared by all folds and
    fits on that column: n (n + 1) / 2 calls for n training rows, of which n^2 numbers are stored. Some pairs are
    computed in both orders, to check that the function is symmetric. New rows are compared with the training rows,
    which are part of the model.

    A missing object is an error. In a view of its own, a row may lack its object; see the parameter `missing_views` of
    estimators. Files refer to the function by name, see :class:`Custom`.

    Examples
    --------
    >>> def overlap(x, z):
    ...     return len(x & z) / len(x | z)
    >>> Pairwise(overlap)({"tags": [{"a", "b"}, {"b"}]})
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    arguments: ClassVar[str] = "two objects"

    def __init__(self, function: Callable[..., float], name: str | None = None, repair: bool = False) -> None:
        super().__init__(function, None, name, repair)

    def _gram(self, left: Table, right: Table | None) -> FloatArray:
        own = self._objects(left)
        other = own if right is None else self._objects(right)
        if not own.shares(other) or len(own) * len(other) < own.n_column:
            # new rows, or too few pairs to store those of the whole column
            values = [[self._value(x, z) for z in other.values] for x in own.values]
            return np.array(values).reshape(len(own), len(other))
        column, known = own.of_column(
            (Pairwise, _Same(self.function)),
            lambda column: (column, np.full((len(column), len(column)), np.nan)),
        )
        both = np.intersect1d(own.positions, other.positions)
        known[both, both] = self._of_themselves(own, both)
        places = np.ix_(own.positions, other.positions)
        lacking = np.argwhere(np.isnan(known[places]))
        self._compute(column, known, own.positions[lacking[:, 0]], other.positions[lacking[:, 1]])
        return known[places]

    def _diag(self, table: Table) -> FloatArray:
        own = self._objects(table)
        return self._of_themselves(own, own.positions)

    def _of_themselves(self, cells: Cells, places: Any) -> FloatArray:
        """Values k(x, x) of some places of the whole column."""
        column, known = cells.of_column(
            (Pairwise, _Same(self.function), "diagonal"),
            lambda column: (column, np.full(len(column), np.nan)),
        )
        for i in places[np.isnan(known[places])].tolist():
            known[i] = self._value(column[i], column[i])
        return known[places]

    def _compute(self, column: Any, known: FloatArray, rows: Any, columns: Any) -> None:
        """Compute the values of different rows of a column, each pair once."""
        step = max(1, len(rows) // BOTH_ORDERS)
        for t, (i, j) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
            if not math.isnan(known[i, j]):
                continue
            # the order of a pair does not depend on who asks
            x, z = column[min(i, j)], column[max(i, j)]
            known[i, j] = known[j, i] = value = self._value(x, z)
            # values near zero are rounding errors of the others
            if (
                t % step == 0
                and (apart := abs(self._value(z, x) - value)) > 1e-8 * abs(value)
                and apart > 1e-10 * np.nanmax(np.abs(known))
            ):
                self._refuse_asymmetric(apart)

    def _value(self, x: Any, z: Any) -> float:
        value: Any = self.function(x, z)
        try:
            found = float(value)
        except (TypeError, ValueError):
            raise InputError(
                f"The function of {self._short()} must return a number for two objects, got {shown(value)}. For a "
                "function of two arrays of rows take Custom."
            ) from None
        if not math.isfinite(found):
            raise InputError(
                f"The function of {self._short()} must return finite values, got {found} for {x!r:.40} and "
                f"{z!r:.40}. Fix it."
            )
        return found

    def _objects(self, table: Table) -> Cells:
        """The cells of a column of objects, or rows of numbers or of several columns as objects."""
        given = table.cells
        if given is None or len(given) > 1 or given[0] is None:
            return Cells(list(self._rows(table)))
        found = given[0]
        lost = [i for i, value in enumerate(found.values) if is_missing(value)]
        if lost:
            raise InputError(
                f"{self._short()} compares objects, and {len(lost)} of {len(found)} are missing, the first in row "
                f"{lost[0]}, counted from 0. Leave these rows out, or make the column a view, whose rows may lack it "
                "(missing_views='renormalize')."
            )
        return found
