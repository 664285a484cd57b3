"""Folds that depend on the values of rows, for estimators and for learners that validate inside a fit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


def deal(content: NDArray[np.intp], y: Array, n_folds: int, *, stratify: bool) -> list[Rows]:
    """Test rows of folds that depend on the values of rows, not on their order or number of repetitions.

    Parameters
    ----------
    content : array of shape (n_rows,)
        Position of each row among the distinct ones, in an order given by their values; equal rows share it.
    y : array of shape (n_rows,) or (n_rows, n_outputs)
    n_folds : int
        Fewer if there are fewer distinct rows.
    stratify : bool
        Assign rows of each class in turn, so that every fold has its share. Not for regression, because folds
        with the same spread of y as the training rows favour models that fit noise.

    Returns
    -------
    list of arrays
        Only one if all rows are equal.
    """
    columns = [y.reshape(len(y), -1), content[:, None]]
    _, rank = np.unique(np.column_stack(columns if stratify else columns[::-1]), axis=0, return_inverse=True)
    rank = rank.reshape(-1)
    n_folds = min(n_folds, int(rank.max()) + 1)
    return [np.flatnonzero(rank % n_folds == k) for k in range(n_folds)]
