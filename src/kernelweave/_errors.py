"""Exceptions, and the check of names; free of NumPy, so that the command line starts quickly."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from importlib import import_module
from typing import Any

__all__ = ["InputError", "KernelWarning", "NotPSDError", "capital", "check_known", "meant", "needed"]


class InputError(ValueError):
    """Invalid input; the message says what to do."""


class NotPSDError(InputError):
    """A precomputed kernel matrix that is not positive semidefinite."""


class KernelWarning(UserWarning):
    """A model of kernels without information about new rows."""


def needed(module: str, what: str, extra: str) -> Any:
    """A module of an optional package; without it an error with the line that installs it."""
    try:
        return import_module(module)
    except ImportError:
        raise InputError(f"{what} need {module}: pip install 'kernelweave[{extra}]'.") from None


def capital(sentence: str) -> str:
    """A sentence with a capital letter first."""
    return sentence[:1].upper() + sentence[1:]


def meant(name: object, known: Iterable[str], *, n: int = 1) -> str:
    """The sentence that asks for up to `n` known names like this one; empty where there is none."""
    close = difflib.get_close_matches(name, list(known), n=n) if isinstance(name, str) else []
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""


def check_known(name: str, known: Collection[str], what: str) -> str:
    """Return `name` if it is among `known`; otherwise raise and list the known names."""
    if isinstance(name, str) and name in known:
        return name
    shown = (
        repr(name) if isinstance(name, str | float) or name is None else f"of the type {type(name).__name__}"
    )
    raise InputError(
        f"Unknown {what} {shown:.100}.{meant(name, known)} Known: {', '.join(map(repr, known))}."
    )
