"""Folds that follow from the values of rows."""

import numpy as np
import pytest

from kernelweave.learners.folds import deal


@pytest.mark.parametrize("stratify", [True, False])
def test_dealt_folds_share_out_rows(rng, stratify):
    content, y = rng.integers(0, 12, size=40), np.where(rng.random(40) > 0.5, 1.0, -1.0)
    folds = deal(content, y, 4, stratify=stratify)
    np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.arange(40))
    for key in zip(content, y, strict=True):
        equal = np.flatnonzero((content == key[0]) & (y == key[1]))
        assert sum(len(np.intersect1d(equal, fold)) > 0 for fold in folds) == 1
    # class by class, or value by value, all folds have as many distinct rows
    first = y if stratify else content
    for value in np.unique(first):
        some = [fold[first[fold] <= value] for fold in folds]
        assert np.ptp([len({*zip(content[rows], y[rows], strict=True)}) for rows in some]) <= 1
    order = rng.permutation(40)
    again = deal(content[order], y[order], 4, stratify=stratify)
    assert [set(order[fold]) for fold in again] == [set(fold) for fold in folds]
    assert len(deal(np.zeros(5, dtype=int), np.ones(5), 3, stratify=stratify)) == 1
