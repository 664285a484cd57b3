"""Frozen values with numbers from training rows: equal by contents, and described by plain values."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from dataclasses import Field, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from kernelweave._checks import InputError
from kernelweave._parameters import listed, shown
from kernelweave.views import Table

__all__: list[str] = []

#: Numbers of up to this many columns are written in full, and can be read back.
_few = reprlib.Repr()
_few.maxlist, _few.maxother = 20, 40


class Learnt:
    """Base of frozen dataclasses with arrays, which are equal if all their fields are, arrays by their bytes."""

    #: The fields that are taken from training rows, None before.
    learnt: ClassVar[tuple[str, ...]] = ()

    @property
    def is_fitted(self) -> bool:
        """Whether all numbers from training rows are known."""
        return not self.learnt or getattr(self, self.learnt[0]) is not None

    def settings(self) -> dict[str, object]:
        """The fields that are not taken from training rows."""
        return {one.name: getattr(self, one.name) for one in _fields(self) if one.name not in self.learnt}

    def given(self, *, shown: bool = False) -> dict[str, object]:
        """The fields other than their defaults, as plain values.

        Parameters
        ----------
        shown : bool, default=False
            Whether only the fields that `repr` shows are returned.
        """
        values = {one.name: (one, plain(getattr(self, one.name))) for one in _fields(self)}
        return {
            name: value
            for name, (one, value) in values.items()
            if value != one.default and (one.repr or not shown)
        }

    def _freeze(
        self, name: str, what: str, ndim: int, dtype: DTypeLike = np.float64, width: int | None = None
    ) -> None:
        """Keep an array that was given for a field, if there is one, so that nobody can change it."""
        given = getattr(self, name)
        if given is None:
            return
        try:
            values = None if listed(given) is None else np.array(given, dtype)
        except (TypeError, ValueError):
            values = None
        fits = values is not None and values.ndim == ndim and width in (None, values.shape[-1])
        if values is None or not fits or (what != DONORS and not np.isfinite(values).all()):
            raise InputError(
                f"`{name}` of {type(self).__name__} must hold {what}, got {shown(given)}. Leave it out to take it from "
                "training rows."
            )
        values.flags.writeable = False
        object.__setattr__(self, name, values)

    def _freeze_together(self, what: str) -> None:
        """Keep the rows of numbers that were given for all fields from training rows, one number for each column."""
        for name in self.learnt:
            self._freeze(name, what, 1)
        lengths = [None if (one := getattr(self, name)) is None else len(one) for name in self.learnt]
        if len(set(lengths)) > 1:
            raise InputError(
                f"{' and '.join(f'`{name}`' for name in self.learnt)} of {type(self).__name__} must be equally long, "
                f"got lengths {', '.join(map(str, lengths))}. Give one number of each for every column, or leave all "
                "out to take them from training rows."
            )

    def _check_columns(self, fitted: int, n_columns: int) -> None:
        if fitted != n_columns:
            raise InputError(
                f"{type(self).__name__} was fitted on {fitted} columns, got {n_columns}. Pass the columns of the "
                "training rows."
            )

    @cached_property
    def _key(self) -> tuple[object, ...]:
        return tuple(_comparable(getattr(self, one.name)) for one in _fields(self) if one.compare)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key == other._key

    @cached_property
    def _hash(self) -> int:
        return hash((type(self), self._key))

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        said = (f"{name}={_few.repr(value)}" for name, value in self.given(shown=True).items())
        return f"{type(self).__name__}({', '.join(said)})"


#: What the rows of nearest neighbours are called; their cells may be missing.
DONORS = "the training rows"


def _fields(value: Learnt) -> Iterable[Field[Any]]:
    return fields(value)  # type: ignore[arg-type]


def _comparable(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, Table):
        return tuple(map(_comparable, value.arrays()))
    return tuple(map(_comparable, value)) if isinstance(value, list | tuple) else value


def plain(value: object) -> object:
    """A field of a step or a map in plain values, as text has them."""
    if isinstance(value, Table):
        value = value.values
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return list(map(plain, value))
    return value
