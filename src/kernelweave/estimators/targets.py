"""Targets: numbers, one label for each row, or several labels of 0 and 1; with the weights of rows and classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, column_or_1d, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from kernelweave._checks import Floats, InputError, as_floats, check_row_weights, warn_user
from kernelweave._parameters import check_value, listed, shown
from kernelweave._sparse import is_sparse
from kernelweave._types import Labels
from kernelweave.views.selection import listing
from kernelweave.views.tables import is_frame

__all__ = ["Classes", "Targets", "labels_of", "read_classes", "read_numbers"]

Array = NDArray[np.float64]
#: The classes: an array for one label, an array (0, 1) for each of several labels.
Classes = NDArray[Any] | list[NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Targets:
    """What is to be predicted, as problems for learners.

    Attributes
    ----------
    problems : list of arrays of shape (n_rows, n_outputs)
        The targets of every problem; of classes -1 and 1.
    labels : array of shape (n_rows,) or (n_rows, n_outputs)
        Targets, numbers of classes, or labels of 0 and 1: what folds can be stratified by.
    sample_weight : array of shape (n_rows,) or None
        Those of classes included, if each row has one.
    names : array of str, shape (n_outputs,), or None
        Of several outputs or labels.
    flat : bool
        Whether the target has one dimension.
    classes : array, list of arrays, or None
    class_weight : array of shape (n_classes,) or (n_labels, 2), or None
    multilabel : bool
    evidence : array of shape (n_rows, n_outputs), or None
        Numbers with which kernels are compared, if these are not the targets.
    """

    problems: list[Array]
    labels: Array
    sample_weight: Array | None
    names: NDArray[Any] | None = None
    flat: bool = True
    classes: Classes | None = None
    class_weight: Array | None = None
    multilabel: bool = False
    evidence: Array | None = None


def read_numbers(y: Any, sample_weight: ArrayLike | None, n_rows: int) -> Targets:
    """Targets of a regression."""
    try:
        given = check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False, input_name="y")
    except (TypeError, ValueError) as error:
        raise InputError(f"`y` must hold one number, or a row of numbers, for every row: {error}") from error
    if given.dtype.kind in "US":
        raise InputError(
            "`y` must be numeric for regression, got text. Encode it as numbers, or use MKLClassifier."
        )
    targets = check_value(Floats(ndim=(1, 2)), "y", given)
    weights = row_weights(targets, sample_weight, n_rows)
    labels = targets.reshape(n_rows, -1)
    several = labels.shape[1] > 1
    names = np.array(column_names(y, labels.shape[1], "output"), dtype=object) if several else None
    return Targets([labels], labels, weights, names, flat=targets.ndim == 1)


def read_classes(y: Any, sample_weight: ArrayLike | None, n_rows: int, class_weight: Any) -> Targets:
    """Targets of a classification: a problem for each class if there are more than two, or for each label."""
    indicator = read_indicator(y)
    y, names = (read_labels(y), None) if indicator is None else indicator
    weights = row_weights(y, sample_weight, n_rows)
    counted = np.ones(n_rows) if weights is None else weights
    used = counted > 0
    factors: Array | None = None
    if names is not None:
        if class_weight is not None:
            factors = weights_of_labels(class_weight, y, names, counted)
        counts = y[used].sum(axis=0)
        same = (counts == 0) | (counts == used.sum())
        if same.any():
            warn_user(
                f"{'Label' if same.sum() == 1 else 'Labels'} {listing(names[same].tolist(), limit=5)}: all rows of the "
                "fit say the same, and so will predictions. Leave such columns out of y, or fit on more rows."
            )
        return Targets(
            problems=[np.where(column == 1, 1.0, -1.0)[:, None] for column in y.T],
            labels=y.astype(np.float64),
            sample_weight=weights,
            names=names,
            classes=[np.array([0, 1], dtype=y.dtype)] * y.shape[1],
            class_weight=factors,
            multilabel=True,
        )
    classes, own = np.unique(y[used], return_inverse=True)
    if len(classes) < 2:
        raise InputError(
            f"Classification needs at least two classes, got one class: {classes.tolist()[0]!r}. "
            "Check the target column and the sample weights."
        )
    codes = np.zeros(n_rows, dtype=own.dtype)
    codes[used] = own
    if class_weight is not None:
        factors = weights_of_classes(class_weight, classes, y[used], counted[used])
        weights = np.zeros(n_rows)
        weights[used] = counted[used] * factors[own]
    positive = range(1, 2) if len(classes) == 2 else range(len(classes))
    problems = [np.where(codes == k, 1.0, -1.0)[:, None] for k in positive]
    return Targets(problems, codes.astype(np.float64), weights, classes=classes, class_weight=factors)


def row_weights(y: NDArray[Any], sample_weight: ArrayLike | None, n_rows: int) -> Array | None:
    """Weights of rows, of which targets have the same number; None for equal ones."""
    if len(y) != n_rows:
        raise InputError(
            f"Found input variables with inconsistent numbers of samples: [{n_rows}, {len(y)}]. `X` and `y` must have "
            "equally many rows."
        )
    if sample_weight is None:
        return None
    weights = as_floats(sample_weight, "sample_weight")
    return check_row_weights(np.full(n_rows, float(weights)) if weights.ndim == 0 else weights, n_rows)


SETS = (
    "Several labels of a row are columns of 0 and 1, one for each label; sets of labels become such columns by "
    "sklearn.preprocessing.MultiLabelBinarizer().fit_transform(y)."
)


def read_indicator(y: Any) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Labels as columns of 0 and 1, and their names; None if `y` has one column, or one label for each row.

    Raises
    ------
    InputError
        For lists of sets of labels, and for columns with other values than 0 and 1.
    """
    if type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind != "O":
        return None
    cells = listed(y) if isinstance(y, list | tuple) or getattr(y, "ndim", 2) == 1 else None
    first = next((cell for cell in cells or () if cell is not None), None)
    if isinstance(first, list | tuple):
        sizes = {len(cell) if isinstance(cell, list | tuple) else -1 for cell in cells or ()}
        sets = len(sizes) > 1 or any(isinstance(value, str) for value in first)
    else:
        sets = isinstance(first, set | frozenset)
    if sets:
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
    for name, column in zip(names, array.T, strict=True):
        for value in column.tolist():
            if not (isinstance(value, bool | int | float) and value in (0, 1)):
                raise InputError(
                    "`y` with several columns must hold 0 and 1 in each of them (y must be a 1d array otherwise), got "
                    f"{value!r} in {name!r}. {SETS} For one label of several classes pass one column."
                )
    values = array.astype(np.int64) if array.dtype.kind == "O" else array
    return values, np.array(names, dtype=object)


def column_names(y: ArrayLike, n_columns: int, what: str) -> list[str]:
    """Names of the columns of a frame; otherwise a word with the number of each column."""
    if is_frame(y):
        labels = list(getattr(y, "columns", ())) or list(getattr(y, "column_names", ()))
        if len(labels) == n_columns and all(isinstance(label, str) for label in labels):
            return [str(label) for label in labels]
    return [f"{what} {k}" for k in range(n_columns)]


def read_labels(y: Any) -> NDArray[Any]:
    """One label for every row."""
    try:
        y = column_or_1d(y, warn=True)
    except (TypeError, ValueError) as error:
        raise InputError(f"`y` must hold one label for every row: {error}") from error
    if y.dtype.kind == "f":
        check_value(Floats(), "y", y)
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
        # labels of several kinds have no order, which `type_of_target` needs too
        if isinstance(error, ValueError) and type_of_target(y).startswith("continuous"):
            raise InputError(
                f"`y` must hold labels of classes, got continuous numbers such as {np.ravel(y)[0]:.4g}. For numbers "
                "use MKLRegressor; or make classes of them, such as y > 0."
            ) from error
        raise InputError(f"`y` must hold labels of classes, all of one kind: {error}") from error
    return y


def labels_of(values: Array, classes: Classes) -> Labels:
    """Labels of decision values: classes (..., n_rows), or 0 and 1 (..., n_rows, n_labels) for several labels.

    Parameters
    ----------
    values : array of shape (..., n_rows, 1), (..., n_rows, n_classes) or (..., n_rows, n_labels)
    classes : array, or list of arrays
    """
    if isinstance(classes, list):
        return (values > 0).astype(classes[0].dtype)
    if values.shape[-1] == 1:
        return classes[(values[..., 0] > 0).astype(np.intp)]
    return classes[np.argmax(values, axis=-1)]


def weights_of_classes(class_weight: Any, classes: Labels, y: Labels, weights: Array) -> Array:
    """Factors of the classes, shape (n_classes,).

    Parameters
    ----------
    class_weight : dict or "balanced"
    classes : array of shape (n_classes,)
        All of them occur in `y`.
    y : array of shape (n_rows,)
    weights : array of shape (n_rows,)
        Positive weights of the rows.
    """
    try:
        if isinstance(class_weight, str) and class_weight == "balanced":
            # as in scikit-learn, where weights of rows count from 1.7 on
            totals = np.bincount(np.searchsorted(classes, y), weights=weights)
            per_class = totals.sum() / (len(totals) * totals)
        else:
            per_class = compute_class_weight(class_weight, classes=classes, y=y)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"`class_weight` must be 'balanced', None or a dict from classes to numbers, got "
            f"{shown(class_weight)}: {error}"
        ) from error
    per_class = as_floats(per_class, "class_weight")
    if not (per_class > 0).all() or not np.isfinite(per_class).all():
        raise InputError(
            f"`class_weight` must hold finite numbers > 0, got {class_weight!r}. To leave a class out, drop its rows."
        )
    return per_class


def weights_of_labels(class_weight: Any, y: NDArray[Any], names: NDArray[Any], weights: Array) -> Array:
    """Factors of rows without and with each label, shape (n_labels, 2).

    Parameters
    ----------
    class_weight : list of dicts or "balanced"
        A dict for each label, from 0 and 1 to numbers.
    y : array of shape (n_rows, n_labels)
    names : array of str, shape (n_labels,)
    weights : array of shape (n_rows,)
        Weights of the rows; those of weight 0 do not count.
    """
    n_labels = len(names)
    one_each = class_weight
    if isinstance(class_weight, str) and class_weight == "balanced":
        one_each = [class_weight] * n_labels
    elif not isinstance(class_weight, list | tuple) or not all(isinstance(one, dict) for one in class_weight):
        raise InputError(
            f"`class_weight` must be 'balanced', None or a list of dicts for several labels, one for each such as "
            f"{{0: 1, 1: 5}}, got {shown(class_weight)}."
        )
    if len(one_each) != n_labels:
        raise InputError(
            f"`class_weight` must hold a dict for each of the {n_labels} labels, got {len(one_each)}. Write {{}} for a "
            "label without weights."
        )
    used = weights > 0
    factors = np.ones((n_labels, 2))
    for name, given, column, own in zip(names, one_each, y.T, factors, strict=True):
        # labels that all rows say the same of have one value
        there = np.unique(column[used]).astype(np.intp)
        if isinstance(given, dict):
            if unknown := [value for value in given if value not in (0, 1)]:
                raise InputError(
                    f"`class_weight` of label {name!r} must be for 0, rows without it, and 1, rows with it, got "
                    f"{unknown[0]!r}. Write for example {{0: 1, 1: 5}}."
                )
            given = {value: weight for value, weight in given.items() if int(value) in there}
        own[there] = weights_of_classes(given, there, column[used].astype(np.intp), weights[used])
    return factors
