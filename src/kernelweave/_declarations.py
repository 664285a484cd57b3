"""The declaration of a parameter: its rule, its labels, its docstring entry and its default.

The command line, the studio's forms and API, reports and files of settings are made from this, so that parameters are
described only once.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from kernelweave._docstrings import read_docstring
from kernelweave._errors import InputError
from kernelweave._parameters import Form, Rule, Shown, check_value, rules_of, shown_of

__all__ = ["USUAL", "Declared", "declared"]


class _Usual:
    """Represents the default of a parameter."""

    def __repr__(self) -> str:
        return "USUAL"


USUAL: Final = _Usual()
#: Texts for the default, if they are not values.
USUAL_TEXTS = ("", "auto")


@dataclass(frozen=True)
class Declared:
    """A parameter.

    Attributes
    ----------
    name : str
    rule : Rule or None
        Its admissible values.
    shown : Shown
    kind, about : str
        Its type and its meaning, from the docstring.
    default : object
    """

    name: str
    rule: Rule | None
    shown: Shown
    kind: str
    about: str
    default: Any

    @property
    def setting(self) -> str:
        """Its name on the command line and in files of settings; empty if it is not a setting."""
        if self.rule is None or self.shown.setting is None:
            return ""
        return self.shown.setting or self.name

    @property
    def label(self) -> str:
        """Its label in forms and reports."""
        return self.shown.label or self.name.replace("_", " ").capitalize()

    @property
    def help(self) -> str:
        """Its meaning, and how it is written."""
        return f"{self.about} {self.shown.help}".strip()

    @property
    def form(self) -> Form:
        """Its field in a form."""
        return self.rule.form() if self.rule is not None else Form()

    def settle(self, value: object) -> Any:
        """The value of a setting given as text or value, or `USUAL` for the default; raises `InputError`."""
        if self.rule is None:
            return value
        if isinstance(value, str) and not value.strip():
            return USUAL
        try:
            return check_value(self.rule, self.setting or self.name, value, written=True)
        except InputError:
            if self._is_usual(value):
                return USUAL
            raise

    def _is_usual(self, value: object) -> bool:
        if value is None or isinstance(value, str):
            return value is None or value.strip().lower() in USUAL_TEXTS
        if self.shown.usual is None or isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return value == self.shown.usual


@cache
def declared(owner: Any) -> Mapping[str, Declared]:
    """The parameters of a class by their names, in the order of its constructor."""
    rules, shown = rules_of(owner), shown_of(owner)
    entries = read_docstring(owner.__doc__).parameters
    out = {}
    for name, parameter in inspect.signature(owner).parameters.items():
        entry = entries.get(name)
        about = "" if entry is None else entry.about
        kind = "" if entry is None else entry.kind
        if told := re.fullmatch(r"See (\w+)\.", about):
            # a docstring may refer to another class of its module
            other = declared(getattr(sys.modules[owner.__module__], told[1]))[name]
            about, kind = other.about, kind or other.kind
        out[name] = Declared(name, rules.get(name), shown.get(name, Shown()), kind, about, parameter.default)
    return out
