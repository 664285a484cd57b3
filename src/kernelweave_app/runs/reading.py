"""What a run reads: its tables with all views of their rows, divided for a fit; and new rows for its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernelweave._errors import InputError
from kernelweave._types import DataFrame, Series
from kernelweave.estimators import BaseMKL
from kernelweave.inspection.arguments import target_names
from kernelweave_app.runs.columns import (
    check_target,
    need_column,
    target_of_model,
    types_of_run,
    with_types,
)
from kernelweave_app.runs.folders import model_file
from kernelweave_app.runs.formats import read_file, read_table
from kernelweave_app.runs.further_views import READERS, Readers, new_grams, read_views, with_further
from kernelweave_app.runs.joining import (
    Joined,
    files_in,
    join_new,
    join_tables,
    name_tables,
    read_layout,
)
from kernelweave_app.runs.lineage import Lineage, trace
from kernelweave_app.runs.predictions import columns_of, features_of, grams_of, sparse_views_of, texts_of
from kernelweave_app.runs.preparing import Prepared, Rows, prepare, split
from kernelweave_app.runs.spec import Spec
from kernelweave_app.runs.survival import TRUTH, need_targets, read_strata, read_times


@dataclass(frozen=True)
class Run:
    """A run before its fit.

    Attributes
    ----------
    spec : Spec
    paths : dict of str to str
        Its table files by name.
    data : Joined
        The tables that were read.
    prepared : Prepared
        Features and target.
    train, test : array of int
        Training and held-out rows.
    origin : Lineage
    """

    spec: Spec
    paths: dict[str, str]
    data: Joined
    prepared: Prepared
    train: Rows
    test: Rows
    origin: Lineage

    @property
    def file(self) -> str:
        """The name of the first table file."""
        return Path(next(iter(self.paths.values()))).name


def files_of(table: str, spec: Spec) -> dict[str, str]:
    """The table of a command and those joined to it, by name."""
    return name_tables([table, *files_in(spec.join)])


def read_run(
    paths: Mapping[str, str], spec: Spec, *, labelled: bool = False, origin: Lineage | None = None
) -> Run:
    """Read the tables of a run, and divide them; see `read_all`.

    Parameters
    ----------
    paths, spec, labelled
        As for `read_all`.
    origin : Lineage, optional
        Of a run that has one; without it, checksums of the files are computed.

    Returns
    -------
    Run

    Raises
    ------
    InputError
        Files that cannot be read or joined, or settings that do not fit them.
    """
    data = read_all(paths, spec, labelled=labelled)
    paths = {name: str(Path(file).resolve()) for name, file in paths.items()}
    origin = origin or trace(paths, spec)
    prepared = prepare(data, spec)
    return Run(spec, paths, data, prepared, *split(prepared, spec), origin)


def read_all(paths: Mapping[str, str], spec: Spec, *, labelled: bool = False) -> Joined:
    """Read the tables of a run, and what its settings `view` and `gram` name.

    Parameters
    ----------
    paths : mapping of str to str
        Table files by name.
    spec : Spec
    labelled : bool, default=False
        Take a sparse file in place of a table for labels and a sparse view, unless the setting `dense` asks for
        columns; otherwise it is a table of columns.

    Returns
    -------
    Joined
    """
    first = next(iter(paths.values()))
    if len(paths) == 1:
        data = read_file(first, dense=spec.dense or not labelled)
    else:
        data = join_tables({name: read_table(path) for name, path in paths.items()}, spec.key, spec.rows)
    if not data.table.shape[1]:
        [name] = data.sparse
        raise InputError(
            f"{first} has rows but no target. Pass the table with the target first, and this file as --view "
            f"{name}={first}."
        )
    return with_further(data, spec.view, spec.gram, spec.key, first, joined=len(paths) > 1)


# ---- models and new rows ------------------------------------------------------------------------------


def load_model(name: str) -> BaseMKL:
    """Read the model of a run folder or a file."""
    from kernelweave.persistence import load

    return load(model_file(name))


@dataclass(frozen=True)
class NewRows:
    """Rows to predict.

    Attributes
    ----------
    table : DataFrame
        As it was read, the target with it.
    X : DataFrame or Tables
        As the model takes them.
    keys : Series or None
        Names of the rows.
    stands_for : dict of str to str
        For each table or kernel of the run the new one that replaces it, where names differ.
    """

    table: DataFrame
    X: Any
    keys: Series | None
    stands_for: dict[str, str]


def read_new(
    model: BaseMKL,
    folder: Path,
    path: str,
    join: str,
    key: str,
    view: list[str],
    gram: list[str],
    target: str = "",
) -> NewRows:
    """Read tables, and the truth in them, as a run read those that its model was learnt from; see `match_new`."""
    dense, texts = bool(join) or not sparse_views_of(model), texts_of(model, target)
    paths = name_tables([path, *files_in(join)])
    read = {name: read_file(file, dense=dense, texts=texts) for name, file in paths.items()}
    return match_new(model, folder, read, path, key=key, view=view, gram=gram)


def match_new(
    model: BaseMKL,
    folder: Path,
    read: Mapping[str, Joined],
    path: str,
    *,
    key: str,
    view: Sequence[str],
    gram: Sequence[str],
    readers: Readers = READERS,
) -> NewRows:
    """New rows as a model takes them, from the tables that were read.

    Parameters
    ----------
    model : fitted estimator
    folder : Path
        Of the run, or a file in it.
    read : mapping of str to Joined
        The tables by name.
    path : str
        What messages call the first.
    key : str
        Column that names the rows; default that of the run.
    view, gram : sequence of str
        Sparse views and kernels, as the settings of these names.
    readers : Readers

    Returns
    -------
    NewRows
    """
    folder = folder if folder.is_dir() else folder.parent
    layout = read_layout(folder)
    data, stands_for = join_new(
        {name: one.table for name, one in read.items()}, layout, columns_of(model), key
    )
    table = with_types(data.table, types_of_run(folder), new=True)
    if key:
        need_column(table, key, "the key")
    usual = key or (layout.key if layout else next((one.names for one in read.values() if one.names), ""))
    keys = table[usual] if usual in table.columns else None
    own = {name: rows for one in read.values() for name, rows in one.sparse.items()}
    wanted = sparse_views_of(model)
    further: dict[str, Any] = read_views(view, len(table), path, readers)
    if len(own) == 1 and len(wanted) == 1 and not further:
        # the only sparse view of a model has no other file
        further = dict.fromkeys(wanted, *own.values())
    further = {name: rows for name, rows in own.items() if name in wanted} | further
    kernels, others = new_grams(
        grams_of(model), gram, table, folder, "" if keys is None else str(keys.name), readers
    )
    X = features_of(model, table, {**further, **kernels})
    return NewRows(table, X, keys, {**stands_for, **others})


def read_truth(
    model: BaseMKL, table: DataFrame, spec: Spec
) -> tuple[Any, tuple[str, ...] | list[str], dict[str, str]]:
    """The truth of new rows, in the columns that settings name.

    Returns
    -------
    y : array of shape (n_rows,) or (n_rows, n_columns)
    names : sequence of str
        Of its columns if there are several.
    stands_for : dict of str to str
        For each of several targets of the model the column, if names differ.
    """
    if spec.survival:
        need_targets(table, spec)
        y = read_times(table, spec)
        return y, TRUTH[: y.shape[1]], {}
    task, names = "classification" if hasattr(model, "classes_") else "regression", target_names(model)
    if names:
        y, stands_for = target_of_model(table, spec.target, names, task)
        return y, list(names), stands_for
    y = check_target(need_column(table, spec.target, "the target"), task)
    if strangers := sorted({*map(str, y)} - {*map(str, getattr(model, "classes_", y))}):
        known = ", ".join(map(repr, np.asarray(model.classes_).tolist()))
        raise InputError(
            f"Column {spec.target!r} has labels that the model does not know: {strangers[:5]}. It knows {known}."
        )
    return y, [], {}


def strata_of_rows(table: DataFrame, name: str) -> Any:
    """The strata of new rows by the column of a survival model that has some; its absence is an error."""
    if not name:
        raise InputError("This survival model has strata: name their column with --strata.")
    return read_strata(table, str(need_column(table, name, "the strata").name))
