"""The column that marks held-out rows: which of its values hold a row out, and which leave it for training."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelweave._errors import InputError
from kernelweave._forms import names_in, numbered
from kernelweave._types import Series

#: Words for the two sides, whatever the column is called; spaces, hyphens and underscores do not count.
HELD_OUT = ("test", "testing", "heldout", "holdout", "validation", "val")
TRAINING = ("train", "training")
#: Values that say yes or no to the name of the column.
YES = ("true", "t", "yes", "y", "1")
NO = ("false", "f", "no", "n", "0")
ACCEPTED = (
    "train and test (also training, testing, held-out, holdout, validation), true and false, T and F, yes and no, "
    "or 1 and 0, in upper or lower case"
)
REMEDY = 'Choose another column, or set "Values of held-out rows" to those of its values that hold a row out.'
#: Names of columns of marks; of several tables, after the name of the table.
_NAMES = r"(.*\.)?((is|in|for|use)[ _.-]*(for[ _.-]*)?)?(%s)([ _.-]*(set|rows?|mask))?"
#: Those of which yes means training, and those of which it means held out.
_NAMES_TRAINING = re.compile(_NAMES % "train|training")
_NAMES_HELD_OUT = re.compile(_NAMES % "held[ _.-]*out|hold[ _.-]*out")
#: A whole number, which has a decimal where cells of its column are missing.
_WHOLE = re.compile(r"^(-?\d+)\.0$")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
#: A date, written with the time of its beginning.
_MIDNIGHT = re.compile(r"^(\d{4}-\d\d-\d\d)[ t]00:00:00(?:\.0+)?(?:[+-]\d\d:\d\d)?$")
#: Values that a message lists.
SHOWN = 4


@dataclass(frozen=True)
class Division:
    """Held-out and training rows as a column marks them.

    Attributes
    ----------
    column : str
    held, training : dict of str to int
        Values of the column as text, an empty one for empty cells, and how many rows have them.
    """

    column: str
    held: dict[str, int]
    training: dict[str, int]

    @property
    def n_held(self) -> int:
        """Rows held out."""
        return sum(self.held.values())

    @property
    def n_training(self) -> int:
        """Rows to train on."""
        return sum(self.training.values())

    @property
    def said(self) -> str:
        """The division in words.

        Examples
        --------
        >>> Division("train", {"F": 30}, {"T": 67}).said
        "30 rows held out, 67 to train on (column 'train': held out = F; training = T)"
        """
        sides = (("held out", self.held), ("training", self.training))
        marks = "; ".join(f"{side} = {_listed(values)}" for side, values in sides if values)
        return (
            f"{numbered(self.n_held, 'row')} held out, {self.n_training} to train on "
            f"(column {self.column!r}: {marks})"
        )

    @property
    def problem(self) -> str:
        """Why these rows cannot be divided so; empty where they can."""
        if self.held and self.training:
            return ""
        which = "all rows" if self.held else "no rows"
        return (
            f"Column {self.column!r} holds out {which}: its values are {_counted({**self.held, **self.training})}. "
            f"{REMEDY}"
        )

    def lines(self) -> list[str]:
        """Lines of a script that mark the held-out rows of a table."""
        side, sign = (self.training, "~") if "" in self.held else (self.held, "")
        # whole numbers are written with a decimal where cells are missing
        texts = [text for value in side if value for text in _spellings(_plain(value))]
        marks = f"table[{self.column!r}].astype(str).str.strip().str.lower()"
        if any(_DATE.fullmatch(text) for text in texts):
            marks += f".str.replace({_MIDNIGHT.pattern!r}, r'\\1', regex=True)"
        return [f"held = {sign}{marks}.isin({sorted(texts)!r}).to_numpy()"]


def read_division(column: Series, asked: str | Sequence[str] = "") -> tuple[NDArray[np.bool_], Division]:
    """Which rows a column holds out.

    Parameters
    ----------
    column : Series
    asked : str or list of str, default=""
        Values of held-out rows, an empty one for empty cells; all other rows are for training. Without them the words
        of `ACCEPTED` are read: yes means training in a column whose name says so, such as `train` or `is_train`, and
        held out in others. Empty cells are on the other side where all others are on one.

    Returns
    -------
    held : array of bool
    division : Division

    Raises
    ------
    InputError
        For values that cannot be read.

    Examples
    --------
    >>> import pandas as pd
    >>> read_division(pd.Series(["T", "F", "T"], name="train"))[1].said
    "1 row held out, 2 to train on (column 'train': held out = F; training = T)"
    """
    name = str(column.name)
    texts = texts_of(column)
    counts = counts_of(texts)
    wanted = {_plain(value) for value in names_in(asked)}
    sides = {text: _plain(text) in wanted for text in counts} if wanted else _by_words(name, counts)
    held = texts.map(sides).to_numpy(dtype=bool)
    return held, Division(
        name,
        {text: n for text, n in counts.items() if sides[text]},
        {text: n for text, n in counts.items() if not sides[text]},
    )


def seems_to_mark(column: Series) -> Division | None:
    """The division of a column that looks like marks of held-out rows, by its name or by words such as train and test.

    Examples
    --------
    >>> import pandas as pd
    >>> seems_to_mark(pd.Series(["test", "train", "train"], name="part")).said
    "1 row held out, 2 to train on (column 'part': held out = test; training = train)"
    >>> seems_to_mark(pd.Series([1, 0, 1], name="smoker")) is None
    True
    """
    name = str(column.name).strip().lower()
    if not (_NAMES_TRAINING.fullmatch(name) or _NAMES_HELD_OUT.fullmatch(name)):
        words = column.dropna().unique() if column.dtype.kind not in "biufcmM" else ()
        if not len(words) or any(_word(str(word)) not in (*HELD_OUT, *TRAINING) for word in words):
            return None
    with suppress(InputError):
        found = read_division(column)[1]
        return None if found.problem else found
    return None


def texts_of(column: Series) -> Series:
    """Cells as texts, empty ones where they are missing; dates without a time where that is midnight."""
    texts = column.astype(object).astype(str).str.strip().str.replace(_WHOLE, r"\1", regex=True)
    if column.dtype.kind == "M":
        texts = texts.str.replace(_MIDNIGHT, r"\1", regex=True)
    return texts.mask(column.isna(), "")


def counts_of(texts: Series) -> dict[str, int]:
    """How many rows have each text, the most frequent first."""
    return {str(text): int(n) for text, n in texts.value_counts().items()}


def _by_words(name: str, counts: Mapping[str, int]) -> dict[str, bool]:
    """Whether a text holds rows out, of texts in a column of this name."""
    yes_trains = _NAMES_TRAINING.fullmatch(name.strip().lower()) is not None
    words = {
        **dict.fromkeys(HELD_OUT, True),
        **dict.fromkeys(TRAINING, False),
        **dict.fromkeys(YES, not yes_trains),
        **dict.fromkeys(NO, yes_trains),
    }
    sides = {text: words.get(_word(text)) for text in counts if text}
    known = {side for side in sides.values() if side is not None}
    unread = {text: counts[text] for text, side in sides.items() if side is None}
    if "" in counts and len(known) != 1:
        unread[""] = counts[""]
    if unread:
        raise InputError(
            f"Column {name!r} does not say which rows are held out: expected {ACCEPTED}, got {_counted(unread)}. "
            f"{REMEDY}"
        )
    found = {text: bool(side) for text, side in sides.items()}
    # rows without a mark, where the others have the same one
    return found | ({"": not known.pop()} if "" in counts else {})


def _word(text: str) -> str:
    return re.sub(r"[ _-]", "", text.strip().lower())


def _plain(text: str) -> str:
    return _MIDNIGHT.sub(r"\1", _WHOLE.sub(r"\1", text.strip().lower()))


def _spellings(text: str) -> list[str]:
    return [text, f"{text}.0"] if text.removeprefix("-").isdigit() else [text]


def _shown(text: str) -> str:
    return (text if len(text) <= 30 else f"{text[:29]}…") or "an empty cell"


def _listed(values: Mapping[str, int]) -> str:
    names = [_shown(text) for text in list(values)[:SHOWN]]
    return ", ".join(names) + (f" and {len(values) - SHOWN} more" if len(values) > SHOWN else "")


def _counted(values: Mapping[str, int]) -> str:
    some = [f"{_shown(text)} ({numbered(n, 'row')})" for text, n in list(values.items())[:SHOWN]]
    return ", ".join(some) + (f" and {len(values) - SHOWN} more" if len(values) > SHOWN else "")
