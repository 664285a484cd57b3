"""The tables of data sets, Table 2 of the RLS2 paper and Table 1 of the MLMKL paper: their numbers, counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelweave import banks, datasets
from kernelweave_papers.base import DATA_SET, Cell, Choices, Experiment, Options, Result, frame_of
from kernelweave_papers.mlmkl import table
from kernelweave_papers.mlmkl_grid import TRAINING
from kernelweave_papers.printed import RLS2_TABLE2

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


@dataclass(frozen=True)
class SizesOptions(Options):
    """Settings.

    Attributes
    ----------
    datasets : tuple of str
    """

    datasets: tuple[str, ...] = tuple(dict.fromkeys((*RLS2_TABLE2, *TRAINING)))

    def choices(self) -> Choices:
        """Data sets of the two tables."""
        return {"datasets": ((*RLS2_TABLE2, *TRAINING), DATA_SET)}


class Sizes(Experiment):
    """Rows, columns and kernels of the data sets, as the experiments use them."""

    name = "sizes"
    title = "Sizes of data sets, Table 2 of RLS2 and Table 1 of MLMKL"
    defaults = SizesOptions()
    quick = SizesOptions(datasets=("heart", "servo"))
    published = ("results",)

    def prepare(self, options: SizesOptions) -> list[str]:
        """Load every data set once."""
        return [repr(datasets.load(name, progress=True)) for name in options.datasets]

    def cells(self, options: SizesOptions) -> list[Cell]:
        """Data sets of each paper."""
        tables = {"rls2": tuple(RLS2_TABLE2), "mlmkl": tuple(TRAINING)}
        return [
            {"paper": paper, "dataset": name}
            for paper, names in tables.items()
            for name in options.datasets
            if name in names
        ]

    def run(self, cell: Cell, options: SizesOptions) -> Result:
        """Count complete rows, columns before categories become indicators, kernels, and the halves."""
        name = str(cell["dataset"])
        if cell["paper"] == "mlmkl":
            X, y = table(name)
            training = TRAINING[name]
            return {"rows": len(y), "features": X.shape[1], "training": training, "test": len(y) - training}
        data = datasets.load(name, protocol="rls2")
        return {
            "rows": len(data.y),
            "features": data.info.n_features,
            "standardised": int(data.standardized),
            "kernels": len(banks.rls2(data.X.shape[1])),
        }

    def tables(self, rows: list[tuple[Cell, Result]], options: SizesOptions) -> dict[str, DataFrame]:
        """``results``: one row for each data set of each table."""
        columns = ("paper", "dataset", "rows", "features", "standardised", "kernels", "training", "test")
        return {"results": frame_of(rows, *columns)}

    def figures(self, tables: Mapping[str, DataFrame]) -> Iterator[tuple[str, Figure]]:
        """None."""
        return iter(())
