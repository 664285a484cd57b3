"""The tables of a9a in the folder that KERNELWEAVE_DATA names, and the blocks of their columns."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np


def tables() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Columns and labels of the 32,561 training rows, and of the 16,281 test rows."""
    import pandas as pd

    folder = Path(os.environ["KERNELWEAVE_DATA"])
    train, test = (
        pd.read_csv(folder / f"a9a_{part}.csv.gz").to_numpy(np.float64) for part in ("train", "test")
    )
    return train[:, :-1], train[:, -1], test[:, :-1], test[:, -1]


def attributes(X: np.ndarray) -> list[int]:
    """Starts of the blocks and the end: an attribute is a run of columns of which at most one is set."""
    groups = [0]
    for j in range(1, X.shape[1]):
        if X[:, groups[-1] : j + 1].sum(axis=1).max() > 1:
            groups.append(j)
    return [*groups, X.shape[1]]
