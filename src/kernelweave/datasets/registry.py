"""Descriptions of the data sets; the rows are in registry.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any

from kernelweave._errors import check_known
from kernelweave.datasets.reading import Layout

#: Protocols of the papers: how they prepared the columns.
PROTOCOLS = ("rls2", "rkl", "mlmkl")


@dataclass(frozen=True)
class DatasetInfo:
    """One row of the registry.

    Attributes
    ----------
    name : str
        The name that `kernelweave.datasets.load` takes.
    title : str
        What the set is, in a few words.
    task : {"regression", "binary", "multiclass"}
        What is predicted: numbers, one of two classes, or one of several.
    n_samples, n_features : int
        Size of the published table, before rows with missing cells are left out and categories become columns.
    file : str
        File name in a data folder.
    papers : tuple of str
        Protocols that use the set.
    standardized : tuple of str
        Protocols that standardise its columns.
    source, licence, how : str
        Origin, terms of use, and how to get it.
    note : str
        Remarks for its use.
    categorical : tuple of str
        Columns of categories, among them those written as numbers.
    drop : tuple of str
        Columns of the file that are not features of this set.
    flag : str
        Column that marks the training rows, and the value that marks them after ``=``.
    views : tuple of str
        Prefixes of column names that form views.
    steps : tuple of {"log10", "rows"}
        How this version is computed from the numbers of the file: logarithms of all cells, and rows with mean 0 and
        standard deviation 1 (ddof 1), in this order. A protocol standardises columns after that.
    bundled : str
        Loader of scikit-learn for the same table.
    url : str
        Address of the original; empty if unknown.
    layout : Layout or None
        Form of the downloaded file; None for ours.
    bytes_sha256, content_sha256 : str
        Checksums of the file, and of its content.
    columns : tuple of str
        Names of the columns without the target, where the downloaded file has none of its own; else empty.
    """

    name: str
    title: str
    task: str
    n_samples: int
    n_features: int
    file: str
    content_sha256: str
    bytes_sha256: str = ""
    papers: tuple[str, ...] = ()
    standardized: tuple[str, ...] = ()
    source: str = ""
    licence: str = ""
    how: str = ""
    note: str = ""
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    flag: str = ""
    views: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    bundled: str = ""
    url: str = ""
    layout: Layout | None = None
    columns: tuple[str, ...] = ()


@cache
def registry() -> dict[str, DatasetInfo]:
    """All rows by name."""
    text = files("kernelweave.datasets").joinpath("registry.toml").read_text(encoding="utf-8")
    return {name: _info(name, row) for name, row in tomllib.loads(text).items()}


def info(name: str) -> DatasetInfo:
    """Description of one data set: its size, its source, its licence and how to get it.

    Parameters
    ----------
    name : str
        One of those that `kernelweave.datasets.registry` lists; an unknown name is an error that lists them.

    Returns
    -------
    DatasetInfo
    """
    return registry()[check_known(name, registry(), "data set")]


def _info(name: str, row: dict[str, object]) -> DatasetInfo:
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    layout = values.pop("layout", None)
    if isinstance(layout, dict):
        known = {f.name for f in fields(Layout)}
        pairs: dict[str, Any] = {k: _frozen(v) for k, v in layout.items() if k in known}
        values["layout"] = Layout(**pairs)
    return DatasetInfo(name=name, **values)  # type: ignore[arg-type]


def _frozen(value: object) -> object:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
