"""Parameters and values in user interfaces: form fields, labels, values as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, Literal

__all__ = ["Form", "ShortRepr", "Shown", "names_in", "numbered", "said", "shown"]


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


#: Entries of an array, or characters of a value, that are shown.
MOST_ENTRIES, MOST_CHARACTERS = 6, 80


class ShortRepr:
    """Data classes whose text is one line: arrays of many entries by their shape, numbers by four digits."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # before the decorator, which keeps what is there
        cls.__repr__ = ShortRepr.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        shown_fields = [one.name for one in fields(self) if one.repr]  # type: ignore[arg-type]
        parts = ", ".join(f"{name}={_brief(getattr(self, name))}" for name in shown_fields)
        return f"{type(self).__name__}({parts})"


def _brief(value: Any) -> str:
    """A value on part of a line."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, float):
        return f"{value:.4g}"
    shape = getattr(value, "shape", None)
    if shape and (len(shape) > 1 or shape[0] > MOST_ENTRIES):
        return f"<array {' x '.join(map(str, shape))}>"
    if shape:
        return f"[{', '.join(map(_brief, value.tolist()))}]"
    if isinstance(value, list | tuple | dict) and len(value) > MOST_ENTRIES:
        return f"<{type(value).__name__} of {len(value)}>"
    if isinstance(value, list | tuple):
        left, right = ("[", "]") if isinstance(value, list) else ("(", ")")
        return left + ", ".join(map(_brief, value)) + right
    text = repr(value)
    long = len(text) > MOST_CHARACTERS and not isinstance(value, ShortRepr)
    return f"<{type(value).__name__}>" if long else text


def names_in(value: str | Sequence[str]) -> list[str]:
    """Names in a list, or in a text with commas between them."""
    if isinstance(value, str):
        return [name for part in value.split(",") if (name := part.strip())]
    return list(value)
