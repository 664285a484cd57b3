"""A table divided into features, target, weights, groups, views and held-out rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelweave._checks import InputError, check_row_weights
from kernelweave._forms import names_in, numbered
from kernelweave._parameters import LARGEST_NUMBER
from kernelweave._types import DataFrame, Labels, Series
from kernelweave.views.groups import AUTO, expand_views, read_views
from kernelweave_app.runs.columns import (
    check_cells,
    need_column,
    read_target,
    with_dates,
    with_types,
)
from kernelweave_app.runs.division import Division, read_division
from kernelweave_app.runs.further_views import Tables
from kernelweave_app.runs.joining import Joined
from kernelweave_app.runs.proposing import by_names, propose_views
from kernelweave_app.runs.row_names import column_of_names, find_row_names, left_out
from kernelweave_app.runs.spec import SURVIVAL, Spec, plain_kernels
from kernelweave_app.runs.survival import (
    events_of,
    need_targets,
    outcome_columns,
    read_times,
    said,
    without_negative,
)

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass
class Prepared:
    """A table divided for a fit.

    Attributes
    ----------
    X : DataFrame, or Tables with sparse views and kernels
    y : array of shape (n_rows,) or (n_rows, n_targets)
        With several targets labels of 0 and 1, or numbers; of survival events and times, and strata.
    task, reason : str
        The task that the target implies, and why.
    weights, groups : array or None
    held : array of bool or None
        Held-out rows, if a column marks them.
    views : dict of str to list of str
    n_dropped : int
        Rows left out because of missing values.
    keys : Series or None
        Names of the rows: the key, what files name them by, or a column that looks like names.
    names : tuple of str
        The targets if there are several.
    division : Division or None
        What the values of the column mean that marks held-out rows.
    plain : bool
        Whether kernels are left to a plain fit, which leaves out identifiers itself.
    proposed : str
        What in the table the views were taken from, where it was asked to suggest some: "names", "types" or
        "correlations" of the columns, or "nothing".
    suggested : dict of str to list of str
        Views that the names of the columns suggest, where none were asked for.
    identifiers : dict of str to str
        Columns that were left out of suggested views because they identify the rows, and why.
    """

    X: Any
    y: Any
    task: str
    reason: str
    weights: Any
    groups: Any
    held: Any
    views: dict[str, list[str]]
    n_dropped: int
    keys: Any = None
    names: tuple[str, ...] = ()
    division: Division | None = None
    plain: bool = False
    proposed: str = ""
    suggested: dict[str, list[str]] = field(default_factory=dict)
    identifiers: dict[str, str] = field(default_factory=dict)

    def target(self, rows: Any = slice(None)) -> Any:
        """The target of some rows as estimators take it: several with their names."""
        if not self.names:
            return self.y[rows]
        import pandas as pd

        return pd.DataFrame(self.y[rows], columns=list(self.names))

    def some(self, rows: Any) -> Prepared:
        """Some rows by position, none of them marked as held out."""
        weights, groups = (None if each is None else each[rows] for each in (self.weights, self.groups))
        keys = None if self.keys is None else self.keys.iloc[rows]
        X, y = self.X.iloc[rows], self.y[rows]
        return replace(self, X=X, y=y, weights=weights, groups=groups, keys=keys, held=None)

    @property
    def frame(self) -> DataFrame:
        """The columns to learn from, without sparse views and kernels."""
        return self.X.frame if isinstance(self.X, Tables) else self.X

    @property
    def n_sources(self) -> int:
        """Views of the rows, of columns, sparse or precomputed."""
        return len(self.X.views) if isinstance(self.X, Tables) else len(self.views)

    @property
    def n_missing(self) -> int:
        """Cells of the columns to learn from that are missing."""
        return int(self.frame.isna().to_numpy().sum())

    @cached_property
    def row_names(self) -> dict[str, str]:
        """Columns to learn from that look like names of the rows, and why."""
        return find_row_names(self.frame) if self.frame.shape[1] else {}

    @property
    def row_names_read(self) -> dict[str, str]:
        """Those of them that kernels read."""
        gone = {name for name in self.row_names if self.plain and left_out(self.frame[name], name)}
        # a plain fit keeps identifiers where there is nothing else
        kept = not gone or len(gone) == self.X.shape[1]
        return {name: why for name, why in self.row_names.items() if kept or name not in gone}

    @property
    def said(self) -> str:
        """The task in words."""
        if self.task == SURVIVAL:
            return f"{self.task} ({said(self.y)})"
        if not self.names:
            return self.task
        several = "several labels" if self.task == "classification" else "regression with several targets"
        return f"{several} ({', '.join(map(repr, self.names))})"

    def facts(self, data: Joined) -> list[str]:
        """What was found in the tables, in sentences."""
        then = "their view is missing" if data.kinds else "they are left out"
        one = "its view is missing" if data.kinds else "it is left out"
        lost = {view: len(keys) for view, keys in data.missing.items() if keys}
        found = [
            f"Table {view} does not have {numbered(n, 'row')} of other tables; {then if n > 1 else one}."
            for view, n in lost.items()
        ]
        if self.n_dropped:
            negative = " or negative times" if self.task == SURVIVAL else ""
            found.append(f"Left out {numbered(self.n_dropped, 'row')} with missing values{negative}.")
        why = "" if self.reason == "as asked" else f", because {self.reason}"
        found.append(f"Task: {self.said}{why}.")
        for name, why in self.identifiers.items():
            found.append(f"Column {name!r} is left out: it looks like a row identifier ({why}).")
        if self.proposed == "nothing":
            found.append("No views were found: names, types and correlations of the columns suggest none.")
        elif self.proposed:
            found.append(f"Views were taken from the {self.proposed} of the columns.")
        found += [f"View {view}: {numbered(len(columns), 'column')}." for view, columns in self.views.items()]
        for view, rows in data.sparse.items():
            found.append(f"View {view}: {rows.shape[1]} sparse columns, {rows.nnz} entries.")
        for view, one in data.grams.items():
            by = f"by {one.column!r}" if one.column else "by position"
            found.append(f"View {view}: a precomputed kernel, rows matched {by}.")
        return found


def prepare(data: Joined, spec: Spec) -> Prepared:
    """Separate the target, weights and groups from a table and detect the task."""
    table = with_types(data.table, spec.types)
    targets = need_targets(table, spec)
    table = without_negative(table, spec)
    # names of rows say nothing about other rows
    leave = {*targets, data.names, *(one.column for one in data.grams.values())}
    for name, what in (
        (spec.weights, "the weights"),
        (spec.group, "the groups"),
        (spec.holdout, "the held-out rows"),
        (spec.key, "the key"),
        *((name, "`drop`, the columns to leave out") for name in names_in(spec.drop)),
    ):
        if name:
            need_column(table, name, what)
            leave.add(name)
    columns = [c for c in table.columns if c not in leave]
    if not columns and not data.further:
        raise InputError("There is no column left to learn from.")
    proposed, suggested, identifiers = "", {}, {}
    if spec.views == AUTO:
        identifiers = {name: why for name in columns if (why := left_out(table[name], str(name)))}
        if len(identifiers) < len(columns):
            columns = [name for name in columns if name not in identifiers]
        proposal = propose_views(table[columns])
        views, proposed = dict(proposal.views), proposal.reason or "nothing"
    elif spec.views:
        partial = isinstance(spec.views, str) and spec.views.lower().endswith(".gmt")
        views = expand_views(read_views(spec.views), columns, partial=partial)
    else:
        known = set(columns)
        views = {name: [c for c in found if c in known] for name, found in data.views.items()}
        views = {name: found for name, found in views.items() if found}
        if not views and not data.further:
            suggested = by_names(columns)
    if views:
        # columns outside all views are not used, so their missing values do not matter
        used = {c for view in views.values() for c in view}
        columns = [c for c in columns if c in used]
    n_rows = len(table)
    if data.kinds:
        # tables that some rows lack: those with a target, what else is needed, and one view at least
        needed = needed_columns(spec, targets)
        table = rows_with(replace(data, table=table), spec, needed)
        if columns and not data.further:
            table = table[~table[columns].isna().all(axis=1)]
        if table.empty:
            raise InputError(
                f"No row has {spec.predicted!r} and a table to learn from. Is it the same kind of key?"
            )
        table = table.astype({name: data.kinds[name] for name in needed if name in data.kinds})
    missing = missing_cells(table, columns, views, spec)
    if spec.missing == "drop":
        known_rows = ~(missing.any(axis=1) | table[other_columns(spec, targets)].isna().any(axis=1))
        table, missing = table[known_rows], missing[known_rows]
        if table.empty:
            raise InputError("Every row has a missing value. Leave out the columns with most of them.")
    table = with_dates(table, columns)
    check_cells(table, [*targets, *columns])
    _check_infinite(table, targets, "The target must be finite")
    if spec.survival:
        y, task, reason = read_times(table, spec), SURVIVAL, "as asked"
    else:
        y, task, reason = read_target(table, targets, _stated_task(spec))
    # rows, held out or not, whose cells cannot be used for fitting or prediction
    rows = int(missing.any(axis=1).sum())
    if rows and spec.missing in ("error", "drop"):
        worst = missing.sum().nlargest(3)
        named = ", ".join(f"{name!r} ({count})" for name, count in worst.items() if count)
        raise InputError(
            f"{numbered(rows, 'row')} with missing cells, most of them in {named}. Choose what is done with them "
            "(`missing`: impute fills the cells, drop leaves out the rows, skip computes without the cells), or leave "
            "out the columns (`drop`)."
        )
    _check_infinite(table, columns, "Features must be finite")
    X: Any = table[columns]
    if data.further:
        # rows were numbered when the table was read
        kept = table.index.to_numpy()
        X = Tables(X, views, {name: rows[kept] for name, rows in data.further.items()})
    by_kernels = next((one.column for one in data.grams.values() if one.column), "")
    named = (
        spec.key or data.names or by_kernels or column_of_names(table, {*targets, *needed_columns(spec, [])})
    )
    held, division = read_division(table[spec.holdout], spec.holdout_values) if spec.holdout else (None, None)
    return Prepared(
        X=X,
        y=y,
        task=task,
        reason=reason,
        weights=_read_weights(table[spec.weights]) if spec.weights else None,
        groups=table[spec.group].to_numpy() if spec.group else None,
        held=held,
        views=views,
        n_dropped=n_rows - len(table),
        keys=table[named] if named else None,
        names=tuple(targets) if len(targets) > 1 and not spec.survival else (),
        division=division,
        plain=plain_kernels(spec.kernels),
        proposed=proposed,
        identifiers={name: why for name, why in identifiers.items() if name not in columns},
        suggested=suggested,
    )


def taken_columns(spec: Spec, columns: Sequence[str], *more: str | None) -> set[str]:
    """Columns that are no features: those with another role, those that are left out, and some more."""
    roles = (
        *outcome_columns(spec, columns),
        spec.weights,
        spec.group,
        spec.holdout,
        spec.strata,
        *names_in(spec.drop),
    )
    return {*filter(None, (*roles, *more))}


def needed_columns(spec: Spec, targets: Sequence[str]) -> list[str]:
    """Columns without which a row of several tables cannot be used."""
    return [name for name in (*targets, spec.weights, spec.group, spec.holdout) if name]


def other_columns(spec: Spec, targets: Sequence[str]) -> list[str]:
    """Columns beside the features whose missing values matter: targets, weights and groups."""
    return [name for name in (*targets, spec.weights, spec.group) if name]


def lacking_keys(data: Joined, needed: Sequence[str]) -> set[Any]:
    """Keys of rows that a table with one of these columns lacks."""
    return {k for name in needed for k in data.missing.get(data.table_of(name) or "", ())}


def rows_with(data: Joined, spec: Spec, needed: Sequence[str]) -> DataFrame:
    """Rows that no table with one of these columns lacks."""
    lacking = lacking_keys(data, needed)
    return data.table[~data.table[spec.key].isin(lacking)] if lacking else data.table


def missing_cells(table: DataFrame, columns: list[str], views: dict[str, list[str]], spec: Spec) -> DataFrame:
    """Which cells are missing; those of views that a row lacks are not, unless `missing_views` says so."""
    missing = table[columns].isna()
    if spec.missing_views != "error" and len(views) > 1:
        for view in views.values():
            missing.loc[missing[view].all(axis=1), view] = False
    return missing


def _stated_task(spec: Spec) -> str:
    """The task of a run, "auto" to detect it; few different counts are numbers if their loss is asked for."""
    from kernelweave.machines.losses import LOSSES

    loss = LOSSES.get(str(spec.learner_params.get("loss")))
    return "regression" if spec.task == "auto" and loss is not None and loss.linked else spec.task


def _check_infinite(table: DataFrame, columns: list[str], what: str) -> None:
    values = table[columns].select_dtypes(include=["floating"])
    numbers = values.to_numpy(dtype=float, na_value=np.nan)
    large = (np.isfinite(numbers) & (np.abs(numbers) > LARGEST_NUMBER)).any(axis=0)
    if large.any():
        raise InputError(
            f"{what}, and so must be sums of squares: column {values.columns[large.argmax()]!r} has numbers beyond "
            f"{LARGEST_NUMBER:g}. Write it in another unit, or leave it out."
        )
    count = np.isinf(numbers).sum(axis=0)
    if count.any():
        raise InputError(
            f"{what}, got {int(count.sum())} infinite values (infinity), the first in column "
            f"{values.columns[(count > 0).argmax()]!r}. Correct these cells, or leave out their rows or columns."
        )


def _read_weights(column: Series) -> Array:
    """Weights of rows as checked numbers."""
    try:
        return check_row_weights(column.to_numpy(), len(column))
    except InputError as error:
        raise InputError(f"Column {column.name!r} for the weights: {error}") from None


def split(prepared: Prepared, spec: Spec) -> tuple[Rows, Rows]:
    """Row numbers for training and for the held-out score."""
    from sklearn.model_selection import GroupShuffleSplit, train_test_split

    y, rows = prepared.y, np.arange(len(prepared.y))
    classes = prepared.task == "classification" and not prepared.names
    shares = kept_shares(prepared)
    if prepared.held is not None:
        if prepared.division is not None and prepared.division.problem:
            raise InputError(prepared.division.problem)
        train, test = rows[~prepared.held], rows[prepared.held]
    elif spec.test_size == 0:
        train, test = rows, rows[:0]
    else:
        how: dict[str, Any] = {"test_size": spec.test_size, "random_state": spec.seed}
        if prepared.groups is None and shares is not None:
            _refuse_single(shares)
        try:
            if prepared.groups is not None:
                train, test = next(GroupShuffleSplit(1, **how).split(rows, groups=prepared.groups))
            else:
                train, test = map(np.sort, train_test_split(rows, stratify=shares, **how))
        except ValueError as error:
            raise InputError(
                f"No rows can be held out: {error} Hold out more or fewer (`test_size`), or none (0); or use more rows."
            ) from error
    counted = train if prepared.weights is None else train[prepared.weights[train] > 0]
    if not len(counted):
        raise InputError(
            f"No training row has a positive weight in column {spec.weights!r}. Hold out other rows."
        )
    if classes and len(set(y[counted].tolist())) < 2:
        raise InputError(
            f"The {len(counted)} training rows are all of class {y[counted].tolist()[0]!r}; at least two classes "
            "are needed. Hold out other rows."
        )
    if prepared.task == SURVIVAL and not y[counted, 0].any():
        raise InputError(f"None of the {len(counted)} training rows has an event. Hold out other rows.")
    return train, test


def _refuse_single(classes: Labels) -> None:
    """Raise for classes of one row, which can be on one side of a division only."""
    alone = [name for name, count in Counter(classes.tolist()).items() if count == 1]
    if not alone:
        return
    few = (
        f"class {alone[0]!r} has" if len(alone) == 1 else f"{len(alone)} classes, such as {alone[0]!r}, have"
    )
    raise InputError(
        f"No rows can be held out: {few} one row, and held-out rows have the classes of the others. Leave out such "
        "rows, or hold out none (`test_size` 0). Is this a column of classes?"
    )


def kept_shares(prepared: Prepared) -> Any:
    """Classes, or events, whose shares held-out rows keep; None for numbers and several targets."""
    if prepared.task == SURVIVAL:
        events = events_of(prepared.y)
        return events if min(events.sum(), (1.0 - events).sum()) >= 2 else None
    return prepared.y if prepared.task == "classification" and not prepared.names else None


def classes_of(prepared: Prepared, rows: Rows) -> Rows:
    """The number of the class of every row, or whether it has an event; 0 for numbers and for several targets."""
    if prepared.task == SURVIVAL:
        return prepared.y[rows, 0].astype(np.intp)
    if prepared.task == "regression" or prepared.names:
        return np.zeros(len(rows), dtype=np.intp)
    return np.unique(np.asarray(prepared.y)[rows].astype(str), return_inverse=True)[1]


def sample_rows(rows: Rows, classes: Rows, size: int, seed: int) -> Rows:
    """Some rows with the shares of the classes; every class keeps as many as it can for folds."""
    if size >= len(rows):
        return rows
    rng, parts = np.random.default_rng(seed), []
    for code in range(classes.max() + 1):
        members = rows[classes == code]
        number = max(round(size * len(members) / len(rows)), min(len(members), 5))
        parts.append(rng.choice(members, min(number, len(members)), replace=False))
    return np.sort(np.concatenate(parts))
