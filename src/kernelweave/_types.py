"""Types of what users pass and of other libraries, for readers and type checkers: nothing is imported for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    import numpy as np
    from anndata import AnnData
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.gridspec import SubplotSpec
    from mudata import MuData
    from numpy.typing import ArrayLike, NDArray
    from pandas import DataFrame, Index, Series
    from rich.console import Console
    from scipy.sparse import csr_array
    from sklearn.base import BaseEstimator
    from sklearn.model_selection import BaseCrossValidator

    #: An array of floats, or sparse rows of them.
    Values: TypeAlias = NDArray[np.float64] | csr_array
    #: Which rows: positions, a mask or a slice.
    RowIndex: TypeAlias = slice | Sequence[int] | NDArray[np.integer] | NDArray[np.bool_]
    #: Classes, or other values of rows: texts, integers, truth values, objects.
    Labels: TypeAlias = NDArray[np.generic]
    #: What anndata and mudata give; neither needs to be installed.
    AnnotatedTable: TypeAlias = AnnData | MuData
    #: A table: an array, a frame of pandas or polars, a sparse matrix, an annotated one.
    TableLike: TypeAlias = ArrayLike | DataFrame | csr_array | AnnData
    #: What estimators take as X: a table, or several of the same rows.
    Features: TypeAlias = TableLike | Mapping[str, TableLike] | Sequence[TableLike]
    #: How rows are split: the number of folds, a splitter of scikit-learn, or pairs of training and test rows.
    Splits: TypeAlias = int | BaseCrossValidator | Iterable[tuple[ArrayLike, ArrayLike]]
    #: Keywords for the functions of matplotlib that draw, each of which knows others.
    Style: TypeAlias = dict[str, Any]
    #: What JSON and TOML hold: trees of dicts, lists, texts and numbers. Any, because which keys there are and what is
    #: behind them is checked where a tree is read, and mypy cannot follow that.
    Tree: TypeAlias = dict[str, Any]
else:
    # some signatures are read at run time, for the rules that stand beside their parameters
    Artist = Axes = BaseCrossValidator = BaseEstimator = Console = DataFrame = Figure = Index = Series = (
        object
    )
    AnnData = AnnotatedTable = MuData = object
    Features = Labels = RowIndex = Splits = SubFigure = SubplotSpec = Style = TableLike = Tree = Values = (
        csr_array
    ) = object
