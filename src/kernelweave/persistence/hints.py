"""Whether the parts of an object have the types that its class declares: files may be made by anybody."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np


def check_parts(value: object, names: Iterable[str]) -> None:
    """Raise a `TypeError` for attributes of another type than that in the annotations of the class."""
    owner: Any = type(value)
    hints = _hints(owner)
    for name in names:
        if name in hints and hasattr(value, name) and not fits(hints[name], found := getattr(value, name)):
            raise TypeError(f"`{name}` of {owner.__name__} is a {type(found).__name__}")


@cache
def _hints(owner: Any) -> dict[str, Any]:
    return typing.get_type_hints(owner)


def fits(hint: Any, value: object) -> bool:
    """Whether a value has the type of an annotation, where this can be told."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(one, value) for one in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is tuple and isinstance(value, tuple):
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return all(fits(arguments[0], one) for one in value)
        return len(arguments) == len(value) and all(map(fits, arguments, value))
    if origin is list and isinstance(value, list):
        return all(fits(arguments[0], one) for one in value)
    if origin is dict and isinstance(value, dict):
        return all(fits(arguments[0], k) and fits(arguments[1], v) for k, v in value.items())
    expected = origin or hint
    if expected in (None, types.NoneType):
        return value is None
    if expected in (int, float):
        numbers = (int, np.integer) if expected is int else (int, float, np.integer, np.floating)
        return isinstance(value, numbers) and not isinstance(value, bool)
    if expected is str:
        return isinstance(value, str)
    if expected is Any or not isinstance(expected, type) or getattr(expected, "_is_protocol", False):
        # anything, variables of types, protocols
        return True
    return isinstance(value, expected)
