"""Folds that depend on the values of rows, for estimators and for learners that validate inside a fit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


def deal(
    content: Rows, y: Array, n_folds: int, *, classes: Array | None, groups: Rows | None = None
) -> list[Rows]:
    """Test rows of folds that depend on the values of rows, not on their order or number of repetitions.

    Parameters
    ----------
    content : array of shape (n_rows,)
        Position of each row among the distinct ones, in an order given by their values; equal rows share it.
    y : array of shape (n_rows,) or (n_rows, n_outputs)
    n_folds : int
        Fewer if there are fewer distinct rows, or groups.
    classes : array of shape (n_rows,) or (n_rows, n_outputs), or None
        Rows of each class are assigned in turn, so that every fold has its share. Not the y of regression, because
        folds with the same spread of y as the training rows favour models that fit noise.
    groups : array of int, shape (n_rows,), optional
        Rows of one group share a fold; groups with the same distinct rows do too.

    Returns
    -------
    list of arrays
        Only one if all rows are equal.
    """
    own = content[:, None]
    columns = [own, y.reshape(len(y), -1)] if classes is None else [classes.reshape(len(y), -1), own]
    _, rank = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
    rank = rank.reshape(-1)
    if groups is not None:
        if (groups == groups[0]).all():
            raise InputError(
                "`groups` must hold at least two groups, got one, and folds keep a group together. Use rows of further "
                "groups, or leave `groups` out."
            )
        named = np.zeros_like(own) if classes is None else columns[0]
        _, codes = np.unique(named, axis=0, return_inverse=True)
        return _deal_groups(rank, codes.reshape(-1), groups, n_folds)
    n_folds = min(n_folds, int(rank.max()) + 1)
    return [np.flatnonzero(rank % n_folds == k) for k in range(n_folds)]


def by_value(content: Rows, y: Array) -> Rows:
    """The rows in the order of their content, and of targets (n_rows,) or (n_rows, n_outputs) among equal ones."""
    return np.lexsort([*y.reshape(len(y), -1).T, content])


def _deal_groups(rank: Rows, classes: Rows, groups: Rows, n_folds: int) -> list[Rows]:
    """Groups one by one, the largest first, each to the fold with the fewest rows of its classes.

    Groups are known by their distinct rows, `rank`, alone. Those of one row each are dealt in turn, as rows are.
    """
    owner, own = np.unique(np.column_stack([groups, rank]), axis=0).T
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    names, place = np.unique(groups, return_inverse=True)
    members = dict(zip(names.tolist(), map(tuple, np.split(own, starts[1:])), strict=True))
    class_of = np.empty(rank.max() + 1, dtype=np.intp)
    class_of[rank] = classes
    totals = np.bincount(class_of)
    # a row of a rare class counts more; whole numbers, whose ties do not depend on rounding
    factors = np.square(totals.max() // totals)
    units = sorted(set(members.values()), key=lambda unit: (-len(unit), unit))
    counts = np.zeros((min(n_folds, len(units)), len(totals)), dtype=np.int64)
    fold_of = {}
    for unit in units:
        added = np.bincount(class_of[list(unit)], minlength=len(totals))
        fold_of[unit] = k = int(np.lexsort((counts.sum(axis=1), counts @ (factors * added)))[0])
        counts[k] += added
    fold = np.array([fold_of[members[name]] for name in names.tolist()])[place]
    return [np.flatnonzero(fold == k) for k in range(len(counts))]
