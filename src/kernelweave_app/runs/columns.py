"""Columns of a table: found by name, their types and cells, and the columns of the target."""

from __future__ import annotations

import datetime
import numbers
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from kernelweave._errors import InputError, check_known, meant
from kernelweave._forms import names_in, numbered
from kernelweave._types import DataFrame, Labels, Series
from kernelweave_app.runs.folders import read_kept

#: Distinct whole numbers that are taken for classes.
CLASSES_AT_MOST = 10
#: Types of columns by name.
ColumnType = Literal["number", "category", "text", "date"]
TYPES: tuple[ColumnType, ...] = get_args(ColumnType)
#: Ways in which text tables write dates so that day and month cannot be mixed up: the look of every cell, and the
#: format by which pandas reads it.
DATES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?"), "ISO8601"),
    *(
        (re.compile(look + time), form + end)
        for look, form in (
            (r"\d{4}/\d\d?/\d\d?", "%Y/%m/%d"),
            (r"\d\d?\.\d\d?\.\d{4}", "%d.%m.%Y"),
            (r"\d\d? [A-Za-z]{3} \d{4}", "%d %b %Y"),
            (r"\d\d?-[A-Za-z]{3}-\d{4}", "%d-%b-%Y"),
            (r"\d\d? [A-Za-z]{3,} \d{4}", "%d %B %Y"),
            (r"[A-Za-z]{3} \d\d?, \d{4}", "%b %d, %Y"),
            (r"[A-Za-z]{3,} \d\d?, \d{4}", "%B %d, %Y"),
        )
        for time, end in (("", ""), (r" \d\d?:\d\d", " %H:%M"), (r" \d\d?:\d\d:\d\d", " %H:%M:%S"))
    ),
)
#: Cells that are looked at first.
FIRST_CELLS = 20
#: Values of columns of labels, as lower-case text.
YES, NO = ("1", "1.0", "true", "yes"), ("0", "0.0", "false", "no")


def need_column(table: DataFrame, name: str, what: str) -> Series:
    """Return a column by name; unknown names get the closest ones."""
    if name in table.columns:
        return table[name]
    raise no_column(name, what, list(table.columns))


def no_column(name: str, what: str, columns: list[str]) -> InputError:
    """The error about a column that is not among these."""
    listing = ", ".join(map(repr, columns[:12])) + (", ..." if len(columns) > 12 else "")
    return InputError(
        f"There is no column {name!r} for {what}.{meant(name, columns, n=3)} Columns: {listing}."
    )


def describe(table: DataFrame) -> str:
    """One line about rows, columns and types."""
    numeric = table.select_dtypes("number", exclude="timedelta").shape[1]
    # asking each column takes long where there are many
    dated = table.select_dtypes(["datetime", "datetimetz"]).shape[1]
    texts = table.select_dtypes(exclude=["number", "bool", "datetime", "datetimetz", "timedelta", "category"])
    dated += sum(bool(date_format(texts[name])) for name in texts)
    others = table.shape[1] - numeric - dated
    rows, columns = numbered(table.shape[0], "row"), numbered(table.shape[1], "column")
    said = f", {numbered(dated, 'date')}" if dated else ""
    return f"{rows}, {columns} ({numeric} numeric, {others} categorical{said})"


# ---- cells ------------------------------------------------------------------------------------------


def columns_of_objects(table: DataFrame, names: Iterable[str]) -> list[str]:
    """Columns of Python objects, such as text."""
    # asking each column for its type takes long where there are many
    found = {name for name, kind in zip(table.columns, table.dtypes, strict=True) if str(kind) == "object"}
    return [name for name in names if name in found]


def hold_only(column: Series, kinds: Any) -> bool:
    """Whether all cells that are not missing are of some kinds."""
    import pandas as pd

    known = (cell for cell in column if not (pd.api.types.is_scalar(cell) and pd.isna(cell)))
    return all(isinstance(cell, kinds) for cell in known)


#: Types of cells that are dates or durations.
TIMES = (datetime.date, datetime.timedelta)


def check_cells(table: DataFrame, names: list[str]) -> None:
    """Raise if cells of some columns are neither numbers nor text, such as the lists of a Parquet file."""
    for name in columns_of_objects(table, names):
        if not (hold_only(table[name], str | numbers.Real) or hold_only(table[name], TIMES)):
            kinds = sorted({type(cell).__name__ for cell in table[name]})
            raise InputError(
                f"Cells must be numbers, text or dates, but column {name!r} holds {', '.join(kinds[:3])}. Leave it "
                "out, or convert it to columns of numbers or text."
            )


# ---- dates ------------------------------------------------------------------------------------------


def date_format(column: Series) -> str:
    """The format by which pandas reads a column of texts as dates; empty where it holds anything else.

    Parameters
    ----------
    column : Series
        Its cells must all be dates of one format or missing, and day and month must not be ambiguous.

    Returns
    -------
    str
        "ISO8601", or a format such as "%d.%m.%Y".

    Examples
    --------
    >>> import pandas as pd
    >>> date_format(pd.Series(["2024-01-31", None])), date_format(pd.Series(["31.1.2024"]))
    ('ISO8601', '%d.%m.%Y')
    >>> date_format(pd.Series(["01/02/2024"])), date_format(pd.Series(["2024-01-31", "unknown"]))
    ('', '')
    """
    import pandas as pd

    kinds = pd.api.types
    if (
        not (kinds.is_object_dtype(column) or kinds.is_string_dtype(column))
        or str(column.dtype) == "category"
    ):
        return ""
    known = column.dropna()
    for form in (form for look, form in DATES if _looks(known.iloc[:FIRST_CELLS], look)):
        look = next(look for look, own in DATES if own == form)
        if _looks(known, look) and _parsed(known, form) is not None:
            return form
    return ""


def _looks(cells: Iterable[object], look: re.Pattern[str]) -> bool:
    """Whether all cells are plain texts of a look; columns that were declared texts are no dates."""
    found = [type(cell) is str and look.fullmatch(cell.strip()) is not None for cell in cells]
    return bool(found) and all(found)


def _parsed(column: Series, form: str) -> Series | None:
    """A column of texts as dates; None if pandas cannot read it so."""
    import pandas as pd

    texts = column.str.strip()
    for utc in (False, True):
        # several offsets, as of summer and winter, become UTC
        try:
            found = pd.to_datetime(texts, format=form, utc=utc)
        except (ValueError, OverflowError):
            continue
        if found.dtype.kind == "M":
            return found
    return None


def with_dates(table: DataFrame, names: Iterable[str], *, known: Collection[str] = ()) -> DataFrame:
    """A table whose columns of texts are dates where all cells are.

    Parameters
    ----------
    table : DataFrame
        It is not changed.
    names : iterable of str
        Columns that are looked at.
    known : collection of str, default=()
        Columns that must be dates, as they were when a model was fitted.

    Returns
    -------
    DataFrame

    Raises
    ------
    InputError
        For a cell of a column in `known` that is no date.
    """
    changed = {}
    for name in names:
        column = table[name]
        form = date_format(column)
        if form:
            changed[name] = _parsed(column, form)
        elif name in known:
            check_dates(column)
    return table.assign(**changed) if changed else table


def check_dates(column: Series) -> None:
    """Raise if a column holds a cell that is no date."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column):
        return
    wrong = [cell for cell in column.dropna() if not isinstance(cell, datetime.date)]
    if wrong:
        raise InputError(
            f"Column {column.name!r} must hold dates, got {wrong[0]!r:.40}. Write all of them like 2024-01-31."
        )


def date_lines(table: DataFrame, names: Iterable[str]) -> list[str]:
    """Lines of a script that make dates of columns, as `with_dates` does."""
    found = []
    for name in names:
        if form := date_format(table[name]):
            parsed = _parsed(table[name], form)
            utc = ", utc=True" if parsed is not None and str(getattr(parsed.dt, "tz", None)) == "UTC" else ""
            found.append(
                f"table[{name!r}] = pd.to_datetime(table[{name!r}].str.strip(), format={form!r}{utc})"
            )
    return found


# ---- types ------------------------------------------------------------------------------------------


def read_types(asked: str | Mapping[str, str]) -> dict[str, str]:
    """Types of columns by name, from a text such as "site=category,dose=number".

    Examples
    --------
    >>> read_types("site=category, dose=number")
    {'site': 'category', 'dose': 'number'}
    """
    if not isinstance(asked, str):
        return dict(asked)
    found = {}
    for part in names_in(asked):
        name, separator, kind = (text.strip() for text in part.rpartition("="))
        if not separator or not name:
            raise InputError(f"Setting `types` must be like 'site=category,dose=number', got {part!r:.60}.")
        found[name] = check_known(kind, TYPES, "type")
    return found


def types_of_run(folder: Path) -> dict[str, str]:
    """The types that the run in a folder gave its columns; none where it left no settings."""
    return read_kept(folder / "spec.toml", lambda text: read_types(tomllib.loads(text).get("types", "")), {})


def with_types(table: DataFrame, asked: str | Mapping[str, str], *, new: bool = False) -> DataFrame:
    """A table with some columns as numbers, categories, texts or dates.

    Parameters
    ----------
    table : DataFrame
        It is not changed.
    asked : str or mapping of str to str
        The setting `types`.
    new : bool, default=False
        Whether these are new rows of a run, which may lack columns and numbers.

    Returns
    -------
    DataFrame

    Raises
    ------
    InputError
        For unknown columns and types, columns without any number that are to be numbers, and cells that are no dates
        in columns that are to be.
    """
    import pandas as pd

    from kernelweave.views import as_texts

    changed = {}
    for name, kind in read_types(asked).items():
        if new and name not in table.columns:
            continue
        column = need_column(table, name, "`types`")
        if kind == "category":
            changed[name] = column.astype("category")
        elif kind == "text":
            changed[name] = as_texts(column)
        elif kind == "date":
            changed[name] = with_dates(table, [name], known=[name])[name]
        else:
            changed[name] = pd.to_numeric(column, errors="coerce")
            if not new and not changed[name].notna().any():
                raise InputError(
                    f"Column {name!r} holds no number, such as {column.iloc[0]!r:.40}. Leave its type as it is."
                )
    return table.assign(**changed) if changed else table


def type_lines(asked: str | Mapping[str, str]) -> list[str]:
    """Lines of a script that give columns of a table these types."""
    made = {
        "category": "table[{name!r}].astype('category')",
        "text": "kw.views.as_texts(table[{name!r}])",
        "number": "pd.to_numeric(table[{name!r}], errors='coerce')",
    }
    return [
        f"table[{name!r}] = {made[kind].format(name=name)}"
        for name, kind in read_types(asked).items()
        if kind in made  # dates are made of all columns that hold some
    ]


# ---- the target -------------------------------------------------------------------------------------


def names_of_target(target: str, columns: Sequence[str]) -> list[str]:
    """Columns named by a setting or an option, with commas between them; names may themselves hold commas.

    Parameters
    ----------
    target : str
    columns : sequence of str
        Of the table: of several readings the one with the longest known names counts.
    """
    if not target.strip() or target in columns:
        return [target] if target.strip() else []
    known, parts = set(columns), target.split(",")
    names: list[str] = []
    while parts:
        ends = (end for end in range(len(parts), 0, -1) if ",".join(parts[:end]).strip() in known)
        end = next(ends, 1)
        names.append(",".join(parts[:end]).strip())
        parts = parts[end:]
    names = [name for name in names if name]
    again = [name for k, name in enumerate(names) if name in names[:k]]
    if again:
        raise InputError(f"The target has the column {again[0]!r} twice. Name every column once.")
    return names


def need_target(table: DataFrame, target: str) -> list[str]:
    """The columns of the target, one or several, all of them in the table."""
    names = names_of_target(target, list(map(str, table.columns)))
    if not names:
        raise InputError(
            "Which column is the target? Name the column to predict as `target`, several of labels with commas "
            "between them."
        )
    for name in names:
        need_column(table, name, "the target")
    return names


def detect_task(target: Series, task: str) -> tuple[str, str]:
    """Return the task and the reason for it."""
    import pandas as pd

    known = target.dropna()
    held = target.dtype == object and len(known) > 0 and hold_only(known, datetime.date)
    dates = "dates" if held or date_format(target) else ""
    if dates or target.dtype.kind in "mMc":
        raise InputError(
            f"Column {target.name!r} holds {dates or target.dtype}, but a target must be numbers or classes. "
            "Convert it, for example to days since a reference date."
        )
    if task != "auto":
        return task, "as asked"
    distinct = target.nunique()
    if not pd.api.types.is_numeric_dtype(target) or pd.api.types.is_bool_dtype(target):
        return "classification", f"the target is not numeric ({distinct} classes)"
    whole = (target.dropna() % 1 == 0).all()
    if whole and distinct <= CLASSES_AT_MOST:
        return "classification", f"the target has {distinct} distinct whole numbers"
    return "regression", f"the target is numeric with {distinct} distinct values"


def check_target(target: Series, task: str, *, varies: bool = True) -> Labels:
    """Return the target as an array, without missing values; with `varies`, numbers must not all be equal."""
    import numpy as np
    import pandas as pd

    missing = int(target.isna().sum())
    if missing:
        raise InputError(
            f"Column {target.name!r} has {missing} missing values (NaN); a target must be known. Drop these rows."
        )
    if task != "regression":
        return target.to_numpy(dtype=object if not pd.api.types.is_numeric_dtype(target) else None)
    if not pd.api.types.is_numeric_dtype(target):
        raise InputError(f"Column {target.name!r} holds text, but regression needs numbers.")
    values = target.to_numpy(dtype=float)
    if varies and np.ptp(values) == 0:
        raise InputError(f"Column {target.name!r} is constant ({values[0]:g}): there is nothing to learn.")
    return values


def read_target(table: DataFrame, names: list[str], task: str) -> tuple[Any, str, str]:
    """One column, or several of labels or of numbers.

    Parameters
    ----------
    table : DataFrame
    names : list of str
    task : {"auto", "regression", "classification"}
        With several columns, "auto" is labels where any column holds such.

    Returns
    -------
    y : array of shape (n_rows,) or (n_rows, n_targets)
        Of several columns 0 and 1, or numbers.
    task : {"regression", "classification"}
    reason : str

    Raises
    ------
    InputError
        Missing cells, columns of classes that are no labels, and columns of one value.
    """
    import numpy as np

    if len(names) == 1:
        found, reason = detect_task(table[names[0]], task)
        y = check_target(table[names[0]], found)
        if found == "classification" and len(set(y.tolist())) < 2:
            raise InputError(
                f"Column {names[0]!r} holds one class only, {y.tolist()[0]!r}: there is nothing to learn. Choose "
                "another target."
            )
        return y, found, reason
    kinds = {detect_task(table[name], task)[0] for name in names}
    labels = task == "classification" or kinds != {"regression"}
    if task == "auto" and not labels:
        labels = any(_as_text(table[name].dropna()).isin((*YES, *NO)).all() for name in names)
    what = "labels" if labels else "numbers"
    reason = "as asked" if task != "auto" else f"the target is {len(names)} columns of {what}"
    if not labels:
        return (
            np.column_stack([check_target(table[name], "regression") for name in names]),
            "regression",
            reason,
        )
    y = np.column_stack([read_labels(table[name]) for name in names])
    for name, column in zip(names, y.T, strict=True):
        if column.min() == column.max():
            raise InputError(
                f"Column {name!r} says the same of every row, {table[name].tolist()[0]!r}: there is nothing to learn. "
                "Leave it out of the target."
            )
    return y, "classification", reason


def _as_text(column: Series) -> Series:
    return column.astype(str).str.strip().str.lower()


def read_labels(column: Series) -> Labels:
    """A column of yes and no as 1 and 0."""
    import numpy as np

    check_target(column, "classification")
    text = _as_text(column)
    wrong = ~text.isin((*YES, *NO)).to_numpy()
    if wrong.any():
        k = int(np.argmax(wrong))
        raise InputError(
            "Several targets are labels, columns of 0 and 1, no and yes, or false and true, but column "
            f"{column.name!r} holds {column.tolist()[k]!r} in row {column.index[k]}. Make a column of it for every "
            "class, or choose one target; columns of numbers are learnt with --task regression."
        )
    return text.isin(YES).to_numpy().astype(np.int64)


def target_lines(names: list[str], *, classification: bool) -> list[str]:
    """Lines of a script that make y of the columns of a table: an array of one, a frame of several."""
    if len(names) == 1:
        return [f"y = table[{names[0]!r}].to_numpy({'' if classification else 'dtype=float'})"]
    if not classification:
        return [f"y = table[{names!r}].astype(float)"]
    return [
        f"said = table[{names!r}].apply(lambda column: column.astype(str).str.strip().str.lower())",
        f"y = said.isin({YES!r}).astype(int)",
    ]


def target_of_model(
    table: DataFrame, target: str, names: Sequence[str], task: str
) -> tuple[Any, dict[str, str]]:
    """Columns with the truth for a model of several targets, in the model's order.

    Parameters
    ----------
    table : DataFrame
    target : str
        The names of the model's targets in any order, or other columns in the model's order.
    names : sequence of str
        Targets of the model.
    task : {"regression", "classification"}

    Returns
    -------
    y : array of shape (n_rows, n_targets)
    stands_for : dict of str to str
        For each target of the model the column, if names differ.
    """
    import numpy as np

    columns = need_target(table, target)
    if set(columns) == set(names):
        columns = list(names)
    elif len(columns) != len(names) or set(columns) & set(names):
        raise InputError(
            f"The model has the targets {', '.join(map(repr, names))}, got {', '.join(map(repr, columns))}. Name all "
            "of them, or as many other columns in this order."
        )
    read = [
        read_labels(table[column])
        if task == "classification"
        else check_target(table[column], task, varies=False)
        for column in columns
    ]
    return np.column_stack(read), {} if columns == list(names) else dict(zip(names, columns, strict=True))
