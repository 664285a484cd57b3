"""How people meet a parameter and a value: the field of a form, the words beside it, a value as a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Form", "Shown", "said", "shown"]


@dataclass(frozen=True)
class Form:
    """The field of a form that takes a parameter; open bounds are given like closed ones."""

    kind: Literal["text", "number", "whole number", "yes/no", "choice"] = "text"
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Shown:
    """How people meet a parameter, where its name, its rule and its docstring do not say it.

    Attributes
    ----------
    label : str
        What a form and a report call it; by default its name.
    unit : str
        Of the number.
    help : str
        How it is written, where the docstring speaks of Python's objects.
    setting : str or None
        Name of the option and of the entry in files of settings; by default that of the parameter. None: people do not
        set it, because something else takes its place.
    usual : int or float, optional
        A number that stands for the default where nothing can be left empty.
    """

    label: str = ""
    unit: str = ""
    help: str = ""
    setting: str | None = ""
    usual: float | None = None


def said(value: object) -> str:
    """A value as people write it in a form or on a command line; texts come back from `Rule.parse`."""
    if isinstance(value, list | tuple):
        nested = any(isinstance(part, list | tuple) for part in value)
        return (" | " if nested else "; ").join(map(said, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def shown(value: object) -> str:
    """A value in a few words, for messages."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:
        # whole numbers of thousands of digits are not written out
        text = "a very large number"
    return text if len(text) <= 60 else f"{text[:57]}..."
