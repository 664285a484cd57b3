"""The declaration of a parameter: its rule, its labels, its docstring entry and its default.

The command line, the studio's forms and API, reports and files of settings are made from this, so that parameters are
described only once. A `Declaration` is a class that consists of its parameters: annotated fields with defaults.
"""

from __future__ import annotations

import inspect
import re
import sys
import typing
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Final, dataclass_transform

from kernelweave._docstrings import Entry, MadeText, read_docstring, with_parameters
from kernelweave._errors import InputError, meant
from kernelweave._parameters import (
    Form,
    Kind,
    Rule,
    Shown,
    check_value,
    rules_of,
    shown_of,
    with_present_names,
)

__all__ = ["USUAL", "Declaration", "Declared", "declared"]


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


@dataclass_transform(kw_only_default=True)
class Declaration:
    """A class whose parameters are its annotated fields, which its constructor takes by name.

    Fields of base classes are inherited, with their rules and their descriptions; a class that assigns a value to the
    name of an inherited field has another default, and an entry in its docstring another description. The docstring
    then shows all of them.
    """

    #: The parameters, its own first, with their defaults.
    declared_fields: ClassVar[Mapping[str, inspect.Parameter]] = {}
    #: Present names of parameters by former ones, which are taken for one version with a warning.
    former: ClassVar[Mapping[str, str]] = {}
    #: Those that come first.
    leading: ClassVar[tuple[str, ...]] = ()
    #: The docstring as it is written.
    written_doc: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        """Make the constructor and the docstring from the fields."""
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            raise TypeError(
                f"{cls.__name__} has a constructor of its own. Annotate its parameters in the body of the class "
                "instead, such as `C: float = 1.0`."
            )
        cls.declared_fields = _fields(cls)
        cls.written_doc = vars(cls).get("__doc__") or ""
        cls.__init__ = _constructor(cls.declared_fields)  # type: ignore[method-assign]
        cls.__doc__ = MadeText(_described, cls)  # type: ignore[assignment]


def _fields(cls: type[Declaration]) -> dict[str, inspect.Parameter]:
    hints: dict[str, object] = inspect.get_annotations(cls)
    own = {
        name: hint
        for name, hint in hints.items()
        if not ("ClassVar" in hint if isinstance(hint, str) else typing.get_origin(hint) is ClassVar)
    }
    known = {
        name: one.annotation.hint
        for base in reversed(cls.__mro__[1:])
        for name, one in getattr(base, "declared_fields", {}).items()
    }
    names = sorted(
        [*(name for name in own if name not in known), *known], key=lambda name: name not in cls.leading
    )
    return {
        name: inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=getattr(cls, name, inspect.Parameter.empty),
            annotation=Kind(cls, name, own.get(name, known.get(name))),
        )
        for name in names
    }


def _constructor(fields: Mapping[str, inspect.Parameter]) -> Any:
    def __init__(self: Any, *args: object, **given: object) -> None:
        name = type(self).__name__
        if args:
            raise TypeError(
                f"{name} takes its parameters by name ({', '.join(fields)}), got {len(args)} without a name: "
                f"write {name}({next(iter(fields), 'name')}={args[0]!r})."
            )
        if former := type(self).former:
            with_present_names(given, former, name)
        for unknown in given.keys() - fields.keys():
            hint = meant(unknown, fields) or f" Known: {', '.join(fields)}."
            raise TypeError(f"{name} got an unexpected keyword argument {unknown!r}.{hint}")
        for field, parameter in fields.items():
            if field not in given and parameter.default is inspect.Parameter.empty:
                raise TypeError(f"{name} needs {field!r}.")
            setattr(self, field, given.get(field, parameter.default))

    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    __init__.__signature__ = inspect.Signature([itself, *fields.values()])  # type: ignore[attr-defined]
    return __init__


def _described(cls: Any) -> str:
    """The docstring, with the entries of inherited parameters and all types and defaults."""
    known = [read_docstring(vars(base).get("written_doc")).parameters for base in cls.__mro__]
    entries = {}
    for name, parameter in cls.declared_fields.items():
        found = next((entries[name] for entries in known if name in entries), Entry("", ""))
        own = known[0].get(name) if name in inspect.get_annotations(cls) else found
        kind = own.kind if own is not None and own.kind else _in_words(parameter.annotation.names)
        entries[name] = replace(found, kind=_with_default(kind, parameter.default))
    return with_parameters(cls.written_doc, entries)


def _in_words(names: tuple[str, ...]) -> str:
    """The alternatives of a parameter as in a docstring: values in braces, and None last."""
    values = [name for name in names if name[0] == '"' or name.isdigit()]
    kinds = [name for name in names if name not in (*values, "None")]
    parts = [f"{{{', '.join(values)}}}" if len(values) > 1 else values[0]] if values else []
    parts = [*parts, *kinds] if len(values) > 1 else [*kinds, *parts]
    return " or ".join([*parts, *(name for name in names if name == "None")])


def _with_default(kind: str, default: object) -> str:
    if default is inspect.Parameter.empty:
        return kind
    if default is None:
        return f"{re.sub(',? or None$', '', kind)}, optional"
    text = f'"{default}"' if isinstance(default, str) else repr(default).replace("e-0", "e-")
    return f"{kind}, default={text}"
