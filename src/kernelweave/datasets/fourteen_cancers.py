"""The 14 cancers in the text format in which they are published: one file each for genes and labels."""

from __future__ import annotations

import io
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kernelweave._errors import InputError
from kernelweave.datasets.encoding import Dataset, standard_rows
from kernelweave.datasets.finding import FOLDER_VARIABLE, cache_folder, data_folder
from kernelweave.datasets.reading import read_bytes
from kernelweave.datasets.registry import DatasetInfo

NAME = "14cancer"
PARTS = ("xtrain", "ytrain", "xtest", "ytest")


class Counts(NamedTuple):
    """Sizes of the files, as the RLS2 paper has them."""

    genes: int = 16063
    train: int = 144
    test: int = 54
    classes: int = 14


COUNTS = Counts()


def folder() -> Path | None:
    """The folder that holds all four files, or None."""
    return next((root for root in _roots() if not _lacking(root)), None)


def _roots() -> list[Path]:
    return [root for root in (data_folder(), cache_folder()) if root is not None]


def _lacking(root: Path) -> list[str]:
    return [f"{NAME}.{part}" for part in PARTS if _path(root, part) is None]


def _path(root: Path, part: str) -> Path | None:
    names = (f"{NAME}.{part}", f"{NAME}.{part}.gz", f"{NAME}.{part}.txt")
    return next((root / name for name in names if (root / name).is_file()), None)


def load_fourteen_cancers(info: DatasetInfo, *, standardize: bool) -> Dataset:
    """Read the four files: genes as rows and patients as columns, labels 1, 2, ... in any arrangement.

    Their sizes must be `COUNTS`. With `standardize` every patient has mean 0 and variance 1, as in the paper.
    """
    root = folder()
    if root is None:
        near = min(_roots(), key=lambda root: len(_lacking(root)))
        raise InputError(
            f"{NAME} is not here: {', '.join(_lacking(near))} missing in {near}. {info.how} Put the files into "
            f"the folder that {FOLDER_VARIABLE} names, or pass --data to kernelweave reproduce."
        )
    values = {part: _numbers(_path(root, part)) for part in PARTS}
    blocks, labels = [], []
    for half in ("train", "test"):
        X, y = values[f"x{half}"], values[f"y{half}"].reshape(-1)
        _check_half(half, X, y)
        blocks.append(X.T)
        labels.append(y)
    X = np.ascontiguousarray(np.concatenate(blocks))
    if standardize:
        X = standard_rows(X)
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


def _check_half(half: str, X: np.ndarray, y: np.ndarray) -> None:
    """Raise for training or test files with other counts than those of the paper."""
    file, rows = f"{NAME}.x{half}", getattr(COUNTS, half)
    wanted, other = (COUNTS.genes, rows), COUNTS.test if half == "train" else COUNTS.train
    said = (
        f"{file} must have {COUNTS.genes:,} lines (genes) of {rows} numbers (patients), got {len(X):,} lines of "
        f"{X.shape[1]:,}."
    )
    if X.shape == wanted[::-1]:
        raise InputError(f"{said} Lines and columns are exchanged: transpose it.")
    if X.shape == (COUNTS.genes, other):
        raise InputError(f"{said} Training and test files are exchanged: rename them.")
    if X.shape != wanted:
        raise InputError(f"{said} It is incomplete, or another version: take the four files of one download.")
    if len(y) != rows:
        raise InputError(f"{NAME}.y{half} must have one label for each of {rows} patients, got {len(y)}.")
    known = np.arange(1, COUNTS.classes + 1)
    wrong = np.setdiff1d(y, known)
    if len(wrong):
        raise InputError(
            f"{NAME}.y{half} must hold whole numbers from 1 to {COUNTS.classes}, one for each class, got {wrong[0]:g}."
        )
    missing = np.setdiff1d(known, y)
    if half == "train" and len(missing):
        raise InputError(
            f"{NAME}.ytrain must have rows of all {COUNTS.classes} classes, got none of class {missing[0]}."
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
