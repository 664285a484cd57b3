"""From cells to numbers: missing rows, categories as indicators, standardisation, flags."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._errors import InputError, needed
from kernelweave._types import DataFrame
from kernelweave.datasets.reading import RawTable
from kernelweave.datasets.registry import DatasetInfo

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set, encoded.

    Attributes
    ----------
    name : str
        The name under which it was loaded.
    X : array of shape (n_samples, n_features)
        Numbers; categories as 0/1 indicators, one for each level.
    y : array of shape (n_samples,)
        Regression: the target. Classification: positions in `target_names`.
    task : {"regression", "binary", "multiclass"}
        What is predicted: numbers, one of two classes, or one of several.
    feature_names : tuple of str
        Names of the columns of `X`; an indicator is called ``column=level``.
    target_names : tuple of str
        Class labels, sorted; empty for regression.
    train : bool array of shape (n_samples,) or None
        The published split into training and test rows, if there is one.
    views : dict of str to list of int
        Columns of each published view; empty if there are none.
    n_dropped : int
        Rows left out because of missing cells.
    standardized : bool
        Whether the columns have mean 0 and standard deviation 1, as the protocol asks.
    found : str
        Where the copy was found.
    info : DatasetInfo
        Its description: source, licence, checksums.
    """

    name: str
    X: Array
    y: NDArray[np.float64] | NDArray[np.int64]
    task: str
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    train: NDArray[np.bool_] | None
    views: dict[str, list[int]]
    n_dropped: int
    standardized: bool
    found: str
    info: DatasetInfo

    @property
    def signs(self) -> Array:
        """Two classes as -1 (the first of `target_names`) and 1."""
        if self.task != "binary":
            raise InputError(f"`signs` needs two classes, {self.name} is a {self.task} task.")
        return np.where(self.y == 1, 1.0, -1.0)

    def frame(self) -> DataFrame:
        """All columns and the target as a pandas DataFrame (needs pandas)."""
        frame = needed("pandas", "Data frames", "cli").DataFrame(self.X, columns=list(self.feature_names))
        frame["target"] = np.array(self.target_names)[self.y] if self.target_names else self.y
        return frame

    def __repr__(self) -> str:
        n, p = self.X.shape
        classes = f", classes {', '.join(self.target_names[:6])}" if self.target_names else ""
        return f"Dataset({self.name!r}, {n} x {p}, {self.task}{classes})"


def encode(info: DatasetInfo, table: RawTable, *, found: str, missing: str, standardize: bool) -> Dataset:
    """Turn a raw table into numbers.

    Parameters
    ----------
    missing : {"drop", "keep"}
        Leave rows with missing cells out, or keep them: NaN in numbers, no indicator set in categories.
    standardize : bool
        Every column to mean 0 and standard deviation 1 (ddof 1) over all rows kept, training and test alike.
    """
    flag, _, training = info.flag.partition("=")
    hidden = {*info.drop, flag, "target"}
    used = [j for j, column in enumerate(table.columns) if column not in hidden]
    needed = [*used, len(table.columns) - 1]
    rows = table.rows
    if missing == "drop":
        rows = [row for row in rows if all(row[j] for j in needed)]
    if not rows:
        raise InputError(f"{info.name} has no complete row.")
    blocks: list[Array] = []
    names: list[str] = []
    for j in used:
        column = table.columns[j]
        values, labels = _column([row[j] for row in rows], column in info.categorical)
        blocks.append(values)
        names += [column if label is None else f"{column}={label}" for label in labels]
    X = np.concatenate(blocks, axis=1)
    y, classes = _target(info, [row[-1] for row in rows])
    train = None
    if flag:
        position = table.columns.index(flag)
        train = np.array([row[position] == training for row in rows])
    for step in info.steps:
        X = STEPS[step](X)
    if standardize:
        spread = np.nanstd(X, axis=0, ddof=1)
        X = (X - np.nanmean(X, axis=0)) / np.where(spread > 0, spread, 1.0)
    views = {v: [j for j, name in enumerate(names) if name.startswith(f"{v}_")] for v in info.views}
    return Dataset(
        name=info.name,
        X=X,
        y=y,
        task=info.task,
        feature_names=tuple(names),
        target_names=classes,
        train=train,
        views=views,
        n_dropped=len(table.rows) - len(rows),
        standardized=standardize,
        found=found,
        info=info,
    )


def standard_rows(X: Array) -> Array:
    """Rows with mean 0 and standard deviation 1, over their known cells."""
    spread = np.nanstd(X, axis=1, ddof=1, keepdims=True)
    return (X - np.nanmean(X, axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0)


#: Transformations that make some versions from the numbers of their file; see `DatasetInfo`.
STEPS: dict[str, Callable[[Array], Array]] = {"log10": np.log10, "rows": standard_rows}


def _column(cells: list[str], categorical: bool) -> tuple[Array, list[str | None]]:
    """One numeric column, or one indicator for each level."""
    if not categorical:
        try:
            return np.array([[float(cell) if cell else np.nan] for cell in cells]), [None]
        except ValueError:
            pass
    levels = sorted({cell for cell in cells if cell})
    return np.array([[float(cell == level) for level in levels] for cell in cells]), list(levels)


def _target(info: DatasetInfo, cells: list[str]) -> tuple[NDArray[Any], tuple[str, ...]]:
    if info.task == "regression":
        try:
            return np.array([float(cell) for cell in cells]), ()
        except ValueError:
            raise InputError(f"The target of {info.name} must be numbers, got {cells[0]!r}.") from None
    classes = tuple(sorted(set(cells), key=_order))
    if info.task == "binary" and len(classes) != 2:
        raise InputError(f"{info.name} must have two classes, got {len(classes)}: {list(classes)[:10]}.")
    code = {label: k for k, label in enumerate(classes)}
    return np.array([code[cell] for cell in cells]), classes


def _order(label: str) -> tuple[float, str]:
    try:
        return float(label), label
    except ValueError:
        return float("inf"), label
