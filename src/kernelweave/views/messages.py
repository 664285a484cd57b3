"""Columns in messages."""

from __future__ import annotations

from collections.abc import Sequence


def column_name(j: int, names: Sequence[str] | None) -> str:
    """A column by its name, or by its position if it has none."""
    return f"column {j}" if names is None else f"column {names[j]!r}"


def listing(names: Sequence[str], limit: int = 20) -> str:
    """Names in one line, the first few of many."""
    text = ", ".join(map(repr, names[:limit]))
    return text + (f", ... ({len(names)} in all)" if len(names) > limit else "")


def bullets(names: Sequence[str]) -> str:
    """Names on separate lines, at most five."""
    lines = [f"- {name}\n" for name in names[:5]]
    return "".join(lines) + ("- ...\n" if len(names) > 5 else "")
