"""Reads docstrings in numpydoc's format, for forms, help texts and reports."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any, TypeVar

T = TypeVar("T")
Owner = TypeVar("Owner", bound=Callable[..., Any])

#: A heading: a line with a line of hyphens below it.
HEADING = re.compile(r"^(\S[^\n]*)\n-{3,}[ ]*$", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """A parameter: its type, as it is written too, and the lines of its description."""

    kind: str
    lines: str
    written: str = ""

    @property
    def about(self) -> str:
        """The description without markup."""
        return plain(self.lines)


@dataclass(frozen=True)
class Docstring:
    """The parts of a docstring.

    Attributes
    ----------
    summary : str
        The first paragraph, on one line.
    text : str
        The text after it, before the first heading.
    sections : dict of str to str
        The text below each heading.
    """

    summary: str
    text: str
    sections: Mapping[str, str]

    @property
    def parameters(self) -> dict[str, Entry]:
        """The parameters by name; names that share a line share their entry."""
        return self.entries("Parameters")

    @property
    def fields(self) -> dict[str, Entry]:
        """Parameters of a data class by name, some of which it may list as attributes."""
        return self.entries("Attributes") | self.parameters

    def entries(self, heading: str) -> dict[str, Entry]:
        """What a section lists, by name."""
        found: dict[str, Entry] = {}
        for block in filter(None, re.split(r"\n(?=\S)", self.sections.get(heading, ""))):
            head, _, below = block.partition("\n")
            names, _, kind = head.partition(" : ")
            plain_kind = re.sub(r",?\s*(default[=:].*|optional)$", "", kind.strip())
            entry = Entry(plain_kind, below, kind)
            found |= {name.strip().lstrip("*"): entry for name in names.split(",")}
        return found


def with_parameters(text: str | None, entries: Mapping[str, Entry], heading: str = "Parameters") -> str:
    """A docstring with other parameters; types are written as they are given, once for all that share a text."""
    whole = inspect.cleandoc(text or "")
    start, *rest = HEADING.split(whole)
    listed = "\n".join(
        f"{', '.join(name for name, _ in same)}{entry.kind and f' : {entry.kind}'}\n{entry.lines}"
        for entry, same in groupby(entries.items(), key=lambda one: one[1])
    )
    parts = [start.rstrip(), *([f"{heading}\n{'-' * len(heading)}\n{listed}"] if entries else [])]
    for name, body in zip(rest[::2], rest[1::2], strict=True):
        if name.strip() != heading:
            title = name.strip()
            parts.append(title + "\n" + "-" * len(title) + "\n" + body.strip("\n"))
    return "\n\n".join(parts) + "\n"


@cache
def read_docstring(text: str | None) -> Docstring:
    """Parse a docstring."""
    whole = inspect.cleandoc(text or "")
    start, *rest = HEADING.split(whole)
    summary, _, more = start.partition("\n\n")
    sections = {name.strip(): body.strip("\n") for name, body in zip(rest[::2], rest[1::2], strict=True)}
    return Docstring(plain(summary), more.strip(), sections)


def plain(text: str) -> str:
    """Text of a docstring on one line and without its markup."""
    text = re.sub(r":\w+(?::\w+)?:`~?(?:[^`]*\.)?([^`]*)`", r"\1", text)
    text = re.sub(r"``?([^`]*)``?|\*(\w+)\*", r"\1\2", text)
    return " ".join(re.sub(r"(?:^|\s)(?:\.\. )?\[\d+\]_?", " ", text).split())


class InheritedTexts:
    """A base whose subclasses may say of a method what is new alone: its parameters are those of what it replaces."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, own in vars(cls).items():
            method = getattr(own, "__func__", own)
            replaced = None if name.startswith("_") else getattr(super(cls, cls), name, None)
            # of a method without a docstring `inspect.getdoc` takes the one that it replaces
            if replaced is None or not inspect.isfunction(method) or not (text := method.__doc__):
                continue
            if "Parameters\n" not in text and (
                entries := read_docstring(inspect.getdoc(replaced)).parameters
            ):
                method.__doc__ = with_parameters(text, _as_written(entries))


def inherits_parameters(cls: type[T]) -> type[T]:
    """Add to the docstring of a class the parameters that only its bases describe, in the order of its constructor."""
    return _completed(cls, "Parameters", cls.__mro__[1:])


def inherits_attributes(cls: type[T]) -> type[T]:
    """The same for attributes; those that are no fields follow, with those of the class itself first."""
    return _completed(cls, "Attributes", cls.__mro__[1:])


def texts_of(*others: object) -> Callable[[Owner], Owner]:
    """A decorator: parameters that a function or class does not describe itself have the texts of others."""
    return lambda owner: _completed(owner, "Parameters", others)


class MadeText:
    """The docstring of a class, made when it is first read; the text then stands in the place of this."""

    def __init__(self, make: Callable[..., str], *of: Any) -> None:
        self.make, self.of = make, of

    def __get__(self, instance: object, owner: type) -> str:
        owner.__doc__ = self.make(*self.of)
        return owner.__doc__


def _completed(owner: Owner, heading: str, others: Sequence[object]) -> Owner:
    if not inspect.isclass(owner):
        if owner.__doc__ is not None:  # python -OO
            owner.__doc__ = _complete_text(owner, owner.__doc__, heading, others)
    elif (written := vars(owner)["__doc__"]) is not None:
        owner.__doc__ = MadeText(_complete_text, owner, written, heading, others)  # type: ignore[assignment]
    return owner


def _complete_text(owner: Any, written: str | MadeText, heading: str, others: Sequence[object]) -> str:
    text = written.__get__(None, owner) if isinstance(written, MadeText) else written
    own = read_docstring(text).entries(heading)
    known: dict[str, Entry] = {}
    for other in reversed(others):
        known |= read_docstring(other.__doc__).entries(heading)
    known |= own
    declared = [name for name in inspect.signature(owner).parameters if name in known]
    more = (*own, *known) if heading == "Attributes" else ()
    entries = {name: known[name] for name in dict.fromkeys((*declared, *more))}
    return with_parameters(text, _as_written(entries), heading)


def _as_written(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Entries with their types as they are written."""
    return {name: Entry(one.written, one.lines) for name, one in entries.items()}
