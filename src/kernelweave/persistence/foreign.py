"""Parts of other packages in a model file: splitters, pipelines and their other steps, through skops."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

from kernelweave._checks import InputError

#: Splitters allowed for `cv`, in addition to the types that skops trusts; all others are refused.
SPLITTERS = tuple(
    f"sklearn.model_selection._split.{name}"
    for name in (
        "GroupKFold",
        "GroupShuffleSplit",
        "KFold",
        "LeaveOneGroupOut",
        "LeaveOneOut",
        "PredefinedSplit",
        "RepeatedKFold",
        "RepeatedStratifiedKFold",
        "ShuffleSplit",
        "StratifiedGroupKFold",
        "StratifiedKFold",
        "StratifiedShuffleSplit",
        "TimeSeriesSplit",
    )
)


def _skops() -> Any:
    """The package that writes and reads parts of other packages."""
    try:
        import skops.io.exceptions
    except ImportError:
        raise InputError(
            "Files of pipelines, and of models with a splitter as `cv`, need skops: pip install 'kernelweave[save]'."
        ) from None
    return skops


def write(things: Sequence[Any]) -> bytes:
    """Parts of other packages as bytes, or `InputError` for those that could not be read without running code."""
    skops = _skops()
    try:
        content: bytes = skops.io.dumps(list(things))
        untrusted = sorted(set(skops.io.get_untrusted_types(data=content)) - set(SPLITTERS))
    except (TypeError, AttributeError) as error:
        raise InputError(f"This model cannot be stored without code: {error}.") from error
    if untrusted:
        raise InputError(
            f"This model cannot be stored without code: it has parts of type {', '.join(untrusted)}. "
            "Scorers given as Python functions cannot be saved: give scorers by name. Learners and losses of your own "
            "can be saved if their class sets a `name`, and losses if it is a dataclass or has no parameters."
        )
    return content


def read(content: bytes, source: object) -> Any:
    """The parts, restored; `source` is the file for messages."""
    skops = _skops()
    try:
        return skops.io.loads(content, trusted=list(SPLITTERS))
    except skops.io.exceptions.UntrustedTypesFoundException as error:
        raise InputError(f"{source} has types that are not allowed in a model file: {error}") from error


def traded(value: Any, trade: Callable[[Any], Any], seen: dict[int, tuple[Any, Any]] | None = None) -> Any:
    """`value` with parts replaced at any depth; the same object if nothing is replaced.

    Parameters
    ----------
    value : object
        Lists, tuples, dicts and objects with attributes are searched.
    trade : callable
        Returns the replacement of a part, or the part itself.
    """
    seen = {} if seen is None else seen
    if id(value) in seen:
        return seen[id(value)][1]
    new = trade(value)
    # objects that contain themselves are not followed twice; a reference keeps their id from being used again
    seen[id(value)] = (value, new)
    if new is not value:
        return new
    if type(value) in (list, tuple):
        items = [traded(item, trade, seen) for item in value]
        if any(a is not b for a, b in zip(items, value, strict=True)):
            new = type(value)(items)
    elif isinstance(value, dict):
        pairs = {k: traded(v, trade, seen) for k, v in value.items()}
        if any(pairs[k] is not v for k, v in value.items()):
            new = pairs
    elif isinstance(getattr(value, "__dict__", None), dict) and not isinstance(
        value, type | types.FunctionType | types.ModuleType
    ):
        inside = {k: traded(v, trade, seen) for k, v in vars(value).items()}
        if any(inside[k] is not v for k, v in vars(value).items()):
            new = object.__new__(type(value))
            vars(new).update(inside)
    seen[id(value)] = (value, new)
    return new
