"""What the studio says about tables: columns, rows, joins, targets, missing cells, outliers, views."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from kernelweave._errors import InputError
from kernelweave._forms import names_in, numbered
from kernelweave._sparse import is_sparse, to_dense
from kernelweave._types import DataFrame, Labels, Series
from kernelweave.kernels import Impute
from kernelweave.machines.cox import Cox
from kernelweave.views import Cells, PrecomputedView, TableEncoder
from kernelweave.views.levels import mostly_rare
from kernelweave.views.tables import DATE
from kernelweave_app.runs.columns import (
    check_target,
    date_format,
    detect_task,
    names_of_target,
    need_column,
    need_target,
    read_target,
    with_types,
)
from kernelweave_app.runs.division import counts_of, read_division, texts_of
from kernelweave_app.runs.further_views import TABLE, Tables
from kernelweave_app.runs.joining import Joined
from kernelweave_app.runs.preparing import Prepared, prepare, rows_with, taken_columns
from kernelweave_app.runs.preparing import Rows as Positions
from kernelweave_app.runs.row_names import left_out, why_names
from kernelweave_app.runs.spec import SURVIVAL, Spec
from kernelweave_app.runs.survival import (
    event_of,
    events_of,
    need_targets,
    outcome_columns,
    read_times,
    strata_of,
)
from kernelweave_app.studio.catalogue import Catalogue, memory_of
from kernelweave_app.studio.consequences import NO_TIMES, consequences
from kernelweave_app.studio.schema import (
    Alignments,
    Column,
    ColumnKind,
    Columns,
    Consequence,
    Data,
    Further,
    Gap,
    Joining,
    Marked,
    Missing,
    Outlier,
    Outliers,
    Rows,
    Side,
    Table,
    TableId,
    Target,
    Times,
)

#: Tasks of a target column.
TASK_NAMES = ("auto", "regression", "classification")
TaskName = Annotated[
    str, Field(pattern=f"^({'|'.join(TASK_NAMES)})$", json_schema_extra={"enum": [*TASK_NAMES]})
]
#: A column, or several with commas between them.
Targets = Annotated[str, Field(max_length=20_000)]
#: Settings of a run as they are without any choice.
DEFAULTS = Spec()
#: A position in a table or a list: SQLite and pandas count in 64 bits.
Start = Annotated[int, Field(ge=0, le=1_000_000_000)]
#: Columns that are described at once.
MOST_COLUMNS = 500
#: Values of a column that marks held-out rows, in a list to choose from.
MOST_MARKS = 50
#: Characters of a cell.
LONGEST_CELL = 80


def describe_table(table: DataFrame, table_id: str, name: str) -> Table:
    """Size, types and missing values of a table."""
    missing = table.isna()
    return Table(
        id=table_id,
        name=name,
        n_rows=len(table),
        n_columns=table.shape[1],
        n_numeric=len(numeric_columns(table)),
        n_missing=int(missing.to_numpy().sum()),
        rows_missing=int(missing.any(axis=1).sum()),
        memory=memory_of(table),
    )


def numeric_columns(table: DataFrame) -> list[str]:
    """Columns of numbers; yes and no are not numbers."""
    import pandas as pd

    is_number, is_bool = pd.api.types.is_numeric_dtype, pd.api.types.is_bool_dtype
    return [c for c, kind in table.dtypes.items() if is_number(kind) and not is_bool(kind)]


def cell(value: object) -> str | None:
    """A cell as short text; None where it is missing."""
    import pandas as pd

    if pd.isna(value):
        return None
    return shorten(f"{value:.6g}" if isinstance(value, float) else str(value), LONGEST_CELL)


def describe_target(table: DataFrame, name: str, task: str) -> Target:
    """The task that a target column implies, and what is wrong with it."""
    names = need_target(table, name)
    if len(names) > 1:
        return _several_targets(table, names, task)
    column = need_column(table, name, "the target")
    found, reason = detect_task(column, task)
    problem = ""
    try:
        check_target(column, found)
    except InputError as error:
        problem = str(error)
    told: dict[str, Any] = {"classes": {}}
    if found == "classification":
        counts = column.value_counts()
        told["classes"] = {str(k): int(v) for k, v in counts.head(50).items()}
        if not problem and len(counts) > min(200, max(10, len(column) // 2)):
            many = f"{len(counts)} classes for {numbered(len(column), 'row')}"
            problem = f"{many}: is this an identifier or a number?"
        if not problem and len(counts) < 2:
            problem = "There is only one class: nothing to learn."
    elif not problem:
        told |= {"low": float(column.min()), "high": float(column.max())}
    n_missing = int(column.isna().sum())
    return Target.model_validate(
        {"task": found, "reason": reason, "n_missing": n_missing, "problem": problem, **told}
    )


def _several_targets(table: DataFrame, names: list[str], task: str) -> Target:
    known = table[names].dropna()
    told: dict[str, Any] = {"task": "regression" if task == "auto" else task, "reason": "several columns"}
    try:
        told["task"], told["reason"] = read_target(known, names, task)[1:]
    except InputError as error:
        told["problem"] = str(error)
    return Target(n_missing=len(table) - len(known), classes={}, names=names, **told)


def describe_times(table: DataFrame, spec: Spec) -> Times:
    """What columns of times and events hold, and what is wrong with them."""
    import pandas as pd

    columns = list(map(str, table.columns))
    event, values = event_of(spec, columns)
    counts = counts_of(texts_of(table[event].dropna())) if event in columns else {}
    told: dict[str, Any] = {"event": event, "values": dict(list(counts.items())[:MOST_MARKS])}
    told["n_values"] = len(counts)
    try:
        time = need_targets(table, spec)[0]
    except InputError as error:
        return Times(problem=str(error), **told)
    numbers = pd.to_numeric(table[time], errors="coerce")
    lost, unread = table[[time, event]].isna().any(axis=1), numbers.isna() & table[time].notna()
    rows = table[~(lost | unread | (numbers < 0))]
    found = {"n_missing": lost, "n_unread": unread, "n_negative": numbers < 0, "n_zero": numbers == 0}
    told |= {name: int(which.sum()) for name, which in found.items()}
    few, many = table[time].nunique() <= 2, pd.api.types.is_numeric_dtype(table[event]) and len(counts) > 2
    told["swapped"] = bool(few and many and not values)
    try:
        y = read_times(rows, spec)
    except InputError as error:
        return Times(problem=str(error), unreadable=True, **told)
    seen = y[:, 0] > 0
    return Times(
        n_events=int(seen.sum()),
        n_censored=int((~seen).sum()),
        low=y[:, 1].min(),
        high=y[:, 1].max(),
        events=list(counts_of(texts_of(rows[event][seen])))[:MOST_MARKS],
        **told,
    )


def describe_division(column: Series, asked: str | list[str]) -> Marked:
    """The rows that a column holds out, or why they cannot be told."""
    counts = counts_of(texts_of(column))
    values = dict(list(counts.items())[:MOST_MARKS])
    try:
        _, found = read_division(column, asked)
    except InputError as error:
        return Marked(problem=str(error), values=values)
    swapped = list(found.training)
    if asked:
        with contextlib.suppress(InputError):
            # nothing need be said where the words of the column say it
            swapped = [] if read_division(column)[1].held == found.training else swapped
    return Marked(
        n_held=found.n_held,
        n_training=found.n_training,
        said="" if found.problem else found.said,
        problem=found.problem,
        values=values,
        held=list(found.held)[:MOST_MARKS],
        swapped=swapped,
    )


#: Bars of a histogram.
BINS = 20
#: Categories with a bar of their own.
MOST_LEVELS = 8

#: The part that a column has in learning, by its name.
ROLES = {
    "feature": "feature",
    "target": "target",
    "time": "time until an event",
    "event": "event",
    "strata": "strata",
    "key": "key",
    "group": "groups",
    "weights": "weight",
    "holdout": "held-out",
    "ignored": "ignored",
}


#: Roles of one column, by the settings that name it.
OF_ONE_COLUMN = ("strata", "group", "weights", "holdout")


def describe_column(column: Series, name: str) -> Column:
    """Type, range, distribution and missing cells of a column."""
    import pandas as pd

    known = column.dropna()
    kinds = pd.api.types
    kind: ColumnKind
    told: dict[str, Any] = {}
    if kinds.is_bool_dtype(column):
        kind = "yes/no"
    elif kinds.is_numeric_dtype(column):
        values = known.to_numpy(dtype=np.float64)
        with np.errstate(invalid="ignore"):  # of infinite cells
            kind = "whole number" if len(values) and (values % 1 == 0).all() else "number"
            if len(values):
                told = {
                    "low": values.min(),
                    "high": values.max(),
                    "mean": values.mean(),
                    "median": np.median(values),
                }
        if told:
            told |= {"counts": histogram(values), "n_distinct": known.nunique()}
    elif kinds.is_datetime64_any_dtype(column) or date_format(column):
        kind = "date"
    else:
        kind = "text"
    if not told:
        found = known.astype(str).value_counts()
        levels = {shorten(str(k), LONGEST_CELL): int(v) for k, v in found.head(MOST_LEVELS).items()}
        told = {"levels": levels, "examples": list(levels)[:4], "n_distinct": len(found)}
    return Column(
        name=name,
        kind=kind,
        n_missing=len(column) - len(known),
        taken_for=taken_for(column, kind),
        names_rows=why_names(column, name),
        **told,
    )


def taken_for(column: Series, kind: ColumnKind) -> Literal["number", "category", "text", "date", ""]:
    """What a fit with the default kernels takes a column for; empty where it leaves the column out."""
    if kind == "date":
        return "date"
    if left_out(column, str(column.name)):
        return ""
    if kind in ("number", "whole number"):
        return "number"
    is_category = kind == "yes/no" or str(column.dtype) == "category"
    known = column.dropna()
    if is_category:
        return "category"
    read = Cells(known.tolist()).is_long_text or mostly_rare(known.value_counts().to_numpy())
    return "text" if read else "category"


def histogram(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> list[int]:
    """Counts of numbers in bins of one width, a bin for each value where there are few whole ones."""
    values = values[np.isfinite(values)]
    if not len(values):
        return []
    low, high = float(values.min()), float(values.max())
    if low == high:
        return [len(values)]
    whole = high - low < BINS and bool((values % 1 == 0).all())
    bins = int(high - low) + 1 if whole else BINS
    reach = (low - 0.5, high + 0.5) if whole else (low, high)
    if not np.isfinite(reach[1] - reach[0]):
        return []
    return [int(n) for n in np.histogram(values, bins=bins, range=reach)[0]]


def shorten(text: str, most: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


# ---- roles ----------------------------------------------------------------------------------------


def role_of(name: str, spec: Spec, data: Data, columns: Sequence[str] = ()) -> str:
    """The part of a column in learning, of all columns of the tables; one of `ROLES`."""
    if name and name == data.key:
        return "key"
    if name in outcome_columns(spec, columns or [name]):
        return "target" if not spec.survival else "time" if name == spec.time else "event"
    for role in OF_ONE_COLUMN:
        if name == getattr(spec, role):
            return role
    return "ignored" if name in names_in(spec.drop) else "feature"


def with_role(name: str, role: str, spec: Spec, columns: Sequence[str] = ()) -> dict[str, object]:
    """Settings that change so that a column has a role, other than key; no column has two.

    A further target joins where there are several already.
    """
    changed: dict[str, object] = {}
    for other in ("time", *OF_ONE_COLUMN):
        if getattr(spec, other) == name and other != role:
            changed[other] = ""
    if role != "event" and event_of(spec, columns)[0] == name:
        changed["event"] = ""
    targets = names_of_target(spec.target, columns or [name])
    if role != "target" and name in targets:
        changed["target"] = ",".join(one for one in targets if one != name)
    dropped = [c for c in names_in(spec.drop) if c != name]
    if role == "ignored":
        dropped.append(name)
    if dropped != names_in(spec.drop):
        changed["drop"] = dropped
    if role not in ("feature", "ignored", "key"):
        changed[role] = (
            ",".join(dict.fromkeys([*targets, name])) if role == "target" and targets[1:] else name
        )
    if role == "target":
        changed |= {"task": "auto", **(NO_TIMES if spec.survival else {})}
    elif role in ("time", "event"):
        changed |= {"task": "auto", "target": ""}
    return changed


Array = NDArray[np.float64]

#: Columns with missing cells that are described, those with most of them.
MOST_GAPS = 30
#: Rows and columns on which nearest rows are searched for.
MOST_NEAREST = (500, 300)
#: Rows on which views are compared.
MOST_ROWS = 300
#: Views that are compared.
MOST_VIEWS = 40
#: Outliers: distance from the median in standard deviations as the median absolute deviation estimates them.
FAR = 5.0
#: Standard deviations of a normal distribution in a median absolute deviation.
MAD_TO_SD = 1.4826
MOST_OUTLIERS = 100
#: Cells that are searched for outliers; of larger tables, rows spread evenly.
MOST_CELLS = 10_000_000


def describe_missing(table: DataFrame, columns: list[str], views: Mapping[str, list[str]]) -> Missing:
    """Missing cells of the columns to learn from, and what the rules of `missing` would put there.

    Parameters
    ----------
    table : DataFrame
        All rows; a fit takes the numbers from its training rows.
    columns : list of str
    views : mapping of str to list of str

    Returns
    -------
    Missing
    """
    lost = table[columns].isna().to_numpy()
    counts = lost.sum(axis=0)
    worst = [j for j in np.argsort(-counts, kind="stable")[:MOST_GAPS] if counts[j]]
    lacking = {
        view: int(table[names].isna().all(axis=1).sum())
        for view, names in (views or {}).items()
        if len(views) > 1 and names
    }
    numeric = set(numeric_columns(table[[columns[j] for j in worst]]))
    nearest = _nearest(table, columns, [columns[j] for j in worst if columns[j] in numeric], counts)
    gaps = []
    for j in worst:
        name, known = columns[j], table[columns[j]].dropna()
        frequent = known.mode() if len(known) else known
        is_number = name in numeric and len(known) > 0
        gaps.append(
            Gap(
                name=name,
                n_missing=int(counts[j]),
                mean=float(known.mean()) if is_number else None,
                median=float(known.median()) if is_number else None,
                frequent="" if name in numeric or not len(frequent) else cell(frequent.iloc[0]) or "",
                nearest=nearest.get(name, []),
            )
        )
    return Missing(
        n_rows=len(table),
        n_columns=int((counts > 0).sum()),
        n_cells=int(counts.sum()),
        n_incomplete=int(lost.any(axis=1).sum()),
        columns=gaps,
        views={view: count for view, count in lacking.items() if count},
    )


def _nearest(
    table: DataFrame, columns: list[str], wanted: list[str], counts: Array
) -> dict[str, list[float]]:
    """The smallest and largest number that `missing` = "impute-nearest" puts into each column."""
    most_rows, most_columns = MOST_NEAREST
    numeric = numeric_columns(table[columns]) if len(columns) <= 10 * most_columns else wanted
    # the columns with missing cells, and some that tell which rows are near
    others = [name for name in numeric if name not in set(wanted)][: max(0, most_columns - len(wanted))]
    if not wanted:
        return {}
    part = table[[*wanted, *others]]
    lost = part[wanted].isna().any(axis=1).to_numpy()
    rows = np.r_[np.flatnonzero(lost)[: most_rows // 2], np.flatnonzero(~lost)[:most_rows]][:most_rows]
    frame = part.iloc[np.sort(rows)].astype(float)
    encoded = TableEncoder(missing=True).fit_transform(frame)
    filled = Impute("nearest").fitted(encoded).apply(encoded).values
    found = {}
    for j, name in enumerate(wanted):
        values = filled[frame[name].isna().to_numpy(), j]
        if len(values):
            found[name] = [float(values.min()), float(values.max())]
    return found


def find_outliers(table: DataFrame) -> Outliers:
    """Numbers far from the median of their column.

    Parameters
    ----------
    table : DataFrame

    Returns
    -------
    Outliers
        With `FAR` and more robust standard deviations, |x - median| / (1.4826 MAD). Columns of which more than half the
        cells are equal have no such distance and are left out.
    """
    names = numeric_columns(table)
    step = max(1, int(np.ceil(len(table) * max(1, len(names)) / MOST_CELLS)))
    rows = np.arange(0, len(table), step)
    if not names or len(rows) < 3:
        return Outliers(n_outliers=0, n_rows=len(rows), outliers=[])
    part = table[names] if step == 1 else table[names].iloc[rows]
    values = part.to_numpy(dtype=np.float64, na_value=np.nan)
    middle = _column_medians(values)
    spread = MAD_TO_SD * _column_medians(np.abs(values - middle))
    with np.errstate(all="ignore"):
        z = np.where(spread > 0, (values - middle) / np.where(spread > 0, spread, 1.0), 0.0)
    z = np.where(np.isfinite(z), z, 0.0)
    far = np.argwhere(np.abs(z) >= FAR)
    size = np.abs(z[far[:, 0], far[:, 1]])
    far = far[np.argsort(-size, kind="stable")]
    return Outliers(
        n_outliers=len(far),
        n_rows=len(rows),
        columns={names[j]: int(c) for j, c in zip(*np.unique(far[:, 1], return_counts=True), strict=True)},
        outliers=[
            Outlier(row=rows[i], column=names[j], value=values[i, j], median=middle[j], z=z[i, j])
            for i, j in far[:MOST_OUTLIERS]
        ],
    )


def _column_medians(values: Array) -> Array:
    """Medians of columns without their missing cells; NumPy's own are quick only where nothing is missing."""
    if not np.isnan(values).any():
        return np.asarray(np.median(values, axis=0))
    ordered = np.sort(values, axis=0)  # missing ones come last
    known = (~np.isnan(ordered)).sum(axis=0)
    at = np.arange(values.shape[1])
    low, high = np.maximum(known - 1, 0) // 2, np.minimum(known // 2, len(values) - 1)
    return np.asarray((ordered[low, at] + ordered[high, at]) / 2.0)


def align_views(prepared: Prepared) -> Alignments:
    """Centred alignment of the linear kernels of views, and of the target, on some rows.

    Parameters
    ----------
    prepared : Prepared

    Returns
    -------
    Alignments
        From 0 for views that say different things of these rows to 1 for those that say the same.
    """
    n_rows = len(prepared.y)
    rows: Positions = np.arange(n_rows)
    if n_rows > MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(n_rows, MOST_ROWS, replace=False))
    grams = {name: centred(_linear(part)) for name, part in list(_parts(prepared, rows).items())[:MOST_VIEWS]}
    grams = {name: K for name, K in grams.items() if K.any()}
    target = centred(target_kernel(prepared.y[rows], prepared.task))
    return Alignments(
        names=list(grams),
        values=[[min(1.0, max(0.0, alignment(K, L))) for L in grams.values()] for K in grams.values()],
        target=[alignment(K, target) for K in grams.values()],
        n_rows=len(rows),
    )


def _parts(prepared: Prepared, rows: Positions) -> dict[str, Any]:
    """The views of some rows, each as a frame, sparse rows or a kernel."""
    X = prepared.X.iloc[rows]
    if isinstance(X, Tables):
        return dict(X.views)
    return {view: X[names] for view, names in prepared.views.items()} or {TABLE: X}


def _linear(part: Any) -> Array:
    """The linear kernel of a view: standardised numbers, categories by indicators, missing cells by their mean."""
    if isinstance(part, PrecomputedView):
        return part.matrix[np.ix_(part.rows, part.rows)]
    if is_sparse(part):
        return np.asarray(to_dense(part @ part.T), dtype=np.float64)
    K = np.zeros((len(part), len(part)))
    codes = np.zeros((len(part), 0))
    if all(isinstance(kind, np.dtype) and kind.kind in "fiu" for kind in part.dtypes):
        A = part.to_numpy(dtype=np.float64)
    else:
        table = TableEncoder(missing=True).fit_transform(part)
        A = table.values[:, np.asarray(table.levels) == 0]
        if len(dates := np.flatnonzero(np.asarray(table.levels) == DATE)):
            A = np.c_[A, table.select(dates.tolist()).take()]
        codes = table.values[:, np.asarray(table.levels) > 0]
    known = ~np.isnan(A)
    with np.errstate(all="ignore"):
        mean = np.where(known, A, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        A = np.where(known, A - mean, 0.0)
        spread = np.sqrt((A**2).mean(axis=0))
        A = np.where(np.isfinite(A), A, 0.0) / np.where((spread > 0) & np.isfinite(spread), spread, 1.0)
    K += A @ A.T
    for column in codes.T:
        K += (column[:, None] == column) * 1.0
    return K


def centred(K: Array) -> Array:
    """A kernel with the mean of its features subtracted."""
    K = np.where(np.isfinite(K), K, 0.0)
    means = K.mean(axis=0)
    return np.asarray(K - means - means[:, None] + means.mean())


def target_kernel(y: Labels, task: str) -> Array:
    """The kernel of a target: products of standardised numbers, or whether two rows are of one class."""
    if task == SURVIVAL:
        # what is left of the events with the same risk for all
        strata = strata_of(y)
        targets = Cox.targets(y[:, 1].astype(float), events_of(y), strata)
        y = -Cox(stratified=strata is not None).gradient(targets, np.ones(len(y)), np.zeros(len(y)))
    if task != "classification" or np.ndim(y) == 2:
        values = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        values = values - values.mean(axis=0)
        values /= np.maximum(values.std(axis=0), np.finfo(float).tiny)
        return np.asarray(values @ values.T)
    codes = np.unique(np.asarray(y).astype(str), return_inverse=True)[1]
    return (codes[:, None] == codes) * 1.0


def alignment(K: Array, L: Array) -> float:
    """Alignment of two centred kernels; 0 for constant ones."""
    size = float(np.linalg.norm(K) * np.linalg.norm(L))
    return float((K * L).sum() / size) if size > 0 else 0.0


Answer = TypeVar("Answer")


def or_problem(look: Callable[[], Answer]) -> Answer | str:
    """What is seen, or why nothing can be."""
    try:
        return look()
    except InputError as error:
        return str(error)


Looked = TypeVar("Looked", bound="Looking")


def kept(method: Callable[[Looked, Data, Spec], Answer]) -> Callable[..., Answer]:
    """Keep the answer of a method as long as neither the files nor the settings change."""

    @wraps(method)
    def asked(self: Looked, data: Data, spec: Spec = DEFAULTS) -> Answer:
        question = method.__name__, spec.model_dump_json()
        return self.catalogue.answer(data, question, lambda: method(self, data, spec))

    return asked


class Looking:
    """Questions about tables; answers are kept as long as the files do not change."""

    catalogue: Catalogue

    def table(self, table_id: TableId) -> Table:
        """Size, types and missing values of a table."""
        name = self.catalogue.entry(table_id).ref.name
        return self._of_table(table_id, "table", lambda table: describe_table(table, table_id, name))

    def columns(
        self,
        table_id: TableId,
        start: Start = 0,
        number: Annotated[int, Field(ge=0, le=MOST_COLUMNS)] = 100,
        search: Annotated[str, Field(max_length=200)] = "",
        types: Mapping[str, str] | None = None,
    ) -> Columns:
        """Some columns of a table, of these types by their names in the table."""
        table = self.catalogue.read(table_id)
        names = [c for c in table.columns if search.lower() in c.lower()]
        chosen = names[start : start + min(number, MOST_COLUMNS)]
        known = set(chosen)
        asked = {name: kind for name, kind in (types or {}).items() if name in known}
        part = with_types(table[chosen], asked)
        return Columns(total=len(names), columns=[describe_column(part[name], name) for name in chosen])

    def rows(
        self,
        table_id: TableId,
        start: Start = 0,
        number: Annotated[int, Field(ge=0, le=500)] = 20,
        first_column: Start = 0,
        n_columns: Annotated[int, Field(ge=1, le=500)] = 50,
    ) -> Rows:
        """Some rows of a table as text."""
        table = self.catalogue.read(table_id)
        part = table[list(table.columns)[first_column : first_column + n_columns]].iloc[
            start : start + number
        ]
        return Rows(
            total=len(table),
            columns=list(part.columns),
            rows=[[cell(value) for value in row] for row in part.itertuples(index=False, name=None)],
        )

    def join(self, data: Data) -> Joining:
        """The result of joining tables."""
        import pandas as pd

        paths = self.catalogue.paths(data)
        tables = {name: self.catalogue.read_file(Path(p), Path(p).name) for name, p in paths.items()}
        ids = dict(zip(paths, dict.fromkeys(data.tables), strict=True))
        first = next(iter(tables.values()), pd.DataFrame())
        problem, joined = "", Joined(first)
        try:
            joined = self.catalogue.join(data)
        except InputError as error:
            problem = str(error)
        return Joining(
            n_rows=0 if problem else len(joined.table),
            columns=[c for c in joined.table.columns if c != joined.names],
            numeric=numeric_columns(joined.table),
            sides=[
                Side(
                    id=ids[name],
                    name=name,
                    n_rows=len(table),
                    n_missing=len(joined.missing.get(name, [])),
                    examples=[str(key) for key in joined.missing.get(name, [])[:5]],
                )
                for name, table in tables.items()
            ],
            views=joined.views,
            keys=[c for c in first.columns if all(c in table for table in tables.values())],
            problem=problem,
            further=_further(joined),
        )

    def target(self, data: Data, target: Targets, task: TaskName = "auto") -> Target:
        """The task that a target column implies, or several with commas between them."""
        return describe_target(self.catalogue.join(data).table, target, task)

    @kept
    def times(self, data: Data, spec: Spec = DEFAULTS) -> Times:
        """What the columns `time` and `event` hold."""
        joined, spec = self._joined(data, spec)
        table = with_types(joined.table, spec.types)
        outcome = outcome_columns(spec, list(table.columns))
        if {*outcome} <= {*table.columns}:
            table = rows_with(replace(joined, table=table), spec, outcome)
        return describe_times(table, spec)

    @kept
    def missing(self, data: Data, spec: Spec = DEFAULTS) -> Missing:
        """Missing cells of the columns to learn from, and what would fill them."""
        joined = self.catalogue.join(data, spec.rows)
        table = with_types(joined.table, spec.types)
        rows = (one.column for one in joined.grams.values())
        known = set(table.columns) - taken_columns(spec, list(table.columns), data.key, joined.names, *rows)
        views = spec.views if isinstance(spec.views, dict) else joined.views
        views = {view: [c for c in names if c in known] for view, names in views.items()}
        used = {c for names in views.values() for c in names} if isinstance(spec.views, dict) else known
        columns = [c for c in table.columns if c in known and c in used]
        return describe_missing(table, columns, views)

    def _joined(self, data: Data, spec: Spec) -> tuple[Joined, Spec]:
        """The tables side by side, and the settings with their key."""
        joined = self.catalogue.join(data, spec.rows)
        return joined, spec.model_copy(update={"key": data.key or spec.key})

    @kept
    def marked(self, data: Data, spec: Spec = DEFAULTS) -> Marked:
        """The rows that a column holds out."""
        joined, spec = self._joined(data, spec)
        need_column(joined.table, spec.holdout, "the held-out rows")
        table = with_types(rows_with(joined, spec, [spec.holdout]), spec.types)
        return describe_division(table[spec.holdout], spec.holdout_values)

    @kept
    def consequences(self, data: Data, spec: Spec = DEFAULTS) -> list[Consequence]:
        """What follows from these tables and settings, warnings first."""
        joined, keyed = self._joined(data, spec)
        target: Target | Times | str | None = None
        if spec.survival:
            target = or_problem(lambda: self.times(data, spec))
        elif spec.target:
            target = or_problem(lambda: self.target(data, spec.target, spec.task))
        marked: Marked | str | None = None
        if spec.holdout in joined.table.columns:
            marked = or_problem(lambda: self.marked(data, spec))
        files = {file: str(self.catalogue.entry(file).path()) for file in data.files}
        return consequences(joined, files, keyed, target, marked)

    def outliers(self, table_id: TableId) -> Outliers:
        """Numbers far from the median of their column."""
        return self._of_table(table_id, "outliers", find_outliers)

    def _of_table(self, table_id: TableId, question: str, look: Callable[[DataFrame], Answer]) -> Answer:
        return self.catalogue.answer(
            Data(tables=[table_id]), question, lambda: look(self.catalogue.read(table_id))
        )

    @kept
    def alignments(self, data: Data, spec: Spec = DEFAULTS) -> Alignments:
        """How alike the views of a run are, and how alike the target."""
        joined, spec = self._joined(data, spec)
        # missing cells are filled for the comparison, whatever a fit does about them
        return align_views(prepare(joined, spec.model_copy(update={"missing": "impute"})))


def _further(joined: Joined) -> list[Further]:
    """Views from files of their own."""
    found = [
        Further(
            name=name, use="sparse", file=_file(joined.files.get(name, "")), n_columns=rows.shape[1], by=""
        )
        for name, rows in joined.sparse.items()
    ]
    return found + [
        Further(name=name, use="kernels", file=_file(one.path), n_columns=one.view.shape[1], by=one.column)
        for name, one in joined.grams.items()
    ]


def _file(path: str) -> str:
    return Path(path.partition("#")[0]).name
