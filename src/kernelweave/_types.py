"""Types of arguments and of other libraries, for readers and type checkers; nothing is imported at run time."""

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
    from pandas import DataFrame, Series
    from pandas import Index as FrameIndex
    from rich.console import Console
    from scipy.sparse import csr_array
    from sklearn.base import BaseEstimator
    from sklearn.model_selection import BaseCrossValidator

    #: Numbers, and positions among rows, columns or kernels.
    Array: TypeAlias = NDArray[np.float64]
    Index: TypeAlias = NDArray[np.int64]
    #: An array of NumPy, PyTorch or another library with the array API, or a node of an ONNX graph. No type describes
    #: all of them.
    AnyArray: TypeAlias = Any
    #: An array of floats, or sparse rows of them.
    Values: TypeAlias = NDArray[np.float64] | csr_array
    #: A selection of rows: positions, a mask or a slice.
    RowIndex: TypeAlias = slice | Sequence[int] | NDArray[np.integer] | NDArray[np.bool_]
    #: Classes, or other values of rows: texts, integers, truth values, objects.
    Labels: TypeAlias = NDArray[np.generic]
    #: Objects of anndata and mudata; neither needs to be installed.
    AnnotatedTable: TypeAlias = AnnData | MuData
    #: A table: an array, a frame of pandas or polars, a sparse matrix, an annotated one.
    TableLike: TypeAlias = ArrayLike | DataFrame | csr_array | AnnData
    #: X of estimators: a table, or several of the same rows.
    Features: TypeAlias = TableLike | Mapping[str, TableLike] | Sequence[TableLike]
    #: Targets of rows: numbers, labels, or several columns of them.
    Target: TypeAlias = ArrayLike | DataFrame | Series
    #: Columns of a table: names, positions, a slice, a pattern of names, or a function of the table.
    ColumnsLike: TypeAlias = Sequence[str] | Sequence[int] | slice | str | int | Any
    #: Rows in chunks: arrays, files by name or pattern, frames, or an iterable of any of them.
    RowsLike: TypeAlias = Any
    #: A device of arrays, such as "cuda" or a device of torch.
    Device: TypeAlias = Any
    #: What ``kernels=`` takes: a list of kernels, a list for each view, a KernelBank, "precomputed" or None.
    KernelsLike: TypeAlias = Any
    #: What `fit` puts into a value, such as statistics of training rows; None before.
    FittedPart: TypeAlias = Any
    #: What was saved: a fitted estimator, or a pipeline.
    Fitted: TypeAlias = Any
    #: Splits of rows: the number of folds, a splitter of scikit-learn, or pairs of training and test rows.
    Splits: TypeAlias = int | BaseCrossValidator | Iterable[tuple[ArrayLike, ArrayLike]]
    #: Keyword arguments for drawing functions of matplotlib.
    Style: TypeAlias = dict[str, Any]
    #: A node of an ONNX graph, an array of ndonnx, which has no types.
    Node: TypeAlias = Any
    #: What JSON and TOML hold: trees of dicts, lists, texts and numbers. Any, because which keys there are and what is
    #: behind them is checked where a tree is read, and mypy cannot follow that.
    Tree: TypeAlias = dict[str, Any]
else:
    # some signatures are read at run time, for the rules that stand beside their parameters
    Artist = Axes = BaseCrossValidator = BaseEstimator = Console = DataFrame = Figure = FrameIndex = (
        Series
    ) = object
    AnnData = AnnotatedTable = AnyArray = Array = Index = MuData = object
    ColumnsLike = Device = Fitted = KernelsLike = FittedPart = RowsLike = Target = object
    Features = Labels = Node = RowIndex = Splits = SubFigure = SubplotSpec = Style = TableLike = Tree = (
        Values
    ) = csr_array = object
