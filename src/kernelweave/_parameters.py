"""Admissible values of parameters, declared once at the parameter: ``C: Annotated[float, Number(above=0)]``.

A rule checks a value, converts it (to a float, an int), and describes the admissible values in words. `Shown` is added
if a form or the command line needs more than the docstring. `checked` checks the arguments of a function by the rules
of its signature, `check_values` the settings of an object by those of its constructor. This module does not import
NumPy, but recognises its numbers.
"""

from __future__ import annotations

import inspect
import math
import numbers
import os
import typing
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, fields
from functools import cache, wraps
from typing import Annotated, Any, ClassVar, ParamSpec, TypeVar

from kernelweave._allowance import allowed
from kernelweave._errors import InputError, meant
from kernelweave._extensions import load_extensions
from kernelweave._forms import Form, Shown, said, shown

__all__ = [
    "Choice",
    "Each",
    "Flag",
    "Form",
    "Function",
    "InstanceOf",
    "Kind",
    "Number",
    "OneOf",
    "ReadableSignature",
    "Rule",
    "Shown",
    "Text",
    "Texts",
    "Whole",
    "check_value",
    "check_values",
    "checked",
    "readable",
    "renamed",
    "rules_of",
    "said",
    "shown",
    "shown_of",
    "unchecked",
    "with_present_names",
]

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(eq=False)
class Unfit(Exception):
    """A value that breaks a rule: what to do, and a description of the value if the value itself is not enough."""

    remedy: str = ""
    got: str = ""


class Rule(ABC):
    """The admissible values of a parameter."""

    @abstractmethod
    def read(self, value: object) -> Any:
        """The value, converted; raises `Unfit` for one that breaks the rule."""

    @abstractmethod
    def words(self) -> str:
        """What is expected, as text after "must be"."""

    #: What makes a value of a text, such as `float`; raises a `ValueError` for others.
    of_text: ClassVar[Callable[[str], object]] = str

    def parse(self, text: str) -> Any:
        """The value of a text in a form or on the command line; raises `Unfit` like `read`."""
        try:
            return self.read(type(self).of_text(text))
        except ValueError:
            raise Unfit from None

    def form(self) -> Form:
        """Its field in a form."""
        return Form()

    def kinds(self) -> tuple[str, ...]:
        """The types and values that it takes, for signatures and docstrings; empty if the annotation says it."""
        return ()

    def __or__(self, other: Rule | None) -> Rule:
        """Either of two rules; None is allowed as itself."""
        return Choice((self, OneOf(None) if other is None else other))


@dataclass(frozen=True)
class Number(Rule):
    """A number between bounds.

    Attributes
    ----------
    above, least, below, most : float or None
        ``above < value``, ``least <= value``, ``value < below``, ``value <= most``.
    infinite : bool
        Whether infinity is allowed.
    remedy : str
        A sentence that says what to do.
    """

    above: float | None = None
    least: float | None = None
    below: float | None = None
    most: float | None = None
    infinite: bool = False
    remedy: str = ""
    of_text = float

    def read(self, value: object) -> float:
        value = _scalar(value)
        # text, True and NumPy's True are no numbers
        if not isinstance(value, numbers.Real) or isinstance(value, bool) or type(value).__name__ == "bool":
            raise Unfit
        try:
            number = float(value)
        except OverflowError:
            raise Unfit from None
        if math.isnan(number) or (math.isinf(number) and not self.infinite):
            raise Unfit
        if LARGEST_NUMBER < abs(number) < math.inf:
            raise Unfit(f"Numbers above {LARGEST_NUMBER:g} overflow in products.")
        if 0 < abs(number) < 1.0 / LARGEST_NUMBER:
            raise Unfit(f"Numbers below {1.0 / LARGEST_NUMBER:g} underflow in products.")
        if not (
            (self.above is None or number > self.above)
            and (self.least is None or number >= self.least)
            and (self.below is None or number < self.below)
            and (self.most is None or number <= self.most)
        ):
            raise Unfit
        return number

    def kinds(self) -> tuple[str, ...]:
        return ("float",)

    def form(self) -> Form:
        least = self.above if self.least is None else self.least
        return Form("number", (), least, self.below if self.most is None else self.most)

    def words(self) -> str:
        bounds = [
            f"{sign} {bound:.10g}"
            for sign, bound in ((">", self.above), (">=", self.least), ("<", self.below), ("<=", self.most))
            if bound is not None
        ]
        kind = "a number" if self.infinite or len(bounds) == 2 else "a finite number"
        inf = " (float('inf') is allowed)" if self.infinite else ""
        return " ".join([kind, " and ".join(bounds)]).strip() + inf


@dataclass(frozen=True)
class Whole(Rule):
    """A whole number between bounds, which are included. At most `LARGEST`."""

    least: int | None = None
    most: int | None = None
    remedy: str = ""
    of_text = int

    def read(self, value: object) -> int:
        value = _scalar(value)
        if not isinstance(value, numbers.Integral) or isinstance(value, bool):
            raise Unfit
        number, least = int(value), -LARGEST if self.least is None else self.least
        if not least <= number <= (LARGEST if self.most is None else self.most):
            raise Unfit
        return number

    def kinds(self) -> tuple[str, ...]:
        return ("int",)

    def form(self) -> Form:
        return Form("whole number", (), self.least, self.most)

    def words(self) -> str:
        if self.least is not None and self.most is not None:
            return f"a whole number from {self.least} to {self.most}"
        low = "" if self.least is None else f" >= {self.least}"
        high = "" if self.most is None else f" <= {self.most}"
        return f"a whole number{low}{high}"


#: Largest number whose squares and products do not overflow.
LARGEST_NUMBER = 1e100
#: The largest whole number that compiled loops can count to.
LARGEST = 2**31 - 1


@dataclass(frozen=True)
class Flag(Rule):
    """True or False only."""

    def read(self, value: object) -> bool:
        if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
            return bool(value)
        raise Unfit

    def parse(self, text: str) -> bool:
        try:
            return {"true": True, "yes": True, "false": False, "no": False}[text.strip().lower()]
        except KeyError:
            raise Unfit from None

    def kinds(self) -> tuple[str, ...]:
        return ("bool",)

    def form(self) -> Form:
        return Form("yes/no")

    def words(self) -> str:
        return "True or False"


class OneOf(Rule):
    """One of some values: names, numbers, None, True or False; also one of the names in a registry."""

    def __init__(
        self, *values: str | float | None, known: Mapping[str, object] | None = None, remedy: str = ""
    ) -> None:
        self.stated, self.known, self.remedy = values, known, remedy

    @property
    def values(self) -> tuple[str | float | None, ...]:
        """The values, with the names that are in the registry now."""
        return (*self.stated, *(self.known or ()))

    def __repr__(self) -> str:
        return f"OneOf({', '.join(map(repr, self.values))})"

    def read(self, value: object) -> Any:
        if self.known is not None and isinstance(value, str) and value not in self.values:
            load_extensions()
        kind = str if isinstance(value, str) else int | float
        like = not isinstance(value, bool) and isinstance(value, str | numbers.Real)
        for known in self.values:
            alike = like and isinstance(known, kind) and not isinstance(known, bool)
            if value is known or (alike and value == known):
                return known
        if not isinstance(value, str):
            raise Unfit
        names = [known for known in self.values if isinstance(known, str)]
        raise Unfit(meant(value, names).lstrip())

    def parse(self, text: str) -> Any:
        written = {said(known): known for known in self.values}
        plain = text.strip().lower()
        return written[plain] if plain in written else self.read(text)

    def kinds(self) -> tuple[str, ...]:
        return tuple(f'"{value}"' if isinstance(value, str) else repr(value) for value in self.values)

    def form(self) -> Form:
        return Form("choice", tuple(said(value) for value in self.values))

    def words(self) -> str:
        named = [repr(value) for value in self.values]
        return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} or {named[-1]}"


@dataclass(frozen=True)
class Text(Rule):
    """A string, or also a path."""

    path: bool = False

    def read(self, value: object) -> Any:
        if isinstance(value, str) or (self.path and isinstance(value, os.PathLike)):
            return value
        raise Unfit

    def kinds(self) -> tuple[str, ...]:
        return ("str", "PathLike") if self.path else ("str",)

    def words(self) -> str:
        return "text or a path" if self.path else "text"


@dataclass(frozen=True)
class Texts(Rule):
    """A sequence of strings; a single string is an error."""

    def read(self, value: Any) -> list[str]:
        texts = None if isinstance(value, Set) else listed(value)
        if texts is None or not all(isinstance(text, str) for text in texts):
            raise Unfit
        return texts

    def kinds(self) -> tuple[str, ...]:
        return ("Sequence[str]",)

    def words(self) -> str:
        return "a list of texts"


@dataclass(frozen=True)
class Each(Rule):
    """A list whose entries all satisfy a rule."""

    rule: Rule
    empty: bool = False

    def read(self, value: object) -> list[Any]:
        entries = None if isinstance(value, Set) else listed(value)
        if entries is None or not (entries or self.empty):
            raise Unfit
        return [self.rule.read(entry) for entry in entries]

    def kinds(self) -> tuple[str, ...]:
        own = self.rule.kinds()
        return (f"Sequence[{' | '.join(own)}]",) if own else ()

    def words(self) -> str:
        return f"a {'' if self.empty else 'non-empty '}list, each entry {self.rule.words()}"


@dataclass(frozen=True)
class Function(Rule):
    """Something that can be called."""

    def read(self, value: object) -> Any:
        if callable(value):
            return value
        raise Unfit

    def kinds(self) -> tuple[str, ...]:
        return ("Callable",)

    def words(self) -> str:
        return "a function"


@dataclass(frozen=True)
class InstanceOf(Rule):
    """An object of one of some classes; `said` describes them."""

    classes: tuple[type, ...]
    said: str

    def read(self, value: object) -> Any:
        if isinstance(value, self.classes):
            return value
        raise Unfit

    def kinds(self) -> tuple[str, ...]:
        return tuple(kind.__name__ for kind in self.classes)

    def words(self) -> str:
        return self.said


@dataclass(frozen=True)
class Choice(Rule):
    """A value that satisfies one of several rules."""

    rules: tuple[Rule, ...]

    def read(self, value: object, how: str = "read") -> Any:
        # any text on the command line is valid for `Text`, so names of values are tried first
        rules = self.rules if how == "read" else sorted(self.rules, key=lambda rule: isinstance(rule, Text))
        remedy = got = ""
        for rule in rules:
            try:
                return getattr(rule, how)(value)
            except Unfit as unfit:
                remedy, got = remedy or unfit.remedy, got or unfit.got
        raise Unfit(remedy, got)

    def parse(self, text: str) -> Any:
        return self.read(text, "parse")

    def form(self) -> Form:
        # an empty field means None, and no text is an object
        rules = [
            rule
            for rule in self.rules
            if not (isinstance(rule, InstanceOf) or (isinstance(rule, OneOf) and rule.values == (None,)))
        ]
        return rules[0].form() if len(rules) == 1 else Form()

    def kinds(self) -> tuple[str, ...]:
        return tuple(kind for rule in self.rules for kind in rule.kinds() or (rule.words(),))

    def words(self) -> str:
        return " or ".join(rule.words() for rule in self.rules)

    @property
    def remedy(self) -> str:
        """That of the first rule that has one."""
        return next((said for rule in self.rules if (said := getattr(rule, "remedy", ""))), "")


def _scalar(value: object) -> Any:
    """The number in an array without dimensions, or the value itself."""
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


# ---- rules of many parameters --------------------------------------------------------------------

#: A relative gap at which to stop.
Tol = Annotated[
    float, Number(above=0, below=1, remedy="It is a relative gap."), Shown("Relative gap", usual=0)
]
#: A number of steps.
MaxIter = Annotated[int | None, Whole(1) | None, Shown("Most iterations", usual=0)]
#: Seconds; functions that are `checked` and learners end everything inside of them then.
MaxTime = Annotated[float | None, Number(above=0) | None, Shown("Most seconds")]
#: Half width of the tube of the epsilon-insensitive loss.
Epsilon = Annotated[
    float, Number(least=0), Shown("Half width of the tube (epsilon)", unit="units of the target")
]
#: A regularisation parameter.
Alpha = Annotated[float, Number(above=0, infinite=True)]
#: A weight of a loss.
Cost = Annotated[float, Number(above=0)]
#: A number above zero.
Positive = Annotated[float, Number(above=0)]
#: A share that is neither nothing nor all.
Share = Annotated[float, Number(above=0, below=1)]
#: A number that is not negative.
Nonnegative = Annotated[float, Number(least=0)]
#: True or False.
Switch = Annotated[bool, Flag()]


# ---- checking values -------------------------------------------------------------------------------


def check_value(rule: Rule, name: str, value: object, *, of: str = "", written: bool = False) -> Any:
    """The converted value, or an `InputError` that says what was expected, what was given and what to do.

    With `written`, texts are read as on the command line; see `Rule.parse`.
    """
    try:
        return rule.parse(value) if written and isinstance(value, str) else rule.read(value)
    except Unfit as unfit:
        owner = f" of {of}" if of else ""
        more = " ".join(said for said in (unfit.remedy, getattr(rule, "remedy", "")) if said)
        got = unfit.got or shown(value)
        raise InputError(
            f"`{name}`{owner} must be {rule.words()}, got {got}.{' ' if more else ''}{more}"
        ) from None


def listed(values: Any) -> list[Any] | None:
    """The entries of a container, or None for a number, text or array without dimensions."""
    if isinstance(values, str | bytes | Mapping):
        return None
    try:
        return list(values)
    except TypeError:
        return None


@cache
def rules_of(function: Callable[..., object]) -> Mapping[str, Rule]:
    """The rules in the signature of a function or, given a class, of its fields or its constructor."""
    return _beside(function, lambda part: isinstance(part, Rule))


@cache
def shown_of(function: Callable[..., object]) -> Mapping[str, Shown]:
    """The `Shown` beside the rules; of several the last one, which is nearest to the parameter."""
    return _beside(function, lambda part: isinstance(part, Shown))


def _beside(function: Callable[..., object], wanted: Callable[[object], bool]) -> dict[str, Any]:
    # of dataclasses, declarations and models of pydantic
    if any(hasattr(function, name) for name in ("__dataclass_fields__", "declared_fields", "model_fields")):
        source = function
    else:
        source = inspect.unwrap(function.__init__ if inspect.isclass(function) else function)
    found = {}
    for name, hint in typing.get_type_hints(source, include_extras=True).items():
        parts = [part for part in getattr(hint, "__metadata__", ()) if wanted(part)]
        if parts:
            found[name] = parts[-1]
    return found


# ---- types for people ------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Kind:
    """The type of a parameter in a signature, found when it is shown; `hint` is its annotation."""

    owner: Any
    name: str
    hint: object

    @property
    def names(self) -> tuple[str, ...]:
        """The alternatives, such as ``("float", '"auto"', "None")``: what its rule takes, or its annotation."""
        rule = rules_of(self.owner).get(self.name)
        if rule is not None:
            return tuple(dict.fromkeys(rule.kinds() or (rule.words(),)))
        return (self.hint if isinstance(self.hint, str) else inspect.formatannotation(self.hint),)

    def __repr__(self) -> str:
        return " | ".join(self.names)


def readable(function: Callable[..., object], owner: object = None) -> inspect.Signature:
    """The signature of a function with readable types; of a constructor with that of its class as owner."""
    signature = inspect.signature(function)
    own = function if owner is None else owner
    parameters = [
        one if one.annotation is one.empty else one.replace(annotation=Kind(own, name, one.annotation))
        for name, one in signature.parameters.items()
    ]
    result = signature.return_annotation
    if result is not signature.empty:
        result = Kind(own, "return", result)
    return signature.replace(parameters=parameters, return_annotation=result)


class ReadableSignature:
    """The signature of a class, and of those below it, with readable types."""

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        if instance is not None:
            # an object that can be called has another signature than its class
            raise AttributeError("__signature__")
        constructor: Any = getattr(owner, "__init__")  # noqa: B009 (mypy knows no constructor of a class)
        found = readable(constructor, owner)
        return found.replace(
            parameters=list(found.parameters.values())[1:], return_annotation=inspect.Signature.empty
        )


# ---- many values -----------------------------------------------------------------------------------


def check_values(owner: object, values: Mapping[str, object], *, of: str = "") -> dict[str, Any]:
    """Converted settings of an object, checked by the rules of its class; its defaults stay as they are."""
    kind: Any = type(owner)
    found = dict(values)
    for name, rule in rules_of(kind).items():
        if name in found and found[name] is not getattr(kind, name, found):
            found[name] = check_value(rule, name, found[name], of=of)
    return found


def check_fields(owner: Any, *, named: bool = False) -> None:
    """Check and convert the fields of a frozen data class; numbers of NumPy become those of Python."""
    given = {f.name: _scalar(getattr(owner, f.name)) for f in fields(owner) if f.init}
    for name, value in check_values(owner, given, of=type(owner).__name__ if named else "").items():
        object.__setattr__(owner, name, value)


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Check and convert all arguments of a function by the rules of its parameters; `max_time` limits all of it."""
    signature = readable(function)
    names = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        rules = rules_of(function)
        given = [
            check_value(rules[name], name, value) if name in rules else value
            for name, value in zip(names, args, strict=False)
        ]
        named = {
            name: check_value(rules[name], name, value) if name in rules else value
            for name, value in kwargs.items()
        }
        seconds: Any = named.get("max_time")
        with allowed(seconds=seconds):
            return function(*given, *args[len(given) :], **named)  # type: ignore[arg-type]

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def renamed(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Take former names of parameters for one version, with a warning: ``@renamed(former="present")``."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with_present_names(kwargs, names, function.__name__)
            return function(*args, **kwargs)

        return call

    return decorate


def with_present_names(given: dict[str, Any], names: Mapping[str, str], owner: str) -> None:
    """Put present names of parameters in the place of former ones, with a warning for who called the caller of this."""
    for former in names.keys() & given.keys():
        present = names[former]
        if present in given:
            raise InputError(f"`{former}` is the former name of `{present}`. Give `{present}` alone.")
        warnings.warn(
            f"`{former}` of {owner} is now `{present}`; the former name will be removed in version 0.4.",
            DeprecationWarning,
            stacklevel=3,
        )
        given[present] = given.pop(former)


def unchecked(function: Callable[P, R]) -> Callable[P, R]:
    """A `checked` function as it is inside of the library, where values are what the rules made of them."""
    inner: Callable[P, R] = inspect.unwrap(function)
    return inner
