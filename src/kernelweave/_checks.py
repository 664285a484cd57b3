"""Exceptions, warnings and boundary checks for arrays.

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

from kernelweave._devices import hosted
from kernelweave._errors import InputError, KernelWarning, NotPSDError, check_known
from kernelweave._parameters import LARGEST_NUMBER, Number, Rule, Unfit, check_value, shown

__all__ = [
    "Alphas",
    "Costs",
    "Floats",
    "GivenTargets",
    "InputError",
    "KernelWarning",
    "Labels",
    "NotPSDError",
    "Reals",
    "RowWeights",
    "Scale",
    "Start",
    "Targets",
    "as_floats",
    "check_alpha",
    "check_gram_stack",
    "check_kernel_matrix",
    "check_known",
    "check_positive",
    "check_psd",
    "check_row_weights",
    "check_scale",
    "check_share",
    "check_targets",
    "check_vector",
    "count_dimensions",
    "need_targets",
    "warn_user",
]


#: Kernels with a largest diagonal entry below it, or above its inverse, have squares that are 0 or infinite.
SMALLEST = 1e-150

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
    """An array of finite real numbers, none of them larger than `LARGEST_NUMBER`.

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
    """

    ndim: tuple[int, ...] = (1,)
    least: float | None = None
    above: float | None = None
    smallest: float = 0.0
    what: str = "numbers"

    def read(self, value: object) -> NDArray[np.float64]:
        if value is None:
            raise Unfit
        array = _floats(value)
        if array.ndim not in self.ndim or array.size == 0:
            raise Unfit("", f"shape {array.shape}")
        size = np.abs(array)
        if not (size <= LARGEST_NUMBER).all():
            n_nan, n_inf = int(np.isnan(size).sum()), int(np.isinf(size).sum())
            if n_nan or n_inf:
                raise Unfit(
                    "Impute or drop them first.",
                    f"{n_nan} NaN and {n_inf} infinity among {array.size} entries",
                )
            raise Unfit("Its square overflows: divide by a constant first.", f"{float(size.max()):.3g}")
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
        return f"finite {self.what}{bound} in a {shape} array"


@dataclass(frozen=True)
class Reals(Rule):
    """An array of real numbers, which may be empty and contain NaN and infinity; `largest` bounds the finite ones."""

    ndim: tuple[int, ...] = (1,)
    largest: float = np.inf
    remedy: str = ""

    def read(self, value: object) -> NDArray[np.float64]:
        if value is None:
            raise Unfit
        array = _floats(value)
        if array.ndim not in self.ndim:
            raise Unfit("", f"shape {array.shape}")
        if self.largest < np.inf and (np.abs(array[np.isfinite(array)]) > self.largest).any():
            raise Unfit(f"Numbers above {self.largest:g} are not allowed.", "larger numbers")
        return array

    def kinds(self) -> tuple[str, ...]:
        return ("ArrayLike",)

    def words(self) -> str:
        return f"numbers in a {' or '.join(f'{d}D' for d in self.ndim)} array"


@dataclass(frozen=True)
class Alphas(Rule):
    """A list of regularisation parameters, or one: numbers above zero, infinity included."""

    def read(self, value: object) -> NDArray[np.float64]:
        if value is None:
            raise Unfit
        values = np.atleast_1d(_floats(value))
        if values.ndim != 1 or not len(values):
            raise Unfit("", f"shape {values.shape}")
        if not (values > 0).all():
            raise Unfit("", f"{values[~(values > 0)][0]}")
        if ((values > LARGEST_NUMBER) & (values < np.inf)).any():
            raise Unfit(
                f"Numbers above {LARGEST_NUMBER:g} overflow in products.",
                f"{values[values < np.inf].max():g}",
            )
        if (values < 1.0 / LARGEST_NUMBER).any():
            raise Unfit(f"Numbers below {1.0 / LARGEST_NUMBER:g} underflow in products.", f"{values.min():g}")
        return values

    def kinds(self) -> tuple[str, ...]:
        return ("ArrayLike",)

    def words(self) -> str:
        return "a non-empty list of numbers > 0 (float('inf') is allowed)"


class Costs(Alphas):
    """A list of weights of a loss, or one."""

    def read(self, value: object) -> NDArray[np.float64]:
        values = super().read(value)
        if (values == np.inf).any():
            raise Unfit("", "infinity")
        return values

    def words(self) -> str:
        return "a non-empty list of finite numbers > 0"


class RidgeAlphas(Alphas):
    """One regularisation parameter, several, or several for each point of a path."""

    def read(self, value: object) -> NDArray[np.float64]:
        if value is None:
            raise Unfit
        values = _floats(value)
        if values.ndim > 2 or not values.size:
            raise Unfit("", f"shape {values.shape}")
        return super().read(values.reshape(-1)).reshape(values.shape)

    def words(self) -> str:
        return "a number > 0, a non-empty list of such numbers, or a table with one row for each alpha of the path"


#: Targets or labels, one for each row.
Targets = Annotated[ArrayLike, Floats()]
#: The same, or None where rows have theirs.
GivenTargets = Annotated[ArrayLike | None, Floats() | None]
#: Labels of two classes.
Labels = Annotated[ArrayLike, Floats(what="labels -1 and +1")]
#: Weights of rows, or None for equal ones.
RowWeights = Annotated[
    ArrayLike | None, Floats(least=0.0, smallest=1.0 / LARGEST_NUMBER, what="nonnegative numbers") | None
]
#: Factors of kernels, or None for ones.
Scale = Annotated[
    ArrayLike | None, Floats(above=0.0, smallest=1.0 / LARGEST_NUMBER, what="positive numbers") | None
]
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
    if name == "sample_weight":
        size = np.abs(array)
        if ((size > 0) & (size < 1.0 / LARGEST_NUMBER)).any():
            raise InputError(
                f"`sample_weight` must not hold numbers below {1.0 / LARGEST_NUMBER:g}, got "
                f"{size[size > 0].min():.3g}, which underflows in products. Use 0."
            )
    if largest > LARGEST_NUMBER:
        raise InputError(
            f"`{name}` must not exceed {LARGEST_NUMBER:g} in size, got {largest:.3g}, whose square overflows. "
            "Divide by a constant first."
        )


def check_alpha(alpha: float, name: str = "alpha") -> float:
    """Return a regularisation parameter as a float in (0, inf]."""
    number: float = check_value(Number(above=0, infinite=True), name, alpha)
    return number


def check_positive(value: float, name: str, *, zero: bool = False) -> float:
    """Return a finite number > 0, or >= 0 if `zero` is allowed."""
    number: float = check_value(Number(least=0) if zero else Number(above=0), name, value)
    return number


def check_share(value: float, name: str) -> float:
    """Return a share in [0, 1)."""
    number: float = check_value(Number(least=0, below=1), name, value)
    return number


def check_targets(y: ArrayLike, n_samples: int | None = None) -> tuple[NDArray[np.float64], bool]:
    """Return targets as a finite float array (n_samples, n_outputs) and whether they were one column."""
    targets = as_floats(y, "y")
    single = targets.ndim == 1
    if targets.ndim not in (1, 2) or targets.size == 0:
        raise InputError(f"`y` must have shape (n_samples,) or (n_samples, n_outputs), got {targets.shape}.")
    targets = targets.reshape(len(targets), -1)
    if n_samples is not None and len(targets) != n_samples:
        raise InputError(
            f"`y` must have one row per training sample (n_samples={n_samples}, the rows of `gram`), got "
            f"{len(targets)} rows."
        )
    check_finite(targets, "y")
    check_size(targets, "y")
    return targets, single


def need_targets(y: ArrayLike | None) -> ArrayLike:
    """Targets where they may not be left out."""
    if y is None:
        raise InputError(
            "`y` must hold one target per row, got None. Only RowFeatures have targets of their own."
        )
    return y


def check_vector(values: ArrayLike, name: str, n_samples: int) -> NDArray[np.float64]:
    """Return finite numbers as a float array with one entry per row of the kernels."""
    vector = as_floats(values, name)
    if vector.shape != (n_samples,):
        raise InputError(
            f"`{name}` must have one entry per row of K, shape ({n_samples},), got {vector.shape}."
        )
    check_finite(vector, name)
    check_size(vector, name)
    return vector


def check_row_weights(sample_weight: ArrayLike | None, n_samples: int) -> NDArray[np.float64]:
    """Return sample weights as a nonnegative float array; ones for None, zero for ignored rows."""
    if sample_weight is None:
        return np.ones(n_samples)
    weights = check_vector(sample_weight, "sample_weight", n_samples)
    if (weights < 0).any():
        raise InputError(
            f"`sample_weight` must be nonnegative, got {int((weights < 0).sum())} negative entries. Give rows that "
            "should not count the weight 0."
        )
    if not weights.any():
        raise InputError("`sample_weight` must leave at least one row, got only zeros.")
    return weights


def check_scale(scale: ArrayLike | None, n_kernels: int) -> NDArray[np.float64]:
    """Return the factors s_m of the kernels as a positive float array; ones for None."""
    if scale is None:
        return np.ones(n_kernels)
    factors = as_floats(scale, "scale")
    if factors.shape != (n_kernels,):
        raise InputError(
            f"`scale` must hold one factor per kernel, shape ({n_kernels},), got {factors.shape}."
        )
    check_finite(factors, "scale")
    check_size(factors, "scale")
    if not (factors > 0).all():
        raise InputError(
            f"`scale` must be positive, got {int((factors <= 0).sum())} factors <= 0. Drop kernels that should not "
            "count: one that is zero on the training rows has no scale."
        )
    return factors


def check_gram_stack(gram: ArrayLike, *, tol: float = 1e-8) -> NDArray[np.float64]:
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
            f"`gram` must have shape (n_samples, n_samples, n_kernels), kernels last, got {stack.shape}.{hint}"
        )
    if stack.shape[0] == 0 or stack.shape[2] == 0:
        raise InputError(f"`gram` must hold at least one sample and one kernel, got shape {stack.shape}.")
    diagonal = np.einsum("iim->mi", stack)
    check_finite(diagonal, "gram")
    for m, diag in enumerate(diagonal):
        _refuse_negative_or_distance(diag, stack[0, :, m], f"Kernel {m}", tol)
    return stack


def check_kernel_matrix(K: ArrayLike, *, name: str = "K", tol: float = 1e-8) -> NDArray[np.float64]:
    """Return one training kernel as C-contiguous float64 (n, n) after checking shape and diagonal.

    Other entries are checked by the caller, which has a compiled loop for this.
    """
    matrix = as_floats(K, name)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        hint = " For training pass K(X_train, X_train)." if matrix.ndim == 2 else ""
        if matrix.ndim == 3:
            hint = " Combine the stack first, for example gram @ weights."
        raise InputError(f"`{name}` must have shape (n_samples, n_samples), got {matrix.shape}.{hint}")
    check_finite(np.diag(matrix), name)
    _refuse_negative_or_distance(np.diag(matrix), matrix[0], f"`{name}`", tol)
    if not matrix.flags.c_contiguous and matrix.flags.f_contiguous:
        matrix = matrix.T  # the same matrix, because it is symmetric
    return np.ascontiguousarray(matrix)


def _refuse_negative_or_distance(
    diagonal: NDArray[np.float64], row: NDArray[np.float64], label: str, tol: float
) -> None:
    largest = float(np.abs(diagonal).max())
    if largest > 1.0 / SMALLEST or 0.0 < largest < SMALLEST:
        raise InputError(
            f"{label} must have its largest diagonal entry between {SMALLEST:g} and {1 / SMALLEST:g}, or be zero, "
            f"because squares of its entries are needed, got {largest:.3g}. Multiply it by a factor."
        )
    size = float(np.abs(row).max()) + float(np.abs(diagonal).max())
    if size > 0 and np.abs(diagonal).max() <= tol * size and len(diagonal) > 1:
        raise NotPSDError(
            f"{label} has a zero diagonal but nonzero entries, like a distance matrix. A kernel has "
            "similarities: convert first, for example np.exp(-gamma * distance**2)."
        )
    if diagonal.min() < -tol * size:
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
            "Drop the kernel, or repair the matrix of all rows by kernelweave.repair_gram (clip or shift) and pass it "
            "as KernelBank."
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


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside of this package and of scikit-learn that led here."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in INSIDE:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
