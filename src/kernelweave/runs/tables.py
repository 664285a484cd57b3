"""Reading tables: CSV, TSV (also compressed) and Parquet through pandas, and npz files of arrays."""

from __future__ import annotations

import difflib
import zipfile
from pathlib import Path
from typing import Any

from kernelweave._errors import InputError

CLASSES_AT_MOST = 10


def read_table(path: str | Path) -> Any:
    """Read a table as a pandas DataFrame; every failure is an `InputError` of one line."""
    import pandas as pd

    source = Path(path)
    if not source.exists():
        raise InputError(f"There is no file {source}.")
    if source.is_dir():
        raise InputError(
            f"{source} is a folder; a table file is needed (.csv, .tsv, also .gz, .parquet or .npz)."
        )
    kind = [suffix.lower() for suffix in source.suffixes]
    try:
        if ".parquet" in kind or ".pq" in kind:
            table = pd.read_parquet(source)
        elif ".npz" in kind:
            table = read_arrays(source)
        else:
            tabs = ".tsv" in kind or ".tab" in kind
            table = pd.read_csv(source, sep="\t" if tabs else ",")
    except ImportError as error:
        raise InputError("Parquet files need pyarrow: pip install 'kernelweave[parquet]'.") from error
    except InputError:
        raise
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(f"{source} cannot be read as a table: {reason}.") from error
    if table.shape[0] == 0 or table.shape[1] == 0:
        raise InputError(f"{source} holds no rows or no columns, got {table.shape[0]} x {table.shape[1]}.")
    table.columns = [str(c) for c in table.columns]
    if len(set(table.columns)) < len(table.columns):
        raise InputError(f"{source} has columns of the same name. Rename them.")
    return table


def read_arrays(path: Path) -> Any:
    """Arrays of one length as a table: one column for a vector, ``name.0``, ``name.1``, ... for a matrix."""
    import numpy as np
    import pandas as pd

    columns: dict[str, Any] = {}
    with np.load(path, allow_pickle=False) as arrays:
        for name in arrays.files:
            values = arrays[name]
            if values.ndim not in (1, 2):
                raise InputError(
                    f"{path}: array {name!r} has {values.ndim} dimensions; a table is made of vectors and matrices."
                )
            if values.ndim == 1:
                columns[name] = values
            else:
                columns |= {f"{name}.{j}": column for j, column in enumerate(values.T)}
    if len({len(column) for column in columns.values()}) > 1:
        raise InputError(f"{path}: all arrays need one entry for each row, but their lengths differ.")
    return pd.DataFrame(columns)


def need_column(table: Any, name: str, what: str) -> Any:
    """Return a column by name; unknown names get the closest ones."""
    if name in table.columns:
        return table[name]
    close = difflib.get_close_matches(name, list(table.columns), n=3)
    hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
    listing = ", ".join(map(repr, list(table.columns)[:12])) + (", ..." if table.shape[1] > 12 else "")
    raise InputError(f"There is no column {name!r} for {what}.{hint} Columns: {listing}.")


def detect_task(target: Any, task: str) -> tuple[str, str]:
    """Return the task and the reason for it."""
    import pandas as pd

    if task != "auto":
        return task, "as asked"
    distinct = target.nunique()
    if not pd.api.types.is_numeric_dtype(target) or pd.api.types.is_bool_dtype(target):
        return "classification", f"the target is not numeric ({distinct} classes)"
    whole = (target.dropna() % 1 == 0).all()
    if whole and distinct <= CLASSES_AT_MOST:
        return "classification", f"the target has {distinct} distinct whole numbers"
    return "regression", f"the target is numeric with {distinct} distinct values"


def check_target(target: Any, task: str) -> Any:
    """Return the target as an array after checking for missing values."""
    import numpy as np
    import pandas as pd

    missing = int(target.isna().sum())
    if missing:
        raise InputError(
            f"Column {target.name!r} has {missing} missing values (NaN); a target must be known. Drop these rows."
        )
    if task == "regression":
        if not pd.api.types.is_numeric_dtype(target):
            raise InputError(f"Column {target.name!r} holds text, but regression needs numbers.")
        values = target.to_numpy(dtype=float)
        if np.ptp(values) == 0:
            raise InputError(
                f"Column {target.name!r} is constant ({values[0]:g}): there is nothing to learn."
            )
        return values
    return target.to_numpy(dtype=object if not pd.api.types.is_numeric_dtype(target) else None)


def describe(table: Any) -> str:
    """One line about rows, columns and types."""
    import pandas as pd

    numeric = sum(
        pd.api.types.is_numeric_dtype(table[c]) and not pd.api.types.is_bool_dtype(table[c]) for c in table
    )
    others = table.shape[1] - numeric
    return f"{table.shape[0]} rows, {table.shape[1]} columns ({numeric} numeric, {others} categorical)"
