"""Parameters and values in user interfaces: form fields, labels, values as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Form", "Shown", "numbered", "said", "shown"]


def numbered(count: int, name: str, several: str = "") -> str:
    """A count with its noun.

    Examples
    --------
    >>> numbered(1, "row"), numbered(0, "row"), numbered(2, "class", "classes")
    ('1 row', '0 rows', '2 classes')
    """
    return f"{count} {name if count == 1 else several or f'{name}s'}"


@dataclass(frozen=True)
class Form:
    """The field of a parameter in a form; open bounds are treated like closed ones."""

    kind: Literal["text", "number", "whole number", "yes/no", "choice"] = "text"
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Shown:
    """How a parameter is shown, if its name, rule and docstring are not enough.

    Attributes
    ----------
    label : str
        Label in forms and reports; by default its name.
    unit : str
        Unit of the number.
    help : str
        How it is written as text, if the docstring refers to Python objects.
    setting : str or None
        Name of the option and of the entry in files of settings; by default that of the parameter. None: it is
        not a setting.
    usual : int or float, optional
        A number for the default, in fields that cannot be empty.
    """

    label: str = ""
    unit: str = ""
    help: str = ""
    setting: str | None = ""
    usual: float | None = None


def said(value: object) -> str:
    """A value as text for forms and the command line, the inverse of `Rule.parse`."""
    if isinstance(value, list | tuple):
        nested = any(isinstance(part, list | tuple) for part in value)
        return (" | " if nested else "; ").join(map(said, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def shown(value: object) -> str:
    """A short text for a value, for messages."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:
        # whole numbers of thousands of digits are not written out
        text = "a very large number"
    return text if len(text) <= 60 else f"{text[:57]}..."
