"""Exceptions, warnings, and boundary checks of arrays and of limits of memory.

Every message has three parts: what was expected, what was given, what to do.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelweave._allowance import machine_memory
from kernelweave._devices import hosted
from kernelweave._errors import InputError, KernelWarning, NotPSDError, check_known
from kernelweave._parameters import LARGEST_NUMBER, Number, Rule, Unfit, check_value, shown

__all__ = [
    "COSTS",
    "Alphas",
    "Floats",
    "GivenTargets",
    "InputError",
    "KernelWarning",
    "Labels",
    "NotPSDError",
    "RowWeights",
    "Scale",
    "Start",
    "Targets",
    "as_floats",
    "check_gram_stack",
    "check_kernel_matrix",
    "check_known",
    "check_positive",
    "check_psd",
    "check_row_weights",
    "check_scale",
    "check_targets",
    "check_vector",
    "count_dimensions",
    "is_missing",
    "memory_budget",
    "need_targets",
    "warn_user",
]


def is_missing(value: object) -> bool:
    """Whether a cell is None, NaN, NaT, or pandas' missing value."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return isinstance(value, float | np.floating) and value != value


#: Kernels with a largest diagonal entry below it, or above its inverse, have squares that are 0 or infinite.
SMALLEST = 1e-150
#: Diagonals and eigenvalues below this share of the other entries are rounding errors.
ROUNDED = 1e-8

#: Packages whose lines are not those of a user.
INSIDE = ("kernelweave", "sklearn", "contextlib")


def _floats(values: object) -> NDArray[np.float64]:
    """Numbers as a float array; raises `Unfit` with a description of other values."""
    found = ""
    try:
        array = np.asarray(hosted(values))
        text = array.dtype.kind == "O" and any(isinstance(value, str | bytes) for value in array.flat)
        if array.dtype.kind in "biufO" and not text:
            return np.asarray(array, dtype=np.float64)
        found = _KINDS.get("U" if text else array.dtype.kind, "")
    except (TypeError, ValueError, OverflowError):
        pass
    raise Unfit("Encode it as numbers, in rows of equal length.", found)


#: Descriptions of arrays that are not numbers.
_KINDS = {"U": "text", "S": "bytes", "c": "complex numbers", "M": "dates", "m": "durations"}


def as_floats(values: object, name: str) -> NDArray[np.float64]:
    """Numbers as a float array, copied only if necessary; text, dates and complex numbers are errors."""
    if type(values) is np.ndarray and values.dtype == np.float64:
        return values
    try:
        return _floats(values)
    except Unfit as unfit:
        got = unfit.got or shown(values)
        raise InputError(f"`{name}` must be an array of real numbers, got {got}. {unfit.remedy}") from None


def count_dimensions(values: Any) -> int:
    """Number of dimensions of anything; -1 for rows of different lengths, which have none."""
    try:
        return int(np.ndim(values))
    except ValueError:
        return -1


@dataclass(frozen=True)
class Floats(Rule):
    """An array of real numbers.

    Attributes
    ----------
    ndim : tuple of int
        Admissible numbers of dimensions.
    least, above : float or None
        Lower bound of every number.
    smallest : float
        Smallest admissible size, other than zero.
    what : str
        Description of the values, for messages.
    finite : bool
        Whether NaN, infinity and an empty array are errors.
    largest : float
        Largest admissible size of finite numbers.
    remedy : str
        A sentence that says what to do.
    """

    ndim: tuple[int, ...] = (1,)
    least: float | None = None
    above: float | None = None
    smallest: float = 0.0
    what: str = "numbers"
    finite: bool = True
    largest: float = LARGEST_NUMBER
    remedy: str = ""

    def read(self, value: object) -> NDArray[np.float64]:
        if value is None:
            raise Unfit
        array = _floats(value)
        if array.ndim not in self.ndim or (self.finite and array.size == 0):
            raise Unfit("", f"shape {array.shape}")
        if not self.finite and self.largest == np.inf:
            return array
        size = np.abs(array)
        if self.finite and not np.isfinite(size).all():
            n_nan, n_inf = int(np.isnan(size).sum()), int(np.isinf(size).sum())
            got = f"{n_nan} NaN and {n_inf} infinity among {array.size} entries"
            raise Unfit("Impute or drop them first.", got)
        if (large := (size > self.largest) & (size < np.inf)).any():
            raise Unfit("Its square overflows: divide by a constant first.", f"{size[large].max():.3g}")
        if self.least is not None and not (array >= self.least).all():
            raise Unfit("", f"{int((array < self.least).sum())} numbers < {self.least:g}")
        if self.smallest and not ((size == 0) | (size >= self.smallest)).all():
            least = float(size[size > 0].min())
            raise Unfit(f"Numbers below {self.smallest:g} underflow in products: use 0.", f"{least:.3g}")
        if self.above is not None and not (array > self.above).all():
            raise Unfit("", f"{int((array <= self.above).sum())} numbers <= {self.above:g}")
        return array

    def kinds(self) -> tuple[str, ...]:
        return ("ArrayLike",)

    def words(self) -> str:
        shape = " or ".join(f"{d}D" for d in self.ndim)
        bound = "" if self.least is None or self.what != "numbers" else f" >= {self.least:g}"
        bound += "" if self.above is None or self.what != "numbers" else f" > {self.above:g}"
        return f"{'finite ' if self.finite else ''}{self.what}{bound} in a {shape} array"


@dataclass(frozen=True)
class Alphas(Rule):
    """Regularisation parameters, one or a list: numbers above zero.

    Attributes
    ----------
    infinite : bool
        Whether infinity is allowed.
    table : bool
        Whether there may be several for each point of a path, as a table.
    """

    infinite: bool = True
    table: bool = False

    def read(self, value: object) -> NDArray[np.float64]:
        if value is None:
            raise Unfit
        values = _floats(value)
        values = values if self.table else np.atleast_1d(values)
        if values.ndim > 1 + self.table or not values.size:
            raise Unfit("", f"shape {values.shape}")
        if not (values > 0).all():
            raise Unfit("", f"{values[~(values > 0)][0]}")
        if (values < 1.0 / LARGEST_NUMBER).any():
            raise Unfit(f"Numbers below {1.0 / LARGEST_NUMBER:g} underflow in products.", f"{values.min():g}")
        finite = values[values < np.inf]
        if (finite > LARGEST_NUMBER).any():
            raise Unfit(f"Numbers above {LARGEST_NUMBER:g} overflow in products.", f"{finite.max():g}")
        if not self.infinite and finite.size < values.size:
            raise Unfit("", "infinity")
        return values

    def kinds(self) -> tuple[str, ...]:
        return ("ArrayLike",)

    def words(self) -> str:
        if self.table:
            return "a number > 0, a non-empty list of such numbers, or a table with one row for each alpha of the path"
        if self.infinite:
            return "a non-empty list of numbers > 0 (float('inf') is allowed)"
        return "a non-empty list of finite numbers > 0"


#: Weights of a loss, one or a list.
COSTS = Alphas(infinite=False)
_WEIGHTS = Floats(
    least=0.0,
    smallest=1.0 / LARGEST_NUMBER,
    what="nonnegative numbers",
    remedy="A row of weight 0 does not count.",
)
_FACTORS = Floats(above=0.0, smallest=1.0 / LARGEST_NUMBER, what="positive numbers")
#: Targets or labels, one for each row.
Targets = Annotated[ArrayLike, Floats()]
#: The same, or None where rows have theirs.
GivenTargets = Annotated[ArrayLike | None, Floats() | None]
#: Labels of two classes.
Labels = Annotated[ArrayLike, Floats(what="labels -1 and +1")]
#: Weights of rows, or None for equal ones.
RowWeights = Annotated[ArrayLike | None, _WEIGHTS | None]
#: Factors of kernels, or None for ones.
Scale = Annotated[ArrayLike | None, _FACTORS | None]
#: Start of a solver, or None.
Start = Annotated[ArrayLike | None, Floats() | None]


def check_finite(array: NDArray[np.generic], name: str) -> None:
    """Raise if a float array holds NaN or infinity, with the number of bad entries."""
    if np.isfinite(array).all():
        return
    n_nan = int(np.isnan(array).sum())
    n_inf = int(np.isinf(array).sum())
    raise InputError(
        f"`{name}` must be finite, got {n_nan} NaN and {n_inf} infinity among {array.size} entries. "
        "Impute or drop them first."
    )


def check_size(array: NDArray[np.generic], name: str) -> None:
    """Raise if a finite array holds numbers whose squares overflow."""
    largest = max(float(array.max(initial=0.0)), -float(array.min(initial=0.0)))
    if largest > LARGEST_NUMBER:
        raise InputError(
            f"`{name}` must not exceed {LARGEST_NUMBER:g} in size, got {largest:.3g}, whose square overflows. "
            "Divide by a constant first."
        )


def check_positive(value: float, name: str) -> float:
    """Return a finite number > 0."""
    number: float = check_value(Number(above=0), name, value)
    return number


def check_targets(y: ArrayLike, n_samples: int) -> tuple[NDArray[np.float64], bool]:
    """Return targets as a finite float array (n_samples, n_outputs) and whether they were one column."""
    targets = check_value(Floats(ndim=(1, 2)), "y", y)
    if len(targets) != n_samples:
        raise InputError(
            f"`y` must have one row per training sample (n_samples={n_samples}, the rows of the kernels), got "
            f"{len(targets)} rows."
        )
    return targets.reshape(n_samples, -1), targets.ndim == 1


def need_targets(y: ArrayLike | None) -> ArrayLike:
    """Targets where they may not be left out."""
    if y is None:
        raise InputError(
            "`y` must hold one target per row, got None. Only RowFeatures have targets of their own."
        )
    return y


def check_vector(
    values: ArrayLike, name: str, n_samples: int, rule: Floats | None = None
) -> NDArray[np.float64]:
    """Return finite numbers as a float array with one entry per row of the kernels."""
    vector: NDArray[np.float64] = check_value(rule or Floats(), name, values)
    if len(vector) != n_samples:
        raise InputError(f"`{name}` must have one entry per row, shape ({n_samples},), got {vector.shape}.")
    return vector


def of_given_rows(values: NDArray[np.float64], rows: NDArray[np.bool_] | None) -> NDArray[np.float64]:
    """Numbers of the included rows for all that were given: zeros for rows of weight 0; `rows` is None for all."""
    if rows is None:
        return values
    out = np.zeros((len(rows), *values.shape[1:]))
    out[rows] = values
    return out


def check_row_weights(sample_weight: ArrayLike | None, n_samples: int) -> NDArray[np.float64]:
    """Return sample weights as a nonnegative float array; ones for None, zero for ignored rows."""
    if sample_weight is None:
        return np.ones(n_samples)
    weights = check_vector(sample_weight, "sample_weight", n_samples, _WEIGHTS)
    if not weights.any():
        raise InputError("`sample_weight` must leave at least one row a positive weight, got only zeros.")
    return weights


def check_scale(scale: ArrayLike | None, n_kernels: int) -> NDArray[np.float64]:
    """Return the factors s_m of the kernels as a positive float array; ones for None."""
    if scale is None:
        return np.ones(n_kernels)
    factors: NDArray[np.float64] = check_value(_FACTORS, "scale", scale)
    if len(factors) != n_kernels:
        raise InputError(
            f"`scale` must hold one factor per kernel, shape ({n_kernels},), got {factors.shape}."
        )
    return factors


#: Of a kernel, by its number. The argument is called `gram` or `kernels`.
NOT_FINITE = (
    "Kernels must be finite, and kernel {} holds NaN or infinity. Check the features it was computed from."
)


def check_gram_stack(gram: ArrayLike) -> NDArray[np.float64]:
    """Return a training stack as float64 (n, n, n_kernels) after checking shape, finiteness and the diagonal.

    Symmetry is checked when the stack is packed, in the same pass that copies it.
    """
    stack = as_floats(gram, "gram")
    if stack.ndim == 2 and stack.shape[0] == stack.shape[1]:
        stack = stack[:, :, None]
    if stack.ndim != 3 or stack.shape[0] != stack.shape[1]:
        hint = ""
        if stack.ndim == 3 and stack.shape[1] == stack.shape[2]:
            hint = " This stack is kernels first; pass np.moveaxis(gram, 0, -1)."
        elif stack.ndim in (2, 3):
            hint = " For training pass K(X_train, X_train); a cross-Gram belongs in predict."
        raise InputError(
            f"Kernels must have shape (n_samples, n_samples, n_kernels), kernels last, got {stack.shape}.{hint}"
        )
    if stack.shape[0] == 0 or stack.shape[2] == 0:
        raise InputError(
            f"There must be at least one sample and one kernel, got kernels of shape {stack.shape}."
        )
    diagonal = np.einsum("iim->mi", stack)
    odd = ~np.isfinite(diagonal).all(axis=1)
    if odd.any():
        raise InputError(NOT_FINITE.format(int(np.argmax(odd))))
    # most kernels pass; the others are looked at one by one
    largest, size = np.abs(diagonal).max(axis=1), np.abs(stack[0]).max(axis=0)
    with np.errstate(over="ignore"):
        odd = (largest > 1.0 / SMALLEST) | (largest < SMALLEST) | (largest <= ROUNDED * (size + largest))
    for m in np.flatnonzero(odd | (diagonal.min(axis=1) < 0.0) | ~np.isfinite(size)):
        _refuse_negative_or_distance(diagonal[m], stack[0, :, m], f"Kernel {m}")
    return stack


def check_kernel_matrix(K: ArrayLike) -> NDArray[np.float64]:
    """Return one training kernel as C-contiguous float64 (n, n) after checking shape and diagonal.

    Other entries are checked by the caller, which has a compiled loop for this.
    """
    matrix = as_floats(K, "K")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        hint = " For training pass K(X_train, X_train)." if matrix.ndim == 2 else ""
        if matrix.ndim == 3:
            hint = " Combine the stack first, for example gram @ weights."
        raise InputError(f"`K` must have shape (n_samples, n_samples), got {matrix.shape}.{hint}")
    check_finite(np.diag(matrix), "K")
    _refuse_negative_or_distance(np.diag(matrix), matrix[0], "`K`")
    if not matrix.flags.c_contiguous and matrix.flags.f_contiguous:
        matrix = matrix.T  # the same matrix, because it is symmetric
    return np.ascontiguousarray(matrix)


def _refuse_negative_or_distance(diagonal: NDArray[np.float64], row: NDArray[np.float64], label: str) -> None:
    largest = float(np.abs(diagonal).max())
    if largest > 1.0 / SMALLEST or 0.0 < largest < SMALLEST:
        raise InputError(
            f"{label} must have its largest diagonal entry between {SMALLEST:g} and {1 / SMALLEST:g}, or be zero, "
            f"because squares of its entries are needed, got {largest:.3g}. Multiply it by a factor."
        )
    size = float(np.abs(row).max()) + float(np.abs(diagonal).max())
    if size > 0 and np.abs(diagonal).max() <= ROUNDED * size and len(diagonal) > 1:
        raise NotPSDError(
            f"{label} has a zero diagonal but nonzero entries, like a distance matrix. A kernel has "
            "similarities: convert first, for example np.exp(-gamma * distance**2)."
        )
    if diagonal.min() < -ROUNDED * size:
        raise NotPSDError(
            f"{label} has a negative diagonal entry ({diagonal.min():.3g}), so it is not positive "
            "semidefinite. Check that it holds similarities k(x, z), not distances."
        )


def rounding_tol(values: ArrayLike, *, tol: float = 1e-8) -> float:
    """Relative rounding errors of a matrix: `tol`, or more for single or half precision.

    The precision is inferred from the values too, because float32 may have been converted.
    """
    array = np.asarray(values)
    if array.dtype.kind != "f":
        return tol
    if array.dtype.itemsize >= 8:
        with np.errstate(over="ignore", under="ignore"):
            single = (array.astype(np.float32) == array).all()
            # small whole numbers are exact in every precision
            if not single or (array.astype(np.float16) == array).all():
                return tol
        return max(tol, 32.0 * float(np.finfo(np.float32).eps))
    return max(tol, 32.0 * float(np.finfo(array.dtype).eps))


def check_psd(K: NDArray[np.float64], label: str, *, tol: float = 1e-8) -> None:
    """Raise `NotPSDError` if the smallest eigenvalue of K is below ``-tol * max eigenvalue``."""
    values = np.linalg.eigvalsh(K)
    if values[0] < -tol * max(values[-1], 0.0) and values[0] < 0:
        raise NotPSDError(
            f"{label} must be positive semidefinite, got eigenvalues from {values[0]:.3g} to {values[-1]:.3g}. "
            "Drop the kernel, or repair the matrix of all rows by kw.solvers.repair_gram (clip or shift) and pass it "
            "as KernelBank. Functions have an option for that: Custom or Pairwise(..., repair=True)."
        )


def as_names(names: Sequence[str] | None, number: int, what: str = "kernel") -> tuple[str, ...]:
    """Return names of kernels or columns, default ``kernel 0``, ``kernel 1``, ...; check the number."""
    if names is None:
        return tuple(f"{what} {m}" for m in range(number))
    if isinstance(names, str | bytes | Mapping) or count_dimensions(names) != 1:
        raise InputError(f"`names` must be a list of texts, one per {what}, got {shown(names)}.")
    if len(names) != number:
        raise InputError(f"`names` must have one entry per {what} (n_{what}s={number}), got {len(names)}.")
    return tuple(map(str, names))


#: Default share of the physical memory for a training stack.
MEMORY_SHARE = 0.25

UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def memory_budget(max_memory: float | str | None) -> float:
    """Memory limit of a training stack in bytes: a number, a text such as ``"2GB"``, or ``"auto"``."""
    if max_memory is None or (isinstance(max_memory, str) and max_memory == "auto"):
        there = machine_memory()
        return 2.0 * 2**30 if there is None else MEMORY_SHARE * there
    rule = Number(above=0, infinite=True)
    try:
        if not isinstance(max_memory, str):
            return rule.read(max_memory)
        text = max_memory.strip().upper().removesuffix("B").removesuffix("I")
        return UNITS[text[-1]] * rule.parse(text[:-1]) if text[-1:] in UNITS else rule.parse(text)
    except Unfit:
        raise InputError(
            f"`max_memory` must be positive: bytes, a text such as '2GB', or 'auto', got {shown(max_memory)}."
        ) from None


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside of this package and of scikit-learn that led here."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in INSIDE:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
