"""Arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

#: One name or several after an option.
Names = Annotated[list[str] | None, Parameter(consume_multiple=True)]
Settings = Annotated[Path | None, Parameter(name="--spec")]
NoSeed = Annotated[int, Parameter(help="Every command takes it; here no random numbers are drawn.")]

# of commands on rows of tables of any size
Blocks = Annotated[
    str,
    Parameter(
        help="Blocks of features: a TOML file with a table [views] of names and columns, a GMT file, or the starts of "
        "the blocks and the end, such as 0,10,25. Default: every column is a block."
    ),
]
FeatureNames = Annotated[Names, Parameter(help="Columns that are features. Default: all others.")]
WeightColumn = Annotated[str, Parameter(help="Column of sample weights.")]
Folds = Annotated[int, Parameter(help="Folds for cross-validation; 0 for none.")]
FoldBy = Annotated[str, Parameter(help="row or file: what goes to a fold together.")]
TablesAtOnce = Annotated[int, Parameter(help="Tables at the same time; -1 for one per core.")]
FoldSeed = Annotated[int, Parameter(help="Other numbers make other folds.")]
