"""Groups of columns: names for groups of columns, from a table of settings, a TOML file or a GMT file."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from pathlib import Path

from kernelweave._errors import InputError, meant

#: In place of views: those that the table suggests.
AUTO = "auto"


def read_views(views: str | Mapping[str, str | list[str]]) -> dict[str, list[str]]:
    """Views as a table, or from a TOML or GMT file: names to column names, in which ``*`` and ``?`` match any text."""
    if not isinstance(views, str):
        return check_views(views, "views")
    path = Path(views)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        names = " Name the columns of each view, such as {'genes': 'gene_*'}." if views == AUTO else ""
        raise InputError(f"There is no views file {views}.{names}") from None
    except OSError as error:
        raise InputError(f"{views} cannot be read as text: {error}.") from error
    return parse_views(decode(content, views), views, gmt=path.suffix.lower() == ".gmt")


def decode(content: bytes, name: str) -> str:
    """The text of a file: UTF-8, with or without a mark at its beginning, or UTF-16 with one."""
    marked = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content.decode("utf-16" if marked else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} cannot be read as text: {error}. Save it as UTF-8.") from error
    if "\0" in text:
        raise InputError(
            f"{name} holds zeros, as damaged files and UTF-16 without a mark at its beginning do. Save it as UTF-8."
        )
    # other ends of lines mean the same
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parse_views(text: str, name: str, *, gmt: bool) -> dict[str, list[str]]:
    """Views from the text of a TOML file with a table [views], or of a GMT file (name, description, columns)."""
    if gmt:
        rows = [line.rstrip("\r").split("\t") for line in text.split("\n") if line.strip()]
        short = [k for k, row in enumerate(rows, start=1) if len(row) < 3]
        if short or not rows:
            where = f"line {short[0]} of {name}" if short else name
            raise InputError(
                "Each line of a GMT file must have a name, a description and columns, separated by tabs; "
                f"{where} has fewer fields."
            )
        return check_views({row[0]: [c for c in row[2:] if c] for row in rows}, name)
    import tomllib  # two milliseconds, which every first fit would take

    try:
        views = tomllib.loads(text).get("views")
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{name} cannot be read as TOML: {error}.") from error
    if not isinstance(views, dict) or not views:
        raise InputError(f"{name} must hold a table [views], such as: rna = ['gene_*'].")
    return check_views(views, name)


def check_views(views: Mapping[str, str | list[str]], name: str) -> dict[str, list[str]]:
    """Lists of columns of all views, also of a view with one text; raise for views without names of columns."""
    found = {view: [columns] if isinstance(columns, str) else columns for view, columns in views.items()}
    for view, columns in found.items():
        if not isinstance(columns, list) or not columns or not all(isinstance(c, str) and c for c in columns):
            raise InputError(
                f"{name}: view {view!r} must be a name or pattern of columns, or a non-empty list of these, got "
                f"{views[view]!r}. Write for example 'gene_*' or ['age', 'bmi']."
            )
    return found


def expand_views(
    views: dict[str, list[str]], columns: list[str], *, partial: bool = False
) -> dict[str, list[str]]:
    """Replace patterns by the columns they match; one without a match is an error, or left out with `partial`."""
    from fnmatch import fnmatchcase

    out: dict[str, list[str]] = {}
    known = set(columns)
    for name, patterns in views.items():
        chosen: dict[str, None] = {}
        for pattern in patterns:
            found = [pattern] if pattern in known else [c for c in columns if fnmatchcase(c, pattern)]
            if not found and not partial:
                few = ", ".join(map(repr, columns[:12])) + (", ..." if len(columns) > 12 else "")
                hint = meant(pattern, columns) or f" Columns: {few}."
                raise InputError(f"View {name!r}: no column matches {pattern!r}.{hint}")
            chosen |= dict.fromkeys(found)
        if chosen:
            out[name] = list(chosen)
    if not out:
        raise InputError(f"None of the {len(views)} views names a column of the table.")
    return out
