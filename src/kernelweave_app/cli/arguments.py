"""Arguments that several commands have."""

from __future__ import annotations

import csv
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from cyclopts import Group, Parameter, Token

from kernelweave._errors import InputError
from kernelweave_app.cli.console import output

#: One value or several after an option.
SEVERAL = Parameter(consume_multiple=True)


def _numbers(_: object, tokens: Sequence[Token]) -> list[float]:
    try:
        return [float(part) for one in tokens for part in one.value.split(",") if part.strip()]
    except ValueError:
        given = " ".join(one.value for one in tokens)
        raise InputError(f"{tokens[0].keyword} must be numbers, got {given}.") from None


def _between_commas(_: object, tokens: Sequence[Token]) -> list[str]:
    rows = csv.reader([one.value for one in tokens], skipinitialspace=True)
    return [part for row in rows for part in row if part]


#: The same with commas between them; in names that hold commas these are quoted.
Numbers = Annotated[list[float] | None, Parameter(consume_multiple=True, converter=_numbers)]
Columns = Annotated[list[str] | None, Parameter(consume_multiple=True, converter=_between_commas)]
Names = Annotated[list[str] | None, SEVERAL]
Settings = Annotated[Path | None, Parameter(name="--spec")]
NoSeed = Annotated[
    int, Parameter(help="Not used: no random numbers are drawn. Every command accepts --seed.")
]

# of commands on rows of tables of any size
Folds = Annotated[int, Parameter(help="Folds for cross-validation; 0 for none.")]
FoldBy = Annotated[
    str, Parameter(help="Whether single rows or whole files are assigned to folds: row or file.")
]
FoldSeed = Annotated[int, Parameter(help="Seed of the random folds: another number makes other folds.")]


_OUTPUT = Group("Output", sort_key=1000)
Json = Annotated[
    bool,
    Parameter(
        help="Print one JSON object instead, see kernelweave schema.",
        group=_OUTPUT,
        negative=(),
        show_default=False,
    ),
]
Quiet = Annotated[
    bool, Parameter(help="Print nothing but errors.", group=_OUTPUT, negative=(), show_default=False)
]


def with_output(command: Callable[..., object]) -> Callable[..., object]:
    """A command with the options that all commands have: `json` and `quiet`."""

    @wraps(command)
    def call(*args: Any, json: bool = False, quiet: bool = False, **kwargs: Any) -> object:
        output().json, output().quiet = json, quiet
        return command(*args, **kwargs)

    hints = get_type_hints(command, include_extras=True)
    own = inspect.signature(command).parameters.values()
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in (("json", Json), ("quiet", Quiet))
    ]
    parameters = [*(one.replace(annotation=hints.get(one.name, one.annotation)) for one in own), *more]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in parameters}
    return call


@dataclass(frozen=True)
class NewTables:
    """What belongs to a table of new rows.

    Parameters
    ----------
    join
        Further tables, separated by commas, where the model was learnt from several: in the same order, or with the
        same names.
    key
        Column that names the rows; default that of the run.
    view
        Sparse views of the model, such as words=new.npz.
    gram
        Precomputed kernels of the model, such as grams.npz or similarity=new.npy: a row for each row of the table, a
        column for each training row, or for each row of the matrix of the fit.
    """

    join: str = ""
    key: str = ""
    view: Names = None
    gram: Names = None


@dataclass(frozen=True)
class RowTables:
    """How rows of tables of any number and size are read.

    Parameters
    ----------
    groups
        Blocks of features: a TOML file with a table [views] of names and columns, a GMT file, or the starts of the
        blocks and the end, such as 0,10,25. Default: every column is a block.
    columns
        Columns that are features. Default: all others.
    drop
        Columns to leave out, separated by commas.
    weight
        Column of sample weights.
    max_memory
        Memory to use for rows, a sample of them and sums, such as 2GB.
    jobs
        Number of tables read at the same time; -1 for one per core.
    """

    groups: str = ""
    columns: Columns = None
    drop: str = ""
    weight: str = ""
    max_memory: str = "auto"
    jobs: int = 1

    def arguments(self, tables: Any, target: Names | str) -> dict[str, Any]:
        """The same as functions of the library take it, for tables with a target."""
        groups, columns = block_ends(self.groups), self.columns
        if self.drop:
            groups, columns = self._without(tables, [target] if isinstance(target, str) else target or [])
        return {
            "groups": groups,
            "columns": columns,
            "weight": self.weight or None,
            "max_memory": None if self.max_memory == "auto" else self.max_memory,
            "n_jobs": self.jobs,
        }

    def _without(self, tables: Any, targets: list[str]) -> tuple[Any, list[str] | None]:
        """Blocks and columns without those that are left out."""
        from kernelweave._errors import check_known
        from kernelweave._forms import names_in
        from kernelweave.rows.files import columns_of, find_files
        from kernelweave.views.groups import expand_views, read_views

        known, groups = columns_of(next(iter(find_files(tables).values()))), block_ends(self.groups)
        gone = {check_known(name, known, "column in `drop`") for name in names_in(self.drop)}
        left = [name for name in known if name not in {*gone, *targets, self.weight}]
        if isinstance(groups, str):
            views = expand_views(read_views(groups), left, partial=groups.lower().endswith(".gmt"))
            return views, self.columns
        return groups, [name for name in self.columns or left if name not in gone]


def block_ends(groups: str) -> Any:
    """Ends of blocks in a text, or the path of a file."""
    parts = groups.split(",")
    return [int(part) for part in parts] if all(part.strip().isdigit() for part in parts) else groups or None


#: Without options.
ALONE, READ_WHOLE = NewTables(), RowTables()
