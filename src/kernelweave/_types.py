"""Types of what users pass and of other libraries, for readers and type checkers: nothing is imported for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    import numpy as np
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.gridspec import SubplotSpec
    from numpy.typing import ArrayLike, NDArray
    from pandas import DataFrame, Index, Series
    from rich.console import Console
    from scipy.sparse import csr_array
    from sklearn.base import BaseEstimator
    from sklearn.model_selection import BaseCrossValidator

    #: Classes, or other values of rows: texts, integers, truth values, objects.
    Labels: TypeAlias = NDArray[np.generic]
    #: A table: an array, a frame of pandas or polars, a sparse matrix, an annotated one.
    TableLike: TypeAlias = ArrayLike | DataFrame | csr_array
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
    Features = Labels = Splits = SubFigure = SubplotSpec = Style = TableLike = Tree = csr_array = object
