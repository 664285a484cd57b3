"""The 14 cancers in the text format in which they are published: one file each for genes and labels."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from kernelweave._errors import InputError
from kernelweave.datasets.encoding import Dataset
from kernelweave.datasets.finding import FOLDER_VARIABLE, cache_folder, data_folder
from kernelweave.datasets.reading import read_bytes
from kernelweave.datasets.registry import DatasetInfo

NAME = "14cancer"
PARTS = ("xtrain", "ytrain", "xtest", "ytest")


def folder() -> Path | None:
    """The folder that holds all four files, or None."""
    for root in (data_folder(), cache_folder()):
        if root is not None and all(_path(root, part) is not None for part in PARTS):
            return root
    return None


def _path(root: Path, part: str) -> Path | None:
    names = (f"{NAME}.{part}", f"{NAME}.{part}.gz", f"{NAME}.{part}.txt")
    return next((root / name for name in names if (root / name).is_file()), None)


def load_fourteen_cancers(info: DatasetInfo, *, standardize: bool) -> Dataset:
    """Read the four files: genes as rows and patients as columns, labels 1, 2, ... in any arrangement.

    With `standardize` every patient has mean 0 and variance 1, as in the paper.
    """
    root = folder()
    if root is None:
        raise InputError(
            f"{NAME} is not here. {info.how} Put the files {', '.join(f'{NAME}.{part}' for part in PARTS)} into the "
            f"folder that {FOLDER_VARIABLE} names."
        )
    values = {part: _numbers(_path(root, part)) for part in PARTS}
    blocks, labels = [], []
    for half in ("train", "test"):
        X, y = values[f"x{half}"].T, values[f"y{half}"].reshape(-1)
        if len(X) != len(y):
            raise InputError(
                f"{NAME}.x{half} must have one column for each of the {len(y)} labels of {NAME}.y{half}, got {len(X)}."
            )
        if (y != np.round(y)).any():
            raise InputError(f"{NAME}.y{half} must hold whole numbers, one for each class.")
        blocks.append(X)
        labels.append(y)
    if blocks[0].shape[1] != blocks[1].shape[1]:
        raise InputError(
            f"{NAME}.xtrain and {NAME}.xtest must have the same genes, got {blocks[0].shape[1]} and "
            f"{blocks[1].shape[1]}."
        )
    X = np.ascontiguousarray(np.concatenate(blocks))
    if standardize:
        spread = X.std(axis=1, ddof=1, keepdims=True)
        X = (X - X.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0)
    codes, y = np.unique(np.concatenate(labels), return_inverse=True)
    return Dataset(
        name=NAME,
        X=X,
        y=y.reshape(-1),
        task="multiclass",
        feature_names=tuple(f"g{j + 1}" for j in range(X.shape[1])),
        target_names=tuple(str(int(code)) for code in codes),
        train=np.arange(len(X)) < len(labels[0]),
        views={},
        n_dropped=0,
        standardized=standardize,
        found="data folder" if root == data_folder() else "cache",
        info=info,
    )


def _numbers(path: Path | None) -> np.ndarray:
    assert path is not None
    try:
        values = np.loadtxt(io.BytesIO(read_bytes(path)), ndmin=2)
    except ValueError as error:
        raise InputError(
            f"{path.name} must hold numbers separated by white space, the same number on every line: {error}."
        ) from None
    if not np.isfinite(values).all() or not values.size:
        raise InputError(
            f"{path.name} must hold finite numbers, got {values.size} with NaN or infinity, or none."
        )
    return values
