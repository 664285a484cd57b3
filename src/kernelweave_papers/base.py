"""The declaration of an experiment: a grid of cells, the computation of one cell, and tables and figures."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from kernelweave import datasets
from kernelweave._errors import InputError, check_known

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

#: Coordinates of one computation, for example data set, split and method.
Cell = dict[str, str | int | float]
#: Name of an unknown data set in messages.
DATA_SET = "data set of this experiment"
#: Rows of a cell whose seconds are declared.
USUAL = 500
#: Setting -> its admissible entries, and the name of one entry in messages.
Choices = dict[str, tuple[Collection[str], str]]
#: Result of a cell: numbers, texts and lists of them, ready for JSON.
Result = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """Settings that all experiments share.

    Attributes
    ----------
    seed : int
        Seed of all random numbers.
    """

    #: The paper whose data sets are admissible, see `kernelweave.datasets.names`; empty if there is another list.
    protocol: ClassVar[str] = ""

    seed: int = 0

    def as_dict(self) -> dict[str, object]:
        """All settings, ready for JSON."""
        return json.loads(json.dumps(asdict(self)))

    def with_values(self, **given: Any) -> Options:
        """These settings with all changes that are not None; errors for unknown ones list the known."""
        known = [f.name for f in fields(self)]
        changed = {name: value for name, value in given.items() if value is not None}
        for name in changed:
            check_known(name, known, "option of this experiment")
        out = replace(self, **changed)
        out.check()
        return out

    def choices(self) -> Choices:
        """Settings with a fixed list of entries."""
        return {"datasets": (datasets.names(self.protocol), DATA_SET)} if self.protocol else {}

    def check(self) -> None:
        """Raise for settings that make no sense."""
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, tuple) and not value:
                raise InputError(f"`{f.name}` must name at least one, got none.")
            if isinstance(value, bool) or not isinstance(value, int) or f.name == "seed":
                continue
            least = 2 if f.name == "folds" else 1
            if value < least:
                raise InputError(f"`{f.name}` must be at least {least}, got {value}.")
        for setting, (known, what) in self.choices().items():
            for name in getattr(self, setting):
                check_known(name, known, what)


class Experiment(ABC):
    """An experiment of a paper."""

    name: ClassVar[str]
    title: ClassVar[str]
    #: Settings with their defaults, those of the paper.
    defaults: ClassVar[Options]
    #: Few data sets, divisions and parameters: every part of the experiment within a minute.
    quick: ClassVar[Options]
    #: Seconds of a cell on `USUAL` rows by its `kind`, for estimates of the remaining time.
    costs: ClassVar[Mapping[str, float]] = {}
    #: Settings, other than these, of a run for which a folder with data is given.
    with_data: ClassVar[Mapping[str, Any]] = {}
    #: Tables that are small enough to be kept with the documentation.
    published: ClassVar[tuple[str, ...]] = ()
    #: Columns of the first table that are printed; empty for all.
    shown: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def cells(self, options: Any) -> list[Cell]:
        """All cells, those that share data next to each other."""

    def prepare(self, options: Any) -> list[str]:
        """Load the data of the cells, or raise, before anything is computed; returns lines that describe them.

        By default all data sets of the options, encoded as in their paper; none if no paper is named.
        """
        if not options.protocol:
            return []
        return [
            repr(datasets.load(name, protocol=options.protocol, progress=True)) for name in options.datasets
        ]

    def kind(self, cell: Cell) -> str:
        """What cells have in common whose time grows alike: protocol and method."""
        return "/".join(str(cell[key]) for key in ("protocol", "method", "step") if cell.get(key))

    def rows(self, cell: Cell) -> int:
        """Rows of the data set of a cell, `USUAL` if it has none that is registered."""
        name = str(cell.get("dataset", ""))
        return datasets.info(name).n_samples if name in datasets.names() else USUAL

    @abstractmethod
    def run(self, cell: Cell, options: Any) -> Result:
        """Compute one cell. Depends only on its arguments and the data sets."""

    @abstractmethod
    def tables(self, rows: list[tuple[Cell, Result]], options: Any) -> dict[str, DataFrame]:
        """Summaries of the finished cells, in the order of `cells`."""

    @abstractmethod
    def figures(self, tables: Mapping[str, DataFrame]) -> Iterator[tuple[str, Figure]]:
        """Pictures of the tables, with their names."""


def frame_of(rows: list[tuple[Cell, Result]], *columns: str) -> DataFrame:
    """One row for each finished cell, with its result; columns of the results that none has are missing values.

    Parameters
    ----------
    rows : list of (cell, result)
    *columns : str
        Columns to take; all by default.
    """
    import pandas as pd

    frame = pd.DataFrame([{**cell, **result} for cell, result in rows])
    return frame.reindex(columns=list(columns)) if columns else frame


def cell_key(cell: Cell) -> str:
    """Text that identifies a cell."""
    return json.dumps(cell, sort_keys=True)
