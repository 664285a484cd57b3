"""Text tables: CSV and TSV, also compressed, whose separator and decimal mark are told from their first lines."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import lzma
import re
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from kernelweave._errors import InputError
from kernelweave._types import DataFrame
from kernelweave_app.runs.formats import CHUNK, FileLimits, Format, same_name
from kernelweave_app.runs.joining import Joined

#: Separators of text tables, the usual one first.
SEPARATORS = (",", ";", "\t", "|")
#: Number of lines from which the format of a text table is inferred.
LOOKED_AT = 50
#: Functions that unpack a text table, by the last suffix of its name.
UNPACKERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
#: A number with a decimal comma, one with a decimal point, one whose comma may be between thousands, and any of them.
_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")
_POINT = re.compile(r"\s*[+-]?\d*\.\d+([eE][+-]?\d+)?\s*")
_THOUSANDS = re.compile(r"\s*[+-]?\d{1,3},\d{3}\s*")
_EITHER = r"\s*[+-]?\d*[.,]?\d+(?:[eE][+-]?\d+)?\s*"


#: Bytes that do not occur in text tables, and soon occur in pickles, archives and programs.
BINARY = frozenset(range(32)) - {9, 10, 13, 12}
_CONTROL = re.compile(f"[{re.escape(''.join(map(chr, sorted(BINARY))))}]")


class Text(Format):
    """Lines of fields; every file of another name is read so too."""

    name = "csv"
    suffixes = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".tab")
    in_chunks = True

    def __init__(self, texts: Collection[str] = ()) -> None:
        self.texts = texts

    def with_texts(self, names: Collection[str]) -> Text:
        """Types of columns are told from their cells, and those of fewer rows may look like others."""
        return Text(names)

    def kind(self, name: str) -> str:
        """Whether fields are separated by commas or tabs."""
        return "tsv" if name.lower().removesuffix(".gz").endswith((".tsv", ".tab")) else "csv"

    def table(self, path: Path) -> DataFrame:
        """The table, whose separator is inferred from its first lines."""
        import pandas as pd

        options, header, first = look_at_text(path, check_text(path))
        if self.texts:
            options["dtype"] = dict.fromkeys(self.texts, str)
        surplus = len(first) - len(header)
        if surplus > 0:
            names = [name or f"Unnamed: {j}" for j, name in enumerate(header)]
            # no column has these names
            table = pd.read_csv(
                path, **options, header=0, names=[*names, *(f"\x01{k}" for k in range(surplus))]
            )
            if table.iloc[:, len(header) :].notna().any(axis=None):
                raise InputError(
                    f"{path} has rows with {len(first)} fields, but names for {len(header)} columns. Name every "
                    "column, also one of row names, and put quotation marks around fields that contain the separator."
                )
            table = table.iloc[:, : len(header)]
        else:
            table = pd.read_csv(path, **options)
        while table.shape[1] and not header[table.shape[1] - 1 :][0] and table.iloc[:, -1].isna().all():
            # a separator at the end of every line
            table = table.iloc[:, :-1]
        if options.get("sep") == ";" or "decimal" in options:
            _check_decimals(path, table.drop(columns=list(self.texts), errors="ignore"))
        return table

    def check(self, path: Path, name: str, limits: FileLimits) -> None:
        """Raise for what is no text, or unpacks to too much."""
        with path.open("rb") as begin:
            packed = begin.read(2) == b"\x1f\x8b"
        if packed != name.lower().endswith(".gz"):
            raise InputError(f"{name} is not what its name says: it is {'' if packed else 'not '}compressed.")
        decoder: codecs.IncrementalDecoder | None = None
        lines = columns = 0
        head = ""
        try:
            with gzip.open(path) if packed else path.open("rb") as file:
                for chunk in limits.unpack(file, name):
                    if decoder is None:
                        encoding = text_encoding(chunk)
                        if encoding == "utf-8" and _is_bare_utf16(chunk):
                            raise InputError(
                                f"{name} seems to be text in UTF-16 without a mark at its beginning. Save it as UTF-8."
                            )
                        decoder = codecs.getincrementaldecoder(encoding)()
                    text = decoder.decode(chunk)
                    if _CONTROL.search(text):
                        raise InputError(
                            f"{name} is not text: a {self.kind(name)} table has no control characters."
                        )
                    if not columns:
                        head += text
                        if "\n" in head or "\r" in head or len(head) > 64 * CHUNK:
                            start = re.split(r"[\r\n]", head, maxsplit=1)[0]
                            columns = max(start.count(mark) for mark in SEPARATORS) + 1
                    lines += text.count("\n") + text.count("\r")
                    limits.check(name, lines, columns)
                if decoder is not None:
                    decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            raise InputError(
                f"{name} must be text in UTF-8, or in UTF-16 with its mark at the beginning. Save it as UTF-8."
            ) from None
        except (EOFError, OSError, zlib.error) as error:
            raise InputError(f"{name} cannot be unpacked: {error}.") from None

    def lines(self, variable: str, path: str, data: Joined) -> list[str]:
        """The call of pandas."""
        told = "".join(f", {name}={value!r}" for name, value in look_at_text(Path(path))[0].items())
        return [f"{variable} = pd.read_csv({path!r}{told})"]


def _unpacked(path: Path) -> Any:
    return UNPACKERS.get(path.suffix.lower(), open)(path, "rb")


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
    place, encoding, chunk = 0, "", b"-"
    decoders = {name: codecs.getincrementaldecoder(name)() for name in ("utf-8", "utf-16")}
    with _unpacked(path) as file:
        while chunk:
            chunk = file.read(CHUNK)
            encoding = encoding or text_encoding(chunk)
            if encoding == "utf-8" and (found := chunk.find(b"\0")) >= 0:
                raise InputError(
                    f"{path} is not text in UTF-8: byte {place + found} is zero, as in damaged files and in UTF-16 "
                    "without a mark at its beginning. Copy it from its source again, or save it as UTF-8."
                )
            place += len(chunk)
            try:
                text = decoders[encoding].decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                if encoding == "utf-16":
                    raise
                # what is decoded may begin with the first bytes of a character, from the chunk before
                wrong = place - len(error.object) + error.start
                raise InputError(
                    f"{path} is not text in UTF-8: byte {wrong} is {error.object[error.start]:#x}, as in files of "
                    "Latin-1 (Windows-1252). Save it as UTF-8."
                ) from None
            if "\0" in text:
                raise InputError(
                    f"{path} is damaged: there is a zero among its characters. Copy it from its source again."
                )
    if not place:
        raise InputError(
            f"{path} is empty. A table needs a line with the names of its columns, and rows below it."
        )
    return encoding


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
    import pandas as pd

    if not encoding:
        with _unpacked(path) as file:
            encoding = text_encoding(file.read(4))
    # the first lines as pandas unpacks and decodes them; tables do not contain this separator, so that a line is one
    # field
    table = pd.read_csv(
        path, sep="\x01", header=None, nrows=LOOKED_AT, dtype=str, na_filter=False, quoting=csv.QUOTE_NONE,
        encoding=encoding,
    )  # fmt: skip
    lines = list(map(str, table[0]))
    suffixes = {suffix.lower() for suffix in path.suffixes}
    separator = find_separator(lines, usual="\t" if {".tsv", ".tab"} & suffixes else ",")
    rows = [line for line in lines[1:] if line.strip()]
    other = next((s for s in SEPARATORS if s != separator and rows and all(s in line for line in rows)), "")
    if other and separator in lines[0] and not any(separator in line for line in rows):
        raise InputError(
            f"{path} separates the names of its columns by {separator!r}, and its rows by {other!r}. Use one of them."
        )
    records = csv.reader((f"{line}\n" for line in lines), delimiter=separator)
    try:
        header, first = next(records, []), next(records, [])
    except csv.Error:
        raise InputError(
            f"{path} has a cell of more than {csv.field_size_limit():,} characters in its first lines. Shorten it, "
            "leave its column out, or close its quotation mark."
        ) from None
    named = [name for name in header if name]
    if len(set(named)) < len(named):
        raise same_name(path, named)
    options: dict[str, Any] = {} if encoding == "utf-8" else {"encoding": encoding}
    if separator != ",":
        options["sep"] = separator
    fields = [field for record in (first, *records) for field in record]
    commas = [field for field in fields if _COMMA.fullmatch(field)]
    # where it is no semicolon that separates, commas may be between thousands
    sure = separator == ";" or not all(map(_THOUSANDS.fullmatch, commas))
    if commas and sure and separator != "," and not any(map(_POINT.fullmatch, fields)):
        options["decimal"] = ","
    if len(first) > len(header):
        # otherwise pandas would use the first field of a row as its name, and shift all others by a column
        options["index_col"] = False
    return options, header, first


def header_of(path: Path) -> list[str]:
    """The names of the columns of a text table, without pandas; none where they cannot be told so quickly."""
    if not Text().named(path.name):
        return []
    try:
        with _unpacked(path) as file:
            start = file.read(CHUNK)
        whole = start if len(start) < CHUNK else start[: start.rfind(b"\n")]
        lines = whole.decode("utf-8-sig").splitlines()[:LOOKED_AT]
        if not lines or lines[0].count('"') % 2 or _CONTROL.search("".join(lines)):
            return []
        return next(csv.reader(lines, delimiter=find_separator(lines)), [])
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, csv.Error):
        return []


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
    lines = [re.sub(r'"[^"]*"', "", line) for line in lines]  # without what is quoted
    counts = {s: [line.count(s) for line in lines] for s in SEPARATORS}
    found = [s for s in SEPARATORS if counts[s] and counts[s][0]]
    if len(found) < 2:
        return found[0] if found else usual
    # a separator at the end of the lines, or row names, make one more
    steady = [s for s in found if all(0 <= count - counts[s][0] <= 1 for count in counts[s])]
    return max(steady or found, key=lambda s: (counts[s][0], s == usual, -SEPARATORS.index(s)))


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


def _is_bare_utf16(start: bytes) -> bool:
    """Whether every other byte is zero, as in Latin letters in UTF-16."""
    part = start[:64]
    return len(part) >= 4 and (not any(part[::2]) or not any(part[1::2]))
