"""The tables of a run, and of new rows for its model, with all views of their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelweave._errors import InputError
from kernelweave._types import DataFrame, Series
from kernelweave_app.runs.columns import read_types_of, with_types_of
from kernelweave_app.runs.formats import read_file, read_table
from kernelweave_app.runs.gram_views import new_grams, read_names, with_grams
from kernelweave_app.runs.joining import Joined, files_in, join_new, join_tables, name_tables, read_layout
from kernelweave_app.runs.scoring import columns_of, features_of, grams_of, sparse_views_of
from kernelweave_app.runs.sparse_views import read_views, with_views
from kernelweave_app.runs.spec import Spec
from kernelweave_app.runs.tables import need_column

if TYPE_CHECKING:
    from kernelweave.estimators import BaseMKL


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
    several = len(paths) > 1
    data = read_tables(paths, spec.key, spec.rows, dense=spec.dense or not labelled)
    if not data.table.shape[1]:
        [name] = data.sparse
        raise InputError(
            f"{first} has rows but no target. Pass the table with the target first, and this file as --view "
            f"{name}={first}."
        )
    data = with_views(data, spec.view, first, joined=several)
    return with_grams(data, spec.gram, spec.key, joined=several)


def read_tables(
    paths: Mapping[str, str | Path], key: str, rows: str = "shared", *, dense: bool = True
) -> Joined:
    """Read one table, or several and join them.

    Parameters
    ----------
    paths : mapping of str to path
    key : str
        Only needed for several tables.
    rows : {"shared", "all", "order"}, default="shared"
        See `join_tables`.
    dense : bool, default=True
        Whether the rows of a sparse file are columns.

    Returns
    -------
    Joined
    """
    if len(paths) == 1:
        return read_file(next(iter(paths.values())), dense=dense)
    return join_tables({name: read_table(path) for name, path in paths.items()}, key, rows)


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
    """

    table: DataFrame
    X: Any
    keys: Series | None


def read_new(
    model: BaseMKL,
    folder: Path,
    path: str,
    *,
    join: str = "",
    key: str = "",
    view: list[str] | None = None,
    gram: list[str] | None = None,
    say: Callable[[str], None],
) -> NewRows:
    """Read tables as a run read those that its model was learnt from.

    Parameters
    ----------
    model : fitted estimator
    folder : Path
        Of the run.
    path : str
        The table.
    join : str
        Further tables.
    key : str
        Column that names the rows; default that of the run.
    view, gram : list of str, optional
        Sparse views and kernels, as the settings of these names.
    say : callable
        Called with what stands for what.

    Returns
    -------
    NewRows
    """
    layout, wanted = read_layout(folder), sparse_views_of(model)
    tables: dict[str, DataFrame] = {}
    own: dict[str, Any] = {}
    named = ""
    for name, file in name_tables([path, *files_in(join)]).items():
        read = read_file(file, dense=not wanted or bool(join))
        tables[name], own, named = read.table, {**own, **read.sparse}, named or read.names
    data, stands_for = join_new(tables, layout, columns_of(model), key)
    for old, new in stands_for.items():
        say(f"Table {new} is used for {old} of the run.")
    table = with_types_of(data.table, read_types_of(folder))
    usual = key or (layout.key if layout else named)
    if key:
        need_column(table, key, "the key")
    keys = table[usual] if usual in table.columns else None
    further = read_views(view or [], len(table), path)
    if len(own) == 1 and len(wanted) == 1 and not further:
        # the only sparse view of a model has no other file
        further = dict.fromkeys(wanted, *own.values())
    further = {name: rows for name, rows in own.items() if name in wanted} | further
    kernels, stands_for = new_grams(
        grams_of(model), gram or [], table, read_names(folder), "" if keys is None else str(keys.name)
    )
    for old, new in stands_for.items():
        say(f"Kernel {new} is used for {old} of the run.")
    return NewRows(table, features_of(model, table, {**further, **kernels}), keys)
