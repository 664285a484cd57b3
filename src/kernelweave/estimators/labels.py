"""Targets of classifiers: one label for each row, or several labels of 0 and 1."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from kernelweave._checks import InputError, check_finite, check_size
from kernelweave._parameters import listed
from kernelweave._sparse import is_sparse
from kernelweave._types import Labels
from kernelweave.views.columns import is_frame
from kernelweave.views.messages import listing

__all__ = ["Classes", "Indicator", "column_names", "labels_of", "read_indicator", "read_labels"]

Array = NDArray[np.float64]
#: The classes: an array for one label, an array (0, 1) for each of several labels.
Classes = NDArray[Any] | list[NDArray[Any]]


@dataclass(frozen=True)
class Indicator:
    """Several labels of each row.

    Attributes
    ----------
    values : array of shape (n_rows, n_labels)
        0 and 1, in the given type.
    names : array of str, shape (n_labels,)
        Names of the columns of a frame, or "label 0", "label 1", and so on.
    """

    values: NDArray[Any]
    names: NDArray[Any]

    @property
    def classes(self) -> list[Labels]:
        """Both values of each label."""
        return [np.array([0, 1], dtype=self.values.dtype)] * self.values.shape[1]

    def check_present(self, used: NDArray[np.bool_]) -> None:
        """Warn of labels that all rows of the fit have, or none."""
        counts = self.values[used].sum(axis=0)
        same = (counts == 0) | (counts == used.sum())
        if same.any():
            which = listing(self.names[same].tolist(), limit=5)
            warnings.warn(
                f"{'Label' if same.sum() == 1 else 'Labels'} {which}: all rows of the fit say the same, and so will "
                "predictions. Leave such columns out of y, or fit on more rows.",
                UserWarning,
                stacklevel=9,
            )


SETS = (
    "Several labels of a row are columns of 0 and 1, one for each label; sets of labels become such columns by "
    "sklearn.preprocessing.MultiLabelBinarizer().fit_transform(y)."
)


def read_indicator(y: Any) -> Indicator | None:
    """Labels as columns of 0 and 1; None if `y` has one column, or one label for each row.

    Raises
    ------
    InputError
        For lists of sets of labels, and for columns with other values than 0 and 1.
    """
    cells = listed(y) if isinstance(y, list | tuple) or getattr(y, "ndim", 2) == 1 else None
    first = next((cell for cell in cells or () if cell is not None), None)
    if isinstance(first, set | frozenset) or (
        isinstance(first, list | tuple) and (any(isinstance(v, str) for v in first) or _is_ragged(cells))
    ):
        raise InputError(f"`y` holds lists or sets of labels, such as {first!r:.60}. {SETS}")
    if is_sparse(y):
        array = y.toarray()
    elif is_frame(y) or hasattr(y, "ndim") or cells:
        array = np.asarray(y)
    else:
        return None
    if array.ndim != 2 or array.shape[1] < 2:
        return None
    names = column_names(y, array.shape[1], "label")
    values = _zero_one(array, names)
    return Indicator(values, np.array(names, dtype=object))


def _is_ragged(rows: Any) -> bool:
    return len({len(row) if isinstance(row, list | tuple) else -1 for row in rows}) > 1


def column_names(y: ArrayLike, n_columns: int, what: str) -> list[str]:
    """Names of the columns of a frame; otherwise a word with the number of each column."""
    if is_frame(y):
        labels = list(getattr(y, "columns", ())) or list(getattr(y, "column_names", ()))
        if len(labels) == n_columns and all(isinstance(label, str) for label in labels):
            return [str(label) for label in labels]
    return [f"{what} {k}" for k in range(n_columns)]


def _zero_one(array: NDArray[np.generic], names: list[str]) -> Labels:
    for name, column in zip(names, array.T, strict=True):
        wrong = [value for value in column.tolist() if not _is_zero_one(value)]
        if wrong:
            raise InputError(
                f"`y` with several columns must hold 0 and 1 in each of them (y must be a 1d array otherwise), got "
                f"{wrong[0]!r} in {name!r}. {SETS} For one label of several classes pass one column."
            )
    return array.astype(np.int64) if array.dtype.kind == "O" else array


def _is_zero_one(value: object) -> bool:
    return isinstance(value, bool | int | float) and value in (0, 1)


def read_labels(y: Any) -> NDArray[Any]:
    """One label for every row."""
    try:
        y = column_or_1d(y, warn=True)
    except (TypeError, ValueError) as error:
        raise InputError(f"`y` must hold one label for every row: {error}") from error
    if y.dtype.kind == "f":
        check_finite(y, "y")
        check_size(y, "y")
    elif y.dtype.kind == "O":
        missing = np.flatnonzero([label is None or label != label for label in y])
        if len(missing):
            raise InputError(
                f"`y` must hold a label for every row, got {len(missing)} missing, the first in row {missing[0]}. "
                "Drop these rows first."
            )
    try:
        check_classification_targets(y)
        np.unique(y)
    except (TypeError, ValueError) as error:
        raise InputError(f"`y` must hold labels of classes, all of one kind: {error}") from error
    return y


def labels_of(values: Array, classes: Classes) -> Labels:
    """Labels of decision values: classes (n_rows,), or 0 and 1 (n_rows, n_labels) for several labels.

    Parameters
    ----------
    values : array of shape (n_rows, 1), (n_rows, n_classes) or (n_rows, n_labels)
    classes : array, or list of arrays
    """
    if isinstance(classes, list):
        return (values > 0).astype(classes[0].dtype)
    if values.shape[1] == 1:
        return classes[(values[:, 0] > 0).astype(np.intp)]
    return classes[np.argmax(values, axis=1)]
