"""Reading tables: CSV, TSV (also compressed) and Parquet through pandas, and npz files of arrays."""

from __future__ import annotations

import bz2
import codecs
import csv
import difflib
import gzip
import lzma
import numbers
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

from kernelweave._errors import InputError
from kernelweave._forms import numbered
from kernelweave._types import DataFrame, Labels, Series
from kernelweave_app.runs.annotated_files import is_annotated_file, read_annotated
from kernelweave_app.runs.sparse_files import is_sparse_file, sparse_columns

CLASSES_AT_MOST = 10
#: Separators of text tables, the usual one first.
SEPARATORS = (",", ";", "\t")
#: Number of lines from which the format of a text table is inferred.
LOOKED_AT = 50
#: Exceptions raised by damaged archives.
BROKEN = (lzma.LZMAError, zlib.error)
#: Functions that unpack a text table, by the last suffix of its name.
UNPACKERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
#: A number with a decimal comma, one with a decimal point, and any of them.
_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")
_POINT = re.compile(r"\s*[+-]?\d*\.\d+([eE][+-]?\d+)?\s*")
_EITHER = r"\s*[+-]?\d*[.,]?\d+(?:[eE][+-]?\d+)?\s*"


def read_table(path: str | Path) -> DataFrame:
    """Read a table as a pandas DataFrame; every failure is an `InputError` of one line."""
    source = Path(path)
    if not source.exists():
        raise InputError(f"There is no file {source}.")
    if source.is_dir():
        raise InputError(
            f"{source} is a folder; a table file is needed (.csv, .tsv, also .gz, .parquet or .npz)."
        )
    try:
        if is_annotated_file(source):
            table = read_annotated(source).table
        elif is_sparse_file(source):
            table = sparse_columns(source)
        elif is_text(source):
            table = read_text(source)
        elif ".npz" in _suffixes(source):
            table = read_arrays(source)
        else:
            table = read_parquet(source)
    except (InputError, ModuleNotFoundError):
        raise
    except ImportError as error:
        raise InputError(f"{source} cannot be read: {str(error).strip()}") from error
    except (OSError, EOFError, ValueError, TypeError, csv.Error, zipfile.BadZipFile, *BROKEN) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(f"{source} cannot be read as a table: {reason.rstrip('.')}.") from error
    if table.shape[0] == 0 or table.shape[1] == 0:
        raise InputError(f"{source} holds no rows or no columns, got {table.shape[0]} x {table.shape[1]}.")
    table.columns = [str(c) for c in table.columns]
    if len(set(table.columns)) < len(table.columns):
        raise _same_name(source, list(table.columns))
    for name in _columns_of_objects(table, table.columns):
        column = table[name]
        if _are(column, numbers.Real | Decimal) and not _are(column, bool):
            # numbers beyond 64 bits, and decimals
            table[name] = column.astype(float)
    return table


def _columns_of_objects(table: DataFrame, names: Iterable[str]) -> list[str]:
    # asking each column for its type takes long where there are many
    found = {name for name, kind in zip(table.columns, table.dtypes, strict=True) if str(kind) == "object"}
    return [name for name in names if name in found]


def check_cells(table: DataFrame, names: list[str]) -> None:
    """Raise if cells of some columns are neither numbers nor text, such as the lists of a Parquet file."""
    for name in _columns_of_objects(table, names):
        if not _are(table[name], str | numbers.Real):
            kinds = sorted({type(cell).__name__ for cell in table[name]})
            raise InputError(
                f"Cells must be numbers or text, but column {name!r} holds {', '.join(kinds[:3])}. Leave it out, or "
                "convert it to columns of numbers or text."
            )


def _are(column: Series, kinds: Any) -> bool:
    import pandas as pd

    known = (cell for cell in column if not (pd.api.types.is_scalar(cell) and pd.isna(cell)))
    return all(isinstance(cell, kinds) for cell in known)


def is_text(path: str | Path) -> bool:
    """Whether a file is read as text: all files whose name does not end in Parquet or npz."""
    return _suffixes(Path(path)).isdisjoint(
        (".parquet", ".pq", ".npz", ".npy", ".h5ad")
    ) and not is_sparse_file(path)


def _same_name(source: Path, names: list[str]) -> InputError:
    again = [name for name, count in Counter(names).items() if count > 1]
    few = ", ".join(map(repr, again[:5])) + (", ..." if len(again) > 5 else "")
    return InputError(f"{source} has columns of the same name: {few}. Rename them.")


def text_encoding(start: bytes) -> str:
    """How a text table is encoded, by its first bytes: UTF-16, the Unicode text of spreadsheets, has a mark there.

    Examples
    --------
    >>> text_encoding("a,b".encode("utf-16")), text_encoding(b"a,b")
    ('utf-16', 'utf-8')
    """
    return "utf-16" if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"


def check_text(path: Path) -> str:
    """Return the encoding of a text table. Zeros in it, as after disk errors, are an error: pandas would ignore them.

    Parameters
    ----------
    path : Path

    Returns
    -------
    str
        "utf-8" or "utf-16".
    """
    place, encoding, decoder = 0, "", codecs.getincrementaldecoder("utf-16")()
    unpack: Any = UNPACKERS.get(path.suffix.lower(), open)
    with unpack(path, "rb") as file:
        while chunk := file.read(2**20):
            encoding = encoding or text_encoding(chunk)
            if encoding == "utf-16":
                if "\0" in decoder.decode(chunk):
                    raise InputError(
                        f"{path} is damaged: there is a zero among its characters. Copy it from its source again."
                    )
            elif (found := chunk.find(b"\0")) >= 0:
                raise InputError(
                    f"{path} is not text in UTF-8: byte {place + found} is zero, as in damaged files and in UTF-16 "
                    "without a mark at its beginning. Copy it from its source again, or save it as UTF-8."
                )
            place += len(chunk)
    if encoding == "utf-16":
        decoder.decode(b"", final=True)
    return encoding or "utf-8"


def read_parquet(path: Path) -> DataFrame:
    """A Parquet file, after a check of its checksums and statistics, if it has any."""
    import pandas as pd

    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError("Parquet files need pyarrow: pip install 'kernelweave[parquet]'.") from None
    table = pd.read_parquet(path, engine="pyarrow", page_checksum_verification=True)
    with pq.ParquetFile(path) as file:
        _check_ranges(path, table, file.metadata)
    return table


def _check_ranges(path: Path, table: DataFrame, about: Any) -> None:
    """Raise if numbers are outside the range that the file states."""
    ranges: dict[str, list[Any]] = {}
    for g in range(about.num_row_groups):
        for j in range(about.num_columns):
            chunk = about.row_group(g).column(j)
            noted = chunk.statistics if chunk.is_stats_set else None
            known: tuple[Any, Any] | None = None
            if noted is not None and noted.has_min_max and noted.logical_type.type in ("NONE", "INT"):
                known = (noted.min, noted.max)
            if chunk.physical_type not in ("INT32", "INT64", "FLOAT", "DOUBLE"):
                known = None
            ranges.setdefault(chunk.path_in_schema, []).append(known)
    for name, ends in ranges.items():
        if None in ends or name not in table.columns or table[name].dtype.kind not in "iuf":
            continue
        least, most = min(end[0] for end in ends), max(end[1] for end in ends)
        low, high = table[name].min(), table[name].max()
        # comparisons with NaN, where there are no numbers, are false
        if low < least or high > most:
            raise InputError(
                f"{path} is damaged: column {name!r} has numbers from {low:g} to {high:g}, but was written with "
                f"{least:g} to {most:g}. Copy it from its source again."
            )


def read_text(path: Path) -> DataFrame:
    """A text table whose separator is inferred from its first lines."""
    import pandas as pd

    options, header, first = look_at_text(path, check_text(path))
    surplus = len(first) - len(header)
    if surplus > 0:
        names = [name or f"Unnamed: {j}" for j, name in enumerate(header)]
        # no column has these names
        table = pd.read_csv(path, **options, header=0, names=[*names, *(f"\x01{k}" for k in range(surplus))])
        if table.iloc[:, len(header) :].notna().any(axis=None):
            raise InputError(
                f"{path} has rows with {len(first)} fields, but names for {len(header)} columns. Name every column, "
                "also one of row names, and put quotation marks around fields that contain the separator."
            )
        table = table.iloc[:, : len(header)]
    else:
        table = pd.read_csv(path, **options)
    while table.shape[1] and not header[table.shape[1] - 1 :][0] and table.iloc[:, -1].isna().all():
        # a separator at the end of every line
        table = table.iloc[:, :-1]
    if options.get("sep") == ";":
        _check_decimals(path, table)
    return table


def look_at_text(path: Path, encoding: str = "") -> tuple[dict[str, object], list[str], list[str]]:
    """Format of a text table.

    Parameters
    ----------
    path : Path
    encoding : str, default=""
        If it is known.

    Returns
    -------
    options : dict
        For `pandas.read_csv`.
    header, first : list of str
        Fields of the first two lines.
    """
    encoding = encoding or _encoding(path)
    lines = _first_lines(path, encoding)
    separator = find_separator(lines, usual="\t" if {".tsv", ".tab"} & _suffixes(path) else ",")
    records = csv.reader((f"{line}\n" for line in lines), delimiter=separator)
    header, first = next(records, []), next(records, [])
    named = [name for name in header if name]
    if len(set(named)) < len(named):
        raise _same_name(path, named)
    options: dict[str, Any] = {} if encoding == "utf-8" else {"encoding": encoding}
    if separator != ",":
        options["sep"] = separator
    if separator == ";" and _has_decimal_commas(records, first):
        options["decimal"] = ","
    if len(first) > len(header):
        # otherwise pandas would use the first field of a row as its name, and shift all others by a column
        options["index_col"] = False
    return options, header, first


def _suffixes(path: Path) -> set[str]:
    return {suffix.lower() for suffix in path.suffixes}


def _encoding(path: Path) -> str:
    unpack: Any = UNPACKERS.get(path.suffix.lower(), open)
    with unpack(path, "rb") as file:
        return text_encoding(file.read(4))


def _first_lines(path: Path, encoding: str) -> list[str]:
    """The first lines of a text table as pandas unpacks and decodes them, without empty ones."""
    import pandas as pd

    # tables do not contain this character, so that a line is one field
    lines = pd.read_csv(
        path, sep="\x01", header=None, nrows=LOOKED_AT, dtype=str, na_filter=False, quoting=csv.QUOTE_NONE,
        encoding=encoding,
    )  # fmt: skip
    return list(map(str, lines[0]))


def find_separator(lines: list[str], usual: str = ",") -> str:
    """The separator of a text table.

    Parameters
    ----------
    lines : list of str
        The header and some rows.
    usual : str, default=","
        Used if the lines leave a choice.

    Returns
    -------
    str
        Of those in the header the one that occurs as often in the rows, or else the most frequent one.
    """
    counts = {s: [_outside_quotes(line).count(s) for line in lines] for s in SEPARATORS}
    found = [s for s in SEPARATORS if counts[s] and counts[s][0]]
    if len(found) < 2:
        return found[0] if found else usual
    # a separator at the end of the lines, or row names, make one more
    steady = [s for s in found if all(0 <= count - counts[s][0] <= 1 for count in counts[s])]
    return max(steady or found, key=lambda s: (counts[s][0], s == usual, -SEPARATORS.index(s)))


def _outside_quotes(line: str) -> str:
    return re.sub(r'"[^"]*"', "", line)


def _has_decimal_commas(records: Iterable[list[str]], first: list[str]) -> bool:
    fields = [field for record in (first, *records) for field in record]
    return any(_COMMA.fullmatch(field) for field in fields) and not any(map(_POINT.fullmatch, fields))


def _check_decimals(path: Path, table: DataFrame) -> None:
    """Raise if numbers were read as text because commas and points are mixed: they would become categories."""
    for name, kind in zip(table.columns, table.dtypes, strict=True):
        if getattr(kind, "kind", "O") in "fiub":
            continue
        known = table[name].dropna().astype(str)
        if len(known) and known.str.fullmatch(_EITHER).all() and known.str.contains("[.,]").any():
            raise InputError(
                f"{path}: column {name!r} holds numbers with decimal commas, but the file has decimal points too. "
                "Write all numbers alike."
            )


def read_arrays(path: Path) -> DataFrame:
    """Arrays of one length as a table: one column for a vector, ``name.0``, ``name.1``, ... for a matrix."""
    import numpy as np
    import pandas as pd

    columns: dict[str, Any] = {}
    with np.load(path, allow_pickle=False) as arrays:
        for name in arrays.files:
            values = arrays[name]
            if values.dtype.kind not in "biufUSmMc":
                raise InputError(f"{path}: array {name!r} holds {values.dtype}, neither numbers nor text.")
            if values.dtype.kind == "S":
                values = values.astype(str)
            if values.ndim not in (1, 2):
                raise InputError(
                    f"{path}: array {name!r} has {values.ndim} dimensions; a table is made of vectors and matrices."
                )
            new = (
                {name: values}
                if values.ndim == 1
                else {f"{name}.{j}": column for j, column in enumerate(values.T)}
            )
            if not columns.keys().isdisjoint(new):
                raise _same_name(path, [*columns, *new])
            columns |= new
    if len({len(column) for column in columns.values()}) > 1:
        raise InputError(f"{path}: all arrays need one entry for each row, but their lengths differ.")
    return pd.DataFrame(columns)


def need_column(table: DataFrame, name: str, what: str) -> Series:
    """Return a column by name; unknown names get the closest ones."""
    if name in table.columns:
        return table[name]
    close = difflib.get_close_matches(name, list(table.columns), n=3)
    hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
    listing = ", ".join(map(repr, list(table.columns)[:12])) + (", ..." if table.shape[1] > 12 else "")
    raise InputError(f"There is no column {name!r} for {what}.{hint} Columns: {listing}.")


def detect_task(target: Series, task: str) -> tuple[str, str]:
    """Return the task and the reason for it."""
    import pandas as pd

    if target.dtype.kind in "mMc":
        raise InputError(
            f"Column {target.name!r} holds {target.dtype}, but a target must be numbers or classes. Convert it, for "
            "example to days since a reference date."
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


def check_target(target: Series, task: str) -> Labels:
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


def describe(table: DataFrame) -> str:
    """One line about rows, columns and types."""
    import pandas as pd

    numeric = sum(
        pd.api.types.is_numeric_dtype(table[c]) and not pd.api.types.is_bool_dtype(table[c]) for c in table
    )
    others = table.shape[1] - numeric
    rows, columns = numbered(table.shape[0], "row"), numbered(table.shape[1], "column")
    return f"{rows}, {columns} ({numeric} numeric, {others} categorical)"
