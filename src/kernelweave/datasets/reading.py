"""Tables of text as in their files, and a checksum of their content."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelweave._errors import InputError


@dataclass(frozen=True)
class RawTable:
    """Cells as text; the last column is the target, missing cells are empty.

    Attributes
    ----------
    columns : tuple of str
        Features in their original order, then ``target``.
    rows : list of list of str
    """

    columns: tuple[str, ...]
    rows: list[list[str]]

    def column(self, name: str) -> list[str]:
        """Cells of one column."""
        j = self.columns.index(name)
        return [row[j] for row in self.rows]

    def numbers(self, name: str) -> list[float]:
        """Cells of one column as numbers, NaN where missing."""
        return [float(cell) if cell else float("nan") for cell in self.column(name)]


def read_bytes(path: Path) -> bytes:
    """Content of a file, unpacked if its name ends in .gz."""
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"Cannot read {path.name}: {reason}. Check the file, or fetch it again.") from None


def read_table(content: bytes, name: str) -> RawTable:
    """Read comma-separated text with a header line whose last column is ``target``."""
    try:
        lines = [row for row in csv.reader(io.StringIO(content.decode("utf-8"), newline="")) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{name} must be comma-separated text in UTF-8: {error}.") from None
    if len(lines) < 2 or lines[0][-1] != "target":
        raise InputError(
            f"{name} must have a header line whose last column is 'target', and rows below it, got "
            f"{len(lines)} lines{f' and the last column {lines[0][-1]!r}' if lines else ''}."
        )
    width = len(lines[0])
    for number, row in enumerate(lines[1:], start=2):
        if len(row) != width:
            raise InputError(f"Line {number} of {name} must have {width} cells, got {len(row)}.")
    rows = [[cell.strip() for cell in row] for row in lines[1:]]
    return RawTable(tuple(lines[0]), rows)


def read_delimited(content: bytes, name: str, layout: Layout, columns: Sequence[str]) -> RawTable:
    """Read a file in the layout in which a public site publishes it."""
    text = content.decode("latin-1")
    if layout.sparse:
        rows = _sparse_rows(text, len(columns) - 1)
    elif layout.separator == " ":
        rows = [re.findall(r'"[^"]*"|\S+', line) for line in text.splitlines()]
    else:
        rows = [
            [cell.strip() for cell in row]
            for row in csv.reader(io.StringIO(text), delimiter=layout.separator)
        ]
    rows = [row for row in rows[layout.skip :] if row]
    order = layout.order or tuple(columns)
    for row in rows:
        if len(row) != len(order):
            raise InputError(
                f"{name} has a row of {len(row)} cells where the published layout has {len(order)}. It may be cut "
                "off, or have changed."
            )
    places = [order.index(column) for column in columns]
    recode = dict(layout.recode)
    table = []
    for row in rows:
        cells = ["" if row[j] in layout.missing else row[j] for j in places]
        cells[-1] = recode.get(cells[-1], cells[-1])
        table.append(cells)
    return RawTable(tuple(columns), table)


def _sparse_rows(text: str, width: int) -> list[list[str]]:
    rows = []
    for line in text.splitlines():
        label, *entries = line.split()
        row = ["0"] * width
        for entry in entries:
            index, _, value = entry.partition(":")
            row[int(index) - 1] = value
        rows.append([*row, label.removeprefix("+")])
    return rows


@dataclass(frozen=True)
class Layout:
    """Layout of a published file.

    Attributes
    ----------
    separator : str
        One character; a space stands for any white space.
    order : tuple of str
        Columns in the order of the file, including ``target``; columns that are not of the data set are left out.
        Empty: the features, then the target.
    missing : tuple of str
        Marks of missing cells.
    recode : tuple of pairs
        Labels of the file and ours.
    skip : int
        Header lines.
    sparse : bool
        LIBSVM's format ``label index:value ...``, which omits zeros.
    """

    separator: str = ","
    order: tuple[str, ...] = ()
    missing: tuple[str, ...] = ("?",)
    recode: tuple[tuple[str, str], ...] = ()
    skip: int = 0
    sparse: bool = False


def content_checksum(table: RawTable) -> str:
    """SHA-256 of the content of a table: numbers by value, text verbatim, rows in any order."""
    known: dict[str, str] = {}
    lines = sorted(
        ",".join(known.get(c) or known.setdefault(c, _canonical(c)) for c in row) for row in table.rows
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _canonical(cell: str) -> str:
    try:
        return repr(float(cell) + 0.0)
    except ValueError:
        return cell
