"""Weights of classes: of one label with several classes, or of the two values of each of several labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import compute_class_weight

from kernelweave._checks import InputError, as_floats
from kernelweave._parameters import shown
from kernelweave._types import Labels
from kernelweave.estimators.labels import Indicator

__all__ = ["weights_of_classes", "weights_of_labels"]

Array = NDArray[np.float64]


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


def weights_of_labels(class_weight: Any, y: Indicator, weights: Array) -> Array:
    """Factors of rows without and with each label, shape (n_labels, 2).

    Parameters
    ----------
    class_weight : list of dicts or "balanced"
        A dict for each label, from 0 and 1 to numbers.
    y : Indicator
    weights : array of shape (n_rows,)
        Weights of the rows; those of weight 0 do not count.
    """
    n_labels = y.values.shape[1]
    if isinstance(class_weight, str) and class_weight == "balanced":
        one_each: list[Any] = ["balanced"] * n_labels
    elif isinstance(class_weight, list | tuple) and all(isinstance(one, dict) for one in class_weight):
        one_each = list(class_weight)
    else:
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
    for name, given, column, own in zip(y.names, one_each, y.values.T, factors, strict=True):
        if unknown := [value for value in given if value not in (0, 1)] if isinstance(given, dict) else []:
            raise InputError(
                f"`class_weight` of label {name!r} must be for 0, rows without it, and 1, rows with it, got "
                f"{unknown[0]!r}. Write for example {{0: 1, 1: 5}}."
            )
        # labels that all rows say the same of have one value
        there = np.unique(column[used]).astype(np.intp)
        asked = (
            {value: weight for value, weight in given.items() if int(value) in there}
            if isinstance(given, dict)
            else given
        )
        own[there] = weights_of_classes(asked, there, column[used].astype(np.intp), weights[used])
    return factors
