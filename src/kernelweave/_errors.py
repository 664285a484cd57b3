"""Exceptions, and the check of names; free of NumPy, so that the command line starts quickly."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["InputError", "NotPSDError", "check_known"]


class InputError(ValueError):
    """Input that cannot be used; the message says what to do about it."""


class NotPSDError(InputError):
    """A precomputed kernel matrix that is not positive semidefinite."""


def check_known(name: str, known: Iterable[str], what: str) -> str:
    """Return `name` if it is among `known`; otherwise raise and list the known names."""
    known = list(known)
    if name in known:
        return name
    close = difflib.get_close_matches(str(name), known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise InputError(f"Unknown {what} {name!r}.{hint} Known: {', '.join(map(repr, known))}.")
